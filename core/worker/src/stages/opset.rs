//! The version of the standard's operators that the model is written in.

use super::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_ir::Model;
use onnxd_onnx::OPSET_TARGET;
use onnxd_params::host::Export;

/// Converts the model to the opset that is asked for. Without, a newer one than current runtimes
/// read is lowered where that is possible; what prevents it is a warning.
pub(crate) fn choose(session: &mut Session, model: &mut Model) -> Result<(), Diagnostics> {
    if let Some(wanted) = session.section::<Export>().opset() {
        return onnxd_opset::convert(model, wanted);
    }
    let own = model.opset();
    if own <= OPSET_TARGET {
        return Ok(());
    }
    let (severity, note) = match onnxd_opset::convert(model, OPSET_TARGET) {
        Ok(()) => (Severity::Note, lowered(own)),
        Err(found) => (Severity::Warning, kept(own, &found)),
    };
    session.note(&note, severity);
    Ok(())
}

fn lowered(own: i64) -> Diagnostic {
    let text = format!("the model was converted from opset {own} to {OPSET_TARGET}");
    Diagnostic::new(Code::OpsetConversion, text)
        .help(format!("Set `export.opset` to {own} to keep it."))
}

fn kept(own: i64, found: &Diagnostics) -> Diagnostic {
    let first = found.0.first().map(|d| d.message.as_str()).unwrap_or_default();
    let more = match found.0.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let text = format!(
        "the model keeps opset {own}, which only newer runtimes read, because it cannot be \
         lowered to {OPSET_TARGET}: {first}{more}"
    );
    let note = Diagnostic::new(Code::OpsetConversion, text)
        .help(format!("Set `export.opset` to {own} to say that this is intended."));
    match found.0.first().and_then(|d| d.layer.clone()) {
        Some(layer) => note.at(layer),
        None => note,
    }
}
