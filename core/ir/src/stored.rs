//! Weights that are stored in fewer bits than they are computed in: a constant behind a `Cast` to a wider type, or
//! behind `DequantizeLinear`. What only rearranges their real numbers rearranges what is stored, so that it is done
//! once, when the model is written, and the file keeps the size that its source had.

mod moves;
mod readers;

use crate::{Attr, DataType, Graph, Node, NodeId, Tensor, ValueId, ValueType};
use moves::moved;
use readers::Readers;

/// Bytes up to which a constant may be there twice, because something else reads it too.
const TWICE_BYTES_MAX: usize = 4 << 10;

/// Bytes from which on a tensor is not rearranged before the model is written.
const DERIVED_BYTES_MIN: usize = 64 << 10;

/// A constant, and how real numbers are made of it.
#[derive(Clone, Debug)]
struct StoredConstant {
    tensor: Tensor,
    reals: Reals,
}

#[derive(Clone, Debug)]
enum Reals {
    Cast(DataType),
    Linear(Linear),
}

/// The operands of `DequantizeLinear`, and the axis of the scales if they are several.
#[derive(Clone, Debug)]
struct Linear {
    scale: Tensor,
    zero: Option<Tensor>,
    axis: Option<usize>,
}

/// Moves what rearranges stored weights before what makes real numbers of them, as often as `may` allows it. Sub-graphs
/// are graphs of their own.
pub fn settle_stored(graph: &mut Graph, may: &mut dyn FnMut() -> bool) {
    settle(graph, &mut Readers::default(), may);
}

fn settle(graph: &mut Graph, readers: &mut Readers, may: &mut dyn FnMut() -> bool) {
    // What overlapping parts and repeated joints may add is what was there.
    let constants = graph.value_ids().filter_map(|v| graph[v].initializer());
    let mut room = constants.map(Tensor::byte_len).fold(TWICE_BYTES_MAX, usize::saturating_add);
    for id in graph.topological().unwrap_or_default() {
        if graph.node(id).is_none() {
            continue;
        }
        let found = rearranged(graph, readers, id);
        if let Some((real, parts, grown)) = found.filter(|(.., grown)| *grown <= room) {
            if !may() {
                return;
            }
            room -= grown;
            exchange(graph, readers, id, real, parts);
        } else if let Some(read) = looked_up(graph, id).or_else(|| rearranged_rows(graph, id)) {
            if !may() {
                return;
            }
            look_up(graph, id, &read);
        }
    }
}

/// Bytes of constants.
fn bytes(parts: &[StoredConstant]) -> usize {
    parts.iter().map(|part| part.tensor.byte_len()).fold(0, usize::saturating_add)
}

/// What a value is made of, if it is a constant behind a `Cast` to a wider type or a `DequantizeLinear`.
fn stored(graph: &Graph, real: ValueId) -> Option<StoredConstant> {
    let node = graph.node(graph.producer(real)?).filter(|node| node.is_standard())?;
    let tensor = graph.constant(node.input(0)?)?.clone();
    let reals = match node.op.as_str() {
        "Cast" => {
            let Some(ValueType::Tensor { dtype: Some(to), .. }) = graph[real].ty else {
                return None;
            };
            if to.bits() <= tensor.dtype().bits() || tensor.dtype() == DataType::String {
                return None;
            }
            Reals::Cast(to)
        }
        "DequantizeLinear" if node.int("block_size", 0) == 0 => {
            let scale = graph.constant(node.input(1)?)?.clone();
            let zero = match node.input(2) {
                Some(zero) => Some(graph.constant(zero)?.clone()),
                None => None,
            };
            let axis = node.int("axis", 1);
            let axis = if axis < 0 { axis + tensor.rank() as i64 } else { axis };
            let fits = |axis: usize| tensor.dims().get(axis) == Some(&scale.len());
            let axis = match scale.rank() {
                0 => None,
                // A vector of another size than the axis is one scale for all: what it belongs to stays as it is.
                1 => Some(usize::try_from(axis).ok().filter(|axis| fits(*axis))?),
                _ => return None,
            };
            Reals::Linear(Linear { scale, zero, axis })
        }
        _ => return None,
    };
    Some(StoredConstant { tensor, reals })
}

