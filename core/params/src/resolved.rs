//! The values of all params of a conversion, and a record of who looked at which.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::Section;

/// All params of one conversion, complete with defaults. Reading one says that its value counts: a param that a user
/// set and that no component read is a finding.
#[derive(Debug)]
pub struct Resolved {
    /// An object of sections.
    values: Value,
    /// What the values were read from, or else what they are written as when somebody asks.
    text: OnceLock<String>,
    seen: Mutex<ReadKeys>,
}

impl Default for Resolved {
    /// No params.
    fn default() -> Resolved {
        Resolved::from_json(Value::Object(Map::new()))
    }
}

/// What was read, and what was read in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadKeys {
    /// Dotted keys; a section stands for all keys below it, the empty key for all.
    pub keys: BTreeSet<String>,
    /// Keys without effect, and why. The reason goes on after key and value.
    pub idle: BTreeSet<(String, String)>,
}

impl Resolved {
    /// Params as one object of sections; no text stands for none.
    ///
    /// # Errors
    /// If the text is no JSON object.
    pub fn parse(json: &str) -> Result<Resolved, String> {
        if json.is_empty() {
            return Ok(Resolved::default());
        }
        let values: Map<String, Value> = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let text = json.to_owned().into();
        Ok(Resolved { text, ..Resolved::from_json(Value::Object(values)) })
    }

    /// Params that were read already: an object of sections.
    pub fn from_json(values: Value) -> Resolved {
        Resolved { values, text: OnceLock::new(), seen: Mutex::default() }
    }

    /// The text of the object: the one that was read, byte for byte.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.values.to_string())
    }

    /// A section in types. Asking for one of its values says that it counts.
    ///
    /// # Panics
    /// If a row of the declaration allows values that its field does not hold.
    pub fn section<S: Section>(self: &Arc<Self>) -> S {
        S::of(self).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The value of a dotted key, or all below a section; null if there is none. Counts as read.
    pub fn get(&self, key: &str) -> &Value {
        self.mark(key);
        self.peek(key)
    }

    /// As [`Resolved::get`], for a look that does not count.
    pub fn peek(&self, key: &str) -> &Value {
        let names = key.split('.').filter(|name| !name.is_empty());
        names.fold(&self.values, |at, name| &at[name])
    }

    /// The value of a key in its type, for a look that does not count. `default` is JSON, and counts where a test gave
    /// no value; a host gives all.
    ///
    /// # Errors
    /// If the value is not of that type.
    pub fn typed<T: DeserializeOwned>(&self, key: &str, default: &str) -> Result<T, String> {
        T::deserialize(&*self.given_or(key, default)?).map_err(|why| wrong(key, &why))
    }

    /// The value of a key; `default` where there is none.
    fn given_or(&self, key: &str, default: &str) -> Result<Cow<'_, Value>, String> {
        match self.peek(key) {
            Value::Null => {
                serde_json::from_str(default).map(Cow::Owned).map_err(|why| wrong(key, &why))
            }
            value => Ok(Cow::Borrowed(value)),
        }
    }

    /// Says that the value of a key counts.
    pub fn mark(&self, key: &str) {
        let mut seen = self.seen();
        if !seen.keys.contains(key) {
            seen.keys.insert(key.to_owned());
        }
    }

    /// Says that a param, or a part of it, changes nothing although it was read. `why` goes on after its key and value:
    /// "has no effect: ...", "names ..., which ...".
    pub fn without_effect(&self, key: &str, why: impl Into<String>) {
        self.seen().idle.insert((key.to_owned(), why.into()));
    }

    /// The record so far.
    pub fn seen(&self) -> MutexGuard<'_, ReadKeys> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wrong(key: &str, why: &serde_json::Error) -> String {
    format!("the param `{key}`: {why}")
}
