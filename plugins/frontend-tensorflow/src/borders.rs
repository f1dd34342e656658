//! The order of axes at the borders: inputs and outputs are as in the source, with channels last most often. Params ask
//! for channels first.

use crate::params;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::{Attr, Dim, Graph, Node, ValueId, ValueType};

/// Stands for all that have channels.
const ALL: &str = "*";
/// A batch, one axis of space, and channels.
const RANK_MIN: usize = 3;

/// Gives the inputs and outputs that params name channels first; Transposes stand behind and before them.
///
/// # Errors
/// `N0105` for names that the network does not have, and for tensors that have no channels.
pub(crate) fn channels_first(graph: &mut Graph, params: &params::Source) -> Result<(), Diagnostic> {
    let inputs = graph.inputs().to_vec();
    for id in named(graph, &inputs, "source.inputs_as_nchw", &params.inputs_as_nchw())? {
        input(graph, id);
    }
    let outputs = graph.outputs().to_vec();
    for id in named(graph, &outputs, "source.outputs_as_nchw", &params.outputs_as_nchw())? {
        output(graph, id);
    }
    Ok(())
}

/// The values that a param names.
fn named(
    graph: &Graph,
    values: &[ValueId],
    key: &str,
    names: &[String],
) -> Result<Vec<ValueId>, Diagnostic> {
    let has_channels = |id: &ValueId| sizes(graph, *id).is_some_and(|s| s.len() >= RANK_MIN);
    let bad = |message: String| Err(Diagnostic::new(Code::ParamsBadValue, message));
    let mut with_channels: Vec<ValueId> = vec![];
    for name in names {
        if name == ALL {
            with_channels.extend(values.iter().filter(|id| has_channels(id)));
            continue;
        }
        match values.iter().find(|id| graph[**id].name == *name) {
            Some(id) if has_channels(id) => with_channels.push(*id),
            Some(_) => {
                return bad(format!("`{key}` names `{}`, which has no channels.", shown(name)));
            }
            None => {
                let all: Vec<&str> = values.iter().map(|id| graph[*id].name.as_str()).collect();
                let (name, all) = (shown(name), shown(&all.join(", ")));
                return bad(format!("`{key}` names `{name}`, which is none of: {all}."));
            }
        }
    }
    with_channels.sort_unstable();
    with_channels.dedup();
    Ok(with_channels)
}

fn sizes(graph: &Graph, id: ValueId) -> Option<&[Dim]> {
    graph[id].ty.as_ref()?.shape()
}

/// What the value becomes with its last axis behind the first.
fn first(graph: &Graph, id: ValueId) -> Option<ValueType> {
    let ty = graph[id].ty.as_ref()?;
    let mut sizes = ty.shape()?.to_vec();
    let channels = sizes.pop()?;
    sizes.insert(1, channels);
    Some(ValueType::Tensor { dtype: ty.dtype(), shape: Some(sizes) })
}

/// Lets an input have channels first.
fn input(graph: &mut Graph, id: ValueId) {
    let (name, last) = (graph[id].name.clone(), graph[id].ty.clone());
    let rank = sizes(graph, id).map_or(0, <[Dim]>::len) as i64;
    let inside = graph.add_value(&format!("{name}_channels_last"), last);
    graph[id].ty = first(graph, id);
    graph.replace_uses(id, inside);
    let perm = [0].into_iter().chain(2..rank).chain([1]).collect();
    transpose(graph, id, inside, perm);
}

/// Lets an output have channels first.
fn output(graph: &mut Graph, id: ValueId) {
    let (name, ty) = (graph[id].name.clone(), first(graph, id));
    let rank = sizes(graph, id).map_or(0, <[Dim]>::len) as i64;
    let is_input = graph.inputs().contains(&id);
    let outside = graph.add_value(&format!("{name}_channels_first"), ty);
    let outputs = graph.outputs().iter().map(|o| if *o == id { outside } else { *o }).collect();
    graph.set_outputs(outputs);
    if !is_input {
        graph.rename(id, &format!("{name}_channels_last"));
        graph.rename(outside, &name);
    }
    let perm = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    transpose(graph, id, outside, perm);
}

fn transpose(graph: &mut Graph, from: ValueId, to: ValueId, perm: Vec<i64>) {
    let attrs = vec![("perm".to_owned(), Attr::Ints(perm))];
    let name = graph[to].name.clone();
    graph.add_node(Node { name, attrs, ..Node::new("Transpose", [from], [to]) });
}

#[cfg(test)]
mod tests;
