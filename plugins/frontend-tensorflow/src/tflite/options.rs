//! The options of operators, read as `options.txt` lists their fields.

use super::flat::{FlatResult, FlatTable, Scalar};
use super::flex::{self, Flex};
use super::types::type_number;
use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::lower::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Words of enumerations, by their numbers.
const WORDS: [(&str, &[&str]); 6] = [
    ("Padding", &["SAME", "VALID"]),
    ("Activation", &["NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"]),
    ("Mirror", &["REFLECT", "SYMMETRIC"]),
    ("Weights", &["DEFAULT", "SHUFFLED4x16INT8"]),
    ("Kernel", &["FULL", "BASIC"]),
    ("Combiner", &["SUM", "MEAN", "SQRTN"]),
];

/// The option that the runner applies to the result.
pub(crate) const ACTIVATION: &str = "fused_activation_function";

const OPTIONS: &str = include_str!("options.txt");

/// `dilation_w_factor@4: i32 = 1`
#[derive(Debug)]
struct OptionField {
    name: &'static str,
    slot: usize,
    kind: &'static str,
    default: i64,
}

static FIELDS: LazyLock<HashMap<&'static str, Vec<OptionField>>> = LazyLock::new(|| {
    let parsed = OPTIONS.lines().map(|line| parse(line).expect("a test parses every line"));
    parsed.collect()
});

fn parse(line: &'static str) -> Option<(&'static str, Vec<OptionField>)> {
    let (name, fields) = line.strip_suffix(')')?.split_once('(')?;
    let fields = fields.split(", ").map(field).collect::<Option<_>>()?;
    Some((name, fields))
}

fn field(text: &'static str) -> Option<OptionField> {
    let (place, kind) = text.split_once(": ")?;
    // Those of custom operators have names alone.
    let (name, slot) = place.split_once('@').unwrap_or((place, "0"));
    let (kind, default) = match kind.split_once(" = ") {
        Some((kind, default)) => (kind, default.parse().ok()?),
        None => (kind, 0),
    };
    Some(OptionField { name, slot: slot.parse().ok()?, kind, default })
}

/// Whether there is a table of this name.
#[cfg(test)]
pub(crate) fn has(name: &str) -> bool {
    FIELDS.contains_key(name)
}

/// All options of a table by their names. Those of an operator without a table are at their defaults.
///
/// # Errors
/// `N0201` if they are outside of the file.
pub(crate) fn read(
    name: &str,
    table: Option<FlatTable<'_>>,
) -> FlatResult<Vec<(&'static str, Value)>> {
    let fields = FIELDS.get(name).map(Vec::as_slice).unwrap_or_default();
    fields.iter().map(|field| Ok((field.name, value(field, table)?))).collect()
}

/// All options of a custom operator by their names.
///
/// # Errors
/// `N0201` if the buffer is damaged.
pub(crate) fn read_custom(name: &str, bytes: &Bytes) -> FlatResult<Vec<(&'static str, Value)>> {
    let fields = FIELDS.get(name).map(Vec::as_slice).unwrap_or_default();
    let found = flex::read(bytes).ok_or_else(|| {
        let message = "The options of a custom operator are damaged.";
        Diagnostic::new(Code::SourceSyntax, message)
    })?;
    let one = |field: &OptionField| {
        let value = match (flex::field(&found, field.name), field.kind) {
            (Some(Flex::Float(x)), "f32") => Value::Float(*x),
            (Some(Flex::Int(x)), "f32") => Value::Float(*x as f64),
            (Some(Flex::Int(x)), "bool") => Value::Bool(*x != 0),
            (Some(Flex::Int(x)), _) => Value::Int(*x),
            (Some(Flex::Bool(x)), "bool") => Value::Bool(*x),
            _ => value(field, None)?,
        };
        Ok((field.name, value))
    };
    fields.iter().map(one).collect()
}

fn value(field: &OptionField, table: Option<FlatTable<'_>>) -> FlatResult<Value> {
    if let Some(item) = field.kind.strip_prefix('[') {
        let Some(table) = table else { return Ok(Value::List(vec![])) };
        return list(item.trim_end_matches(']'), &table, field.slot);
    }
    let number = |number: Option<i64>| number.unwrap_or(field.default);
    let whole = |table: FlatTable<'_>| match field.kind {
        "i64" => table.number::<i64>(field.slot),
        "i32" => Ok(table.number::<i32>(field.slot)?.map(i64::from)),
        "u32" => Ok(table.number::<u32>(field.slot)?.map(i64::from)),
        _ => Ok(table.number::<i8>(field.slot)?.map(i64::from)),
    };
    Ok(match field.kind {
        "f32" => {
            let found = table.map(|table| table.number::<f32>(field.slot)).transpose()?.flatten();
            Value::Float(found.map_or(field.default as f64, f64::from))
        }
        "text" => {
            Value::Text(table.map(|table| table.text(field.slot)).transpose()?.unwrap_or_default())
        }
        // They are read where they are needed.
        "bytes" => Value::None,
        kind => worded(kind, number(table.map(whole).transpose()?.flatten())),
    })
}

/// A number of an enumeration as its word; one that has none stays a number, which no row takes.
fn worded(kind: &str, number: i64) -> Value {
    if kind == "bool" {
        return Value::Bool(number != 0);
    }
    if kind == "type" {
        return Value::Int(type_number(number).into());
    }
    let words = WORDS.iter().find(|(name, _)| *name == kind);
    let word = words.and_then(|(_, words)| words.get(usize::try_from(number).ok()?));
    word.map_or(Value::Int(number), |word| Value::from(*word))
}

fn list(item: &str, table: &FlatTable<'_>, slot: usize) -> FlatResult<Value> {
    fn numbers<T: Scalar>(
        table: &FlatTable<'_>,
        slot: usize,
        to: fn(T) -> Value,
    ) -> FlatResult<Value> {
        Ok(Value::List(table.numbers(slot)?.into_iter().map(to).collect()))
    }
    match item {
        "i64" => numbers::<i64>(table, slot, Value::Int),
        "u32" => numbers::<u32>(table, slot, |x| Value::Int(x.into())),
        "f32" => numbers::<f32>(table, slot, |x| Value::Float(x.into())),
        "bool" => numbers::<bool>(table, slot, Value::Bool),
        _ => numbers::<i32>(table, slot, |x| Value::Int(x.into())),
    }
}

#[cfg(test)]
mod tests;