/// The real values that a node rearranges, each read by nothing that needs them as they are, what is stored of its
/// results, and by how many bytes constants grow.
fn rearranged(
    graph: &Graph,
    readers: &mut Readers,
    id: NodeId,
) -> Option<(Vec<ValueId>, Vec<StoredConstant>, usize)> {
    let node = graph.node(id).filter(|node| node.is_standard())?;
    let count = if node.is("Concat") { node.inputs.len() } else { 1 };
    let real: Vec<ValueId> = node.inputs.iter().take(count).copied().collect::<Option<_>>()?;
    let parts = real.iter().map(|real| stored(graph, *real)).collect::<Option<Vec<_>>>()?;
    let alone = |(real, part): (&ValueId, &StoredConstant)| {
        part.tensor.byte_len() <= TWICE_BYTES_MAX || is_alone(graph, readers, *real, id)
    };
    if !real.iter().zip(&parts).all(alone) {
        return None;
    }
    let results = moved(graph, node, &parts)?;
    // What others take parts of stays until they have theirs.
    let stays = real.iter().any(|real| graph.uses(*real) > 1);
    let before = if stays { 0 } else { bytes(&parts) };
    let grown = bytes(&results).saturating_sub(before);
    (results.len() == node.outputs.len()).then_some((real, results, grown))
}

/// Whether nothing else reads a value or the constant behind it: only nodes that take parts of it, or such that do the
/// same as the node.
fn is_alone(graph: &Graph, readers: &mut Readers, real: ValueId, id: NodeId) -> bool {
    let constant = graph.producer(real).and_then(|id| graph[id].input(0));
    !graph.is_output(real)
        && constant.is_some_and(|constant| graph.uses(constant) == 1)
        && readers.are_alike(graph, real, id)
}

fn does_same(graph: &Graph, one: NodeId, other: NodeId) -> bool {
    crate::same_node((graph, one), (graph, other), &|a, b| a == b)
        && graph[one].outputs.len() == graph[other].outputs.len()
}

/// Puts what makes real numbers of the rearranged constants in the place of the node, and of those that do the same.
fn exchange(
    graph: &mut Graph,
    readers: &mut Readers,
    id: NodeId,
    real: Vec<ValueId>,
    parts: Vec<StoredConstant>,
) {
    let outputs = graph[id].outputs.clone();
    let gives_output =
        |other: NodeId| graph[other].outputs.iter().flatten().any(|out| graph.is_output(*out));
    let mut same = readers.same(graph, real[0], id);
    same.retain(|other| *other != id && !gives_output(*other));
    for other in same {
        let gone = graph.remove_node(other);
        for (from, to) in gone.outputs.iter().zip(&outputs) {
            if let (Some(from), Some(to)) = (from, to) {
                graph.replace_uses(*from, *to);
            }
        }
    }
    let Some(source) = graph.producer(real[0]).map(|source| graph[source].clone()) else { return };
    let gone = graph.remove_node(id);
    for (out, part) in outputs.iter().zip(parts) {
        if let Some(out) = out {
            make_real(graph, &source, part, (&gone, *out));
        }
    }
    for value in real {
        leave(graph, value);
    }
}

/// Removes what made a value that nothing reads any more.
fn leave(graph: &mut Graph, real: ValueId) {
    let Some(maker) = graph.producer(real) else { return };
    if graph.uses(real) == 0 && !graph.is_output(real) {
        let gone = graph.remove_node(maker);
        graph.drop_unread(gone.reads().collect::<Vec<_>>());
    }
}

/// Adds the node that makes the real numbers `out` of a constant, as `source` did.
fn make_real(
    graph: &mut Graph,
    source: &Node,
    part: StoredConstant,
    (gone, out): (&Node, ValueId),
) {
    let StoredConstant { tensor, reals } = part;
    let name = source.input(0).map(|v| graph[v].name.clone()).unwrap_or_default();
    let tensor = if tensor.byte_len() < DERIVED_BYTES_MIN { tensor.held() } else { tensor };
    let mut inputs = vec![Some(graph.add_initializer(&name, tensor))];
    let mut node = Node::new(source.op.as_str(), [], [out]);
    node.attrs.clone_from(&source.attrs);
    if let Reals::Linear(linear) = reals {
        let Linear { scale, zero, axis } = linear;
        inputs.push(operand(graph, source.input(1), &scale));
        if let Some(zero) = zero {
            inputs.push(operand(graph, source.input(2), &zero));
        }
        node.attrs.retain(|(name, _)| &**name != "axis");
        if let Some(axis) = axis {
            node = node.with("axis", Attr::Int(axis as i64));
        }
    }
    node.inputs = inputs;
    node.name.clone_from(&gone.name);
    node.layers.clone_from(&gone.layers);
    graph.add_node(node);
}

