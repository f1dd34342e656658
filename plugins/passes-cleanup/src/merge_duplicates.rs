//! Merges equal initializers, and nodes that apply the same operator with the same attributes to the same values.
//!
//! Sub-graphs are compared by what they compute, and read what the graph around them computes, too.

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::eval;
use onnxd_plugin_sdk::ir::{
    Attr, DataType, Graph, Layers, Model, NodeId, Origin, Tensor, ValueId, ValueType,
};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) struct MergeDuplicates;

impl Pass for MergeDuplicates {
    fn name(&self) -> &'static str {
        "merge-duplicates"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, _| merge_initializers(graph, cx));
        let functions = model.functions.iter_mut().map(|function| &mut function.graph);
        for graph in [&mut model.graph].into_iter().chain(functions) {
            merge_nodes(graph, &mut Outer::default(), cx);
        }
        Ok(())
    }
}

/// Bytes are only read where type and sizes of two initializers agree, and all of them only where a sample does.
fn merge_initializers(graph: &mut Graph, cx: &mut PassContext) {
    let mut alike: BTreeMap<(DataType, Vec<usize>, u64), Vec<ValueId>> = BTreeMap::new();
    let mut sizes: HashMap<(DataType, Vec<usize>), usize> = HashMap::new();
    let candidates: Vec<(ValueId, Tensor)> = graph
        .value_ids()
        .filter(|v| graph[*v].origin() == Origin::None && graph.uses(*v) > 0)
        .filter(|v| !graph.is_output(*v))
        .filter_map(|v| Some((v, graph[v].initializer()?.clone())))
        .collect();
    for (_, t) in &candidates {
        *sizes.entry((t.dtype(), t.dims().to_vec())).or_default() += 1;
    }
    for (v, t) in candidates {
        let (dtype, dims) = (t.dtype(), t.dims().to_vec());
        if sizes[&(dtype, dims.clone())] > 1 {
            alike.entry((dtype, dims, hash_sample(&t))).or_default().push(v);
        }
    }
    let mut groups: Vec<Vec<ValueId>> = alike.into_values().filter(|g| g.len() > 1).collect();
    groups.sort();
    for group in groups {
        merge_alike(graph, group, cx);
    }
}

fn merge_alike(graph: &mut Graph, group: Vec<ValueId>, cx: &mut PassContext) {
    let mut by_content: HashMap<u64, Vec<ValueId>> = HashMap::new();
    for v in group {
        let content = |v: ValueId| graph[v].initializer().cloned().expect("has an initializer");
        let mine = content(v);
        let same = by_content.entry(hash_tensor(&mine)).or_default();
        let first = same.iter().copied().find(|other| content(*other) == mine);
        match first {
            Some(first) if !cx.fuel.is_empty() => {
                graph.replace_uses(v, first);
                cx.rewrote();
            }
            _ => same.push(v),
        }
    }
}

/// What a sub-graph can read of the graph around it instead of computing it again.
#[derive(Default)]
struct Outer {
    computed: HashMap<NodeKey, Vec<Option<KeptValue>>>,
    constants: HashMap<ValueId, Plain>,
    /// Layers of nodes that went, with what is read instead.
    absorbed: Vec<(ValueId, Layers)>,
}

#[derive(Clone)]
struct KeptValue {
    id: ValueId,
    name: String,
    ty: Option<ValueType>,
}

