//! Normalizations from their parts.

pub(crate) mod group_norm;
pub(crate) mod instance_norm;
pub(crate) mod layer_norm;
mod per_channel;
pub(crate) mod rms_division;
pub(crate) mod rms_norm;

use crate::parts::{dims, unlike};
use crate::pattern::{Pattern, PatternMatch};
use onnxd_plugin_sdk::ir::{At, Op, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};

/// Scales that were not there before have at most so many bytes: as many as folding may add.
const ONES_BYTES_MAX: usize = 64 << 10;

pub(crate) static CENTRED: Pattern =
    Pattern::new("d / Sqrt(ReduceMean(d^2) + {epsilon}); d = x - ReduceMean(x)");

/// How many of the last axes a normalization runs along.
pub(crate) fn last_axes(found: &PatternMatch) -> Result<usize, Skip> {
    let mean = found.reduction();
    match mean.trailing() {
        _ if !mean.keepdims => Skip::unlike(),
        Some(count) => Ok(count),
        None => Skip::because("it does not normalize along the last axes"),
    }
}

/// A scale of ones for the last `count` axes of `x`.
pub(crate) fn ones(cx: &mut Rewriter, x: ValueId, count: usize) -> Result<ValueId, Skip> {
    let sizes = dims(cx, x)?;
    let sizes = sizes[sizes.len() - count..].iter();
    let sizes: Option<Vec<usize>> =
        sizes.map(|d| d.known().and_then(|n| usize::try_from(n).ok())).collect();
    let Some(sizes) = sizes else {
        return Skip::because(format!(
            "the sizes that {} is normalized along are not known",
            cx.name(x)
        ));
    };
    let dtype = cx.dtype(x)?;
    let count = sizes.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let bytes = count.and_then(|n| dtype.byte_len(n));
    if bytes.is_none_or(|bytes| bytes > ONES_BYTES_MAX) {
        return Skip::because(format!("the scale would take more than {ONES_BYTES_MAX} bytes"));
    }
    let ones = Reals::full(&sizes, 1.0).to_tensor(dtype).ok_or_else(unlike)?;
    Ok(cx.derive(x, "scale", ones))
}

/// Whether the constant `v` has the shape of the elements `like`.
pub(crate) fn has_shape(cx: &Rewriter, v: ValueId, like: &Reals) -> bool {
    cx.graph.constant(v).is_some_and(|t| t.dims() == like.dims)
}

/// The parameter that `f` makes of the elements of `old` and of the constant beside the normalization, of which leading
/// axes of size 1 do not count.
pub(crate) fn changed(
    cx: &mut Rewriter,
    old: ValueId,
    role: &str,
    by: ValueId,
    f: impl Fn(f64, f64) -> f64,
) -> Result<ValueId, Skip> {
    let (values, mut by) = (cx.reals(old)?, cx.reals(by)?);
    while by.dims.len() > values.dims.len() && by.dims[0] == 1 {
        by.dims.remove(0);
    }
    let new = values.zip(&by, f).filter(|new| new.dims == values.dims);
    let new =
        new.ok_or_else(|| Skip(format!("{:?} is not like the scale {:?}", by.dims, values.dims)))?;
    cx.derive_reals(old, role, &new, old)
}

/// The normalization `N` of two values, and the other one.
pub(crate) fn beside<N: Op>(cx: &Rewriter, [a, b]: [ValueId; 2]) -> Result<(At<N>, ValueId), Skip> {
    let of = |norm, by| Some((cx.producer::<N>(norm).ok()?, by));
    of(a, b).or_else(|| of(b, a)).ok_or_else(unlike)
}
