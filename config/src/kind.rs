//! The type of a value: its check, its name for people, and how it is read from bare text.
//!
//! A file gives typed TOML values; the environment, the command line and INI files give text.
//! Both end in the same check.

use std::fmt;

use onnxd_diagnostics::{nearest, shown};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::params::special;
use crate::source::toml_value;
use crate::table::toml_text;

/// Longest list that is accepted.
const LIST_MAX: usize = 10_000;

/// What a setting or param accepts.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `true` or `false`; `1` and `0` where the value is given as text.
    Bool,
    /// An integer within both bounds.
    Int(i64, i64),
    /// A finite number within both bounds.
    Float(f64, f64),
    /// Any text without control characters.
    Text,
    /// A path on this machine; what it is relative to depends on where it was given.
    Path,
    /// One of the words, spelled exactly.
    OneOf(Vec<String>),
    /// A list of such values.
    List(Box<Kind>),
    /// What one of them accepts.
    AnyOf(Vec<Kind>),
    /// Anything else: its name for people, and the check, which may normalize the value.
    Special(&'static str, fn(Value) -> Result<Value, String>),
    /// `none`, or a quantizer: one of these names, in any letter case, or an id.
    Quantizer(Vec<String>),
}

impl Kind {
    /// One of the words.
    pub(crate) fn words(words: &[&str]) -> Kind {
        Kind::OneOf(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// A kind in the notation of a row: `1..16 | 32`, `None | MSE`, `[text]`.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn parse(text: &str) -> Result<Kind, String> {
        let mut kinds = Vec::new();
        let mut words = Vec::new();
        for part in text.split('|').map(str::trim) {
            match named(part)? {
                Some(kind) => kinds.push(kind),
                None => words.push(part.to_owned()),
            }
        }
        if !words.is_empty() {
            kinds.insert(0, Kind::OneOf(words));
        }
        Ok(if kinds.len() == 1 { kinds.remove(0) } else { Kind::AnyOf(kinds) })
    }

    /// The value in its normal form, or what it must be instead.
    pub fn check(&self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (Kind::Bool, v @ Value::Bool(_)) => Ok(v),
            (Kind::Int(min, max), v) if v.as_i64().is_some_and(|i| (*min..=*max).contains(&i)) => {
                Ok(v)
            }
            (Kind::Float(min, max), v) => match v.as_f64() {
                Some(x) if (*min..=*max).contains(&x) => Ok(Value::from(x)),
                _ => Err(self.refuse(&v)),
            },
            (Kind::Text | Kind::Path, Value::String(s)) => self.check_text(s),
            (Kind::OneOf(words), Value::String(s)) => check_word(words, s),
            (Kind::List(_), Value::Array(values)) if values.len() > LIST_MAX => {
                Err(format!("must have at most {LIST_MAX} items, not {}", values.len()))
            }
            (Kind::List(item), Value::Array(values)) => {
                values.into_iter().map(|v| item.check(v)).collect()
            }
            (Kind::AnyOf(kinds), v) => {
                let fitting = kinds.iter().find_map(|kind| kind.check(v.clone()).ok());
                fitting.ok_or_else(|| self.refuse(&v))
            }
            (Kind::Special(_, check), v) => check(v),
            (Kind::Quantizer(names), v) => special::check_quantizer(names, v),
            (_, v) => Err(self.refuse(&v)),
        }
    }

    /// The value of a piece of text: as TOML if that fits, else as it stands.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let typed = toml_value(text).map(|v| self.check(v));
        match typed {
            Some(Ok(value)) => Ok(value),
            Some(Err(why)) => self.read_bare(text).map_err(|_| why),
            None => self.read_bare(text),
        }
    }

    fn read_bare(&self, text: &str) -> Result<Value, String> {
        match (self, text) {
            (Kind::Bool, "1" | "true") => Ok(Value::Bool(true)),
            (Kind::Bool, "0" | "false") => Ok(Value::Bool(false)),
            (Kind::List(item), _) => {
                let separator = if matches!(**item, Kind::Path) { ':' } else { ',' };
                let words = text.split(separator).map(str::trim).filter(|w| !w.is_empty());
                let values = words.map(|w| item.read(w)).collect::<Result<_, _>>()?;
                self.check(Value::Array(values))
            }
            _ => self.check(Value::from(text)),
        }
    }

    fn check_text(&self, text: String) -> Result<Value, String> {
        let empty_path = matches!(self, Kind::Path) && text.is_empty();
        if empty_path || text.chars().any(char::is_control) {
            return Err(self.refuse(&Value::String(text)));
        }
        Ok(Value::String(text))
    }

    fn refuse(&self, found: &Value) -> String {
        refusal(&self.to_string(), found)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        Kind::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The kind that a part of a notation names; `None` for a word.
fn named(part: &str) -> Result<Option<Kind>, String> {
    if let Some(item) = part.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Ok(Some(Kind::List(Box::new(Kind::parse(item)?))));
    }
    if part.contains("..") {
        return range(part).map(Some).ok_or_else(|| format!("`{}` is no range", shown(part)));
    }
    if let Ok(number) = part.parse() {
        return Ok(Some(Kind::Int(number, number)));
    }
    let found = match part {
        "bool" => Kind::Bool,
        "int" => Kind::Int(i64::MIN, i64::MAX),
        "float" => Kind::Float(f64::MIN, f64::MAX),
        "text" => Kind::Text,
        "dtype" => Kind::words(&special::DTYPES),
        "quantizer" => Kind::Quantizer(Vec::new()),
        other => match special::KINDS.iter().find(|(name, ..)| *name == other) {
            Some((_, about, check)) => Kind::Special(about, *check),
            None if is_word(other) => return Ok(None),
            None => return Err(format!("`{}` is no type", shown(other))),
        },
    };
    Ok(Some(found))
}

