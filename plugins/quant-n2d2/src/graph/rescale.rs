//! From accumulators to the integers of the next cell: the five modes, and saturation.
//!
//! Integer operators do the fixed-point and shift modes. ONNX shifts unsigned numbers only, so that
//! the shift is a division by a power of two. That rounds towards zero, which is as good as an
//! arithmetic shift where a clip at zero follows; for signed results an offset, a multiple of all
//! divisors, makes the dividend positive, and its quotient is subtracted again.

use super::types::{Result, Types};
use crate::plan::{How, Output, bounds};
use onnxd_plugin_sdk::build::{GraphBuilder, Result as Built, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::DataType;

/// The largest float32 below one half. `floor(x + HALF)` rounds every `x >= 0` to the nearest,
/// halves up; with one half itself, 0.49999997 would become 1.
const HALF: f32 = 0.499_999_97;
/// Up to here every integer is a float32.
const EXACT: i128 = 1 << 24;

/// Integers that nothing has been rescaled of yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) value: Var,
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
    t: &Types,
    acc: Accumulator,
    how: &How,
    range: (i64, i64),
    to: DataType,
) -> Result<Var> {
    match how {
        How::FloatingPoint(factors) => floating(t, acc, factors, range, to),
        How::FixedPoint { fraction_bits, multipliers } => {
            let terms: Vec<_> = multipliers.iter().map(|m| (*m, *fraction_bits)).collect();
            shifted(t, acc, &terms, range, to)
        }
        How::SingleShift(shifts) => {
            let terms: Vec<_> = shifts.iter().map(|s| (1, *s)).collect();
            shifted(t, acc, &terms, range, to)
        }
        How::DoubleShift(pairs) => {
            let terms: Option<Vec<_>> =
                pairs.iter().map(|(d, s)| Some((1 + 1i64.checked_shl(*d)?, *s))).collect();
            let terms = terms.ok_or("a shift has more bits than there are")?;
            shifted(t, acc, &terms, range, to)
        }
    }
}

/// Saturates to `range` and casts to `to`, no more.
pub(crate) fn saturate(
    t: &Types,
    acc: Accumulator,
    range: (i64, i64),
    to: DataType,
) -> Result<Var> {
    let lowest = if acc.signed() { -acc.max } else { 0 };
    if range.0 <= lowest && acc.max <= range.1 {
        return Ok(t.cast(acc.value, acc.dtype, to, "ocast")?);
    }
    // Few operators take narrow integers.
    let work = if acc.dtype == DataType::Int64 { DataType::Int64 } else { DataType::Int32 };
    let wide = t.cast(acc.value, acc.dtype, work, "act_icast")?;
    let clipped = t.clip(wide, t.held(work), range)?;
    Ok(t.cast(clipped, work, to, "ocast")?)
}

/// Axes behind the channels, as far as `values` differ between channels.
fn axes<T: PartialEq>(acc: Accumulator, values: &[T]) -> Result<usize> {
    match acc.axes {
        Some(axes) => Ok(axes),
        None if values.iter().all(|x| *x == values[0]) => Ok(0),
        None => Err("the number of its axes is not known".into()),
    }
}

fn floating(
    t: &Types,
    acc: Accumulator,
    factors: &[f32],
    range: (i64, i64),
    to: DataType,
) -> Result<Var> {
    let axes = axes(acc, factors)?;
    let x = t.cast(acc.value, acc.dtype, DataType::Float, "act_icast")?;
    let scaled = t.b.named("act_scaled", t.b.mul(x, t.reals(factors, axes, "act_w"))?);
    rounded(t, scaled, range, to)
}

/// Rounds float32, halves away from zero, saturates to `range`, and casts to `to`.
pub(crate) fn rounded(t: &Types, x: Var, range: (i64, i64), to: DataType) -> Result<Var> {
    let x = raised(t, x, HALF, range.0 < 0)?;
    let x = t.clip(x, DataType::Float, range)?;
    Ok(t.cast(x, DataType::Float, to, "ocast")?)
}

/// `floor(|x| + raise)` with the sign of `x`, which only signed values have.
pub(crate) fn raised(t: &Types, x: Var, raise: f32, signed: bool) -> Result<Var> {
    let (b, raise) = (t.b, t.reals(&[raise], 0, "act_raise"));
    if !signed {
        let x = b.named("act_raised", b.add(x, raise)?);
        return Ok(b.named("act_rounded", b.floor(x)?));
    }
    let sign = b.named("act_sign", b.sign(x)?);
    let x = b.named("act_raised", b.add(b.named("act_abs", b.abs(x)?), raise)?);
    let x = b.named("act_floor", b.floor(x)?);
    Ok(b.named("act_rounded", b.mul(x, sign)?))
}

