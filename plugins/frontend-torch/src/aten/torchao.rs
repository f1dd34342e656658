//! torchao: tensors that are quantized by blocks. What lies in the file as integers of 8 bits stays so, behind
//! `DequantizeLinear`; what is quantized at run time is computed.

use super::dtype::{cast, dtype_of, named, operand, operands};
use super::sizes::{known, known_size, over, sizes, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Float, Float16, Int8, Int32, Uint8};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "torchao::choose_qparams_affine" => choose;
        "torchao::quantize_affine" => quantize;
        "torchao::dequantize_affine" => dequantize;
        "torchao::dequantize_affine_float8_non_decomposed" => |b, input: Var, scale: Var, output_dtype: Option<i64>| {
            let x = stored(b, input, Float)?;
            cast(b, b.mul(x, b.cast(scale, Float)?)?, named(b, output_dtype.unwrap_or(FLOAT))?)
        };
        "aten::_int_mm" => |b, input: Var, mat2: Var| b.mat_mul_integer(input, mat2).one();
    }
    .refused("aten::_weight_int4pack_mm_for_cpu", PACKED)
    .refused("aten::_weight_int4pack_mm", PACKED)
    .refused("aten::_weight_int4pack_mm_with_scales_and_zeros", PACKED)
    .refused("aten::_convert_weight_to_int4pack_for_cpu", PACKED)
    .refused("aten::_convert_weight_to_int4pack", PACKED)
}

/// Blocks of 64, 32 or 2 rows are interleaved, as the instructions of the processor are that packed them.
const PACKED: &str = "the order of its weights is that of the processor which packed them, and the file does not \
    say which; quantize in a plain layout";

/// Torch's number of float32.
const FLOAT: i64 = 6;

/// Elements from which on a constant stays integers.
const LARGE: usize = 256;

arguments! {
    /// `choose_qparams_affine`
    struct Choose {
        input: Var, mapping_type: String, block_size: Vec<Value>, target_dtype: i64, quant_min: Option<f64>,
        quant_max: Option<f64>, eps: Option<f64>, scale_dtype: Option<i64>, zero_point_dtype: Option<i64>,
    }
    /// `quantize_affine`
    struct Quantize {
        input: Var, block_size: Vec<Value>, scale: Var, zero_point: Option<Var>, output_dtype: i64,
        quant_min: Option<f64>, quant_max: Option<f64>,
    }
    /// `dequantize_affine`
    struct Dequantize {
        input: Var, block_size: Vec<Value>, scale: Var, zero_point: Option<Var>, input_dtype: i64,
        quant_min: Option<f64>, quant_max: Option<f64>, output_dtype: Option<i64>,
    }
}

/// A tensor with its blocks on axes of their own.
struct Blocks {
    x: Var,
    /// The axes within a block.
    within: Vec<i64>,
    /// Sizes with one element for each block.
    each: Vec<Value>,
}

