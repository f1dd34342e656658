//! Spellings without a section, as plugins declare them: the options of a source's own tools.

use onnxd_diagnostics::{nearest, shown};
use serde_json::Value;

use super::declared::{Declared, SpelledRow};
use crate::kind::ValueKind;
use crate::source::KeyReader;
use crate::table::GivenValue;

/// The name under which an option is the same however many dashes lead it.
pub(super) fn bare(key: &str) -> &str {
    key.trim_start_matches('-')
}

/// An option of this name.
pub(super) fn find<'t>(declared: &'t Declared, key: &str) -> Option<&'t SpelledRow> {
    declared.spellings.iter().find(|named| named.spelling.name == key)
}

/// The option nearest to a mistyped one.
pub(super) fn nearest_option<'t>(declared: &'t Declared, key: &str) -> Option<&'t str> {
    const KEY_BYTES_MAX: usize = 100;
    if key.len() > KEY_BYTES_MAX {
        return None;
    }
    nearest(key, declared.spellings.iter().map(|named| named.spelling.name.as_str()))
}

/// The value that an option stands for; `value` is `None` where only its name was written. What is ignored is noted.
/// Messages name the option as the user wrote it.
pub(super) fn read<'t>(
    reader: &mut KeyReader<'t>,
    place: &str,
    named: &'t SpelledRow,
    value: Option<&str>,
) -> Option<GivenValue<'t>> {
    let SpelledRow { spelling, row } = named;
    let option = &spelling.name;
    if let Some(why) = &spelling.ignored {
        reader.note(format!("{place}: `{option}` has no effect: {why}."));
        return None;
    }
    if let Some(why) = &spelling.refused {
        reader.bad_value(place, &format!("`{option}` is not supported: {why}"));
        return None;
    }
    if spelling.params_file {
        // Its lines come as a file of params.
        if value.unwrap_or_default().is_empty() {
            reader.bad_value(place, &format!("`{option}` needs a value, written `{option}=FILE`"));
        }
        return None;
    }
    let Some(row) = row else {
        reader.bad_value(place, &format!("`{option}` stands for a key that no plugin declares"));
        return None;
    };
    let value = match (value.unwrap_or_default(), &row.kind) {
        ("", ValueKind::Bool) => Ok(Value::Bool(true)),
        ("", _) => Err(format!("needs a value, written `{option}=VALUE`")),
        (text, kind) => kind.read(text),
    };
    match value {
        Ok(value) => Some(GivenValue { row, value, origin: place.to_owned(), implied: false }),
        Err(why) => {
            reader.bad_value(place, &format!("`{option}` {}", shown(&why)));
            None
        }
    }
}
