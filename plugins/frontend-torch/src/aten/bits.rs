//! Operators on the bits of elements, by arithmetic that is exact: ONNX reads bits as another type from opset 26 on.
//!
//! The bits of an element are an integer of as many bits, with its sign, in an int64 tensor. A float `m * 2 ** e` is
//! taken apart in float64 by a table of powers of two, so that no rounding happens, subnormal numbers included.

use super::compare::never;
use super::dtype::{dtype_of, named, operands};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::arithmetic::{is_negative, largest};
use onnxd_plugin_sdk::ir::DataType::{
    self, Bfloat16, Bool, Double, Float, Float16, Int8, Int16, Int32, Int64,
};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::LN_2;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::view.dtype" | "aten::view_copy.dtype" => |b, input: Var, dtype: i64| {
            bits_as(b, input, named(b, dtype)?)
        };
        "prims::view_of_dtype" => |b, a: Var, dtype: i64| bits_as(b, a, named(b, dtype)?);
        "aten::signbit" | "prims::signbit" => |b, input: Var| negative(b, input);
        "aten::frexp" | "prims::frexp" => frexp(input);
        "aten::nextafter" | "prims::nextafter" => nextafter(input, other);
    }
}

/// How a float type is laid out.
#[derive(Clone, Copy)]
struct FloatLayout {
    dtype: DataType,
    /// Bits of the mantissa, without the leading one.
    mantissa: i32,
    /// Exponents of the smallest normal number and of the largest one.
    least: i32,
    most: i32,
}

impl FloatLayout {
    fn from_dtype(dtype: DataType) -> Option<FloatLayout> {
        let (mantissa, most) = match dtype {
            Float16 => (10, 15),
            Bfloat16 => (7, 127),
            Float => (23, 127),
            Double => (52, 1023),
            _ => return None,
        };
        Some(FloatLayout { dtype, mantissa, least: 1 - most, most })
    }

    /// The leading one of a mantissa, and what the exponent counts.
    fn one(self) -> i64 {
        1 << self.mantissa
    }

    /// The bits of infinity.
    fn infinity(self) -> i64 {
        i64::from(self.most - self.least + 2) << self.mantissa
    }

    /// The bits that stand for the sign, as a number to be added.
    fn sign(self) -> i64 {
        i64::MIN >> (64 - self.dtype.bits())
    }
}

/// A power of two; one that is subnormal is the product of two that are not.
fn power(exponent: i32) -> f64 {
    2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

/// The items of a table, at places.
fn looked_up(b: &Lower, table: impl Iterator<Item = f64>, places: Var) -> Lowered<Var> {
    b.gather(b.constant(Tensor::vector(table.collect::<Vec<f64>>())), places).one()
}

/// Whether elements are negative, negative zero included.
fn negative(b: &Lower, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        Bool => never(b, x),
        _ => is_negative(b, x),
    }
}

/// A positive number as `q * 2 ** (p + least - mantissa)`, where `q` has at most two bits more than the mantissa.
struct FloatParts {
    /// `p`, an int64.
    place: Var,
    /// `q`, a whole number in float64.
    digits: Var,
}

/// The parts of finite `x`, in float64 and not negative.
fn parts(b: &Lower, layout: FloatLayout, x: Var) -> Lowered<FloatParts> {
    // Half an exponent lower, so that what the logarithm lacks in precision does not count.
    let about = b.floor(b.sub(b.div(b.log(x)?, LN_2)?, 0.5)?)?;
    let exponent = b.max([Operand::from(about), f64::from(layout.least).into()])?;
    let place = b.sub(b.cast(exponent, Int64)?, i64::from(layout.least))?;
    let scale = looked_up(b, (layout.least..=layout.most).map(power), place)?;
    let digits = b.mul(b.div(x, scale)?, layout.one() as f64)?;
    Ok(FloatParts { place, digits })
}

/// The bits of floats.
fn bits_of_float(b: &Lower, layout: FloatLayout, x: Var) -> Lowered<Var> {
    let (x, one) = (b.cast(x, Double)?, layout.one());
    let size = b.abs(x)?;
    let finite = b.less_or_equal(size, largest(layout.dtype))?;
    let FloatParts { place, digits } = parts(b, layout, b.where_(finite, size, 0.0)?)?;
    // Digits beyond the leading one count half as much, as the exponent is one larger.
    let digits = b.cast(digits, Int64)?;
    let halved = b.add(b.div(digits, 2i64)?, one)?;
    let digits = b.min([digits, halved])?;
    let size = b.add(b.mul(place, one)?, digits)?;
    let infinity = b.where_(b.is_nan(x)?, layout.infinity() + one / 2, layout.infinity())?;
    let size = b.where_(finite, size, infinity)?;
    b.where_(negative(b, x)?, b.add(size, layout.sign())?, size)
}

