//! Turns matrix products with a bias into Gemm where they have more than two axes: all axes but the last become one.
//!
//! Reshape leads into the region that computes with matrices, and out of it. A region grows over what works on the last
//! axis alone: element-wise operators, LayerNormalization, Softmax. It is rewritten if it has more biases than it needs
//! new nodes. A Reshape at its border takes up the one that it would need. A weight that is the transposition of a
//! stored matrix is read as it is stored.
//!
//! ```onnx
//! before (float[2,4,6] x) => (float[2,4,6] y)
//! <float[6,2] w1 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0}, float[2] b1 = {1.0, 2.0},
//!  float[2,6] w2 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0},
//!  float[6] b2 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, int64[3] shape = {0, 4, 6}>
//! {
//!   r = Relu(x)
//!   s = Reshape(r, shape)
//!   p = MatMul(s, w1)
//!   a = Add(p, b1)
//!   c = Sigmoid(a)
//!   q = MatMul(c, w2)
//!   y = Add(b2, q)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,4,6] x) => (float[2,4,6] y)
//! <float[6,2] w1 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0}, float[2] b1 = {1.0, 2.0},
//!  float[2,6] w2 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0},
//!  float[6] b2 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, int64[2] s_shape = {-1, 6}, int64[3] y_shape = {2, 4, 6}>
//! {
//!   r = Relu(x)
//!   s_rows = Reshape(r, s_shape)
//!   a_rows = Gemm(s_rows, w1, b1)
//!   c_rows = Sigmoid(a_rows)
//!   y_rows = Gemm(c_rows, w2, b2)
//!   y = Reshape(y_rows, y_shape)
//! }
//! ```

use crate::region::{Member, Region, regions};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{
    Attr, Derivation, Dim, Facts, Graph, Layers, Model, Node, NodeId, Tensor, ValueId, ValueType,
};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Skip};
use std::collections::{HashMap, HashSet};

/// The first operator set in which Gemm's `C` is broadcast without an attribute, and element-wise operators are.
const OPSET_MIN: i64 = 7;

pub(crate) struct FuseGemm;

impl Pass for FuseGemm {
    fn name(&self) -> &'static str {
        "fuse-gemm"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let products = model.graph.nodes().any(|(_, node)| node.is("MatMul"));
        let opset = model.opset();
        if opset < OPSET_MIN || !products {
            return Ok(());
        }
        let facts = cx.facts(model);
        let graph = &mut model.graph;
        let constants = graph.value_ids().filter_map(|v| Some((graph.constant(v)?.identity(), v)));
        let mut stored: HashMap<_, _> = constants.collect();
        for region in regions(graph, &facts, opset) {
            let Some(border) = Border::find(graph, &facts, &region) else { continue };
            if border.cost() >= region.biases() {
                let at = region.outputs.first().map(|v| graph[*v].name.clone()).unwrap_or_default();
                let (cost, biases) = (border.cost(), region.biases());
                let why = format!("matrices would need {cost} more Reshape, for {biases} biases");
                cx.skip(&at, Skip(why));
            } else if !cx.fuel.is_empty() {
                MatrixRegion::new(graph, &facts, &mut stored).rewrite(&region, &border);
                cx.rewrote();
            }
        }
        Ok(())
    }
}

/// Where a region meets the rest of the graph.
struct Border {
    /// What it reads, and the Reshape that computes it for the region alone.
    into: Vec<(ValueId, Option<NodeId>)>,
    /// What must be there with all its axes.
    out: Vec<ValueId>,
    /// Reshape nodes that can read matrices instead, and the sizes that they give.
    reshapes: Vec<(NodeId, ValueId, Vec<i64>)>,
}

impl Border {
    /// `None` if the region cannot be left.
    fn find(graph: &Graph, facts: &Facts, region: &Region) -> Option<Border> {
        let inside: HashSet<NodeId> = region.nodes().collect();
        let mut border = Border { into: Vec::new(), out: Vec::new(), reshapes: Vec::new() };
        for v in &region.inputs {
            let readers = graph.readers(*v);
            let own = graph.uses(*v) == readers.len() && readers.iter().all(|r| inside.contains(r));
            let reshape = graph.producer(*v).filter(|id| own && reshapes(&graph[*id]));
            border.into.push((*v, reshape));
        }
        let taken: HashSet<NodeId> =
            border.into.iter().filter_map(|(_, reshape)| *reshape).collect();
        for v in &region.outputs {
            let mut needed = graph.is_output(*v);
            for reader in graph.readers(*v).iter().filter(|r| !inside.contains(r)) {
                let sizes = taken_up(graph, facts, *reader, *v);
                match sizes.filter(|_| !taken.contains(reader)) {
                    Some(sizes) => border.reshapes.push((*reader, *v, sizes)),
                    None => needed = true,
                }
            }
            if needed {
                sizes(facts.shape(*v)?)?;
                border.out.push(*v);
            }
        }
        Some(border)
    }

