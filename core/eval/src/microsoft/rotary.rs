//! Rotary position embedding, on top of the standard's.

use super::{attributes, standard};
use crate::call::{KernelCall, integers};
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Tensor};

/// `input, position_ids, cos_cache, sin_cache`. One position is that of the first words; the others follow it.
pub(super) fn rotary_embedding(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, ids, cos, sin) = (call.x(0)?, call.x(1)?, call.x(2)?, call.x(3)?);
    refuse!(call.flag("is_packed_batching", false)? || call.float("scale", 1.0)? != 1.0 =>
        Fault::unsupported("packed batches or a scale are not computed"));
    let (batch, words, hidden) = match *x.dims() {
        [batch, words, hidden] => (batch, words, Some(hidden)),
        [batch, _, words, _] => (batch, words, None),
        _ => return Err(Fault::invalid(format!("{x:?} has neither three nor four axes"))),
    };
    let positions = match *ids.dims() {
        [1] => {
            let first = integers(ids)?[0];
            let row = |i: usize| first.saturating_add(i as i64);
            let all = (0..batch).flat_map(|_| (0..words).map(row)).collect();
            Tensor::from_vec([batch, words], all)
        }
        _ => ids.clone(),
    };
    let given = attributes(call).into_iter();
    let mut attrs: Vec<(&str, Attr)> =
        given.filter(|(name, _)| !["scale", "is_packed_batching"].contains(name)).collect();
    let pairs = cos.dims().last().copied().unwrap_or(0);
    if let Some(heads) = hidden.filter(|_| call.int("num_heads", 0).is_ok_and(|n| n == 0)) {
        // The angles say how many elements a head has.
        let heads = heads.checked_div(2 * pairs).unwrap_or(0);
        attrs.retain(|(name, _)| *name != "num_heads");
        attrs.push(("num_heads", Attr::Int(heads as i64)));
    }
    standard(call, "RotaryEmbedding", &attrs, &[Some(x), Some(cos), Some(sin), Some(&positions)], 1)
}
