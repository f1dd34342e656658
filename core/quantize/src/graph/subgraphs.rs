//! Sub-graphs: the bodies of `If`, `Loop` and `Scan`. Their weights may be constants of the graph
//! around them, as exporters write loops.

use crate::graph::weighted::EMBEDDING_TABLES;
use onnxd_eval::quoted;
use onnxd_ir::{DataType, Graph, NodeId, Origin, Tensor, ValueId};
use std::collections::BTreeMap;

/// Where a graph stands: from the main graph on, a node and which of its sub-graphs.
pub(crate) type Path = Vec<(NodeId, usize)>;

/// Where all sub-graphs of a graph stand, outer ones first.
pub(crate) fn paths(graph: &Graph) -> Vec<Path> {
    let mut found: Vec<Path> = Vec::new();
    for (id, node) in graph.nodes() {
        for (i, inner) in node.subgraphs().enumerate() {
            found.push(vec![(id, i)]);
            let further = paths(inner).into_iter();
            found.extend(further.map(|path| [&[(id, i)], &path[..]].concat()));
        }
    }
    found
}

/// The graph that stands there.
pub(crate) fn at<'g>(graph: &'g Graph, path: &[(NodeId, usize)]) -> &'g Graph {
    path.iter().fold(graph, |graph, (id, i)| {
        graph[*id].subgraphs().nth(*i).expect("paths are those of this graph")
    })
}

/// Changes the graph that stands there.
pub(crate) fn edit(graph: &mut Graph, path: &[(NodeId, usize)], f: &mut dyn FnMut(&mut Graph)) {
    let Some(((id, wanted), rest)) = path.split_first() else { return f(graph) };
    let mut i = 0;
    graph.edit_subgraphs(*id, |inner| {
        if i == *wanted {
            edit(inner, rest, f);
        }
        i += 1;
    });
}

/// What the executor calls value `v` of a sub-graph; `None` for a constant.
pub(crate) fn shown(main: &Graph, path: &[(NodeId, usize)], v: ValueId) -> Option<String> {
    let graph = at(main, path);
    if let (Origin::Captured(outer), Some((_, around))) = (graph[v].origin(), path.split_last()) {
        return shown(main, around, outer);
    }
    if graph.constant(v).is_some() {
        return None;
    }
    let mut name = String::new();
    let mut around = main;
    for (id, i) in path {
        let node = &around[*id];
        let first = node.outputs.iter().flatten().next();
        let owner = first.map_or(node.name.as_str(), |v| &around[*v].name);
        let mut held =
            node.attrs.iter().flat_map(|(name, attr)| attr.graphs().iter().map(move |_| name));
        let attribute = held.nth(*i);
        name += &quoted(owner);
        name += "::";
        name += &quoted(attribute.map_or("", String::as_str));
        name += "::";
        around = at(around, &[(*id, *i)]);
    }
    Some(name + &quoted(&graph[v].name))
}

/// Constants that the sub-graphs of a node read, by their ids outside. `outer` are those that the
/// graph itself reads from the one around it.
pub(crate) fn captured_constants(
    g: &Graph,
    id: NodeId,
    outer: &BTreeMap<ValueId, Tensor>,
) -> BTreeMap<ValueId, Tensor> {
    let captures = g[id].subgraphs().flat_map(Graph::captures).map(|(_, outer)| outer);
    let constant = |v: ValueId| match g[v].origin() {
        Origin::Captured(from) => outer.get(&from),
        _ => g.constant(v),
    };
    captures.filter_map(|v| Some((v, constant(v)?.clone()))).collect()
}

/// Gives a node weights of its own graph where they are a constant of the enclosing one; their
/// memory is shared.
pub(crate) fn import_weights(g: &mut Graph, id: NodeId, outer: &BTreeMap<ValueId, Tensor>) {
    let slots: &[usize] = match g[id].op.as_str() {
        "Gather" => &[0],
        // With the bias, or the weights of the state.
        "Conv" | "Gemm" | "LSTM" => &[1, 2],
        "EmbedLayerNormalization" => &EMBEDDING_TABLES,
        _ => &[1],
    };
    for slot in slots {
        import(g, id, *slot, (outer, &REALS));
    }
}

/// What weighted operators and tables may be of, whether all modes take it or not.
const REALS: [DataType; 4] =
    [DataType::Float, DataType::Float16, DataType::Bfloat16, DataType::Double];

/// The constants of the graph around, and the types of those that are wanted.
type Outer<'o> = (&'o BTreeMap<ValueId, Tensor>, &'o [DataType]);

pub(crate) fn import(g: &mut Graph, id: NodeId, slot: usize, (outer, types): Outer) {
    let Some(v) = g[id].input(slot) else { return };
    let Origin::Captured(from) = g[v].origin() else { return };
    if let Some(data) = outer.get(&from).filter(|data| types.contains(&data.dtype())) {
        let name = g[v].name.clone();
        let own = g.add_initializer(&name, data.clone());
        match g.is_output(v) {
            true => g.set_input(id, slot, Some(own)),
            // Whoever else reads it here shares it.
            false => g.replace_uses(v, own),
        }
        g.release(v);
    }
}
