//! The version of the standard's operators that the model is written in.

use super::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity, shown};
use onnxd_ir::Model;
use onnxd_onnx::{IR_VERSION_TARGET, OPSET_TARGET, Runtime, choose_ir, read_by};
use onnxd_params::host::Export;

/// Converts the model to the opset that is asked for, and chooses its IR version. Without, a newer opset than the
/// runtime reads is lowered. What prevents it is an error where params name the runtime, else a warning. Returns the
/// opset that it was lowered from.
pub(crate) fn choose(session: &mut Session, model: &mut Model) -> Result<Option<i64>, Diagnostics> {
    let params: Export = session.section();
    let named = params.runtime().map(|name| read_by(&name).ok_or_else(|| unknown(&name)));
    let named = named.transpose()?;
    let lowered_from = match params.opset() {
        Some(wanted) => onnxd_opset::convert(model, wanted).map(|()| None),
        None => lower(session, model, named),
    }?;
    let newest = named.map_or(IR_VERSION_TARGET, |runtime| runtime.ir_version);
    model.ir_version = choose_ir(model, params.ir_version(), newest);
    Ok(lowered_from)
}

fn lower(
    session: &mut Session,
    model: &mut Model,
    named: Option<Runtime>,
) -> Result<Option<i64>, Diagnostics> {
    let newest = named.map_or(OPSET_TARGET, |runtime| runtime.opset);
    let own = model.opset();
    if own <= newest {
        return Ok(None);
    }
    let (severity, note, from) = match onnxd_opset::convert(model, newest) {
        Ok(()) => (Severity::Note, lowered(own, newest), Some(own)),
        Err(found) if named.is_some() => return Err(found),
        Err(found) => (Severity::Warning, kept((own, newest), &found), None),
    };
    session.note(&note, severity);
    Ok(from)
}

fn unknown(runtime: &str) -> Diagnostic {
    let text =
        format!("`export.runtime` = \"{}\" is no runtime whose opsets are known", shown(runtime));
    let help = "Name ONNX Runtime with its version, as `onnxruntime-1.23`, or `onnxruntime-genai`; or set \
                `export.opset`.";
    Diagnostic::new(Code::ParamsBadValue, text).help(help)
}

fn lowered(own: i64, newest: i64) -> Diagnostic {
    let text = format!("the model was converted from opset {own} to {newest}");
    Diagnostic::new(Code::OpsetConversion, text).help(format!(
        "Set `export.opset` to {own} to keep it, or `export.runtime` to what reads the model."
    ))
}

fn kept((own, newest): (i64, i64), found: &Diagnostics) -> Diagnostic {
    let first = found.0.first().map(|d| d.message.as_str()).unwrap_or_default();
    let more = match found.0.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let text = format!(
        "the model keeps opset {own}, which only newer runtimes read, because it cannot be \
         lowered to {newest}: {first}{more}"
    );
    let note = Diagnostic::new(Code::OpsetConversion, text)
        .help(format!("Set `export.opset` to {own} to say that this is intended."));
    match found.0.first().and_then(|d| d.layer.clone()) {
        Some(layer) => note.at(layer),
        None => note,
    }
}
