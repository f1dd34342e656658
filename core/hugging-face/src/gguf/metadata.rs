//! Keys with values, each noted when it is read, so that a key which nothing reads is told.

use super::cursor::Cursor;
use crate::diag::{Code, Diagnostic, shown};
use crate::problem::{damaged, over_limit, truncated};
use bytes::Bytes;
use serde_json::{Number, Value as Json, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Lists inside each other.
const NESTING_MAX: usize = 4;

/// Numbers of a list that is read as a whole: one for each layer, or for each pair of a head.
const NUMBERS_MAX: usize = 1 << 16;

/// Keys without a reader that are told by themselves.
const TOLD_MAX: usize = 5;

/// Bytes of a text that is shown.
const SHOWN_MAX: usize = 200;

const TEXT: u32 = 8;
const LIST: u32 = 9;

/// Types of values that have a fixed size, by their numbers.
const SIZES: [(u32, usize); 11] =
    [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)];

fn size_of_type(kind: u32) -> Option<usize> {
    SIZES.iter().find(|(known, _)| *known == kind).map(|(_, size)| *size)
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(Bytes),
    List(List),
}

/// Values of one type, which stay where they are.
#[derive(Clone, Debug)]
pub(crate) struct List {
    kind: u32,
    count: usize,
    bytes: Bytes,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The texts, if it is a list of such.
    pub(crate) fn texts(&self) -> Option<impl Iterator<Item = &[u8]>> {
        let mut rest: &[u8] = &self.bytes;
        let next = move || {
            // That lengths lie within the list was checked when it was read.
            let (length, behind) = rest.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (text, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(text)
        };
        (self.kind == TEXT).then(|| std::iter::from_fn(next))
    }

    /// The numbers, if it is a list of such.
    pub(crate) fn numbers(&self) -> Option<impl Iterator<Item = f64>> {
        let size = size_of_type(self.kind)?;
        let number = |bytes: &[u8]| scalar(self.kind, bytes).number();
        Some(self.bytes.chunks_exact(size).filter_map(number))
    }
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Value::Unsigned(n) => Some(*n as f64),
            Value::Signed(n) => Some(*n as f64),
            Value::Float(n) => Some(*n),
            Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
            Value::Text(_) | Value::List(_) => None,
        }
    }

    /// As a field of `config.json`. Long lists, others than of numbers, and what is infinite or NaN have no such form.
    pub(crate) fn json(&self) -> Option<Json> {
        Some(match self {
            Value::Unsigned(n) => json!(n),
            Value::Signed(n) => json!(n),
            Value::Float(n) => Number::from_f64(*n)?.into(),
            Value::Bool(flag) => json!(flag),
            Value::Text(text) => json!(str::from_utf8(text).ok()?),
            Value::List(list) if list.count <= NUMBERS_MAX => {
                let numbers = list.numbers()?.map(Number::from_f64);
                json!(numbers.collect::<Option<Vec<Number>>>()?)
            }
            Value::List(_) => return None,
        })
    }

    fn shown(&self) -> String {
        match self {
            Value::Text(text) => {
                let text = &text[..text.len().min(SHOWN_MAX)];
                format!("`{}`", shown(&String::from_utf8_lossy(text)))
            }
            Value::List(list) => format!("a list of {} values", list.count),
            Value::Unsigned(n) => n.to_string(),
            Value::Signed(n) => n.to_string(),
            Value::Float(n) => n.to_string(),
            Value::Bool(flag) => flag.to_string(),
        }
    }
}

/// A value of a type of fixed size, of which `bytes` has the bytes.
fn scalar(kind: u32, bytes: &[u8]) -> Value {
    fn chunk<const N: usize>(bytes: &[u8]) -> [u8; N] {
        *bytes.first_chunk().expect("as many bytes as the type has")
    }
    match kind {
        0 => Value::Unsigned(bytes[0].into()),
        1 => Value::Signed((bytes[0] as i8).into()),
        2 => Value::Unsigned(u16::from_le_bytes(chunk(bytes)).into()),
        3 => Value::Signed(i16::from_le_bytes(chunk(bytes)).into()),
        4 => Value::Unsigned(u32::from_le_bytes(chunk(bytes)).into()),
        5 => Value::Signed(i32::from_le_bytes(chunk(bytes)).into()),
        6 => Value::Float(f32::from_le_bytes(chunk(bytes)).into()),
        7 => Value::Bool(bytes[0] != 0),
        10 => Value::Unsigned(u64::from_le_bytes(chunk(bytes))),
        11 => Value::Signed(i64::from_le_bytes(chunk(bytes))),
        _ => Value::Float(f64::from_le_bytes(chunk(bytes))),
    }
}

/// The keys of a file.
#[derive(Debug)]
pub(crate) struct Metadata {
    file: String,
    values: BTreeMap<String, Value>,
    read: RefCell<BTreeSet<String>>,
}

impl Metadata {
    pub(super) fn read(at: &mut Cursor<'_>, keys: u64) -> Result<Metadata, Diagnostic> {
        let mut values = BTreeMap::new();
        for _ in 0..keys {
            let offset = at.offset();
            let key = at.name("a key")?;
            let told = format!("key `{}`", shown(&key));
            let kind = at.u32(&told)?;
            let value = value(at, kind, &told)?;
            if values.insert(key, value).is_some() {
                let file = at.file;
                return Err(damaged(format!(
                    "`{file}`: {told} is there twice, again at offset {offset}"
                )));
            }
        }
        Ok(Metadata { file: at.file.to_owned(), values, read: RefCell::default() })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let value = self.values.get(key)?;
        self.read.borrow_mut().insert(key.to_owned());
        Some(value)
    }

