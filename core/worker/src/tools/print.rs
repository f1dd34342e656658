//! `onnxd print`: a model as ONNX text, its figures, or the types of its values.

use crate::summary;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Graph, Model, infer, text};
use onnxd_proto::onnxd::ModelSummary;
use std::collections::BTreeMap;
use std::path::Path;

/// Constants of more elements are abbreviated.
const ELEMENTS_MAX: usize = 16;

/// The model as ONNX text; large constants are abbreviated.
///
/// # Errors
/// Findings that keep it from being read.
pub fn print(path: &Path) -> Result<String, Diagnostics> {
    let model = onnxd_onnx::load(path)?.model;
    let options =
        text::PrintOptions { elements_max: Some(ELEMENTS_MAX), ..text::PrintOptions::default() };
    Ok(text::print_model_with(&model, &options))
}

/// Figures of a model.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Versions, inputs, outputs, parameters, bytes.
    pub model: ModelSummary,
    /// How often each operator occurs.
    pub ops: BTreeMap<String, u64>,
}

/// The model's figures.
///
/// # Errors
/// Findings that keep it from being read.
pub fn summary(path: &Path) -> Result<Summary, Diagnostics> {
    let model = onnxd_onnx::load(path)?.model;
    let bytes = path.metadata().map_or(0, |m| m.len());
    Ok(Summary { model: summary::describe(&model, bytes, vec![]), ops: summary::count_ops(&model) })
}

/// A value and its type.
#[derive(Clone, Debug)]
pub struct Typed {
    /// Where it is: empty in the main graph, `domain.name` in a function; number of the node and name
    /// of the graph are added for each sub-graph, all apart by `/`.
    pub graph: String,
    /// Its name there.
    pub name: String,
    /// Type, declared or inferred, as ONNX text; `None` if nothing is known.
    pub r#type: Option<String>,
}

/// All values of the model with their types as far as they can be inferred: the graph's, then those
/// inside it and inside functions. Contradictions are for [`super::check()`] to report.
///
/// # Errors
/// Findings that keep it from being read.
pub fn types(path: &Path) -> Result<Vec<Typed>, Diagnostics> {
    let mut model = onnxd_onnx::load(path)?.model;
    let _ = infer::infer(&mut model);
    Ok(typed(&model))
}

fn typed(model: &Model) -> Vec<Typed> {
    let functions = model.functions.iter().map(|f| (format!("{}.{}", f.domain, f.name), &f.graph));
    let mut pending: Vec<(String, &Graph)> = functions.rev().collect();
    pending.push((String::new(), &model.graph));
    let mut found = vec![];
    while let Some((place, g)) = pending.pop() {
        found.extend(g.value_ids().map(|v| Typed {
            graph: place.clone(),
            name: g[v].name.clone(),
            r#type: g[v].ty.as_ref().map(ToString::to_string),
        }));
        for (id, node) in g.nodes() {
            let place = |inner: &Graph| format!("{place}/{}/{}", id.index(), inner.name);
            pending.extend(node.subgraphs().map(|inner| (place(inner), inner)));
        }
    }
    found
}
