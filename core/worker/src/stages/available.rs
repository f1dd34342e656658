//! Params that are defined but not carried out yet are refused where somebody asks for them: silence would be a lie.

use super::{Session, quantize};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use serde_json::Value;

/// Whether a value asks for nothing.
type Idle = fn(&Value) -> bool;

const NOT_YET: &[(&str, &str, Idle)] = &[
    ("export", "input_shapes", is_empty),
    ("export", "input_dtypes", is_empty),
    ("export", "export_params", |v| *v != Value::Bool(false)),
    ("export", "operator_fallback", |v| v.is_null() || v == "error"),
    ("export", "verbose", |v| *v != Value::Bool(true)),
    ("check", "labels", is_empty),
];

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// All that is asked for and not available.
pub(crate) fn check(session: &Session) -> Result<(), Diagnostics> {
    let asked = NOT_YET.iter().filter(|(section, key, idle)| !idle(session.param(section, key)));
    let found = asked.map(|(section, key, _)| {
        let value = session.param(section, key);
        let text = format!("the param {section}.{key} = {value} is not available in this version");
        Diagnostic::new(Code::FeatureUnsupported, text).help("Leave the param out.")
    });
    let mut found = Diagnostics(found.collect());
    // Said before any work is done.
    found.0.extend(quantize::chosen(session).err());
    found.or_ok(())
}
