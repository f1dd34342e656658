//! Layers with weights of 8 and 4 bits. Activations are quantized on the way, by the largest one in each sum. Those
//! that become floats of 8 bits have scales that training left.

use super::exactly;
use crate::ops::create::number;
use crate::ops::{Lower, dtype_of, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Lowered;

/// The largest integer of 8 bits that Keras uses.
const LARGEST: f64 = 127.0;
/// What keeps a scale finite.
const LEAST: f64 = 1e-7;

/// Whether a layer has been quantized.
pub(super) fn is_quantized(b: &GraphBuilder, weights: &[Var]) -> bool {
    weights
        .first()
        .is_some_and(|w| matches!(b.dtype_of(*w), Some(DataType::Int8 | DataType::Uint8)))
}

/// Integers as floats, and by how much they are larger than what they stand for.
fn quantized(b: &GraphBuilder, x: Var, axes: &[i64]) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, x)?;
    let least = b.constant(number(LEAST, dtype));
    let most = b.reduce_max(b.abs(x)?).axes(axes).keepdims(1).one()?;
    let scale = b.div(b.constant(number(LARGEST, dtype)), b.add(most, least)?)?;
    let rounded = b.round(b.mul(x, scale)?)?;
    Ok([crate::ops::activation::clipped(b, rounded, -LARGEST, LARGEST)?, scale])
}

/// Two integers of 4 bits in each byte of the last axis, the first one in the lower half.
fn unpacked(b: &GraphBuilder, packed: Var, size: i64) -> Lowered<Var> {
    let wrong = || b.unsupported("The packed weights are not known, or of other sizes.");
    let tensor = b.constant_of(packed).ok_or_else(wrong)?;
    let (mut dims, size) = (tensor.dims().to_vec(), usize::try_from(size).map_err(|_| wrong())?);
    let last = dims
        .last_mut()
        .filter(|last| **last == size.div_ceil(2) && **last > 0)
        .ok_or_else(wrong)?;
    let row = std::mem::replace(last, size);
    let signed = |half: u8| (half as i8) << 4 >> 4;
    let rows = tensor.bytes();
    let all: Vec<i8> = rows
        .chunks_exact(row)
        .flat_map(|row| row.iter().flat_map(|byte| [signed(*byte), signed(byte >> 4)]).take(size))
        .collect();
    Ok(b.parameter("unpacked", Tensor::from_vec(dims, all)))
}

/// The numbers that weights of 4 bits stand for, each in the group that `groups` says for its place along `axis`.
fn restored(b: &GraphBuilder, q: Var, [scale, zero, groups]: [Var; 3], axis: i64) -> Lowered<Var> {
    let dtype = dtype_of(b, scale)?;
    let groups = b.cast(groups, DataType::Int32)?;
    let each = |x: Var| b.gather(x, groups).axis(axis).one();
    let apart = b.sub(b.cast(q, dtype)?, b.cast(each(zero)?, dtype)?)?;
    b.mul(apart, each(scale)?)
}

/// The largest float of 8 bits, with 4 of the exponent.
const FLOAT8_MAX: f64 = 448.0;

/// A layer that computes on floats of 8 bits.
pub(super) struct Float8 {
    pub(super) kernel: Var,
    bias: Option<Var>,
    inputs_scale: Var,
    kernel_scale: Var,
}

impl Float8 {
    /// Reads the weights: behind kernel and bias the scale of the inputs and its history, those of the kernel, and
    /// those of gradients.
    pub(super) fn from_weights(
        b: &GraphBuilder,
        weights: &[Var],
        has_bias: bool,
    ) -> Option<Float8> {
        let (weights, bias) = without_bias(weights, has_bias);
        let [kernel, inputs_scale, _, kernel_scale, ..] = weights[..] else { return None };
        let is_scale = |v: Var| b.rank_of(v) == Some(0);
        let is_float8 = weights.len() == 7 && is_scale(inputs_scale) && is_scale(kernel_scale);
        is_float8.then_some(Float8 { kernel, bias, inputs_scale, kernel_scale })
    }

    /// What `product` makes of inputs and kernel once they have few bits, plus the bias.
    pub(super) fn computed(
        &self,
        b: &GraphBuilder,
        x: Var,
        product: impl FnOnce(Var, Var) -> Lowered<Var>,
    ) -> Lowered<Var> {
        let dtype = dtype_of(b, x)?;
        let few = |x: Var, scale: Var| {
            let scale = b.cast(scale, dtype)?;
            let x = crate::ops::activation::clipped(b, b.div(x, scale)?, -FLOAT8_MAX, FLOAT8_MAX)?;
            b.mul(b.cast(b.cast(x, DataType::Float8E4M3FN)?, dtype)?, scale)
        };
        let y = product(few(x, self.inputs_scale)?, few(self.kernel, self.kernel_scale)?)?;
        let rounded = |bias: Var| match dtype {
            DataType::Float => b.cast(b.cast(bias, DataType::Bfloat16)?, dtype),
            _ => Ok(bias),
        };
        biased(b, y, self.bias.map(rounded).transpose()?)
    }
}

