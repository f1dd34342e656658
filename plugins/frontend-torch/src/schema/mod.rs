//! The signatures of operators as torch declares them, and which of them a call means.
//!
//! `signatures.txt` holds one signature in each line, written by `dump_signatures.py`. Lines are sorted by name, so a
//! name is found by bisection, and a signature is parsed when it is first asked for.

mod parse;
pub(crate) mod resolve;
#[cfg(test)]
mod tests;
pub(crate) mod upgrade;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// One overload: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
#[derive(Debug)]
pub(crate) struct Schema {
    /// `aten::add`
    pub(crate) name: &'static str,
    /// `Tensor`; empty for the overload without name (`default` in exported programs).
    pub(crate) overload: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    /// `...`: takes any further arguments.
    pub(crate) variadic: bool,
    pub(crate) returns: Vec<Return>,
    /// All of it, as torch prints it.
    pub(crate) text: &'static str,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) ty: ArgType,
    pub(crate) default: Option<Default>,
    pub(crate) named_only: bool,
    pub(crate) alias: Option<Alias>,
}

#[derive(Debug)]
pub(crate) struct Return {
    pub(crate) ty: ArgType,
    pub(crate) alias: Option<Alias>,
}

/// `(a)`, `(a!)`, `(a -> *)`: shares memory with what has the same letter; `!` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    /// `a`; `*` is memory of anything.
    pub(crate) set: &'static str,
    pub(crate) writes: bool,
}

/// The type of a parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgType {
    Tensor,
    /// `Scalar`, `number`
    Scalar,
    /// `int`, `SymInt`, also dtypes, layouts and memory formats
    Int,
    Float,
    Bool,
    Complex,
    Text,
    Device,
    Generator,
    /// `int[2]` takes one number for all; `int[]` does not.
    List(Box<ArgType>, Option<usize>),
    Optional(Box<ArgType>),
    Dict(Box<ArgType>, Box<ArgType>),
    Tuple(Vec<ArgType>),
    /// A type variable (`t`), `Any`, `AnyEnumType`, and classes.
    Other(&'static str),
}

impl ArgType {
    /// Whether it is a tensor, or a list or option of tensors.
    pub(crate) fn holds_tensors(&self) -> bool {
        match self {
            ArgType::Tensor => true,
            ArgType::List(of, _) | ArgType::Optional(of) => of.holds_tensors(),
            _ => false,
        }
    }
}

/// The default of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Default {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'static str),
    /// `[]` of any type is an empty list of these.
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Floats(Vec<f64>),
}

const SIGNATURES: &str = include_str!("signatures.txt");

/// The overloads of a name that were asked for, which stay for the life of the process.
static PARSED: LazyLock<Mutex<HashMap<&'static str, &'static [Schema]>>> =
    LazyLock::new(Mutex::default);

/// The overloads of `aten::add` in the order in which torch tries them; none for an operator that torch does not have.
pub(crate) fn overloads(name: &str) -> &'static [Schema] {
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(schemas) = parsed.get(name) {
        return schemas;
    }
    let schemas: Vec<_> =
        lines(name).map(|line| parse::schema(line).expect("a test parses every line")).collect();
    let Some(first) = schemas.first() else {
        return &[];
    };
    let (name, schemas) = (first.name, &*schemas.leak());
    parsed.insert(name, schemas);
    schemas
}

/// One overload by its name; `default` is the one without name, as exported programs write it.
pub(crate) fn find(name: &str, overload: &str) -> Option<&'static Schema> {
    let overload = if overload == "default" { "" } else { overload };
    overloads(name).iter().find(|schema| schema.overload == overload)
}

/// The lines of an operator.
fn lines(name: &str) -> impl Iterator<Item = &'static str> {
    SIGNATURES[first_line(name)..].lines().take_while(move |line| name_of(line) == name)
}

/// Where the first line starts whose name is not less than `name`.
fn first_line(name: &str) -> usize {
    let (mut low, mut high) = (0, SIGNATURES.len());
    while low < high {
        let middle = (low + high) / 2;
        let start = SIGNATURES[..middle].rfind('\n').map_or(0, |at| at + 1);
        let line = SIGNATURES[start..].lines().next().unwrap_or_default();
        if name_of(line) < name {
            low = start + line.len() + 1;
        } else {
            high = start;
        }
    }
    low
}

fn name_of(line: &str) -> &str {
    line.split(['.', '(']).next().unwrap_or_default()
}
