//! Multiplication by constants, and thresholds.

use onnxd_plugin_sdk::ir::{DataType, Op, ValueType, ops};

use crate::cell::{Cell, Lowered};
use crate::diag::Diagnostic;
use crate::ini::similar;

pub(super) const THRESHOLD_KEYS: &[&str] = &["Threshold", "Operation", "MaxValue"];

/// `Factor` times the input; one for all channels, or one each.
pub(super) fn scaling(cell: &mut Cell) -> Lowered {
    let factors = cell.section.required::<Vec<f32>>("Factor")?;
    let x = cell.input()?;
    cell.check_outputs(x)?;
    if factors.len() != 1 && factors.len() != x.size.channels {
        let message =
            format!("has {} numbers, the input has {} channels", factors.len(), x.size.channels);
        return Err(cell.section.problem("Factor", message));
    }
    let factor = cell.per_channel("factor", x, factors);
    Ok(cell.same(x, ops::Mul::new(x.value, factor)))
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

pub(super) fn threshold(cell: &mut Cell) -> Lowered {
    let threshold = cell.section.required::<f32>("Threshold")?;
    let max = cell.section.parameter("MaxValue")?.unwrap_or(1.0_f32);
    let name = cell.section.parameter::<String>("Operation")?.unwrap_or_else(|| "Binary".into());
    let sides = operation(cell, &name)?;
    let x = cell.input()?;
    cell.check_outputs(x)?;
    let bound = cell.scalar("threshold", threshold);
    let ty = cell.build.value_type(x.size, x.flat);
    let ty =
        ValueType::Tensor { dtype: Some(DataType::Bool), shape: ty.shape().map(<[_]>::to_vec) };
    let above = cell.node("greater", ty, |out| ops::Greater::new(x.value, bound).into_node(out));
    let [then, other] = sides.map(|side| match side {
        Side::Input => x.value,
        Side::Threshold => bound,
        Side::Zero => cell.scalar("zero", 0.0),
        Side::Max => cell.scalar("max", max),
    });
    Ok(cell.same(x, ops::Where::new(above, then, other)))
}

fn operation(cell: &Cell, name: &str) -> Result<[Side; 2], Diagnostic> {
    if let Some((_, sides)) = OPERATIONS.iter().find(|(known, _)| *known == name) {
        return Ok(*sides);
    }
    let names: Vec<&str> = OPERATIONS.iter().map(|(known, _)| *known).collect();
    let message =
        format!("must be one of {}, found `{}`", names.join(", "), crate::diag::shown(name));
    let problem = cell.section.problem("Operation", message);
    Err(match similar(name, names) {
        Some(near) => problem.help(format!("Did you mean `{near}`?")),
        None => problem,
    })
}
