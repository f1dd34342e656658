//! What follows of elements without computing them: that conditions hold everywhere or nowhere, and that integers are
//! not negative.

use onnxd_plugin_sdk::ir::{Node, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::Rewriter;
use std::cell::Cell;

/// Values that are looked at for one answer.
const VALUES_MAX: usize = 64;
/// Elements of a constant that are looked at.
const ELEMENTS_MAX: usize = 1 << 12;

/// Operators all of whose elements are elements of their first input.
const MOVES: [&str; 13] = [
    "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
];

/// A search through what computes a value.
pub(crate) struct ValueSearch<'a, 'g> {
    cx: &'a Rewriter<'g>,
    left: Cell<usize>,
}

impl<'a, 'g> ValueSearch<'a, 'g> {
    pub(crate) fn new(cx: &'a Rewriter<'g>) -> ValueSearch<'a, 'g> {
        ValueSearch { cx, left: Cell::new(VALUES_MAX) }
    }

    /// What all elements of the condition `v` are.
    pub(crate) fn truth(&self, v: ValueId) -> Option<bool> {
        if let Some(all) = self.integers(v) {
            let first = *all.first()?;
            return all.iter().all(|x| *x == first).then_some(first != 0);
        }
        let node = self.computed(v)?;
        let truth = |i: usize| self.truth(node.input(i)?);
        let [a, b] = [0, 1].map(|i| node.input(i));
        match node.op.as_str() {
            op if MOVES.contains(&op) => truth(0),
            "Not" => truth(0).map(|x| !x),
            "And" => match (truth(0), truth(1)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (a, b) => a.zip(b).map(|_| true),
            },
            "Or" => match (truth(0), truth(1)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (a, b) => a.zip(b).map(|_| false),
            },
            "Xor" => truth(0).zip(truth(1)).map(|(a, b)| a != b),
            "Less" => self.is_below(a?, b?),
            "Greater" => self.is_below(b?, a?),
            "GreaterOrEqual" => self.is_below(a?, b?).map(|x| !x),
            "LessOrEqual" => self.is_below(b?, a?).map(|x| !x),
            _ => None,
        }
    }

    /// Whether all integers of `a` are below those of `b`, or none is.
    fn is_below(&self, a: ValueId, b: ValueId) -> Option<bool> {
        if let Some(b) = self.integers(b) {
            // Nothing that is not negative is below 0.
            return (b.iter().all(|x| *x <= 0) && self.is_natural(a)).then_some(false);
        }
        let a = self.integers(a)?;
        (a.iter().all(|x| *x < 0) && self.is_natural(b)).then_some(true)
    }

    /// Whether no element of the integers `v` is negative.
    fn is_natural(&self, v: ValueId) -> bool {
        if let Some(all) = self.integers(v) {
            return all.iter().all(|x| *x >= 0);
        }
        let Some(node) = self.computed(v) else { return false };
        let natural = |i: usize| node.input(i).is_some_and(|v| self.is_natural(v));
        let positive = |i: usize| {
            let all = node.input(i).and_then(|v| self.integers(v));
            all.is_some_and(|all| all.iter().all(|x| *x > 0))
        };
        match node.op.as_str() {
            // The first output of TopK is of its input.
            "TopK" => node.output(1) == Some(v),
            "ArgMax" | "ArgMin" | "NonMaxSuppression" | "NonZero" | "Shape" | "Size" => true,
            op if MOVES.contains(&op) => natural(0),
            "Concat" | "Min" => (0..node.inputs.len()).all(natural),
            "Div" => natural(0) && positive(1),
            // The remainder has the sign of the divisor.
            "Mod" => positive(1) && (node.int("fmod", 0) == 0 || natural(0)),
            "Where" => natural(1) && natural(2),
            _ => false,
        }
    }

    /// The integers or conditions of a small constant.
    fn integers(&self, v: ValueId) -> Option<Vec<i64>> {
        let small = |constant: &&Tensor| constant.len() <= ELEMENTS_MAX;
        self.cx.graph.constant(v).filter(small)?.to_i64s()
    }

    /// The operator of the standard that computes `v`.
    fn computed(&self, v: ValueId) -> Option<&'a Node> {
        self.left.set(self.left.get().checked_sub(1)?);
        let node = &self.cx.graph[self.cx.graph.producer(v)?];
        node.is_standard().then_some(node)
    }
}
