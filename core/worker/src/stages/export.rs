//! Writes the model: names, versions and forms as the params ask, and where it came from.

use super::listing::{LISTING, listing};
use super::opset;
use super::outputs::{complete_outputs, distinct_node_names};
use super::session::{Session, disk};
use super::{sources, states};
use crate::summary;
use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics, Layer, Severity, nearest, shown};
use onnxd_ir::{Attr, Dim, Graph, Model, Node, ValueId, ValueType, settle_shapes};
use onnxd_onnx::{External, WriteOptions};
use onnxd_params::host::Export;
use onnxd_params::words::ExternalData;
use onnxd_proto::onnxd::{FileDigest, FileRole, ModelSummary};
use serde_json::Value;

pub(crate) fn export(session: &mut Session) -> Result<(), Diagnostics> {
    let mut model = session.take_model()?;
    complete_outputs(&mut model);
    for finding in settle_shapes(&mut model).0 {
        session.note(&finding, Severity::Warning);
    }
    let lowered_from = opset::choose(session, &mut model)?;
    let params: Export = session.section();
    for (side, names) in
        [(Side::Inputs, params.input_names()), (Side::Outputs, params.output_names())]
    {
        let renamed = rename(&mut model.graph, side, names)?;
        rename_facts(&mut session.report.metadata, side, &renamed);
        states::rename(session, &renamed, matches!(side, Side::Inputs));
    }
    dynamic_axes(&mut model.graph, &params.dynamic_axes())?;
    if params.strip_doc_string() {
        strip_docs(&mut model);
    }
    if is_without_weights(session) {
        constants_as_nodes(&mut model);
    }
    if params.keep_initializers_as_inputs() {
        initializers_as_inputs(&mut model.graph);
    }
    states::mark(session, &mut model)?;
    forget_own_names(&mut model);
    distinct_node_names(&mut model);
    sources::take(session)?;
    provenance(session, &mut model);
    let folder = session.out_dir();
    std::fs::create_dir_all(&folder).map_err(|e| disk(&folder, &e))?;
    let file = session.models.file();
    let (path, data) = (folder.join(&file), session.models.data());
    let written = onnxd_onnx::write_model_sharing(&model, &path, &options(&params), data)?;
    if params.verbose() {
        let name = session.models.beside(LISTING);
        let (path, text) = (folder.join(&name), listing(&model));
        std::fs::write(&path, &text).map_err(|e| disk(&path, &e))?;
        let (path, bytes) = (name, text.len() as u64);
        let role = FileRole::Artifact.into();
        session.outputs.push(FileDigest { path, bytes, role, ..FileDigest::default() });
    }
    states::write(session, &folder)?;
    let mut bytes_total = 0;
    for (path, bytes) in written.files {
        bytes_total += bytes;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let role = if name == file { FileRole::Model } else { FileRole::ExternalData }.into();
        // A model before may have put weights into the same file.
        session.outputs.retain(|known| known.path != name);
        // Whoever reads the files when this process has ended takes their digests.
        session.outputs.push(FileDigest { path: name, bytes, role, ..FileDigest::default() });
    }
    session.op_counts[2] = summary::count_ops(&model);
    let states = session.states.clone();
    let summary = summary::describe(&model, bytes_total, states);
    let lowered_from = lowered_from.unwrap_or_default();
    session.report.model = Some(ModelSummary { lowered_from, file, ..summary });
    Ok(())
}

/// Only a front-end can leave out weights. It read the param if it did, and said so if it could not.
fn is_without_weights(session: &Session) -> bool {
    let (key, looked) = ("export.export_params", session.looked());
    let is_asked = session.params.peek(key) == &Value::Bool(false);
    is_asked && looked.has_param(key) && !looked.is_idle(key)
}

fn options(params: &Export) -> WriteOptions {
    let external = match params.external_data() {
        ExternalData::Auto => External::Auto,
        ExternalData::Always => External::Always,
        ExternalData::Never => External::Never,
    };
    let mut options = WriteOptions { external, ..WriteOptions::default() };
    if external != External::Never {
        options.tensor_bytes_min = params.external_data_threshold_bytes();
    }
    options
}

#[derive(Clone, Copy)]
enum Side {
    Inputs,
    Outputs,
}

fn bad(key: &str, message: &str) -> Diagnostic {
    Diagnostic::new(Code::ParamsBadValue, format!("export.{key}: {message}"))
}

/// Keeps what is said of inputs or outputs, such as their scales, with their new names.
fn rename_facts(facts: &mut [String], side: Side, renamed: &[(String, String)]) {
    let of = match side {
        Side::Inputs => "quantization.input.",
        Side::Outputs => "quantization.output.",
    };
    for fact in facts {
        let Some((name, value)) = fact.strip_prefix(of).and_then(|f| f.rsplit_once(" = ")) else {
            continue;
        };
        if let Some((_, new)) = renamed.iter().find(|(old, _)| old == name) {
            *fact = format!("{of}{new} = {value}");
        }
    }
}

