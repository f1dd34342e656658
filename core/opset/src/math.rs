//! Arithmetic, element by element.

use crate::context::{Done, LowerContext, axis, refuse};
use crate::row::{AdapterRow, both, down, restate, up};
use onnxd_build::Var;
use onnxd_ir::{Attr, DataType};

pub(crate) const ROWS: &[AdapterRow] = &[
    up(&["Add", "Sub", "Mul", "Div", "Pow"], 7, broadcast_7),
    up(&["PRelu"], 7, prelu_7),
    down(&["Sum", "Mean", "Max", "Min"], 8, merge_8_down),
    down(&["Mod"], 10, mod_10_down),
    both(&["Clip"], 11, restate, clip_11_down),
    down(&["Max", "Min", "Clip"], 12, integers_as_double),
    down(&["Pow"], 12, pow_12_down),
    down(&["Add", "Sub", "Mul", "Div"], 14, integers_as_int64),
    down(&["Relu"], 14, integers_as_double),
    down(&["IsInf"], 20, half_as_float),
];

/// Up to opset 6 the second input is laid along the first one's axes from `axis` on.
pub(crate) fn broadcast_7(s: &mut LowerContext<'_>) -> Done {
    let on = s.flag("broadcast", false)?;
    let at = s.int("axis")?;
    s.drop("broadcast");
    s.drop("axis");
    let Some(at) = at.filter(|_| on) else { return Ok(()) };
    let [x, y] = s.vars()?;
    let (rank, own) = (s.rank(x)?, s.rank(y)?);
    let after = rank as i64 - axis(at, rank)? - own as i64;
    if after < 0 {
        return refuse(format!("its second input does not fit from axis {at} on"));
    }
    s.set_input(1, Some(trailing_ones(s, y, own, after as usize)?))
}

/// `v`, which has the rank `rank`, with further axes of size 1.
fn trailing_ones(
    s: &LowerContext<'_>,
    v: Var,
    rank: usize,
    count: usize,
) -> onnxd_build::Result<Var> {
    let axes: Vec<i64> = (rank as i64..(rank + count) as i64).collect();
    if axes.is_empty() { Ok(v) } else { s.b.unsqueeze(v, axes) }
}

/// The slopes of channels lie along axis 1.
fn prelu_7(s: &mut LowerContext<'_>) -> Done {
    let [x, slope] = s.vars()?;
    let dims = s.dims(slope)?;
    if dims.len() != 1 || dims[0] == 1 {
        return Ok(());
    }
    let after = s.rank(x)?.saturating_sub(2);
    s.set_input(1, Some(trailing_ones(s, slope, 1, after)?))
}

/// Before opset 8 all inputs have the same shape.
fn merge_8_down(s: &mut LowerContext<'_>) -> Done {
    let b = s.b;
    let inputs: Vec<Var> = s.inputs().into_iter().flatten().collect();
    let shapes: Vec<_> = inputs.iter().map(|v| b.dims_of(*v)).collect();
    if inputs.len() < 2 || shapes[0].is_some() && shapes.iter().all(|d| *d == shapes[0]) {
        return Ok(());
    }
    let op = s.op();
    if !matches!(op.as_str(), "Sum" | "Mean") {
        return refuse("its inputs may have different shapes");
    }
    let sum = inputs[1..].iter().try_fold(inputs[0], |sum, v| b.add(sum, *v))?;
    s.becomes(if op == "Sum" { sum } else { b.div(sum, inputs.len() as f64)? })
}

/// The remainder with the divisor's sign: (r + y) mod y for the remainder r with the dividend's.
fn mod_10_down(s: &mut LowerContext<'_>) -> Done {
    let (b, [x, y]) = (s.b, s.vars()?);
    if s.flag("fmod", false)? || !s.dtype(x)?.is_integer() {
        return refuse("there is no remainder of floats");
    }
    let rest = |x: Var| b.sub(x, b.mul(b.div(x, y)?, y)?);
    s.becomes(rest(b.add(rest(x)?, y)?)?)
}

/// Limits that are computed are taken by `Max` and `Min`.
fn clip_11_down(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let exact = |i| -> Option<Option<Attr>> {
        if !s.has(i) {
            return Some(None);
        }
        let limit = *s.fixed_floats(i).ok()??.first()?;
        (f64::from(limit as f32) == limit).then_some(Some(Attr::Float(limit as f32)))
    };
    if let (Some(min), Some(max)) = (exact(1), exact(2)) {
        s.set_inputs(&[Some(x)])?;
        for (name, limit) in [("min", min), ("max", max)] {
            limit.into_iter().for_each(|limit| s.set(name, limit));
        }
        return Ok(());
    }
    let mut y = x;
    if let Some(min) = s.optional(1) {
        y = b.max([y, min])?;
    }
    if let Some(max) = s.optional(2) {
        y = b.min([y, max])?;
    }
    s.becomes(y)
}

/// Whether every value of the type is a double.
fn is_small_integer(dtype: DataType) -> bool {
    dtype.is_integer() && dtype.bits() <= 32
}

fn all_inputs(s: &LowerContext<'_>) -> Vec<usize> {
    (0..s.inputs().len()).collect()
}

/// Where only floating-point types were allowed.
pub(crate) fn integers_as_double(s: &mut LowerContext<'_>) -> Done {
    match is_small_integer(s.dtype(s.var(0)?)?) {
        true => s.through(DataType::Double, &all_inputs(s), &[0]),
        false => Ok(()),
    }
}

/// Where integers of fewer than 32 bits were not allowed; casting back wraps as they do.
fn integers_as_int64(s: &mut LowerContext<'_>) -> Done {
    let dtype = s.dtype(s.var(0)?)?;
    match dtype.is_integer() && dtype.bits() < 32 {
        true => s.through(DataType::Int64, &all_inputs(s), &[0]),
        false => Ok(()),
    }
}

/// Before opset 12 base and exponent have the same type.
fn pow_12_down(s: &mut LowerContext<'_>) -> Done {
    let [base, exponent] = s.vars()?;
    let dtype = s.dtype(base)?;
    if is_small_integer(dtype) {
        return s.through(DataType::Double, &[0, 1], &[0]);
    }
    s.set_input(1, Some(s.b.cast(exponent, dtype)?))
}

fn half_as_float(s: &mut LowerContext<'_>) -> Done {
    match s.dtype(s.var(0)?)? {
        DataType::Float16 | DataType::Bfloat16 => s.through(DataType::Float, &[0], &[]),
        _ => Ok(()),
    }
}
