mod building;
mod editing;
mod generated;
mod nesting;

use crate::GraphBuilder;
use onnxd_ir::text::print_graph;
use onnxd_ir::{DataType, Graph, Model, Opsets, ValueType, VerifyLevel, verify};

pub(crate) fn builder(opset: i64) -> GraphBuilder {
    GraphBuilder::new(Graph::new("g"), Opsets::from([(String::new(), opset)]))
}

pub(crate) fn float<const N: usize>(dims: [i64; N]) -> ValueType {
    ValueType::tensor(DataType::Float, dims)
}

/// The graph as ONNX text, once the checks of a whole model found nothing.
pub(crate) fn text(b: GraphBuilder) -> String {
    let opset = b.opset();
    let mut model = Model::new(b.finish(), 10, opset);
    let found = verify(&model, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}");
    let found = onnxd_ir::infer(&mut model);
    assert!(found.0.is_empty(), "{found}");
    print_graph(&model.graph)
}
