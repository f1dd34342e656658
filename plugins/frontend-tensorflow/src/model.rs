//! What all readers have in common: the run of a network on a new graph, the types of its inputs and outputs, and the
//! model at the end.

use crate::ops::{RowContext, complex};
use crate::states::{Asked, KeptStates, lost_in_frames};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_plugin_sdk::formulas::complex::{is, is_complex};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, ValueId, ValueType, settle_stored};
use onnxd_plugin_sdk::lower::{self, Driver, Table};
use onnxd_plugin_sdk::states::{Written, needed};
use onnxd_plugin_sdk::{ExportOptions, Imported};

/// A kind of network.
pub(crate) struct NetworkFormat {
    /// The name of its graphs.
    pub(crate) name: &'static str,
    pub(crate) table: fn() -> Table<RowContext>,
}

/// What the run of a network leaves beside its graph.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// Weights that became inputs.
    pub(crate) weights: Vec<ValueId>,
    /// Outputs that nothing computes, by their names. What is the cause of it was reported, most often.
    pub(crate) lost: Vec<String>,
    /// Facts for the report.
    pub(crate) metadata: Vec<(String, String)>,
    /// What outlives the run.
    pub(crate) kept: KeptStates,
}

/// Runs a network, and makes a model of the graph. What outlives a call is found by a first run. A second one has it as
/// inputs and outputs, which tell whether a result depends on it.
///
/// # Errors
/// Everything that `run` gives or reported; what outlives a call, if a result depends on it and nobody asks for it.
pub(crate) fn import(
    reader: &NetworkFormat,
    options: &ExportOptions,
    run: impl Fn(&Driver<'_, RowContext>, &Asked) -> Result<Ran>,
) -> std::result::Result<Imported, Diagnostics> {
    let (mut plain, kept_states) = made(reader, options, |driver| run(driver, &Asked::new()))?;
    let wants =
        !(kept_states.written.is_empty() && kept_states.anew.is_empty()) && options.wants_states();
    refuse!(!kept_states.lost.is_empty() && options.wants_states() =>
        Diagnostics(kept_states.lost.iter().map(lost_in_frames).collect()));
    plain.notes.extend(kept_states.lost.iter().map(Written::left_out));
    if !wants {
        plain.notes.extend(kept_states.begun());
    }
    if kept_states.written.is_empty() && !wants {
        return Ok(plain);
    }
    let anew = kept_states.anew.iter().filter(|_| wants);
    let asked: Asked =
        kept_states.written.iter().chain(anew).map(|written| written.name.clone()).collect();
    let (with_states, kept) = made(reader, options, |driver| run(driver, &asked))?;
    if wants {
        let lost = kept.written.iter().filter(|written| kept.state(written).is_none());
        let lost = lost.map(|written| written.impossible("has no first value that is known"));
        return Diagnostics(lost.collect()).or_ok(with_states);
    }
    let counting = needed(&with_states.model.graph, &with_states.states);
    let counts = |written: &&Written| kept.state(written).is_none_or(|s| counting.contains(&s));
    // Other layers begin anew in each call, of which there are notes.
    let anew: Asked = kept.anew.iter().map(|written| written.name.clone()).collect();
    let own = |w: &&Written| asked.contains(&w.name) || !anew.contains(&w.name);
    let written = || kept.written.iter().filter(own);
    Diagnostics(written().filter(counts).map(Written::refused).collect()).or_ok(())?;
    plain.notes.extend(written().map(Written::left_out));
    drop_unread(&mut plain.model.graph);
    Ok(plain)
}

/// Runs a network once.
fn made(
    reader: &NetworkFormat,
    options: &ExportOptions,
    run: impl FnOnce(&Driver<'_, RowContext>) -> Result<Ran>,
) -> std::result::Result<(Imported, KeptStates), Diagnostics> {
    let (table, source) = ((reader.table)(), RowContext::default());
    let opsets = Opsets::from([(String::new(), options.opset)]);
    let graph = Graph::new(reader.name);
    let driver = Driver::new(&table, &source, graph, opsets, options.fallback.clone());
    let ran = run(&driver);
    let ((mut graph, notes), ran) = Diagnostics::both(driver.finish(), ran)?;
    if !ran.lost.is_empty() {
        let message = format!("Nothing computes the outputs `{}`.", shown(&ran.lost.join("`, `")));
        return Err(Diagnostic::new(Code::LayerUnsupported, message).into());
    }
    weights_last(&mut graph, ran.weights);
    // Without passes, too: what a file stores in few bits stays so, and is rearranged before the model runs.
    graph.with_subgraphs_mut(options.opset, &mut |graph, _| settle_stored(graph, &mut || true));
    let constants = graph.value_ids().filter(|id| graph.constant(*id).is_some());
    let unread: Vec<ValueId> = constants.filter(|id| graph.uses(*id) == 0).collect();
    graph.drop_unread(unread);
    if options.documented {
        lower::documented(&mut graph);
    }
    let model = lower::model(graph, options.opset);
    let states = ran.kept.states();
    let metadata = ran.metadata;
    Ok((Imported { model, notes, metadata, states, ..Imported::default() }, ran.kept))
}

/// Removes nodes whose results nothing reads.
fn drop_unread(graph: &mut Graph) {
    for id in graph.topological().unwrap_or_default().into_iter().rev() {
        let outputs = graph[id].outputs.clone();
        if outputs.iter().flatten().all(|v| graph.uses(*v) == 0) {
            let read: Vec<ValueId> = graph.remove_node(id).reads().collect();
            let constants = read.into_iter().filter(|v| graph.constant(*v).is_some());
            let constants: Vec<ValueId> = constants.collect();
            graph.drop_unread(constants);
        }
    }
}

/// Weights that are inputs come after those of the network, as far as something reads them.
fn weights_last(graph: &mut Graph, weights: Vec<ValueId>) {
    graph.unmark_inputs(&weights);
    for id in weights {
        if graph.uses(id) > 0 {
            graph.mark_input(id);
        }
    }
}

/// What stands for each input that the params fix, by the names and element types of all.
///
/// # Errors
/// `N0105` for values that are none of their inputs.
pub(crate) fn fixed(
    b: &GraphBuilder,
    options: &ExportOptions,
    inputs: &[(&str, Option<DataType>)],
) -> Result<Vec<Option<Var>>> {
    let constants = options.constants();
    let var = |(name, dtype): &(&str, Option<DataType>)| {
        let Some(dtype) = dtype else {
            // Such an input is refused as a whole.
            constants.take(name);
            return Ok(None);
        };
        let tensor = constants.tensor(name, *dtype)?;
        Ok(tensor.map(|tensor| match tensor.len() > 1 {
            true => b.parameter(name, tensor),
            false => b.constant(tensor),
        }))
    };
    let fixed = inputs.iter().map(var).collect();
    constants.tell(&options.params);
    fixed
}

/// The type of the input number `at` as the source declares it, and sizes as the params say them.
///
/// # Errors
/// `N0105` for params that contradict the source, `N0203` for a type that ONNX does not have, `N0204` if nothing says
/// the number of axes.
pub(crate) fn input_type(
    options: &ExportOptions,
    at: usize,
    name: &str,
    (dtype, shape): (Option<DataType>, Option<Vec<Dim>>),
) -> Result<ValueType> {
    let Some(dtype) = dtype else {
        let message = format!("The input `{}` is of a type that ONNX does not have.", shown(name));
        return Err(Diagnostic::new(Code::LayerUnsupported, message));
    };
    options.check_dtype(at, name, dtype)?;
    let shape = match shape {
        Some(shape) => Some(options.sizes(at, name, shape)?),
        None => options.input(at, name, dtype).shape().map(<[Dim]>::to_vec),
    };
    let Some(shape) = shape else {
        let message = format!("Nothing says how many axes the input `{}` has.", shown(name));
        let help =
            "Say its sizes with `export.input_shapes`, or fix its value with `source.constants`.";
        return Err(Diagnostic::new(Code::LayerParameter, message).help(help));
    };
    Ok(ValueType::Tensor { dtype: Some(dtype), shape: Some(shape) })
}

/// Lets a tensor be an output, of the type that the source declares; nodes of ONNX may have given another. A complex
/// one is a pair of its parts.
///
/// # Errors
/// `N0203` for a real tensor that is declared complex, and if the number of axes is not known, which ONNX demands of
/// outputs; those of the builder.
pub(crate) fn output(
    driver: &Driver<'_, RowContext>,
    var: Var,
    name: &str,
    declared: Option<DataType>,
) -> Result<()> {
    let b = driver.builder();
    if is(b, var) {
        b.note(complex::as_pair("output", name));
        return b.output(b.source.complex.pair(b, var)?, name);
    }
    let var = match (declared, b.dtype_of(var)) {
        (Some(declared), Some(found)) if is_complex(declared) => {
            let name = shown(name);
            let message = format!("The output `{name}` is declared {declared}, and is {found}.");
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        }
        (Some(declared), Some(_)) => b.cast(var, declared)?,
        _ => var,
    };
    let is_tensor = b.type_of(var).is_none_or(|ty| matches!(ty, ValueType::Tensor { .. }));
    if is_tensor && b.rank_of(var).is_none() {
        let message = format!("The number of axes of the output `{}` is not known.", shown(name));
        let help = "Fix sizes of inputs with `export.input_shapes`, or have other outputs.";
        return Err(Diagnostic::new(Code::LayerUnsupported, message).help(help));
    }
    b.output(var, name)
}

/// Reports an output that is something else than a tensor.
pub(crate) fn no_tensor(driver: &Driver<'_, RowContext>, name: &str, what: &str) {
    let message = format!("The output `{}` is {what}.", shown(name));
    driver.report(Diagnostic::new(Code::LayerUnsupported, message));
}

#[cfg(test)]
mod tests;
