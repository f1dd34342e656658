//! What all readers have in common: the run of a network on a new graph, the types of its inputs and outputs, and the
//! model at the end.

use crate::ops::{Source, complex};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, ValueId, ValueType};
use onnxd_plugin_sdk::lower::{self, Driver, Table};
use onnxd_plugin_sdk::{ExportOptions, Imported};

/// A kind of network.
pub(crate) struct Reader {
    /// The name of its graphs.
    pub(crate) name: &'static str,
    pub(crate) table: fn() -> Table<Source>,
    /// What is done to the whole graph before constants that nothing reads leave it.
    pub(crate) settle: fn(&mut Graph),
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
}

/// Runs a network, and makes a model of the graph.
///
/// # Errors
/// Everything that `run` gives or reported.
pub(crate) fn import(
    reader: &Reader,
    options: &ExportOptions,
    run: impl FnOnce(&Driver<'_, Source>) -> Result<Ran>,
) -> std::result::Result<Imported, Diagnostics> {
    let (table, source) = ((reader.table)(), Source::default());
    let opsets = Opsets::from([(String::new(), options.opset)]);
    let graph = Graph::new(reader.name);
    let driver = Driver::new(&table, &source, graph, opsets, options.fallback.clone());
    let ran = run(&driver);
    let ((mut graph, notes), ran) = match (driver.finish(), ran) {
        (Ok(finished), Ok(ran)) => (finished, ran),
        (finished, ran) => {
            let mut all = finished.err().unwrap_or_default();
            all.0.extend(ran.err());
            return Err(all);
        }
    };
    if !ran.lost.is_empty() {
        let message = format!("Nothing computes the outputs `{}`.", shown(&ran.lost.join("`, `")));
        return Err(Diagnostic::new(Code::LayerUnsupported, message).into());
    }
    weights_last(&mut graph, ran.weights);
    (reader.settle)(&mut graph);
    let constants = graph.value_ids().filter(|id| graph.constant(*id).is_some());
    let unread: Vec<ValueId> = constants.filter(|id| graph.uses(*id) == 0).collect();
    graph.drop_unread(unread);
    if options.documented {
        lower::documented(&mut graph);
    }
    Ok(Imported { model: lower::model(graph, options.opset), notes, metadata: ran.metadata })
}

/// Weights that are inputs come after those of the network, as far as something reads them.
fn weights_last(graph: &mut Graph, weights: Vec<ValueId>) {
    weights.iter().for_each(|id| graph.unmark_input(*id));
    for id in weights {
        if graph.uses(id) > 0 {
            graph.mark_input(id);
        }
    }
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
        let help = "Say its sizes with `export.input_shapes`.";
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
    driver: &Driver<'_, Source>,
    var: Var,
    name: &str,
    declared: Option<DataType>,
) -> Result<()> {
    let b = driver.builder();
    if complex::is(b, var) {
        b.note(complex::as_pair("output", name));
        return b.output(complex::pair(b, var)?, name);
    }
    let var = match (declared, b.dtype_of(var)) {
        (Some(declared), Some(found)) if complex::is_complex(declared) => {
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
pub(crate) fn no_tensor(driver: &Driver<'_, Source>, name: &str, what: &str) {
    let message = format!("The output `{}` is {what}.", shown(name));
    driver.report(Diagnostic::new(Code::LayerUnsupported, message));
}

#[cfg(test)]
mod tests;
