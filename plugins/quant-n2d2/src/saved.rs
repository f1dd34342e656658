//! Statistics of a calibration as a file beside the model, and back: what is read makes the same
//! integers as the samples did.

use crate::histogram::{Histogram, bins};
use crate::options::{Clipping, Equalization, PlanOptions};
use crate::plan::CellNetwork;
use crate::statistics::{CellStatistics, Statistics};
use crate::{signs, wanted};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, shown};
use onnxd_plugin_sdk::fingerprint;
use onnxd_plugin_sdk::ir::Model;
use onnxd_quantize::observe::{Extremes, Saved, SavedTensor, unusable};
use std::collections::{BTreeMap, HashMap};

/// Whose statistics these are.
const QUANTIZER: &str = "n2d2";
const STALE: &str = "Calibrate once more: leave `calib_reload` out, and drop the samples.";

/// What the statistics depend on, in the words of the params.
pub(crate) fn facts(
    model: &Model,
    options: &PlanOptions,
) -> Result<BTreeMap<String, String>, Diagnostic> {
    let weights = match options.weights {
        Clipping::None => "None".to_owned(),
        clipping => format!("{clipping:?} for {} bits", options.bits),
    };
    let inputs = match options.inputs {
        Some((min, max)) => format!("{min:?} to {max:?}"),
        None => "as in the samples".to_owned(),
    };
    let inputs = match options.range {
        Some(range) => format!("{range:?} for what is {inputs}"),
        None => inputs,
    };
    let mut facts = BTreeMap::from([
        ("network".to_owned(), fingerprint(model)?),
        ("no_cle".to_owned(), (options.equalization == Equalization::Off).to_string()),
        ("no_unsigned".to_owned(), (!options.unsigned).to_string()),
        ("wt_clipping_mode".to_owned(), weights),
        ("range of the inputs".to_owned(), inputs),
    ]);
    // Ranges alone do for thresholds without histograms.
    if options.activations != Clipping::None {
        let bins = bins(options.activations, options.bits);
        facts.insert("bins of the histograms".to_owned(), bins.to_string());
    }
    Ok(facts)
}

/// The statistics in the form of a file.
pub(crate) fn saved(
    network: &CellNetwork,
    statistics: &Statistics,
    facts: BTreeMap<String, String>,
    samples: u64,
) -> Saved {
    let graph = &network.model.graph;
    let inputs = graph.inputs().iter().map(|v| SavedTensor {
        name: graph[*v].name.clone(),
        range: statistics.inputs.range(),
        ..SavedTensor::default()
    });
    let cells = network.cells.iter().zip(&statistics.seen).map(|(cell, seen)| SavedTensor {
        name: graph[cell.output].name.clone(),
        range: seen.range.range(),
        histogram: seen.histogram.as_ref().map(|h| h.0.clone()),
        ..SavedTensor::default()
    });
    let tensors = inputs.chain(cells).collect();
    Saved { quantizer: QUANTIZER.into(), facts, samples, tensors, choice: None }
}

/// The statistics of a file called `name`.
///
/// # Errors
/// `N0603` if they are not those of this network with these options.
pub(crate) fn restored(
    (name, saved): (&str, Saved),
    wanted_facts: &BTreeMap<String, String>,
    network: &CellNetwork,
    options: &PlanOptions,
) -> Result<Statistics, Diagnostic> {
    let unusable = |why: String| unusable((name, STALE), &why);
    saved.check((name, STALE), QUANTIZER, wanted_facts)?;
    let mut tensors: HashMap<String, SavedTensor> =
        saved.tensors.into_iter().map(|t| (t.name.clone(), t)).collect();
    let mut take = |name: &str| {
        let missing = || unusable(format!("have no tensor `{}`", shown(name)));
        tensors.remove(name).ok_or_else(missing)
    };
    let graph = &network.model.graph;
    let mut inputs = Extremes::default();
    for input in graph.inputs() {
        inputs = Extremes::of(take(&graph[*input].name)?.range);
    }
    let signs = signs::Signs::find(network, inputs.min < 0.0, options.unsigned);
    let wanted = match options.activations {
        Clipping::None => BTreeMap::new(),
        _ => wanted(network, &signs),
    };
    let mut seen = Vec::with_capacity(network.cells.len());
    for (at, cell) in network.cells.iter().enumerate() {
        let name = &graph[cell.output].name;
        let SavedTensor { range, histogram, .. } = take(name)?;
        let histogram = match (wanted.get(&at), histogram) {
            (Some(signed), Some(saved)) => {
                let histogram = Histogram::restored(saved).filter(|h| h.signed() == *signed);
                let why = || unusable(format!("have no usable histogram of `{}`", shown(name)));
                Some(histogram.ok_or_else(why)?)
            }
            // Of a cell that no sample reached there is none.
            _ => None,
        };
        seen.push(CellStatistics { range: Extremes::of(range), histogram });
    }
    Ok(Statistics { inputs, seen })
}
