//! Puts the nodes of an ONNX file into the network's graph: between the values that its section
//! names as inputs and the results that are used.

use std::collections::{HashMap, HashSet};

use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::infer::infer;
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::text::inline;
use onnxd_plugin_sdk::ir::{At, DataType, Dim, Graph, Model, Tensor, ValueId, ValueType};
use onnxd_plugin_sdk::opset;

use super::OnnxFile;
use crate::cell::{Cell, Feature, Lowered};
use crate::diag::{Code, Diagnostic, Diagnostics, Layer, shown};
use crate::geometry::MapSize;
use crate::source::BATCH;
use crate::source::OPSET;

/// Where results of the file are in the network's graph.
type Placed = HashMap<ValueId, Var>;

/// Adds what computes the `wanted` results.
pub(crate) fn lower(
    b: &mut Cell,
    file: &OnnxFile,
    wanted: &[ValueId],
) -> Result<Placed, Diagnostics> {
    b.inputs = b.cut_inputs()?;
    let swaps = b.section.or("Transpose", false)?;
    // Conventions of CNTK only concern how N2D2 splits nodes into cells.
    b.section.get::<bool>("CNTK")?;
    let mut model = file.model.clone();
    let names: Vec<String> = wanted.iter().map(|v| model.graph[*v].name.clone()).collect();
    keep_only(&mut model.graph, wanted).map_err(|text| b.problem(Code::OnnxInvalid, text))?;
    let layer = b.layer.clone();
    let at = |d: Diagnostic| named(d, &layer);
    opset::convert(&mut model, OPSET).map_err(|problems| mapped(problems, at))?;
    let batch = declared_batch(&model.graph);
    if let Some(batch) = batch {
        let _ = infer(&mut model);
        free_batch(&mut model.graph, batch);
    }
    let bound = entries(b, &model.graph, swaps)?;
    set_inputs(&mut model, &bound, &Dim::from(BATCH));
    let mut problems = infer(&mut model);
    let results = |model: &Model| -> Vec<ValueId> {
        names.iter().filter_map(|name| model.graph.value_named(name)).collect()
    };
    if let Some(batch) = batch
        && !(problems.0.is_empty() && results(&model).iter().all(|v| follows(&model.graph, *v)))
    {
        // Nodes that count on the file's batch leave no choice.
        b.source.fix_batch(batch, &b.layer)?;
        set_inputs(&mut model, &bound, &Dim::Known(batch));
        problems = infer(&mut model);
    }
    mapped(problems, at).or_ok(())?;
    b.source.adopt(&model, &b.layer)?;
    let results = results(&model);
    let placed = expand(b, &mut model.graph, &bound, &results)?;
    let mut all = Placed::new();
    for ((before, inner), name) in wanted.iter().zip(&results).zip(&names) {
        let mut value = placed[inner];
        if swaps {
            value = swapped_back(b, value, name)?;
        }
        all.insert(*before, value);
    }
    Ok(all)
}

fn mapped(found: Diagnostics, f: impl Fn(Diagnostic) -> Diagnostic) -> Diagnostics {
    Diagnostics(found.0.into_iter().map(f).collect())
}

/// A finding about a node of the file, at its section.
fn named(d: Diagnostic, layer: &Layer) -> Diagnostic {
    let message = match &d.layer {
        Some(inner) if !inner.name.is_empty() && !d.message.contains(&inner.name) => {
            format!("node `{}`: {}", shown(&inner.name), d.message)
        }
        _ => d.message.clone(),
    };
    d.saying(message).at(layer.clone())
}

/// Removes all nodes that do not lead to `wanted`, which become the outputs.
fn keep_only(graph: &mut Graph, wanted: &[ValueId]) -> Result<(), String> {
    graph.set_outputs(wanted.to_vec());
    let order = graph.topological().map_err(|_| "the file's nodes are on a cycle".to_owned())?;
    for id in order.into_iter().rev() {
        if graph[id].outputs.iter().flatten().all(|v| graph.uses(*v) == 0) {
            graph.remove_node(id);
        }
    }
    Ok(())
}

/// The number of samples that the file is made for, if it is made for one number alone.
fn declared_batch(graph: &Graph) -> Option<i64> {
    let shape = |v: &ValueId| graph[*v].shape()?.first()?.known();
    graph.inputs().iter().find_map(shape)
}

