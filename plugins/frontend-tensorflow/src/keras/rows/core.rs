//! Core layers, and those that do nothing outside of training.

use super::quantized::{self, Float8};
use super::{real, weights_and_bias};
use crate::ops::create::number;
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::{Int32, Int64};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "InputLayer" | "Identity" => |_, inputs: Var| Ok(inputs);
        "Dropout" | "SpatialDropout1D" | "SpatialDropout2D" | "SpatialDropout3D" | "GaussianDropout" | "AlphaDropout"
            | "GaussianNoise" | "ActivityRegularization" | "StochasticDepth" => |_, a: Idle| Ok(a.inputs);
        "Dense" => dense;
        "EinsumDense" => einsum_dense;
        "Embedding" => embedding;
        "Masking" => masking;
        "Rescaling" => rescaling(inputs, scale, offset, dtype);
        // A layer of `keras.applications`.
        "LayerScale" => |b, inputs: Var, init_values: Option<Value>, projection_dim: Option<i64>, weights: Vec<Var>| {
            let [gamma] = super::exactly(b, &weights)?;
            b.mul(inputs, gamma)
        };
    }
}

arguments! {
    /// What the layer does in training is of no matter.
    struct Idle {
        inputs: Var, rate: Option<f64>, noise_shape: Option<Value>, stddev: Option<f64>, l1: Option<f64>,
        l2: Option<f64>, data_format: Option<String>, drop_path_rate: Option<f64>,
    }
    /// `Dense(units, use_bias=True)`
    struct Dense { inputs: Var, units: i64, use_bias: bool = true, weights: Vec<Var> }
    /// `EinsumDense(equation, output_shape, bias_axes=None)`
    struct EinsumDense {
        inputs: Var, equation: String, output_shape: Value, bias_axes: Option<String>, weights: Vec<Var>,
    }
    /// `Embedding(input_dim, output_dim, mask_zero=False)`
    struct Embedding {
        inputs: Var, input_dim: i64, output_dim: i64, mask_zero: bool = false, input_length: Option<Value>,
        sparse: Option<bool>, dtype: String, weights: Vec<Var>,
    }
    /// `Masking(mask_value=0.0)`
    struct Masking { inputs: Var, mask_value: f64 = 0.0 }
}

/// The last axis times a matrix, plus a bias.
fn dense(b: &Lower, a: Dense) -> Lowered<Var> {
    if quantized::is_quantized(b, &a.weights) {
        return quantized::dense(b, a.inputs, a.units, &a.weights, a.use_bias);
    }
    if let Some(layer) = Float8::from_weights(b, &a.weights, a.use_bias) {
        return layer.computed(b, a.inputs, |x, kernel| b.mat_mul(x, kernel));
    }
    match weights_and_bias(b, &a.weights, a.use_bias)? {
        ([kernel], Some(bias)) if rank(b, a.inputs)? == 2 => b.gemm(a.inputs, kernel).c(bias).one(),
        ([kernel], Some(bias)) => b.add(b.mat_mul(a.inputs, kernel)?, bias),
        ([kernel], None) => b.mat_mul(a.inputs, kernel),
    }
}

/// As the equation says; the bias has the letters of `bias_axes`, as the result has them.
fn einsum_dense(b: &Lower, mut a: EinsumDense) -> Lowered<Var> {
    a.equation.retain(|c| !c.is_whitespace());
    let has_bias = a.bias_axes.is_some();
    if quantized::is_quantized(b, &a.weights) {
        return quantized::einsum_dense(b, a.inputs, &a.equation, &a.weights, has_bias);
    }
    if let Some(layer) = Float8::from_weights(b, &a.weights, has_bias) {
        let product = |x, kernel| b.einsum([x, kernel]).equation(a.equation).one();
        return layer.computed(b, a.inputs, product);
    }
    let ([kernel], bias) = weights_and_bias(b, &a.weights, has_bias)?;
    let y = b.einsum([a.inputs, kernel]).equation(a.equation).one()?;
    match bias {
        Some(bias) => b.add(y, bias),
        None => Ok(y),
    }
}

fn embedding(b: &Lower, a: Embedding) -> Lowered<Var> {
    let ids = match dtype_of(b, a.inputs)? {
        Int32 | Int64 => a.inputs,
        _ => b.cast(a.inputs, Int32)?,
    };
    if quantized::is_quantized(b, &a.weights) {
        let to = crate::keras::dtype::dtype_of_word(&a.dtype).unwrap_or(DataType::Float);
        return quantized::embedding(b, ids, a.output_dim, &a.weights, to);
    }
    let [table] = super::exactly(b, &a.weights)?;
    b.gather(table, ids).axis(0).one()
}

/// Steps whose elements are all equal to a value become zeros.
fn masking(b: &Lower, a: Masking) -> Lowered<Var> {
    let value = b.constant(number(a.mask_value, dtype_of(b, a.inputs)?));
    let other = b.cast(b.not(b.equal(a.inputs, value)?)?, Int32)?;
    let counts = b.reduce_max(other).axes([-1]).keepdims(1).one()?;
    b.mul(a.inputs, b.cast(counts, dtype_of(b, a.inputs)?)?)
}

/// `x * scale + offset`, each a number or a list.
fn rescaling(b: &Lower, inputs: Var, scale: Value, offset: Value, dtype: String) -> Lowered<Var> {
    let dtype = crate::keras::dtype::dtype_of_word(&dtype).unwrap_or(DataType::Float);
    let dtype = crate::keras::dtype::kernel(dtype);
    let x = b.cast(inputs, dtype)?;
    let tensor = |value: &Value| match value {
        Value::None => Ok(None),
        Value::List(items) => {
            let reals: Option<Vec<f64>> = items.iter().map(real).collect();
            let reals = reals.map(Tensor::vector);
            reals.map(|tensor| b.cast(b.constant(tensor), dtype)).transpose()
        }
        other => Ok(real(other).map(|x| b.constant(number(x, dtype)))),
    };
    let is = |value: &Value, x: f64| real(value) == Some(x);
    let y = match tensor(&scale)? {
        Some(_) if is(&scale, 1.0) => x,
        Some(scale) => b.mul(x, scale)?,
        None => return Err(b.wrong("The scale is no number and no list.")),
    };
    match tensor(&offset)? {
        Some(_) if is(&offset, 0.0) => Ok(y),
        Some(offset) => b.add(y, offset),
        None => Ok(y),
    }
}
