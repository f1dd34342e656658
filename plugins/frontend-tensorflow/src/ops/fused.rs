//! What TensorFlow's optimizer puts in place of several operators: a product or convolution, and what follows it.

use super::activation::{clipped, gelu, leaky};
use super::conv::{Conv, convolution};
use super::elementwise::{Biased, bias_add};
use super::linear::product;
use super::norm::{Batch, batch_norm};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "_FusedMatMul" => |b, a: Product| {
            let y = product(b, [a.a, a.b], [a.transpose_a, a.transpose_b])?;
            followed(b, y, "NHWC", Chain::new(a.fused_ops, a.args, [a.epsilon, a.leakyrelu_alpha]))
        };
        "_FusedConv2D" => pictures;
        "_FusedConv3D" => volumes;
        "_FusedDepthwiseConv2dNative" => depthwise;
        "_FusedBatchNormEx" => normalized;
    }
}

arguments! {
    /// `_FusedMatMul`
    struct Product {
        a: Var, b: Var, args: Vec<Var>, transpose_a: bool, transpose_b: bool, fused_ops: Vec<String>, epsilon: f64,
        leakyrelu_alpha: f64,
    }
    /// `_FusedConv2D`
    struct Pictures {
        input: Var, filter: Var, args: Vec<Var>, host_args: Vec<Var>, strides: Vec<i64>, padding: String,
        explicit_paddings: Option<Vec<i64>>, data_format: String, filter_format: String, dilations: Vec<i64>,
        fused_ops: Vec<String>, epsilon: f64, leakyrelu_alpha: f64,
    }
    /// `_FusedConv3D`
    struct Volumes {
        input: Var, filter: Var, args: Vec<Var>, strides: Vec<i64>, padding: String, data_format: String,
        dilations: Vec<i64>, padding_list: Vec<i64>, fused_ops: Vec<String>, epsilon: f64, leakyrelu_alpha: f64,
    }
    /// `_FusedDepthwiseConv2dNative`
    struct Depthwise {
        input: Var, filter: Var, args: Vec<Var>, strides: Vec<i64>, padding: String, data_format: String,
        dilations: Vec<i64>, fused_ops: Vec<String>, epsilon: f64, leakyrelu_alpha: f64,
    }
    /// `_FusedBatchNormEx`
    struct Normalized {
        x: Var, scale: Var, offset: Var, mean: Var, variance: Var, side_input: Vec<Var>, epsilon: f64,
        exponential_avg_factor: f64, activation_mode: String, data_format: String, is_training: bool,
    }
}

/// The operators that follow, and what they read besides the result so far.
struct Chain {
    ops: Vec<String>,
    args: std::vec::IntoIter<Var>,
    epsilon: f64,
    alpha: f64,
}

impl Chain {
    fn new(ops: Vec<String>, args: Vec<Var>, [epsilon, alpha]: [f64; 2]) -> Chain {
        Chain { ops, args: args.into_iter(), epsilon, alpha }
    }

    fn argument(&mut self, b: &Lower) -> Lowered<Var> {
        let missing =
            || b.diagnostic(Code::LayerParameter, "An operator of `fused_ops` lacks an argument.");
        self.args.next().ok_or_else(missing)
    }
}

fn followed(b: &Lower, y: Var, data_format: &str, mut chain: Chain) -> Lowered<Var> {
    let ops = std::mem::take(&mut chain.ops);
    let y = ops.iter().try_fold(y, |y, op| step(b, y, op, data_format, &mut chain))?;
    match chain.args.next() {
        None => Ok(y),
        Some(_) => Err(b.diagnostic(
            Code::LayerParameter,
            "No operator of `fused_ops` reads the last argument.",
        )),
    }
}

/// One operator of the chain.
fn step(b: &Lower, y: Var, op: &str, data_format: &str, chain: &mut Chain) -> Lowered<Var> {
    match op {
        "BiasAdd" => {
            let bias = chain.argument(b)?;
            // The bias of volumes is one of pictures with another axis.
            let data_format = Some(data_format.replace('D', ""));
            bias_add(b, Biased { value: y, bias, data_format })
        }
        "Add" => b.add(y, chain.argument(b)?),
        "FusedBatchNorm" => {
            let [scale, offset, mean, variance] =
                [chain.argument(b)?, chain.argument(b)?, chain.argument(b)?, chain.argument(b)?];
            let (epsilon, data_format) = (chain.epsilon, data_format.to_owned());
            let (exponential_avg_factor, is_training) = (1.0, false);
            let a = Batch {
                x: y,
                scale,
                offset,
                mean,
                variance,
                epsilon,
                data_format,
                exponential_avg_factor,
                is_training,
            };
            Ok(batch_norm(b, a)?[0])
        }
        _ => activated(b, y, op, chain.alpha),
    }
}

