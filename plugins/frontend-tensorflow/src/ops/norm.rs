//! Normalization.

use super::create::number;
use super::layout::Channels;
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "FusedBatchNorm" | "FusedBatchNormV2" => |b, a: Batch| {
            let [y, mean, variance, biased] = batch_norm(b, a)?;
            Ok([y, mean, variance, mean, biased])
        };
        "FusedBatchNormV3" => |b, a: Batch| {
            let [y, mean, variance, biased] = batch_norm(b, a)?;
            Ok([y, mean, variance, mean, biased, biased])
        };
        "BatchNormWithGlobalNormalization" => global;
        "LRN" => lrn(input, depth_radius, bias, alpha, beta);
    }
}

arguments! {
    /// `FusedBatchNormV3`
    pub(crate) struct Batch {
        x: Var, scale: Var, offset: Var, mean: Var, variance: Var, epsilon: f64, data_format: String,
        exponential_avg_factor: f64, is_training: bool,
    }
    /// `BatchNormWithGlobalNormalization`
    struct Global {
        t: Var, m: Var, v: Var, beta: Var, gamma: Var, variance_epsilon: f64, scale_after_normalization: bool,
    }
}

/// The normalized tensor, mean and variance, and the variance that gradients take. In training they are those of the
/// batch; the variance that is handed on is then the unbiased one.
pub(crate) fn batch_norm(b: &Lower, a: Batch) -> Lowered<[Var; 4]> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let dtype = dtype_of(b, a.x)?;
    let x = channels.first(b, a.x)?;
    let [scale, offset] = [b.cast(a.scale, dtype)?, b.cast(a.offset, dtype)?];
    if !a.is_training {
        let [mean, variance] = [b.cast(a.mean, dtype)?, b.cast(a.variance, dtype)?];
        let y = b.batch_normalization(x, scale, offset, mean, variance).epsilon(a.epsilon).one()?;
        return Ok([channels.back(b, y)?, a.mean, a.variance, a.variance]);
    }
    let wide = b.cast(x, dtype_of(b, a.scale)?)?;
    let n = rank(b, x)? as i64;
    let axes: Vec<i64> = [0].into_iter().chain(2..n).collect();
    let mean = b.reduce_mean(wide).axes(&axes).keepdims(1).one()?;
    let apart = b.sub(wide, mean)?;
    let variance = b.reduce_mean(b.mul(apart, apart)?).axes(&axes).keepdims(0).one()?;
    let mean = b.squeeze(mean).axes(&axes).one()?;
    let call =
        b.batch_normalization(x, scale, offset, b.cast(mean, dtype)?, b.cast(variance, dtype)?);
    let y = call.epsilon(a.epsilon).one()?;
    let count = b.div(b.size(wide)?, b.size(mean)?)?;
    let count = b.cast(count, dtype_of(b, variance)?)?;
    let less = b.max([b.sub(count, 1.0)?, b.constant(number(1.0, dtype_of(b, variance)?))])?;
    let unbiased = b.mul(variance, b.div(count, less)?)?;
    let [y, factor] = [
        channels.back(b, y)?,
        b.constant(number(a.exponential_avg_factor, dtype_of(b, variance)?)),
    ];
    if a.exponential_avg_factor == 1.0 {
        return Ok([y, mean, unbiased, variance]);
    }
    // A share of the batch, and the rest of what was before.
    let mixed = |old: Var, new: Var| b.add(old, b.mul(b.sub(new, old)?, factor)?);
    Ok([y, mixed(a.mean, mean)?, mixed(a.variance, unbiased)?, variance])
}

fn global(b: &Lower, a: Global) -> Lowered<Var> {
    let deviation = b.sqrt(b.add(a.v, a.variance_epsilon)?)?;
    let y = b.div(b.sub(a.t, a.m)?, deviation)?;
    let y = if a.scale_after_normalization { b.mul(y, a.gamma)? } else { y };
    b.add(y, a.beta)
}

/// ONNX divides `alpha` by the number of channels that it sums over.
pub(crate) fn local(
    b: &onnxd_plugin_sdk::build::GraphBuilder,
    x: Var,
    radius: i64,
    [bias, alpha, beta]: [f64; 3],
) -> Lowered<Var> {
    let size = radius.saturating_mul(2).saturating_add(1);
    let channels = Channels::Last;
    let y = b
        .lrn(channels.first(b, x)?)
        .size(size)
        .alpha(alpha * size as f64)
        .beta(beta)
        .bias(bias)
        .one()?;
    channels.back(b, y)
}

fn lrn(b: &Lower, input: Var, depth_radius: i64, bias: f64, alpha: f64, beta: f64) -> Lowered<Var> {
    local(b, input, depth_radius, [bias, alpha, beta])
}
