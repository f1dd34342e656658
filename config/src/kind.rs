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
pub enum ValueKind {
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
    List(Box<ValueKind>),
    /// What one of them accepts.
    AnyOf(Vec<ValueKind>),
    /// Anything else: its name for people, and the check, which may normalize the value.
    Special(&'static str, fn(Value) -> Result<Value, String>),
    /// `none`, or a quantizer: one of these names, in any letter case, or an id.
    Quantizer(Vec<String>),
}

impl ValueKind {
    /// One of the words.
    pub(crate) fn words(words: &[&str]) -> ValueKind {
        ValueKind::OneOf(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// A kind in the notation of a row: `1..16 | 32`, `None | MSE`, `[text]`.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn parse(text: &str) -> Result<ValueKind, String> {
        let mut kinds = Vec::new();
        let mut words = Vec::new();
        for part in text.split('|').map(str::trim) {
            match named(part)? {
                Some(kind) => kinds.push(kind),
                None => words.push(part.to_owned()),
            }
        }
        if !words.is_empty() {
            kinds.insert(0, ValueKind::OneOf(words));
        }
        Ok(if kinds.len() == 1 { kinds.remove(0) } else { ValueKind::AnyOf(kinds) })
    }

    /// The value in its normal form, or what it must be instead.
    pub fn check(&self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (ValueKind::Bool, v @ Value::Bool(_)) => Ok(v),
            (ValueKind::Int(min, max), v)
                if v.as_i64().is_some_and(|i| (*min..=*max).contains(&i)) =>
            {
                Ok(v)
            }
            (ValueKind::Float(min, max), v) => match v.as_f64() {
                Some(x) if (*min..=*max).contains(&x) => Ok(Value::from(x)),
                _ => Err(self.refuse(&v)),
            },
            (ValueKind::Text | ValueKind::Path, Value::String(s)) => self.check_text(s),
            (ValueKind::OneOf(words), Value::String(s)) => check_word(words, s),
            (ValueKind::List(_), Value::Array(values)) if values.len() > LIST_MAX => {
                Err(format!("must have at most {LIST_MAX} items, not {}", values.len()))
            }
            (ValueKind::List(item), Value::Array(values)) => {
                values.into_iter().map(|v| item.check(v)).collect()
            }
            (ValueKind::AnyOf(kinds), v) => {
                let fitting = kinds.iter().find_map(|kind| kind.check(v.clone()).ok());
                fitting.ok_or_else(|| self.refuse(&v))
            }
            (ValueKind::Special(_, check), v) => check(v),
            (ValueKind::Quantizer(names), v) => special::check_quantizer(names, v),
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
            (ValueKind::Bool, "1" | "true") => Ok(Value::Bool(true)),
            (ValueKind::Bool, "0" | "false") => Ok(Value::Bool(false)),
            (ValueKind::List(item), _) => {
                let separator = if matches!(**item, ValueKind::Path) { ':' } else { ',' };
                let words = text.split(separator).map(str::trim).filter(|w| !w.is_empty());
                let values = words.map(|w| item.read(w)).collect::<Result<_, _>>()?;
                self.check(Value::Array(values))
            }
            _ => self.check(Value::from(text)),
        }
    }

    fn check_text(&self, text: String) -> Result<Value, String> {
        let empty_path = matches!(self, ValueKind::Path) && text.is_empty();
        if empty_path || text.chars().any(char::is_control) {
            return Err(self.refuse(&Value::String(text)));
        }
        Ok(Value::String(text))
    }