/// Merges nodes of `graph` with each other, and then those of its sub-graphs with them.
fn merge_nodes(graph: &mut Graph, outer: &mut Outer, cx: &mut PassContext) {
    let mut seen: HashMap<NodeKey, NodeId> = HashMap::new();
    let mut layers: HashMap<NodeId, Layers> = HashMap::new();
    for id in graph.topological().unwrap_or_default() {
        if cx.fuel.is_empty() {
            break;
        }
        let Some(key) = NodeKey::from_node(graph, id, &|v| Some(read(graph, v))) else { continue };
        let Some(first) = seen.get(&key).copied() else {
            if !outer.computed.is_empty() && capture(graph, id, outer) {
                cx.rewrote();
            } else {
                seen.insert(key, id);
            }
            continue;
        };
        let outputs = graph[first].outputs.clone();
        if stands_for(graph, id, &outputs) {
            layers.entry(first).or_default().add(&graph.remove_node(id).layers);
            cx.rewrote();
        }
    }
    for (kept, layers) in layers {
        graph.node_mut(kept).layers.add(&layers);
    }
    let around = graph.node_ids().into_iter();
    let around: Vec<NodeId> = around.filter(|id| graph[*id].subgraphs().next().is_some()).collect();
    if around.is_empty() {
        return;
    }
    let known = |v: &Option<ValueId>| {
        v.map(|id| KeptValue { id, name: graph[id].name.clone(), ty: graph[id].ty.clone() })
    };
    let outputs = |id: NodeId| graph[id].outputs.iter().map(known).collect();
    let computed = seen.into_iter().map(|(key, id)| (key, outputs(id))).collect();
    let constants = graph.value_ids().filter_map(|v| Some((v, content(graph, v)?))).collect();
    let mut own = Outer { computed, constants, absorbed: vec![] };
    for id in around {
        graph.edit_subgraphs(id, |inner| merge_nodes(inner, &mut own, cx));
    }
    for (v, layers) in own.absorbed {
        if let Some(id) = graph.producer(v) {
            graph.node_mut(id).layers.add(&layers);
        }
    }
}

/// Lets what reads the outputs of node `id` read `by`, unless a name would be lost.
fn stands_for(graph: &mut Graph, id: NodeId, by: &[Option<ValueId>]) -> bool {
    let outputs = graph[id].outputs.clone();
    let pairs: Vec<(ValueId, ValueId)> =
        outputs.iter().zip(by).filter_map(|(mine, other)| Some(((*mine)?, (*other)?))).collect();
    let keeps_names = pairs.iter().all(|(mine, _)| !graph.is_output(*mine));
    let all = pairs.len() == outputs.iter().flatten().count() && keeps_names;
    if all {
        pairs.into_iter().for_each(|(mine, other)| graph.replace_uses(mine, other));
    }
    all
}

/// Lets a sub-graph read what the enclosing graph computes, too. That depends only on what the sub-graph reads.
fn capture(graph: &mut Graph, id: NodeId, outer: &mut Outer) -> bool {
    let captured = |v: ValueId| match graph[v].origin() {
        Origin::Captured(v) => {
            Some(outer.constants.get(&v).cloned().map_or(NodeInput::Value(v), NodeInput::Content))
        }
        _ => content(graph, v).map(NodeInput::Content),
    };
    let known = NodeKey::from_node(graph, id, &captured).and_then(|key| outer.computed.get(&key));
    let known: Option<Vec<KeptValue>> = known.and_then(|all| all.iter().cloned().collect());
    let node = &graph[id];
    let is_output = node.outputs.iter().flatten().any(|v| graph.is_output(*v));
    let fits = |all: &Vec<KeptValue>| all.len() >= node.outputs.len();
    let Some(known) = known.filter(|all| fits(all) && !is_output && !node.inputs.is_empty()) else {
        return false;
    };
    let by = known.iter().map(|k| Some(graph.capture(k.id, &k.name, k.ty.clone())));
    let by: Vec<Option<ValueId>> = by.collect();
    stands_for(graph, id, &by);
    outer.absorbed.push((known[0].id, graph.remove_node(id).layers));
    true
}

/// What a node reads.
#[derive(Clone, PartialEq, Eq, Hash)]
enum NodeInput {
    /// A value of the graph, or of the one around it.
    Value(ValueId),
    /// A value of a sub-graph: its input, or what a node of it computes, by position.
    Input(usize),
    Computed(usize, usize),
    Content(Plain),
}