/// The floats that have these bits.
fn float_of_bits(b: &Lower, layout: FloatLayout, bits: Var) -> Lowered<Var> {
    let one = layout.one();
    let negative = b.less(bits, 0i64)?;
    let size = b.where_(negative, b.sub(bits, layout.sign())?, bits)?;
    let place = b.div(size, one)?;
    let digits = b.sub(size, b.mul(place, one)?)?;
    let leading = b.mul(b.min([Operand::from(place), 1i64.into()])?, one)?;
    let digits = b.cast(b.add(digits, leading)?, Double)?;
    // Subnormal numbers have the smallest exponent, as the first normal ones do.
    let exponents = [layout.least].into_iter().chain(layout.least..=layout.most);
    let finite = exponents.map(|e| power(e - layout.mantissa));
    let value = b.mul(digits, looked_up(b, finite.chain([f64::INFINITY]), place)?)?;
    let value = b.where_(b.greater(size, layout.infinity())?, f64::NAN, value)?;
    b.cast(b.where_(negative, b.neg(value)?, value)?, layout.dtype)
}

/// The signed integer type of so many bits.
fn signed(bits: usize) -> Option<DataType> {
    Some(match bits {
        8 => Int8,
        16 => Int16,
        32 => Int32,
        64 => Int64,
        _ => return None,
    })
}