    /// How many nodes have to be added.
    fn cost(&self) -> usize {
        self.into.iter().filter(|(_, reshape)| reshape.is_none()).count() + self.out.len()
    }
}

/// Whether `node` gives its first input other axes and nothing else.
fn reshapes(node: &Node) -> bool {
    let one = node.outputs.iter().flatten().count() == 1;
    one && ["Reshape", "Flatten", "Squeeze", "Unsqueeze"].iter().any(|op| node.is(op))
}

/// The sizes that the Reshape `id` of `v` gives, as a constant that does not depend on the axes of `v`.
fn taken_up(graph: &Graph, facts: &Facts, id: NodeId, v: ValueId) -> Option<Vec<i64>> {
    let node = &graph[id];
    let data =
        node.input(0) == Some(v) && node.inputs.iter().filter(|i| **i == Some(v)).count() == 1;
    let out = node.output(0).filter(|_| data && reshapes(node))?;
    sizes(facts.shape(out)?)
}

/// A constant for Reshape: at most one size may be unknown, and none 0.
fn sizes(shape: &[Dim]) -> Option<Vec<i64>> {
    let sizes: Vec<i64> = shape.iter().map(|d| d.known().unwrap_or(-1)).collect();
    let open = sizes.iter().filter(|d| **d == -1).count();
    (open <= 1 && !sizes.contains(&0)).then_some(sizes)
}

/// A region on its way to matrices.
struct MatrixRegion<'a> {
    graph: &'a mut Graph,
    facts: &'a Facts,
    /// The matrix for each value of the region.
    rows: HashMap<ValueId, ValueId>,
    /// Of its first node.
    layers: Layers,
    /// Constants by what tells whether they share their elements.
    stored: &'a mut HashMap<(usize, usize), ValueId>,
}

