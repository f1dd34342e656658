//! From pairs of `QuantizeLinear` and `DequantizeLinear` around operators on floats to operators
//! on integers. Which operator becomes which is told by the tables in [`crate::forms`]; here is
//! what all have in common.
//!
//! Both forms compute the same: sums of integers are exact in both, and what differs is where
//! they are rounded. `QLinearConv`, `QLinearMatMul` and `QGemm` multiply the exact sum by one
//! `float` factor, where the other form adds up products of floats, so that a result which lies
//! almost between two integers may become the other one. The same holds for operators that round
//! once where the other form rounds several times (`QLinearAdd`, `QLinearMul`, pooling), and
//! `QLinearSoftmax` takes its exponentials from a table. What only moves elements is equal always.

use crate::coded::{Coded, MICROSOFT, Why, decoded, each_graph, encoded, is_linear, name, sweep};
use crate::forms;
use crate::report::name_of;
use crate::weight::flipped;
use crate::weighted::is_product;
use onnxd_ir::runtime::beyond_16_bits;
use onnxd_ir::{Attr, DataType, Graph, Model, Node, NodeId, Tensor, ValueId};
use std::collections::BTreeSet;

/// What became of a model's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Nodes that changed form: name, operator before, operator after.
    pub folded: Vec<(String, String, String)>,
    /// Nodes between quantized values that stay as they are, and why.
    pub left: Vec<(String, String)>,
}

/// Turns operators between `DequantizeLinear` and `QuantizeLinear` into operators on integers
/// (`QLinearConv`, ...), where ONNX Runtime has a kernel for them. Types should be inferred.
pub fn fold(model: &mut Model) -> Folded {
    fold_if(model, forms::drop_needless, &|_| true)
}

/// As [`fold`], of products with weights only: `Conv`, `ConvTranspose`, `Gemm` and `MatMul`.
pub fn fold_products(model: &mut Model) -> Folded {
    fold_if(model, |_, _| {}, &is_product)
}

fn fold_if(
    model: &mut Model,
    first: fn(&mut Graph, &mut Folded),
    wanted: &dyn Fn(&Node) -> bool,
) -> Folded {
    let opset = model.opset();
    let mut told = Folded::default();
    each_graph(&mut model.graph, &mut |graph| {
        first(graph, &mut told);
        fold_graph(graph, opset, wanted, &mut told);
    });
    let mut uses_microsoft = false;
    model.for_each_graph(|graph| {
        uses_microsoft |= graph.nodes().any(|(_, node)| node.domain == MICROSOFT);
    });
    if uses_microsoft {
        model.opsets.entry(MICROSOFT.into()).or_insert(1);
    }
    told
}

fn fold_graph(graph: &mut Graph, opset: i64, wanted: &dyn Fn(&Node) -> bool, told: &mut Folded) {
    let Ok(order) = graph.topological() else { return };
    for id in order {
        let Some(node) = graph.node(id).cloned() else { continue };
        let between = node.inputs.iter().flatten().any(|v| decoded(graph, *v).is_ok());
        if !between || is_linear(&node, "QuantizeLinear") || !wanted(&node) {
            continue;
        }
        let (name, op) = (name_of(graph, &node), node.op.clone());
        let rule = forms::fold_of(&node);
        let made = match rule {
            Some(rule) => rule(&mut Site { graph, opset, node }),
            None => Err(format!("no operator on integers stands for {op}")),
        };
        match made {
            Ok(made) => {
                told.folded.push((name, op, made.op.clone()));
                replace(graph, id, made);
            }
            Err(why) => told.left.push((name, why)),
        }
    }
}

/// Puts `made` in the place of the node `id` and of those that made integers of its results.
fn replace(graph: &mut Graph, id: NodeId, mut made: Node) {
    let stale = graph.remove_node(id);
    let mut gone = vec![stale];
    for v in made.outputs.iter().flatten() {
        if let Some(quantize) = graph.producer(*v) {
            gone.push(graph.remove_node(quantize));
        }
    }
    let reads = gone.iter().flat_map(Node::reads).collect::<BTreeSet<_>>();
    if made.op == gone[0].op {
        made.name.clone_from(&gone[0].name);
    } else if !gone[0].name.is_empty() {
        made.name = format!("{}{SUFFIX}", gone[0].name);
    }
    let id = graph.add_node(made);
    gone.extend(sweep(graph, reads.into_iter().collect()));
    let layers: Vec<_> = gone.into_iter().flat_map(|node| node.layers).collect();
    graph.node_mut(id).add_layers(layers);
}

/// What an operator on integers adds to the name of the one it stands for.
pub(crate) const SUFFIX: &str = "_quant";

/// A node that may become one on integers.
pub(crate) struct Site<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) opset: i64,
    pub(crate) node: Node,
}

