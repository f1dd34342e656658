//! Puts the iterations of a `Loop` with a small constant trip count in its place. Graphs grow, so it runs on demand
//! only.
//!
//! ```onnx
//! before (float[2] x) => (float[2] y, float[2,2] z)
//! <int64 n = {2}, bool go = {1}>
//! {
//!   y, z = Loop (n, go, x) <
//!     body = b (int64 i, bool k, float[2] p) => (bool k2, float[2] q, float[2] s) {
//!       k2 = Identity(k)
//!       q = Neg(p)
//!       s = Add(p, x)
//!     }
//!   >
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2] x) => (float[2] y, float[2,2] z)
//! <int64[1] z_axis = {0}>
//! {
//!   q = Neg(x)
//!   s = Add(x, x)
//!   y = Neg(q)
//!   s_1 = Add(q, x)
//!   z_slice = Unsqueeze(s, z_axis)
//!   z_slice_1 = Unsqueeze(s_1, z_axis)
//!   z = Concat<axis = 0>(z_slice, z_slice_1)
//! }
//! ```

use crate::inline_functions::deliver;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::ops::{Concat, Unsqueeze};
use onnxd_plugin_sdk::ir::text::inline;
use onnxd_plugin_sdk::ir::{
    Attr, DataType, Graph, Model, Node, NodeId, Op, Origin, Tensor, ValueId,
};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Skip};

/// Iterations that are put in place.
const TRIPS_MAX: i64 = 64;
/// Nodes that one loop may become.
const NODES_MAX: usize = 4096;
/// The first version in which `Unsqueeze` takes its axes as an input.
const AXES_INPUT: i64 = 13;
/// Trip count and condition come before what is carried.
const CARRIED: usize = 2;

pub(crate) struct UnrollLoops;

impl Pass for UnrollLoops {
    fn name(&self) -> &'static str {
        "unroll-loops"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, opset| {
            let mut pending = graph.node_ids();
            while let Some(id) = pending.pop() {
                let Some(node) = graph.node(id).filter(|node| node.is("Loop")) else { continue };
                let at = node.outputs.iter().flatten().next().map(|v| graph[*v].name.clone());
                if cx.fuel.is_empty() {
                    return;
                }
                let bound = graph.node_bound();
                match unrolled(graph, id, opset) {
                    // Loops inside may read constants from here.
                    Ok(()) => {
                        cx.rewrote();
                        pending.extend(graph.nodes_from(bound));
                    }
                    Err(why) => cx.skip(&at.unwrap_or_default(), why),
                }
            }
        });
        Ok(())
    }
}

fn unrolled(graph: &mut Graph, id: NodeId, opset: i64) -> Rewrite {
    let node = &graph[id];
    let Some(Attr::Graph(body)) = node.attr("body") else {
        return Skip::because("it has no body");
    };
    let trips = trips(graph, node, body)?;
    let carried: Option<Vec<ValueId>> = node.inputs.iter().skip(CARRIED).copied().collect();
    let Some(mut carried) = carried else { return Skip::because("an input is missing") };
    let (count, layers) = (carried.len(), node.layers.clone());
    if body.inputs().len() != CARRIED + count || body.outputs().len() != 1 + node.outputs.len() {
        return Skip::because("its inputs and outputs are not those of the body");
    }
    let mut body: Graph = Graph::clone(body);
    let own: Vec<String> = body.inputs().iter().map(|v| body[*v].name.clone()).collect();
    let captures = body.close();
    let condition = body.outputs()[0];
    body.set_outputs(body.outputs()[1..].to_vec());
    body.drop_unread([condition]);
    let bound = graph.node_bound();
    let go = graph.add_initializer("go", flag());
    let mut slices = vec![vec![]; graph[id].outputs.len() - count];
    for trip in 0..trips {
        let trip = graph.add_initializer("iteration", Tensor::scalar(trip));
        let given = [trip, go].into_iter().chain(carried.iter().copied());
        let outer = captures.iter().map(|(name, v)| (name.as_str(), *v));
        let bindings: Vec<_> = own.iter().map(String::as_str).zip(given).chain(outer).collect();
        let made =
            inline(graph, "", &body, &bindings).map_err(|d| Skip(d.into_finding().message))?;
        carried = made[..count].to_vec();
        slices.iter_mut().zip(&made[count..]).for_each(|(all, slice)| all.push(*slice));
    }
    let outputs: Vec<Option<ValueId>> = graph[id].outputs.iter().skip(count).copied().collect();
    for (output, slices) in outputs.into_iter().zip(slices) {
        let name = output.map_or("scanned".to_owned(), |v| graph[v].name.clone());
        carried.push(stacked(graph, &name, &slices, opset));
    }
    deliver(graph, id, bound, &carried);
    for id in graph.nodes_from(bound) {
        graph.node_mut(id).layers.add(&layers);
    }
    Ok(())
}

