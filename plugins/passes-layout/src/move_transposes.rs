//! Moves Transposes through operators that work on any order of axes, where that leaves fewer of them.
//!
//! Each such operator either keeps the layout that it has, or works on the other side of a Transpose. A Transpose is
//! needed between operators that differ, so the fewest are a minimum cut.
//!
//! ```onnx
//! before (float[1,4,4,8] x) => (float[1,4,4,8] y)
//! <float[8,1,1] c = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}>
//! {
//!   a = Transpose<perm = [0, 3, 1, 2]>(x)
//!   b = Add(a, c)
//!   d = Relu(b)
//!   y = Transpose<perm = [0, 2, 3, 1]>(d)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,4,4,8] x) => (float[1,4,4,8] y)
//! <float[1,1,1,8] c_relaid = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}>
//! {
//!   b_relaid = Add(x, c_relaid)
//!   y = Relu(b_relaid)
//! }
//! ```

use crate::order::{AxisOrder, inverse, perm};
use crate::region::Region;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{Graph, Model};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext};
use std::collections::BTreeMap;

/// Orders of axes that are tried in one graph, those of most Transposes first.
const ORDERS_MAX: usize = 6;

pub(crate) struct MoveTransposes;

impl Pass for MoveTransposes {
    fn name(&self) -> &'static str {
        "move-transposes"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, opset| {
            for order in orders(graph) {
                let swaps = order == inverse(&order);
                for in_turn in [true, false].into_iter().take(1 + usize::from(swaps)) {
                    if cx.fuel.is_empty() {
                        return;
                    }
                    let region = Region::find(graph, opset, order.clone(), in_turn);
                    if let Some(moved) = region.cheaper(graph, cx) {
                        moved.apply(graph);
                        cx.rewrote();
                    }
                }
            }
        });
        Ok(())
    }
}

