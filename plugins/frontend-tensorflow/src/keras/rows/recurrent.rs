//! Recurrent layers, and layers that run others over time.

use super::kernels;
use super::recurrent_call::{RecurrentCall, activation};
use crate::keras::layer::KerasLayer;
use crate::keras::masks;
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use crate::ops::recurrent::masked::{SequenceOptions, layer as over};
use crate::ops::recurrent::{CellKind, RecurrentCell};
use crate::ops::shape::transposed;
use crate::ops::slicing::reversed;
use crate::ops::{dtype_of, size_of};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{self, Code, refuse};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Lowered;
use serde_json::Value as Json;

/// Runs recurrent layers, and `Bidirectional`.
///
/// # Errors
/// As `KerasRunner::call`.
pub(crate) fn recurrent(
    called: &Called<'_, '_, '_>,
    arguments: &CallArgs,
) -> Lowered<Option<Vec<KerasItem>>> {
    type RecurrentFn = fn(&Called<'_, '_, '_>, &CallArgs) -> Lowered<Vec<KerasItem>>;
    let runner = called.runner;
    let run: RecurrentFn = match called.layer.class.as_str() {
        "LSTM" | "GRU" | "SimpleRNN" | "RNN" => sequence,
        "ConvLSTM1D" | "ConvLSTM2D" | "ConvLSTM3D" => super::conv_lstm::run,
        "Bidirectional" => bidirectional,
        "TimeDistributed" => super::time::distributed,
        _ => return Ok(None),
    };
    let arguments = runner.cast(called.layer, arguments.clone())?;
    if arguments.items().any(|item| item.leaves().contains(&&KerasItem::Hole)) {
        return Ok(Some(vec![KerasItem::Hole]));
    }
    let arguments = masks::passed(runner, called.layer, arguments);
    match runner.builder().in_layer(called.place(), |_| run(called, &arguments)) {
        Ok(items) => masks::attached(called, &arguments, items).map(Some),
        Err(found) => {
            runner.driver.report(found);
            Ok(Some(vec![KerasItem::Hole]))
        }
    }
}

/// The cells of a layer, one above the other.
fn cells(called: &Called<'_, '_, '_>) -> Lowered<Vec<RecurrentCell>> {
    let mut all = vec![];
    // Older files have all weights of a layer in one list.
    let mut shared = called.weights()?;
    collect(called, &mut shared, &mut all)?;
    Ok(all)
}

fn collect(
    called: &Called<'_, '_, '_>,
    shared: &mut Vec<Var>,
    to: &mut Vec<RecurrentCell>,
) -> Lowered<()> {
    let Called { runner, layer, .. } = *called;
    let b = runner.builder();
    let reset_after = layer.is("reset_after");
    let kind = match layer.class.as_str() {
        "LSTM" | "LSTMCell" => CellKind::Lstm,
        "GRU" | "GRUCell" => CellKind::Gru { reset_after },
        "SimpleRNN" | "SimpleRNNCell" => CellKind::Simple,
        "RNN" | "StackedRNNCells" => {
            for (_, part) in &layer.parts {
                let path = format!("{}/{}", called.path, part.name);
                collect(&Called { runner, layer: part, path: &path }, shared, to)?;
            }
            return Ok(());
        }
        other => {
            let reason = match &layer.foreign {
                Some(reason) => format!("{reason}."),
                None => format!("`{}` is no cell of Keras.", diagnostics::shown(other)),
            };
            let help = "Export the model with `model.export(\"folder\")`, and convert that.";
            return Err(b.unsupported(reason).help(help));
        }
    };
    let count = if layer.is("use_bias") { 3 } else { 2 };
    let own = match shared.is_empty() {
        true => called.weights()?,
        false => shared.drain(..count.min(shared.len())).collect(),
    };
    let (kernel, recurrent, bias) = kernels(b, layer, &own)?;
    let units = layer.int("units").unwrap_or_default();
    let gates = activation(runner, layer, "recurrent_activation");
    let gates =
        if kind == CellKind::Simple { activation(runner, layer, "activation") } else { gates };
    let activation = activation(runner, layer, "activation");
    to.push(RecurrentCell { kind, units, kernel, recurrent, bias, activation, gates });
    Ok(())
}

/// A layer of cells over a sequence.
fn sequence(called: &Called<'_, '_, '_>, given: &CallArgs) -> Lowered<Vec<KerasItem>> {
    let (b, layer) = (called.builder(), called.layer);
    let RecurrentCall { x, mut initial, mask } = RecurrentCall::from_given(b, given)?;
    let cells = cells(called)?;
    // Integers become of the type of the weights.
    let x = match cells.first() {
        Some(cell) if !dtype_of(b, x)?.is_float() => b.cast(x, dtype_of(b, cell.kernel)?)?,
        _ => x,
    };
    let kept = if layer.is("stateful") { state_names(called, &cells) } else { vec![] };
    if initial.is_empty() && !kept.is_empty() {
        initial = kept_states(called, x, &kept)?;
    }
    let states: usize = cells.iter().map(|cell| cell.kind.states()).sum();
    refuse!(states == 0 || !(initial.is_empty() || initial.len() == states) =>
        b.wrong(format!("The layer has {states} states, and is given {}.", initial.len())));
    let time_first = layer.is("time_major");
    let swap = |v: Var| if time_first { transposed(b, v, &[1, 0, 2]) } else { Ok(v) };
    let mask = mask.map(|mask| if time_first { transposed(b, mask, &[1, 0]) } else { Ok(mask) });
    let options = SequenceOptions {
        backwards: layer.is("go_backwards"),
        sequences: layer.is("return_sequences"),
        mask: mask.transpose()?,
        zeros: layer.is("zero_output_for_mask"),
    };
    let (output, states) = over(b, &cells, swap(x)?, &initial, options)?;
    for ((name, _), state) in kept.iter().zip(&states) {
        called.runner.states.write("state", name, called.place(), *state);
    }
    let output = if options.sequences { swap(output)? } else { output };
    let mut items: Vec<KerasItem> = vec![output.into()];
    if layer.is("return_state") {
        items.extend(states.into_iter().map(KerasItem::from));
    }
    Ok(items)
}

/// The names of a layer's states and how many units each has, in the order in which cells take them.
fn state_names(called: &Called<'_, '_, '_>, cells: &[RecurrentCell]) -> Vec<(String, i64)> {
    let units = cells.iter().flat_map(|cell| vec![cell.units; cell.kind.states()]);
    let name = |at: usize| match at {
        0 => format!("{}/state", called.path),
        _ => format!("{}/state_{at}", called.path),
    };
    units.enumerate().map(|(at, units)| (name(at), units)).collect()
}

/// Numbers of a state.
const STATE_MAX: usize = 1 << 26;

/// The states that a layer keeps, which are zeros before the first call.
fn kept_states(called: &Called<'_, '_, '_>, x: Var, names: &[(String, i64)]) -> Lowered<Vec<Var>> {
    let b = called.builder();
    let batch = if called.layer.is("time_major") { 1 } else { 0 };
    let Some(size) = size_of(b, x, batch) else {
        let message =
            "The layer keeps its states (`stateful`), and the size of the batch is not known.";
        let help = "Fix it with `export.input_shapes`.";
        return Err(b.wrong(message).help(help));
    };
    let state = |(name, units): &(String, i64)| {
        let dims = [size, *units].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let count = dims[0].checked_mul(dims[1]).filter(|count| *count <= STATE_MAX);
        let Some(count) = count else {
            let message = format!("A state of [{size}, {units}] numbers is larger than is kept.");
            return Err(b.diagnostic(Code::SourceLimit, message));
        };
        let zeros = Tensor::from_vec(dims, vec![0f32; count]);
        let zeros = zeros.cast(dtype_of(b, x)?).map(|zeros| zeros.held());
        let zeros = zeros.map_err(|_| b.wrong("A state has an odd type."))?;
        called.runner.states.value(b, name, zeros)
    };
    names.iter().map(state).collect()
}

/// Both layers of `Bidirectional`, each with its weights.
fn directions(layer: &KerasLayer) -> Option<[KerasLayer; 2]> {
    let mut both = [layer.part("forward_layer")?.clone(), layer.part("backward_layer")?.clone()];
    let all = &layer.weights;
    if !all.is_empty() {
        // Older files have them in one list, those that are not trained last.
        let of = |layer: &KerasLayer| {
            let is_own = |place: &&String| place.split('/').any(|part| part == layer.name);
            all.iter().filter(is_own).cloned().collect::<Vec<String>>()
        };
        let named = [of(&both[0]), of(&both[1])];
        let (forward, backward) = all.split_at(all.len() / 2);
        let is_shared_out = named.iter().map(Vec::len).sum::<usize>() == all.len();
        let halves = [forward.to_vec(), backward.to_vec()];
        let shares = if is_shared_out { named } else { halves };
        for (layer, weights) in both.iter_mut().zip(shares) {
            layer.weights = weights;
        }
    }
    // Whatever the layers say for themselves.
    for layer in &mut both {
        let zeros = Json::Bool(layer.is("return_sequences"));
        layer.config.insert("zero_output_for_mask".to_owned(), zeros);
    }
    Some(both)
}

/// A sequence in both directions.
fn bidirectional(called: &Called<'_, '_, '_>, arguments: &CallArgs) -> Lowered<Vec<KerasItem>> {
    let b = called.builder();
    let Some(both) = directions(called.layer) else {
        return Err(b.diagnostic(Code::SourceSyntax, "The layer has no layer inside."));
    };
    let RecurrentCall { x, initial, mask } = RecurrentCall::from_given(b, arguments)?;
    let (first, second) = initial.split_at(initial.len() / 2);
    let mut arguments = vec![];
    for (layer, states) in both.iter().zip([first, second]) {
        let mut named = vec![];
        if !states.is_empty() {
            let states = states.iter().map(|v| KerasItem::from(*v)).collect();
            named.push(("initial_state".to_owned(), KerasItem::List(states)));
        }
        named.extend(mask.map(|mask| ("mask".to_owned(), KerasItem::from(mask))));
        let call = CallArgs { positional: vec![x.into()], named };
        let items = called.inner(layer, call)?;
        let tensors: Vec<Var> = items.iter().filter_map(KerasItem::tensor).collect();
        if tensors.is_empty() {
            return Ok(vec![KerasItem::Hole]);
        }
        arguments.push(tensors);
    }
    let (y, mut z) = (arguments[0][0], arguments[1][0]);
    if both[0].is("return_sequences") {
        z = reversed(b, z, &[1])?;
    }
    let merged = match called.layer.word("merge_mode") {
        Some("concat") => vec![b.concat([y, z]).axis(-1).one()?],
        Some("sum") => vec![b.add(y, z)?],
        Some("ave") => vec![b.mul(b.add(y, z)?, 0.5)?],
        Some("mul") => vec![b.mul(y, z)?],
        _ => vec![y, z],
    };
    let mut items: Vec<KerasItem> = merged.into_iter().map(KerasItem::from).collect();
    if both[0].is("return_state") {
        items.extend(arguments.iter().flat_map(|all| &all[1..]).map(|v| KerasItem::from(*v)));
    }
    Ok(items)
}