/// The constant `tensor`: the one that was there, if it is the same.
fn operand(graph: &mut Graph, known: Option<ValueId>, tensor: &Tensor) -> Option<ValueId> {
    let is_same = |v: &ValueId| graph.constant(*v) == Some(tensor);
    if let Some(known) = known.filter(is_same) {
        return Some(known);
    }
    let name = known.map(|v| graph[v].name.clone()).unwrap_or_else(|| "scale".to_owned());
    Some(graph.add_initializer(&name, tensor.held()))
}

/// How a `Gather` reads stored weights: the axis of the scales among those of its result.
struct LookedUp {
    real: ValueId,
    dtype: DataType,
    axis: Option<usize>,
}

/// A `Gather` of stored weights that takes elements or rows that have one scale, or all have the same ones. So only
/// what is looked up becomes real numbers.
fn looked_up(graph: &Graph, id: NodeId) -> Option<LookedUp> {
    let node = graph.node(id).filter(|node| node.is_standard() && node.is("Gather"))?;
    let (real, out) = (node.input(0)?, node.output(0)?);
    let StoredConstant { tensor, reals } = stored(graph, real)?;
    // `Gather` takes neither packed integers nor floats of 8 bits.
    let taken =
        tensor.dtype().bits() >= 8 && !(tensor.dtype().is_float() && tensor.dtype().bits() == 8);
    if tensor.byte_len() <= TWICE_BYTES_MAX || !taken {
        return None;
    }
    let rank = tensor.rank() as i64;
    let from = node.int("axis", 0);
    let from = usize::try_from(if from < 0 { from + rank } else { from }).ok()?;
    let axis = match reals {
        Reals::Linear(Linear { axis: Some(axis), .. }) if axis == from => return None,
        Reals::Linear(Linear { axis: Some(axis), .. }) if axis > from => {
            // The axes of the indices stand in the place of one.
            let rank_of_out = graph[out].shape()?.len();
            Some((axis + rank_of_out).checked_sub(tensor.rank())?)
        }
        Reals::Linear(Linear { axis, .. }) => axis,
        Reals::Cast(_) => None,
    };
    Some(LookedUp { real, dtype: tensor.dtype(), axis })
}

/// Nodes that rearrange looked up rows, one behind the other.
const CHAIN_MAX: usize = 8;

/// A node that rearranges looked up rows, of which one scale makes real numbers, and that nothing else reads. ONNX
/// Runtime itself would move `DequantizeLinear` behind it, and ends the process where a sub-graph captures the result.
fn rearranged_rows(graph: &Graph, id: NodeId) -> Option<LookedUp> {
    let rearranges = |node: &Node| {
        let ops = ["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Flatten"];
        node.is_standard() && ops.contains(&node.op.as_str())
    };
    let real = graph.node(id).filter(|node| rearranges(node))?.input(0)?;
    let maker = graph.node(graph.producer(real)?).filter(|node| node.is("DequantizeLinear"))?;
    let is_alone = graph.uses(real) == 1 && maker.is_standard();
    let is_uniform = graph.constant(maker.input(1)?)?.rank() == 0;
    let stored = maker.input(0)?;
    let mut value = stored;
    for _ in 0..CHAIN_MAX {
        let node = graph.node(graph.producer(value)?)?;
        let data = node.input(0)?;
        if node.is_standard() && node.is("Gather") && graph.constant(data).is_some() {
            let dtype = graph[stored].dtype()?;
            return (is_alone && is_uniform).then_some(LookedUp { real, dtype, axis: None });
        }
        value = Some(data).filter(|_| rearranges(node))?;
    }
    None
}

fn look_up(graph: &mut Graph, id: NodeId, read: &LookedUp) {
    let Some(source) = graph.producer(read.real).map(|source| graph[source].clone()) else {
        return;
    };
    let Some((stored, out)) = source.input(0).zip(graph[id].output(0)) else { return };
    let shape = graph[out].shape().map(<[_]>::to_vec);
    let ty = ValueType::Tensor { dtype: Some(read.dtype), shape };
    let name = format!("{}_stored", graph[out].name);
    let found = graph.add_value(&name, Some(ty));
    let mut gone = graph.remove_node(id);
    let mut node = Node::new(source.op.as_str(), [], [out]);
    node.inputs.clone_from(&source.inputs);
    node.inputs[0] = Some(found);
    node.attrs.clone_from(&source.attrs);
    node.attrs.retain(|(name, _)| &**name != "axis");
    if let Some(axis) = read.axis {
        node = node.with("axis", Attr::Int(axis as i64));
    }
    node.layers.clone_from(&gone.layers);
    gone.inputs[0] = Some(stored);
    gone.outputs = vec![Some(found)];
    graph.add_node(gone);
    graph.add_node(node);
    leave(graph, read.real);
}

#[cfg(test)]
mod tests;
