//! Fields of `config.json` as they stand there.

use serde_json::{Map, Value};

/// An object; a field that is null counts as absent.
#[derive(Clone, Copy, Default)]
pub(super) struct Fields<'a>(pub(super) Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.0?.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field is there, also as null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.is_some_and(|fields| fields.contains_key(key))
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    pub(super) fn size(&self, key: &str) -> Option<usize> {
        usize::try_from(self.get(key)?.as_u64()?).ok()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    pub(super) fn word(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    pub(super) fn words(&self, key: &str) -> Option<Vec<&'a str>> {
        self.get(key)?.as_array()?.iter().map(Value::as_str).collect()
    }

    pub(super) fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.get(key)?.as_array()?.iter().map(Value::as_f64).collect()
    }

    pub(super) fn inside(&self, key: &str) -> Option<Fields<'a>> {
        self.get(key)?.as_object().map(|fields| Fields(Some(fields)))
    }
}
