//! Comparisons and logic.

use crate::context::{Done, LowerContext};
use crate::math::broadcast_7;
use crate::row::{AdapterRow, down, up};
use onnxd_ir::DataType;

pub(crate) const ROWS: &[AdapterRow] = &[
    up(&["And", "Or", "Xor", "Equal", "Greater", "Less"], 7, broadcast_7),
    down(&["Greater", "Less"], 9, compare_9_down),
    down(&["Equal"], 11, equal_11_down),
    down(&["GreaterOrEqual", "LessOrEqual"], 12, or_equal),
];

/// Before opset 9 only floating-point numbers are ordered.
fn compare_9_down(s: &mut LowerContext<'_>) -> Done {
    let dtype = s.dtype(s.var(0)?)?;
    match dtype.is_integer() && dtype.bits() <= 32 {
        true => s.through(DataType::Double, &[0, 1], &[]),
        false => Ok(()),
    }
}

/// Before opset 11 floating-point numbers are equal if neither is above the other nor not a number.
fn equal_11_down(s: &mut LowerContext<'_>) -> Done {
    let (b, [x, y]) = (s.b, s.vars()?);
    let dtype = s.dtype(x)?;
    if dtype.is_integer() && dtype.bits() < 32 {
        return s.through(DataType::Int32, &[0, 1], &[]);
    }
    if !dtype.is_float() {
        return Ok(());
    }
    let apart = b.or(b.less(x, y)?, b.greater(x, y)?)?;
    let odd = b.or(b.is_nan(x)?, b.is_nan(y)?)?;
    s.becomes(b.not(b.or(apart, odd)?)?)
}

/// `Not(Less)` would be true of what is not a number.
fn or_equal(s: &mut LowerContext<'_>) -> Done {
    let (b, [x, y]) = (s.b, s.vars()?);
    let beyond = if s.op() == "GreaterOrEqual" { b.greater(x, y)? } else { b.less(x, y)? };
    s.becomes(b.or(beyond, b.equal(x, y)?)?)
}
