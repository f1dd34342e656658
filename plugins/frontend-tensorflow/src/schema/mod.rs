//! The operators as TensorFlow registers them: names of inputs, attributes with their defaults, and outputs.
//!
//! `operators.txt` holds one operator in each line, written by `dump_operators.py`. Lines are sorted by name, so a
//! name is found by bisection, and a line is parsed when it is first asked for.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// `ConcatV2(values*N, axis; N: int, T: type, Tidx: type = int32) -> output`
#[derive(Debug)]
pub(crate) struct OperatorSignature {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<Arg>,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) outputs: Vec<Arg>,
}

/// An input or output.
#[derive(Debug)]
pub(crate) struct Arg {
    pub(crate) name: &'static str,
    pub(crate) count: Count,
}

/// How many tensors an input or output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    /// A list, as long as this attribute says.
    Number(&'static str),
    /// A list, with a tensor for each type that this attribute lists.
    Types(&'static str),
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    /// `int`, `list(int)`, `type`, ... in TensorFlow's spelling.
    pub(crate) kind: &'static str,
    pub(crate) default: Option<Default>,
}

/// The default of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Default {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'static str),
    /// A type's word in lower case, as in `float`, `int32`, `half`.
    Type(&'static str),
    List(Vec<Default>),
    /// A shape of which nothing is known.
    UnknownShape,
}

const OPERATORS: &str = include_str!("operators.txt");

/// The operators that were asked for, which stay for the life of the process.
static PARSED: LazyLock<Mutex<HashMap<&'static str, &'static OperatorSignature>>> =
    LazyLock::new(Mutex::default);

/// The operator of this name, if TensorFlow has it.
pub(crate) fn find(name: &str) -> Option<&'static OperatorSignature> {
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(operator) = parsed.get(name) {
        return Some(operator);
    }
    let operator: &'static OperatorSignature =
        Box::leak(Box::new(parse(line(name)?).expect("a test parses every line")));
    parsed.insert(operator.name, operator);
    Some(operator)
}

/// The line of an operator.
fn line(name: &str) -> Option<&'static str> {
    let (mut low, mut high) = (0, OPERATORS.len());
    while low < high {
        let middle = (low + high) / 2;
        let start = OPERATORS[..middle].rfind('\n').map_or(0, |at| at + 1);
        let line = OPERATORS[start..].lines().next().unwrap_or_default();
        if name_of(line) < name {
            low = start + line.len() + 1;
        } else {
            high = start;
        }
    }
    OPERATORS.get(low..)?.lines().next().filter(|line| name_of(line) == name)
}

fn name_of(line: &str) -> &str {
    line.split('(').next().unwrap_or_default()
}

fn parse(line: &'static str) -> Option<OperatorSignature> {
    let (name, rest) = line.split_once('(')?;
    let (head, outputs) = rest.rsplit_once(") ->")?;
    let (inputs, attrs) = head.split_once("; ").unwrap_or((head, ""));
    Some(OperatorSignature {
        name,
        inputs: items(inputs).into_iter().map(arg).collect(),
        attrs: items(attrs).into_iter().map(attribute).collect::<Option<_>>()?,
        outputs: items(outputs).into_iter().map(arg).collect(),
    })
}

/// What commas separate, but not those inside brackets and quotes.
fn items(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut quoted, mut start) = (0, false, 0);
    let mut found = vec![];
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '(' if !quoted => depth += 1,
            ']' | ')' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                found.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|item| !item.is_empty());
    found
}

fn arg(text: &'static str) -> Arg {
    match text.split_once('*') {
        None => Arg { name: text, count: Count::One },
        Some((name, list)) => match list.strip_prefix('*') {
            Some(types) => Arg { name, count: Count::Types(types) },
            None => Arg { name, count: Count::Number(list) },
        },
    }
}

fn attribute(text: &'static str) -> Option<Attribute> {
    let (name, rest) = text.split_once(": ")?;
    let (kind, default) = match rest.split_once(" = ") {
        Some((kind, default)) => (kind, Some(default)),
        None => (rest, None),
    };
    let item = kind.strip_prefix("list(").and_then(|kind| kind.strip_suffix(')'));
    let default = match (default, item) {
        (None, _) => None,
        (Some(text), Some(item)) => {
            let inside = text.strip_prefix('[')?.strip_suffix(']')?;
            let items = items(inside).into_iter().map(|text| value(item, text));
            Some(Default::List(items.collect::<Option<_>>()?))
        }
        (Some(text), None) => Some(value(kind, text)?),
    };
    Some(Attribute { name, kind, default })
}

fn value(kind: &str, text: &'static str) -> Option<Default> {
    Some(match kind {
        "int" => Default::Int(text.parse().ok()?),
        "float" => Default::Float(text.parse().ok()?),
        "bool" => Default::Bool(text == "true"),
        "string" => Default::Text(text.strip_prefix('"')?.strip_suffix('"')?),
        "type" => Default::Type(text),
        "shape" if text == "?" => Default::UnknownShape,
        "shape" => {
            let inside = text.strip_prefix('[')?.strip_suffix(']')?;
            let sizes = items(inside).into_iter().map(|text| value("int", text));
            Default::List(sizes.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
