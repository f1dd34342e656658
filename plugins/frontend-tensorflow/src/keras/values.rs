//! Values of configurations and calls as rows take them: JSON, tensors with their masks, and structures of both.

use super::dtype;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Value};
use serde_json::Value as Json;

/// Elements of a constant that a description holds as text.
const ELEMENTS_MAX: usize = 1 << 24;

/// What a layer is called with, and what it gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// A tensor, and which of its steps count if not all of them do.
    Tensor(Var, Option<Var>),
    List(Vec<Item>),
    /// Sorted by keys.
    Dict(Vec<(String, Item)>),
    /// A number, a word, or nothing.
    Plain(Value),
    /// What could not be converted; it was reported.
    Hole,
}

impl Item {
    pub(crate) fn nothing() -> Item {
        Item::Plain(Value::None)
    }

    /// A single item stands for itself, several are a list.
    pub(crate) fn of(mut items: Vec<Item>) -> Item {
        if items.len() == 1 { items.remove(0) } else { Item::List(items) }
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            Item::Tensor(var, _) => Value::Var(*var),
            Item::List(items) => Value::List(items.iter().map(Item::value).collect()),
            Item::Dict(items) => Value::List(items.iter().map(|(_, item)| item.value()).collect()),
            Item::Plain(value) => value.clone(),
            Item::Hole => Value::Hole,
        }
    }

    /// The tensor, if it is one.
    pub(crate) fn tensor(&self) -> Option<Var> {
        match self {
            Item::Tensor(var, _) => Some(*var),
            _ => None,
        }
    }

    /// Which steps count, if it is a tensor and not all of them do.
    pub(crate) fn mask(&self) -> Option<Var> {
        match self {
            Item::Tensor(_, mask) => *mask,
            _ => None,
        }
    }

    /// Whether it is true, as Python has it.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Item::Plain(Value::None) => false,
            Item::Plain(Value::Bool(x)) => *x,
            Item::Plain(Value::Int(x)) => *x != 0,
            Item::Plain(Value::Float(x)) => *x != 0.0,
            Item::Plain(Value::Text(x)) => !x.is_empty(),
            Item::List(items) => !items.is_empty(),
            Item::Dict(items) => !items.is_empty(),
            Item::Plain(_) | Item::Tensor(..) | Item::Hole => true,
        }
    }

    /// All that is neither a list nor a dict, in order.
    pub(crate) fn leaves(&self) -> Vec<&Item> {
        match self {
            Item::List(items) => items.iter().flat_map(Item::leaves).collect(),
            Item::Dict(items) => items.iter().flat_map(|(_, item)| item.leaves()).collect(),
            leaf => vec![leaf],
        }
    }

    /// The same structure with other leaves.
    pub(crate) fn map(self, f: &mut impl FnMut(Item) -> Lowered<Item>) -> Lowered<Item> {
        Ok(match self {
            Item::List(items) => {
                Item::List(items.into_iter().map(|item| item.map(f)).collect::<Lowered<_>>()?)
            }
            Item::Dict(items) => {
                let items = items.into_iter().map(|(key, item)| Ok((key, item.map(f)?)));
                Item::Dict(items.collect::<Lowered<_>>()?)
            }
            leaf => f(leaf)?,
        })
    }

    /// The masks of its tensors in the same structure; nothing if no tensor has one.
    pub(crate) fn masks(&self) -> Item {
        if self.leaves().iter().all(|leaf| leaf.mask().is_none()) {
            return Item::nothing();
        }
        let mask = |item: Item| {
            Ok(item.mask().map_or_else(Item::nothing, |mask| Item::Tensor(mask, None)))
        };
        self.clone().map(&mut { mask }).unwrap_or(Item::Hole)
    }
}

impl From<Value> for Item {
    fn from(value: Value) -> Item {
        match value {
            Value::Var(var) => Item::Tensor(var, None),
            Value::List(items) => Item::List(items.into_iter().map(Item::from).collect()),
            Value::Hole => Item::Hole,
            other => Item::Plain(other),
        }
    }
}

impl From<Var> for Item {
    fn from(var: Var) -> Item {
        Item::Tensor(var, None)
    }
}

/// A value of a configuration: objects are their text.
pub(crate) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(x) => Value::Bool(*x),
        Json::String(x) => infinite(x).map_or_else(|| Value::Text(x.clone()), Value::Float),
        Json::Array(items) => Value::List(items.iter().map(value).collect()),
        Json::Number(x) => match x.as_i64() {
            Some(x) => Value::Int(x),
            None => Value::Float(x.as_f64().unwrap_or(f64::NAN)),
        },
        Json::Object(_) => Value::Text(json.to_string()),
    }
}

/// A constant that a call has as lists of numbers.
///
/// # Errors
/// `N0201` if the lists do not have one shape or hold something else, `N0213` if there are too many.
pub(crate) fn constant(b: &GraphBuilder, json: &Json, word: &str) -> Lowered<Var> {
    let damaged = || {
        let message = format!("A constant of a call is no tensor of `{}`.", shown(word));
        b.diagnostic(Code::SourceSyntax, message)
    };
    let dtype = dtype::of(word).filter(|d| *d != DataType::String).ok_or_else(damaged)?;
    let mut dims = vec![];
    let mut level = json;
    while let Json::Array(items) = level {
        dims.push(items.len());
        let Some(first) = items.first() else { break };
        level = first;
    }
    let mut bytes = vec![];
    let found = fill(json, &dims, dtype, &mut bytes).ok_or_else(damaged)?;
    refuse!(found > ELEMENTS_MAX =>
        b.diagnostic(Code::SourceLimit, format!("A constant of a call has more than {ELEMENTS_MAX} elements.")));
    let tensor = Tensor::new(dtype, dims, bytes.into()).map_err(|_| damaged())?;
    Ok(b.constant(tensor))
}

/// Writes the elements of nested lists; gives their number.
fn fill(json: &Json, dims: &[usize], dtype: DataType, to: &mut Vec<u8>) -> Option<usize> {
    match (json, dims) {
        (Json::Array(items), [n, rest @ ..]) if items.len() == *n => {
            items.iter().map(|item| fill(item, rest, dtype, to)).sum()
        }
        (Json::Array(_), _) | (_, [_, ..]) => None,
        (number, []) => {
            let operand = match number {
                Json::Bool(x) => Operand::Int(i64::from(*x)),
                Json::Number(x) => match x.as_i64() {
                    Some(x) => Operand::Int(x),
                    None => Operand::Float(x.as_f64()?),
                },
                // Python's JSON has words for them, which are texts by now.
                Json::String(word) => Operand::Float(infinite(word)?),
                _ => return None,
            };
            let one = match (dtype, &operand) {
                (DataType::Bool, Operand::Int(x)) => {
                    Tensor::new(DataType::Bool, vec![], vec![u8::from(*x != 0)].into()).ok()?
                }
                _ => operand.to_tensor(Some(dtype))?,
            };
            to.extend_from_slice(&one.bytes());
            Some(1)
        }
    }
}

/// Numbers that JSON does not have, as `config::words` leaves them.
fn infinite(word: &str) -> Option<f64> {
    match word {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A finding about a layer.
pub(crate) fn problem(
    path: &str,
    class: &str,
    code: Code,
    message: impl Into<String>,
) -> Diagnostic {
    Diagnostic::new(code, message).at(onnxd_plugin_sdk::diagnostics::Layer::new(path, class))
}
