//! Values of configurations and calls as rows take them: JSON, tensors with their masks, and structures of both.

use super::dtype::dtype_of_word;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Value};
use serde_json::Value as Json;

/// Elements of a constant that a description holds as text.
const ELEMENTS_MAX: usize = 1 << 24;

/// What a layer is called with, and what it gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KerasItem {
    /// A tensor, and which of its steps count if not all of them do.
    Tensor(Var, Option<Var>),
    List(Vec<KerasItem>),
    /// Sorted by keys.
    Dict(Vec<(String, KerasItem)>),
    /// A number, a word, or nothing.
    Plain(Value),
    /// What could not be converted; it was reported.
    Hole,
}

impl KerasItem {
    pub(crate) fn nothing() -> KerasItem {
        KerasItem::Plain(Value::None)
    }

    /// A single item stands for itself, several are a list.
    pub(crate) fn of(mut items: Vec<KerasItem>) -> KerasItem {
        if items.len() == 1 { items.remove(0) } else { KerasItem::List(items) }
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            KerasItem::Tensor(var, _) => Value::Var(*var),
            KerasItem::List(items) => Value::List(items.iter().map(KerasItem::value).collect()),
            KerasItem::Dict(items) => {
                Value::List(items.iter().map(|(_, item)| item.value()).collect())
            }
            KerasItem::Plain(value) => value.clone(),
            KerasItem::Hole => Value::Hole,
        }
    }

    /// The tensor, if it is one.
    pub(crate) fn tensor(&self) -> Option<Var> {
        match self {
            KerasItem::Tensor(var, _) => Some(*var),
            _ => None,
        }
    }

    /// Which steps count, if it is a tensor and not all of them do.
    pub(crate) fn mask(&self) -> Option<Var> {
        match self {
            KerasItem::Tensor(_, mask) => *mask,
            _ => None,
        }
    }

    /// Whether it is true, as Python has it.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            KerasItem::Plain(Value::None) => false,
            KerasItem::Plain(Value::Bool(x)) => *x,
            KerasItem::Plain(Value::Int(x)) => *x != 0,
            KerasItem::Plain(Value::Float(x)) => *x != 0.0,
            KerasItem::Plain(Value::Text(x)) => !x.is_empty(),
            KerasItem::List(items) => !items.is_empty(),
            KerasItem::Dict(items) => !items.is_empty(),
            KerasItem::Plain(_) | KerasItem::Tensor(..) | KerasItem::Hole => true,
        }
    }

    /// All that is neither a list nor a dict, in order.
    pub(crate) fn leaves(&self) -> Vec<&KerasItem> {
        match self {
            KerasItem::List(items) => items.iter().flat_map(KerasItem::leaves).collect(),
            KerasItem::Dict(items) => items.iter().flat_map(|(_, item)| item.leaves()).collect(),
            leaf => vec![leaf],
        }
    }

    /// The same structure with other leaves.
    pub(crate) fn map(
        self,
        f: &mut impl FnMut(KerasItem) -> Lowered<KerasItem>,
    ) -> Lowered<KerasItem> {
        Ok(match self {
            KerasItem::List(items) => {
                KerasItem::List(items.into_iter().map(|item| item.map(f)).collect::<Lowered<_>>()?)
            }
            KerasItem::Dict(items) => {
                let items = items.into_iter().map(|(key, item)| Ok((key, item.map(f)?)));
                KerasItem::Dict(items.collect::<Lowered<_>>()?)
            }
            leaf => f(leaf)?,
        })
    }

    /// The masks of its tensors in the same structure; nothing if no tensor has one.
    pub(crate) fn masks(&self) -> KerasItem {
        if self.leaves().iter().all(|leaf| leaf.mask().is_none()) {
            return KerasItem::nothing();
        }
        let mask = |item: KerasItem| {
            Ok(item.mask().map_or_else(KerasItem::nothing, |mask| KerasItem::Tensor(mask, None)))
        };
        self.clone().map(&mut { mask }).unwrap_or(KerasItem::Hole)
    }
}

impl From<Value> for KerasItem {
    fn from(value: Value) -> KerasItem {
        match value {
            Value::Var(var) => KerasItem::Tensor(var, None),
            Value::List(items) => KerasItem::List(items.into_iter().map(KerasItem::from).collect()),
            Value::Hole => KerasItem::Hole,
            other => KerasItem::Plain(other),
        }
    }
}

impl From<Var> for KerasItem {
    fn from(var: Var) -> KerasItem {
        KerasItem::Tensor(var, None)
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
    let dtype = dtype_of_word(word).filter(|d| *d != DataType::String).ok_or_else(damaged)?;
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
