//! Between the SDK's types and the messages of `proto/onnxd`.

use crate::frontend::{Claim, Need, Probe};
use onnxd_proto::onnxd as message;

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
