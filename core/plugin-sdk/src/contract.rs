//! What breaks the rules of the plugin interface.

use crate::diagnostics::{Code, Diagnostic};

pub(crate) fn contract(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::PluginContract, message)
}
