//! Factors and addends per channel that follow a normalization, which has such parameters itself.

use super::beside;
use crate::arithmetic::per_channel;
use crate::parts::{needs, unlike};
use onnxd_plugin_sdk::ir::ops::{Add, GroupNormalization, InstanceNormalization, Mul};
use onnxd_plugin_sdk::ir::{At, Op, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// A normalization with a scale and a bias for each channel.
pub(crate) trait PerChannel: Op {
    /// The first operator set in which it has them.
    const SINCE: i64;

    /// What it normalizes.
    fn x(&self) -> ValueId;

    /// Scale and bias.
    fn parameters(&mut self) -> [&mut ValueId; 2];
}

impl PerChannel for InstanceNormalization {
    const SINCE: i64 = 1;

    fn x(&self) -> ValueId {
        self.x
    }

    fn parameters(&mut self) -> [&mut ValueId; 2] {
        [&mut self.scale, &mut self.b]
    }
}

impl PerChannel for GroupNormalization {
    const SINCE: i64 = 21;

    fn x(&self) -> ValueId {
        self.x
    }

    fn parameters(&mut self) -> [&mut ValueId; 2] {
        [&mut self.scale, &mut self.bias]
    }
}

pub(crate) fn scaled<N: PerChannel>(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let (mut norm, by) = beside_constant::<N>(cx, [mul.a, mul.b])?;
    for parameter in norm.parameters() {
        *parameter = changed(cx, *parameter, "scaled", &by, |a, b| a * b)?;
    }
    cx.replace(mul.out, norm)
}

pub(crate) fn shifted<N: PerChannel>(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
    let (mut norm, by) = beside_constant::<N>(cx, [add.a, add.b])?;
    let [_, bias] = norm.parameters();
    *bias = changed(cx, *bias, "shifted", &by, |a, b| a + b)?;
    cx.replace(add.out, norm)
}

/// The normalization that nothing else reads, and the constant as one value per channel.
fn beside_constant<N: PerChannel>(cx: &Rewriter, pair: [ValueId; 2]) -> Result<(N, Reals), Skip> {
    let (mut norm, by) = beside::<N>(cx, pair)?;
    needs(cx, &format!("a bias per channel of {}", N::NAME), N::SINCE)?;
    let [scale, _] = norm.op.parameters();
    let channels = cx.weights(*scale, 1)?.dims[0];
    let by = per_channel(&cx.reals(by)?, channels, cx.rank(norm.x())?, 1)?;
    cx.read_once(norm.out)?;
    Ok((norm.op, by))
}

/// The parameter that `f` makes of the elements of `old` and `by`.
fn changed(
    cx: &mut Rewriter,
    old: ValueId,
    role: &str,
    by: &Reals,
    f: impl Fn(f64, f64) -> f64,
) -> Result<ValueId, Skip> {
    let new = cx.reals(old)?.zip(by, f).ok_or_else(unlike)?;
    cx.derive_reals(old, role, &new, old)
}
