//! Comparisons and logic.

use crate::math::broadcast_7;
use crate::row::{Row, down, up};
use crate::site::{Done, Site};
use onnxd_ir::{DataType, ValueId};

pub(crate) const ROWS: &[Row] = &[
    up(&["And", "Or", "Xor", "Equal", "Greater", "Less"], 7, broadcast_7),
    down(&["Greater", "Less"], 9, compare_9_down),
    down(&["Equal"], 11, equal_11_down),
    down(&["GreaterOrEqual", "LessOrEqual"], 12, or_equal),
];

/// Before opset 9 only floating-point numbers are ordered.
fn compare_9_down(s: &mut Site<'_>) -> Done {
    let dtype = s.dtype(s.input(0)?)?;
    if dtype.is_integer() && dtype.bits() <= 32 {
        s.through(DataType::Double, &[0, 1], &[])?;
    }
    Ok(())
}

/// Before opset 11 floating-point numbers are equal if neither is above the other nor not a number.
fn equal_11_down(s: &mut Site<'_>) -> Done {
    let (a, b) = (s.input(0)?, s.input(1)?);
    let dtype = s.dtype(a)?;
    if dtype.is_integer() && dtype.bits() < 32 {
        return s.through(DataType::Int32, &[0, 1], &[]);
    }
    if !dtype.is_float() {
        return Ok(());
    }
    let parts = [("Less", "below", vec![a, b]), ("Greater", "above", vec![a, b])];
    let odd = [("IsNaN", "odd", vec![a]), ("IsNaN", "odd", vec![b])];
    let mut all: Vec<ValueId> =
        parts.into_iter().chain(odd).map(|(op, role, of)| s.add(op, role, &of, &[])).collect();
    while let [first, second, ..] = all[..] {
        let either = s.add("Or", "unequal", &[first, second], &[]);
        all.splice(..2, [either]);
    }
    s.become_node("Not", &all, &[]);
    Ok(())
}

/// `Not(Less)` would be true of what is not a number.
fn or_equal(s: &mut Site<'_>) -> Done {
    let (a, b) = (s.input(0)?, s.input(1)?);
    let strict = if s.node().op == "GreaterOrEqual" { "Greater" } else { "Less" };
    let beyond = s.add(strict, "beyond", &[a, b], &[]);
    let equal = s.add("Equal", "equal", &[a, b], &[]);
    s.become_node("Or", &[beyond, equal], &[]);
    Ok(())
}