/// Gives the first inputs or outputs new names, in order; says which names changed to what.
fn rename(
    graph: &mut Graph,
    side: Side,
    wanted: Vec<String>,
) -> Result<Vec<(String, String)>, Diagnostic> {
    let (key, values) = match side {
        Side::Inputs => ("input_names", graph.inputs().to_vec()),
        Side::Outputs => ("output_names", graph.outputs().to_vec()),
    };
    if wanted.len() > values.len() {
        let text = format!("{} names for {} values", wanted.len(), values.len());
        return Err(bad(key, &text));
    }
    let mut renamed = Vec::new();
    for (value, name) in values.into_iter().zip(wanted) {
        if graph[value].name == name {
            continue;
        }
        if let Some(other) = graph.value_named(&name) {
            // Inner values give way to a name that a user chose.
            if graph.inputs().contains(&other) || graph.is_output(other) {
                return Err(bad(key, &format!("`{}` is the name of another value", shown(&name))));
            }
            let free = graph.fresh_name(&name);
            graph.rename(other, &free);
        }
        renamed.push((graph[value].name.clone(), name.clone()));
        graph.rename(value, &name);
    }
    Ok(renamed)
}

/// `{"input": {"0": "batch"}}`: names for sizes that may vary.
fn dynamic_axes(graph: &mut Graph, axes: &Value) -> Result<(), Diagnostic> {
    let Some(axes) = axes.as_object() else { return Ok(()) };
    for (name, dims) in axes {
        let ends: Vec<ValueId> = graph.inputs().iter().chain(graph.outputs()).copied().collect();
        let Some(value) = ends.iter().copied().find(|v| graph[*v].name == *name) else {
            let known: Vec<&str> = ends.iter().map(|v| graph[*v].name.as_str()).collect();
            let hint = nearest(name, known).map(|n| format!("; did you mean `{n}`?"));
            let text = format!("no input or output `{}`{}", shown(name), hint.unwrap_or_default());
            return Err(bad("dynamic_axes", &text));
        };
        let Some(ValueType::Tensor { shape: Some(shape), .. }) = &mut graph[value].ty else {
            return Err(bad(
                "dynamic_axes",
                &format!("the rank of `{}` is not known", shown(name)),
            ));
        };
        for (axis, symbol) in dims.as_object().into_iter().flatten() {
            let rank = shape.len() as i64;
            let index = axis.parse::<i64>().ok().map(|a| if a < 0 { a + rank } else { a });
            match index.filter(|a| (0..rank).contains(a)) {
                Some(a) => shape[a as usize] = Dim::from(symbol.as_str().unwrap_or_default()),
                None => {
                    let text = format!("`{}` has no axis {axis}", shown(name));
                    return Err(bad("dynamic_axes", &text));
                }
            }
        }
    }
    Ok(())
}

fn strip_docs(model: &mut Model) {
    model.doc.clear();
    model.for_each_graph_mut(&mut |graph, _| {
        graph.doc.clear();
        strip_notes(&mut graph.metadata);
        for id in graph.node_ids() {
            let node = graph.node_mut(id);
            node.doc.clear();
            strip_notes(&mut node.metadata);
        }
        for v in graph.value_ids() {
            graph[v].doc.clear();
            strip_notes(&mut graph[v].metadata);
        }
    });
}

/// PyTorch's newer exporter has its call stacks, modules and passes in metadata, where the older one has doc strings.
fn strip_notes(metadata: &mut Vec<(String, String)>) {
    metadata.retain(|(key, _)| key != "namespace" && !key.starts_with("pkg."));
}

fn initializers_as_inputs(graph: &mut Graph) {
    for v in graph.value_ids() {
        let is_constant = graph[v].origin() == onnxd_ir::Origin::None;
        if is_constant && graph[v].initializer().is_some() && graph.uses(v) > 0 {
            graph.mark_input(v);
        }
    }
}

/// Makes nodes of constants, for models whose weights are inputs: what is left is part of the formula.
fn constants_as_nodes(model: &mut Model) {
    model.for_each_graph_mut(&mut |graph, _| {
        let constants: Vec<ValueId> = graph.value_ids().collect();
        for v in constants {
            let is_constant = graph[v].origin() == onnxd_ir::Origin::None && graph.uses(v) > 0;
            let Some(data) = graph[v].initializer().filter(|_| is_constant).cloned() else {
                continue;
            };
            let name = graph[v].name.clone();
            graph.rename(v, &graph.fresh_name(&format!("{name}_value")));
            let out = graph.add_value(&name, graph[v].ty.clone());
            graph.replace_uses(v, out);
            let node = Node::new("Constant", [], [out]).with("value", Attr::Tensor(data));
            graph.add_node(Node { name, ..node });
        }
    });
}

