//! Products of activations and constant weights.

use super::{DynamicGraph, IntegerWeights, Want};
use crate::graph::quantized::MICROSOFT;
use crate::graph::weighted::WeightedOp;
use crate::plan::opt_in;
use crate::plan::request::Settings;
use crate::report::Form;
use onnxd_build::{GraphBuilder, Operand, Var};
use onnxd_ir::ops::{Conv, Gemm, MatMul, Op};
use onnxd_ir::{DataType, Graph, Node, NodeId, Tensor, ValueId};

/// The attributes that `ConvInteger` has from `Conv`.
const CONV: [&str; 6] = ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];

impl DynamicGraph<'_, '_> {
    /// Writes a weighted operator on integers; says as what, or why not.
    pub(crate) fn product(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let node = &g[id];
        if let Some(op) = MatMul::view(node) {
            if opt_in::computed_matmul(g, node) && !self.pass.request.matmul_const_b_only {
                return self.computed(g, id, (op.a, op.b));
            }
            check(g, op.b)?;
            return self.matmul(g, id, (op.a, op.b), settings);
        }
        if let Some(op) = Gemm::view(node) {
            check(g, op.b)?;
            return self.gemm(g, id, &op, settings);
        }
        if let Some(op) = Conv::view(node) {
            if g.constant(op.w).is_none() && !self.pass.request.matmul_const_b_only {
                return self.computed_conv(g, id, &op);
            }
            check(g, op.w)?;
            return self.conv(g, id, &op, settings);
        }
        Err(match node.op.as_str() {
            "ConvTranspose" => "there is no ConvTranspose on integers".to_owned(),
            op => format!("this form of {op} is not known"),
        })
    }

    fn matmul(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        (x, w): (ValueId, ValueId),
        settings: Settings,
    ) -> Result<&'static str, String> {
        // Kernels take scales for the columns of a matrix only.
        let matrix = g.constant(w).is_some_and(|w| w.rank() == 2);
        let want = Want::from_settings(WeightedOp::MatMul, matrix.then_some(1), settings);
        let outputs = g.constant(w).map(|w| w.rank().saturating_sub(1));
        let weights = self.weights(g, w, Want { outputs, ..want })?;
        let [xq, sx, zx] = self.activation(g, x)?;
        let integer = self.pass.form == Form::QLinear && matrix;
        self.pass.microsoft |= integer;
        self.stand_in(g, id, |b, _| {
            Ok([weights.product(b, [xq, sx, zx].map(|v| b.var(v)), 1.0, None, integer)?])
        })?;
        Ok(if integer { "MatMulIntegerToFloat" } else { "MatMulInteger" })
    }

    /// `alpha * A' * B' + beta * C`: `alpha` goes into the scales of the weights.
    fn gemm(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        op: &Gemm,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let weights = self.weights(g, op.b, Want::of_gemm(op, settings))?;
        let [xq, sx, zx] = self.activation(g, op.a)?;
        let columns = g.constant(weights.integers).map_or(0, |w| w.dims()[1]);
        let bias = op.c.filter(|_| op.beta != 0.0);
        let constant = bias.and_then(|c| g.constant(c)).cloned();
        let row = constant.as_ref().filter(|c| c.dims() == [columns]).cloned();
        let integer = self.pass.form == Form::QLinear && (bias.is_none() || row.is_some());
        self.pass.microsoft |= integer;
        self.stale.extend(bias);
        self.stand_in(g, id, |b, _| {
            let [xq, sx, zx] = [xq, sx, zx].map(|v| b.var(v));
            let xq = match op.transA {
                0 => xq,
                _ => b.transpose(xq).role("transposed").one()?,
            };
            let bias = match (bias, constant) {
                (Some(c), _) if op.beta == 1.0 => Some(b.var(c)),
                (Some(_), Some(constant)) => {
                    let scaled = constant.to_reals().map(|c| c.map(|x| x * f64::from(op.beta)));
                    let scaled = scaled.and_then(|c| c.to_tensor(DataType::Float));
                    Some(b.parameter("bias", scaled.unwrap_or(constant)))
                }
                (Some(c), None) => {
                    let beta = b.parameter("beta", Tensor::scalar(op.beta));
                    Some(b.named("bias", b.mul(c, beta)?))
                }
                (None, _) => None,
            };
            Ok([weights.product(b, [xq, sx, zx], f64::from(op.alpha), bias, integer)?])
        })?;
        Ok(if integer { "MatMulIntegerToFloat" } else { "MatMulInteger" })
    }

    fn conv(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        op: &Conv,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let rank = g.constant(op.w).map_or(0, Tensor::rank);
        let spatial = rank.checked_sub(2).ok_or("its weights lack axes")?;
        let bias = bias_of(g, op, spatial)?;
        let want = Want::from_settings(WeightedOp::Conv, Some(0), settings);
        let weights = self.weights(g, op.w, Want { outputs: Some(0), ..want })?;
        let [xq, sx, zx] = self.activation(g, op.x)?;
        self.stale.extend(op.b);
        self.stand_in(g, id, |b, node| {
            let sw = b.parameter("weight_scale", weights.scales(1.0, spatial));
            let sum = conv_integer(b, node, [xq, weights.integers, zx], weights.zero)?;
            let bias = bias.map(|bias| b.parameter("bias", bias));
            Ok([real(b, sum, [b.var(sx), sw], bias)?])
        })?;
        Ok("ConvInteger")
    }
}