/// Everything that decides what a node computes.
#[derive(Clone, PartialEq, Eq, Hash)]
struct NodeKey {
    domain: String,
    op: String,
    overload: String,
    inputs: Vec<Option<NodeInput>>,
    /// Split does otherwise with another number of outputs.
    parts: usize,
    attrs: Vec<(String, Plain)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Plain {
    Ints(Vec<i64>),
    Bits(Vec<u32>),
    Bytes(Vec<Vec<u8>>),
    Tensor(DataType, Vec<usize>, Vec<u8>),
    /// The number of inputs of a sub-graph, its nodes and its outputs.
    Graph(usize, Vec<NodeKey>, Vec<NodeInput>),
}

impl NodeKey {
    /// `None` for nodes that must not be merged: random ones, unknown ones, and what reads a value that `read` does not
    /// know.
    fn from_node(
        graph: &Graph,
        id: NodeId,
        read: &dyn Fn(ValueId) -> Option<NodeInput>,
    ) -> Option<NodeKey> {
        let node = &graph[id];
        if !eval::is_deterministic(node) {
            return None;
        }
        let attrs = node.attrs.iter().map(|(n, a)| Some((n.clone(), plain(a, read)?)));
        let mut attrs = attrs.collect::<Option<Vec<_>>>()?;
        attrs.sort_by(|a, b| a.0.cmp(&b.0));
        let input = |v: &Option<ValueId>| v.map_or(Some(None), |v| read(v).map(Some));
        Some(NodeKey {
            domain: node.domain.clone(),
            op: node.op.clone(),
            overload: node.overload.clone(),
            inputs: node.inputs.iter().map(input).collect::<Option<_>>()?,
            parts: if node.is("Split") { node.outputs.len() } else { 0 },
            attrs,
        })
    }
}

fn read(graph: &Graph, v: ValueId) -> NodeInput {
    content(graph, v).map_or(NodeInput::Value(v), NodeInput::Content)
}

/// The content of a small constant.
fn content(graph: &Graph, v: ValueId) -> Option<Plain> {
    /// Larger constants are merged as initializers before.
    const BYTES_MAX: usize = 256;
    let constant = graph[v].initializer().filter(|_| graph[v].origin() == Origin::None)?;
    let small = constant.as_strings().is_none() && constant.byte_len() <= BYTES_MAX;
    small.then(|| bits(constant))
}

fn bits(tensor: &Tensor) -> Plain {
    Plain::Tensor(tensor.dtype(), tensor.dims().to_vec(), tensor.bytes().to_vec())
}

fn plain(attr: &Attr, read: &dyn Fn(ValueId) -> Option<NodeInput>) -> Option<Plain> {
    /// Larger constants are merged as initializers.
    const BYTES_MAX: usize = 4096;
    Some(match attr {
        Attr::Int(i) => Plain::Ints(vec![*i]),
        Attr::Ints(i) => Plain::Ints(i.iter().copied().chain([i.len() as i64]).collect()),
        Attr::Float(f) => Plain::Bits(vec![f.to_bits()]),
        Attr::Floats(f) => Plain::Bits(f.iter().map(|x| x.to_bits()).chain([0, 1]).collect()),
        Attr::Str(s) => Plain::Bytes(vec![s.to_vec()]),
        Attr::Strs(s) => Plain::Bytes(s.iter().map(|x| x.to_vec()).chain([vec![]]).collect()),
        Attr::Tensor(t) if t.as_strings().is_none() && t.byte_len() <= BYTES_MAX => bits(t),
        Attr::Graph(graph) => subgraph(graph, read)?,
        _ => return None,
    })
}

/// A sub-graph without the names in it. `read` knows the values of the graph around it.
fn subgraph(graph: &Graph, read: &dyn Fn(ValueId) -> Option<NodeInput>) -> Option<Plain> {
    let order = graph.topological().ok()?;
    let inputs = graph.inputs().iter().enumerate().map(|(i, v)| (*v, Ok(i)));
    let mut places: HashMap<ValueId, Result<usize, (usize, usize)>> = inputs.collect();
    for (at, id) in order.iter().enumerate() {
        let outputs = graph[*id].outputs.iter().enumerate();
        places.extend(outputs.filter_map(|(slot, v)| Some(((*v)?, Err((at, slot))))));
    }
    let inner = |v: ValueId| match (graph[v].origin(), places.get(&v)) {
        (Origin::Captured(outer), _) => read(outer),
        (_, Some(Ok(input))) => Some(NodeInput::Input(*input)),
        (_, Some(Err((node, slot)))) => Some(NodeInput::Computed(*node, *slot)),
        _ => content(graph, v).map(NodeInput::Content),
    };
    let nodes =
        order.iter().map(|id| NodeKey::from_node(graph, *id, &inner)).collect::<Option<_>>()?;
    let outputs = graph.outputs().iter().map(|v| inner(*v)).collect::<Option<_>>()?;
    Some(Plain::Graph(graph.inputs().len(), nodes, outputs))
}

/// A hash of pieces from begin, middle and end: weights that differ at all mostly differ there.
fn hash_sample(tensor: &Tensor) -> u64 {
    const PIECE_BYTES: usize = 1024;
    let mut hasher = DefaultHasher::new();
    if tensor.dtype() == DataType::String {
        return hasher.finish();
    }
    let (size, len) = ((tensor.dtype().bits() / 8).max(1), tensor.byte_len());
    for start in [0, len / 2, len.saturating_sub(PIECE_BYTES)] {
        let start = start - start % size;
        tensor.bytes_at(start..len.min(start + PIECE_BYTES)).hash(&mut hasher);
    }
    hasher.finish()
}

fn hash_tensor(tensor: &Tensor) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_content(tensor, &mut hasher);
    hasher.finish()
}

