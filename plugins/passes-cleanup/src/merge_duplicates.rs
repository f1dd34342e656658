//! Merges equal initializers, and nodes that apply the same operator with the same attributes to the same values.

use onnxd_plugin_sdk::diagnostics::{Diagnostics, Layer};
use onnxd_plugin_sdk::eval;
use onnxd_plugin_sdk::ir::{Attr, DataType, Graph, Model, Node, NodeId, Origin, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) struct MergeDuplicates;

impl Pass for MergeDuplicates {
    fn name(&self) -> &'static str {
        "merge-duplicates"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, _| {
            merge_initializers(graph, cx);
            merge_nodes(graph, cx);
        });
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

fn merge_nodes(graph: &mut Graph, cx: &mut PassContext) {
    let mut seen: HashMap<Key, NodeId> = HashMap::new();
    let mut layers: HashMap<NodeId, Vec<Layer>> = HashMap::new();
    for id in graph.topological().unwrap_or_default() {
        let Some(key) = Key::of(&graph[id]) else { continue };
        let Some(first) = seen.get(&key).copied() else {
            seen.insert(key, id);
            continue;
        };
        let pairs: Vec<(ValueId, ValueId)> = graph[id]
            .outputs
            .iter()
            .zip(&graph[first].outputs)
            .filter_map(|(mine, other)| Some(((*mine)?, (*other)?)))
            .collect();
        let wanted = graph[id].outputs.iter().flatten().count();
        let keeps_names = pairs.iter().all(|(mine, _)| !graph.is_output(*mine));
        if pairs.len() != wanted || !keeps_names || cx.fuel.is_empty() {
            continue;
        }
        for (mine, other) in pairs {
            graph.replace_uses(mine, other);
        }
        layers.entry(first).or_default().extend(graph.remove_node(id).layers);
        cx.rewrote();
    }
    for (kept, layers) in layers {
        graph.node_mut(kept).add_layers(layers);
    }
}

/// Everything that decides what a node computes.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    domain: String,
    op: String,
    overload: String,
    inputs: Vec<Option<ValueId>>,
    attrs: Vec<(String, Plain)>,
}

#[derive(PartialEq, Eq, Hash)]
enum Plain {
    Ints(Vec<i64>),
    Bits(Vec<u32>),
    Bytes(Vec<Vec<u8>>),
    Tensor(DataType, Vec<usize>, Vec<u8>),
}

impl Key {
    /// `None` for nodes that must not be merged: random ones, unknown ones, and those with sub-graphs.
    fn of(node: &Node) -> Option<Key> {
        if !eval::is_deterministic(node) {
            return None;
        }
        let attrs = node.attrs.iter().map(|(n, a)| Some((n.clone(), plain(a)?)));
        let mut attrs = attrs.collect::<Option<Vec<_>>>()?;
        attrs.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Key {
            domain: node.domain.clone(),
            op: node.op.clone(),
            overload: node.overload.clone(),
            inputs: node.inputs.clone(),
            attrs,
        })
    }
}

fn plain(attr: &Attr) -> Option<Plain> {
    /// Larger constants are merged as initializers.
    const BYTES_MAX: usize = 4096;
    Some(match attr {
        Attr::Int(i) => Plain::Ints(vec![*i]),
        Attr::Ints(i) => Plain::Ints(i.iter().copied().chain([i.len() as i64]).collect()),
        Attr::Float(f) => Plain::Bits(vec![f.to_bits()]),
        Attr::Floats(f) => Plain::Bits(f.iter().map(|x| x.to_bits()).chain([0, 1]).collect()),
        Attr::Str(s) => Plain::Bytes(vec![s.to_vec()]),
        Attr::Strs(s) => Plain::Bytes(s.iter().map(|x| x.to_vec()).chain([vec![]]).collect()),
        Attr::Tensor(t) if t.as_strings().is_none() && t.byte_len() <= BYTES_MAX => {
            Plain::Tensor(t.dtype(), t.dims().to_vec(), t.bytes().to_vec())
        }
        _ => return None,
    })
}

/// A hash of pieces from begin, middle and end: weights that differ at all mostly differ there.
fn hash_sample(tensor: &Tensor) -> u64 {
    const PIECE_BYTES: usize = 1024;
    let mut hasher = DefaultHasher::new();
    if tensor.dtype().bits() < 8 {
        tensor.bytes().hash(&mut hasher);
        return hasher.finish();
    }
    let (len, piece) = (tensor.len(), PIECE_BYTES / (tensor.dtype().bits() / 8));
    for start in [0, len / 2, len.saturating_sub(piece)] {
        tensor.part(start..len.min(start + piece)).hash(&mut hasher);
    }
    hasher.finish()
}

fn hash_tensor(tensor: &Tensor) -> u64 {
    let mut hasher = DefaultHasher::new();
    let read: Result<(), std::convert::Infallible> = tensor.in_blocks(|block| {
        block.hash(&mut hasher);
        Ok(())
    });
    let Ok(()) = read;
    tensor.as_strings().hash(&mut hasher);
    hasher.finish()
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
}
