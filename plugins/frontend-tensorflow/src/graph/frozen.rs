//! Frozen graphs: all weights are constants, and inputs and outputs are told by the nodes alone.

use super::run::{Body, Item, Runner, Scope};
use crate::ops::{Source, table};
use crate::wire::dtype;
use crate::wire::proto::{Attr, GraphDef, NodeDef};
use crate::wire::tensor::dims_of;
use bytes::Bytes;
use onnxd_plugin_sdk::Imported;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::{Graph, Model, Opsets, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Fallback};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Version of the file format.
const IR_VERSION: i64 = 8;

/// Nodes that give nothing of a network's results.
const NO_RESULT: [&str; 5] = ["NoOp", "Assert", "Print", "PrintV2", "Const"];

/// Reads a frozen graph.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    bytes: Bytes,
    opset: i64,
    fallback: Fallback,
) -> std::result::Result<Imported, Diagnostics> {
    let graph = GraphDef::decode(bytes).map_err(|e| {
        Diagnostic::new(Code::SourceSyntax, format!("The file is no graph of TensorFlow: {e}."))
    })?;
    let (table, source) = (table(), Source::default());
    let opsets = Opsets::from([(String::new(), opset)]);
    let driver = Driver::new(&table, &source, Graph::new("tensorflow"), opsets, fallback);
    let ran = run(&graph, &driver);
    match (driver.finish(), ran) {
        (Ok((graph, notes)), Ok(())) => {
            Ok(Imported { model: Model::new(graph, IR_VERSION, opset), notes, metadata: vec![] })
        }
        (finished, ran) => {
            let mut all = finished.err().unwrap_or_default();
            all.0.extend(ran.err());
            Err(all)
        }
    }
}

fn run(graph: &GraphDef, driver: &Driver<'_, Source>) -> Result<()> {
    let functions = graph.library.iter().flat_map(|library| &library.function);
    let named = functions.filter_map(|f| Some((f.signature.as_ref()?.name.as_str(), f)));
    let runner = Runner::new(driver, named.collect());
    let scope = Scope::new(Rc::new(Body::new(&graph.node)), HashMap::new(), String::new());
    for (i, node) in graph.node.iter().enumerate() {
        if node.op == "Placeholder" {
            scope.settle(i, vec![Item::Tensor(driver.builder().input(&node.name, type_of(node)))]);
        }
    }
    for node in results(graph) {
        if let Item::Tensor(var) = runner.value(&scope, &node.name)? {
            driver.builder().output(var, &node.name)?;
        }
    }
    Ok(())
}

/// The type of a placeholder.
fn type_of(node: &NodeDef) -> ValueType {
    let attr = |name: &str| node.attr.get(name).and_then(|attr| attr.value.as_ref());
    let dtype = match attr("dtype") {
        Some(Attr::Type(number)) => dtype::of(*number),
        _ => None,
    };
    let shape = match attr("shape") {
        Some(Attr::Shape(shape)) => dims_of(shape),
        _ => None,
    };
    ValueType::Tensor { dtype, shape }
}

/// Nodes that no other node reads.
fn results(graph: &GraphDef) -> impl Iterator<Item = &NodeDef> {
    let read = graph.node.iter().flat_map(|node| &node.input);
    let read: HashSet<&str> =
        read.map(|text| text.trim_start_matches('^').split(':').next().unwrap_or(text)).collect();
    let is_result = move |node: &&NodeDef| {
        !read.contains(node.name.as_str()) && !NO_RESULT.contains(&node.op.as_str())
    };
    graph.node.iter().filter(is_result)
}
