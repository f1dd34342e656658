//! Exported programs: the graph that `torch.export.save` writes.
//!
//! [`json`] reads the graph, [`sizes`] the expressions of its sizes, [`weights`] finds its parameters in the archive.
//! [`run`] runs the graph on the machine, and [`import`] makes a model of it.

mod argument;
mod autocast;
mod declared;
mod dtypes;
pub(crate) mod functions;
mod half_precision;
mod higher_order;
pub(crate) mod import;
pub(crate) mod json;
mod keys;
mod onnx;
mod run;
pub(crate) mod sizes;
mod states;
mod statistics;
#[cfg(test)]
mod tests;
pub(crate) mod weights;

pub(crate) use argument::Argument;

use crate::archive::zip::Archive;
use crate::diag::Diagnostic;
use onnxd_plugin_sdk::ir::DataType;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A program as it is saved.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) graph: Graph,
    /// What each input of the graph is.
    pub(crate) inputs: Vec<Input>,
    /// What each output of the graph is.
    pub(crate) outputs: Vec<OutputKind>,
    /// Names of what users get, where it is in dicts; else empty.
    pub(crate) keys: Vec<String>,
    /// Symbols of sizes, with the smallest and the largest number they stand for.
    pub(crate) ranges: Vec<(Rc<str>, Option<i64>, Option<i64>)>,
}

impl Program {
    /// The program whose graph is in a member: one of [`crate::archive::kind::FileKind::Program`].
    pub(crate) fn open(archive: &Archive, graph: &str) -> Result<Program, Diagnostic> {
        json::read(&archive.read(graph)?)
    }
}

#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) value: Argument,
    pub(crate) kind: InputKind,
}

/// The names are those of the module: `sub.lin.weight`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InputKind {
    Parameter(Rc<str>),
    /// A buffer that is not persistent stands among the constants of the archive.
    Buffer {
        name: Rc<str>,
        persistent: bool,
    },
    Constant(Rc<str>),
    Object(Rc<str>),
    Token,
    /// An argument that was no tensor, with its name; the program holds for its value only.
    Fixed(Rc<str>),
    User,
}

impl InputKind {
    /// The name of what the archive holds for it; empty if it holds nothing.
    fn weight_name(&self) -> &str {
        match self {
            InputKind::Parameter(name)
            | InputKind::Buffer { name, .. }
            | InputKind::Constant(name)
            | InputKind::Object(name)
            | InputKind::Fixed(name) => name,
            InputKind::Token | InputKind::User => "",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OutputKind {
    User,
    Loss,
    Token,
    /// The new value of a buffer, a parameter, or an input.
    BufferMutation(Rc<str>),
    ParameterMutation(Rc<str>),
    InputMutation(Rc<str>),
    Gradient(Rc<str>),
}

/// A graph, or a graph within a node.
#[derive(Debug, Deserialize)]
pub(crate) struct Graph {
    pub(crate) inputs: Vec<Argument>,
    pub(crate) outputs: Vec<Argument>,
    pub(crate) nodes: Vec<Node>,
    #[serde(rename = "tensor_values", deserialize_with = "json::tensors")]
    pub(crate) tensors: HashMap<Rc<str>, Meta>,
    #[serde(rename = "sym_int_values", default)]
    pub(crate) ints: HashMap<Rc<str>, SymbolicSize>,
}

impl Graph {
    /// Names that the nodes read, or that the graph gives.
    fn used(&self) -> HashSet<&Rc<str>> {
        fn add<'a>(argument: &'a Argument, names: &mut HashSet<&'a Rc<str>>) {
            match argument {
                Argument::Tensor(name) | Argument::Symbol(name) | Argument::Object(name) => {
                    names.insert(name);
                }
                Argument::List(items) => items.iter().for_each(|item| add(item, names)),
                Argument::Dict(items) => items.iter().for_each(|(_, item)| add(item, names)),
                _ => {}
            }
        }
        let mut names = HashSet::new();
        let arguments = self.nodes.iter().flat_map(|node| node.arguments.iter().map(|a| &a.value));
        arguments.chain(&self.outputs).for_each(|argument| add(argument, &mut names));
        names
    }
}

/// What is known about a tensor.
#[derive(Debug, Deserialize)]
pub(crate) struct Meta {
    /// None for types that ONNX does not have.
    #[serde(deserialize_with = "dtypes::read")]
    pub(crate) dtype: Option<DataType>,
    pub(crate) sizes: Vec<SymbolicSize>,
    #[serde(default)]
    pub(crate) strides: Vec<SymbolicSize>,
    #[serde(default)]
    pub(crate) storage_offset: Option<SymbolicSize>,
}

/// A number, or the text of an expression for [`sizes::Expr::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SymbolicSize {
    Known(i64),
    Symbolic(Rc<str>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    #[serde(deserialize_with = "json::target")]
    pub(crate) target: CallTarget,
    #[serde(rename = "inputs")]
    pub(crate) arguments: Vec<NodeArgument>,
    pub(crate) outputs: Vec<Argument>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallTarget {
    /// `aten::add`, `Tensor`; the overload `default` has an empty name, as in [`crate::schema::Schema`].
    Operator { name: Rc<str>, overload: Rc<str> },
    /// `cond`, `while_loop`, `scan`
    HigherOrder(Rc<str>),
    /// A function of Python: `_operator.mul`, `math.trunc`, `torch.sym_max`; see [`functions`].
    Function(Rc<str>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeArgument {
    /// Of the parameter; empty for higher-order operators.
    pub(crate) name: Rc<str>,
    #[serde(rename = "arg")]
    pub(crate) value: Argument,
    /// Torch before 2.7 does not say.
    #[serde(rename = "kind", default, deserialize_with = "json::passed")]
    pub(crate) passed: Option<Passed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Positional,
    Named,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    nn_module_stack: Option<Box<str>>,
    #[serde(default)]
    stack_trace: Option<Box<str>>,
}

impl Node {
    /// The modules that the node is in, outermost first: path (empty for the whole) and class.
    pub(crate) fn modules(&self) -> impl Iterator<Item = (&str, &str)> {
        let stack = self.metadata.nn_module_stack.as_deref().unwrap_or_default();
        stack.split(';').filter_map(|entry| {
            let (_, rest) = entry.split_once(',')?;
            let (path, class) = rest.rsplit_once(',')?;
            // What torch writes for nodes that it inserted itself.
            (!class.starts_with("_empty_nn_module_stack")).then_some((path, class))
        })
    }

    /// Where the user's code computes it: lines of files, which may name folders of the user's machine.
    pub(crate) fn stack_trace(&self) -> Option<&str> {
        self.metadata.stack_trace.as_deref()
    }
}
