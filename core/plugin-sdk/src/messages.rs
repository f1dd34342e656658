//! Between the SDK's types and the messages of `proto/onnxd`.

use crate::diagnostics::{Diagnostic, Layer};
use crate::frontend::{Claim, Need, Probe};
use onnxd_proto::onnxd as message;

pub(crate) fn diagnostic(d: &Diagnostic, severity: &str) -> message::Diagnostic {
    let Layer { name, kind, place } = d.layer.clone().unwrap_or_default();
    message::Diagnostic {
        code: d.code.to_string(),
        class: d.class.as_str().into(),
        message: d.message.clone(),
        layer: name,
        layer_kind: kind,
        place,
        help: d.help.to_string(),
        severity: severity.into(),
    }
}

pub(crate) fn probe(p: Probe) -> message::Probe {
    let level = match p.claim {
        Claim::No => message::ClaimLevel::ClaimNo,
        Claim::ByExtension => message::ClaimLevel::ClaimByExtension,
        Claim::ByContent => message::ClaimLevel::ClaimByContent,
    };
    let need = |n: Need| message::Need {
        what: n.what,
        path: n.path,
        found: n.optional || !n.found_as.is_empty(),
        found_as: n.found_as,
    };
    message::Probe {
        level: level.into(),
        reason: p.reason,
        needs: p.needs.into_iter().map(need).collect(),
        facts: p.facts,
    }
}
