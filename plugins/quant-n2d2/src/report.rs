//! What the report says of a network in integers: its tensors and layers, how far each is from
//! float, and how large its sums can become.

use crate::graph::IntegerModel;
use crate::measure::Measured;
use crate::options::{Clipping, PlanOptions};
use crate::plan::{CellKind, CellNetwork, CellPlan, How, IntegerPlan, Output, Threshold};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::{Accumulator, QuantizeContext, QuantizedLayer, QuantizedTensor};
use onnxd_quantize::accuracy::Agreement;

/// Accumulators whose sums reach `max`.
fn accumulator(max: i64) -> Accumulator {
    let (bits_held, max) = (if i32::try_from(max).is_ok() { 32 } else { 64 }, max.unsigned_abs());
    Accumulator { max, bits: u64::BITS - max.leading_zeros() + 1, bits_held }
}

/// Fills the report.
pub(crate) fn fill(
    cx: &mut QuantizeContext,
    options: &PlanOptions,
    learned: bool,
    (network, plan, written): (&CellNetwork, &IntegerPlan, &IntegerModel),
    measured: &Measured,
) {
    for remark in plan.remarks.iter().chain(&written.remarks) {
        cx.note(Diagnostic::new(Code::QuantizationLoss, remark.clone()));
    }
    if let Some(value) = measured.beyond.farthest {
        let text = format!(
            "calibration samples reach {value}, beyond the range {} of the inputs ({}), and \
             saturate there: {:.3} % of their values",
            plan.range,
            options.range_origin().text(),
            measured.beyond.share()
        );
        let help = "With `stimuli-range=data` it is that of the samples.";
        cx.note(Diagnostic::new(Code::QuantizationLoss, text).help(help));
    }
    cx.compared(measured.samples);
    let graph = &network.model.graph;
    for (input, output) in graph.inputs().iter().zip(&plan.inputs) {
        cx.tensor(tensor(&graph[*input].name, *output, options.range_origin().word()));
    }
    for (at, cell) in network.cells.iter().enumerate() {
        let decided = &plan.cells[at];
        let agreement = measured.cells.get(at);
        let layer = QuantizedLayer {
            name: cell.name.clone(),
            op: match cell.kind {
                CellKind::Float => graph[cell.node].op.clone(),
                kind => op(kind).to_owned(),
            },
            rescaling: rescaled(decided),
            sqnr_db: agreement.and_then(Agreement::sqnr_db),
            output: graph[cell.output].name.clone(),
            accumulator: written.accumulators[at].map(accumulator),
        };
        match decided.output {
            // Its integers give real numbers.
            None if decided.integers.is_some() => {}
            None => cx.left_in_float(&cell.name, "it computes on real values"),
            // Integers pass as they are.
            Some(_) if cell.kind == CellKind::Layout => continue,
            Some(output) => {
                let Threshold { min, max, .. } = decided.threshold;
                cx.tensor(QuantizedTensor {
                    seen_min: (!learned).then_some(min * plan.range),
                    seen_max: (!learned).then_some(max * plan.range),
                    clipped: agreement.and_then(Agreement::clipped),
                    ..tensor(&layer.output, output, method(decided, options, learned))
                });
            }
        }
        cx.layer(layer);
    }
}

/// How the range of a cell's result was found.
fn method(cell: &CellPlan, options: &PlanOptions, learned: bool) -> &'static str {
    let Threshold { min, max, threshold } = cell.threshold;
    match options.activations {
        _ if learned => "learned",
        // Pools and concatenations have the scale of what they read.
        _ if cell.rescale.is_none() => "as what it reads",
        _ if threshold >= max.abs().max(min.abs()) => "max",
        Clipping::None => "max",
        Clipping::Mse => "MSE",
        Clipping::KlDivergence => "KL-Divergence",
        Clipping::Quantile => "Quantile",
    }
}

/// How the inputs and the sums of a cell are brought to its scale, in words.
fn rescaled(cell: &CellPlan) -> String {
    let branches = cell.branches.iter().enumerate().filter_map(|(slot, branch)| {
        Some(format!("input {slot}: {}", described(&branch.as_ref()?.how)))
    });
    let own = cell.rescale.as_ref().map(|r| described(&r.how));
    branches.chain(own).collect::<Vec<_>>().join("; ")
}

/// What computes a kind of cell in the float graph.
fn op(kind: CellKind) -> &'static str {
    match kind {
        CellKind::Conv => "Conv",
        CellKind::Fc => "Gemm",
        CellKind::MaxPool => "MaxPool",
        CellKind::AveragePool => "AveragePool",
        CellKind::Sum => "Add",
        CellKind::Max => "Max",
        CellKind::Concat => "Concat",
        CellKind::Layout => "Identity",
        CellKind::Activation => "Clip",
        CellKind::Float => "",
    }
}

/// A rescaling in words: `Single-shift by 7 to 9`.
fn described(how: &How) -> String {
    fn span<T: Copy + PartialOrd + std::fmt::Display>(values: impl Iterator<Item = T>) -> String {
        let values: Vec<T> = values.collect();
        let smaller = |a: T, b: T| if b < a { b } else { a };
        let larger = |a: T, b: T| if b > a { b } else { a };
        match (values.iter().copied().reduce(smaller), values.iter().copied().reduce(larger)) {
            (Some(lo), Some(hi)) if lo < hi => format!("{lo} to {hi}"),
            (Some(lo), _) => format!("{lo}"),
            _ => String::new(),
        }
    }
    match how {
        How::FloatingPoint(factors) => format!("times {}", span(factors.iter().copied())),
        How::FixedPoint { fraction_bits, multipliers } => {
            let multipliers = span(multipliers.iter().copied());
            format!("Fixed-point times {multipliers}, shift by {fraction_bits}")
        }
        How::SingleShift(shifts) => format!("Single-shift by {}", span(shifts.iter().copied())),
        How::DoubleShift(pairs) => {
            let far = span(pairs.iter().map(|(_, e)| *e));
            let near = span(pairs.iter().map(|(d, e)| e.saturating_sub(*d)));
            format!("Double-shift by {near} and {far}")
        }
    }
}

fn tensor(name: &str, output: Output, method: &str) -> QuantizedTensor {
    let (lo, hi) = output.bounds();
    QuantizedTensor {
        name: name.to_owned(),
        element_type: type_text(output),
        scales: vec![output.scale],
        zero_points: vec![],
        min: Some(lo as f64 * output.scale),
        max: Some(hi as f64 * output.scale),
        method: method.to_owned(),
        ..QuantizedTensor::default()
    }
}

pub(crate) fn type_text(output: Output) -> String {
    let width = if output.bits <= 8 { 8 } else { 16 };
    let stored = format!("{}int{width}", if output.signed { "" } else { "u" });
    if output.bits == width { stored } else { format!("{} bits in {stored}", output.bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescalings_in_words() {
        assert_eq!(described(&How::SingleShift(vec![7, 9, 8])), "Single-shift by 7 to 9");
        assert_eq!(described(&How::DoubleShift(vec![(1, 10)])), "Double-shift by 9 and 10");
        let fixed = How::FixedPoint { fraction_bits: 23, multipliers: vec![21859] };
        assert_eq!(described(&fixed), "Fixed-point times 21859, shift by 23");
    }
}
