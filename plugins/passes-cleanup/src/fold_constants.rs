//! Computes what depends on constants only, so that runtimes need not and other passes see the values.
//!
//! A result may be larger than what it is computed from by [`GROWTH_BYTES_MAX`] at most: a model that describes its
//! weights by `ConstantOfShape` or `Expand` stays small. What is only moved or cast is derived from its operands and
//! computed when the model is written. `DequantizeLinear` and its kin stay: they
//! say how a weight is stored.

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::eval;
use onnxd_plugin_sdk::ir::{Attr, Graph, Model, Node, NodeId, Opsets, Tensor};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Skip};

/// How much larger a folded result may be than its operands.
const GROWTH_BYTES_MAX: usize = 64 << 10;

/// Bytes that all results of one run may take, beside [`FOLDED_FACTOR`] times the initializers: a
/// chain in which each node doubles its input would otherwise fill the memory.
const FOLDED_BYTES_MAX: usize = 16 << 20;
/// How often, on average, an initializer may be computed anew.
const FOLDED_FACTOR: usize = 4;

/// Operators whose presence is the point.
const KEPT: [&str; 4] =
    ["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "OptionalHasElement"];

pub(crate) struct FoldConstants;

impl Pass for FoldConstants {
    fn name(&self) -> &'static str {
        "fold-constants"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let mut left = initializer_bytes(model) * FOLDED_FACTOR + FOLDED_BYTES_MAX;
        let opset = model.opset();
        let opsets = &model.opsets;
        model.graph.with_subgraphs_mut(opset, &mut |graph, _| {
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
    left: &mut usize,
    cx: &mut PassContext,
) {
    for id in graph.topological().unwrap_or_default() {
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
        match compute(graph, id, version, &operands, *left) {
            Ok(results) => {
                *left -= results.iter().map(Tensor::byte_len).sum::<usize>().min(*left);
                replace(graph, id, results);
                cx.rewrote();
            }
            Err(reason) => cx.skip(&at, reason),
        }
    }
}

/// The node's inputs, if all are constants and the node may be computed at all.
fn operands(graph: &Graph, node: &Node) -> Option<Vec<Option<Tensor>>> {
    let foldable = eval::is_deterministic(node)
        && !KEPT.contains(&node.op.as_str())
        && node.subgraphs().next().is_none()
        && node.output(0).is_some()
        && !node.attrs.iter().any(|(_, a)| matches!(a, Attr::Ref { .. }));
    let constant = |v: &Option<_>| match v {
        None => Some(None),
        Some(v) => graph.constant(*v).cloned().map(Some),
    };
    if foldable { node.inputs.iter().map(constant).collect() } else { None }
}

fn compute(
    graph: &Graph,
    id: NodeId,
    version: i64,
    operands: &[Option<Tensor>],
    left: usize,
) -> Result<Vec<Tensor>, Skip> {
    let node = &graph[id];
    if node.outputs.iter().flatten().any(|v| graph.is_output(*v)) {
        return Skip::because("it computes a graph output");
    }
    // One that is read twice is there once: `Concat(w, w)` grows.
    let distinct = (0..operands.len()).filter(|i| !node.inputs[..*i].contains(&node.inputs[*i]));
    // What a Constant gives is in its attribute.
    let own = node.attrs.iter().filter_map(|(_, attr)| match attr {
        Attr::Tensor(value) => Some(value),
        _ => None,
    });
    let operand_bytes: usize =
        distinct.filter_map(|i| operands[i].as_ref()).chain(own).map(Tensor::byte_len).sum();
    let bytes_max = (operand_bytes + GROWTH_BYTES_MAX).min(left);
    eval::derive_node(node, version, operands, bytes_max).map_err(|d| Skip(d.message))
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
            &FoldConstants,
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
            &FoldConstants,
            "",
            "g (float[1] x) => (float[1000,1000] y)
             <int64[2] shape = {1000, 1000}>
             {
               zeros = ConstantOfShape(shape)
               y = Add(x, zeros)
             }",
        );
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
        FoldConstants.run(&mut model, &mut cx).unwrap();
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
        FoldConstants.run(&mut model, &mut cx).unwrap();
        assert!(cx.report.rewrites > 4, "{}", cx.report.rewrites);
        initializer_bytes(&model)
    }

    #[test]
    fn a_chain_that_doubles_ends() {
        let bytes = doubled(false);
        assert!(bytes <= 4 * GROWTH_BYTES_MAX, "{bytes} bytes of `Concat(v, v)`");
        let bytes = doubled(true);
        assert!(bytes <= FOLDED_BYTES_MAX + (8 << 10), "{bytes} bytes of `Concat(v, -v)`");
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
        FoldConstants.run(&mut model, &mut cx).unwrap();
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
        FoldConstants.run(&mut model, &mut cx).unwrap();
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
        FoldConstants.run(&mut model, &mut cx).unwrap();
        assert_eq!(model.graph.constant(y).unwrap().to_i64s().unwrap(), [1, 0]);
    }

    #[test]
    fn inside_a_branch() {
        check_pass_same(
            &FoldConstants,
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
