//! Multiplication by constants, and thresholds.

use onnxd_plugin_sdk::build::Operand;

use crate::cell::{Cell, Lowered};
use crate::ini::words;

/// `Factor` times the input; one for all channels, or one each.
pub(super) fn scaling(b: &Cell) -> Lowered {
    let factors = b.section.required::<Vec<f32>>("Factor")?;
    let x = b.kept()?;
    if factors.len() != 1 && factors.len() != x.size.channels {
        let message =
            format!("has {} numbers, the input has {} channels", factors.len(), x.size.channels);
        return Err(b.section.problem("Factor", message));
    }
    b.mul(x, b.per_channel("factor", x, factors))
}

words! { Operation { Binary, BinaryInverted, Truncate, ToZero, ToZeroInverted } }

pub(super) fn threshold(b: &Cell) -> Lowered {
    let threshold = b.section.required::<f32>("Threshold")?;
    let max = b.section.parameter("MaxValue")?.unwrap_or(1.0_f32);
    let operation = b.section.parameter("Operation")?.unwrap_or(Operation::Binary);
    let x = b.kept()?;
    let bound = b.scalar("threshold", threshold);
    let constant = |role, value| Operand::from(b.scalar(role, value));
    let (zero, max) = (|| constant("zero", 0.0), || constant("max", max));
    let (above, below): (Operand, Operand) = match operation {
        Operation::Binary => (max(), zero()),
        Operation::BinaryInverted => (zero(), max()),
        Operation::Truncate => (bound.into(), x.into()),
        Operation::ToZero => (x.into(), zero()),
        Operation::ToZeroInverted => (zero(), x.into()),
    };
    b.where_(b.greater(x, bound)?, above, below)
}
