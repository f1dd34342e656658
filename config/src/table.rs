//! A row of a table of keys, and the values that result when defaults are overlaid by layers.
//!
//! Settings and params share this, so both keep origins and suggest keys in the same way.

use onnxd_diagnostics::nearest;
use serde_json::{Map, Value};

use crate::kind::ValueKind;
use crate::source::toml_value;

/// One key: what it accepts, its default, and what it does.
#[derive(Clone, Debug)]
pub struct KeyRow {
    /// Dotted name (`export.opset`).
    pub key: String,
    /// What it accepts.
    pub kind: ValueKind,
    /// Its default.
    pub default: DefaultValue,
    /// What it does, in a sentence or two.
    pub help: String,
}

/// The default of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultValue {
    /// A value in its normal form.
    Value(Value),
    /// Nothing; in JSON it is `null`.
    Unset,
    /// It follows from other settings or from the machine, as the words say.
    Computed(&'static str),
}

impl KeyRow {
    /// A row of the settings; their defaults are TOML.
    pub(crate) fn of_settings(
        key: &str,
        kind: ValueKind,
        default: DefaultText,
        help: &str,
    ) -> KeyRow {
        let default = match default {
            DefaultText::Toml(text) => {
                let value = toml_value(text).expect("defaults are TOML; a test reads every row");
                let value = kind.check(value).expect("defaults fit; a test checks every row");
                DefaultValue::Value(value)
            }
            DefaultText::Computed(words) => DefaultValue::Computed(words),
        };
        KeyRow { key: key.to_owned(), kind, default, help: help.trim().to_owned() }
    }

    /// Section of the key: all but its last name.
    pub fn section(&self) -> &str {
        self.key.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// Last name of the key.
    pub fn name(&self) -> &str {
        self.key.rsplit_once('.').map_or(&self.key, |(_, name)| name)
    }

    /// The default, as help shows it.
    pub fn default_text(&self) -> String {
        match &self.default {
            DefaultValue::Value(value) => toml_text(value),
            DefaultValue::Unset => "unset".to_owned(),
            DefaultValue::Computed(words) => (*words).to_owned(),
        }
    }

    /// Whether it says the same as another one.
    pub(crate) fn is_same(&self, other: &KeyRow) -> bool {
        self.key == other.key
            && self.kind.to_string() == other.kind.to_string()
            && (&self.default, &self.help) == (&other.default, &other.help)
    }

    /// The default as a value; `None` if it is computed.
    pub(crate) fn default_value(&self) -> Option<Value> {
        match &self.default {
            DefaultValue::Value(value) => Some(value.clone()),
            DefaultValue::Unset => Some(Value::Null),
            DefaultValue::Computed(_) => None,
        }
    }
}

/// A default in a table of settings.
#[derive(Clone, Copy)]
pub(crate) enum DefaultText {
    Toml(&'static str),
    Computed(&'static str),
}

/// A key's value and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyEntry {
    /// Dotted name.
    pub key: String,
    /// The value; `null` if unset.
    pub value: Value,
    /// `default`, `onnxd.toml:12`, `ONNXD_INTAKE_INBOX`, `--set`.
    pub origin: String,
}

impl KeyEntry {
    /// The value as TOML; `unset` if there is none.
    pub fn toml(&self) -> String {
        toml_text(&self.value)
    }
}

/// The origin of a default.
pub(crate) const DEFAULT: &str = "default";

/// The value given to a key by one layer.
#[derive(Clone, Debug)]
pub(crate) struct GivenValue<'t> {
    pub(crate) row: &'t KeyRow,
    pub(crate) value: Value,
    pub(crate) origin: String,
    /// Follows from another key; a value stated in the same layer wins over it.
    pub(crate) implied: bool,
}

/// The values in the order of the rows; later layers win, tables are merged, those inside them, too.
/// Keys whose default is computed are left `null`, with an empty origin, if no layer sets them.
pub(crate) fn overlay<'t>(
    rows: &[KeyRow],
    layers: impl IntoIterator<Item = Vec<GivenValue<'t>>>,
) -> Vec<KeyEntry> {
    let mut entries: Vec<KeyEntry> = rows.iter().map(default_entry).collect();
    for layer in layers {
        let (implied, stated): (Vec<_>, Vec<_>) = layer.into_iter().partition(|g| g.implied);
        for given in implied.into_iter().chain(stated) {
            // Other spellings have no entry: what they stand for is in the layer, too.
            let Some(entry) = entries.iter_mut().find(|e| e.key == given.row.key) else { continue };
            merge(&mut entry.value, given.value);
            entry.origin = given.origin;
        }
    }
    entries
}

