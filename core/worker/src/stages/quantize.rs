//! Applies the quantization scheme that the params ask for.

use super::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};

pub(crate) fn quantize(session: &mut Session) -> Result<(), Diagnostics> {
    match session.param("quantization", "format").as_str() {
        None | Some("none") => Ok(()),
        Some(format) => {
            let text = format!("no installed plugin quantizes to the format {}", shown(format));
            Err(Diagnostic::new(Code::QuantizationUnavailable, text).into())
        }
    }
}