/// `Reshape` with the batch written out copies it from its input instead.
fn free_batch(graph: &mut Graph, batch: i64) {
    for id in graph.node_ids() {
        let Some(reshape) = At::<Reshape>::find(graph, id) else { continue };
        let Some(mut sizes) = graph.constant(reshape.shape).and_then(Tensor::to_i64s) else {
            continue;
        };
        let first = graph[reshape.data].shape().and_then(|shape| shape.first()?.known());
        if first != Some(batch) || sizes.first() != Some(&batch) || reshape.allowzero != 0 {
            continue;
        }
        sizes[0] = 0;
        let name = graph.fresh_name(&format!("{}_batch", graph[reshape.shape].name));
        let shape = graph.add_initializer(&name, Tensor::vector(sizes));
        graph.set_input(id, 1, Some(shape));
    }
}

/// Gives the inputs the types of what is bound to them, and forgets all that follows from others.
fn set_inputs(model: &mut Model, bound: &[(Var, ValueType)], batch: &Dim) {
    model.for_each_graph_mut(&mut |graph, _| {
        for v in graph.value_ids().filter(|v| graph[*v].initializer().is_none()).collect::<Vec<_>>()
        {
            graph[v].ty = None;
        }
    });
    let graph = &mut model.graph;
    for (input, (_, ty)) in graph.inputs().to_vec().into_iter().zip(bound) {
        let mut ty = ty.clone();
        if let ValueType::Tensor { shape: Some(shape), .. } = &mut ty {
            shape[0] = batch.clone();
        }
        graph[input].ty = Some(ty);
    }
}

/// Whether the first axis of a result is known to be the batch.
fn follows(graph: &Graph, v: ValueId) -> bool {
    let shape = graph[v].shape();
    shape.and_then(|shape| shape.first()).is_some_and(|first| first.same(&Dim::from(BATCH)))
}

// ---- inputs -------------------------------------------------------------------------------------

/// What is bound to the file's inputs, in their order, with types.
fn entries(b: &Cell, graph: &Graph, swaps: bool) -> Lowered<Vec<(Var, ValueType)>> {
    let inputs = graph.inputs();
    if inputs.len() != b.inputs.len() {
        let names: Vec<_> =
            inputs.iter().take(8).map(|v| format!("`{}`", shown(&graph[*v].name))).collect();
        let message = format!(
            "names {}, but the file has {}: {}",
            counted(b.inputs.len()),
            counted(inputs.len()),
            names.join(", ")
        );
        return Err(b.section.problem("Input", message));
    }
    b.inputs.iter().zip(inputs).map(|(x, input)| entry(b, *x, graph, *input, swaps)).collect()
}

fn counted(n: usize) -> String {
    if n == 1 { "one input".into() } else { format!("{n} inputs") }
}

/// Brings `x` into the form that an input of the file has.
fn entry(
    b: &Cell,
    x: Feature,
    graph: &Graph,
    input: ValueId,
    swaps: bool,
) -> Lowered<(Var, ValueType)> {
    let declared = graph[input].ty.as_ref();
    let dtype = declared.and_then(ValueType::dtype).unwrap_or(DataType::Float);
    let shape = declared.and_then(ValueType::shape);
    let sizes: Vec<Option<i64>> =
        shape.unwrap_or_default().iter().skip(1).map(Dim::known).collect();
    let name = &graph[input].name;
    let value = match shape.map(<[Dim]>::len) {
        None | Some(4) => image_entry(b, x, &sizes, name, swaps)?,
        Some(2) if fits(&sizes, &[x.size.count()]) => match x.flat {
            true => x.value,
            false => b.flatten(x).one()?,
        },
        Some(_) => return Err(misfit(b, x, &sizes, name)),
    };
    let value = b.cast(value, dtype)?;
    let ty = b.type_of(value).unwrap_or(ValueType::Tensor { dtype: Some(dtype), shape: None });
    Ok((value, ty))
}

fn image_entry(b: &Cell, x: Feature, sizes: &[Option<i64>], name: &str, swaps: bool) -> Lowered {
    let x = b.unsqueezed(x)?;
    let x = if swaps { swapped(b, x)? } else { x };
    let MapSize { channels, height, width } = x.size;
    let any_size = b.section.or("IgnoreInputSize", false)?;
    let first = sizes.first().copied().flatten();
    if fits(sizes, &[channels, height, width]) || (any_size && fits(&[first], &[channels])) {
        return Ok(x.value);
    }
    // Other frameworks put the channels last.
    if fits(sizes, &[height, width, channels]) {
        return b.transpose(x).perm([0, 2, 3, 1]).one();
    }
    Err(misfit(b, x, sizes, name))
}

