//! Multiplication by constants, and thresholds.

use onnxd_plugin_sdk::build::Operand;

use crate::cell::{Cell, Lowered};
use crate::ini::{settings, words};

words! { Operation { Binary, BinaryInverted, Truncate, ToZero, ToZeroInverted } }

settings! {
    struct Scaling { Factor: Vec<f32> }
    struct Threshold { Threshold: f32 }
    config { MaxValue: f32 = 1.0, Operation: Operation = Operation::Binary }
}

/// `Factor` times the input; one for all channels, or one each.
pub(super) fn scaling(b: &Cell, a: &Scaling) -> Lowered {
    let (x, factors) = (b.kept()?, a.Factor.clone());
    if factors.len() != 1 && factors.len() != x.size.channels {
        let message =
            format!("has {} numbers, the input has {} channels", factors.len(), x.size.channels);
        return Err(b.section.problem("Factor", message));
    }
    b.mul(x, b.per_channel("factor", x, factors))
}

pub(super) fn threshold(b: &Cell, a: &Threshold) -> Lowered {
    let x = b.kept()?;
    let bound = b.scalar("threshold", a.Threshold);
    let constant = |role, value| Operand::from(b.scalar(role, value));
    let (zero, max) = (|| constant("zero", 0.0), || constant("max", a.MaxValue));
    let (above, below): (Operand, Operand) = match a.Operation {
        Operation::Binary => (max(), zero()),
        Operation::BinaryInverted => (zero(), max()),
        Operation::Truncate => (bound.into(), x.into()),
        Operation::ToZero => (x.into(), zero()),
        Operation::ToZeroInverted => (zero(), x.into()),
    };
    b.where_(b.greater(x, bound)?, above, below)
}