impl Site<'_> {
    /// The 8-bit integers that input `i` is made of, with a scale for each channel or one.
    pub(crate) fn weight(&self, i: usize) -> Result<Coded, Why> {
        let v = self.node.input(i).ok_or_else(|| format!("it has no input {i}"))?;
        decoded(self.graph, v)?.byte(self.graph)
    }

    /// The 8-bit integers that input `i` is made of, with one scale.
    pub(crate) fn input(&self, i: usize) -> Result<Coded, Why> {
        self.weight(i)?.whole(self.graph)
    }

    /// The 8-bit integers that are made of output `i`, with one scale.
    pub(crate) fn output(&self, i: usize) -> Result<Coded, Why> {
        let v = self.node.output(i).ok_or_else(|| format!("it has no output {i}"))?;
        encoded(self.graph, v)?.byte(self.graph)?.whole(self.graph)
    }

    /// Demands that all are of one type, as kernels do.
    pub(crate) fn alike(&self, all: &[Coded]) -> Result<(), Why> {
        match all.iter().find(|c| c.dtype != all[0].dtype) {
            None => Ok(()),
            Some(other) => Err(format!(
                "{} is {} and {} is {}: kernels take one type",
                name(self.graph, all[0].q),
                all[0].dtype,
                name(self.graph, other.q),
                other.dtype
            )),
        }
    }

    /// Integers, scale and zero point as inputs: scalars if there is one scale.
    pub(crate) fn triple(&mut self, coded: &Coded) -> [Option<ValueId>; 3] {
        [Some(coded.q), Some(self.scale(coded)), Some(self.zero(coded))]
    }

    /// Scale and zero point as inputs.
    pub(crate) fn pair(&mut self, coded: &Coded) -> [Option<ValueId>; 2] {
        [Some(self.scale(coded)), Some(self.zero(coded))]
    }

    pub(crate) fn scale(&mut self, coded: &Coded) -> ValueId {
        self.scalar(coded.scale, coded)
    }

    pub(crate) fn zero(&mut self, coded: &Coded) -> ValueId {
        if let Some(zero) = coded.zero {
            return self.scalar(zero, coded);
        }
        let dims = match self.graph.constant(coded.scale) {
            Some(scale) if coded.axis.is_some() => scale.dims().to_vec(),
            _ => vec![],
        };
        let count = dims.iter().product();
        let zeros = match coded.dtype {
            DataType::Int8 => Tensor::from_vec(dims, vec![0i8; count]),
            _ => Tensor::from_vec(dims, vec![0u8; count]),
        };
        let name = format!("{}_zero_point", self.graph[coded.q].name);
        self.shared(&name, zeros)
    }

    /// The weights `w` such that products with `x` are exact on every processor, see
    /// [`beyond_16_bits`].
    pub(crate) fn exact(&mut self, x: &Coded, w: Coded) -> Coded {
        let data = self.graph.constant(w.q).filter(|data| beyond_16_bits(data)).and_then(flipped);
        let Some(data) = data.filter(|_| x.dtype == DataType::Uint8) else { return w };
        let zero = self.zero(&w);
        let Some(zeros) = self.graph.constant(zero).and_then(flipped) else { return w };
        let names = [w.q, zero].map(|v| format!("{}_uint8", self.graph[v].name));
        let [q, zero] = [(&names[0], data), (&names[1], zeros)].map(|(n, t)| self.shared(n, t));
        Coded { q, dtype: DataType::Uint8, zero: Some(zero), ..w }
    }

    /// A scale or zero point without axes, if it is one for all.
    fn scalar(&mut self, v: ValueId, coded: &Coded) -> ValueId {
        let flat = match self.graph.constant(v) {
            Some(t) if coded.axis.is_none() && t.rank() > 0 => t.reshaped(vec![]).ok(),
            _ => None,
        };
        let name = format!("{}_scalar", self.graph[v].name);
        flat.map_or(v, |t| self.shared(&name, t))
    }

    /// The initializer `name` if it holds the same, or a new one.
    pub(crate) fn shared(&mut self, name: &str, data: Tensor) -> ValueId {
        let found = self.graph.value_named(name);
        match found.filter(|v| self.graph.constant(*v) == Some(&data)) {
            Some(v) => v,
            None => self.graph.add_initializer(name, data),
        }
    }

    /// The node that stands for this one: operator, inputs, and this one's attributes without
    /// those that `drop` names.
    pub(crate) fn made(
        &self,
        (domain, op): (&str, &str),
        inputs: Vec<Option<ValueId>>,
        output: ValueId,
        drop: &[&str],
    ) -> Node {
        let mut node = Node { domain: domain.into(), inputs, ..Node::new(op, [], [output]) };
        let attrs = self.node.attrs.iter().filter(|(name, _)| !drop.contains(&name.as_str()));
        node.attrs = attrs.cloned().collect();
        while node.inputs.last() == Some(&None) {
            node.inputs.pop();
        }
        node
    }

    /// [`Site::made`] of an operator of ONNX Runtime, with further attributes.
    pub(crate) fn microsoft(
        &self,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        output: ValueId,
        attrs: &[(&str, i64)],
    ) -> Node {
        let names: Vec<&str> = attrs.iter().map(|(name, _)| *name).collect();
        let node = self.made((MICROSOFT, op), inputs, output, &names);
        attrs.iter().fold(node, |node, (name, n)| node.with(*name, Attr::Int(*n)))
    }
}
