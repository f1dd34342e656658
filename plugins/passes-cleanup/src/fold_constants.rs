//! Computes what depends on constants only, so that runtimes need not and other passes see the values.
//!
//! A result may be larger than the operands that go with the node by [`GROWTH_BYTES_MAX`] at most, and all results
//! together by [`GROWTH_PART`] of the model: a model that describes its weights by `ConstantOfShape` or `Expand` stays
//! small, and weights that something else reads are not there twice. What is only moved or cast is derived from its
//! operands and computed when the model is written. `DequantizeLinear` and its kin stay, and so does a `Cast` of a
//! large constant to a wider type: they say how a weight is stored. What rearranges their results
//! rearranges what they read.

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::eval;
use onnxd_plugin_sdk::ir::{
    Attr, Graph, Model, Node, NodeId, Opsets, Tensor, ValueId, settle_stored,
};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Skip};
use std::collections::{HashMap, HashSet};

/// How much larger a folded result may be than the operands that go.
const GROWTH_BYTES_MAX: usize = 64 << 10;

/// Which part of the initializers a run may add to them, where that is more than [`GROWTH_BYTES_FREE`].
const GROWTH_PART: usize = 16;
const GROWTH_BYTES_FREE: usize = 16 << 10;

/// Bytes up to which a constant is cast to a wider type.
const WIDENED_BYTES_MAX: usize = 1 << 10;

/// Bytes that all results of one run may take, beside [`FOLDED_FACTOR`] times the initializers: a
/// chain in which each node doubles its input would otherwise fill the memory.
const FOLDED_BYTES_MAX: usize = 16 << 20;
/// How often, on average, an initializer may be computed anew.
const FOLDED_FACTOR: usize = 4;

/// Operators whose presence is the point.
const KEPT: [&str; 4] =
    ["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "OptionalHasElement"];

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoldConstants {
    /// Whether constants of fewer bits are cast whatever their size: a quantizer looks for weights that are floats, and
    /// gives them a type of its own.
    pub(crate) widens: bool,
}

impl Pass for FoldConstants {
    fn name(&self) -> &'static str {
        "fold-constants"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let bytes = initializer_bytes(model);
        let mut left = Left {
            bytes: bytes * FOLDED_FACTOR + FOLDED_BYTES_MAX,
            growth: GROWTH_BYTES_FREE.max(bytes / GROWTH_PART),
            widens: self.widens,
        };
        let opset = model.opset();
        let opsets = &model.opsets;
        model.graph.with_subgraphs_mut(opset, &mut |graph, _| {
            settle_stored(graph, &mut || {
                let may = !cx.fuel.is_empty();
                if may {
                    cx.rewrote();
                }
                may
            });
            fold(graph, opsets, false, &mut left, cx);
        });
        for function in &mut model.functions {
            let opsets = &function.opsets;
            function.graph.with_subgraphs_mut(opset, &mut |graph, _| {
                // A function has no initializers: its constants would be written as nodes again.
                fold(graph, opsets, true, &mut left, cx);
            });
        }
        Ok(())
    }
}

/// What a run may still add.
struct Left {
    /// Bytes of results.
    bytes: usize,
    /// Bytes by which results are larger than what goes.
    growth: usize,
    /// See [`FoldConstants::widens`].
    widens: bool,
}

impl Left {
    /// How large the results of a node may be in place of operands of `gone` bytes.
    fn max(&self, graph: &Graph, node: &Node, gone: usize) -> usize {
        let growth = match is_widening(graph, node) {
            true if self.widens => return self.bytes,
            true => WIDENED_BYTES_MAX.saturating_sub(gone),
            false => GROWTH_BYTES_MAX,
        };
        (gone + growth.min(self.growth)).min(self.bytes)
    }

    fn take(&mut self, results: usize, gone: usize) {
        self.bytes = self.bytes.saturating_sub(results);
        self.growth = self.growth.saturating_sub(results.saturating_sub(gone));
    }
}

