//! Identifiers: which names stand as they are, and how others are spelled.

use crate::DataType;
use std::fmt;

/// Whether `name` consists of letters, digits and underscores and does not start with a digit.
pub fn is_plain_identifier(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// The plain identifier nearest to `name`: every other character becomes an underscore.
pub fn plain_identifier(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut out: String = name.chars().map(plain).collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    out
}

/// Whether `word` begins a type.
pub(super) fn is_type_word(word: &str) -> bool {
    matches!(word, "seq" | "map" | "optional" | "sparse_tensor" | "opaque" | "undefined")
        || DataType::parse(word).is_some()
}

/// Whether `word` is a floating-point number spelled in letters.
pub(super) fn is_float_word(word: &str) -> bool {
    ["inf", "infinity", "nan"].iter().any(|w| word.eq_ignore_ascii_case(w))
}

/// Whether a value or graph of this name needs no quotes.
fn stands_alone(name: &str) -> bool {
    is_plain_identifier(name) && !is_type_word(name) && !is_float_word(name)
}

/// The name of a value or graph, quoted if needed.
pub(crate) struct Id<'a>(pub &'a str);

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if stands_alone(self.0) { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

/// A name where the grammar expects a word: an operator, an attribute. Quotes are an extension.
pub(super) struct Word<'a>(pub &'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain_identifier(self.0) { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

/// A string literal.
pub(super) struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut rest = self.0;
        while let Some(i) = rest.find(['"', '\\']) {
            write!(f, "{}\\{}", &rest[..i], &rest[i..=i])?;
            rest = &rest[i + 1..];
        }
        write!(f, "{rest}\"")
    }
}

/// The name of a sub-graph: the official grammar allows no quotes there, and the name carries no
/// meaning.
pub(super) fn subgraph_name(name: &str) -> String {
    let plain = plain_identifier(name);
    if stands_alone(&plain) { plain } else { format!("{plain}_graph") }
}
