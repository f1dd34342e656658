//! Domains of operator sets.

use onnxd_ir::Opsets;

/// The standard's domain has two spellings.
pub(crate) fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Version of the operator set of `domain`; the standard's own is found under both spellings, 0 if
/// absent.
pub(crate) fn opset(opsets: &Opsets, domain: &str) -> i64 {
    let alias = if standard(domain).is_empty() { ["", "ai.onnx"] } else { [domain, domain] };
    alias.iter().find_map(|d| opsets.get(*d)).copied().unwrap_or(0)
}
