//! Custom operators. Those of TensorFlow within TFLite models ("select TensorFlow operators") have the node of the
//! graph that they were in their options: `FlexErf`. Others are lowered by plugins, as `tflite::Name`.

use super::arguments::Arguments;
use super::flex::{self, Flex};
use super::model::Operator;
use super::run::{Item, Runner, Scope};
use crate::graph::node;
use crate::wire::proto::NodeDef;
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::lower::Value;
use prost::Message;

const PREFIX: &str = "Flex";

/// The namespace of custom operators that plugins lower.
const DOMAIN: &str = "tflite";

/// The node that a custom operator is: its options are the operator's name and the node.
fn node(called: &Operator) -> Option<NodeDef> {
    let op = called.custom.strip_prefix(PREFIX)?;
    let Flex::List(items) = flex::read(&called.custom_options)? else { return None };
    let [_, Flex::Bytes(bytes)] = &items[..] else { return None };
    NodeDef::decode(bytes.clone()).ok().filter(|node| node.op == op)
}

/// The options of a custom operator: entries of a map, or the bytes of a struct of C as `options`.
fn options(bytes: &Bytes) -> Vec<(String, Value)> {
    if bytes.is_empty() {
        return vec![];
    }
    match flex::read(bytes) {
        Some(Flex::Map(entries)) => {
            let entry = |(name, value)| Some((name, option(value)?));
            entries.into_iter().filter_map(entry).collect()
        }
        _ => {
            let all: Vec<Value> = bytes.iter().map(|byte| Value::Int((*byte).into())).collect();
            vec![("options".to_owned(), all.into())]
        }
    }
}

fn option(value: Flex) -> Option<Value> {
    Some(match value {
        Flex::Null | Flex::Map(_) => return None,
        Flex::Bool(x) => Value::Bool(x),
        Flex::Int(x) => Value::Int(x),
        Flex::Float(x) => Value::Float(x),
        Flex::Bytes(bytes) => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
        Flex::List(items) => items.into_iter().map(option).collect::<Option<Vec<Value>>>()?.into(),
    })
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
        let own = format!("{DOMAIN}::{}", called.custom);
        let op: &str = if self.driver.is_lowered(&own) { &own } else { &called.custom };
        if node.is_none() && !self.driver.takes(op) {
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
            let mut named = vec![("inputs".to_owned(), values.into())];
            named.extend(options(&called.custom_options));
            let found = Arguments { named, activation: None };
            let results = self.lower(scope, called, op, found, true)?;
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
