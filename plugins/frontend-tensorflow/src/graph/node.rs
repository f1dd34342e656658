//! What a node reads and gives: references between nodes, attributes, and numbers of outputs.

use crate::ops::RESULTS_MAX;
use crate::schema::{self, Arg, Count, Default};
use crate::wire::dtype::{self, dtype_of_number};
use crate::wire::proto::{
    Attr, AttrValue, FunctionDef, GraphDef, ListValue, NodeDef, TensorProto, TensorShapeProto,
};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Value;
use std::collections::HashMap;

/// Attributes that say how and where TensorFlow computes, but not what, and how long lists of inputs are.
const WITHOUT_EFFECT: [&str; 27] = [
    "N", "num_args", "num_host_args", "num_side_inputs", "use_cudnn_on_gpu", "use_locking",
    "validate_shape", "validate_indices", "incompatible_shape_error", "parallel_iterations",
    "swap_memory", "container", "shared_name", "allowed_devices", "debug_name", "message",
    "grad_a", "grad_b", "shape", "output_shapes", "config", "config_proto", "executor_type",
    "grad_x", "grad_y", "init", "precision_config",
];

/// Element types that results have and inputs do not tell.
const TYPES: [&str; 11] = [
    "type", "dtype", "DstT", "out_type", "output_type", "Tout", "out_idx", "element_dtype",
    "output_dtype", "Toutput", "Targmax",
];

/// Further ones, each of one operator. Elsewhere inputs tell types of these names.
const OWN_TYPES: [(&str, &str); 4] = [
    ("QuantizeV2", "T"),
    ("RaggedRange", "Tsplits"),
    ("TopKV2", "index_type"),
    ("XlaConvV2", "preferred_element_type"),
];

/// A tensor that a node reads: output `slot` of a node, or an argument of the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    /// `node`, `node:1` of a graph.
    Slot(&'a str, usize),
    /// `node:output:1` of a function.
    Output(&'a str, &'a str, usize),
}

impl<'a> Reference<'a> {
    /// The name of the node or argument.
    pub(crate) fn name(&self) -> &'a str {
        let (Reference::Slot(name, _) | Reference::Output(name, ..)) = self;
        name
    }

    /// The number behind it.
    pub(crate) fn at(&self) -> usize {
        let (Reference::Slot(_, at) | Reference::Output(_, _, at)) = self;
        *at
    }
}

/// The node or argument that a text names, also a control input.
pub(crate) fn name_of(text: &str) -> &str {
    let text = text.trim_start_matches('^');
    reference(text).map_or(text, |found| found.name())
}

/// What the text of an input refers to; `None` for a control input.
pub(crate) fn reference(text: &str) -> Option<Reference<'_>> {
    if text.starts_with('^') {
        return None;
    }
    let mut parts = text.rsplitn(3, ':');
    let last = parts.next().unwrap_or_default();
    let (Some(before), Ok(index)) = (parts.next(), last.parse()) else {
        return Some(Reference::Slot(text, 0));
    };
    Some(match parts.next() {
        Some(node) => Reference::Output(node, before, index),
        None => Reference::Slot(before, index),
    })
}

/// What a text refers to: a name, and the number of the output.
pub(crate) fn place(text: &str) -> Option<(&str, usize)> {
    match reference(text)? {
        Reference::Slot(name, slot) => Some((name, slot)),
        Reference::Output(name, output, at) => {
            let second = matches!(output, "output_true" | "value_index");
            Some((name, at.saturating_add(usize::from(second))))
        }
    }
}

/// What an attribute says.
pub(crate) fn attr<'n>(node: &'n NodeDef, name: &str) -> Option<&'n Attr> {
    node.attr.get(name)?.value.as_ref()
}

/// The element type that an attribute says.
pub(crate) fn dtype(node: &NodeDef, name: &str) -> Option<DataType> {
    match attr(node, name)? {
        Attr::Type(number) => dtype_of_number(*number),
        _ => None,
    }
}

/// The tensor of a constant.
pub(crate) fn constant(node: &NodeDef) -> Option<&TensorProto> {
    match attr(node, "value")? {
        Attr::Tensor(proto) => Some(proto),
        _ => None,
    }
}

/// The number of an attribute; the default of TensorFlow if the node does not have it.
pub(crate) fn int(node: &NodeDef, name: &str) -> Option<i64> {
    match attr(node, name) {
        Some(Attr::I(n)) => Some(*n),
        Some(_) => None,
        None => match default_of(&node.op, name) {
            Some(Default::Int(n)) => Some(n),
            _ => None,
        },
    }
}

fn default_of(op: &str, name: &str) -> Option<Default> {
    schema::find(op)?.attrs.iter().find(|attr| attr.name == name)?.default.clone()
}