    /// A key and its value, for messages.
    pub(super) fn said(&self, key: &str) -> String {
        let (file, name) = (&self.file, shown(key));
        match self.values.get(key) {
            Some(value) => format!("`{file}`: key `{name}` is {}", value.shown()),
            None => format!("`{file}` has no key `{name}`"),
        }
    }

    /// A key has a value that it cannot have.
    pub(crate) fn wrong(&self, key: &str, must: &str) -> Diagnostic {
        Diagnostic::new(Code::LayerParameter, format!("{}; it must be {must}", self.said(key)))
    }

    /// A key and its value are not known here.
    pub(crate) fn unknown(&self, key: &str, why: &str) -> Diagnostic {
        crate::problem::unsupported(format!("{}, {why}", self.said(key)))
    }

    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let size = match value {
            Value::Unsigned(n) => usize::try_from(*n).ok(),
            Value::Signed(n) => usize::try_from(*n).ok(),
            _ => None,
        };
        size.map(Some).ok_or_else(|| self.wrong(key, "a whole number"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.number().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(key, "a number"))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Diagnostic> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Diagnostic> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => match str::from_utf8(text) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.wrong(key, "UTF-8")),
            },
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    pub(crate) fn list(&self, key: &str) -> Result<Option<&List>, Diagnostic> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(_) => Err(self.wrong(key, "a list")),
        }
    }

    /// Keys that begin so, and that nothing read.
    pub(crate) fn unread_keys(&self, prefix: &str) -> Vec<&str> {
        let read = self.read.borrow();
        let keys = self.values.keys().filter(|key| key.starts_with(prefix) && !read.contains(*key));
        keys.map(String::as_str).collect()
    }

    /// Whether a value says that something is not done: 0, false, or nothing at all.
    pub(crate) fn says_nothing(&self, key: &str) -> bool {
        match self.values.get(key) {
            None => true,
            Some(Value::List(list)) => {
                list.numbers().is_some_and(|mut numbers| numbers.all(|number| number == 0.0))
            }
            Some(value) => value.number() == Some(0.0),
        }
    }

    /// A note of each key that nothing read, but for those that `is_known` says; of many keys one for the rest.
    pub(crate) fn unread(&self, is_known: impl Fn(&str) -> bool) -> Vec<Diagnostic> {
        let read = self.read.borrow();
        let is_unread = |key: &&String| !is_known(key) && !read.contains(*key);
        let mut keys = self.values.keys().filter(is_unread);
        let note = |message| {
            let help = "Compare the results with those of llama.cpp, in case the key matters.";
            Diagnostic::new(Code::LayerParameterIgnored, message).help(help)
        };
        let told = keys.by_ref().take(TOLD_MAX);
        let mut notes: Vec<Diagnostic> =
            told.map(|key| note(format!("{}, which nothing reads", self.said(key)))).collect();
        if let Some(next) = keys.next() {
            let (file, next, count) = (&self.file, shown(next), 1 + keys.count());
            notes.push(note(format!(
                "`{file}` has {count} more keys that nothing reads, the first of them `{next}`"
            )));
        }
        notes
    }
}

/// A value of type `kind`, of what `told` names.
fn value(at: &mut Cursor<'_>, kind: u32, told: &str) -> Result<Value, Diagnostic> {
    if let Some(size) = size_of_type(kind) {
        return Ok(scalar(kind, at.take(size, told)?));
    }
    match kind {
        TEXT => Ok(Value::Text(at.text(told)?)),
        LIST => {
            let (kind, count) = list_head(at, told)?;
            let begin = at.offset();
            skip(at, (kind, count), told, 1)?;
            let bytes = at.bytes.slice(begin..at.offset());
            Ok(Value::List(List { kind, count, bytes }))
        }
        _ => Err(unknown_type(at, kind, told)),
    }
}

fn unknown_type(at: &Cursor<'_>, kind: u32, told: &str) -> Diagnostic {
    let (file, offset) = (at.file, at.offset());
    damaged(format!(
        "`{file}`: {told} has a value of the unknown type {kind}, before offset {offset}"
    ))
}

/// Type and number of the values of a list, as many as bytes follow for.
fn list_head(at: &mut Cursor<'_>, told: &str) -> Result<(u32, usize), Diagnostic> {
    let kind = at.u32(told)?;
    let offset = at.offset();
    let count = at.u64(told)?;
    let least = match kind {
        TEXT => 8,
        LIST => 12,
        _ => size_of_type(kind).ok_or_else(|| unknown_type(at, kind, told))?,
    };
    let fits = usize::try_from(count).ok().filter(|n| *n <= at.left() / least);
    let count = fits.ok_or_else(|| {
        let (file, left) = (at.file, at.left());
        truncated(format!(
            "`{file}`: {told} has a list of {count} values (offset {offset}), and {left} bytes follow"
        ))
    })?;
    Ok((kind, count))
}

/// Passes over the values of a list.
fn skip(
    at: &mut Cursor<'_>,
    (kind, count): (u32, usize),
    told: &str,
    depth: usize,
) -> Result<(), Diagnostic> {
    match kind {
        TEXT => (0..count).try_for_each(|_| at.text(told).map(drop)),
        LIST if depth == NESTING_MAX => {
            let (file, offset) = (at.file, at.offset());
            Err(over_limit(format!(
                "`{file}`: {told} has more than {NESTING_MAX} lists inside each other at offset {offset}"
            )))
        }
        LIST => (0..count).try_for_each(|_| {
            let inner = list_head(at, told)?;
            skip(at, inner, told, depth + 1)
        }),
        // The head made sure that this is within the file.
        _ => at.take(count * size_of_type(kind).unwrap_or(1), told).map(drop),
    }
}
