//! A layer of a graph by itself, and what the built-in executor makes of it.

use super::layer::Past;
use super::source::{Plain, Row};
use onnxd_plugin_sdk::eval::{Builtin, Engine, RunOptions};
use onnxd_plugin_sdk::ir::{DataType, Graph, Model, Node, NodeId, Tensor, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What the hidden states before the layer are called in its own graph.
const HIDDEN: &str = "hidden_states";
/// What names of the cache begin with.
const PAST: &str = "past_key_values.";

/// Elements of a matrix that is in memory as a whole.
const MATRIX_MAX: usize = if cfg!(test) { 128 } else { 1 << 21 };

/// Elements of one whose blocks are made numbers in the graph.
const BLOCKS_MAX: usize = 1 << 24;

/// The number of the layer that a node is of.
fn layer_of(node: &Node) -> Option<usize> {
    let layer = node.layers.first().filter(|layer| layer.kind == "decoder layer")?;
    layer.name.rsplit('.').next()?.parse().ok()
}

/// The hidden states before and behind a layer.
pub(super) fn seam(graph: &Graph, number: usize, hidden: usize) -> Plain<[ValueId; 2]> {
    let before = match number.checked_sub(1) {
        Some(last) => behind(graph, last)?,
        None => begin(graph, hidden)?,
    };
    Ok([before, behind(graph, number)?])
}

/// What later nodes read of a layer.
fn behind(graph: &Graph, number: usize) -> Plain<ValueId> {
    let of_layer = graph.nodes().filter(|(_, node)| layer_of(node) == Some(number));
    let given = of_layer.flat_map(|(_, node)| node.outputs.iter().flatten().copied());
    let is_read_later = |v: &ValueId| {
        graph.readers(*v).iter().any(|reader| layer_of(&graph[*reader]) != Some(number))
    };
    only(given.filter(is_read_later), number)
}

/// The hidden states that the first layer reads.
fn begin(graph: &Graph, hidden: usize) -> Plain<ValueId> {
    let of_first = graph.nodes().filter(|(_, node)| layer_of(node) == Some(0));
    let is_hidden = |v: &ValueId| {
        let made = graph.producer(*v).is_some_and(|made| layer_of(&graph[made]).is_none());
        let ends = |v: &ValueId| match graph[*v].shape() {
            Some([_, _, last]) => last.known() == i64::try_from(hidden).ok(),
            _ => false,
        };
        made && ends(v) && graph[*v].dtype() == Some(DataType::Float)
    };
    let read = of_first.flat_map(|(_, node)| node.reads().collect::<Vec<_>>());
    only(read.filter(is_hidden), 0)
}

fn only(values: impl Iterator<Item = ValueId>, number: usize) -> Plain<ValueId> {
    let all: BTreeSet<ValueId> = values.collect();
    match all.len() {
        1 => Ok(all.into_iter().next().expect("it has one element")),
        _ => Err(format!("the graph of layer {number} is not found")),
    }
}

/// The model of the layer alone.
pub(super) fn layer(model: &Model, number: usize, hidden: usize) -> Plain<Model> {
    let [before, behind] = seam(&model.graph, number, hidden)?;
    let mut graph = model.graph.clone();
    let input = graph.add_input(HIDDEN, graph[before].ty.clone());
    graph.replace_uses(before, input);
    graph.set_outputs(vec![behind]);
    let mut needed: BTreeSet<NodeId> = BTreeSet::new();
    let mut pending = vec![behind];
    while let Some(v) = pending.pop() {
        if let Some(id) = graph.producer(v).filter(|id| needed.insert(*id)) {
            pending.extend(graph[id].reads());
        }
    }
    for id in graph.node_ids().into_iter().filter(|id| !needed.contains(id)) {
        graph.remove_node(id);
    }
    let unread: Vec<ValueId> =
        graph.inputs().iter().copied().filter(|v| graph.uses(*v) == 0).collect();
    graph.unmark_inputs(&unread);
    if needed.iter().any(|id| is_large(&graph, *id)) {
        return Err("weights in blocks are too large to be in memory as numbers".to_owned());
    }
    needed.into_iter().for_each(|id| by_columns(&mut graph, id));
    Ok(Model { graph, ..head_of(model) })
}

/// All of a model but its graph.
fn head_of(model: &Model) -> Model {
    let Model { ir_version, ref opsets, ref functions, .. } = *model;
    Model { ir_version, opsets: opsets.clone(), functions: functions.clone(), ..Model::default() }
}

/// Whether a node makes more numbers of blocks than are held.
fn is_large(graph: &Graph, id: NodeId) -> bool {
    let node = &graph[id];
    let codes = node.input(0).and_then(|v| graph.constant(v));
    node.is("DequantizeLinear") && codes.is_some_and(|codes| codes.len() > BLOCKS_MAX)
}

/// Computes a product with a large matrix of constants by some of its columns at a time, so that it is never in memory
/// as a whole.
fn by_columns(graph: &mut Graph, id: NodeId) {
    let node = &graph[id];
    let weight = node.input(1).filter(|_| node.is("MatMul")).and_then(|v| graph.constant(v));
    let Some(weight) = weight.filter(|w| w.rank() == 2 && w.len() > MATRIX_MAX).cloned() else {
        return;
    };
    let [rows, columns] = [weight.dims()[0], weight.dims()[1]];
    let width = (MATRIX_MAX / rows).max(1);
    let starts = (0..columns).step_by(width);
    let part = |first: usize| {
        let count = width.min(columns - first);
        weight.sliced(&[(0, rows, 1), (first, count, 1)]).ok()
    };
    let Some(parts) = starts.map(part).collect::<Option<Vec<Tensor>>>() else { return };
    let node = graph.remove_node(id);
    let products: Vec<ValueId> = parts
        .into_iter()
        .map(|part| {
            let weight = graph.add_initializer("part", part);
            let product = graph.add_value("product", None);
            let inputs = vec![node.inputs[0], Some(weight)];
            graph.add_node(Node { inputs, outputs: vec![Some(product)], ..node.clone() });
            product
        })
        .collect();
    let all = Node::new("Concat", products, node.outputs.into_iter().flatten());
    graph.add_node(all.with("axis", onnxd_plugin_sdk::ir::Attr::Int(-1)));
}

/// What the layer makes of hidden states behind those whose keys and values are given.
pub(super) fn run(
    model: &Model,
    x: &[Row],
    past: &Past,
    [kv_heads, head]: [usize; 2],
) -> Plain<Vec<Row>> {
    let mut feeds = BTreeMap::new();
    let single = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let all = past.tokens + x.len();
    for input in model.graph.inputs() {
        let name = model.graph[*input].name.as_str();
        let tensor = match name {
            HIDDEN => {
                let hidden = x.first().map_or(0, Vec::len);
                Tensor::from_vec([1, x.len(), hidden], single(&x.concat()))
            }
            "input_ids" => Tensor::from_vec([1, x.len()], vec![0i64; x.len()]),
            "attention_mask" => Tensor::from_vec([1, all], vec![1i64; all]),
            _ if name.starts_with(PAST) => {
                let part = if name.ends_with(".key") { &past.keys } else { &past.values };
                let count = kv_heads * past.tokens;
                let head = part.len().checked_div(count).unwrap_or(head);
                Tensor::from_vec([1, kv_heads, past.tokens, head], single(part))
            }
            _ => return Err(format!("the layer reads `{name}`")),
        };
        feeds.insert(name.to_owned(), tensor);
    }
    let found = |found: onnxd_plugin_sdk::diagnostics::Diagnostics| {
        found.0.first().map_or_else(String::new, |found| found.message.clone())
    };
    let mut prepared = Builtin.prepare(model).map_err(found)?;
    let options = RunOptions { kept_max: 0, ..RunOptions::default() };
    let outputs = prepared.run(&feeds, options).map_err(found)?;
    let y = outputs.first().and_then(|(_, y)| Some(y.as_slice::<f32>()?.into_owned()));
    let y = y.filter(|y| y.len() == x.iter().map(Vec::len).sum::<usize>());
    let y = y.ok_or("the layer gives no hidden states")?;
    let rows = y.chunks_exact(y.len() / x.len().max(1));
    Ok(rows.map(|row| row.iter().map(|y| f64::from(*y)).collect()).collect())
}