/// The weights without the bias, and the bias.
fn without_bias(weights: &[Var], has_bias: bool) -> (Vec<Var>, Option<Var>) {
    let mut weights = weights.to_vec();
    let bias = (has_bias && weights.len() > 1).then(|| weights.remove(1));
    (weights, bias)
}

fn biased(b: &GraphBuilder, y: Var, bias: Option<Var>) -> Lowered<Var> {
    bias.map_or(Ok(y), |bias| b.add(y, bias))
}

pub(super) fn dense(
    b: &Lower,
    x: Var,
    units: i64,
    weights: &[Var],
    has_bias: bool,
) -> Lowered<Var> {
    let (weights, bias) = without_bias(weights, has_bias);
    let dtype = dtype_of(b, x)?;
    let last = b.dims_of(weights[0]).and_then(|dims| dims.last().copied());
    let kernel = if last == Some(units) { weights[0] } else { unpacked(b, weights[0], units)? };
    if let [_, scale, zero, groups] = weights[..] {
        let kernel = b.cast(restored(b, kernel, [scale, zero, groups], 0)?, dtype)?;
        return biased(b, b.mat_mul(x, kernel)?, bias);
    }
    let [_, scale] = exactly(b, &weights)?;
    let [q, by] = quantized(b, x, &[-1])?;
    let product = b.mat_mul_integer(b.cast(q, DataType::Int8)?, kernel).one()?;
    let y = b.div(b.cast(product, dtype)?, b.mul(scale, by)?)?;
    biased(b, y, bias)
}

pub(super) fn embedding(
    b: &Lower,
    ids: Var,
    size: i64,
    weights: &[Var],
    to: DataType,
) -> Lowered<Var> {
    let last = b.dims_of(weights[0]).and_then(|dims| dims.last().copied());
    let table = if last == Some(size) { weights[0] } else { unpacked(b, weights[0], size)? };
    let rows = |x: Var| b.gather(x, ids).axis(0).one();
    let y = b.cast(rows(table)?, to)?;
    if let [_, scale, zero, groups] = weights[..] {
        return restored(b, y, [rows(scale)?, rows(zero)?, groups], -1);
    }
    let [_, scale] = exactly(b, weights)?;
    b.div(y, b.unsqueeze(rows(scale)?, [-1])?)
}

/// The letters of an equation, those of `...` included; `None` for forms that Keras does not have.
fn letters(equation: &str, axes: usize) -> Option<[String; 3]> {
    let (left, result) = equation.split_once("->")?;
    let (input, kernel) = left.split_once(',')?;
    let named = input.chars().filter(char::is_ascii_alphabetic).count();
    let free = ('A'..='Z').filter(|c| !equation.contains(*c));
    let elided: String = free.take(axes.checked_sub(named)?).collect();
    let spelled = |part: &str| part.replace("...", &elided);
    Some([spelled(input), kernel.to_owned(), spelled(result)])
}

pub(super) fn einsum_dense(
    b: &Lower,
    x: Var,
    equation: &str,
    weights: &[Var],
    has_bias: bool,
) -> Lowered<Var> {
    let (weights, bias) = without_bias(weights, has_bias);
    let [kernel, scale] = exactly(b, &weights)?;
    let dtype = dtype_of(b, x)?;
    let Some([input, kernel_letters, result]) = letters(equation, rank(b, x)?) else {
        return Err(b.unsupported("The equation has a form that Keras does not quantize."));
    };
    let is_kept = |c: &char| result.contains(*c);
    let axes: Vec<i64> =
        (0..).zip(input.chars()).filter(|(_, c)| !is_kept(c)).map(|(i, _)| i).collect();
    let [q, by] = quantized(b, x, &axes)?;
    let equation = format!("{input},{kernel_letters}->{result}");
    let product = b.einsum([q, b.cast(kernel, dtype)?]).equation(equation).one()?;
    // The scale of the input has the axes of the result: those it does not have are of size 1.
    let kept: Vec<char> = input.chars().filter(is_kept).collect();
    let by = if axes.is_empty() { by } else { b.squeeze(by).axes(&axes).one()? };
    let order: Vec<i64> =
        result.chars().filter_map(|c| Some(kept.iter().position(|k| *k == c)? as i64)).collect();
    let missing: Vec<i64> =
        (0..).zip(result.chars()).filter(|(_, c)| !kept.contains(c)).map(|(i, _)| i).collect();
    let by = crate::ops::shape::transposed(b, by, &order)?;
    let by = crate::ops::shape::unsqueezed(b, by, &missing)?;
    biased(b, b.div(product, b.mul(scale, by)?)?, bias)
}
