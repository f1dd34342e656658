//! Why a kernel gives up. The executor adds the node, so that kernels only say what they found.

use onnxd_diagnostics::{Code, Diagnostic, Layer};
use onnxd_ir::{DataType, Graph, Node, TensorError};

/// A kernel's error before the node is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Found in the node itself.
    Here(Code, String),
    /// Found in a node of a sub-graph or function body, which is named already.
    Nested(Box<Diagnostic>),
}

/// What kernels return.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// The node or its inputs break the standard.
    pub(crate) fn invalid(message: impl Into<String>) -> Fault {
        Fault::Here(Code::OnnxInvalid, message.into())
    }

    /// Allowed by the standard, but there is no kernel for it.
    pub(crate) fn unsupported(message: impl Into<String>) -> Fault {
        Fault::Here(Code::OperatorUnsupported, message.into())
    }

    /// The result would exceed the caller's limit.
    pub(crate) fn memory(message: impl Into<String>) -> Fault {
        Fault::Here(Code::OutOfMemory, message.into())
    }

    /// The caller does not want to wait any longer.
    pub(crate) fn stopped() -> Fault {
        Fault::Here(Code::RunStopped, "the time for the run was over here".into())
    }

    /// No kernel for this element type.
    pub(crate) fn dtype(dtype: DataType) -> Fault {
        Fault::unsupported(format!("there is no kernel for elements of type {dtype}"))
    }

    /// The diagnostic that names the node.
    pub(crate) fn at(self, node: &Node, layer: Layer) -> Diagnostic {
        match self {
            Fault::Nested(diagnostic) => *diagnostic,
            Fault::Here(code, message) => {
                Diagnostic::new(code, format!("{}: {message}", node.op)).at(layer)
            }
        }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault::invalid(message)
    }
}

impl From<TensorError> for Fault {
    fn from(error: TensorError) -> Fault {
        Fault::invalid(error.to_string())
    }
}

/// The source layer of a node, or else the node itself, named after its first output if it has no
/// name.
pub(crate) fn layer_of(node: &Node, graph: Option<&Graph>) -> Layer {
    if let Some(layer) = node.layers.first() {
        return layer.clone();
    }
    let output = node.outputs.iter().flatten().next();
    let name = match (node.name.as_str(), graph, output) {
        ("", Some(graph), Some(value)) => graph[*value].name.clone(),
        (name, ..) => name.to_owned(),
    };
    Layer::new(name, node.op.clone())
}