/// A constant bias, followed by as many axes as a picture has.
pub(crate) fn bias_of(g: &Graph, op: &Conv, spatial: usize) -> Result<Option<Tensor>, String> {
    let Some(b) = op.b else { return Ok(None) };
    let data = g.constant(b).ok_or("its bias is computed")?;
    let dims = [&[data.len()][..], &vec![1; spatial]].concat();
    data.reshaped(dims).map(Some).map_err(|e| e.to_string())
}

/// The convolution on integers, of data, weights and the zero point of the data, that stands for a
/// node.
pub(crate) fn conv_integer(
    b: &GraphBuilder,
    node: &Node,
    [x, w, x_zero]: [ValueId; 3],
    w_zero: Option<ValueId>,
) -> onnxd_build::Result<Var> {
    let attrs = node.attrs.iter().filter(|(name, _)| CONV.contains(&name.as_str()));
    let conv = b.conv_integer(x, w).x_zero_point(x_zero).w_zero_point(w_zero);
    conv.attrs(attrs.cloned()).role("integer").one()
}

/// Dequantizes accumulators, by both scales, and adds the bias.
pub(crate) fn real(
    b: &GraphBuilder,
    sum: Var,
    [sx, sw]: [impl Into<Operand>; 2],
    bias: Option<Var>,
) -> onnxd_build::Result<Var> {
    let sum = b.named("cast", b.cast(sum, DataType::Float)?);
    let scaled = b.mul(sum, b.named("scales", b.mul(sx, sw)?))?;
    match bias {
        None => Ok(scaled),
        Some(bias) => b.add(b.named("scaled", scaled), bias),
    }
}

/// Whether weights can be quantized.
pub(crate) fn check(g: &Graph, w: ValueId) -> Result<(), String> {
    match g.constant(w) {
        None => Err("both factors are computed".to_owned()),
        Some(w) if w.dtype() != DataType::Float => {
            Err(format!("its weights are of {}, which is no type of reals", w.dtype()))
        }
        Some(w) if w.is_empty() => Err("its weights are empty".to_owned()),
        Some(_) => Ok(()),
    }
}

impl Want {
    /// What a weighted operator wants whose output channels run along `axis`, if one axis does.
    pub(crate) fn from_settings(op: WeightedOp, axis: Option<usize>, settings: Settings) -> Want {
        let axis = axis.filter(|_| settings.per_channel);
        // Weights of `int8` are written as `uint8` unless they are named in the params, see
        // `Quantized::exact`: they may have a zero point. ONNX Runtime's ConvInteger takes one zero
        // point for all weights.
        let one_zero = op == WeightedOp::Conv;
        let dtype = match settings.weight {
            DataType::Int8 if !settings.named && !settings.reduce_range && !one_zero => {
                DataType::Uint8
            }
            dtype => dtype,
        };
        let alike = one_zero && (axis.is_some() || settings.weight == DataType::Int8);
        Want {
            axis,
            reduced: settings.reduce_range,
            one_zero,
            exact: !settings.named,
            ..Want::table(dtype, settings.symmetric || alike)
        }
    }
}

impl IntegerWeights {
    /// The scales times `factor`, followed by `axes` axes.
    pub(crate) fn scales(&self, factor: f64, axes: usize) -> Tensor {
        let values: Vec<f32> = self.scales.iter().map(|s| (s * factor) as f32).collect();
        let dims = match values.len() {
            1 => vec![],
            n => [&[n][..], &vec![1; axes]].concat(),
        };
        Tensor::from_vec(dims, values)
    }

    /// `factor · x · weights + bias`, in one operator of ONNX Runtime if `microsoft`.
    fn product(
        &self,
        b: &GraphBuilder,
        [xq, sx, zx]: [Var; 3],
        factor: f64,
        bias: Option<Var>,
        microsoft: bool,
    ) -> onnxd_build::Result<Var> {
        let sw = b.parameter("weight_scale", self.scales(factor, 0));
        if microsoft {
            let product =
                b.op(MICROSOFT, "MatMulIntegerToFloat", [xq, b.var(self.integers), sx, sw]);
            let product = product.set("a_zero_point", zx).set("b_zero_point", self.zero);
            return product.set("bias", bias).one();
        }
        let sum = b.mat_mul_integer(xq, self.integers).a_zero_point(zx).b_zero_point(self.zero);
        real(b, sum.role("integer").one()?, [sx, sw], bias)
    }
}