fn fits(declared: &[Option<i64>], sizes: &[usize]) -> bool {
    let same = |(d, n): (&Option<i64>, &usize)| d.is_none_or(|d| usize::try_from(d) == Ok(*n));
    declared.is_empty() || (declared.len() == sizes.len() && declared.iter().zip(sizes).all(same))
}

fn misfit(b: &Cell, x: Feature, sizes: &[Option<i64>], name: &str) -> Diagnostic {
    let show = |d: &Option<i64>| d.map_or("?".to_owned(), |d| d.to_string());
    let declared: Vec<String> = sizes.iter().map(show).collect();
    let MapSize { channels, height, width } = x.size;
    let message = format!(
        "the file's input `{}` takes samples of [{}], but is given [{channels}, {height}, {width}]",
        shown(name),
        declared.join(", ")
    );
    let help = "Set `SizeX`, `SizeY` and `NbChannels` as the file has them.";
    b.problem(Code::ShapeMismatch, message).help(help)
}

// ---- height and width exchanged -----------------------------------------------------------------

const SWAP: [i64; 4] = [0, 1, 3, 2];

fn swapped(b: &Cell, x: Feature) -> Lowered<Feature> {
    match x.size.plane() {
        [1, 1] => Ok(x),
        _ => b.feature(b.transpose(x).perm(SWAP).one()?),
    }
}

/// The result under its name, with the axes of the network.
fn swapped_back(b: &Cell, value: Var, name: &str) -> Lowered {
    match b.shape_of(value).as_deref() {
        Some([_, _, h, w]) if (h.known(), w.known()) != (Some(1), Some(1)) => {}
        _ => return Ok(value),
    }
    let out = b.transpose(value).perm(SWAP).one()?;
    b.rename(value, &b.free_name(&format!("{name}_swapped")));
    b.rename(out, name);
    Ok(out)
}

// ---- nodes --------------------------------------------------------------------------------------

/// Adds the file's nodes; gives where its results are. Values keep their names as far as nothing
/// of the network is called so.
fn expand(
    b: &Cell,
    inner: &mut Graph,
    bound: &[(Var, ValueType)],
    results: &[ValueId],
) -> Lowered<Placed> {
    for id in inner.node_ids() {
        let node = &inner[id];
        let name = node.output(0).map_or(&node.name, |v| &inner[v].name);
        let place = b.layer.place.clone();
        let layer = Layer { name: name.clone(), kind: node.op.clone(), place };
        inner.node_mut(id).layers.edit(|layers| {
            layers.retain(|l| l.name != layer.name);
            layers.insert(0, layer);
        });
    }
    let inputs = inner.inputs().to_vec();
    let outer = bound.iter().map(|(x, _)| b.id(*x)).collect::<Lowered<Vec<ValueId>>>()?;
    let names = inputs.iter().map(|v| inner[*v].name.as_str());
    let bindings: Vec<(&str, ValueId)> = names.zip(outer).collect();
    let used = |v: &ValueId| inner.uses(*v) > 0 && !inputs.contains(v);
    let kept: Vec<ValueId> = inner.value_ids().filter(used).collect();
    let mut body = inner.clone();
    body.set_outputs(kept.iter().chain(&inputs).copied().collect());
    let new = inline(&mut b.graph_mut(), "", &body, &bindings);
    let new = new.map_err(|d| d.at(b.layer.clone()))?;
    // All names are given up before the first is taken.
    for value in &new[..kept.len()] {
        let mut graph = b.graph_mut();
        let name = graph.fresh_name("file_value");
        graph.rename(*value, &name);
    }
    let results: HashSet<&ValueId> = results.iter().collect();
    for (old, new) in kept.iter().zip(&new) {
        let name = &inner[*old].name;
        let exact = results.contains(old);
        let name = if exact { b.source.result_name(b, name) } else { b.free_name(name) };
        let mut graph = b.graph_mut();
        graph.rename(*new, &name);
        let ty = inner[*old].ty.clone();
        graph[*new].ty = ty.or(graph[*new].ty.take());
    }
    let new = new.into_iter().map(|v| b.var(v));
    Ok(kept.iter().chain(&inputs).copied().zip(new).collect())
}
