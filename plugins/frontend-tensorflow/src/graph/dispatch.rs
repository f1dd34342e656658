//! Runs nodes on the values of an ONNX graph that is built on the way: each is computed when an output needs it. Calls
//! are inlined, variables have the values that were written last, and what functions carry besides tensors stays here.

use super::item::GraphItem;
use super::node::{self, Reference};
use super::scope::{GraphRunner, Scope};
use super::{calls, control, effects, frames, idioms, lists, narrow, resources};
use crate::ops::activation::GELU;
use crate::wire::proto::NodeDef;
use crate::wire::tensor::{REPEATED_BYTES_MAX, repeated_bytes, tensor_of};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::lower::Value;
use std::collections::HashMap;

/// Operators that give what they get.
const PASSES: [&str; 8] = [
    "Identity", "IdentityN", "StopGradient", "PreventGradient", "CheckNumerics", "CheckNumericsV2",
    "Snapshot", "PlaceholderWithDefault",
];

impl<'a> GraphRunner<'a, '_> {
    /// Gives a tensor of the main graph that an input of the model stands for.
    ///
    /// # Errors
    /// `N0201` if the graph does not have it, `N0203` if the node gives several.
    pub(crate) fn feed(&self, scope: &Scope<'a>, place: &str, item: GraphItem) -> Result<()> {
        let Some(index) = self.node_of(scope, place)? else { return Ok(()) };
        let node = &scope.body.nodes[index];
        let count = node::output_count(node, self.library.get(node.op.as_str()).copied());
        if count != 1 {
            let message = format!("The input `{}` is one of several results.", shown(place));
            return Err(self.problem(scope, node, Code::LayerUnsupported, message));
        }
        scope.settle(index, vec![item]);
        Ok(())
    }

    /// The tensor that a text refers to.
    ///
    /// # Errors
    /// `N0201` if there is none, `N0206` if it depends on itself, `N0213` beyond limits.
    pub(crate) fn value(&self, scope: &Scope<'a>, text: &str) -> Result<GraphItem> {
        if let Some(index) = self.node_of(scope, text)? {
            self.evaluate(scope, index)?;
        }
        self.known(scope, text)
    }

    /// The node that a text refers to; `None` for an argument of the function, and for control inputs.
    pub(crate) fn node_of(&self, scope: &Scope<'a>, text: &str) -> Result<Option<usize>> {
        let Some(reference) = node::reference(text) else { return Ok(None) };
        let name = reference.name();
        if scope.args.contains_key(name) {
            return Ok(None);
        }
        scope.body.find(name).map(Some).ok_or_else(|| {
            let message = format!("A node reads `{}`, which the graph does not have.", shown(text));
            Diagnostic::new(Code::SourceSyntax, message)
        })
    }

    /// What a text refers to, once its node has run.
    fn known(&self, scope: &Scope<'a>, text: &str) -> Result<GraphItem> {
        let none = || {
            let message = format!("A node reads `{}`, and there is no such output.", shown(text));
            Diagnostic::new(Code::SourceSyntax, message)
        };
        let reference = node::reference(text).ok_or_else(none)?;
        if let Some(items) = scope.args.get(reference.name()) {
            return items.get(reference.at()).cloned().ok_or_else(none);
        }
        let index = scope.body.find(reference.name()).ok_or_else(none)?;
        let node = &scope.body.nodes[index];
        let slot = match reference {
            Reference::Slot(_, slot) => slot,
            Reference::Output(_, output, at) => {
                node::slot(node, self.library.get(node.op.as_str()).copied(), output, at)
            }
        };
        scope.output(index, slot).ok_or_else(none)
    }

    /// Runs a node and all that it needs, without recursion along the graph.
    ///
    /// # Errors
    /// As [`GraphRunner::value`].
    pub(crate) fn evaluate(&self, scope: &Scope<'a>, index: usize) -> Result<()> {
        let mut open = HashMap::new();
        let mut stack = vec![index];
        while let Some(index) = stack.last().copied() {
            if scope.has_run(index) {
                stack.pop();
                continue;
            }
            let node = &scope.body.nodes[index];
            let mut waiting = vec![];
            if frames::is_lazy(&node.op) {
                waiting = frames::needs(self, scope, index)?;
                waiting.retain(|i| !scope.has_run(*i));
            } else {
                for text in &node.input {
                    let needed = self.node_of(scope, text).map_err(|e| e.at(scope.layer(node)))?;
                    waiting.extend(needed.filter(|i| !scope.has_run(*i)));
                }
            }
            if waiting.is_empty() {
                let items = self.node(scope, index)?;
                scope.settle(index, items);
            } else if open.insert(index, ()).is_some() {
                let message = "The node depends on its own result.";
                return Err(self.problem(scope, node, Code::LayerCycle, message));
            } else {
                // The first one is on top.
                stack.extend(waiting.into_iter().rev());
            }
        }
        Ok(())
    }

    /// Runs one node whose inputs are known.
    fn node(&self, scope: &Scope<'a>, index: usize) -> Result<Vec<GraphItem>> {
        let node = &scope.body.nodes[index];
        self.work(scope, node, 1)?;
        if frames::is_lazy(&node.op) {
            return frames::run(self, scope, index);
        }
        if let Some(x) = idioms::gelu(&scope.body, node)
            && let GraphItem::Tensor(x) = self.known(scope, x)?
        {
            let named = vec![("x".to_owned(), Value::Var(x))];
            return Ok(self.lower(scope, node, GELU, vec![], named));
        }
        let data = node.input.iter().filter(|text| !text.starts_with('^'));
        let inputs =
            data.map(|text| self.known(scope, text)).collect::<Result<Vec<GraphItem>>>()?;
        let inputs = effects::present(self, scope, node, inputs);
        if node.op == "Const" {
            return self.constant(scope, node);
        }
        if PASSES.contains(&node.op.as_str()) {
            return Ok(inputs);
        }
        if let Some(items) = frames::passed(node, &inputs) {
            return Ok(items);
        }
        for special in [calls::run, resources::run, lists::run, control::run] {
            if let Some(items) = special(self, scope, node, &inputs)? {
                return Ok(items);
            }
        }
        Ok(self.operator(scope, node, inputs))
    }

    fn constant(&self, scope: &Scope<'a>, node: &NodeDef) -> Result<Vec<GraphItem>> {
        let Some(proto) = node::constant(node) else {
            let message = "The constant has no value.";
            return Err(self.problem(scope, node, Code::SourceSyntax, message));
        };
        let repeated = self.repeated.get().saturating_add(repeated_bytes(proto));
        self.repeated.set(repeated);
        if repeated > REPEATED_BYTES_MAX {
            let message = "Constants of the graph repeat their values to too many bytes.";
            return Err(self.problem(scope, node, Code::SourceLimit, message));
        }
        let tensor = tensor_of(proto).map_err(|e| e.at(scope.layer(node)))?;
        let b = self.builder();
        let small = tensor.len() <= 1 && tensor.as_strings().is_none();
        let name = format!("{}{}", scope.path, node.name);
        let var = match (self.states.input(b, &name, &tensor)?, small) {
            (Some(input), _) => input,
            (None, true) => b.constant(tensor),
            (None, false) => b.parameter(&name, tensor),
        };
        self.states.freeze(&name, var);
        Ok(vec![GraphItem::Tensor(var)])
    }

    /// Hands an operator to the table.
    fn operator(
        &self,
        scope: &Scope<'a>,
        node: &NodeDef,
        inputs: Vec<GraphItem>,
    ) -> Vec<GraphItem> {
        let mut values = vec![];
        for item in inputs {
            values.push(match item {
                GraphItem::Tensor(var) => Value::Var(var),
                GraphItem::Hole => Value::Hole,
                GraphItem::Resource(_) | GraphItem::List(_) => {
                    let message = "The operator reads a variable or a list as a whole.";
                    return self.refuse(scope, node, Code::LayerUnsupported, message);
                }
            });
        }
        let (arguments, mut named) = node::named_inputs(node, values);
        if let Some((name, _)) = node::generic(node) {
            let message = format!("The attribute `{}` is left open.", shown(name));
            return self.refuse(scope, node, Code::LayerUnsupported, message);
        }
        named.extend(node::attributes(node));
        let run = |arguments, named| self.lower(scope, node, &node.op, arguments, named);
        match narrow::is_short(node) {
            true => narrow::widened(self.driver, scope.layer(node), node, (arguments, named), run),
            false => run(arguments, named),
        }
    }
}
