//! The operators of TFLite: names of inputs and options, and what they are in TensorFlow. `operators.txt` says how its
//! lines are to be read.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The number of operators that have names of their own.
pub(crate) const CUSTOM: i64 = 32;

/// An operator.
#[derive(Debug, PartialEq)]
pub(crate) struct OperatorRow {
    pub(crate) code: i64,
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<Input>,
    /// The table of its options.
    pub(crate) options: Option<&'static str>,
    /// The operator of TensorFlow that it is.
    pub(crate) same_as: Option<&'static str>,
    /// Options with other names than their own; one without a name is not passed on.
    pub(crate) renamed: Vec<(&'static str, Option<&'static str>)>,
    /// Further arguments.
    pub(crate) more: Vec<(&'static str, DerivedArgument)>,
    /// Why it cannot be converted, as the end of a sentence.
    pub(crate) refused: Option<&'static str>,
}

impl OperatorRow {
    /// Whether its row gives the states at the end behind its results, if it is asked for them.
    pub(crate) fn keeps_states(&self) -> bool {
        matches!(self.name, "RNN" | "SVDF")
            || self.name.ends_with("LSTM")
            || self.name.ends_with("SEQUENCE_RNN")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) name: &'static str,
    pub(crate) many: Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    One,
    /// It may be missing.
    Maybe,
    /// All that are left.
    Rest,
}

/// An argument that is no option of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DerivedArgument {
    /// The element type of the first result.
    Type,
    /// The sizes of the first result.
    Shape,
    /// A word, truth value or number.
    Word(&'static str),
}

const OPERATORS: &str = include_str!("operators.txt");

struct OperatorTable {
    by_code: HashMap<i64, OperatorRow>,
    custom: HashMap<&'static str, OperatorRow>,
}

static TABLE: LazyLock<OperatorTable> = LazyLock::new(|| {
    let parsed = lines().map(|line| parse(line).expect("a test parses every line"));
    let (custom, built_in) = parsed.partition::<Vec<_>, _>(|operator| operator.code == CUSTOM);
    OperatorTable {
        by_code: built_in.into_iter().map(|operator| (operator.code, operator)).collect(),
        custom: custom.into_iter().map(|operator| (operator.name, operator)).collect(),
    }
});

fn lines() -> impl Iterator<Item = &'static str> {
    OPERATORS.lines().filter(|line| !line.starts_with('#'))
}

/// The operator with this number, or the custom one of this name.
pub(crate) fn find(code: i64, custom: &str) -> Option<&'static OperatorRow> {
    match code {
        CUSTOM => TABLE.custom.get(custom),
        code => TABLE.by_code.get(&code),
    }
}

/// All operators, custom ones too.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = &'static OperatorRow> {
    TABLE.by_code.values().chain(TABLE.custom.values())
}

fn parse(line: &'static str) -> Option<OperatorRow> {
    let (line, refused) = match line.split_once(" refused: ") {
        Some((line, reason)) => (line, Some(reason)),
        None => (line, None),
    };
    let (code, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once('(')?;
    let (inputs, rest) = rest.split_once(')')?;
    let inputs = inputs.split(", ").filter(|text| !text.is_empty()).map(input).collect();
    let (code, options, same_as) = (code.parse().ok()?, None, None);
    let (renamed, more) = (vec![], vec![]);
    let mut operator = OperatorRow { code, name, inputs, options, same_as, renamed, more, refused };
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        if word == "->" {
            operator.same_as = Some(words.next()?);
        } else if let Some((name, value)) = word.split_once(":=") {
            operator.more.push((name, given(value)));
        } else if let Some((option, name)) = word.split_once('=') {
            operator.renamed.push((option, Some(name).filter(|name| !name.is_empty())));
        } else {
            operator.options = Some(word);
        }
    }
    Some(operator)
}

fn input(text: &'static str) -> Input {
    let with = |many| move |name| Input { name, many };
    let maybe = text.strip_suffix('?').map(with(Many::Maybe));
    let rest = || text.strip_suffix('*').map(with(Many::Rest));
    maybe.or_else(rest).unwrap_or(Input { name: text, many: Many::One })
}

fn given(text: &'static str) -> DerivedArgument {
    match text {
        "@type" => DerivedArgument::Type,
        "@shape" => DerivedArgument::Shape,
        word => DerivedArgument::Word(word),
    }
}

#[cfg(test)]
mod tests;