fn default_entry(row: &KeyRow) -> KeyEntry {
    match row.default_value() {
        Some(value) => KeyEntry { key: row.key.clone(), value, origin: DEFAULT.to_owned() },
        None => KeyEntry { key: row.key.clone(), value: Value::Null, origin: String::new() },
    }
}

fn merge(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                merge(old.entry(key).or_insert(Value::Null), value);
            }
        }
        (old, new) => *old = new,
    }
}

/// One JSON object of nested sections, in the order of the entries.
pub(crate) fn sections(entries: &[KeyEntry]) -> Value {
    let mut root = Map::new();
    for entry in entries {
        let mut names: Vec<&str> = entry.key.split('.').collect();
        let last = names.pop().expect("split gives at least one piece");
        let section = names.into_iter().fold(&mut root, |at, name| {
            let section = at.entry(name).or_insert_with(|| Value::Object(Map::new()));
            section.as_object_mut().expect("a section is never a key; a test checks")
        });
        section.insert(last.to_owned(), entry.value.clone());
    }
    Value::Object(root)
}

/// A JSON value in TOML's notation, in one line; `unset` for `null`.
pub fn toml_text(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let pairs = map.iter().map(|(k, v)| format!("{} = {}", toml_key(k), toml_text(v)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::String(s) => toml_string(s),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { toml_string(name) }
}

/// A basic string. JSON's escapes are all valid in TOML; only DEL is allowed raw in JSON alone.
pub(crate) fn toml_string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The key that was probably meant by one that is not in the table.
pub(crate) fn suggestion<'r>(rows: &'r [KeyRow], key: &str) -> Option<&'r str> {
    const KEY_BYTES_MAX: usize = 100;
    if key.len() > KEY_BYTES_MAX {
        return None;
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let by_name = || {
        let name = nearest(last, rows.iter().map(KeyRow::name))?;
        rows.iter().find(|r| r.name() == name).map(|r| r.key.as_str())
    };
    nearest(key, rows.iter().map(|r| r.key.as_str()))
        .or_else(by_name)
        .or_else(|| nearest(key, rows.iter().map(KeyRow::section)))
}

/// Dispatches the notations for defaults in the table of settings.
macro_rules! default_text {
    (computed $words:literal) => {
        $crate::table::DefaultText::Computed($words)
    };
    ($toml:tt) => {
        $crate::table::DefaultText::Toml(stringify!($toml))
    };
}
pub(crate) use default_text;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn toml_text_reads_back() {
        let values = [
            json!("a \"b\"\n\u{7f}\u{1}é"),
            json!([[1, -2], ["batch"], []]),
            json!({"env": {"0": "batch", "a b": 1.5}, "x": {}}),
            json!(0.0001),
            json!(1e300),
            json!(true),
        ];
        for value in values {
            let text = toml_text(&value);
            assert_eq!(toml_value(&text), Some(value), "{text}");
        }
    }

    #[test]
    fn tables_merge_and_other_values_replace() {
        let mut table = json!({"a": 1, "b": 2});
        merge(&mut table, json!({"b": 3, "c": 4}));
        assert_eq!(table, json!({"a": 1, "b": 3, "c": 4}));
        merge(&mut table, json!([1]));
        assert_eq!(table, json!([1]));
    }
}