/// The orders of axes that Transposes undo or make.
fn orders(graph: &Graph) -> Vec<AxisOrder> {
    let mut counts: BTreeMap<AxisOrder, usize> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        if let Some(perm) = perm(graph, node).filter(|perm| !perm.is_sorted()) {
            *counts.entry(inverse(&perm)).or_default() += 1;
            *counts.entry(perm).or_default() += 1;
        }
    }
    let mut orders: Vec<(usize, AxisOrder)> =
        counts.into_iter().map(|(order, n)| (n, order)).collect();
    orders.sort_by(|a, b| b.cmp(a));
    orders.into_iter().map(|(_, order)| order).take(ORDERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("move_transposes.rs"), &MoveTransposes);
    }

    /// How many Transposes are left.
    fn left(graph: &str) -> usize {
        let model = check_pass_same(&MoveTransposes, graph);
        model.graph.nodes().filter(|(_, n)| n.is("Transpose")).count()
    }

    const CONSTANTS: &str =
        "<float[1,4,1,1] c = {1.0, 2.0, 3.0, 4.0}, float[3] w = {1.0, 2.0, 3.0},
        int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[2] sizes = {1, 3},
        int64[8] pads = {0, 1, 2, 0, 0, 0, 0, 3}, float[4] v = {1.0, 2.0, 3.0, 4.0},
        float[1,4,2,3] whole = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0,
          13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0}>";

    /// Between a Transpose to channels first and one back.
    fn within(shape: &str, nodes: &str) -> usize {
        left(&format!(
            "g (float[1,2,3,4] x) => (float[{shape}] y) {CONSTANTS}
             {{ a = Transpose<perm = [0, 3, 1, 2]>(x) {nodes} y = Transpose<perm = [0, 2, 3, 1]>(r) }}"
        ))
    }

    #[test]
    fn operators_that_work_on_any_order() {
        assert_eq!(within("1,2,3,4", "b = Mul(a, c) d = Add(w, b) r = Sigmoid(d)"), 0);
        assert_eq!(within("1,1,3,4", "r = ReduceMean<axes = [2]>(a)"), 0);
        assert_eq!(within("1,2,3,1", "r = ReduceSum(a, one)"), 0);
        assert_eq!(within("1,2,3,8", "r = Concat<axis = -3>(a, whole)"), 0);
        assert_eq!(
            within("1,2,2,3", "b, d = Split<axis = 1>(a, sizes) r = Slice(d, one, three, three)"),
            0
        );
        assert_eq!(within("1,4,6,5", "r = Pad(a, pads)"), 0);
        assert_eq!(within("1,2,1,4", "r = Slice(a, one, two, three)"), 0);
        assert_eq!(within("1,2,3,4", "b = Greater(a, c) r = Where(b, a, c)"), 0);
        assert_eq!(within("1,2,3,4", "s = ReduceMax<keepdims = 1>(a) r = Sub(a, s)"), 0);
    }

    #[test]
    fn integers_are_transposed_rather_than_reals() {
        let graph = "g (uint8[1,2,3,4] x) => (uint8[1,2,3,4] y) <float s = {0.5}, uint8 z = {3}>
             { a = DequantizeLinear(x, s, z) b = Transpose<perm = [0, 3, 1, 2]>(a) c = Softmax<axis = 1>(b)
               d = Transpose<perm = [0, 2, 3, 1]>(c) y = QuantizeLinear(d, s, z) }";
        let model = check_pass_same(&MoveTransposes, graph);
        let graph = &model.graph;
        let transposes = graph.nodes().filter(|(_, node)| node.is("Transpose"));
        let inputs = transposes.filter_map(|(_, node)| node.input(0));
        let makers = inputs.map(|v| graph.producer(v).map(|id| graph[id].op.as_str()));
        assert_eq!(makers.collect::<Vec<_>>(), [None, Some("QuantizeLinear")]);
    }

    #[test]
    fn operators_that_are_bound_to_an_axis() {
        let stays = |nodes: &str| {
            let graph = format!(
                "g (float[1,2,3,4] x) => (float[1,2,3,4] y) {CONSTANTS}
                 {{ a = Transpose<perm = [0, 3, 1, 2]>(x) {nodes} y = Transpose<perm = [0, 2, 3, 1]>(r) }}"
            );
            check_pass_skip(&MoveTransposes, "", &graph);
        };
        stays("r = Softmax<axis = 1>(a)");
        stays("r = Softmax(a)");
        stays("r = BatchNormalization(a, v, v, v, v)");
        stays("r = LpNormalization(a)");
    }

    /// Many nodes may read one vector of channels.
    #[test]
    fn channels_that_nodes_share() {
        let channels = vec!["0.5"; 256].join(", ");
        let graph = format!(
            "g (float[1,2,3,256] x) => (float[1,2,3,256] y, float[1,2,3,256] z)
             <float[256,1,1] c = {{{channels}}}>
             {{
               a = Transpose<perm = [0, 3, 1, 2]>(x)
               b = Add(a, c)
               d = Mul(b, c)
               y = Transpose<perm = [0, 2, 3, 1]>(b)
               z = Transpose<perm = [0, 2, 3, 1]>(d)
             }}"
        );
        assert_eq!(left(&graph), 0);
    }

    /// One scale fits any order of axes; scales along an axis stay.
    #[test]
    fn through_quantization() {
        let graph = "g (float[1,2,3,4] x) => (float[1,2,3,4] y)
            <float s = {0.5}, int8 z = {3}>
            {
              a = Transpose<perm = [0, 3, 1, 2]>(x)
              b = QuantizeLinear(a, s, z)
              d = DequantizeLinear(b, s, z)
              y = Transpose<perm = [0, 2, 3, 1]>(d)
            }";
        assert_eq!(left(graph), 0);
        let graph = "g (float[1,2,3,4] x) => (int8[1,2,3,4] y)
            <float[4] s = {0.5, 1.0, 2.0, 4.0}, int8[4] z = {0, 0, 0, 0}>
            {
              a = Transpose<perm = [0, 3, 1, 2]>(x)
              b = QuantizeLinear<axis = 1>(a, s, z)
              y = Transpose<perm = [0, 2, 3, 1]>(b)
            }";
        check_pass_skip(&MoveTransposes, "", graph);
    }

    /// Quantizers leave slopes and addends as integers, which have no more layout than floats.
    #[test]
    fn constants_that_are_dequantized() {
        let graph = |scale: &str| {
            format!(
                "g (float[1,2,3,4] x) => (float[1,2,3,4] y, float[4] w)
                 <int8[4,1,1] c = {{1, 2, 3, 4}}, int8[4] v = {{5, 6, 7, 8}}, float s = {{0.5}}, int8 z = {{3}},
                  float[4] t = {{0.5, 1.0, 2.0, 4.0}}, int8[4] n = {{0, 0, 0, 0}}>
                 {{
                   a = Transpose<perm = [0, 3, 1, 2]>(x)
                   d = DequantizeLinear<axis = 0>(c, {scale})
                   p = PRelu(a, d)
                   y = Transpose<perm = [0, 2, 3, 1]>(p)
                   w = DequantizeLinear(v, s, z)
                 }}"
            )
        };
        let model = check_pass_same(&MoveTransposes, &graph("s, z"));
        let ops: Vec<_> = model.graph.nodes().map(|(_, node)| node.op.clone()).collect();
        assert_eq!(ops.len(), 3, "{ops:?}");
        check_pass_skip(&MoveTransposes, "", &graph("t, n"));
    }

    #[test]
    fn softmax_along_an_axis_that_stays_last() {
        let graph = "g (float[2,3,4] x) => (float[2,3,4] y)
            { a = Transpose<perm = [1, 0, 2]>(x) b = Softmax(a) y = Transpose<perm = [1, 0, 2]>(b) }";
        assert_eq!(left(graph), 0);
    }

    #[test]
    fn a_mean_over_the_picture_has_no_layout() {
        let graph = "g (float[1,2,3,4] x) => (float[1,4] y)
            { a = Transpose<perm = [0, 3, 1, 2]>(x) b = Relu(a) y = ReduceMean<axes = [2, 3], keepdims = 0>(b) }";
        assert_eq!(left(graph), 0);
    }

    /// Two Transposes go and one comes: the sum is read as it was, too.
    #[test]
    fn the_fewest_where_layouts_meet() {
        let graph = "g (float[1,2,3,4] x, float[1,2,3,4] z) => (float[1,4,2,3] y)
            {
              a = Transpose<perm = [0, 3, 1, 2]>(x)
              b = Transpose<perm = [0, 3, 1, 2]>(z)
              y = Add(a, b)
            }";
        assert_eq!(left(graph), 1);
        let graph = "g (float[1,2,3,4] x, float[1,4,2,3] z) => (float[1,4,2,3] y)
            { a = Transpose<perm = [0, 3, 1, 2]>(x) y = Add(a, z) }";
        check_pass_skip(&MoveTransposes, "", graph);
    }

    /// As in a network whose blocks work with channels last, and convolutions between them.
    #[test]
    fn through_a_residual() {
        let graph = "g (float[1,4,2,3] x) => (float[1,4,2,3] y, float[1,2,3,4] z)
            {
              a = Relu(x)
              b = Transpose<perm = [0, 2, 3, 1]>(a)
              d = LpNormalization(b)
              e = Transpose<perm = [0, 3, 1, 2]>(d)
              f = Add(a, e)
              h = Transpose<perm = [0, 2, 3, 1]>(f)
              i = LpNormalization(h)
              j = Transpose<perm = [0, 3, 1, 2]>(i)
              k = Add(f, j)
              z = Transpose<perm = [0, 2, 3, 1]>(k)
              y = LpNormalization<axis = 1>(x)
            }";
        assert_eq!(left(graph), 1);
    }

    #[test]
    fn matrices_whose_transpose_is_its_own_inverse() {
        let graph = "g (float[3,4] x) => (float[3,4] y, float[4,3] z)
            {
              a = Relu(x)
              b = Transpose(a)
              d = Neg(b)
              e = Transpose(d)
              y = Exp(e)
              z = Transpose(e)
            }";
        assert_eq!(left(graph), 1);
    }

    /// Queries and values of an attention go through the same Transpose, keys through another.
    #[test]
    fn before_a_split() {
        let graph = "g (float[2,3,4,6] x) => (float[2,4,3,2] q, float[2,4,2,3] k, float[2,4,3,2] v)
            <float half = {0.5}>
            {
              a, b, c = Split<axis = 3>(x)
              t = Transpose<perm = [0, 2, 1, 3]>(a)
              q = Mul(t, half)
              k = Transpose<perm = [0, 2, 3, 1]>(b)
              v = Transpose<perm = [0, 2, 1, 3]>(c)
            }";
        assert_eq!(left(graph), 2);
    }

    #[test]
    fn inside_a_branch_and_around_it() {
        let graph = "g (bool b, float[3,4] x) => (float[3,4] y)
            {
              a = Transpose(x)
              d = Relu(a)
              y = If (b) <
                then_branch = t () => (float[3,4] p) { h = Neg(d) p = Transpose(h) },
                else_branch = e () => (float[3,4] q) { i = Transpose(x) j = Abs(i) q = Transpose(j) }
              >
            }";
        let model = check_pass_same(&MoveTransposes, graph);
        let inner = model.graph.nodes().flat_map(|(_, n)| n.subgraphs()).collect::<Vec<_>>();
        assert_eq!((inner[0].node_count(), inner[1].node_count()), (2, 1));
    }
}
