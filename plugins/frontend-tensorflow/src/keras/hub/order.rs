//! The order of layers, which numbers their weights in files.

use crate::keras::layer::{Argument, KerasLayer};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Layers in the order in which Keras lists them: those with the longest way to an output first, and those that are as
/// far away in the order in which a search from the outputs finds them.
pub(super) fn ordered(layers: Vec<KerasLayer>, outputs: &Argument) -> Vec<KerasLayer> {
    let by_name: HashMap<&str, usize> =
        layers.iter().enumerate().map(|(i, layer)| (layer.name.as_str(), i)).collect();
    // Calls of all layers one after the other; inputs have one, which reads nothing.
    let (mut starts, mut owners) = (vec![], vec![]);
    for (i, layer) in layers.iter().enumerate() {
        starts.push(owners.len());
        owners.extend(vec![i; layer.calls.len().max(1)]);
    }
    let read = |arguments: &mut dyn Iterator<Item = &Argument>| {
        let mut leaves = vec![];
        arguments.for_each(|argument| argument.leaves(&mut leaves));
        let at = |leaf: &Argument| match leaf {
            Argument::Place(place) => {
                by_name.get(place.layer.as_str()).map(|i| starts[*i] + place.call)
            }
            _ => None,
        };
        leaves.into_iter().filter_map(at).collect::<Vec<usize>>()
    };
    let mut parents = vec![vec![]; owners.len()];
    for (start, layer) in starts.iter().zip(&layers) {
        for (i, call) in layer.calls.iter().enumerate() {
            let named = call.named.iter().map(|(_, argument)| argument);
            parents[start + i] = read(&mut call.positional.iter().chain(named));
        }
    }
    let roots = read(&mut std::iter::once(outputs));
    let (found, done) = searched(&parents, &roots);
    let mut depths = vec![0usize; owners.len()];
    let mut places = vec![(0usize, usize::MAX); layers.len()];
    for node in done.into_iter().rev() {
        let (depth, first) = &mut places[owners[node]];
        *depth = depths[node].max(*depth);
        *first = found[node].min(*first);
        for parent in &parents[node] {
            depths[*parent] = depths[*parent].max(*depth + 1);
        }
    }
    let mut all: Vec<(usize, KerasLayer)> = layers.into_iter().enumerate().collect();
    all.sort_by_key(|(i, _)| (Reverse(places[*i].0), places[*i].1));
    all.into_iter().map(|(_, layer)| layer).collect()
}

/// A search in depth, without recursion: when each node was found first, and all nodes behind those that they read.
fn searched(parents: &[Vec<usize>], roots: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut found = vec![usize::MAX; parents.len()];
    let (mut count, mut done, mut stack) = (0, vec![], vec![]);
    for root in roots {
        stack.push((*root, 0));
        while let Some((node, next)) = stack.pop() {
            if next == 0 {
                if found[node] != usize::MAX {
                    continue;
                }
                found[node] = count;
                count += 1;
            }
            match parents[node].get(next) {
                Some(parent) => stack.extend([(node, next + 1), (*parent, 0)]),
                None => done.push(node),
            }
        }
    }
    (found, done)
}
