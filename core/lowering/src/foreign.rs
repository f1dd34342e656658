//! Operators of foreign domains: a source's operator as a node; `pass.rs` reads it.
//!
//! Tensors are the node's inputs, in the order of the arguments. Other arguments are attributes: those by position are
//! called `argument_2`, the others by their names. Arguments that are left out are nowhere. If the inputs are not just
//! the first arguments, the attribute `onnxd_inputs` names the argument of each: `3`, `bias`, or `2[]` for an item of a
//! list.

use super::{Lowered, Value};
use onnxd_build::{GraphBuilder, Operand};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::Attr;

/// Which argument each input is for.
pub(super) const INPUTS: &str = "onnxd_inputs";

/// Begins the names of attributes that are arguments by position.
pub(super) const POSITIONAL: &str = "argument_";

/// Arguments by position, and with names.
pub(super) type ForeignArguments = (Vec<Value>, Vec<(String, Value)>);

/// Adds a source's operator as a node of `domain`. `None` if an argument is a hole.
pub(super) fn add(
    b: &GraphBuilder,
    (domain, op): (&str, &str),
    (arguments, named): ForeignArguments,
    results: usize,
) -> Lowered<Option<Vec<Value>>> {
    let numbered = arguments.into_iter().enumerate().map(|(i, v)| (Some(i + 1), String::new(), v));
    let all: Vec<_> = numbered.chain(named.into_iter().map(|(n, v)| (None, n, v))).collect();
    if all.iter().any(|(_, _, value)| value.has_hole()) {
        return Ok(None);
    }
    let (mut inputs, mut owners, mut attributes) = (vec![], vec![], vec![]);
    for (number, name, value) in all {
        let owner = number.map_or(name.clone(), |n| n.to_string());
        match value {
            Value::None => {}
            Value::Var(v) => {
                inputs.push(Operand::Var(v));
                owners.push(owner);
            }
            Value::List(items) if is_tensors(&items) => {
                owners.extend(items.iter().map(|_| format!("{owner}[]")));
                inputs.extend(items.into_iter().map(|item| match item {
                    Value::Var(v) => Operand::Var(v),
                    _ => Operand::Absent,
                }));
            }
            other => {
                let name = number.map_or(name, |n| format!("{POSITIONAL}{n}"));
                let attr = attribute(&other).ok_or_else(|| inexpressible(b, &owner, &other))?;
                attributes.push((name, attr));
            }
        }
    }
    if owners.iter().enumerate().any(|(i, owner)| *owner != (i + 1).to_string()) {
        let owners = owners.into_iter().map(Into::into).collect();
        attributes.push((INPUTS.to_owned(), Attr::Strs(owners)));
    }
    let mut call = b.op(domain, op, inputs);
    for (name, attr) in &attributes {
        call = call.set(name, attr.clone());
    }
    Ok(Some(call.list(results)?.into_iter().map(Value::from).collect()))
}

fn is_tensors(items: &[Value]) -> bool {
    items.iter().any(|item| matches!(item, Value::Var(_)))
        && items.iter().all(|item| matches!(item, Value::Var(_) | Value::None))
}

fn inexpressible(b: &GraphBuilder, argument: &str, value: &Value) -> Diagnostic {
    let (argument, kind) = (shown(argument), value.kind());
    let text = format!("The argument `{argument}`, {kind}, cannot be an attribute of ONNX.");
    b.diagnostic(Code::LayerUnsupported, text)
}

fn attribute(value: &Value) -> Option<Attr> {
    Some(match value {
        Value::Bool(x) => Attr::Int(i64::from(*x)),
        Value::Int(x) => Attr::Int(*x),
        Value::Float(x) => Attr::Float(single(*x)?),
        Value::Text(x) => Attr::Str(x.clone().into()),
        Value::List(items) => list(items)?,
        _ => return None,
    })
}

/// A list whose items are of one kind; integers may stand among numbers.
fn list(items: &[Value]) -> Option<Attr> {
    let int = |item: &Value| match item {
        Value::Int(x) => Some(*x),
        Value::Bool(x) => Some(i64::from(*x)),
        _ => None,
    };
    let float = |item: &Value| match item {
        Value::Float(x) => single(*x),
        other => int(other).map(|x| x as f32),
    };
    let text = |item: &Value| match item {
        Value::Text(x) => Some(x.clone().into()),
        _ => None,
    };
    let ints = items.iter().map(int).collect::<Option<_>>().map(Attr::Ints);
    let floats = || items.iter().map(float).collect::<Option<_>>().map(Attr::Floats);
    let texts = || items.iter().map(text).collect::<Option<_>>().map(Attr::Strs);
    ints.or_else(floats).or_else(texts)
}

/// As attributes hold numbers; none that is finite becomes infinite.
fn single(x: f64) -> Option<f32> {
    Some(x as f32).filter(|single| single.is_finite() || !x.is_finite())
}
