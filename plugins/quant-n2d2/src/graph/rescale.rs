//! From accumulators to the integers of the next cell: the five modes, and saturation.
//!
//! Integer operators do the fixed-point and shift modes. ONNX shifts unsigned numbers only, so that
//! the shift is a division by a power of two. That rounds towards zero, which is as good as an
//! arithmetic shift where a clip at zero follows; for signed results an offset, a multiple of all
//! divisors, makes the dividend positive, and its quotient is subtracted again.

use super::emit::Emit;
use crate::plan::{How, Output, bounds};
use onnxd_plugin_sdk::ir::{DataType, ValueId};

/// The largest float32 below one half. `floor(x + HALF)` rounds every `x >= 0` to the nearest,
/// halves up; with one half itself, 0.49999997 would become 1.
const HALF: f32 = 0.499_999_97;
/// Up to here every integer is a float32.
const EXACT: i128 = 1 << 24;

/// Integers that nothing has been rescaled of yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) value: ValueId,
    /// Type in an integer graph.
    pub(crate) dtype: DataType,
    /// Nothing has a larger magnitude.
    pub(crate) max: i64,
    /// Number of axes behind the channels; unknown if the rank is.
    pub(crate) axes: Option<usize>,
}

impl Accumulator {
    /// Whether it may be negative.
    pub(crate) fn signed(&self) -> bool {
        !matches!(self.dtype, DataType::Uint8 | DataType::Uint16)
    }
}

/// The type that holds the integers of a tensor.
pub(crate) fn storage(output: Output) -> DataType {
    match (output.bits <= 8, output.signed) {
        (true, true) => DataType::Int8,
        (true, false) => DataType::Uint8,
        (false, true) => DataType::Int16,
        (false, false) => DataType::Uint16,
    }
}

/// Rescales, saturates to `range`, and casts to `to`.
pub(crate) fn rescale(
    e: &mut Emit,
    acc: Accumulator,
    how: &How,
    range: (i64, i64),
    to: DataType,
) -> Result<ValueId, String> {
    match how {
        How::FloatingPoint(factors) => floating(e, acc, factors, range, to),
        How::FixedPoint { fraction_bits, multipliers } => {
            let terms: Vec<_> = multipliers.iter().map(|m| (*m, *fraction_bits)).collect();
            shifted(e, acc, &terms, range, to)
        }
        How::SingleShift(shifts) => {
            let terms: Vec<_> = shifts.iter().map(|s| (1, *s)).collect();
            shifted(e, acc, &terms, range, to)
        }
        How::DoubleShift(pairs) => {
            let terms: Option<Vec<_>> =
                pairs.iter().map(|(d, s)| Some((1 + 1i64.checked_shl(*d)?, *s))).collect();
            let terms = terms.ok_or("a shift has more bits than there are")?;
            shifted(e, acc, &terms, range, to)
        }
    }
}

/// Saturates to `range` and casts to `to`, no more.
pub(crate) fn saturate(e: &mut Emit, acc: Accumulator, range: (i64, i64), to: DataType) -> ValueId {
    let lowest = if acc.signed() { -acc.max } else { 0 };
    if range.0 <= lowest && acc.max <= range.1 {
        return e.cast(acc.value, acc.dtype, to, "ocast");
    }
    // Operators on few bits are few.
    let work = if acc.dtype == DataType::Int64 { DataType::Int64 } else { DataType::Int32 };
    let wide = e.cast(acc.value, acc.dtype, work, "act_icast");
    let clipped = e.clip(wide, e.held(work), range);
    e.cast(clipped, work, to, "ocast")
}

/// Axes behind the channels, as far as `values` differ between channels.
fn axes<T: PartialEq>(acc: Accumulator, values: &[T]) -> Result<usize, String> {
    match acc.axes {
        Some(axes) => Ok(axes),
        None if values.iter().all(|x| *x == values[0]) => Ok(0),
        None => Err("the number of its axes is not known".into()),
    }
}

fn floating(
    e: &mut Emit,
    acc: Accumulator,
    factors: &[f32],
    range: (i64, i64),
    to: DataType,
) -> Result<ValueId, String> {
    let axes = axes(acc, factors)?;
    let x = e.cast(acc.value, acc.dtype, DataType::Float, "act_icast");
    let factors = e.reals(factors, axes, "act_w");
    let x = e.op("Mul", &[x, factors], "act_scaled");
    Ok(rounded(e, x, range, to))
}

/// Rounds float32, halves away from zero, saturates to `range`, and casts to `to`.
pub(crate) fn rounded(e: &mut Emit, x: ValueId, range: (i64, i64), to: DataType) -> ValueId {
    let x = raised(e, x, HALF, range.0 < 0);
    let x = e.clip(x, DataType::Float, range);
    e.cast(x, DataType::Float, to, "ocast")
}

