//! Reads `report.json` back, so that an old result can be shown in another form.

use crate::SCHEMA;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::footprint::{FieldKind, Measured, Shape};
use onnxd_proto::onnxd::Report;

/// Largest `report.json` that is read, in bytes.
pub const BYTES_MAX: u64 = 256 << 20;
/// Most memory that reading takes, as far as JSON tells what its values become. Every report of a worker stays below.
const TAKEN_BYTES_MAX: u64 = 1 << 30;
/// A vector begins with four elements; one that doubles takes three for each, for a moment.
const LIST: u64 = 4;
/// What an allocator adds to the bytes of a text, and to each of a list.
const ALLOCATION: u64 = 32;

/// The report in `text`.
///
/// # Errors
/// [`Code::Unreadable`] if it is no report, one of a newer layout, or one that would take too much memory.
pub fn from_json(text: &str) -> Result<Report, Diagnostic> {
    let refuse = |why: String| {
        Diagnostic::new(Code::Unreadable, why).help("Name a `report.json` that onnxd wrote.")
    };
    if footprint(text) > TAKEN_BYTES_MAX {
        return Err(refuse(format!("a report of more than {TAKEN_BYTES_MAX} bytes in memory")));
    }
    let report: Report =
        serde_json::from_str(text).map_err(|e| refuse(format!("not a report: {e}")))?;
    if !(1..=SCHEMA).contains(&report.schema) {
        let found = report.schema;
        return Err(refuse(format!("a report of layout {found}, this onnxd knows 1 to {SCHEMA}")));
    }
    Ok(report)
}

/// What a report takes at most: an object is the largest message of a list, and any other value a text.
fn footprint(text: &str) -> u64 {
    let (mut objects, mut values, mut is_inside) = (0, 0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if is_inside => drop(bytes.next()),
            b'"' => {
                values += u64::from(is_inside);
                is_inside = !is_inside;
            }
            b'{' if !is_inside => objects += 1,
            b'[' | b',' if !is_inside => values += 1,
            _ => {}
        }
    }
    let message = LIST * largest(&Report::SHAPE) + ALLOCATION;
    let value = LIST * size_of::<String>() as u64 + ALLOCATION;
    text.len() as u64 + objects * message + values * value
}

/// The largest message in a list, or entries of a map.
fn largest(shape: &Shape) -> u64 {
    let of = |(_, kind): &(u32, FieldKind)| match kind {
        FieldKind::Messages(of) => largest(of).max(of.bytes as u64),
        // A map of one entry takes a node of eleven.
        FieldKind::Map(entry) => 4 * entry.bytes as u64,
        FieldKind::Message(of) => largest(of),
        FieldKind::Number | FieldKind::Numbers { .. } | FieldKind::Text | FieldKind::Texts => 0,
    };
    shape.fields.iter().map(of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_grow_in_memory_are_refused() {
        let of = |count: usize| {
            let items = vec!["{}"; count].join(",");
            format!("{{\"schema\": 1, \"diagnostics\": [{items}]}}")
        };
        assert_eq!(from_json(&of(1000)).unwrap().diagnostics.len(), 1000);
        let why = from_json(&of(2 << 20)).unwrap_err();
        assert!(why.message.contains("bytes in memory"), "{why}");
        // Braces in texts are none.
        let text = format!("{{\"schema\": 1, \"summary\": \"{}\\\"\"}}", "{".repeat(4 << 20));
        assert!(from_json(&text).is_ok());
    }
}
