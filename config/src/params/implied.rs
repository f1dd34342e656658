//! What values stand for, as plugins declare it: of other keys in the same layer, or of keys that are unset.

use serde_json::{Map, Value};

use super::declared::Declared;
use crate::descriptor::{Implied, is_below};
use crate::kind::ValueKind;
use crate::source::KeyReader;
use crate::table::{DEFAULT, GivenValue, KeyEntry, toml_text};

/// Adds to a layer what its values imply. A key that is stated beside them wins.
pub(super) fn of_layer<'t>(
    reader: &mut KeyReader<'t>,
    declared: &'t Declared,
    layer: &mut Vec<GivenValue<'t>>,
) {
    for rule in declared.implies() {
        let Some(cause) = rule.condition.keys().find_map(|key| origin(layer, key)) else {
            continue;
        };
        if !rule.condition.holds(&|key| value_in(layer, key), &[]) {
            continue;
        }
        if !rule.note.is_empty() {
            reader.note(format!(
                "{}: {}.",
                cause.1,
                filled(&rule.note, &|key| value_in(layer, key))
            ));
        }
        for (key, template) in &rule.sets {
            let Some(row) = reader.row(key) else {
                let text =
                    format!("`{}` sets `{key}`, which no installed plugin declares", cause.0);
                reader.bad_value(&cause.1, &text);
                continue;
            };
            match value_of(template, &row.kind, &|key| value_in(layer, key)) {
                Ok(value) => {
                    let origin = format!("{} in {}", cause.0, cause.1);
                    layer.push(GivenValue { row, value, origin, implied: true });
                }
                Err(why) => reader.bad_value(&cause.1, &format!("`{}`: `{key}` {why}", cause.0)),
            }
        }
        for row in rule.unsets.iter().filter_map(|key| reader.row(key)) {
            let value = row.default_value().unwrap_or_default();
            layer.push(GivenValue { row, value, origin: DEFAULT.to_owned(), implied: true });
        }
    }
}

/// Gives unset keys the values that follow from others.
pub(super) fn computed(reader: &mut KeyReader, declared: &Declared, entries: &mut [KeyEntry]) {
    for rule in declared.computed() {
        if !rule.condition.holds(&|key| value_among(entries, key), &[]) {
            continue;
        }
        for (key, template) in &rule.sets {
            let Some(at) = entries.iter().position(|e| e.key == *key && e.origin == DEFAULT) else {
                continue;
            };
            let Some(row) = reader.row(key) else { continue };
            match value_of(template, &row.kind, &|key| value_among(entries, key)) {
                Ok(value) => {
                    let causes: Vec<&str> = causes(rule, entries).collect();
                    let origin = format!("from {}", causes.join(", "));
                    entries[at] = KeyEntry { key: key.clone(), value, origin };
                }
                Err(why) => reader.bad_value(DEFAULT, &format!("`{key}` {why}")),
            }
        }
    }
}

/// The keys of a rule that are set.
fn causes<'r>(rule: &'r Implied, entries: &[KeyEntry]) -> impl Iterator<Item = &'r str> {
    let set = |key: &&String| entries.iter().any(|e| e.key == **key && e.origin != DEFAULT);
    rule.condition.keys().filter(set).map(String::as_str)
}

/// Refuses values that contradict each other.
pub(super) fn contradictions(reader: &mut KeyReader, declared: &Declared, entries: &[KeyEntry]) {
    for rule in declared.refuses() {
        let Some(entry) = entries.iter().find(|e| e.key == rule.key) else { continue };
        if rule.condition.holds(&|key| value_among(entries, key), &[]) {
            reader.bad_value(
                &entry.origin,
                &format!("`{}` = {} {}", entry.key, entry.toml(), rule.why),
            );
        }
    }
}

/// The value of a key; unset if there is no such key.
pub(super) fn value_among(entries: &[KeyEntry], key: &str) -> Value {
    entries.iter().find(|e| e.key == key).map_or(Value::Null, |e| e.value.clone())
}

/// The last value of a key, or an object where a section has any.
fn value_in(layer: &[GivenValue], key: &str) -> Value {
    let last = layer.iter().rev().find(|given| given.row.key == key);
    match last {
        Some(given) => given.value.clone(),
        None if layer.iter().any(|given| is_below(&given.row.key, key)) => {
            Value::Object(Map::new())
        }
        None => Value::Null,
    }
}

/// The key that was set, and where.
fn origin(layer: &[GivenValue], key: &str) -> Option<(String, String)> {
    let is = |given: &&GivenValue| {
        given.row.key == key || (is_below(&given.row.key, key) && !given.implied)
    };
    let given = layer.iter().rev().filter(|given| !given.implied).find(is)?;
    Some((given.row.key.clone(), given.origin.clone()))
}

/// What a template comes to, as a value of that kind.
fn value_of(
    template: &str,
    kind: &ValueKind,
    value: &dyn Fn(&str) -> Value,
) -> Result<Value, String> {
    let whole = template.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match whole.filter(|key| !key.contains(['{', '}'])) {
        Some(key) => kind.check(value(key)),
        None => kind.read(&filled(template, value)),
    }
}

/// A text with the values of the keys that it names in braces.
fn filled(template: &str, value: &dyn Fn(&str) -> Value) -> String {
    let mut pieces = template.split('{');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (key, rest) = piece.split_once('}').unwrap_or(("", piece));
        out += match &value(key) {
            Value::String(text) => text.clone(),
            other => toml_text(other),
        }
        .as_str();
        out += rest;
    }
    out
}
