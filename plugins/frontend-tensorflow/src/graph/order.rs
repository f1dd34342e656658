//! The order in which nodes run. Data alone is followed when they are evaluated; control inputs are looked at here.

use super::node;
use super::nodes::Nodes;
use crate::wire::proto::NodeDef;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A node that waits for itself, if control inputs are part of the circle. The way back of a loop is none.
pub(crate) fn circle(body: &Nodes<'_>) -> Option<usize> {
    if body.nodes.iter().all(|node| node.input.iter().all(|text| !text.starts_with('^'))) {
        return None;
    }
    // Circles of data are told where they are evaluated.
    if waiting(body, false).iter().any(|waits| *waits) {
        return None;
    }
    let waits = waiting(body, true);
    let mut at = waits.iter().position(|waits| *waits)?;
    let mut seen = vec![false; waits.len()];
    while !std::mem::replace(&mut seen[at], true) {
        at = inputs(body, at, true).find(|input| waits[*input])?;
    }
    Some(at)
}

/// Whether each node never runs, as it waits for one that waits for itself.
fn waiting(body: &Nodes<'_>, by_control: bool) -> Vec<bool> {
    let mut open = vec![0usize; body.nodes.len()];
    let mut readers = vec![vec![]; body.nodes.len()];
    for (index, open) in open.iter_mut().enumerate() {
        for input in inputs(body, index, by_control) {
            *open += 1;
            readers[input].push(index);
        }
    }
    let mut ready: Vec<usize> = (0..open.len()).filter(|index| open[*index] == 0).collect();
    while let Some(index) = ready.pop() {
        for reader in std::mem::take(&mut readers[index]) {
            open[reader] -= 1;
            if open[reader] == 0 {
                ready.push(reader);
            }
        }
    }
    open.into_iter().map(|n| n > 0).collect()
}

/// All nodes that run at last, each behind those that it waits for, and else in the order of the graph.
pub(crate) fn sequence(body: &Nodes<'_>) -> Vec<usize> {
    let mut open = vec![0usize; body.nodes.len()];
    let mut readers = vec![vec![]; body.nodes.len()];
    for (index, open) in open.iter_mut().enumerate() {
        for input in inputs(body, index, true) {
            *open += 1;
            readers[input].push(index);
        }
    }
    let first = (0..open.len()).filter(|index| open[*index] == 0).map(Reverse);
    let mut ready: BinaryHeap<Reverse<usize>> = first.collect();
    let mut found = vec![];
    while let Some(Reverse(index)) = ready.pop() {
        found.push(index);
        for reader in std::mem::take(&mut readers[index]) {
            open[reader] -= 1;
            if open[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    found
}

/// Whether what is behind a node runs under a condition or in a loop of TensorFlow 1.
fn is_flow(node: &NodeDef) -> bool {
    ["Switch", "_SwitchN", "Enter", "NextIteration", "LoopCond"].iter().any(|op| is_op(node, op))
}

/// Whether each node is part of a loop or condition of TensorFlow 1: it waits for one that is, with no way out between.
pub(crate) fn inside_flow(body: &Nodes<'_>) -> Vec<bool> {
    let mut inside: Vec<bool> = body.nodes.iter().map(is_flow).collect();
    let mut open: Vec<usize> = (0..inside.len()).filter(|at| inside[*at]).collect();
    if open.is_empty() {
        return inside;
    }
    let mut readers = vec![vec![]; inside.len()];
    let stays = |node: &NodeDef| !is_op(node, "Merge") && !is_op(node, "Exit");
    for index in (0..inside.len()).filter(|index| stays(&body.nodes[*index])) {
        inputs(body, index, true).for_each(|input| readers[input].push(index));
    }
    while let Some(at) = open.pop() {
        for reader in std::mem::take(&mut readers[at]) {
            if !std::mem::replace(&mut inside[reader], true) {
                open.push(reader);
            }
        }
    }
    inside
}

/// The nodes that a node waits for.
fn inputs<'b>(
    body: &'b Nodes<'_>,
    index: usize,
    by_control: bool,
) -> impl Iterator<Item = usize> + 'b {
    let is_merge = is_op(&body.nodes[index], "Merge");
    let texts = body.nodes[index].input.iter();
    texts.filter_map(move |text| {
        let is_control = text.starts_with('^');
        let input = body.find(node::name_of(text)).filter(|_| by_control || !is_control)?;
        (!is_merge || !is_op(&body.nodes[input], "NextIteration")).then_some(input)
    })
}

fn is_op(node: &NodeDef, op: &str) -> bool {
    node.op.strip_prefix("Ref").unwrap_or(&node.op) == op
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{call, found, function, graph, import, node, placeholder};

    #[test]
    fn nodes_that_wait_for_themselves_are_refused() {
        let body = |first: &str| {
            vec![
                node("a", "Neg", &["x", first]),
                node("b", "Abs", &["a"]),
                node("c", "Neg", &["x", "^b"]),
                node("y", "Abs", &["b"]),
            ]
        };
        let main =
            |first: &str| graph([vec![placeholder("x", &[2])], body(first)].concat(), vec![]);
        assert!(found(import(&main("^x"))).is_empty());
        let all = found(import(&main("^c")));
        assert!(all.len() == 1 && all[0].starts_with("N0206 The node waits"), "{all:?}");
        let inner = function("f", &["x"], &[("y", "b:y:0")], body("^c"));
        let all = found(import(&graph(
            vec![placeholder("x", &[2]), call("y", "f", &["x"])],
            vec![inner],
        )));
        assert!(all.len() == 1 && all[0].starts_with("N0206 The node waits"), "{all:?}");
    }
}
