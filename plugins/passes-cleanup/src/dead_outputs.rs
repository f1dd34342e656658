//! Outputs that nothing reads: optional ones, and those of `If`, `Loop` and `Scan`, taken out of the node and of its
//! sub-graphs.
//!
//! What a loop carries goes, too, if nothing is read of it behind the loop and it decides nothing else inside.

use onnxd_plugin_sdk::ir::schema::{self, ParamKind};
use onnxd_plugin_sdk::ir::{Attr, Graph, Node, NodeId, ValueId};
use std::collections::{HashMap, HashSet};

/// The first version in which `Scan` has no batch axis.
const SCAN_OPSET_MIN: i64 = 9;

/// How the outputs of a node belong to those of its sub-graphs.
struct OutputCounts {
    /// Outputs of the sub-graph before them: whether to go on.
    before: usize,
    /// How many of them are carried from one iteration to the next.
    carried: usize,
    /// Inputs of the node, and of the sub-graph, before those that are carried.
    inputs_before: usize,
}

impl OutputCounts {
    fn from_node(node: &Node, opset: i64) -> Option<OutputCounts> {
        let found = match node.op.as_str() {
            _ if !node.is_standard() => return None,
            "If" => OutputCounts { before: 0, carried: 0, inputs_before: 1 },
            "Loop" => OutputCounts {
                before: 1,
                carried: node.inputs.len().checked_sub(2)?,
                inputs_before: 2,
            },
            "Scan" if opset >= SCAN_OPSET_MIN => {
                let scanned = usize::try_from(node.int("num_scan_inputs", 0)).ok()?;
                let carried = node.inputs.len().checked_sub(scanned)?;
                OutputCounts { before: 0, carried, inputs_before: 0 }
            }
            _ => return None,
        };
        let fits = |body: &Graph| {
            let read = node.op == "If" || body.inputs().len() == node.inputs.len();
            read && body.outputs().len() == found.before + node.outputs.len()
        };
        (found.carried <= node.outputs.len() && node.subgraphs().all(fits)).then_some(found)
    }
}

/// Leaves out optional outputs at the end of node `id` that nothing reads. Whether there were such.
pub(crate) fn leave_out(graph: &mut Graph, id: NodeId, opset: i64) -> bool {
    let node = &graph[id];
    // Its outputs say whether it computes statistics.
    if !node.is_standard() || node.is("BatchNormalization") {
        return false;
    }
    let Some(schema) = schema::find("", &node.op, opset) else { return false };
    let is_kept = |(i, v): (usize, &Option<ValueId>)| {
        let optional = schema.output(i).is_some_and(|p| p.kind == ParamKind::Optional);
        !optional || v.is_some_and(|v| graph.uses(v) > 0)
    };
    let kept = node.outputs.iter().enumerate().filter(|o| is_kept(*o)).map(|(i, _)| i + 1).max();
    let kept = node.outputs[..kept.unwrap_or(node.outputs.len())].to_vec();
    if kept.len() == node.outputs.len() {
        return false;
    }
    graph.set_node_outputs(id, kept);
    true
}

/// Removes the outputs of node `id` that nothing depends on. Whether there were such.
pub(crate) fn remove(graph: &mut Graph, id: NodeId, opset: i64) -> bool {
    let Some(form) = OutputCounts::from_node(&graph[id], opset) else { return false };
    let wanted = |v: &Option<ValueId>| v.is_some_and(|v| graph.uses(v) > 0);
    let mut live: Vec<bool> = graph[id].outputs.iter().map(wanted).collect();
    for body in graph[id].subgraphs() {
        carry(body, &form, &mut live);
    }
    // Without any, the node itself is dead.
    if !live.contains(&false) || !live.contains(&true) {
        return false;
    }
    let is_kept = |i: usize, before: usize| i.checked_sub(before).is_none_or(|i| live[i]);
    let is_kept_input = |i: usize| {
        let carried = i.checked_sub(form.inputs_before).filter(|i| *i < form.carried);
        carried.is_none_or(|i| live[i])
    };
    let inputs = kept(&graph[id].inputs, is_kept_input);
    let outputs = kept(&graph[id].outputs, |i| is_kept(i, 0));
    graph.set_inputs(id, inputs);
    graph.set_node_outputs(id, outputs);
    graph.edit_subgraphs(id, |body| {
        body.set_outputs(kept(body.outputs(), |i| is_kept(i, form.before)));
        if form.carried > 0 {
            let left = kept(body.inputs(), is_kept_input);
            let left: HashSet<ValueId> = left.into_iter().collect();
            let gone = body.inputs().iter().copied().filter(|v| !left.contains(v));
            body.unmark_inputs(&gone.collect::<Vec<_>>());
        }
    });
    let scanned = &live[form.carried..];
    for (name, attr) in &mut graph.node_mut(id).attrs {
        if let (Attr::Ints(all), "scan_output_axes" | "scan_output_directions") =
            (attr, name.as_str())
        {
            *all = kept(all, |i| scanned.get(i).copied().unwrap_or(true));
        }
    }
    true
}

fn kept<T: Clone>(all: &[T], is_kept: impl Fn(usize) -> bool) -> Vec<T> {
    let kept = all.iter().enumerate().filter(|(i, _)| is_kept(*i));
    kept.map(|(_, item)| item.clone()).collect()
}

/// Marks what is carried and decides something that is live.
fn carry(body: &Graph, form: &OutputCounts, live: &mut [bool]) {
    let outputs = body.outputs();
    let of = |i: usize| outputs[form.before + i];
    let carried = body.inputs().iter().skip(form.inputs_before).take(form.carried);
    let carried: HashMap<ValueId, usize> = carried.enumerate().map(|(i, v)| (*v, i)).collect();
    let mut pending: Vec<ValueId> = outputs[..form.before].to_vec();
    pending.extend((0..live.len()).filter(|i| live[*i]).map(of));
    let mut seen: HashSet<ValueId> = pending.iter().copied().collect();
    while let Some(v) = pending.pop() {
        let reads = body.producer(v).map(|node| body[node].reads().collect()).unwrap_or_default();
        let mut next: Vec<ValueId> = reads;
        if let Some(i) = carried.get(&v).filter(|i| !live[**i]) {
            live[*i] = true;
            next.push(of(*i));
        }
        pending.extend(next.into_iter().filter(|v| seen.insert(*v)));
    }
}