/// The bits of elements as elements of another type.
fn bits_as(b: &Lower, x: Var, to: DataType) -> Lowered<Var> {
    let from = dtype_of(b, x)?;
    let widths = [from, to].map(|dtype| if dtype == Bool { 8 } else { dtype.bits() });
    if from == to {
        return Ok(x);
    }
    let plain = |dtype: DataType| dtype == Bool || dtype.is_integer() || dtype.is_float();
    let (true, Some(narrow)) = (plain(from) && plain(to), signed(widths[0])) else {
        let (from, to) = (from.word(), to.word());
        let message = format!("ONNX cannot say the bits of {from} as {to}.");
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let same = widths[0] == widths[1];
    if same && b.opset() >= 26 && from != Bool && to != Bool {
        return b.bit_cast(x).to(to).one();
    }
    let bits = match FloatLayout::from_dtype(from) {
        Some(layout) => {
            let message = "The bits of NaN are those of the usual NaN.";
            b.note(b.diagnostic(Code::LayerParameter, message));
            bits_of_float(b, layout, x)?
        }
        // A conversion between integers keeps their bits, as far as they fit.
        None if same && FloatLayout::from_dtype(to).is_none() => return b.cast(x, to),
        None => b.cast(b.cast(x, narrow)?, Int64)?,
    };
    let bits = if same { bits } else { resized(b, bits, widths)? };
    match FloatLayout::from_dtype(to) {
        Some(layout) => float_of_bits(b, layout, bits),
        None => b.cast(bits, to),
    }
}

/// The bits of elements of one width as those of another, the lowest first: the last axis has more of them or less.
fn resized(b: &Lower, bits: Var, [from, to]: [usize; 2]) -> Lowered<Var> {
    let Some((last, leading)) = b.shape_of(bits).and_then(|mut dims| Some((dims.pop()?, dims)))
    else {
        let message = "The bits of a number alone cannot become those of smaller or larger ones.";
        return Err(b.diagnostic(Code::ShapeMismatch, message));
    };
    let (small, large) = (from.min(to), from.max(to));
    let count = (large / small) as i64;
    let places: Vec<i64> = (0..count).map(|i| 1 << (i * small as i64)).collect();
    let places = b.constant(Tensor::vector(places));
    let sizes = |last: &[i64]| [&vec![0; leading.len()], last].concat();
    if from > to {
        let bits = b.unsqueeze(bits, [-1])?;
        let rest = b.sub(bits, b.mod_(bits, places).one()?)?;
        let digits = b.mod_(b.div(rest, places)?, 1i64 << small).one()?;
        let last = last.known().map_or(-1, |n| n * count);
        let digits = b.reshape(digits, sizes(&[last])).one()?;
        return b.cast(b.cast(digits, signed(small).unwrap_or(Int64))?, Int64);
    }
    if last.known().is_some_and(|n| n % count != 0) {
        let message = format!("The last axis has no multiple of {count} elements.");
        return Err(b.diagnostic(Code::ShapeMismatch, message));
    }
    let last = last.known().map_or(-1, |n| n / count);
    let digits = b.reshape(bits, sizes(&[last, count])).one()?;
    // All but the highest digits count without their signs.
    let mut halves = vec![0; count as usize];
    halves[count as usize - 1] = 1i64 << (small - 1);
    let halves = b.constant(Tensor::vector(halves));
    let shifted = b.mod_(b.add(digits, halves)?, 1i64 << small).one()?;
    let digits = b.mul(b.sub(shifted, halves)?, places)?;
    b.reduce_sum(digits).axes([-1]).keepdims(false).one()
}

/// `x` as a mantissa from 0.5 on and below 1, and an exponent.
fn frexp(b: &Lower, input: Var) -> Lowered<Several> {
    let dtype = dtype_of(b, input)?;
    let Some(FloatLayout { least, mantissa, .. }) =
        FloatLayout::from_dtype(dtype).and(FloatLayout::from_dtype(Double))
    else {
        let message = format!("torch takes no {} here.", dtype.word());
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let x = b.cast(input, Double)?;
    let size = b.abs(x)?;
    let finite = b.and(b.less_or_equal(size, f64::MAX)?, b.greater(size, 0.0)?)?;
    // Subnormal numbers are made normal.
    let up = f64::from(mantissa);
    let small = b.less(size, f64::MIN_POSITIVE)?;
    let scaled = b.where_(small, b.mul(size, up.exp2())?, size)?;
    let layout = FloatLayout { dtype: Double, mantissa, least, most: 1 - least };
    let FloatParts { place, digits } = parts(b, layout, b.where_(finite, scaled, 1.0)?)?;
    let mantissa = b.div(digits, 2.0 * layout.one() as f64)?;
    let over = b.greater_or_equal(mantissa, 1.0)?;
    let mantissa = b.where_(over, b.mul(mantissa, 0.5)?, mantissa)?;
    let exponent = b.add(b.add(place, i64::from(least) + 1)?, b.cast(over, Int64)?)?;
    let lowered = b.sub(exponent, b.where_(small, up as i64, 0i64)?)?;
    let exponent = b.cast(b.where_(finite, lowered, 0i64)?, Int32)?;
    let signed = b.where_(b.less(x, 0.0)?, b.neg(mantissa)?, mantissa)?;
    let mantissa = b.cast(b.where_(finite, signed, x)?, dtype)?;
    Ok(Several(vec![mantissa.into(), exponent.into()]))
}

/// The next float after `x` on the way to `other`: their bits count floats in order.
fn nextafter(b: &Lower, input: Value, other: Value) -> Lowered<Var> {
    let [x, y] = operands(b, [&input, &other])?;
    let Some(layout) = FloatLayout::from_dtype(dtype_of(b, x)?) else {
        let message = format!("torch takes no {} here.", dtype_of(b, x)?.word());
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    // Negative floats count downwards.
    let ordered = |bits| b.where_(b.less(bits, 0i64)?, b.sub(layout.sign(), bits)?, bits);
    let step = b.where_(b.less(y, x)?, -1i64, 1i64)?;
    let next = b.add(ordered(bits_of_float(b, layout, x)?)?, step)?;
    let next = float_of_bits(b, layout, ordered(next)?)?;
    b.where_(b.or(b.equal(x, y)?, b.is_nan(y)?)?, y, next)
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{run_at, run_noted};
    use onnxd_plugin_sdk::ir::Tensor;

    const INT: i64 = 3;
    const LONG: i64 = 4;
    const HALF: i64 = 5;
    const FLOAT: i64 = 6;
    const DOUBLE: i64 = 7;

    fn view(x: Tensor, dtype: i64) -> Tensor {
        let given = [("input", x.into()), ("dtype", dtype.into())];
        run_noted("aten::view.dtype", given, "The bits of NaN").remove(0)
    }

    /// All kinds of floats: zeros, subnormal and normal ones, powers of two and their neighbours, infinities.
    fn patterns() -> Vec<u32> {
        let exponents =
            (0..=255u32).flat_map(|e| [0, 1, 2, 0x40_0000, 0x7f_ffff].map(|m| (e << 23) | m));
        let finite = exponents.filter(|bits| f32::from_bits(*bits).is_finite());
        finite.chain([0x7f80_0000]).flat_map(|bits| [bits, bits | 0x8000_0000]).collect()
    }

    #[test]
    fn bits_of_floats_are_those_of_memory() {
        let floats: Vec<f32> = patterns().into_iter().map(f32::from_bits).collect();
        let ints: Vec<i32> = floats.iter().map(|x| x.to_bits() as i32).collect();
        assert_eq!(view(Tensor::vector(floats.clone()), INT), Tensor::vector(ints.clone()));
        let back = view(Tensor::vector(ints), FLOAT);
        let back: Vec<u32> = back.as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect();
        assert_eq!(back, patterns());
        assert_eq!(view(Tensor::vector(vec![f32::NAN]), INT), Tensor::vector(vec![0x7fc0_0000i32]));
    }

    #[test]
    fn bits_of_doubles_are_those_of_memory() {
        let wide = |bits: u32| {
            (u64::from(bits & 0x8000_0000) << 32) | (u64::from(bits << 1) << 31 << 1 >> 1)
        };
        let all: Vec<u64> = patterns().into_iter().map(wide).collect();
        let steps = (0..2046u64).flat_map(|e| [0, 1, (1 << 52) - 1].map(|m| (e << 52) | m));
        let all: Vec<u64> =
            all.into_iter().chain(steps).filter(|x| !f64::from_bits(*x).is_nan()).collect();
        let doubles: Vec<f64> = all.iter().map(|x| f64::from_bits(*x)).collect();
        let longs: Vec<i64> = all.iter().map(|x| *x as i64).collect();
        assert_eq!(view(Tensor::vector(doubles), LONG), Tensor::vector(longs.clone()));
        let back = view(Tensor::vector(longs), DOUBLE);
        let back: Vec<u64> = back.as_slice::<f64>().unwrap().iter().map(|x| x.to_bits()).collect();
        assert_eq!(back, all);
    }

    #[test]
    fn elements_of_other_sizes_are_split_and_joined() {
        let words = Tensor::vector(vec![0x0102_83f4i32, -2]);
        let bytes = Tensor::vector(vec![0xf4u8, 0x83, 2, 1, 0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(view(words.clone(), 0), bytes);
        assert_eq!(view(bytes.clone(), INT), words);
        let long = Tensor::vector(vec![(0x0102_83f4i64) - (2 << 32)]);
        assert_eq!(view(bytes, LONG), long);
        assert_eq!(view(long, INT), words);
        let ones = view(Tensor::vector(vec![0x3c00_bc00i32]), HALF);
        assert_eq!(ones.to_reals().unwrap().values, [-1.0, 1.0]);
    }

    #[test]
    fn what_has_no_bits_is_refused() {
        let view = |x: Tensor, dtype: i64| {
            let given = [("input", x.into()), ("dtype", dtype.into())];
            run_at(18, "aten::view.dtype", given).unwrap_err()
        };
        assert!(view(Tensor::vector(vec![1.0f32]), 9).contains("complex"));
        assert!(view(Tensor::vector(vec![1u8, 2, 3]), INT).contains("no multiple of 4"));
        assert!(view(Tensor::scalar(1.0f32), 0).contains("a number alone"));
    }

    #[test]
    fn floats_are_taken_apart_and_counted() {
        let x = vec![0.0, -0.0, 1.0, -0.75, 3e-310, f64::INFINITY, 8.0, 0.1];
        let given = run_at(18, "aten::frexp", [("input", Tensor::vector(x).into())]).unwrap();
        let mantissas = vec![0.0, -0.0, 0.5, -0.75, 0.862_892_704_733_909, f64::INFINITY, 0.5, 0.8];
        let found = given[0].as_slice::<f64>().unwrap();
        assert!(
            found.iter().zip(&mantissas).all(|(a, b)| a == b || (a - b).abs() < 1e-15),
            "{found:?}"
        );
        assert_eq!(given[1], Tensor::vector(vec![0i32, 0, 1, 0, -1028, 0, 4, -3]));

        let (x, y) =
            (vec![1.0f32, 0.0, -1.0, 2.0, f32::INFINITY], vec![2.0f32, -1.0, 0.0, 2.0, 0.0]);
        let next = vec![1.0 + f32::EPSILON, -1e-45, -1.0 + f32::EPSILON / 2.0, 2.0, f32::MAX];
        let given = [("input", Tensor::vector(x).into()), ("other", Tensor::vector(y).into())];
        assert_eq!(run_at(18, "aten::nextafter", given).unwrap(), [Tensor::vector(next)]);
    }
}
