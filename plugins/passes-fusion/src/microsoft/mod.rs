//! Operators of ONNX Runtime, for the profile `onnxruntime`.

pub(crate) mod attention;
pub(crate) mod gelu;
pub(crate) mod matmul;
pub(crate) mod skip_norm;

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{DataType, Graph, Model, Node, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, rules};

/// Where ONNX Runtime has operators of its own.
pub(crate) const DOMAIN: &str = "com.microsoft";

/// Element types for which ONNX Runtime has kernels of them, on every processor.
pub(crate) const TYPES: &[DataType] = &[DataType::Float, DataType::Float16];

/// A pass that applies `of` one after the other. A model that has operators of ONNX Runtime then imports them.
pub(crate) fn pass(name: &'static str, of: Vec<Box<dyn Pass>>) -> Box<dyn Pass> {
    Box::new(Microsoft(rules(name, of)))
}

/// The rule is that of the standard's operator.
pub(crate) fn rotary_embedding() -> Box<dyn Pass> {
    pass("fuse-microsoft-rotary-embedding", vec![crate::attention::rotary::microsoft(DOMAIN)])
}

struct Microsoft(Box<dyn Pass>);

impl Pass for Microsoft {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let before = cx.report.rewrites;
        self.0.run(model, cx)?;
        if cx.report.rewrites == before {
            return Ok(());
        }
        let functions = model.functions.iter_mut().map(|f| (&f.graph, &mut f.opsets));
        for (graph, opsets) in functions.chain([(&model.graph, &mut model.opsets)]) {
            if has_operators(graph) {
                opsets.entry(DOMAIN.to_owned()).or_insert(1);
            }
        }
        Ok(())
    }
}

fn has_operators(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| node.domain == DOMAIN || node.subgraphs().any(has_operators))
}

/// A node of ONNX Runtime's operator `op`.
pub(crate) fn node(op: &str, inputs: Vec<Option<ValueId>>, outputs: Vec<Option<ValueId>>) -> Node {
    Node { domain: DOMAIN.into(), inputs, outputs, ..Node::new(op, [], []) }
}