/// Whether a node says that a weight is stored in fewer bits.
fn is_widening(graph: &Graph, node: &Node) -> bool {
    let bits = |v: Option<ValueId>| Some(graph[v?].ty.as_ref()?.dtype()?.bits());
    let from = node.input(0).and_then(|v| graph.constant(v)).map(|known| known.dtype().bits());
    node.is("Cast") && from.zip(bits(node.output(0))).is_some_and(|(from, to)| to > from)
}

fn initializer_bytes(model: &Model) -> usize {
    let mut bytes = 0;
    model.for_each_graph(|graph| {
        let tensors = graph.value_ids().filter_map(|v| graph[v].initializer());
        bytes += tensors.map(Tensor::byte_len).sum::<usize>();
    });
    bytes
}

/// The version of the node's domain; 0 if none is imported.
fn version(opsets: &Opsets, node: &Node) -> i64 {
    let names = if node.is_standard() { ["", "ai.onnx"] } else { [node.domain.as_str(); 2] };
    names.iter().find_map(|name| opsets.get(*name)).copied().unwrap_or(0)
}

fn fold(
    graph: &mut Graph,
    opsets: &Opsets,
    in_function: bool,
    left: &mut Left,
    cx: &mut PassContext,
) {
    let order = graph.topological().unwrap_or_default();
    let folding = folding(graph, &order);
    // What something else reads stays. Looked up once for each value, however many nodes read it.
    let mut stays: HashMap<ValueId, bool> = HashMap::new();
    for id in order {
        if cx.fuel.is_empty() {
            break;
        }
        let plain = graph[id].output(0).is_some_and(|v| graph.constant(v).is_some());
        if in_function && plain {
            continue;
        }
        let Some(operands) = operands(graph, &graph[id]) else { continue };
        let at = graph[id].output(0).map(|v| graph[v].name.clone()).unwrap_or_default();
        let version = version(opsets, &graph[id]);
        let mut goes = |v: ValueId| {
            let read = || graph.readers(v).iter().any(|reader| !folding.contains(reader));
            !*stays.entry(v).or_insert_with(|| graph.is_output(v) || read())
        };
        let gone = gone(&graph[id], &operands, &mut goes);
        let bytes_max = left.max(graph, &graph[id], gone);
        match compute(graph, id, version, &operands, bytes_max) {
            Ok(results) => {
                left.take(results.iter().map(Tensor::byte_len).sum(), gone);
                replace(graph, id, results);
                cx.rewrote();
            }
            Err(reason) => cx.skip(&at, reason),
        }
    }
}

/// The node's inputs, if all are constants and the node may be computed at all.
fn operands(graph: &Graph, node: &Node) -> Option<Vec<Option<Tensor>>> {
    let constant = |v: &Option<_>| match v {
        None => Some(None),
        Some(v) => graph.constant(*v).cloned().map(Some),
    };
    if foldable(node) { node.inputs.iter().map(constant).collect() } else { None }
}

fn foldable(node: &Node) -> bool {
    eval::is_deterministic(node)
        && !KEPT.contains(&node.op.as_str())
        && node.subgraphs().next().is_none()
        && node.output(0).is_some()
        && !node.attrs.iter().any(|(_, a)| matches!(a, Attr::Ref { .. }))
}

/// Nodes that can be folded if all operands are there that can be folded.
fn folding(graph: &Graph, order: &[NodeId]) -> HashSet<NodeId> {
    let mut nodes = HashSet::new();
    for id in order {
        let node = &graph[*id];
        let becomes_constant = |v: ValueId| {
            graph.constant(v).is_some() || graph.producer(v).is_some_and(|id| nodes.contains(&id))
        };
        let is_output = node.outputs.iter().flatten().any(|v| graph.is_output(*v));
        if foldable(node)
            && !is_output
            && node.inputs.iter().flatten().all(|v| becomes_constant(*v))
        {
            nodes.insert(*id);
        }
    }
    nodes
}

