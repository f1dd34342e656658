//! Operators of TensorFlow within TFLite models ("select TensorFlow operators"): the custom operator `FlexErf` has the
//! node of the graph that it was in its options.

use super::arguments::Arguments;
use super::flex::{self, Flex};
use super::model::Operator;
use super::run::{Item, Runner, Scope};
use crate::graph::node;
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::lower::Value;
use prost::Message;

const PREFIX: &str = "Flex";

/// The node that a custom operator is: its options are the operator's name and the node.
fn node(called: &Operator) -> Option<NodeDef> {
    let op = called.custom.strip_prefix(PREFIX)?;
    let Flex::List(items) = flex::read(&called.custom_options)? else { return None };
    let [_, Flex::Bytes(bytes)] = &items[..] else { return None };
    NodeDef::decode(bytes.clone()).ok().filter(|node| node.op == op)
}

impl<'a> Runner<'a, '_> {
    /// Runs an operator that TFLite does not have itself.
    ///
    /// # Errors
    /// Those of [`Runner::run`].
    pub(super) fn custom(
        &self,
        scope: &Scope<'a>,
        called: &Operator,
        inputs: Vec<Option<Item>>,
    ) -> Result<Vec<Item>> {
        let node = node(called);
        if node.is_none() && !self.driver.takes(&called.custom) {
            return Ok(self.refused(scope, called));
        }
        let value = |item| match item {
            Some(Item::Tensor(var)) => Some(Value::Var(var)),
            Some(Item::Hole) => Some(Value::Hole),
            Some(Item::Handle(_)) => None,
            None => Some(Value::None),
        };
        let Some(values) = inputs.into_iter().map(value).collect::<Option<Vec<Value>>>() else {
            return Ok(self.refused(scope, called));
        };
        let Some(node) = node else {
            let named = vec![("inputs".to_owned(), values.into())];
            let found = Arguments { named, activation: None };
            let results = self.lower(scope, called, &called.custom, found, true)?;
            return self.results(scope, called, results, true);
        };
        let (_, mut named) = node::named_inputs(&node, values);
        named.extend(node::attributes(&node));
        let found = Arguments { named, activation: None };
        let results = self.lower(scope, called, &node.op, found, false)?;
        self.results(scope, called, results, false)
    }
}

#[cfg(test)]
mod tests;
