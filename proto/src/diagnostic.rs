//! Diagnostics as messages. Plugins of any version write them, so class and severity travel as words.

use crate::onnxd as message;
use onnxd_diagnostics::{Class, Diagnostic, Severity};

impl message::Diagnostic {
    /// A diagnostic as a message.
    #[must_use]
    pub fn of(found: &Diagnostic, severity: Severity) -> message::Diagnostic {
        let layer = found.layer.clone().unwrap_or_default();
        message::Diagnostic {
            code: found.code.to_string(),
            class: found.class.as_str().to_owned(),
            message: found.message.clone(),
            layer: layer.name,
            layer_kind: layer.kind,
            place: layer.place,
            help: found.help.to_string(),
            severity: severity.as_str().to_owned(),
        }
    }

    /// The same with another severity.
    #[must_use]
    pub fn with(self, severity: Severity) -> message::Diagnostic {
        message::Diagnostic { severity: severity.as_str().to_owned(), ..self }
    }

    /// Whose problem it is; a word that is not known counts as internal.
    pub fn class(&self) -> Class {
        Class::parse(&self.class).unwrap_or(Class::Internal)
    }

    /// An error, unless it says something else.
    pub fn severity(&self) -> Severity {
        Severity::parse(&self.severity).unwrap_or(Severity::Error)
    }
}

impl From<&Diagnostic> for message::Diagnostic {
    fn from(found: &Diagnostic) -> message::Diagnostic {
        message::Diagnostic::of(found, Severity::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_diagnostics::Code;

    #[test]
    fn words_of_other_versions_count_as_the_gravest() {
        let found = Diagnostic::new(Code::LayerUnsupported, "m");
        let note = message::Diagnostic::of(&found, Severity::Note);
        assert_eq!((note.class(), note.severity()), (Class::Unsupported, Severity::Note));
        assert_eq!(note.with(Severity::Warning).severity(), Severity::Warning);
        let other = message::Diagnostic { class: "new".into(), ..Default::default() };
        assert_eq!((other.class(), other.severity()), (Class::Internal, Severity::Error));
    }
}