/// A node need not say that it comes from the layer whose name it bears.
fn forget_own_names(model: &mut Model) {
    model.for_each_graph_mut(&mut |graph, _| {
        for id in graph.node_ids() {
            let node = graph.node_mut(id);
            let name = node.name.clone();
            let tells = |layer: &Layer| layer.name != name || !layer.place.is_empty();
            if !node.layers.iter().all(tells) {
                node.layers.edit(|layers| layers.retain(tells));
            }
        }
    });
}

/// Where the model came from; nothing that differs from run to run.
fn provenance(session: &Session, model: &mut Model) {
    let recognition = session.report.recognition.clone().unwrap_or_default();
    let is_source = session.frontend().is_some_and(|frontend| frontend.is_source);
    if model.producer_name.is_empty() || !is_source {
        model.producer_name = "onnxd".into();
        model.producer_version = env!("CARGO_PKG_VERSION").into();
    }
    model.set_metadata("onnxd.version", env!("CARGO_PKG_VERSION"));
    model.set_metadata("onnxd.frontend", recognition.frontend);
    let network = &session.request.network;
    if let Some(source) = session.report.source.iter().find(|f| f.path == *network) {
        model.set_metadata("onnxd.source", source.path.clone());
        model.set_metadata("onnxd.source.sha256", source.sha256.clone());
    }
    let fired = session.report.passes.iter().filter(|p| p.rewrites > 0);
    let passes: Vec<&str> = fired.map(|p| p.name.as_str()).collect();
    model.set_metadata("onnxd.passes", passes.join(","));
    for fact in &session.report.metadata {
        if let Some((key, value)) = fact.split_once(" = ") {
            model.set_metadata(&format!("onnxd.{key}"), value);
        }
    }
}

/// A finding about what was written is onnxd's own fault.
pub(crate) fn own_fault(mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.code = Code::InvariantBroken.as_str().into();
    diagnostic.class = Class::Internal;
    diagnostic.help = Code::InvariantBroken.help().into();
    diagnostic
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::DataType;
    use onnxd_ir::ops::Relu;

    fn graph() -> Graph {
        let mut g = Graph::new("g");
        let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2, 3])));
        let a = g.add("image", Relu::new(x));
        let y = g.add("y", Relu::new(a));
        g.mark_output(y);
        g
    }

    #[test]
    fn a_chosen_name_displaces_an_inner_one() {
        let mut g = graph();
        rename(&mut g, Side::Inputs, vec!["image".into()]).unwrap();
        assert_eq!(g[g.inputs()[0]].name, "image");
        assert!(g.value_named("image_1").is_some());
        let error = rename(&mut g, Side::Outputs, vec!["image".into()]).unwrap_err();
        assert_eq!(error.code, "N0105");
    }

    #[test]
    fn notes_of_exporters_go_with_doc_strings() {
        let mut model = Model::new(graph(), 8, 17);
        let entry = |key: &str| (key.to_owned(), "text".to_owned());
        let g = &mut model.graph;
        let (id, x) = (g.node_ids()[0], g.inputs()[0]);
        let notes = ["pkg.torch.onnx.stack_trace", "namespace", "mine"].map(entry).to_vec();
        g.node_mut(id).doc = "doc".into();
        g.node_mut(id).metadata.clone_from(&notes);
        g[x].metadata.clone_from(&notes);
        g.metadata = notes;
        strip_docs(&mut model);
        let g = &model.graph;
        assert!(g[id].doc.is_empty());
        for left in [&g.metadata, &g[id].metadata, &g[x].metadata] {
            assert_eq!(left, &[entry("mine")]);
        }
    }

    #[test]
    fn constants_become_nodes_and_inputs_stay() {
        let text = "g (float[2] x) => (float[2] y) <float c = {3}> { y = Mul(x, c) }";
        let mut model = Model::new(onnxd_ir::text::parse_graph(text).unwrap(), 8, 18);
        constants_as_nodes(&mut model);
        let g = &model.graph;
        let ops: Vec<&str> = g.topological().unwrap().iter().map(|id| g[*id].op.as_str()).collect();
        assert_eq!(ops, ["Constant", "Mul"]);
        assert!(g.value_ids().all(|v| g[v].initializer().is_none() || g.uses(v) == 0));
        let mul = g.nodes().find(|(_, node)| node.op == "Mul").unwrap().1;
        assert_eq!(g[mul.input(1).unwrap()].name, "c");
    }

    #[test]
    fn axes_get_names() {
        let mut g = graph();
        let axes = serde_json::json!({"x": {"0": "batch", "-1": "width"}});
        dynamic_axes(&mut g, &axes).unwrap();
        let ty = g[g.inputs()[0]].ty.as_ref().unwrap().to_string();
        assert_eq!(ty, "float[batch,width]");
        let error = dynamic_axes(&mut g, &serde_json::json!({"z": {"0": "n"}})).unwrap_err();
        assert!(error.message.contains("no input or output `z`"));
    }
}