/// Words have no blanks, brackets and quotes, so that further types can be added.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./".contains(c))
}

/// `1..16` or `0.0..`: of numbers with a fraction if a bound has one.
fn range(text: &str) -> Option<Kind> {
    let (low, high) = text.split_once("..")?;
    if low.contains('.') || high.contains('.') {
        let bound = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
        return Some(Kind::Float(bound(low, f64::MIN)?, bound(high, f64::MAX)?));
    }
    let bound = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some(Kind::Int(bound(low, i64::MIN)?, bound(high, i64::MAX)?))
}

/// `must be WANTED, not FOUND`, with what was found bounded.
pub(crate) fn refusal(wanted: &str, found: &Value) -> String {
    let found = shown(&toml_text(found)).replace("\\\"", "\"").replace("\\'", "'");
    format!("must be {wanted}, not {found}")
}

fn check_word(words: &[String], word: String) -> Result<Value, String> {
    if words.contains(&word) {
        return Ok(Value::String(word));
    }
    let refusal = refusal(&alternatives(words), &Value::from(word.as_str()));
    match nearest(&word, words.iter().map(String::as_str)) {
        Some(near) => Err(format!("{refusal}; did you mean `{near}`?")),
        None => Err(refusal),
    }
}

fn alternatives(words: &[String]) -> String {
    words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(" | ")
}

/// The type as help shows it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => write!(f, "true | false"),
            Kind::Int(min, max) if min == max => write!(f, "{min}"),
            Kind::Int(i64::MIN, i64::MAX) => write!(f, "an integer"),
            Kind::Int(min, i64::MAX) => write!(f, "an integer of at least {min}"),
            Kind::Int(min, max) => write!(f, "an integer from {min} to {max}"),
            Kind::Float(f64::MIN, f64::MAX) => write!(f, "a number"),
            Kind::Float(min, f64::MAX) => write!(f, "a number of at least {min}"),
            Kind::Float(min, max) => write!(f, "a number from {min} to {max}"),
            Kind::Text => write!(f, "text"),
            Kind::Path => write!(f, "a path"),
            Kind::OneOf(words) => write!(f, "{}", alternatives(words)),
            Kind::List(item) => write!(f, "a list, each {item}"),
            Kind::AnyOf(kinds) => {
                let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
                write!(f, "{}", kinds.join(" | "))
            }
            Kind::Special(name, _) => write!(f, "{name}"),
            Kind::Quantizer(names) => {
                let names = names.iter().map(|name| format!("\"{name}\" | "));
                write!(f, "\"none\" | {}id of a quantizer", names.collect::<String>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(item: Kind) -> Kind {
        Kind::List(Box::new(item))
    }

    fn parsed(text: &str) -> Kind {
        Kind::parse(text).unwrap()
    }

    #[test]
    fn typed_values_are_checked() {
        let cases = [
            (Kind::Bool, json!(true), true),
            (Kind::Bool, json!(1), false),
            (Kind::Int(1, 9), json!(9), true),
            (Kind::Int(1, 9), json!(10), false),
            (Kind::Int(1, 9), json!(1.0), false),
            (Kind::Float(0.0, 1.0), json!(1), true),
            (Kind::Float(0.0, 1.0), json!(-0.1), false),
            (Kind::Text, json!("a b"), true),
            (Kind::Text, json!("a\nb"), false),
            (Kind::Path, json!(""), false),
            (parsed("move | delete"), json!("move"), true),
            (parsed("move | delete"), json!("Move"), false),
            (list(Kind::Text), json!(["a"]), true),
            (list(Kind::Text), json!([1]), false),
            (list(Kind::Text), json!("a"), false),
        ];
        for (kind, value, good) in cases {
            assert_eq!(kind.check(value.clone()).is_ok(), good, "{kind}: {value}");
        }
    }

    #[test]
    fn text_is_typed_first_then_bare() {
        let cases = [
            (Kind::Text, "2024", json!("2024")),
            (Kind::Text, "\"a b\"", json!("a b")),
            (Kind::Bool, "1", json!(true)),
            (Kind::Bool, "false", json!(false)),
            (Kind::Int(0, 9), "0x5", json!(5)),
            (Kind::Float(0.0, 9.0), "1e-1", json!(0.1)),
            (list(Kind::Text), "a, b", json!(["a", "b"])),
            (list(Kind::Text), "[\"a, b\"]", json!(["a, b"])),
            (list(Kind::Path), "/a:/b", json!(["/a", "/b"])),
            (list(Kind::Int(0, 9)), "1,2", json!([1, 2])),
        ];
        for (kind, text, value) in cases {
            assert_eq!(kind.read(text), Ok(value), "{kind}: {text}");
        }
    }

    #[test]
    fn refusals_name_what_is_accepted() {
        let why = parsed("move | delete").check(json!("mvoe")).unwrap_err();
        assert_eq!(why, "must be \"move\" | \"delete\", not \"mvoe\"; did you mean `move`?");
        let why = Kind::Int(1, 9).read("ten").unwrap_err();
        assert_eq!(why, "must be an integer from 1 to 9, not \"ten\"");
        let why = Kind::Float(0.0, 1.0).read("nan").unwrap_err();
        assert!(why.starts_with("must be a number from 0 to 1"), "{why}");
    }
}