fn blocks(b: &Lower, x: Var, block: &[Value]) -> Lowered<Blocks> {
    let all = sizes(b, x)?;
    if block.len() != all.len() {
        let message = format!("Blocks of {} axes do not fit {} axes.", block.len(), all.len());
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let (mut shape, mut within, mut each) = (vec![], vec![], vec![]);
    for (axis, block) in block.iter().enumerate() {
        let size = known(b, block);
        // Two sizes that are not known may differ.
        let whole = *block == all[axis] || size.is_some() && size == known_size(b, x, axis);
        match size {
            Some(1) => {
                shape.push(all[axis].clone());
                each.push(all[axis].clone());
            }
            _ if whole => {
                within.push(shape.len() as i64);
                shape.push(all[axis].clone());
                each.push(Value::Int(1));
            }
            _ => {
                let count = over(b, &all[axis], block)?;
                shape.push(count.clone());
                within.push(shape.len() as i64);
                shape.push(block.clone());
                each.extend([count, Value::Int(1)]);
            }
        }
    }
    let x = match shape.len() == all.len() {
        true => x,
        false => b.reshape(x, vector(b, &shape)?).one()?,
    };
    Ok(Blocks { x, within, each })
}

/// The range of integers of a type.
fn bounds(b: &Lower, dtype: i64, given: [Option<f64>; 2]) -> Lowered<[f64; 2]> {
    let of_type = match named(b, dtype)? {
        Int8 => [-128.0, 127.0],
        Uint8 => [0.0, 255.0],
        Int32 => [f64::from(i32::MIN), f64::from(i32::MAX)],
        _ if given.iter().all(Option::is_some) => [0.0; 2],
        other => {
            let message = format!("The range of integers of type {other} is not known.");
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
    };
    Ok([given[0].unwrap_or(of_type[0]), given[1].unwrap_or(of_type[1])])
}

fn choose(b: &Lower, a: Choose) -> Lowered<[Var; 2]> {
    let [low, high] = bounds(b, a.target_dtype, [a.quant_min, a.quant_max])?;
    let dtype = dtype_of(b, a.input)?;
    let blocks = blocks(b, a.input, &a.block_size)?;
    let axes = || Some(blocks.within.clone()).filter(|axes| !axes.is_empty());
    let zero = operand(b, &Value::Int(0), dtype)?;
    let (least, most) = match axes() {
        Some(axes) => (
            b.reduce_min(blocks.x).axes(axes.clone()).keepdims(0).one()?,
            b.reduce_max(blocks.x).axes(axes).keepdims(0).one()?,
        ),
        None => (blocks.x, blocks.x),
    };
    let (least, most) = (b.min([least, zero])?, b.max([most, zero])?);
    let smallest = if dtype == Float16 { 9.765_625e-4 } else { f64::from(f32::EPSILON) };
    let clipped = |scale| b.clip(scale).min(a.eps.unwrap_or(smallest)).one();
    let (scale, point) = match a.mapping_type.as_str() {
        "SYMMETRIC" => {
            let scale = clipped(b.div(b.max([b.neg(least)?, most])?, (high - low) / 2.0)?)?;
            (scale, middle(b, scale, low, high)?)
        }
        "SYMMETRIC_NO_CLIPPING_ERR" => {
            let scale = clipped(b.max([b.div(least, low)?, b.div(most, high)?])?)?;
            (scale, middle(b, scale, low, high)?)
        }
        "ASYMMETRIC" => {
            let scale = clipped(b.div(b.sub(most, least)?, high - low)?)?;
            let point = b.sub(low, b.round(b.div(least, scale)?)?)?;
            (scale, b.clip(point).min(low).max(high).one()?)
        }
        other => {
            let message = format!("The mapping `{}` is not known.", shown(other));
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
    };
    let typed = |x, dtype: Option<i64>, default| match dtype {
        Some(dtype) => cast(b, x, named(b, dtype)?),
        None => cast(b, x, default),
    };
    let symmetric = a.mapping_type != "ASYMMETRIC";
    let point_type = if symmetric { dtype } else { Int32 };
    Ok([typed(scale, a.scale_dtype, dtype)?, typed(point, a.zero_point_dtype, point_type)?])
}

/// The zero point of a symmetric range, in the shape of the scales.
fn middle(b: &Lower, scale: Var, low: f64, high: f64) -> Lowered<Var> {
    b.add(b.mul(scale, 0.0)?, ((high + low + 1.0) / 2.0).trunc())
}

fn quantize(b: &Lower, a: Quantize) -> Lowered<Var> {
    let [low, high] = bounds(b, a.output_dtype, [a.quant_min, a.quant_max])?;
    let blocks = blocks(b, a.input, &a.block_size)?;
    let each = |x| b.reshape(x, vector(b, &blocks.each)?).one();
    let [x, scale] = operands(b, [&Value::Var(blocks.x), &Value::Var(each(a.scale)?)])?;
    let mut levels = b.round(b.mul(x, b.reciprocal(scale)?)?)?;
    if let Some(point) = a.zero_point.filter(|point| !is_empty(b, *point)) {
        levels = b.add(levels, b.cast(each(point)?, dtype_of(b, levels)?)?)?;
    }
    let levels = b.clip(levels).min(low).max(high).one()?;
    let levels = b.reshape(levels, vector(b, &sizes(b, a.input)?)?).one()?;
    cast(b, levels, named(b, a.output_dtype)?)
}

fn is_empty(b: &Lower, x: Var) -> bool {
    b.dims_of(x).is_some_and(|dims| dims.contains(&0))
}

fn dequantize(b: &Lower, a: Dequantize) -> Lowered<Var> {
    let to = named(b, a.output_dtype.unwrap_or(FLOAT))?;
    let point = a.zero_point.filter(|point| !is_empty(b, *point));
    if let Some(y) = by_rows(b, &a, point)? {
        return cast(b, y, to);
    }
    let blocks = blocks(b, a.input, &a.block_size)?;
    let each = |x| b.reshape(x, vector(b, &blocks.each)?).one();
    let mut y = b.cast(blocks.x, to)?;
    if let Some(point) = point {
        y = b.sub(y, b.cast(each(point)?, to)?)?;
    }
    let [y, scale] = operands(b, [&Value::Var(y), &Value::Var(each(a.scale)?)])?;
    cast(b, b.reshape(b.mul(y, scale)?, vector(b, &sizes(b, a.input)?)?).one()?, to)
}

/// Weights of 8 bits whose blocks lie in rows: as a matrix with a scale for each row.
fn by_rows(b: &Lower, a: &Dequantize, point: Option<Var>) -> Lowered<Option<Var>> {
    let dtype = dtype_of(b, a.input)?;
    let single = |block: &Value| known(b, block) == Some(1);
    let Some((last, rest)) = a.block_size.split_last() else { return Ok(None) };
    let Some(width) = known(b, last).filter(|_| rest.iter().all(single)) else { return Ok(None) };
    if !matches!(dtype, Int8 | Uint8) || !is_weight(b, a.input) {
        return Ok(None);
    }
    let flat = |x| b.reshape(x, [-1]).one();
    let scale = flat(b.cast(a.scale, Float)?)?;
    let point = point.map(|point| flat(b.cast(point, dtype)?)).transpose()?;
    let axis = rest.len();
    let whole = axis == 1 && known_size(b, a.input, axis) == Some(width);
    let rows = if whole { a.input } else { b.reshape(a.input, [-1, width]).one()? };
    let y = b.dequantize_linear(rows, scale).x_zero_point(point).axis(0).one()?;
    let shape = || vector(b, &sizes(b, a.input)?);
    Ok(Some(if whole { y } else { b.reshape(y, shape()?).one()? }))
}

/// `x` as floats. Large weights of 8 bits stay what they are in the file.
pub(super) fn stored(b: &Lower, x: Var, to: DataType) -> Lowered<Var> {
    let narrow = |dtype: DataType| {
        matches!(dtype, Int8 | Uint8 | DataType::Float8E4M3FN | DataType::Float8E5M2)
    };
    let is_narrow = b.dtype_of(x).is_some_and(narrow);
    if to != Float || !is_narrow || !is_weight(b, x) {
        return b.cast(x, to);
    }
    // A product with what is dequantized directly would be one of activations that ONNX Runtime rounds to 8 bits.
    let one = b.constant(Tensor::scalar(1f32));
    match transposed(b, x) {
        Some((of, perm)) => b.transpose(b.dequantize_linear(of, one).one()?).perm(perm).one(),
        None => b.dequantize_linear(x, one).one(),
    }
}

/// What a value is the transpose of, and the order of its axes.
fn transposed(b: &Lower, x: Var) -> Option<(Var, Vec<i64>)> {
    let id = b.id(x).ok()?;
    let (of, perm) = {
        let graph = b.graph();
        let node = graph.producer(id).and_then(|node| graph.node(node));
        let node = node.filter(|node| node.is("Transpose"))?;
        let Some(onnxd_plugin_sdk::ir::Attr::Ints(perm)) = node.attr("perm") else { return None };
        (node.input(0)?, perm.clone())
    };
    Some((b.var(of), perm))
}

/// Whether a value is large and made of a weight by a change of its layout.
fn is_weight(b: &Lower, x: Var) -> bool {
    let Ok(mut id) = b.id(x) else { return false };
    let graph = b.graph();
    loop {
        if let Some(tensor) = graph[id].initializer() {
            return tensor.len() >= LARGE;
        }
        let node = graph.producer(id).and_then(|node| graph.node(node));
        let moves = |node: &&onnxd_plugin_sdk::ir::Node| {
            ["Transpose", "Reshape", "Unsqueeze", "Squeeze", "Identity"]
                .iter()
                .any(|op| node.is(op))
        };
        match node.filter(moves).and_then(|node| node.input(0)) {
            Some(input) => id = input,
            None => return false,
        }
    }
}
