//! Products of activations and constant weights.

use super::real::number;
use super::{Site, Want, Weights};
use crate::asked;
use crate::coded::MICROSOFT;
use crate::emit::Emit;
use crate::report::Form;
use crate::request::Settings;
use crate::weighted::Product;
use onnxd_ir::ops::{Conv, Gemm, MatMul, Op};
use onnxd_ir::{DataType, Graph, Node, NodeId, Tensor, ValueId};

/// The attributes that `ConvInteger` has from `Conv`.
const CONV: [&str; 6] = ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];

impl Site<'_, '_> {
    /// Writes a product on integers; says as what, or why not.
    pub(super) fn product(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let node = &g[id];
        if let Some(op) = MatMul::view(node) {
            if asked::computed_product(g, node) && !self.pass.request.matmul_const_b_only {
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
        let want = Want::of(Product::MatMul, matrix.then_some(1), settings);
        let outputs = g.constant(w).map(|w| w.rank().saturating_sub(1));
        let weights = self.weights(g, w, Want { outputs, ..want })?;
        let [xq, sx, zx] = self.activation(g, x);
        let integer = self.pass.form == Form::QLinear && matrix;
        self.pass.microsoft |= integer;
        let mut emit = Emit::replace(g, id);
        let sw = scales(&mut emit, &weights, 1.0, 0);
        if integer {
            emit.last(to_float([xq, sx, zx], &weights, sw, None));
            return Ok("MatMulIntegerToFloat");
        }
        let sum = emit.node(matmul_integer([xq, zx], &weights), "integer");
        let real = cast(&mut emit, sum);
        let scale = emit.op("Mul", &[sx, sw], "scales");
        emit.last(Node::new("Mul", [real, scale], []));
        Ok("MatMulInteger")
    }

    /// `alpha * A' * B' + beta * C`: `alpha` goes into the scales of the weights.
    fn gemm(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        op: &Gemm,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let transposed = op.transB != 0;
        let outputs = Some(usize::from(!transposed));
        let want = Want { transposed, outputs, ..Want::of(Product::Gemm, outputs, settings) };
        let weights = self.weights(g, op.b, want)?;
        let [xq, sx, zx] = self.activation(g, op.a);
        let columns = g.constant(weights.integers).map_or(0, |w| w.dims()[1]);
        let bias = op.c.filter(|_| op.beta != 0.0);
        let constant = bias.and_then(|c| g.constant(c)).cloned();
        let row = constant.as_ref().filter(|c| c.dims() == [columns]).cloned();
        let integer = self.pass.form == Form::QLinear && (bias.is_none() || row.is_some());
        self.pass.microsoft |= integer;
        self.stale.extend(bias);
        let mut emit = Emit::replace(g, id);
        let sw = scales(&mut emit, &weights, f64::from(op.alpha), 0);
        let xq = match op.transA {
            0 => xq,
            _ => emit.op("Transpose", &[xq], "transposed"),
        };
        let bias = match (bias, constant) {
            (Some(c), _) if op.beta == 1.0 => Some(c),
            (Some(_), Some(constant)) => {
                let scaled = constant.to_reals().map(|c| c.map(|x| x * f64::from(op.beta)));
                let scaled = scaled.and_then(|c| c.to_tensor(DataType::Float));
                Some(emit.constant("bias", scaled.unwrap_or(constant)))
            }
            (Some(c), None) => {
                let beta = emit.constant("beta", Tensor::scalar(op.beta));
                Some(emit.op("Mul", &[c, beta], "bias"))
            }
            (None, _) => None,
        };
        if integer {
            emit.last(to_float([xq, sx, zx], &weights, sw, bias));
            return Ok("MatMulIntegerToFloat");
        }
        let sum = emit.node(matmul_integer([xq, zx], &weights), "integer");
        let real = cast(&mut emit, sum);
        let scale = emit.op("Mul", &[sx, sw], "scales");
        finish(emit, [real, scale], bias);
        Ok("MatMulInteger")
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
        let want = Want::of(Product::Conv, Some(0), settings);
        let weights = self.weights(g, op.w, Want { outputs: Some(0), ..want })?;
        let [xq, sx, zx] = self.activation(g, op.x);
        self.stale.extend(op.b);
        let conv = conv_integer(g, id, [xq, weights.integers, zx], weights.zero);
        let mut emit = Emit::replace(g, id);
        let sw = scales(&mut emit, &weights, 1.0, spatial);
        finish_conv(emit, conv, [sx, sw], bias);
        Ok("ConvInteger")
    }
}

/// A constant bias, followed by as many axes as a picture has.
pub(super) fn bias_of(g: &Graph, op: &Conv, spatial: usize) -> Result<Option<Tensor>, String> {
    let Some(b) = op.b else { return Ok(None) };
    let data = g.constant(b).ok_or("its bias is computed")?;
    let dims = [&[data.len()][..], &vec![1; spatial]].concat();
    data.reshaped(dims).map(Some).map_err(|e| e.to_string())
}

/// The convolution on integers, of data, weights and the zero point of the data, that stands for a
/// node.
pub(super) fn conv_integer(
    g: &Graph,
    id: NodeId,
    inputs: [ValueId; 3],
    zero: Option<ValueId>,
) -> Node {
    let mut conv = Node::new("ConvInteger", inputs, []);
    conv.inputs.extend(zero.map(Some));
    let attrs = g[id].attrs.iter().filter(|(name, _)| CONV.contains(&name.as_str()));
    conv.attrs = attrs.cloned().collect();
    conv
}

/// Makes reals of the sums of a convolution, by both scales, and adds the bias.
pub(super) fn finish_conv(mut emit: Emit, conv: Node, scales: [ValueId; 2], bias: Option<Tensor>) {
    let sum = emit.node(conv, "integer");
    let real = cast(&mut emit, sum);
    let scale = emit.op("Mul", &scales, "scales");
    let bias = bias.map(|bias| emit.constant("bias", bias));
    finish(emit, [real, scale], bias);
}

/// Whether weights can become integers.
pub(super) fn check(g: &Graph, w: ValueId) -> Result<(), String> {
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
    /// What a product wants whose output channels run along `axis`, if one axis does.
    pub(super) fn of(product: Product, axis: Option<usize>, settings: Settings) -> Want {
        let axis = axis.filter(|_| settings.per_channel);
        // Weights of `int8` are written as `uint8` unless they are asked for by name, see
        // `Quantized::exact`: they may have a zero point. ONNX Runtime's ConvInteger takes one zero point for all weights.
        let one_zero = product == Product::Conv;
        let dtype = match settings.weight {
            DataType::Int8 if !settings.named && !settings.reduce_range && !one_zero => {
                DataType::Uint8
            }
            dtype => dtype,
        };
        let alike = one_zero && (axis.is_some() || settings.weight == DataType::Int8);
        Want {
            axis,
            outputs: None,
            dtype,
            symmetric: settings.symmetric || alike,
            reduced: settings.reduce_range,
            transposed: false,
            one_zero,
            exact: !settings.named,
        }
    }
}

/// The scales of weights as a constant, followed by `axes` axes.
pub(super) fn scales(emit: &mut Emit, weights: &Weights, factor: f64, axes: usize) -> ValueId {
    let values: Vec<f64> = weights.scales.iter().map(|s| s * factor).collect();
    let dims = match values.len() {
        1 => vec![],
        n => [&[n][..], &vec![1; axes]].concat(),
    };
    let data: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    emit.constant("weight_scale", Tensor::from_vec(dims, data))
}

fn matmul_integer([xq, zx]: [ValueId; 2], weights: &Weights) -> Node {
    let mut node = Node::new("MatMulInteger", [xq, weights.integers, zx], []);
    node.inputs.extend(weights.zero.map(Some));
    node
}

/// The product, its scales and its bias in one operator of ONNX Runtime.
fn to_float(
    [xq, sx, zx]: [ValueId; 3],
    weights: &Weights,
    sw: ValueId,
    bias: Option<ValueId>,
) -> Node {
    let mut node = Node::new("MatMulIntegerToFloat", [xq, weights.integers, sx, sw, zx], []);
    node.domain = MICROSOFT.to_owned();
    if weights.zero.is_some() || bias.is_some() {
        node.inputs.push(weights.zero);
    }
    node.inputs.extend(bias.map(Some));
    node
}

pub(super) fn cast(emit: &mut Emit, sum: ValueId) -> ValueId {
    emit.node(Node::new("Cast", [sum], []).with("to", number(DataType::Float)), "cast")
}

fn finish(mut emit: Emit, factors: [ValueId; 2], bias: Option<ValueId>) {
    match bias {
        None => emit.last(Node::new("Mul", factors, [])),
        Some(bias) => {
            let scaled = emit.op("Mul", &factors, "scaled");
            emit.last(Node::new("Add", [scaled, bias], []));
        }
    }
}
