//! Scales and zero points that exported programs compute from numbers, for whole tensors, rows, or groups.

use super::dtype::{dtype_of, named, operands, to_float};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{
    self, Double, Float, Float16, Int8, Int16, Int32, Int64, Uint8, Uint16,
};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "quantized_decomposed::choose_qparams" => choose;
        "quantized_decomposed::choose_qparams_symmetric" => choose_symmetric;
        "quantized_decomposed::choose_qparams_per_token" => choose_by_row(input, dtype);
        "quantized_decomposed::choose_qparams_per_token_asymmetric"
            | "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl"
            => choose_by_row_asymmetric(input, dtype);
        "quantized_decomposed::quantize_per_token" => |b, a: ByRow| {
            to_levels(b, a.input, a.scales, a.zero_points, [a.quant_min, a.quant_max], a.dtype)
        };
        "quantized_decomposed::dequantize_per_token" => |b, a: ByRow| {
            let y = from_levels(b, a.input, a.scales, Some(a.zero_points))?;
            b.cast(y, named(b, a.output_dtype.unwrap_or(FLOAT))?)
        };
        "quantized_decomposed::quantize_per_channel_group" => |b, a: ByGroup| {
            let [x, scales, points] = grouped(b, &a)?;
            let y = to_levels(b, x, scales, points, [a.quant_min, a.quant_max], a.dtype)?;
            b.reshape(y, b.shape(a.input).one()?).one()
        };
        "quantized_decomposed::dequantize_per_channel_group" => |b, a: ByGroup| {
            let [x, scales, points] = grouped(b, &a)?;
            let y = from_levels(b, x, scales, Some(points).filter(|_| a.zero_points.is_some()))?;
            let y = b.cast(y, named(b, a.output_dtype.unwrap_or(FLOAT))?)?;
            b.reshape(y, b.shape(a.input).one()?).one()
        };
        "quantized_decomposed::fake_quant_per_channel" => fake;
        "quantized_decomposed::convert_element_type" => |b, input: Var, dtype: i64| b.cast(input, named(b, dtype)?);
    }
}

/// Torch's number of float32.
const FLOAT: i64 = 6;

arguments! {
    /// `choose_qparams.tensor`
    struct Choose { input: Var, quant_min: i64, quant_max: i64, eps: f64, dtype: i64 }
    /// `quantize_per_token`
    struct ByRow {
        input: Var, scales: Var, zero_points: Var, quant_min: i64, quant_max: i64, dtype: i64,
        output_dtype: Option<i64>,
    }
    /// `dequantize_per_channel_group`
    struct ByGroup {
        input: Var, scales: Var, zero_points: Option<Var>, quant_min: i64, quant_max: i64,
        dtype: i64, group_size: i64 = 128, output_dtype: Option<i64>,
    }
    /// `fake_quant_per_channel`
    struct Fake { input: Var, scales: Var, zero_points: Var, axis: i64, quant_min: i64, quant_max: i64 }
}

/// How numbers are quantized.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantizer {
    pub(super) scale: Var,
    /// Of the type of the integers.
    pub(super) zero_point: Var,
    pub(super) axis: Option<i64>,
}

/// The smallest and the largest number, or 0: of all, or of each row.
fn extremes(b: &Lower, x: Var, rows: bool) -> Lowered<[Var; 2]> {
    let axes = rows.then(|| vec![-1]);
    let keep = i64::from(rows);
    let low = b.reduce_min(x).axes(axes.clone()).keepdims(keep).one()?;
    let high = b.reduce_max(x).axes(axes).keepdims(keep).one()?;
    let zero = b.cast(b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(0f32)), dtype_of(b, x)?)?;
    Ok([b.min([low, zero])?, b.max([high, zero])?])
}

/// A scale and a zero point as torch gives them: of one item each.
fn one_item(b: &Lower, scale: Var, point: Var) -> Lowered<[Var; 2]> {
    let item = |v, dtype| b.reshape(b.cast(v, dtype)?, [1]).one();
    Ok([item(scale, Double)?, item(point, Int64)?])
}

fn choose(b: &Lower, a: Choose) -> Lowered<[Var; 2]> {
    let [low, high] = extremes(b, to_float(b, a.input)?, false)?;
    let steps = (a.quant_max - a.quant_min) as f64;
    let scale = b.clip(b.div(b.sub(high, low)?, steps)?).min(a.eps).one()?;
    let point = b.sub(a.quant_min as f64, b.round(b.div(low, scale)?)?)?;
    let point = b.clip(point).min(a.quant_min as f64).max(a.quant_max as f64).one()?;
    one_item(b, scale, point)
}