/// `(acc · m + 2^(s-1)) >> s` with a pair `(m, s)` for all outputs or per output.
fn shifted(
    t: &Types,
    acc: Accumulator,
    terms: &[(i64, u32)],
    range: (i64, i64),
    to: DataType,
) -> Result<Var> {
    let axes = axes(acc, terms)?;
    let too_wide = || "its accumulator times the factor takes more than 64 bits".to_owned();
    refuse!(terms.iter().any(|(m, s)| *s > 61 || *m < 0) => too_wide().into());
    let half = |s: u32| if s == 0 { 0 } else { 1i64 << (s - 1) };
    let bound = |(m, s): &(i64, u32)| i128::from(acc.max) * i128::from(*m) + i128::from(half(*s));
    let bound = terms.iter().map(bound).max().unwrap_or(0);
    if t.fake() {
        return shifted_in_float(t, acc, terms, bound, range, axes);
    }
    let shifts = terms.iter().any(|(_, s)| *s > 0);
    let divisor = terms.iter().map(|(_, s)| 1i128 << s).max().unwrap_or(1);
    let offset = match range.0 < 0 && shifts {
        true => (bound.max(divisor) as u128).next_power_of_two() as i128,
        false => 0,
    };
    let work = match divisor.max(bound + offset) {
        sum if sum <= i128::from(i32::MAX) => DataType::Int32,
        sum if sum <= i128::from(i64::MAX) => DataType::Int64,
        _ => return Err(too_wide().into()),
    };
    let offset = offset as i64;
    let list = |f: &dyn Fn(i64, u32) -> i64| terms.iter().map(|(m, s)| f(*m, *s)).collect();
    type Binary = fn(&GraphBuilder, Var, Var) -> Built<Var>;
    let steps: [(Binary, &str, Vec<i64>, i64); 4] = [
        (|b, x, y| b.mul(x, y), "act_m", list(&|m, _| m), 1),
        (|b, x, y| b.add(x, y), "act_half", list(&|_, s| half(s) + offset), 0),
        (|b, x, y| b.div(x, y), "act_s", list(&|_, s| 1 << s), 1),
        (|b, x, y| b.sub(x, y), "act_offset", list(&|_, s| offset >> s), 0),
    ];
    let mut x = t.cast(acc.value, acc.dtype, work, "act_icast")?;
    for (apply, role, values, neutral) in steps {
        if values.iter().any(|v| *v != neutral) {
            let operand = t.integers(&values, work, axes, role)?;
            x = t.b.named("act_scaled", apply(t.b, x, operand)?);
        }
    }
    let x = t.clip(x, work, range)?;
    Ok(t.cast(x, work, to, "ocast")?)
}

/// [`shifted`] with the same values in float32.
fn shifted_in_float(
    t: &Types,
    acc: Accumulator,
    terms: &[(i64, u32)],
    bound: i128,
    range: (i64, i64),
    axes: usize,
) -> Result<Var> {
    if bound > EXACT {
        let text = format!(
            "`{}`: numbers up to {bound} are not exact in float32, so that results may differ \
             by one from those of the integer graph",
            t.b.prefix()
        );
        t.remarks.borrow_mut().push(text);
    }
    let factor = |(m, s): &(i64, u32)| (*m as f64 * (-f64::from(*s)).exp2()) as f32;
    let factors: Vec<f32> = terms.iter().map(factor).collect();
    let halves: Vec<f32> = terms.iter().map(|(_, s)| if *s == 0 { 0.0 } else { 0.5 }).collect();
    let (b, factors) = (t.b, t.reals(&factors, axes, "act_s"));
    let halves = t.reals(&halves, axes, "act_half");
    let x = b.named("act_scaled", b.mul(acc.value, factors)?);
    let x = b.named("act_raised", b.add(x, halves)?);
    t.clip(b.named("act_rounded", b.floor(x)?), DataType::Float, range)
}

/// The range to which a cell's result is saturated: a rectifier leaves nothing below zero.
pub(crate) fn saturation(bits: u32, signed: bool, rectifier: bool) -> (i64, i64) {
    let (lo, hi) = bounds(bits, signed);
    (if rectifier { lo.max(0) } else { lo }, hi)
}
