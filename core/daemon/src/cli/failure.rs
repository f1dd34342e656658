//! Why a command failed: one line per diagnostic, and the exit status.

use super::out;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_proto::onnxd as message;

/// Exit status for a wrong configuration.
const CONFIGURATION: u8 = 78;

/// What kept a command from its work.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Diagnostics);

impl Failure {
    /// Prints it; the exit status.
    pub(crate) fn show(&self) -> u8 {
        for diagnostic in &self.0.0 {
            out::error(&diagnostic.to_string());
        }
        self.exit_code()
    }

    pub(super) fn exit_code(&self) -> u8 {
        let configuration =
            [Code::ConfigSyntax, Code::ConfigUnknownKey, Code::ConfigBadValue].map(Code::as_str);
        if self.0.0.iter().any(|d| configuration.contains(&d.code.as_ref())) {
            return CONFIGURATION;
        }
        self.0.class().exit_code()
    }
}

impl From<Diagnostic> for Failure {
    fn from(one: Diagnostic) -> Failure {
        Failure(one.into())
    }
}

impl From<Diagnostics> for Failure {
    fn from(all: Diagnostics) -> Failure {
        Failure(all)
    }
}

/// A diagnostic of a report, in one line; notes and warnings say that they are.
pub(crate) fn line(found: &message::Diagnostic) -> String {
    let severity = match found.severity() {
        Severity::Error => String::new(),
        other => format!("{other}: "),
    };
    format!("{severity}{}", onnxd_plugin_host::from_message(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        let code = |code| Failure::from(Diagnostic::new(code, "x")).exit_code();
        assert_eq!(code(Code::ConfigUnknownKey), 78);
        assert_eq!(code(Code::ParamsUnknownKey), 2);
        assert_eq!(code(Code::LayerUnsupported), 3);
        assert_eq!(code(Code::InvariantBroken), 4);
        assert_eq!(code(Code::Disk), 75);
    }
}