/// Bytes of operands that go with a node.
fn gone(node: &Node, operands: &[Option<Tensor>], goes: &mut dyn FnMut(ValueId) -> bool) -> usize {
    // One that is read twice is there once: `Concat(w, w)` grows.
    let distinct = (0..operands.len()).filter(|i| !node.inputs[..*i].contains(&node.inputs[*i]));
    let gone = distinct.filter(|i| node.input(*i).is_some_and(&mut *goes));
    // What a Constant gives is in its attribute.
    let own = node.attrs.iter().filter_map(|(_, attr)| match attr {
        Attr::Tensor(value) => Some(value),
        _ => None,
    });
    let gone = gone.filter_map(|i| operands[i].as_ref());
    gone.chain(own).map(Tensor::byte_len).sum()
}

fn compute(
    graph: &Graph,
    id: NodeId,
    version: i64,
    operands: &[Option<Tensor>],
    bytes_max: usize,
) -> Result<Vec<Tensor>, Skip> {
    let node = &graph[id];
    if node.outputs.iter().flatten().any(|v| graph.is_output(*v)) {
        return Skip::because("it computes a graph output");
    }
    eval::derive_node(node, version, operands, bytes_max)
        .map_err(|d| Skip(d.into_finding().message))
}

fn replace(graph: &mut Graph, id: NodeId, results: Vec<Tensor>) {
    let node = graph.remove_node(id);
    for (output, result) in node.outputs.into_iter().zip(results) {
        if let Some(v) = output {
            graph.set_initializer(v, Some(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_pass_same, check_pass_skip};

    #[test]
    fn a_chain_of_constants() {
        let model = check_pass_same(
            &FoldConstants::default(),
            "g (float[6] x) => (float[2,3] y)
             <int64[2] a = {1, 1}>
             {
               one = Constant<value = int64[2] {1, 2}>()
               shape = Add(a, one)
               y = Reshape(x, shape)
             }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn a_result_that_is_much_larger_is_left_alone() {
        check_pass_skip(
            &FoldConstants::default(),
            "",
            "g (float[1] x) => (float[1000,1000] y)
             <int64[2] shape = {1000, 1000}>
             {
               zeros = ConstantOfShape(shape)
               y = Add(x, zeros)
             }",
        );
    }

    /// How many nodes are left of `nodes`, where `w` is a matrix of 128 KiB.
    fn left(nodes: &str) -> usize {
        let graph = format!(
            "g (float[N,128] x, float[256,128] w) => (float[N,256] y)
             <int64[1] zero = {{0}}, int64[1] mid = {{128}}, int64[1] end = {{256}}>
             {{ {nodes} }}"
        );
        let graph = onnxd_plugin_sdk::ir::text::parse_graph(&graph).unwrap();
        let mut model = Model::new(graph, 8, 17);
        let w = model.graph.value_named("w").unwrap();
        model.graph.unmark_input(w);
        model
            .graph
            .set_initializer(w, Some(Tensor::from_vec(vec![256, 128], vec![1f32; 256 * 128])));
        onnxd_plugin_sdk::ir::infer(&mut model);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        model.graph.node_count()
    }

    #[test]
    fn weights_that_something_else_reads_are_not_there_twice() {
        assert_eq!(left("t = Transpose(w) y = MatMul(x, t)"), 1);
        assert_eq!(left("t = Transpose(w) z = MatMul(x, t) v = MatMul(z, w) y = MatMul(v, t)"), 4);
        assert_eq!(
            left("t = Transpose(w) n = Neg(w) z = Transpose(n) s = Add(t, z) y = MatMul(x, s)"),
            1
        );
    }

    #[test]
    fn nodes_that_share_out_weights_take_them() {
        // The square is read before the root is known by which the same difference is divided.
        let deviation = "m = ReduceMean<axes = [0]>(w) d = Sub(w, m) s = Mul(d, d) v = ReduceMean<axes = [0]>(s)";
        let scaled = "r = Sqrt(v) n = Div(d, r) t = Transpose(n) y = MatMul(x, t)";
        assert_eq!(left(&format!("{deviation} {scaled}")), 1);
        let parts = "a = Slice(w, zero, mid, zero) b = Slice(w, mid, end, zero)";
        let read = "s = Transpose(a) t = Transpose(b) p = MatMul(x, s) q = MatMul(x, t)";
        assert_eq!(left(&format!("{parts} {read} y = Concat<axis = 1>(p, q)")), 3);
    }

    #[test]
    fn a_large_constant_is_no_growth() {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        let g = &mut model.graph;
        let [c, y] = ["c", "y"].map(|name| g.add_value(name, None));
        let value = Tensor::from_vec(vec![4 * GROWTH_BYTES_MAX], vec![1i8; 4 * GROWTH_BYTES_MAX]);
        g.add_node(Node::new("Constant", [], [c]).with("value", Attr::Tensor(value)));
        let x = g.add_input("x", None);
        g.add_node(Node::new("Add", [x, c], [y]));
        g.mark_output(y);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        assert_eq!((cx.report.rewrites, model.graph.node_count()), (1, 1));
    }

    /// How many bytes a chain of 40 nodes that each double their input leaves, beginning with 1 KiB.
    fn doubled(negate: bool) -> usize {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        let g = &mut model.graph;
        let mut v = g.add_initializer("v", Tensor::from_vec(vec![1 << 10], vec![1i8; 1 << 10]));
        for _ in 0..40 {
            let mut other = v;
            if negate {
                other = g.add_value("n", None);
                g.add_node(Node::new("Neg", [v], [other]));
            }
            let doubled = g.add_value("v", None);
            g.add_node(Node::new("Concat", [v, other], [doubled]).with("axis", Attr::Int(0)));
            v = doubled;
        }
        g.mark_output(v);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        assert!(cx.report.rewrites >= 4, "{}", cx.report.rewrites);
        initializer_bytes(&model)
    }

    #[test]
    fn a_chain_that_doubles_ends() {
        let bytes = doubled(false);
        assert!(bytes <= 4 * GROWTH_BYTES_MAX, "{bytes} bytes of `Concat(v, v)`");
        let bytes = doubled(true);
        assert!(bytes <= FOLDED_BYTES_MAX + (8 << 10), "{bytes} bytes of `Concat(v, -v)`");
    }

    /// The nodes that are left of a Transpose and a product of half-precision weights of `n` columns.
    fn halves(n: usize, widens: bool) -> (usize, usize) {
        let graph = format!(
            "g (float[N,16] x, float16[{n},16] w) => (float[N,{n}] y)
             {{ c = Cast<to = 1>(w) t = Transpose(c) y = MatMul(x, t) }}"
        );
        let graph = onnxd_plugin_sdk::ir::text::parse_graph(&graph).unwrap();
        let mut model = Model::new(graph, 8, 17);
        let w = model.graph.value_named("w").unwrap();
        model.graph.unmark_input(w);
        let numbers = Tensor::from_vec(vec![n, 16], vec![1i64; n * 16]);
        let numbers = numbers.cast(onnxd_plugin_sdk::ir::DataType::Float16).unwrap();
        model.graph.set_initializer(w, Some(numbers.held()));
        onnxd_plugin_sdk::ir::infer(&mut model);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        for _ in 0..2 {
            FoldConstants { widens }.run(&mut model, &mut cx).unwrap();
        }
        let stored = model.graph.value_ids().filter(|v| model.graph.uses(*v) > 0);
        let bytes = stored.filter_map(|v| model.graph.constant(v)).map(Tensor::byte_len).sum();
        (model.graph.node_count(), bytes)
    }

    #[test]
    fn weights_keep_the_type_that_they_are_stored_in() {
        assert_eq!(halves(64, false), (2, 64 * 16 * 2), "one Cast, and no Transpose");
        assert_eq!(halves(8, false), (1, 8 * 16 * 4), "what is small is cast");
        assert_eq!(halves(64, true), (1, 64 * 16 * 4), "quantizers look for floats");
    }

    /// How many nodes are left where `n` nodes each make a constant of 4 KiB, beside a matrix of `rows` KiB.
    fn made(n: usize, rows: usize) -> usize {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        let g = &mut model.graph;
        let w = Tensor::from_vec(vec![rows, 1 << 10], vec![1i8; rows << 10]);
        let (w, size) = (g.add_initializer("w", w), Tensor::vector(vec![1i64 << 10]));
        g.mark_output(w);
        for _ in 0..n {
            let (size, x) = (g.add_initializer("n", size.clone()), g.add_value("x", None));
            g.add_node(Node::new("ConstantOfShape", [size], [x]));
            let y = g.add("y", onnxd_plugin_sdk::ir::ops::Neg::new(x));
            let z = g.add_input("z", None);
            let sum = g.add_value("sum", None);
            g.add_node(Node::new("Add", [y, z], [sum]));
            g.mark_output(sum);
        }
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        model.graph.node_count() - n
    }

    #[test]
    fn all_results_grow_by_a_part_of_the_model() {
        assert_eq!(made(3, 1), 0, "a few KiB are free");
        assert!(made(40, 1) > 40, "160 KiB beside 1 KiB");
        assert_eq!(made(40, 16 * 160), 0, "160 KiB beside 2.5 MiB");
    }

    #[test]
    fn an_attribute_that_the_caller_of_a_function_gives_is_not_known() {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        let mut body = Graph::new("F");
        let c = body.add_initializer("c", Tensor::vector(vec![-1.0f32]));
        let y = body.add_value("y", None);
        let alpha = Attr::Ref { name: "slope".into(), kind: 1 };
        body.add_node(Node::new("LeakyRelu", [c], [y]).with("alpha", alpha));
        let z = body.add("z", onnxd_plugin_sdk::ir::ops::Relu::new(y));
        body.mark_output(z);
        let opsets = model.opsets.clone();
        let function = onnxd_plugin_sdk::ir::Function { graph: body, opsets, ..Default::default() };
        model.functions.push(function);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        assert_eq!((cx.report.rewrites, model.functions[0].graph.node_count()), (0, 2));
    }

    #[test]
    fn a_constant_of_a_function_stays_a_node() {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        let mut body = Graph::new("F");
        let y = body.add_value("y", None);
        let value = Attr::Tensor(Tensor::vector(vec![-1.0f32]));
        body.add_node(Node::new("Constant", [], [y]).with("value", value));
        let z = body.add("z", onnxd_plugin_sdk::ir::ops::Relu::new(y));
        let out = body.add("out", onnxd_plugin_sdk::ir::ops::Relu::new(z));
        body.mark_output(out);
        let opsets = model.opsets.clone();
        let function = onnxd_plugin_sdk::ir::Function { graph: body, opsets, ..Default::default() };
        model.functions.push(function);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        let body = &model.functions[0].graph;
        assert_eq!((cx.report.rewrites, body.node_count()), (1, 2));
        assert!(body.constant(body.value_named("z").unwrap()).is_some());
    }

    /// The first version of LabelEncoder numbers classes, later ones have keys and values.
    #[test]
    fn operators_of_other_domains_have_versions_of_their_own() {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        model.opsets.insert("ai.onnx.ml".into(), 1);
        let words = |list: &[&'static str]| list.iter().map(|s| (*s).into()).collect::<Vec<_>>();
        let g = &mut model.graph;
        let x = Tensor::strings(vec![2], words(&["b", "a"])).unwrap();
        let (x, y) = (g.add_initializer("x", x), g.add_value("y", None));
        let node = Node { domain: "ai.onnx.ml".into(), ..Node::new("LabelEncoder", [x], [y]) };
        g.add_node(node.with("classes_strings", Attr::Strs(words(&["a", "b"]))));
        let z = g.add("z", onnxd_plugin_sdk::ir::ops::Neg::new(y));
        g.mark_output(z);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants::default().run(&mut model, &mut cx).unwrap();
        assert_eq!(model.graph.constant(y).unwrap().to_i64s().unwrap(), [1, 0]);
    }

    #[test]
    fn inside_a_branch() {
        check_pass_same(
            &FoldConstants::default(),
            "g (bool b, float[2] x) => (float[2] y)
             {
               y = If (b) <
                 then_branch = t () => (float[2] p) <float[2] w = {1.0, 2.0}> { s = Add(w, w) p = Mul(x, s) },
                 else_branch = e () => (float[2] q) { q = Neg(x) }
               >
             }",
        );
    }
}
