//! Custom operators. Those of TensorFlow within TFLite models ("select TensorFlow operators") have the node of the
//! graph that they were in their options: `FlexErf`. Others are lowered by plugins, as `tflite::Name`.

use super::arguments::RowArguments;
use super::flex::{self, Flex};
use super::item::LiteItem;
use super::kept::SeenAs;
use super::model::LiteOperator;
use super::scope::{LiteRunner, Scope};
use crate::graph::node;
use crate::wire::proto::NodeDef;
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::lower::Value;
use prost::Message;

const PREFIX: &str = "Flex";

/// Bytes of the options of a custom operator that plugins lower. Structs of C and maps of words have some hundred.
const OPTION_BYTES_MAX: usize = 1 << 16;

/// The namespace of custom operators that plugins lower.
const DOMAIN: &str = "tflite";

/// The node that a custom operator is: its options are the operator's name and the node.
fn node(called: &LiteOperator) -> Option<NodeDef> {
    let op = called.custom.strip_prefix(PREFIX)?;
    let Flex::List(items) = flex::read(&called.custom_options)? else { return None };
    let [_, Flex::Text(bytes) | Flex::Bytes(bytes)] = &items[..] else { return None };
    NodeDef::decode(bytes.clone()).ok().filter(|node| node.op == op)
}

/// The options of a custom operator: entries of a map, or the bytes of a struct of C as `options`.
///
/// # Errors
/// `N0213` beyond limits, `N0203` for an option that no argument can be.
fn options(bytes: &Bytes) -> Result<Vec<(String, Value)>> {
    if bytes.len() > OPTION_BYTES_MAX {
        let count = bytes.len();
        let message = format!("The options take {count} bytes; {OPTION_BYTES_MAX} may be.");
        return Err(Diagnostic::new(Code::SourceLimit, message));
    }
    if bytes.is_empty() {
        return Ok(vec![]);
    }
    match flex::read(bytes) {
        Some(Flex::Map(entries)) => {
            let entry = |(name, value): (String, Flex)| match option(value) {
                Some(value) => Ok((name, value)),
                None => {
                    let message =
                        format!("The option `{}` has a map, which is not read.", shown(&name));
                    Err(Diagnostic::new(Code::LayerUnsupported, message))
                }
            };
            entries.into_iter().map(entry).collect()
        }
        _ => Ok(vec![("options".to_owned(), numbers(bytes))]),
    }
}

fn numbers(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| Value::Int((*byte).into())).collect::<Vec<Value>>().into()
}

/// An option as an argument: `null` is one that is left out, and bytes are numbers. `None` for maps.
fn option(value: Flex) -> Option<Value> {
    Some(match value {
        Flex::Map(_) => return None,
        Flex::Null => Value::None,
        Flex::Bool(x) => Value::Bool(x),
        Flex::Int(x) => Value::Int(x),
        Flex::Float(x) => Value::Float(x),
        Flex::Text(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => numbers(&bytes),
        },
        Flex::Bytes(bytes) => numbers(&bytes),
        Flex::List(items) => items.into_iter().map(option).collect::<Option<Vec<Value>>>()?.into(),
    })
}

impl<'a> LiteRunner<'a, '_> {
    /// Runs an operator that TFLite does not have itself.
    ///
    /// # Errors
    /// Those of [`LiteRunner::run`].
    pub(super) fn custom(
        &self,
        scope: &Scope<'a>,
        called: &LiteOperator,
        inputs: Vec<Option<LiteItem>>,
    ) -> Result<Vec<LiteItem>> {
        let node = node(called);
        let own = format!("{DOMAIN}::{}", called.custom);
        let op: &str = if self.driver.is_lowered(&own) { &own } else { &called.custom };
        if node.is_none() && !self.driver.takes(op) {
            return Ok(self.unknown(scope, called));
        }
        let value = |item| match item {
            Some(LiteItem::Tensor(var)) => Some(Value::Var(var)),
            Some(LiteItem::Hole) => Some(Value::Hole),
            Some(LiteItem::Handle(_)) => None,
            None => Some(Value::None),
        };
        let Some(values) = inputs.into_iter().map(value).collect::<Option<Vec<Value>>>() else {
            return Ok(self.unknown(scope, called));
        };
        let Some(node) = node else {
            let mut named = vec![("inputs".to_owned(), values.into())];
            named.extend(options(&called.custom_options)?);
            let row_arguments = RowArguments { named, activation: None };
            let results = self.lower(scope, called, op, row_arguments, SeenAs::Integers)?;
            return self.results(scope, called, results, SeenAs::Integers);
        };
        let (_, mut named) = node::named_inputs(&node, values);
        named.extend(node::attributes(&node));
        let row_arguments = RowArguments { named, activation: None };
        let results = self.lower(scope, called, &node.op, row_arguments, SeenAs::Reals)?;
        self.results(scope, called, results, SeenAs::Reals)
    }
}

#[cfg(test)]
mod tests;