fn activated(b: &Lower, y: Var, op: &str, alpha: f64) -> Lowered<Var> {
    match op {
        "Identity" => Ok(y),
        "Relu" => b.relu(y),
        "Relu6" => clipped(b, y, 0.0, 6.0),
        "Elu" => b.elu(y).one(),
        "LeakyRelu" => leaky(b, y, alpha),
        "Tanh" => b.tanh(y),
        "Sigmoid" => b.sigmoid(y),
        "_FusedHardSwish" => b.mul(y, b.div(clipped(b, b.add(y, 3.0)?, 0.0, 6.0)?, 6.0)?),
        "GeluApproximate" => gelu(b, y, true),
        "GeluExact" => gelu(b, y, false),
        other => {
            let message = format!("The operator `{}` in `fused_ops` is not known.", shown(other));
            Err(b.diagnostic(Code::LayerUnsupported, message))
        }
    }
}

fn pictures(b: &Lower, a: Pictures) -> Lowered<Var> {
    if a.filter_format != "HWIO" || !a.host_args.is_empty() {
        let message = "Only filters of the order `HWIO` without further scales are converted.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let Pictures {
        input, filter, strides, padding, explicit_paddings, data_format, dilations, ..
    } = a;
    let layout = data_format.clone();
    let conv = Conv { input, filter, strides, padding, explicit_paddings, data_format, dilations };
    let chain = Chain::new(a.fused_ops, a.args, [a.epsilon, a.leakyrelu_alpha]);
    followed(b, convolution(b, conv, false)?, &layout, chain)
}

fn volumes(b: &Lower, a: Volumes) -> Lowered<Var> {
    if !a.padding_list.is_empty() {
        let message = "A convolution with `padding_list` is not converted.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let Volumes { input, filter, strides, padding, data_format, dilations, .. } = a;
    let layout = data_format.clone();
    let conv =
        Conv { input, filter, strides, padding, explicit_paddings: None, data_format, dilations };
    let chain = Chain::new(a.fused_ops, a.args, [a.epsilon, a.leakyrelu_alpha]);
    followed(b, convolution(b, conv, false)?, &layout, chain)
}

fn depthwise(b: &Lower, a: Depthwise) -> Lowered<Var> {
    let Depthwise { input, filter, strides, padding, data_format, dilations, .. } = a;
    let layout = data_format.clone();
    let conv =
        Conv { input, filter, strides, padding, explicit_paddings: None, data_format, dilations };
    let chain = Chain::new(a.fused_ops, a.args, [a.epsilon, a.leakyrelu_alpha]);
    followed(b, convolution(b, conv, true)?, &layout, chain)
}

fn normalized(b: &Lower, a: Normalized) -> Lowered<[Var; 6]> {
    let Normalized { x, scale, offset, mean, variance, epsilon, data_format, .. } = a;
    let (exponential_avg_factor, is_training) = (a.exponential_avg_factor, a.is_training);
    let batch = Batch {
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon,
        data_format,
        exponential_avg_factor,
        is_training,
    };
    let [y, mean, variance, biased] = batch_norm(b, batch)?;
    let y = a.side_input.iter().try_fold(y, |y, side| b.add(y, *side))?;
    Ok([activated(b, y, &a.activation_mode, 0.0)?, mean, variance, mean, biased, biased])
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{FLOAT, floats, found, graph, import, node, placeholder};
    use crate::wire::proto::{Attr, ListValue, NodeDef};

    /// A product of matrices with what follows it.
    fn fused(ops: &[&str], args: usize) -> Vec<NodeDef> {
        let s = ops.iter().map(|op| op.as_bytes().to_vec().into()).collect();
        let bias: &[&str] = if args == 0 { &[] } else { &["bias"] };
        let y = node("y", "_FusedMatMul", &[&["x", "w"], bias].concat());
        let y = y.attr("T", Attr::Type(FLOAT)).attr("num_args", Attr::I(args as i64));
        let y = y.attr("fused_ops", Attr::List(ListValue { s, ..ListValue::default() }));
        vec![
            placeholder("x", &[2, 4]),
            placeholder("w", &[4, 3]),
            floats("bias", &[1.0, 2.0, 3.0]),
            y,
        ]
    }

    #[test]
    fn what_follows_a_product_is_done_in_order() {
        let model = import(&graph(fused(&["BiasAdd", "Relu6"], 1), vec![])).unwrap().model;
        let ops: Vec<String> = model.graph.nodes().map(|(_, node)| node.op.to_string()).collect();
        assert_eq!(ops, ["MatMul", "Add", "Clip"]);
    }

    #[test]
    fn chains_that_do_not_fit_are_refused() {
        for (ops, args) in [(&["BiasAdd"][..], 0), (&["Relu"], 1), (&["Mystery"], 0)] {
            let all = found(import(&graph(fused(ops, args), vec![])));
            assert!(all.len() == 1 && all[0].contains("`fused_ops`"), "{all:?}");
        }
    }
}