fn choose_symmetric(b: &Lower, a: Choose) -> Lowered<[Var; 2]> {
    let [low, high] = extremes(b, to_float(b, a.input)?, false)?;
    let half = (a.quant_max - a.quant_min) as f64 / 2.0;
    let largest = b.max([b.neg(low)?, high])?;
    let scale = b.clip(b.div(largest, half)?).min(a.eps).one()?;
    let point = if named(b, a.dtype)? == Uint8 { 128i64 } else { 0 };
    one_item(b, scale, b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(point)))
}

fn choose_by_row(b: &Lower, input: Var, dtype: i64) -> Lowered<[Var; 2]> {
    if named(b, dtype)? != Int8 {
        return Err(b.diagnostic(Code::LayerUnsupported, "Only int8 is chosen by row."));
    }
    let largest = b.reduce_max(b.abs(input)?).axes([-1]).keepdims(1).one()?;
    let largest = if dtype_of(b, largest)? == Float16 { b.cast(largest, Float)? } else { largest };
    let scales = b.div(b.clip(largest).min(1e-5).one()?, 127.0)?;
    // Programs declare these types, whatever torch computes in.
    Ok([b.cast(scales, Double)?, b.cast(b.mul(scales, 0.0)?, Int64)?])
}

fn choose_by_row_asymmetric(b: &Lower, input: Var, _dtype: i64) -> Lowered<[Var; 2]> {
    let [low, high] = extremes(b, to_float(b, input)?, true)?;
    let range = b.div(b.sub(high, low)?, 255.0)?;
    let scale = b.clip(range).min(f64::from(f32::EPSILON)).one()?;
    let [low, high] = [b.div(low, scale)?, b.div(high, scale)?];
    let (from_low, from_high) = (b.add(low, -128.0)?, b.add(high, 127.0)?);
    let fits_low = b.greater(b.add(from_low, from_high)?, 0.0)?;
    let point = b.where_(fits_low, b.sub(-128.0, low)?, b.sub(127.0, high)?)?;
    let point = b.round(b.clip(point).min(-128.0).max(127.0).one()?)?;
    Ok([b.cast(scale, Double)?, b.cast(point, Int64)?])
}

/// `round(x / scale + point)` within bounds.
fn to_levels(
    b: &Lower,
    x: Var,
    scales: Var,
    points: Var,
    [low, high]: [i64; 2],
    dtype: i64,
) -> Lowered<Var> {
    let [x, scales] = operands(b, [&Value::Var(x), &Value::Var(scales)])?;
    let levels = b.mul(x, b.reciprocal(scales)?)?;
    let [levels, points] = operands(b, [&Value::Var(levels), &Value::Var(points)])?;
    let levels = b.round(b.add(levels, points)?)?;
    let levels = b.clip(levels).min(low as f64).max(high as f64).one()?;
    b.cast(levels, named(b, dtype)?)
}

/// `(x - point) * scale`
fn from_levels(b: &Lower, x: Var, scales: Var, points: Option<Var>) -> Lowered<Var> {
    let x = match points {
        Some(points) => {
            let [x, points] = operands(b, [&Value::Var(x), &Value::Var(points)])?;
            b.sub(x, points)?
        }
        None => x,
    };
    let [x, scales] = operands(b, [&Value::Var(x), &Value::Var(scales)])?;
    b.mul(x, scales)
}

/// Numbers by group, with a scale and a zero point for each row; zero points that are absent are as many zeros.
fn grouped(b: &Lower, a: &ByGroup) -> Lowered<[Var; 3]> {
    let size = b.shape_of(a.input).and_then(|shape| shape.last()?.known());
    let single = b.shape_of(a.scales).and_then(|shape| shape.last()?.known()) == Some(1);
    let group = size.filter(|size| single && a.group_size > *size).unwrap_or(a.group_size);
    let column = |v| b.reshape(v, [-1, 1]).one();
    let scales = column(a.scales)?;
    let points = a.zero_points.map(column).transpose()?;
    Ok([b.reshape(a.input, [-1, group]).one()?, scales, points.unwrap_or(scales)])
}

/// Scales or zero points as they meet a tensor of `rank` axes.
fn along(b: &Lower, v: Var, axis: Option<i64>, rank: usize) -> Lowered<Var> {
    let Some(axis) = axis else { return Ok(v) };
    let mut shape = vec![1; rank];
    shape[super::sizes::wrapped(b, axis, rank)?] = -1;
    b.reshape(v, shape).one()
}

fn fake(b: &Lower, a: Fake) -> Lowered<Var> {
    let rank = super::sizes::rank(b, a.input)?;
    let along = |v| along(b, b.cast(v, Float)?, Some(a.axis), rank);
    let (scales, points) = (along(a.scales)?, along(a.zero_points)?);
    let levels = b.add(b.round(b.mul(a.input, b.reciprocal(scales)?)?)?, points)?;
    let levels = b.clip(levels).min(a.quant_min as f64).max(a.quant_max as f64).one()?;
    b.mul(b.sub(levels, points)?, scales)
}