/// The name of the function that an attribute names.
pub(crate) fn function<'n>(node: &'n NodeDef, name: &str) -> Option<&'n str> {
    match attr(node, name)? {
        Attr::Func(function) => Some(&function.name),
        _ => None,
    }
}

fn types(node: &NodeDef, name: &str) -> Option<usize> {
    match attr(node, name)? {
        Attr::List(list) => Some(list.r#type.len()),
        _ => None,
    }
}

/// How many tensors an input or output of a node is.
fn count(node: &NodeDef, arg: &Arg) -> Option<usize> {
    match arg.count {
        Count::One => Some(1),
        Count::Number(attr) => Some(usize::try_from(int(node, attr)?).ok()?.min(RESULTS_MAX)),
        Count::Types(attr) => Some(types(node, attr).unwrap_or(0)),
    }
}

/// The outputs of a node by name and number; `None` if the operator is not one of TensorFlow's.
fn outputs(node: &NodeDef) -> Option<Vec<(&'static str, usize)>> {
    let operator = schema::find(&node.op)?;
    operator.outputs.iter().map(|arg| Some((arg.name, count(node, arg)?))).collect()
}

/// How many tensors a node gives; one if the operator is unknown. `function` is the one that it calls by its name.
pub(crate) fn output_count(node: &NodeDef, function: Option<&FunctionDef>) -> usize {
    match function.and_then(|function| function.signature.as_ref()) {
        Some(signature) => signature.output_arg.len(),
        None => outputs(node).map_or(1, |all| all.iter().map(|(_, n)| n).sum()),
    }
}

/// Whether a node is an input of the graph.
pub(crate) fn is_placeholder(node: &NodeDef) -> bool {
    matches!(node.op.as_str(), "Placeholder" | "PlaceholderV2")
}

/// Operators that look at a variable and leave it as it is.
const LOOKS: [&str; 7] = [
    "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp",
    "IsVariableInitialized", "DisableCopyOnRead", "DestroyResourceOp",
];

/// Whether an operator changes the variable that is its first input.
pub(crate) fn is_write(op: &str) -> bool {
    let first = schema::find(op).and_then(|operator| operator.inputs.first());
    first.is_some_and(|arg| matches!(arg.name, "ref" | "var" | "resource")) && !LOOKS.contains(&op)
}

/// The functions that a node calls: by an attribute, or by the operator's name.
pub(crate) fn called<'n>(node: &'n NodeDef, library: &FunctionLibrary<'_>) -> Vec<&'n str> {
    let mut found = vec![];
    if library.contains_key(node.op.as_str()) {
        found.push(node.op.as_str());
    }
    for attr in node.attr.values() {
        match &attr.value {
            Some(Attr::Func(function)) => found.push(function.name.as_str()),
            Some(Attr::List(list)) => found.extend(list.func.iter().map(|f| f.name.as_str())),
            _ => {}
        }
    }
    found
}

/// Where the tensor `index` of the output `name` is among all that a node gives.
pub(crate) fn slot(
    node: &NodeDef,
    function: Option<&FunctionDef>,
    name: &str,
    index: usize,
) -> usize {
    let signature = function.and_then(|function| function.signature.as_ref());
    if let Some(signature) = signature {
        let at = signature.output_arg.iter().position(|arg| arg.name == name);
        return at.unwrap_or(0).saturating_add(index);
    }
    let outputs = outputs(node).unwrap_or_default();
    match outputs.iter().position(|(output, _)| *output == name) {
        Some(at) => outputs[..at].iter().map(|(_, n)| n).sum::<usize>().saturating_add(index),
        None => index,
    }
}

/// An attribute that says something and that only a call of the function would give a value.
pub(crate) fn generic(node: &NodeDef) -> Option<(&String, &AttrValue)> {
    let open = |attr: &AttrValue| matches!(attr.value, Some(Attr::Placeholder(_)));
    let is_type = |name: &str| name.starts_with('T') && !TYPES.contains(&name);
    node.attr.iter().find(|(name, attr)| open(attr) && !is_type(name))
}

/// The inputs of a node by the names of its operator, lists joined. An operator that TensorFlow does not have takes
/// them by position.
pub(crate) fn named_inputs(
    node: &NodeDef,
    inputs: Vec<Value>,
) -> (Vec<Value>, Vec<(String, Value)>) {
    let Some(operator) = schema::find(&node.op) else { return (inputs, vec![]) };
    let mut inputs = inputs.into_iter();
    let mut named = vec![];
    for arg in &operator.inputs {
        let value = match arg.count {
            Count::One => inputs.next().unwrap_or(Value::None),
            _ => {
                let n = count(node, arg).unwrap_or(0);
                Value::List(inputs.by_ref().take(n).collect())
            }
        };
        named.push((plain(arg.name), value));
    }
    (vec![], named)
}

/// The attributes of a node that say something of its result, with the defaults of those that it leaves out.
pub(crate) fn attributes(node: &NodeDef) -> Vec<(String, Value)> {
    let says = |name: &str, kind: &str| {
        let is_type = matches!(kind, "type" | "list(type)");
        !name.starts_with('_')
            && !WITHOUT_EFFECT.contains(&name)
            && (!is_type || TYPES.contains(&name) || OWN_TYPES.contains(&(node.op.as_str(), name)))
    };
    let Some(operator) = schema::find(&node.op) else {
        let own = node.attr.iter().filter(|(name, _)| says(name, ""));
        return own.map(|(name, attr)| (plain(name), value_of(attr))).collect();
    };
    let declared = operator.attrs.iter().filter(|attr| says(attr.name, attr.kind));
    declared
        .map(|attr| {
            let own = node.attr.get(attr.name).map(value_of);
            let value = own.or_else(|| attr.default.as_ref().map(value_of_default));
            (plain(attr.name), value.unwrap_or(Value::None))
        })
        .collect()
}

/// A name as a field may have it: `DstT` is `dstt`, `type` is `type_`.
fn plain(name: &str) -> String {
    match name {
        "type" | "ref" | "loop" | "where" | "in" | "box" | "self" => format!("{name}_"),
        _ => name.to_lowercase(),
    }
}

fn value_of_default(default: &Default) -> Value {
    match default {
        Default::Int(x) => Value::Int(*x),
        Default::Float(x) => Value::Float(*x),
        Default::Bool(x) => Value::Bool(*x),
        Default::Text(x) => Value::Text((*x).to_owned()),
        Default::Type(word) => Value::Int(dtype::number_of(word).into()),
        Default::List(items) => Value::List(items.iter().map(value_of_default).collect()),
        Default::UnknownShape => Value::None,
    }
}

/// An attribute as an argument. Types are their numbers, shapes lists with -1 for sizes that are not known.
pub(crate) fn value_of(attr: &AttrValue) -> Value {
    match &attr.value {
        Some(Attr::S(bytes)) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        Some(Attr::I(x)) => Value::Int(*x),
        Some(Attr::F(x)) => Value::Float(f64::from(*x)),
        Some(Attr::B(x)) => Value::Bool(*x),
        Some(Attr::Type(x)) => Value::Int(i64::from(*x)),
        Some(Attr::Shape(shape)) => shape_value(shape),
        Some(Attr::List(list)) => Value::List(list_items(list)),
        Some(Attr::Func(function)) => Value::Text(function.name.clone()),
        Some(Attr::Placeholder(_) | Attr::Tensor(_)) | None => Value::None,
    }
}

fn shape_value(shape: &TensorShapeProto) -> Value {
    match shape.unknown_rank {
        true => Value::None,
        false => Value::List(shape.dim.iter().map(|dim| Value::Int(dim.size)).collect()),
    }
}

fn list_items(list: &ListValue) -> Vec<Value> {
    let texts = list.s.iter().map(|s| Value::Text(String::from_utf8_lossy(s).into_owned()));
    let types = list.r#type.iter().map(|t| Value::Int(i64::from(*t)));
    let functions = list.func.iter().map(|f| Value::Text(f.name.clone()));
    let floats = list.f.iter().map(|x| Value::Float(f64::from(*x)));
    texts
        .chain(list.i.iter().map(|x| Value::Int(*x)))
        .chain(floats)
        .chain(list.b.iter().map(|x| Value::Bool(*x)))
        .chain(types)
        .chain(list.shape.iter().map(shape_value))
        .chain(functions)
        .collect()
}

/// Functions of a library by name.
pub(crate) type FunctionLibrary<'a> = HashMap<&'a str, &'a FunctionDef>;

/// The functions of a graph.
pub(crate) fn library(graph: &GraphDef) -> FunctionLibrary<'_> {
    let functions = graph.library.iter().flat_map(|library| &library.function);
    functions.filter_map(|f| Some((f.signature.as_ref()?.name.as_str(), f))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_inputs_tell_are_no_arguments() {
        let told = |op: &str| {
            let node = NodeDef { op: op.to_owned(), ..NodeDef::default() };
            attributes(&node).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(told("GatherV2"), ["batch_dims"]);
        assert_eq!(told("Fill"), [""; 0]);
        assert_eq!(told("TopKV2"), ["sorted", "index_type"]);
        assert!(told("QuantizeV2").contains(&"t".to_owned()));
    }
}
