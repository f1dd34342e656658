//! Normalizations from their parts.

pub(crate) mod group_norm;
pub(crate) mod instance_norm;
pub(crate) mod layer_norm;
pub(crate) mod rms_division;
pub(crate) mod rms_norm;

use crate::parts::{Parts, Reduction, dims, unlike};
use onnxd_plugin_sdk::ir::{Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};

/// Scales that were not there before have at most so many bytes: as many as folding may add.
const ONES_BYTES_MAX: usize = 64 << 10;

/// `x`, `variance` and `epsilon` of `v = x / sqrt(variance + epsilon)`.
pub(crate) fn reciprocal_root(parts: &Parts, v: ValueId) -> Result<(ValueId, ValueId, f64), Skip> {
    let divided = parts.attempt(|| {
        let [x, std] = parts.pair("Div", v)?;
        root(parts, std).map(|(variance, epsilon)| (x, variance, epsilon))
    });
    divided.or_else(|_| {
        parts.either(parts.pair("Mul", v)?, |x, inverse| {
            inverse_root(parts, inverse).map(|(variance, epsilon)| (x, variance, epsilon))
        })
    })
}

/// `variance` and `epsilon` of `v = sqrt(variance + epsilon)`.
fn root(parts: &Parts, v: ValueId) -> Result<(ValueId, f64), Skip> {
    let raised = parts.unary("Sqrt", v).or_else(|_| power(parts, v, 0.5))?;
    raised_by(parts, raised)
}

/// `variance` and `epsilon` of `v = 1 / sqrt(variance + epsilon)`.
pub(crate) fn inverse_root(parts: &Parts, v: ValueId) -> Result<(ValueId, f64), Skip> {
    let by_power = || raised_by(parts, power(parts, v, -0.5)?);
    let reciprocal = || root(parts, parts.unary("Reciprocal", v)?);
    let quotient = || match parts.pair("Div", v)? {
        [one, std] if parts.number(one) == Some(1.0) => root(parts, std),
        _ => Skip::unlike(),
    };
    let found = parts.attempt(reciprocal).or_else(|_| parts.attempt(quotient));
    found.or_else(|_| parts.attempt(by_power))
}

/// `x`, what its mean is reduced along, and `epsilon` of `v = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`.
pub(crate) fn centred(parts: &Parts, v: ValueId) -> Result<(ValueId, Reduction, f64), Skip> {
    let (deviation, variance, epsilon) = reciprocal_root(parts, v)?;
    let [x, mean] = parts.pair("Sub", deviation)?;
    Ok((x, spread(parts, x, mean, deviation, variance)?, epsilon))
}

/// What `mean`, the mean of `x`, is reduced along, if `variance` is the mean square of `deviation = x - mean`.
fn spread(
    parts: &Parts,
    x: ValueId,
    mean: ValueId,
    deviation: ValueId,
    variance: ValueId,
) -> Result<Reduction, Skip> {
    let mean = parts.reduction("ReduceMean", mean)?;
    let variance = parts.reduction("ReduceMean", variance)?;
    let square = parts.product(variance.data);
    let is_variance = square.scale == 1.0 && square.factors == [deviation; 2];
    let same = mean.axes == variance.axes && mean.keepdims && variance.keepdims;
    if mean.data == x && is_variance && same { Ok(mean) } else { Skip::unlike() }
}

/// Parts of `v = x * m + (shift - mean * m)` with `m = gain / sqrt(variance + epsilon)`, as TensorFlow normalizes.
pub(crate) struct Affine {
    pub(crate) x: ValueId,
    pub(crate) mean: Reduction,
    pub(crate) epsilon: f64,
    pub(crate) gain: Option<ValueId>,
    pub(crate) shift: Option<ValueId>,
}

pub(crate) fn affine(parts: &Parts, terms: [ValueId; 2]) -> Result<Affine, Skip> {
    parts.either(terms, |scaled, rest| {
        parts.either(parts.pair("Mul", scaled)?, |x, m| {
            let (mean, shift) = moved(parts, rest, m)?;
            let plain = || inverse_root(parts, m).map(|found| (found, None));
            let gained = || {
                parts.either(parts.pair("Mul", m)?, |inverse, gain| {
                    Ok((inverse_root(parts, inverse)?, Some(gain)))
                })
            };
            let ((variance, epsilon), gain) = parts.attempt(plain).or_else(|_| gained())?;
            let variance_of = parts.attempt(|| parts.reduction("ReduceMean", variance))?;
            let deviation = parts.product(variance_of.data).factors.first().copied();
            let deviation = deviation.ok_or_else(unlike)?;
            if parts.pair("Sub", deviation)? != [x, mean] {
                return Skip::unlike();
            }
            let mean = spread(parts, x, mean, deviation, variance)?;
            Ok(Affine { x, mean, epsilon, gain, shift })
        })
    })
}

/// `mean` and `shift` of `v = shift - mean * m`.
fn moved(parts: &Parts, v: ValueId, m: ValueId) -> Result<(ValueId, Option<ValueId>), Skip> {
    let times_m = |v| {
        parts.either(
            parts.pair("Mul", v)?,
            |mean, found| {
                if found == m { Ok(mean) } else { Skip::unlike() }
            },
        )
    };
    let negated = |v| {
        let of_product = || times_m(parts.unary("Neg", v)?);
        let of_mean = || parts.unary("Neg", times_m(v)?);
        parts.attempt(of_product).or_else(|_| parts.attempt(of_mean))
    };
    let subtracted = || {
        let [shift, product] = parts.pair("Sub", v)?;
        Ok((times_m(product)?, Some(shift)))
    };
    let added = || parts.either(parts.pair("Add", v)?, |shift, v| Ok((negated(v)?, Some(shift))));
    let bare = || Ok((negated(v)?, None));
    parts.attempt(subtracted).or_else(|_| parts.attempt(added)).or_else(|_| parts.attempt(bare))
}

fn power(parts: &Parts, v: ValueId, exponent: f64) -> Result<ValueId, Skip> {
    let (x, found) = parts.with_number("Pow", v)?;
    if found == exponent { Ok(x) } else { Skip::unlike() }
}

/// `variance` and `epsilon` of `v = variance + epsilon`.
fn raised_by(parts: &Parts, v: ValueId) -> Result<(ValueId, f64), Skip> {
    let sum = parts.sum(v);
    match sum.terms[..] {
        [variance] => Ok((variance, sum.constant)),
        _ => Skip::unlike(),
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

/// The parameter per channel that `f` makes of the elements of `old` and `by`.
pub(crate) fn per_channel_changed(
    cx: &mut Rewriter,
    old: ValueId,
    role: &str,
    by: &Reals,
    f: impl Fn(f64, f64) -> f64,
) -> Result<ValueId, Skip> {
    let new = cx.reals(old)?.zip(by, f).ok_or_else(unlike)?;
    cx.derive_reals(old, role, &new, old)
}
