//! Why the host did not do what a plugin asked: a status for the plugin, a sentence for the log.
//!
//! The ABI's functions return only a number; the sentence is what a plugin's author needs.

use onnxd_plugin_abi as abi;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the plugin gets.
    pub status: abi::Status,
    /// What the log says.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(status: abi::Status, text: impl Into<String>) -> Refusal {
        Refusal { status, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(abi::INVALID, text)
    }

    pub(crate) fn out_of_memory(bytes: u64) -> Refusal {
        Refusal::new(abi::OUT_OF_MEMORY, format!("{bytes} bytes could not be allocated"))
    }
}