/// Of much that is derived, what it is derived from counts. Computing it would take far longer, and equal weights are
/// mostly derived alike.
fn hash_content(tensor: &Tensor, hasher: &mut DefaultHasher) {
    const COMPUTED_BYTES_MAX: usize = 1 << 20;
    match tensor.derivation() {
        Some(derivation) if tensor.byte_len() > COMPUTED_BYTES_MAX => {
            derivation.sources().iter().for_each(|source| hash_content(source, hasher));
        }
        _ => {
            let read: Result<(), std::convert::Infallible> = tensor.in_blocks(|block| {
                block.hash(hasher);
                Ok(())
            });
            let Ok(()) = read;
            tensor.as_strings().hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::ops::Concat;
    use onnxd_plugin_sdk::rewrite::Fuel;
    use onnxd_plugin_sdk::rewrite::check::{check_pass_same, check_pass_skip};

    #[test]
    fn initializers_then_nodes() {
        let model = check_pass_same(
            &MergeDuplicates,
            "g (float[2] x) => (float[2] y)
             <float[2] a = {1.0, 2.0}, float[2] b = {1.0, 2.0}, float[2] c = {1.0, 3.0}>
             {
               p = Add(x, a)
               q = Add(x, b)
               r = Add(x, c)
               s = Mul(p, q)
               y = Mul(s, r)
             }",
        );
        assert_eq!(model.graph.node_count(), 4);
    }

    #[test]
    fn tensors_that_differ_beyond_the_sample_stay_apart() {
        let mut graph = Graph::new("g");
        let constant = |at: usize| {
            let mut values = vec![0u8; 10_000];
            values[at] = 1;
            Tensor::vector(values)
        };
        let sum = [2000, 2000, 2001].map(|at| graph.add_initializer("w", constant(at)));
        let [a, b, c] = sum;
        let y = graph.add("y", Concat { inputs: vec![a, b, c], axis: 0 });
        graph.mark_output(y);
        assert_eq!(hash_sample(&constant(2000)), hash_sample(&constant(2001)));
        let mut cx = PassContext::new("test", Fuel::UNLIMITED);
        merge_initializers(&mut graph, &mut cx);
        assert_eq!(cx.report.rewrites, 1);
        assert_eq!((graph.uses(a), graph.uses(b), graph.uses(c)), (2, 0, 1));
    }

    #[test]
    fn much_that_is_derived_alike_is_one() {
        let mut graph = Graph::new("g");
        let derived = |last: u8, axes: [usize; 2]| {
            let mut values = vec![0u8; 2 << 20];
            values[(2 << 20) - 2000] = last;
            Tensor::from_vec([2048, 1024], values).permuted(&axes).expect("two axes")
        };
        let made = [derived(1, [1, 0]), derived(1, [1, 0]), derived(2, [1, 0])];
        let inputs: Vec<_> = made.map(|made| graph.add_initializer("w", made)).into();
        let y = graph.add("y", Concat { inputs: inputs.clone(), axis: 0 });
        graph.mark_output(y);
        let mut cx = PassContext::new("test", Fuel::UNLIMITED);
        merge_initializers(&mut graph, &mut cx);
        let uses: Vec<usize> = inputs.iter().map(|v| graph.uses(*v)).collect();
        assert_eq!(uses, [2, 0, 1]);
    }

    #[test]
    fn attributes_count() {
        check_pass_skip(
            &MergeDuplicates,
            "",
            "g (float[2,2] x) => (float[2,2] y)
             {
               p = Softmax<axis = 0>(x)
               q = Softmax<axis = 1>(x)
               y = Mul(p, q)
             }",
        );
    }

    #[test]
    fn a_branch_reads_what_is_computed_around_it() {
        let model = check_pass_same(
            &MergeDuplicates,
            "g (bool b, float[2] x) => (float[2] y, float[2] z)
             <float[2] w = {1.0, 2.0}>
             {
               z = Add(x, w)
               y = If (b) <
                 then_branch = t () => (float[2] p) <float[2] v = {1.0, 2.0}> { s = Add(x, v) p = Neg(s) },
                 else_branch = e () => (float[2] q) { h = Add(x, w) i = Add(x, h) q = Add(x, w) }
               >
             }",
        );
        let inner = model.graph.nodes().flat_map(|(_, n)| n.subgraphs());
        let inner: Vec<usize> = inner.map(Graph::node_count).collect();
        // An output of a branch must be computed in it.
        assert_eq!(inner, [1, 2]);
    }

    #[test]
    fn equal_branches_are_one() {
        let two = |last: &str| {
            format!(
                "g (bool b, float[2] x) => (float[2] y)
                 {{
                   k = If (b) <
                     then_branch = t () => (float[2] p) <float c = {{2.0}}> {{ s = Mul(x, c) p = Neg(s) }},
                     else_branch = e () => (float[2] q) {{ q = Exp(x) }}
                   >
                   l = If (b) <
                     then_branch = tt () => (float[2] pp) <float cc = {{2.0}}> {{ ss = Mul(x, cc) pp = Neg(ss) }},
                     else_branch = ee () => (float[2] qq) {{ qq = {last} }}
                   >
                   y = Add(k, l)
                 }}"
            )
        };
        let model = check_pass_same(&MergeDuplicates, &two("Exp(x)"));
        assert_eq!(model.graph.node_count(), 2);
        check_pass_skip(&MergeDuplicates, "", &two("Abs(x)"));
    }

    #[test]
    fn the_number_of_outputs_counts() {
        check_pass_skip(
            &MergeDuplicates,
            "",
            "g (float[2,4] x) => (float[2,4] y)
             {
               a, b = Split<axis = 1>(x)
               c, d, e, f = Split<axis = 1>(x)
               y = Concat<axis = 1>(b, c, a, f)
             }",
        );
    }
}
