//! Messages as diagnostics; what comes from a plugin is bounded.

use crate::context::cut;
use onnxd_diagnostics::{Code, Diagnostic, Finding, Layer};
use onnxd_proto::onnxd as message;

/// Longest text of a diagnostic, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// A message as a diagnostic. An unknown class counts as internal; severity is not kept.
#[must_use]
pub fn from_message(message: &message::Diagnostic) -> Diagnostic {
    let text = |t: &str| cut(t, TEXT_BYTES_MAX).to_owned();
    let code = match message.code.as_str() {
        "" => Code::PluginFailed.as_str(),
        code => cut(code, 32),
    };
    let layer = Layer {
        name: text(&message.layer),
        kind: text(&message.layer_kind),
        place: text(&message.place),
    };
    Diagnostic::from_finding(Finding {
        code: code.to_owned().into(),
        class: message.class(),
        message: text(&message.message),
        layer: (layer != Layer::default()).then_some(layer),
        help: text(&message.help).into(),
        opset: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_diagnostics::Class;

    #[test]
    fn there_and_back() {
        let diagnostic = Diagnostic::new(Code::LayerUnsupported, "no such layer")
            .at(Layer::new("conv1", "Deconv"));
        assert_eq!(from_message(&(&diagnostic).into()), diagnostic);
        let plain = Diagnostic::new(Code::Internal, "m");
        assert_eq!(from_message(&(&plain).into()), plain);
    }

    #[test]
    fn foreign_texts_are_bounded() {
        let message = message::Diagnostic {
            message: "x".repeat(100_000),
            class: "?".into(),
            ..Default::default()
        };
        let diagnostic = from_message(&message);
        assert_eq!(diagnostic.message.len(), TEXT_BYTES_MAX);
        assert_eq!(diagnostic.class, Class::Internal);
        assert_eq!(diagnostic.code, "N0404");
    }
}