/// Whether `QuantizeLinear` and `DequantizeLinear` have these integers.
pub(super) fn is_native(b: &Lower, dtype: DataType) -> bool {
    matches!(dtype, Int8 | Uint8) || (b.opset() >= 21 && matches!(dtype, Int16 | Uint16))
}

/// As `QuantizeLinear`, for other integers, within bounds.
pub(super) fn integers(b: &Lower, x: Var, q: &Quantizer, bounds: [i64; 2]) -> Lowered<Var> {
    let rank = super::sizes::rank(b, x)?;
    let (scale, point) = (along(b, q.scale, q.axis, rank)?, along(b, q.zero_point, q.axis, rank)?);
    let levels = b.add(b.round(b.div(x, scale)?)?, b.cast(point, dtype_of(b, x)?)?)?;
    let levels = b.clip(levels).min(bounds[0] as f64).max(bounds[1] as f64).one()?;
    b.cast(levels, dtype_of(b, q.zero_point)?)
}

/// As `DequantizeLinear`, also for other integers.
pub(super) fn numbers(b: &Lower, x: Var, q: &Quantizer, dtype: Option<i64>) -> Lowered<Var> {
    let integers = dtype_of(b, x)?;
    let y = if is_native(b, integers) || integers == Int32 {
        b.dequantize_linear(x, q.scale).x_zero_point(q.zero_point).axis(q.axis).one()?
    } else {
        let rank = super::sizes::rank(b, x)?;
        let scale = along(b, q.scale, q.axis, rank)?;
        let point = along(b, b.cast(q.zero_point, Float)?, q.axis, rank)?;
        b.mul(b.sub(b.cast(x, Float)?, point)?, scale)?
    };
    b.cast(y, named(b, dtype.unwrap_or(FLOAT))?)
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::run_at;
    use onnxd_plugin_sdk::ir::Tensor;

    fn run<const N: usize>(
        op: &str,
        arguments: [(&str, crate::aten::tests::Arg); N],
    ) -> Vec<Vec<f64>> {
        let given = run_at(18, &format!("quantized_decomposed::{op}"), arguments).unwrap();
        given.iter().map(|y| y.to_reals().unwrap().values).collect()
    }

    fn x() -> Tensor {
        Tensor::from_vec(vec![2, 3], vec![1f32, -2.0, 0.5, 4.0, 2.0, 3.0])
    }

    /// Torch's numbers.
    #[test]
    fn scales_and_zero_points_of_tensors_and_rows() {
        let range = |low: i64, high: i64, dtype: i64| {
            let bounds = [("quant_min", low.into()), ("quant_max", high.into())];
            let [low, high] = bounds;
            [("input", x().into()), low, high, ("eps", 1e-7.into()), ("dtype", dtype.into())]
        };
        let chosen = run("choose_qparams", range(-128, 127, 1));
        assert!((chosen[0][0] - 6.0 / 255.0).abs() < 1e-8 && chosen[1] == [-43.0], "{chosen:?}");
        let chosen = run("choose_qparams_symmetric", range(0, 255, 0));
        assert!((chosen[0][0] - 4.0 / 127.5).abs() < 1e-8 && chosen[1] == [128.0], "{chosen:?}");
        let rows = [("input", x().into()), ("dtype", 1i64.into())];
        let chosen = run("choose_qparams_per_token_asymmetric", rows);
        assert!((chosen[0][0] - 3.0 / 255.0).abs() < 1e-8, "{chosen:?}");
        assert_eq!(chosen[1], [42.0, -128.0]);
    }

    /// Torch's numbers.
    #[test]
    fn integers_that_onnx_does_not_quantize_are_computed() {
        let scales = || Tensor::vector(vec![0.5f32, 0.25]).into();
        let points = || Tensor::vector(vec![1i64, -1]).into();
        let y = run(
            "quantize_per_channel",
            [
                ("input", x().into()),
                ("scales", scales()),
                ("zero_points", points()),
                ("axis", 0i64.into()),
                ("quant_min", (-5i64).into()),
                ("quant_max", 14i64.into()),
                ("dtype", 2i64.into()),
            ],
        );
        assert_eq!(y[0], [3.0, -3.0, 2.0, 14.0, 7.0, 11.0]);
        let y = run(
            "dequantize_per_channel_group",
            [
                ("input", Tensor::from_vec(vec![1, 4], vec![1i8, -2, 3, 4]).into()),
                ("scales", Tensor::from_vec(vec![1, 2], vec![0.5f32, 2.0]).into()),
                ("zero_points", Tensor::from_vec(vec![1, 2], vec![1i32, -1]).into()),
                ("quant_min", (-8i64).into()),
                ("quant_max", 7i64.into()),
                ("dtype", 1i64.into()),
                ("group_size", 2i64.into()),
            ],
        );
        assert_eq!(y[0], [0.0, -1.5, 8.0, 10.0]);
    }
}
