//! Products of matrices: `MatMul` and `Gemm`.

use super::FoldContext;
use super::{Float, UnfoldContext};
use super::{Folds, Unfolds, bias};
use crate::graph::quantized::{MICROSOFT, QuantizedValue, Why, floats, is_dynamic, name, rank_of};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Graph, Node, NodeId, ValueId};

pub(crate) const FOLDS: Folds = &[(&["Gemm"], gemm), (&["MatMul"], matmul)];

pub(crate) const UNFOLDS: Unfolds = &[
    (&["MatMulInteger"], integer_chain),
    (&["MatMulIntegerToFloat"], to_float_back),
    (&["QGemm"], gemm_back),
    (&["QLinearMatMul"], matmul_back),
];

/// Demands types for which ONNX Runtime has kernels of products.
pub(crate) fn has_kernel(
    graph: &Graph,
    a: &QuantizedValue,
    b: &QuantizedValue,
    y: Option<&QuantizedValue>,
) -> Result<(), Why> {
    let operands = a.dtype == DataType::Uint8 || b.dtype == DataType::Int8;
    if operands && y.is_none_or(|y| y.dtype == a.dtype) {
        return Ok(());
    }
    let result = y.map_or(String::new(), |y| format!(" to {}", y.dtype));
    let of = name(graph, a.q);
    Err(format!("no kernel multiplies {} {of} and {}{result}", a.dtype, b.dtype))
}

/// The integers of the result, where a kernel makes them: there is one for results in float too.
fn result(site: &FoldContext, a: &QuantizedValue, b: &QuantizedValue) -> Option<QuantizedValue> {
    site.output(0).ok().filter(|y| has_kernel(site.graph, a, b, Some(y)).is_ok())
}

fn matmul(site: &mut FoldContext) -> Result<Node, Why> {
    let (a, b) = (site.input(0)?, site.weight(1)?.along(site.graph, -1)?);
    has_kernel(site.graph, &a, &b, None)?;
    refuse!(b.axis.is_some() && rank_of(site.graph, b.q) != Some(2) =>
        "{} has scales and is no matrix", name(site.graph, b.q));
    let b = site.exact(&a, b);
    if let Some(y) = result(site, &a, &b) {
        let mut inputs = [site.triple(&a), site.triple(&b)].concat();
        inputs.extend(site.pair(&y));
        return Ok(site.made(("", "QLinearMatMul"), inputs, y.q, &[]));
    }
    let y = site.node.output(0).ok_or("it has no output")?;
    let ([a, a_scale, a_zero], [b, b_scale, b_zero]) = (site.triple(&a), site.triple(&b));
    let inputs = vec![a, b, a_scale, b_scale, a_zero, b_zero];
    Ok(site.made((MICROSOFT, "MatMulIntegerToFloat"), inputs, y, &[]))
}

fn real(node: &Node, name: &str) -> f32 {
    match node.attr(name) {
        Some(Attr::Float(x)) => *x,
        _ => 1.0,
    }
}

fn gemm(site: &mut FoldContext) -> Result<Node, Why> {
    let columns = if site.node.int("transB", 0) == 0 { 1 } else { 0 };
    let (a, b) = (site.input(0)?, site.weight(1)?.along(site.graph, columns)?);
    has_kernel(site.graph, &a, &b, None)?;
    let y = result(site, &a, &b);
    let c = match site.node.input(2) {
        Some(_) => {
            let (alpha, beta) = (real(&site.node, "alpha"), real(&site.node, "beta"));
            let steps = bias::steps(site.graph, [a.scale, b.scale], alpha)?;
            bias::folded(site, 2, &steps, beta)?
        }
        None => None,
    };
    let b = site.exact(&a, b);
    let mut inputs = [site.triple(&a), site.triple(&b)].concat();
    inputs.push(c);
    let out = match y {
        Some(y) => {
            inputs.extend(site.pair(&y));
            y.q
        }
        None => site.node.output(0).ok_or("it has no output")?,
    };
    Ok(site.made((MICROSOFT, "QGemm"), inputs, out, &["beta"]))
}

fn gemm_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let alpha = real(&site.node, "alpha");
    let steps = match (site.node.input(6), site.given(1)?, site.given(4)?) {
        (Some(_), a, b) => bias::steps(site.graph, [a, b], alpha)?,
        _ => vec![],
    };
    let columns = if site.node.int("transB", 0) == 0 { 1 } else { 0 };
    let a = site.real([0, 1, 2], None)?;
    let b = site.real([3, 4, 5], Some(columns))?;
    let c = bias::real(site, 6, &steps)?;
    site.float("Gemm", vec![Some(a), Some(b), c], &[], [7, 8])
}

/// Demands that the scale of input `i` is one, or one for each column of a matrix.
pub(crate) fn columns(site: &UnfoldContext, i: usize, scale: usize) -> Result<Option<i64>, Why> {
    let (q, scale) = (site.given(i)?, site.given(scale)?);
    let several = site.graph.constant(scale).is_some_and(|s| s.len() > 1);
    match (several, site.rank(q)) {
        (true, Ok(2)) if rank_of(site.graph, scale) == Some(1) => Ok(Some(1)),
        (false, _) => Ok(None),
        _ => Err(format!("{} has scales and is no matrix", name(site.graph, q))),
    }
}

fn matmul_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let axis = columns(site, 3, 4)?;
    let a = site.real([0, 1, 2], None)?;
    let b = site.real([3, 4, 5], axis)?;
    site.float("MatMul", vec![Some(a), Some(b)], &[], [6, 7])
}