impl<'a> MatrixRegion<'a> {
    fn new(
        graph: &'a mut Graph,
        facts: &'a Facts,
        stored: &'a mut HashMap<(usize, usize), ValueId>,
    ) -> MatrixRegion<'a> {
        MatrixRegion { graph, facts, rows: HashMap::new(), layers: Layers::default(), stored }
    }

    fn rewrite(mut self, region: &Region, border: &Border) {
        let nodes: Vec<(Member, Vec<Node>)> = region
            .members
            .iter()
            .map(|member| (*member, member.nodes().map(|id| self.graph.remove_node(id)).collect()))
            .collect();
        self.layers = nodes
            .first()
            .and_then(|(_, nodes)| nodes.first())
            .map(|n| n.layers.clone())
            .unwrap_or_default();
        for (v, reshape) in &border.into {
            let old = reshape.map(|id| self.graph.remove_node(id)).unwrap_or_default();
            let data = old.input(0).unwrap_or(*v);
            let last = self.facts.shape(*v).and_then(<[Dim]>::last).and_then(Dim::known);
            let sizes = vec![-1, last.expect("the last size of a region is known")];
            let rows = self.beside(*v);
            self.reshape(data, *v, &sizes, rows, old);
        }
        for (member, nodes) in nodes {
            self.member(member, nodes);
        }
        for v in &border.out {
            let sizes = self.facts.shape(*v).and_then(sizes).expect("was looked at");
            self.reshape(self.rows[v], *v, &sizes, *v, Node::default());
        }
        for (id, v, sizes) in &border.reshapes {
            let old = self.graph.remove_node(*id);
            let out = old.output(0).expect("it has a result");
            self.reshape(self.rows[v], out, sizes, out, old);
        }
    }

    /// The matrix that stands for `v`.
    fn beside(&mut self, v: ValueId) -> ValueId {
        let (name, dtype) = (
            format!("{}_rows", self.graph[v].name),
            self.graph[v].ty.as_ref().and_then(ValueType::dtype),
        );
        let sizes = self.facts.shape(v).and_then(<[Dim]>::split_last).and_then(|(last, rows)| {
            let rows = rows.iter().map(Dim::known).product::<Option<i64>>();
            Some([rows?, last.known()?])
        });
        let ty = dtype.zip(sizes).map(|(dtype, sizes)| ValueType::tensor(dtype, sizes));
        let rows = self.graph.add_value(&name, ty);
        self.rows.insert(v, rows);
        rows
    }

    /// Gives `data` other sizes as `out`, in place of the node `old` or for the work of what computes or reads it.
    fn reshape(&mut self, data: ValueId, name: ValueId, sizes: &[i64], out: ValueId, old: Node) {
        let shape = format!("{}_shape", self.graph[name].name);
        let shape = self.graph.add_initializer(&shape, Tensor::vector(sizes.to_vec()));
        let maker = self.graph.producer(data).map(|id| self.graph[id].layers.clone());
        let known = [old.layers, maker.unwrap_or_default(), self.layers.clone()];
        let layers = known.into_iter().find(|layers| !layers.is_empty()).unwrap_or_default();
        let node = Node::new("Reshape", [data, shape], [out]);
        self.graph.add_node(Node { name: old.name, layers, ..node });
    }

    /// The same with matrices.
    fn member(&mut self, member: Member, nodes: Vec<Node>) {
        let mut nodes = nodes.into_iter();
        let mut node = nodes.next().expect("a member has a node");
        let product = node.output(0);
        if let Some(sum) = nodes.next() {
            let bias = sum.inputs.iter().flatten().find(|v| Some(**v) != product).copied();
            node.op = "Gemm".into();
            node.inputs.push(bias);
            node.outputs = sum.outputs;
            node.layers.add(&sum.layers);
            if let Some(stored) = node.input(1).and_then(|w| self.untransposed(w)) {
                node.inputs[1] = Some(stored);
                node = node.with("transB", Attr::Int(1));
            }
        }
        debug_assert_eq!(member.sum().is_some(), node.is("Gemm"));
        let out = node.output(0).expect("it has a result");
        for slot in 0..node.inputs.len() {
            let Some(v) = node.inputs[slot] else { continue };
            let rows = self.rows.get(&v).copied();
            let is_weight = slot == 1 && ["Gemm", "MatMul"].iter().any(|op| node.is(op));
            node.inputs[slot] = rows.or_else(|| Some(if is_weight { v } else { self.flat(v) }));
        }
        let rows = self.beside(out);
        node.outputs = vec![Some(rows)];
        self.graph.add_node(node);
    }

    /// The matrix whose transposition the constant `w` would be written as. Gemm reads it as it is stored.
    fn untransposed(&mut self, w: ValueId) -> Option<ValueId> {
        let turned = self.graph.constant(w)?;
        let Derivation::Strided { source, offset: 0, strides } = turned.derivation()? else {
            return None;
        };
        let (&[rows, columns], &[1, step]) = (source.dims(), &strides[..]) else { return None };
        let whole = [columns, rows];
        let dims = turned.derivation_dims()?;
        if turned.dims() != whole || dims != whole || step as usize != columns {
            return None;
        }
        let source = source.clone();
        let same =
            |v: &ValueId| self.graph.constant(*v).is_some_and(|t| t.dims() == [rows, columns]);
        let known = self.stored.get(&source.identity()).copied().filter(same);
        Some(known.unwrap_or_else(|| {
            let name = format!("{}_stored", self.graph[w].name);
            let v = self.graph.add_initializer(&name, source.clone());
            self.stored.insert(source.identity(), v);
            v
        }))
    }

    /// The constant `v` without axes before its last.
    fn flat(&mut self, v: ValueId) -> ValueId {
        let flat = self.graph.constant(v).filter(|t| t.rank() > 1).map(|t| t.reshaped([t.len()]));
        match flat {
            Some(Ok(data)) => {
                let name = format!("{}_flat", self.graph[v].name);
                self.graph.add_initializer(&name, data)
            }
            _ => v,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::text::parse_graph;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_model_same, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("fuse_gemm.rs"), &FuseGemm);
    }

    fn count(model: &Model, op: &str) -> usize {
        model.graph.nodes().filter(|(_, node)| node.is(op)).count()
    }

    #[test]
    fn a_block_with_normalization_and_a_residual() {
        let model = check_pass_same(
            &FuseGemm,
            "g (float[N,3,2] x) => (float[N,3,2] y, float[N,6] z)
             <float[2] g = {1.0, 2.0}, float[2] b = {0.5, 1.0},
              float[2,4] w1 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0},
              float[1,1,4] b1 = {1.0, 2.0, 3.0, 4.0}, float[1,1,1] half = {0.5},
              float[4,2] w2 = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, float[2] b2 = {1.0, 2.0},
              float[2,2] w3 = {1.0, 2.0, 3.0, 4.0}, int64[2] as = {0, -1}>
             {
               n = LayerNormalization<axis = -1>(x, g, b)
               p = MatMul(n, w1) h = Add(b1, p) e = Erf(h) k = Mul(e, half)
               q = MatMul(k, w2) r = Add(q, b2) y = Add(x, r)
               o = MatMul(y, w3) m = Add(o, b) z = Reshape(m, as)
             }",
        );
        assert_eq!((count(&model, "Gemm"), count(&model, "Reshape")), (3, 3));
        assert_eq!(model.graph.node_count(), 10);
    }

    #[test]
    fn one_bias_alone_is_not_worth_it() {
        check_pass_skip(
            &FuseGemm,
            "matrices would need 2 more Reshape, for 1 biases",
            "g (float[N,3,2] x) => (float[N,3,2] y)
             <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {0.5, 1.0}>
             { p = MatMul(x, w) y = Add(p, b) }",
        );
    }

    #[test]
    fn sizes_that_no_constant_says_stay() {
        for shape in ["N,M,2", "N,0,2"] {
            check_pass_skip(
                &FuseGemm,
                "",
                &format!(
                    "g (float[{shape}] x) => (float[{shape}] y)
                     <float[2,2] w = {{1.0, 2.0, 3.0, 4.0}}, float[2] b = {{0.5, 1.0}}>
                     {{ p = MatMul(x, w) a = Add(p, b) q = MatMul(a, w)
                        c = Add(q, b) r = MatMul(c, w) y = Add(r, b) }}"
                ),
            );
        }
    }

    #[test]
    fn a_reshape_from_the_region_into_itself() {
        check_pass_same(
            &FuseGemm,
            "g (float[2,3,2] x) => (float[2,3,2] y)
             <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {0.5, 1.0}, int64[3] same = {2, 3, 2}>
             {
               p = MatMul(x, w) a = Add(p, b) e = Reshape(a, same) q = MatMul(e, w) c = Add(q, b)
               r = MatMul(c, w) d = Add(r, b) s = MatMul(a, w)
               f = Add(s, b) t = Add(d, f) u = MatMul(t, w) y = Add(u, b)
             }",
        );
    }

    #[test]
    fn computed_matrices_are_factors_too() {
        let model = check_pass_same(
            &FuseGemm,
            "g (float[2,3,2] x, float[2,2] w, float[4,2] t) => (float[2,3,4] y)
             <float[2] b = {0.5, 1.0}>
             {
               p = MatMul(x, w) a = Add(p, b) q = MatMul(a, w) c = Add(q, b) r = MatMul(c, w) d = Add(r, b)
               u = Transpose(t) y = MatMul(d, u)
             }",
        );
        assert_eq!((count(&model, "Gemm"), count(&model, "Reshape")), (3, 2));
    }

    #[test]
    fn weights_that_would_be_transposed_are_stored_as_they_are() {
        let text = "g (float[2,3,2] x) => (float[2,3,2] y)
             <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2,2] e = {1.0, 2.0, 3.0, 4.0}, float[2] b = {0.5, 1.0}>
             {
               p = MatMul(x, w) a = Add(p, b) q = MatMul(a, w) c = Add(q, b) r = MatMul(c, w) d = Add(r, b)
               y = MatMul(d, e)
             }";
        let mut model = Model::new(parse_graph(text).unwrap(), 8, 18);
        let [w, e] = ["w", "e"].map(|name| model.graph.value_named(name).unwrap());
        let stored = model.graph.constant(e).unwrap().clone();
        model.graph.set_initializer(w, Some(stored.permuted(&[1, 0]).unwrap()));
        let after = check_model_same(&FuseGemm, &model);
        let gemms: Vec<&Node> =
            after.graph.nodes().map(|(_, n)| n).filter(|n| n.is("Gemm")).collect();
        assert_eq!(gemms.len(), 3);
        for gemm in gemms {
            assert_eq!((gemm.int("transB", 0), gemm.input(1)), (1, Some(e)));
        }
    }

    #[test]
    fn what_mixes_rows_is_outside() {
        let model = check_pass_same(
            &FuseGemm,
            "g (float[2,3,2] x) => (float[2,3,2] y)
             <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {0.5, 1.0},
              float[3,2] place = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>
             {
               p = MatMul(x, w) a = Add(p, b) q = MatMul(a, w) c = Add(q, b) r = MatMul(c, w) d = Add(r, b)
               s = Softmax<axis = 1>(d) y = Add(s, place)
             }",
        );
        assert_eq!(
            (count(&model, "Gemm"), count(&model, "Reshape"), count(&model, "Add")),
            (3, 2, 1)
        );
    }
}