/// How often the loop runs, if that is a small number in every run of the model.
fn trips(graph: &Graph, node: &Node, body: &Graph) -> Result<i64, Skip> {
    let number =
        |i: usize| node.input(i).and_then(|v| graph.constant(v)?.to_i64s()?.first().copied());
    let Some(trips) = number(0) else { return Skip::because("its trip count is not constant") };
    let goes_on = node.input(1).is_none() || number(1) == Some(1);
    if !goes_on || !stays(graph, body) {
        return Skip::because("it may end before its trip count");
    }
    if trips < 1 {
        return Skip::because("it has no iteration");
    }
    let size = usize::try_from(trips).unwrap_or(usize::MAX).saturating_mul(body.node_count());
    if trips > TRIPS_MAX || size > NODES_MAX {
        return Skip::because(format!("it has {trips} iterations of {} nodes", body.node_count()));
    }
    Ok(trips)
}

/// Whether the condition is true after an iteration before which it was.
fn stays(graph: &Graph, body: &Graph) -> bool {
    let [Some(mut v), Some(before)] =
        [body.outputs().first(), body.inputs().get(1)].map(Option::<&_>::copied)
    else {
        return false;
    };
    while let Some(node) = body.producer(v).map(|node| &body[node])
        && node.is("Identity")
        && let Some(from) = node.input(0)
    {
        v = from;
    }
    let known = match body[v].origin() {
        Origin::Captured(outer) => graph.constant(outer),
        _ => body.constant(v),
    };
    v == before || known.and_then(Tensor::to_i64s).is_some_and(|x| x == [1])
}

fn flag() -> Tensor {
    Tensor::from_vec_as(DataType::Bool, vec![], vec![1u8])
}

/// What the iterations gave, along a new first axis.
fn stacked(graph: &mut Graph, name: &str, slices: &[ValueId], opset: i64) -> ValueId {
    let axis = || Tensor::vector(vec![0i64]);
    let axes =
        (opset >= AXES_INPUT).then(|| graph.add_initializer(&format!("{name}_axis"), axis()));
    let mut inputs = Vec::with_capacity(slices.len());
    for slice in slices {
        let out = graph.add_value(&format!("{name}_slice"), None);
        graph.add_node(match axes {
            Some(axes) => Unsqueeze::new(*slice, axes).into_node(out),
            None => Node::new("Unsqueeze", [*slice], [out]).with("axes", Attr::Ints(vec![0])),
        });
        inputs.push(out);
    }
    match inputs[..] {
        [only] => only,
        _ => graph.add(name, Concat { inputs, axis: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("unroll_loops.rs"), &UnrollLoops);
    }

    /// An inner loop, the number of the iteration, and a value that is carried unchanged.
    #[test]
    fn nested_loops_before_opset_13() {
        let model = check_pass_same(
            &UnrollLoops,
            "<ir_version: 7, opset_import: [\"\": 12]>
             g (float[2] x) => (float[2] y, float[2] w, float[1,3] z)
             <int64 one = {1}, int64 n = {3}>
             {
               y, w, z = Loop (one, , x, x) <
                 body = b (int64 i, bool k, float[2] p, float[2] r)
                   => (bool t, float[2] q, float[2] r, float[3] s) <bool t = {1}> {
                   q, s = Loop (n, t, p) <
                     body = c (int64 j, bool l, float[2] u) => (bool l2, float[2] v, float o) {
                       l2 = Identity(l)
                       m = Add(i, j)
                       o = Cast<to = 1>(m)
                       a = Add(u, o)
                       v = Mul(a, x)
                     }
                   >
                 }
               >
             }",
        );
        let left = model.graph.nodes().filter(|(_, node)| node.is("Loop")).count();
        assert_eq!((left, model.graph.node_count()), (0, 3 * 5 + 3));
    }

    fn skip(reason: &str, inputs: &str, condition: &str) {
        let text = format!(
            "g (float[2] x, int64 m, bool b) => (float[2] y)
             <int64 n = {{3}}, int64 many = {{65}}, int64 none = {{0}}, bool go = {{1}}, float one = {{1.0}}>
             {{
               y = Loop ({inputs}, x) <
                 body = b (int64 i, bool k, float[2] p) => (bool k2, float[2] q) {{
                   k2 = {condition}
                   q = Neg(p)
                 }}
               >
             }}"
        );
        check_pass_skip(&UnrollLoops, reason, &text);
    }

    #[test]
    fn loops_that_stay() {
        skip("its trip count is not constant", "m, go", "Identity(k)");
        skip("it may end before its trip count", "n, b", "Identity(k)");
        skip("it may end before its trip count", "n, go", "Not(k)");
        skip("it has 65 iterations of 2 nodes", "many, go", "Identity(k)");
        skip("it has no iteration", "none, go", "Identity(k)");
    }
}