fn to_float_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let axis = columns(site, 1, 3)?;
    let a = site.real([0, 2, 4], None)?;
    let b = site.real([1, 3, 5], axis)?;
    let product = site.plain("MatMul", vec![Some(a), Some(b)]);
    let Some(bias) = site.node.input(6) else { return Ok(product) };
    let product = site.inner(product.node, "product");
    Ok(site.plain("Add", vec![Some(product), Some(bias)]))
}

/// `MatMulInteger` or `ConvInteger`, perhaps `Add` of integers, `Cast` to float and `Mul` by the
/// scales of both factors: what dynamic quantization writes, and the recipe with a 32-bit bias.
pub(crate) fn integer_chain(site: &mut UnfoldContext) -> Result<Float, Why> {
    let chain = Chain::behind(site)?;
    let (op, per_channel) = match site.node.op.as_str() {
        "MatMulInteger" => ("MatMul", columns_of_matrix(site)?),
        _ => ("Conv", None),
    };
    let (x, w) = (site.given(0)?, site.given(1)?);
    let (x_scale, w_scale) = chain.scales(site, x)?;
    let several = floats(site.graph, w_scale)?.len() > 1;
    refuse!(several && per_channel.is_none() => "{} has several scales", name(site.graph, w));
    let axis = per_channel.filter(|_| several);
    let w_zero = site.node.input(3);
    let zeros = w_zero.and_then(|z| site.graph.constant(z)).map_or(1, onnxd_ir::Tensor::len);
    let w_zero = match (several, zeros) {
        (true, 1) => site.repeated(w_zero, w_scale)?,
        (false, n) if n > 1 => return Err("it has zero points for one scale".into()),
        _ => w_zero,
    };
    let x = site.real_of(x, x_scale, site.node.input(2), None);
    let w = site.real_of(w, w_scale, w_zero, axis);
    let mut float = site.plain(op, vec![Some(x), Some(w)]);
    if let Some(bias) = chain.bias {
        let steps = floats(site.graph, chain.factor)?;
        let bias = bias::real_of(site, bias, &steps)?;
        let product = site.inner(float.node, "product");
        float = site.plain("Add", vec![Some(product), Some(bias)]);
    }
    float.instead = Some(chain.nodes);
    Ok(float)
}

fn columns_of_matrix(site: &UnfoldContext) -> Result<Option<i64>, Why> {
    Ok((site.rank(site.given(1)?)? == 2).then_some(1))
}

/// What follows a MatMulInteger.
struct Chain {
    /// 32-bit integers added to it.
    bias: Option<ValueId>,
    /// What it is multiplied with.
    factor: ValueId,
    /// The nodes, the last of which computes the result.
    nodes: Vec<NodeId>,
}

impl Chain {
    fn behind(site: &UnfoldContext) -> Result<Chain, Why> {
        let graph = &*site.graph;
        let unlike = || "its result is not scaled in a way that DequantizeLinear knows".to_owned();
        let next = |v: ValueId, op: &str| {
            let only = graph.readers(v).first().copied().filter(|_| graph.uses(v) == 1);
            let id = only.filter(|id| graph[*id].is(op))?;
            let other = graph[id].inputs.iter().flatten().copied().find(|i| *i != v);
            Some((id, graph[id].output(0)?, other))
        };
        let mut v = site.node.output(0).ok_or_else(unlike)?;
        let (mut bias, mut nodes) = (None, Vec::new());
        if let Some((id, sum, other)) = next(v, "Add") {
            bias = Some(other.filter(|b| graph.constant(*b).is_some()).ok_or_else(unlike)?);
            nodes.push(id);
            v = sum;
        }
        let (id, cast, _) = next(v, "Cast").ok_or_else(unlike)?;
        refuse!(graph[id].int("to", 0) != i64::from(DataType::Float.number()) => unlike());
        nodes.push(id);
        let (id, _, factor) = next(cast, "Mul").ok_or_else(unlike)?;
        nodes.push(id);
        Ok(Chain { bias, factor: factor.ok_or_else(unlike)?, nodes })
    }

    /// The scales of `x` and of the weights, of which the factor is the weighted operator.
    fn scales(&self, site: &mut UnfoldContext, x: ValueId) -> Result<(ValueId, ValueId), Why> {
        let graph = &*site.graph;
        let unlike = || format!("{} is no product of two scales", name(graph, self.factor));
        if let Some(product) = graph.producer(self.factor).map(|id| &graph[id]) {
            // Found while the model runs.
            let pair = (product.input(0), product.input(1));
            let (Some(a), Some(b), true) = (pair.0, pair.1, product.is("Mul")) else {
                return Err(unlike());
            };
            let (x_scale, w_scale) = if is_dynamic(graph, a) { (a, b) } else { (b, a) };
            let fits = is_dynamic(graph, x_scale)
                && graph.producer(x_scale) == graph.producer(x)
                && graph.constant(w_scale).is_some();
            return if fits { Ok((x_scale, w_scale)) } else { Err(unlike()) };
        }
        let value = site.quantized_value_of(x)?;
        let (step, factor) = (value.scale_value(graph)?, floats(graph, self.factor)?);
        let of = |f: &f32| {
            let near = f / step;
            [near, near.next_up(), near.next_down()].into_iter().find(|w| step * w == *f)
        };
        let scales: Option<Vec<f32>> = factor.iter().map(of).collect();
        let scales = scales.ok_or_else(unlike)?;
        let dims = graph.constant(self.factor).map_or(vec![], |t| t.dims().to_vec());
        let plain = dims.len() < 2;
        refuse!(!plain => unlike());
        let name = format!("{}_weight_scale", graph[self.factor].name);
        let scales = onnxd_ir::Tensor::from_vec(dims, scales);
        Ok((value.scale, site.graph.add_initializer(&name, scales)))
    }
}
