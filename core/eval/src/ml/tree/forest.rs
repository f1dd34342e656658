//! Trees in one list of nodes, checked once, so that walking them needs no checks.

use crate::fault::Outcome;
use onnxd_diagnostics::refuse;

/// What a node asks of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BranchMode {
    Leq,
    Lt,
    Gte,
    Gt,
    Eq,
    Neq,
    /// Whether it is among the members of this number.
    Member(u32),
    /// Nothing: the node is a leaf.
    Leaf,
}

/// A node: the nodes that follow where the condition holds and where not, or the weights of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) mode: BranchMode,
    /// Whether a missing value counts as holding.
    pub(super) missing: bool,
    pub(super) feature: u32,
    pub(super) split: f64,
    /// Of a leaf: its weights from the first one on, without the second.
    pub(super) next: [u32; 2],
}

/// An ensemble of trees.
#[derive(Debug)]
pub(super) struct Forest {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    /// Targets and weights of the leaves.
    weights: Vec<(u32, f64)>,
    members: Vec<Vec<f64>>,
}

impl Forest {
    /// Checks that every way through the trees ends at a leaf.
    pub(super) fn new(
        nodes: Vec<Node>,
        roots: Vec<u32>,
        weights: Vec<(u32, f64)>,
        members: Vec<Vec<f64>>,
    ) -> Outcome<Forest> {
        let fits = |node: &Node| match node.mode {
            BranchMode::Leaf => {
                node.next[0] <= node.next[1] && node.next[1] as usize <= weights.len()
            }
            BranchMode::Member(list) if list as usize >= members.len() => false,
            _ => node.next.iter().all(|n| (*n as usize) < nodes.len()),
        };
        refuse!(!nodes.iter().all(fits) || roots.iter().any(|r| *r as usize >= nodes.len()) =>
            "a node names a node, leaf or set that is not there");
        refuse!(cyclic(&nodes) => "a tree has a cycle");
        Ok(Forest { nodes, roots, weights, members })
    }

    pub(super) fn roots(&self) -> usize {
        self.roots.len()
    }

    pub(super) fn target_max(&self) -> Option<usize> {
        self.weights.iter().map(|(target, _)| *target as usize).max()
    }

    pub(super) fn feature_max(&self) -> Option<usize> {
        let inner = self.nodes.iter().filter(|n| n.mode != BranchMode::Leaf);
        inner.map(|n| n.feature as usize).max()
    }

    /// The weights of the leaf that a row of features leads to in a tree.
    pub(super) fn leaf(&self, tree: usize, row: &[f64]) -> &[(u32, f64)] {
        let mut node = &self.nodes[self.roots[tree] as usize];
        loop {
            let [first, second] = node.next;
            let holds = match node.mode {
                BranchMode::Leaf => return &self.weights[first as usize..second as usize],
                mode => self.holds(mode, node, row[node.feature as usize]),
            };
            node = &self.nodes[if holds { first } else { second } as usize];
        }
    }

    #[inline]
    fn holds(&self, mode: BranchMode, node: &Node, v: f64) -> bool {
        let holds = match mode {
            BranchMode::Leq => v <= node.split,
            BranchMode::Lt => v < node.split,
            BranchMode::Gte => v >= node.split,
            BranchMode::Gt => v > node.split,
            BranchMode::Eq => v == node.split,
            BranchMode::Neq => v != node.split,
            BranchMode::Member(list) => self.members[list as usize].contains(&v),
            BranchMode::Leaf => false,
        };
        holds || (node.missing && v.is_nan())
    }
}

/// Whether a node follows itself. Most often every node stands before those that follow it.
fn cyclic(nodes: &[Node]) -> bool {
    let next = |i: usize| match nodes[i].mode {
        BranchMode::Leaf => [usize::MAX; 2],
        _ => nodes[i].next.map(|n| n as usize),
    };
    if (0..nodes.len()).all(|i| next(i).iter().all(|n| *n > i)) {
        return false;
    }
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut states = vec![NEW; nodes.len()];
    for start in 0..nodes.len() {
        let mut way = vec![(start, 0)];
        while let Some((node, taken)) = way.pop() {
            if taken == 0 && states[node] == DONE {
                continue;
            }
            states[node] = OPEN;
            match next(node).get(taken) {
                Some(next) if *next != usize::MAX => {
                    way.push((node, taken + 1));
                    if states[*next] == OPEN {
                        return true;
                    }
                    way.push((*next, 0));
                }
                _ => states[node] = DONE,
            }
        }
    }
    false
}

/// How exact sums are.
#[derive(Clone, Copy)]
pub(super) enum Rounding {
    Single,
    Double,
}

impl Rounding {
    /// Rounds a sum of two numbers, as if it had been computed in the type.
    #[inline]
    pub(super) fn round(self, v: f64) -> f64 {
        match self {
            Rounding::Single => f64::from(v as f32),
            Rounding::Double => v,
        }
    }
}

/// What a row came to: a number for each target that any leaf spoke of.
#[derive(Clone, Debug)]
pub(super) struct Sums(Vec<Option<f64>>);

impl Sums {
    pub(super) fn new(targets: usize) -> Sums {
        Sums(vec![None; targets])
    }

    #[inline]
    pub(super) fn keep(&mut self, target: u32, weight: f64, both: impl Fn(f64, f64) -> f64) {
        let sum = &mut self.0[target as usize];
        *sum = Some(sum.map_or(weight, |sum| both(sum, weight)));
    }

    pub(super) fn map(&mut self, f: impl Fn(f64) -> f64) {
        self.0.iter_mut().flatten().for_each(|v| *v = f(*v));
    }

    pub(super) fn has(&self, target: usize) -> bool {
        matches!(self.0.get(target), Some(Some(_)))
    }

    /// Zero where no leaf spoke of the target.
    pub(super) fn score(&self, target: usize) -> f64 {
        self.0.get(target).copied().flatten().unwrap_or(0.0)
    }
}
