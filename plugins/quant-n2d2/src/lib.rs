//! N2D2's quantization after training: a float network becomes one of integers, with the numbers
//! that N2D2 computes for it.
//!
//! The way from floats to integers: recognise the cells ([`network`]), equalize their weights, clip
//! them, watch the network on calibration samples, choose thresholds, and follow the scales through
//! the network. [`plan()`] does all of it and writes no node; [`graph`] does that.
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod accuracy;
mod canonical;
mod constants;
mod deconv;
mod equalize;
mod floats;
pub mod graph;
mod histogram;
mod learned;
mod least_error;
mod measure;
pub mod network;
pub mod options;
mod params;
pub mod plan;
mod quantizer;
mod report;
mod rescale;
mod saved;
mod scaling;
mod signs;
mod statistics;
mod stimuli;
mod threshold;
mod weights;

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::Model;
use onnxd_quantize::observe::Extremes;
use options::{Clipping, PlanOptions, Rescaling};
use plan::{CellInput, CellKind, CellNetwork, CellPlan, IntegerPlan, Output, Threshold};
use rayon::prelude::*;
use scaling::{LOST_MIN, Scales};
use signs::Signs;
use statistics::{CellStatistics, Statistics, or_given};

pub use floats::Floats;
pub use statistics::Data;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.quant-n2d2",
    summary: "Quantizes networks to integers in the way of N2D2",
    components: [
        quantizer(
            "n2d2",
            "Integers throughout, scales folded into the layers";
            declares [include_str!("component.toml"), params::Params::ROWS] =>
            || Box::new(quantizer::N2d2),
        ),
    ],
}

/// Decides how `model` becomes a network of integers.
///
/// # Errors
/// What cannot be quantized, and what is wrong with the samples.
pub fn plan(
    model: &Model,
    data: Data,
    options: &PlanOptions,
) -> Result<(CellNetwork, IntegerPlan), Diagnostics> {
    if learned::has_ranges(model) {
        return learned::plan(model, data, options);
    }
    let network = prepared(model, options)?;
    let statistics = measured(&network, data, options)?;
    let plan = decided(&network, &statistics, options)?;
    Ok((network, plan))
}

/// The network whose values are measured: its weights are what they will be.
fn prepared(model: &Model, options: &PlanOptions) -> Result<CellNetwork, Diagnostics> {
    let mut network = network::recognize(model)?;
    equalize::equalize(&mut network, options.equalization);
    weights::clip(&mut network, options);
    network.write_back();
    Ok(network)
}

fn measured(
    network: &CellNetwork,
    data: Data,
    options: &PlanOptions,
) -> Result<Statistics, Diagnostics> {
    let inputs = match options.inputs {
        Some((min, max)) => Extremes { min, max },
        None => statistics::input_range(&network.model.graph, data.all)?,
    };
    let inputs = or_given(inputs, options.range);
    let mut statistics = Statistics { inputs, seen: vec![] };
    let wanted = wanted(network, &Signs::find(network, inputs.min < 0.0, options.unsigned));
    let unit = statistics.unit();
    statistics.seen = statistics::collect(network, data.calibrating, &wanted, unit, options)?;
    Ok(statistics)
}

fn decided(
    network: &CellNetwork,
    statistics: &Statistics,
    options: &PlanOptions,
) -> Result<IntegerPlan, Diagnostics> {
    let (range, seen) = (statistics.unit(), &statistics.seen);
    let signs = Signs::find(network, statistics.inputs.min < 0.0, options.unsigned);
    let thresholds = thresholds(network, seen, range, options);
    assemble(network, &signs, (range, seen, &thresholds), options)
}

/// Whose statistics make the threshold of a cell: its own, or those of the max pool that alone
/// reads it. `None` if the threshold is the largest magnitude seen.
fn watched(network: &CellNetwork, cell: usize) -> Option<usize> {
    let cells = &network.cells;
    let clips = matches!(cells[cell].kind, CellKind::Conv | CellKind::Fc | CellKind::Activation);
    if !clips || cells[cell].channels <= 2 {
        return None;
    }
    let mut at = cell;
    while network.readers(at) == 1 {
        let reader = cells.iter().position(|c| c.inputs.contains(&CellInput::Cell(at)))?;
        match cells[reader].kind {
            CellKind::MaxPool => return Some(reader),
            CellKind::Concat | CellKind::Layout => at = reader,
            _ => break,
        }
    }
    Some(cell)
}

fn wanted(network: &CellNetwork, signs: &Signs) -> statistics::WantedHistograms {
    let watched = (0..network.cells.len()).filter_map(|cell| watched(network, cell));
    watched.map(|cell| (cell, signs.cells[cell])).collect()
}