    fn refuse(&self, found: &Value) -> String {
        refusal(&self.to_string(), found)
    }
}

impl<'de> Deserialize<'de> for ValueKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ValueKind, D::Error> {
        ValueKind::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The kind that a part of a notation names; `None` for a word.
fn named(part: &str) -> Result<Option<ValueKind>, String> {
    if let Some(item) = part.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Ok(Some(ValueKind::List(Box::new(ValueKind::parse(item)?))));
    }
    if part.contains("..") {
        return range(part).map(Some).ok_or_else(|| format!("`{}` is no range", shown(part)));
    }
    if let Ok(number) = part.parse() {
        return Ok(Some(ValueKind::Int(number, number)));
    }
    let found = match part {
        "bool" => ValueKind::Bool,
        "int" => ValueKind::Int(i64::MIN, i64::MAX),
        "float" => ValueKind::Float(f64::MIN, f64::MAX),
        "text" => ValueKind::Text,
        "dtype" => ValueKind::words(&special::DTYPES),
        "quantizer" => ValueKind::Quantizer(Vec::new()),
        other => match special::KINDS.iter().find(|(name, ..)| *name == other) {
            Some((_, about, check)) => ValueKind::Special(about, *check),
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
fn range(text: &str) -> Option<ValueKind> {
    let (low, high) = text.split_once("..")?;
    if low.contains('.') || high.contains('.') {
        let bound = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
        return Some(ValueKind::Float(bound(low, f64::MIN)?, bound(high, f64::MAX)?));
    }
    let bound = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some(ValueKind::Int(bound(low, i64::MIN)?, bound(high, i64::MAX)?))
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
impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKind::Bool => write!(f, "true | false"),
            ValueKind::Int(min, max) if min == max => write!(f, "{min}"),
            ValueKind::Int(i64::MIN, i64::MAX) => write!(f, "an integer"),
            ValueKind::Int(min, i64::MAX) => write!(f, "an integer of at least {min}"),
            ValueKind::Int(min, max) => write!(f, "an integer from {min} to {max}"),
            ValueKind::Float(f64::MIN, f64::MAX) => write!(f, "a number"),
            ValueKind::Float(min, f64::MAX) => write!(f, "a number of at least {min}"),
            ValueKind::Float(min, max) => write!(f, "a number from {min} to {max}"),
            ValueKind::Text => write!(f, "text"),
            ValueKind::Path => write!(f, "a path"),
            ValueKind::OneOf(words) => write!(f, "{}", alternatives(words)),
            ValueKind::List(item) => write!(f, "a list, each {item}"),
            ValueKind::AnyOf(kinds) => {
                let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
                write!(f, "{}", kinds.join(" | "))
            }
            ValueKind::Special(name, _) => write!(f, "{name}"),
            ValueKind::Quantizer(names) => {
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

    fn list(item: ValueKind) -> ValueKind {
        ValueKind::List(Box::new(item))
    }

    fn parsed(text: &str) -> ValueKind {
        ValueKind::parse(text).unwrap()
    }

    #[test]
    fn typed_values_are_checked() {
        let cases = [
            (ValueKind::Bool, json!(true), true),
            (ValueKind::Bool, json!(1), false),
            (ValueKind::Int(1, 9), json!(9), true),
            (ValueKind::Int(1, 9), json!(10), false),
            (ValueKind::Int(1, 9), json!(1.0), false),
            (ValueKind::Float(0.0, 1.0), json!(1), true),
            (ValueKind::Float(0.0, 1.0), json!(-0.1), false),
            (ValueKind::Text, json!("a b"), true),
            (ValueKind::Text, json!("a\nb"), false),
            (ValueKind::Path, json!(""), false),
            (parsed("move | delete"), json!("move"), true),
            (parsed("move | delete"), json!("Move"), false),
            (list(ValueKind::Text), json!(["a"]), true),
            (list(ValueKind::Text), json!([1]), false),
            (list(ValueKind::Text), json!("a"), false),
        ];
        for (kind, value, good) in cases {
            assert_eq!(kind.check(value.clone()).is_ok(), good, "{kind}: {value}");
        }
    }

    #[test]
    fn text_is_typed_first_then_bare() {
        let cases = [
            (ValueKind::Text, "2024", json!("2024")),
            (ValueKind::Text, "\"a b\"", json!("a b")),
            (ValueKind::Bool, "1", json!(true)),
            (ValueKind::Bool, "false", json!(false)),
            (ValueKind::Int(0, 9), "0x5", json!(5)),
            (ValueKind::Float(0.0, 9.0), "1e-1", json!(0.1)),
            (list(ValueKind::Text), "a, b", json!(["a", "b"])),
            (list(ValueKind::Text), "[\"a, b\"]", json!(["a, b"])),
            (list(ValueKind::Path), "/a:/b", json!(["/a", "/b"])),
            (list(ValueKind::Int(0, 9)), "1,2", json!([1, 2])),
        ];
        for (kind, text, value) in cases {
            assert_eq!(kind.read(text), Ok(value), "{kind}: {text}");
        }
    }

    #[test]
    fn refusals_name_what_is_accepted() {
        let why = parsed("move | delete").check(json!("mvoe")).unwrap_err();
        assert_eq!(why, "must be \"move\" | \"delete\", not \"mvoe\"; did you mean `move`?");
        let why = ValueKind::Int(1, 9).read("ten").unwrap_err();
        assert_eq!(why, "must be an integer from 1 to 9, not \"ten\"");
        let why = ValueKind::Float(0.0, 1.0).read("nan").unwrap_err();
        assert!(why.starts_with("must be a number from 0 to 1"), "{why}");
    }
}
