//! Multiplication by constants, and thresholds.

use onnxd_plugin_sdk::build::Operand;

use crate::cell::{Cell, Lowered};
use crate::ini::similar;

pub(super) const THRESHOLD_KEYS: &[&str] = &["Threshold", "Operation", "MaxValue"];

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

/// What becomes of a value above the threshold, and of the others.
#[derive(Clone, Copy)]
enum Side {
    Input,
    Zero,
    Max,
    Threshold,
}

const OPERATIONS: &[(&str, [Side; 2])] = &[
    ("Binary", [Side::Max, Side::Zero]),
    ("BinaryInverted", [Side::Zero, Side::Max]),
    ("Truncate", [Side::Threshold, Side::Input]),
    ("ToZero", [Side::Input, Side::Zero]),
    ("ToZeroInverted", [Side::Zero, Side::Input]),
];

pub(super) fn threshold(b: &Cell) -> Lowered {
    let threshold = b.section.required::<f32>("Threshold")?;
    let max = b.section.parameter("MaxValue")?.unwrap_or(1.0_f32);
    let name = b.section.parameter::<String>("Operation")?.unwrap_or_else(|| "Binary".into());
    let sides = operation(b, &name)?;
    let x = b.kept()?;
    let bound = b.scalar("threshold", threshold);
    let [then, other] = sides.map(|side| match side {
        Side::Input => Operand::from(x),
        Side::Threshold => bound.into(),
        Side::Zero => b.scalar("zero", 0.0).into(),
        Side::Max => b.scalar("max", max).into(),
    });
    b.where_(b.greater(x, bound)?, then, other)
}

fn operation(b: &Cell, name: &str) -> Lowered<[Side; 2]> {
    if let Some((_, sides)) = OPERATIONS.iter().find(|(known, _)| *known == name) {
        return Ok(*sides);
    }
    let names: Vec<&str> = OPERATIONS.iter().map(|(known, _)| *known).collect();
    let message =
        format!("must be one of {}, found `{}`", names.join(", "), crate::diag::shown(name));
    let problem = b.section.problem("Operation", message);
    Err(match similar(name, names) {
        Some(near) => problem.help(format!("Did you mean `{near}`?")),
        None => problem,
    })
}