/// `floor(|x| + raise)` with the sign of `x`, which only signed values have.
pub(crate) fn raised(e: &mut Emit, x: ValueId, raise: f32, signed: bool) -> ValueId {
    let raise = e.reals(&[raise], 0, "act_raise");
    if !signed {
        let x = e.op("Add", &[x, raise], "act_raised");
        return e.op("Floor", &[x], "act_rounded");
    }
    let sign = e.op("Sign", &[x], "act_sign");
    let x = e.op("Abs", &[x], "act_abs");
    let x = e.op("Add", &[x, raise], "act_raised");
    let x = e.op("Floor", &[x], "act_floor");
    e.op("Mul", &[x, sign], "act_rounded")
}

/// `(acc · m + 2^(s-1)) >> s` with a pair `(m, s)` for all outputs or per output.
fn shifted(
    e: &mut Emit,
    acc: Accumulator,
    terms: &[(i64, u32)],
    range: (i64, i64),
    to: DataType,
) -> Result<ValueId, String> {
    let axes = axes(acc, terms)?;
    let too_wide = || "its accumulator times the factor takes more than 64 bits".to_owned();
    if terms.iter().any(|(m, s)| *s > 61 || *m < 0) {
        return Err(too_wide());
    }
    let half = |s: u32| if s == 0 { 0 } else { 1i64 << (s - 1) };
    let bound = |(m, s): &(i64, u32)| i128::from(acc.max) * i128::from(*m) + i128::from(half(*s));
    let bound = terms.iter().map(bound).max().unwrap_or(0);
    if e.fake() {
        return Ok(shifted_in_float(e, acc, terms, bound, range, axes));
    }
    let shifts = terms.iter().any(|(_, s)| *s > 0);
    let offset = match range.0 < 0 && shifts {
        true => {
            let divisor = terms.iter().map(|(_, s)| 1i128 << s).max().unwrap_or(1);
            (bound.max(divisor) as u128).next_power_of_two() as i128
        }
        false => 0,
    };
    let work = match bound + offset {
        sum if sum <= i128::from(i32::MAX) => DataType::Int32,
        sum if sum <= i128::from(i64::MAX) => DataType::Int64,
        _ => return Err(too_wide()),
    };
    let offset = offset as i64;
    let list = |f: &dyn Fn(i64, u32) -> i64| terms.iter().map(|(m, s)| f(*m, *s)).collect();
    let steps: [(&str, &str, Vec<i64>, i64); 4] = [
        ("Mul", "act_m", list(&|m, _| m), 1),
        ("Add", "act_half", list(&|_, s| half(s) + offset), 0),
        ("Div", "act_s", list(&|_, s| 1 << s), 1),
        ("Sub", "act_offset", list(&|_, s| offset >> s), 0),
    ];
    let mut x = e.cast(acc.value, acc.dtype, work, "act_icast");
    for (op, role, values, neutral) in steps {
        if values.iter().any(|v| *v != neutral) {
            let operand = e.integers(&values, work, axes, role);
            x = e.op(op, &[x, operand], "act_scaled");
        }
    }
    let x = e.clip(x, work, range);
    Ok(e.cast(x, work, to, "ocast"))
}

/// [`shifted`] with the same values in float32.
fn shifted_in_float(
    e: &mut Emit,
    acc: Accumulator,
    terms: &[(i64, u32)],
    bound: i128,
    range: (i64, i64),
    axes: usize,
) -> ValueId {
    if bound > EXACT {
        let text = format!(
            "`{}`: numbers up to {bound} are not exact in float32, so that results may differ \
             by one from those of the integer graph",
            e.prefix
        );
        e.remarks.push(text);
    }
    let factor = |(m, s): &(i64, u32)| (*m as f64 * (-f64::from(*s)).exp2()) as f32;
    let factors: Vec<f32> = terms.iter().map(factor).collect();
    let halves: Vec<f32> = terms.iter().map(|(_, s)| if *s == 0 { 0.0 } else { 0.5 }).collect();
    let factors = e.reals(&factors, axes, "act_s");
    let halves = e.reals(&halves, axes, "act_half");
    let x = e.op("Mul", &[acc.value, factors], "act_scaled");
    let x = e.op("Add", &[x, halves], "act_raised");
    let x = e.op("Floor", &[x], "act_rounded");
    e.clip(x, DataType::Float, range)
}

/// The range to which a cell's result is saturated: a rectifier leaves nothing below zero.
pub(crate) fn saturation(bits: u32, signed: bool, rectifier: bool) -> (i64, i64) {
    let (lo, hi) = bounds(bits, signed);
    (if rectifier { lo.max(0) } else { lo }, hi)
}
