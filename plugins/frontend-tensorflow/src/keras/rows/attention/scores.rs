//! Heads that look at each other: products, masks and shares.

use crate::ops::create::{number, steps};
use crate::ops::shape::transposed;
use crate::ops::{dtype_of, size_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::DataType::{self, Bfloat16, Bool, Float, Float16};
use onnxd_plugin_sdk::lower::Lowered;

/// Heads that share keys.
const HEADS_MAX: i64 = 1 << 20;

/// What a mask does to scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Masked {
    /// Steps that may look at nothing look at all alike.
    #[default]
    Even,
    /// Steps that may look at nothing see zeros.
    Zero,
    /// A large number is taken off.
    Added,
}

impl Masked {
    /// What the scores of masked steps become, or what is added to them.
    pub(super) fn lowest(self, dtype: DataType) -> f64 {
        match (self, dtype == Float16) {
            (Masked::Even, true) => -45850.0,
            (Masked::Even, false) => -0.7 * 3.389_53e38,
            (Masked::Zero, true) => -3e4,
            (Masked::Added, true) => -65504.0,
            (Masked::Zero | Masked::Added, false) => -1e9,
        }
    }
}

/// What attention looks at beside the products.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScoreOptions {
    /// Steps look at those before them alone.
    pub(crate) causal: bool,
    /// One over the root of the size of keys unless it is said.
    pub(crate) scale: Option<f64>,
    /// Scores stay between this and its opposite, by `tanh`.
    pub(crate) soft_cap: Option<f64>,
    pub(crate) bias: Option<Var>,
    /// Truth values `[batch, heads, queries, keys]`.
    pub(crate) mask: Option<Var>,
    pub(crate) masked: Masked,
}

/// Whether key `j` is not behind query `i`, as a matrix for the last two axes of `scores`.
pub(crate) fn causal(b: &GraphBuilder, scores: Var) -> Lowered<Var> {
    let rows = b.unsqueeze(steps(b, scores, -2)?, [1])?;
    b.greater_or_equal(rows, steps(b, scores, -1)?)
}

/// Attention over `[batch, steps, heads, size]`; keys of fewer heads are shared.
pub(crate) fn over_heads(b: &GraphBuilder, all: [Var; 3], options: ScoreOptions) -> Lowered<Var> {
    Ok(with_scores(b, all, options)?.0)
}

/// As [`over_heads`], with the scores.
pub(super) fn with_scores(
    b: &GraphBuilder,
    [query, key, value]: [Var; 3],
    options: ScoreOptions,
) -> Lowered<(Var, Var)> {
    let dtype = dtype_of(b, query)?;
    let shared = match (size_of(b, query, 2), size_of(b, key, 2)) {
        (Some(q), Some(k)) if k > 0 && q > k && q % k == 0 => q / k,
        _ => 1,
    };
    let size = b.shape_of(key).and_then(|shape| shape.last()?.known()).unwrap_or(1);
    let first = |x: Var| transposed(b, x, &[0, 2, 1, 3]);
    let wide = |x: Var| if shared > 1 { repeated(b, x, shared) } else { Ok(x) };
    let (query, key, value) = (first(query)?, wide(first(key)?)?, wide(first(value)?)?);
    let query = b.mul(query, options.scale.unwrap_or(1.0 / (size as f64).sqrt()))?;
    let mut scores = b.mat_mul(query, transposed(b, key, &[0, 1, 3, 2])?)?;
    if options.masked == Masked::Even && matches!(dtype, Float16 | Bfloat16) {
        scores = b.cast(scores, Float)?;
    }
    if let Some(cap) = options.soft_cap {
        scores = b.mul(b.tanh(b.div(scores, cap)?)?, cap)?;
    }
    if let Some(bias) = options.bias {
        scores = b.add(scores, b.cast(bias, dtype_of(b, scores)?)?)?;
    }
    let mut mask = options.mask.map(|mask| b.cast(mask, Bool)).transpose()?;
    if options.causal {
        let own = causal(b, scores)?;
        mask = Some(mask.map_or(Ok(own), |mask| b.and(mask, own))?);
    }
    if let Some(mask) = mask {
        let dtype = dtype_of(b, scores)?;
        let low = b.constant(number(options.masked.lowest(dtype), dtype));
        scores = match options.masked {
            Masked::Even | Masked::Zero => b.where_(mask, scores, low)?,
            Masked::Added => b.add(scores, b.where_(mask, b.constant(number(0.0, dtype)), low)?)?,
        };
    }
    let mut shares = b.cast(b.softmax(scores).axis(-1).one()?, dtype)?;
    if let (Masked::Zero, Some(mask)) = (options.masked, mask) {
        shares = b.mul(shares, b.cast(mask, dtype)?)?;
    }
    Ok((first(b.mat_mul(shares, value)?)?, shares))
}

/// `[batch, heads, ...]` with each head several times.
fn repeated(b: &GraphBuilder, x: Var, times: i64) -> Lowered<Var> {
    let heads = size_of(b, x, 1).unwrap_or(1);
    refuse!(heads.saturating_mul(times) > HEADS_MAX =>
        b.diagnostic(Code::SourceLimit, "Attention has too many heads."));
    let places: Vec<i64> = (0..heads).flat_map(|i| vec![i; times as usize]).collect();
    b.gather(x, places).axis(1).one()
}
