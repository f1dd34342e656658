//! Operators of ONNX Runtime (domain `com.microsoft`) that quantized networks and transformers use.
//!
//! Quantized results follow the runtime's kernels bit for bit, down to whether a zero point is added
//! before or after rounding. Two things it does are not imitated: sums of `uint8` times `int8`
//! saturate in 16 bits on processors without VNNI there, and a requantized softmax over a single
//! element is zero there.

mod activation;
mod attention;
mod blocks;
mod elementwise;
mod embed;
mod fused;
mod grouped;
mod lstm;
mod norm;
mod pool;
mod product;
mod rotary;
mod softmax;
#[cfg(test)]
mod tests;
mod tokenizer;

use crate::call::{KernelCall, KernelRow, raw, row, scalar};
use crate::fault::{Fault, Outcome};
use crate::item::{RunValue, tensors};
use crate::standard::find;
use onnxd_ir::{Attr, DataType, Graph, Node, Tensor};

const DOMAIN: &str = "com.microsoft";

/// The version of the standard that [`standard`] applies.
const OPSET: i64 = 24;

type Plain = fn(&KernelCall) -> Outcome<Vec<Tensor>>;

const fn own(op: &'static str, kernel: Plain) -> KernelRow {
    raw(op, kernel).in_domain(DOMAIN)
}

/// A row that computes 16-bit floats through `float`.
const fn wide(op: &'static str, kernel: Plain) -> KernelRow {
    row(op, kernel).in_domain(DOMAIN)
}

pub(crate) const ROWS: &[KernelRow] = &[
    wide("Attention", attention::attention),
    wide("BiasGelu", activation::bias_gelu),
    own("DequantizeLinear", crate::quant::dequantize_linear),
    own("DynamicQuantizeLSTM", lstm::dynamic_quantize_lstm),
    own("DynamicQuantizeMatMul", product::dynamic_quantize_matmul),
    wide("EmbedLayerNormalization", embed::embed_layer_normalization),
    wide("FastGelu", activation::fast_gelu),
    wide("FusedConv", fused::fused_conv),
    wide("FusedGemm", fused::fused_gemm),
    wide("FusedMatMul", fused::fused_matmul),
    wide("GatherBlockQuantized", blocks::gather_block_quantized),
    wide("Gelu", activation::gelu),
    wide("GroupQueryAttention", grouped::group_query_attention),
    own("MatMulInteger16", product::matmul_integer_16),
    wide("MatMulIntegerToFloat", product::matmul_integer_to_float),
    wide("MatMulNBits", blocks::matmul_nbits),
    wide("MultiHeadAttention", attention::multi_head_attention),
    own("NhwcMaxPool", pool::nhwc_max_pool),
    wide("QAttention", attention::q_attention),
    own("QEmbedLayerNormalization", embed::q_embed_layer_normalization),
    own("QGemm", product::q_gemm),
    own("QLinearAdd", elementwise::q_linear_add),
    own("QLinearAveragePool", pool::q_linear_average_pool),
    own("QLinearConcat", elementwise::q_linear_concat),
    own("QLinearConv", product::q_linear_conv),
    own("QLinearGlobalAveragePool", pool::q_linear_global_average_pool),
    own("QLinearLeakyRelu", elementwise::q_linear_leaky_relu),
    own("QLinearMul", elementwise::q_linear_mul),
    own("QLinearReduceMean", pool::q_linear_reduce_mean),
    own("QLinearSigmoid", elementwise::q_linear_sigmoid),
    own("QLinearSoftmax", softmax::q_linear_softmax),
    own("QLinearWhere", elementwise::q_linear_where),
    own("QuantizeLinear", crate::quant::quantize_linear),
    wide("QuickGelu", activation::quick_gelu),
    wide("RotaryEmbedding", rotary::rotary_embedding),
    // The runtime keeps this one in the standard's own domain.
    row("SimplifiedLayerNormalization", norm::simplified_layer_normalization),
    wide("SkipLayerNormalization", norm::skip_layer_normalization),
    wide("SkipSimplifiedLayerNormalization", norm::skip_simplified_layer_normalization),
    own("Tokenizer", tokenizer::tokenizer),
    own("Trilu", crate::shape::trilu),
];

/// Applies an operator of the standard, so that a fused operator reads like the ones it replaces.
fn standard(
    call: &KernelCall,
    op: &str,
    attrs: &[(&str, Attr)],
    inputs: &[Option<&Tensor>],
    outputs: usize,
) -> Outcome<Vec<Tensor>> {
    let mut graph = Graph::new("");
    let values: Vec<_> = (0..outputs).map(|_| graph.add_value("", None)).collect();
    let mut node = Node::new(op, [], values);
    node.attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
    let row = find(&node, OPSET).ok_or_else(|| Fault::unsupported(op.to_owned()))?;
    let inputs: Vec<Option<Tensor>> = inputs.iter().map(|x| x.cloned()).collect();
    let given: Vec<Option<RunValue>> =
        inputs.iter().cloned().map(|x| x.map(RunValue::Tensor)).collect();
    let call = KernelCall { node: &node, opset: OPSET, inputs: &inputs, ..*call };
    let refuse = |_: &_, _| Err(Fault::unsupported("a sub-graph"));
    tensors(row.run(&call, &given, &mut { refuse })?)
}

/// The first output of [`standard`].
fn first(
    call: &KernelCall,
    op: &str,
    attrs: &[(&str, Attr)],
    inputs: &[Option<&Tensor>],
) -> Outcome<Tensor> {
    Ok(standard(call, op, attrs, inputs, 1)?.swap_remove(0))
}

/// The attributes of the node itself, for [`standard`].
fn attributes<'a>(call: &KernelCall<'a>) -> Vec<(&'a str, Attr)> {
    let known =
        call.node.attrs.iter().filter_map(|(name, _)| Some((name.as_str(), call.attr(name)?)));
    known.map(|(name, attr)| (name, attr.clone())).collect()
}

/// Scale and zero point of a whole tensor.
#[derive(Clone, Copy)]
struct ScaleAndZero {
    scale: f32,
    zero: i64,
}

impl ScaleAndZero {
    /// From two inputs, of which the zero point may be absent.
    fn read(call: &KernelCall, scale: usize, zero: usize) -> Outcome<ScaleAndZero> {
        ScaleAndZero::from(call.x(scale)?, call.opt(zero))
    }

    fn from(scale: &Tensor, zero: Option<&Tensor>) -> Outcome<ScaleAndZero> {
        let scale = scalar(scale)? as f32;
        Ok(ScaleAndZero { scale, zero: zero.map(scalar).transpose()?.unwrap_or(0.0) as i64 })
    }

    fn real(&self, q: i64) -> f32 {
        (q - self.zero) as f32 * self.scale
    }
}

/// An 8-bit tensor.
fn eight_bits(x: &Tensor) -> Outcome<Vec<i64>> {
    match x.dtype() {
        DataType::Int8 | DataType::Uint8 => crate::call::integers(x),
        _ => Err(Fault::invalid(format!("{x:?} where 8-bit integers are needed"))),
    }
}
