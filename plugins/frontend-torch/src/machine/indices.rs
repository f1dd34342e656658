//! Inputs that are indices: a file may say that an input is a tensor, and not of which elements.

use super::arguments::Bound;
use super::{Item, Machine, Result};
use crate::diag::Code;
use crate::schema::Schema;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::Origin;

/// Views and copies between an input and what takes it as indices.
const STEPS_MAX: usize = 32;

/// Operators whose result holds elements of their first input.
const MOVES: [&str; 9] = [
    "Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "Expand",
    "Split",
];

impl Machine<'_> {
    /// Supposes the element type of the input number `at`.
    pub(crate) fn suppose(&self, input: Var, at: usize) {
        self.supposed.borrow_mut().insert(input, at);
    }

    /// Stops if an operator takes an input as indices that was supposed to be none; `index` then has its number.
    pub(super) fn see_indices(&self, schema: &Schema, bound: &Bound) -> Result<()> {
        if self.supposed.borrow().is_empty() {
            return Ok(());
        }
        for (name, item) in bound {
            let taken = match (schema.name, *name) {
                (_, "index" | "indices")
                | ("aten::embedding_bag", "offsets")
                | ("aten::one_hot", "input")
                | ("aten::nll_loss" | "aten::cross_entropy_loss", "target") => item,
                _ => continue,
            };
            let items = taken.items().unwrap_or_else(|| vec![taken.clone()]);
            for item in items.iter().filter(|item| matches!(item, Item::Tensor(_))) {
                if let Some(at) = self.supposed_input(self.var_of(item)?) {
                    self.index.set(Some(at));
                    return Err(self.problem(Code::LayerParameter, "An input is an index."));
                }
            }
        }
        Ok(())
    }

    /// The input whose elements a value holds, if its type is supposed.
    fn supposed_input(&self, var: Var) -> Option<usize> {
        let b = self.builder();
        let supposed = self.supposed.borrow();
        let mut id = b.id(var).ok()?;
        for _ in 0..STEPS_MAX {
            if let Some(at) = supposed.get(&b.var(id)) {
                return Some(*at);
            }
            let graph = b.graph();
            let Origin::Node(node, _) = graph[id].origin() else { return None };
            id = graph[node].input(0).filter(|_| MOVES.contains(&graph[node].op.as_str()))?;
        }
        None
    }
}
