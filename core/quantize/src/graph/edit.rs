//! Adds nodes to the float graph, and puts nodes in the place of others.

use crate::graph::quantized::MICROSOFT;
use onnxd_build::{GraphBuilder, Result, Var};
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::{Graph, Node, NodeId, Opsets};

/// The operators of a model, and those of ONNX Runtime.
pub(crate) fn with_microsoft(opsets: &Opsets) -> Opsets {
    let mut all = opsets.clone();
    all.insert(MICROSOFT.to_owned(), 1);
    all
}

/// Lets `f` add nodes to `graph`. Nothing is folded, so that integers stay where they are written;
/// what contradicts in the float graph is left to verification.
pub(crate) fn edit<R>(graph: &mut Graph, opsets: &Opsets, f: impl FnOnce(&GraphBuilder) -> R) -> R {
    let builder = GraphBuilder::new(std::mem::take(graph), opsets.clone());
    let builder = builder.without_folding().lenient().untyped();
    let result = f(&builder);
    *graph = builder.finish();
    result
}

/// Lets `f` build what computes the outputs of node `id` instead of it, see
/// [`GraphBuilder::stand_in`]; says what contradicts.
pub(crate) fn stand_in<V>(
    graph: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    f: impl FnOnce(&GraphBuilder, &Node) -> Result<V>,
) -> std::result::Result<(), String>
where
    V: IntoIterator<Item: Into<Option<Var>>>,
{
    let done = edit(graph, opsets, |b| b.stand_in(id, f));
    done.map(|_| ()).map_err(|found| why(&found))
}

/// The reason that a finding gives.
pub(crate) fn why(found: &Diagnostic) -> String {
    found.message.trim_end_matches('.').to_owned()
}