/// In units of the inputs' range.
fn thresholds(
    network: &CellNetwork,
    seen: &[CellStatistics],
    range: f64,
    options: &PlanOptions,
) -> Vec<f64> {
    let (clipping, bits, share) = (options.activations, options.bits, options.quantile);
    let chosen =
        |one: &CellStatistics| Some(one.histogram.as_ref()?.threshold(clipping, bits, share));
    // The search takes long for many bins.
    let chosen: Vec<Option<f64>> = match clipping {
        Clipping::None => vec![None; seen.len()],
        _ => seen.par_iter().map(chosen).collect(),
    };
    let own = |cell: usize| {
        let chosen = watched(network, cell).and_then(|at| chosen[at]);
        chosen.unwrap_or_else(|| seen[cell].range.abs_max() / range)
    };
    (0..seen.len()).map(own).collect()
}

fn assemble(
    network: &CellNetwork,
    signs: &Signs,
    (range, seen, thresholds): (f64, &[CellStatistics], &[f64]),
    options: &PlanOptions,
) -> Result<IntegerPlan, Diagnostics> {
    let scales = Scales::from_thresholds(network, signs, thresholds, options);
    let mut remarks: Vec<String> = signs
        .forced
        .iter()
        .map(|i| {
            let name = shown(&network.cells[*i].name);
            format!("`{name}` got a sign, because it meets a branch that has one")
        })
        .collect();
    remarks.extend(lost(network, &scales, options.bits));
    let bits = options.bits;
    let output = |signed, step: f64| Output { signed, bits, scale: step * range };
    let mut cells = Vec::new();
    for (at, cell) in network.cells.iter().enumerate() {
        let edges = scales.edges[at].iter().map(|f| match f {
            None => Ok(None),
            Some(f) => {
                approximated(cell, f, scales.edge_mode(), &mut remarks).map(|a| Some(a.rescale))
            }
        });
        let branches = edges.collect::<Result<_, _>>()?;
        let own = output(signs.cells[at], scales.steps[at]);
        let is_real = network.is_read_as_real(at);
        let mut gains = scales.gains[at].clone();
        let rescale = match &scales.factors[at] {
            None => None,
            Some(factors) => {
                let mode = match gains {
                    _ if is_real => Rescaling::FloatingPoint,
                    Some(_) => options.rescaling,
                    None => scales.edge_mode(),
                };
                let step = if is_real { own.scale } else { 1.0 };
                let factors: Vec<f64> = factors.iter().map(|f| f * step).collect();
                let approximation = approximated(cell, &factors, mode, &mut remarks)?;
                if let Some(gains) = &mut gains {
                    gains.widen(&approximation.gains);
                }
                Some(approximation.rescale)
            }
        };
        let limit = plan::bounds(bits, true).1 as i32;
        let integers = cell.parameters.as_ref().zip(gains).map(|(p, g)| g.apply(p, range, limit));
        let (min, max) = seen[at].range.range().unwrap_or_default();
        let leaves = cell.kind == CellKind::Float
            && !(network.feeds_integers(at) && network::is_real(&network.model.graph, cell.output));
        cells.push(CellPlan {
            integers,
            branches,
            rescale,
            output: (!leaves && !is_real).then_some(own),
            threshold: Threshold { min: min / range, max: max / range, threshold: thresholds[at] },
        });
    }
    let step = 1.0 / plan::bounds(bits, signs.inputs).1 as f64;
    let inputs = network.model.graph.inputs().iter().map(|_| output(signs.inputs, step)).collect();
    Ok(IntegerPlan { bits, range, inputs, cells, remarks })
}

/// The branches that have too few bits left, in the common scale that N2D2 gives them.
fn lost(network: &CellNetwork, scales: &Scales, bits: u32) -> Vec<String> {
    let wide = scales.wide.iter().filter(|(_, lost)| *lost >= LOST_MIN);
    wide.map(|(at, lost)| {
        let name = shown(&network.cells[*at].name);
        let lost = lost.round().min(f64::from(bits));
        format!(
            "`{name}` reads branches in a common scale that leaves {lost} of {bits} bits unused, \
             as in N2D2; without `tight_branches = false` it is that of the widest branch"
        )
    })
    .collect()
}

fn approximated(
    cell: &plan::Cell,
    factors: &[f64],
    mode: Rescaling,
    remarks: &mut Vec<String>,
) -> Result<rescale::Approximated, Diagnostic> {
    let name = shown(&cell.name);
    let found = rescale::approximate(factors, mode).ok_or_else(|| {
        let text = format!("`{name}` would have to be rescaled by {:?}", factors[0]);
        Diagnostic::new(Code::FeatureUnsupported, text)
    })?;
    if let Some(instead) = found.instead {
        let largest = factors.iter().copied().fold(0.0, f64::max);
        remarks.push(format!("`{name}` is rescaled by {largest}, in the mode {instead:?}"));
    }
    Ok(found)
}
