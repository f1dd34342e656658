//! Networks that were trained with rounded weights and activations: the integers that they learned
//! are taken as they are. Nothing is equalized, clipped or watched.
//!
//! Such a network says by `QuantizeLinear` and `DequantizeLinear` what it learned. A convolution or
//! fully connected layer between such tensors becomes one of the same integers:
//! `x = s_x · q_x` and `w = s_w · q_w · g`, with the gain `g` of a normalization that was folded
//! into an output, make `acc = Σ q_x · q_w + b / (s_x · s_w · g)` and `q = acc · s_x · s_w · g / s`.
//! A result that no range was learned for is real: what reads it computes in floating point.

mod read;
#[cfg(test)]
mod tests;

use crate::network::recognize;
use crate::options::{PlanOptions, Rescaling};
use crate::plan::{
    Activation, Cell, CellInput, CellKind, CellNetwork, CellPlan, How, IntegerPlan, Integers,
    Output, Parameters, Rescale, Threshold, bounds,
};
use crate::statistics::{self, Data, or_given};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::Model;
use onnxd_quantize::observe::Extremes;
use read::Learned;

/// The step of the weights of an output is at least this part of the largest one of the layer:
/// else a normalization that fades an output out would make its bias huge.
const FADED: f64 = 1.0 / 1024.0;
/// Weights of nine bits, and those of eight that N2D2 rounds them to.
const ROUNDED: [f64; 2] = [255.0, 127.0];

/// Whether a network brings learned ranges.
pub(crate) fn has_ranges(model: &Model) -> bool {
    model.graph.nodes().any(|(_, node)| node.is("DequantizeLinear"))
}

/// Decides how a network with learned ranges becomes one of integers.
pub(crate) fn plan(
    model: &Model,
    data: Data,
    options: &PlanOptions,
) -> Result<(CellNetwork, IntegerPlan), Diagnostics> {
    let mut model = model.clone();
    let learned = Learned::take_out(&mut model);
    let mut network = recognize(&model)?;
    let inputs = match options.inputs {
        Some((min, max)) => Extremes { min, max },
        None => statistics::input_range(&network.model.graph, data.all)?,
    };
    let inputs = or_given(inputs, options.range);
    let range = if inputs.abs_max() > 0.0 { inputs.abs_max() } else { 1.0 };
    let (signed, bits) = (inputs.min < 0.0 || !options.unsigned, options.bits);
    let input = Output { signed, bits, scale: range / bounds(bits, signed).1 as f64 };
    let mut planner = Planner { learned, options, input, outputs: vec![], remarks: vec![] };
    let mut cells = Vec::new();
    for at in 0..network.cells.len() {
        let (kind, cell) = planner.cell(&network, at)?;
        planner.outputs.push(cell.output);
        network.cells[at].kind = kind;
        cells.push(cell);
    }
    let bits = cells.iter().filter_map(|c| c.output).map(|o| o.bits).fold(bits, u32::max);
    let inputs = vec![input; network.model.graph.inputs().len()];
    Ok((network, IntegerPlan { bits, range, inputs, cells, remarks: planner.remarks }))
}

struct Planner<'a> {
    learned: Learned,
    options: &'a PlanOptions,
    input: Output,
    /// Of the cells so far; nothing for real ones.
    outputs: Vec<Option<Output>>,
    remarks: Vec<String>,
}

/// A cell that computes on real values, and how its result is rounded.
fn in_float(output: Option<Output>) -> (CellKind, CellPlan) {
    (CellKind::Float, decided(output, None))
}

fn decided(output: Option<Output>, rescale: Option<Rescale>) -> CellPlan {
    let threshold = output.map_or(0.0, |o| o.scale * o.levels() as f64);
    let threshold = Threshold { min: 0.0, max: threshold, threshold };
    CellPlan { integers: None, branches: vec![], rescale, output, threshold }
}

impl Planner<'_> {
    fn represented(&self, source: CellInput) -> Option<Output> {
        match source {
            CellInput::Input(_) => Some(self.input),
            CellInput::Cell(i) => self.outputs[i],
        }
    }

    fn cell(
        &mut self,
        network: &CellNetwork,
        at: usize,
    ) -> Result<(CellKind, CellPlan), Diagnostic> {
        let cell = &network.cells[at];
        let own = self.learned.outputs.get(&cell.output).copied();
        let inputs: Option<Vec<Output>> =
            cell.inputs.iter().map(|source| self.represented(*source)).collect();
        let Some(inputs) = inputs.filter(|inputs| !inputs.is_empty()) else {
            return Ok(in_float(own));
        };
        match cell.kind {
            CellKind::Conv | CellKind::Fc => {
                let node = &network.model.graph[cell.node];
                let weights = self.learned.weights_of(node).map(<[i32]>::to_vec);
                match (weights, &cell.parameters) {
                    (Some(q), Some(p)) if q.len() == p.weights.len() && fits(cell, own) => {
                        Ok((cell.kind, self.weighted(cell, p, q, inputs[0], own)?))
                    }
                    _ => Ok(in_float(own)),
                }
            }
            CellKind::MaxPool | CellKind::Layout => match own {
                Some(own) if own != inputs[0] => {
                    let rescale = self.rescale(cell, &[inputs[0].scale / own.scale])?;
                    Ok((cell.kind, decided(Some(own), Some(rescale))))
                }
                _ => Ok((cell.kind, decided(Some(inputs[0]), None))),
            },
            CellKind::AveragePool if own.is_none() => {
                Ok((cell.kind, decided(Some(inputs[0]), None)))
            }
            CellKind::Concat if own.is_none() && alike(&inputs) => self.concat(cell, &inputs),
            _ => Ok(in_float(own)),
        }
    }

    fn concat(
        &mut self,
        cell: &Cell,
        inputs: &[Output],
    ) -> Result<(CellKind, CellPlan), Diagnostic> {
        let scale = inputs.iter().fold(0.0, |m: f64, o| m.max(o.scale));
        let mut plan = decided(Some(Output { scale, ..inputs[0] }), None);
        for input in inputs {
            plan.branches.push(match input.scale == scale {
                true => None,
                false => Some(self.rescale(cell, &[input.scale / scale])?),
            });
        }
        Ok((CellKind::Concat, plan))
    }

    fn weighted(
        &mut self,
        cell: &Cell,
        p: &Parameters,
        q: Vec<i32>,
        input: Output,
        own: Option<Output>,
    ) -> Result<CellPlan, Diagnostic> {
        let (mut weights, steps) = weights(p, q, self.options.round_weights);
        let mut steps: Vec<f64> = steps.iter().map(|step| step * input.scale).collect();
        refine(&mut weights, &mut steps);
        let factors: Vec<f64> = match own {
            Some(own) => steps.iter().map(|step| step / own.scale).collect(),
            None => steps.clone(),
        };
        let bias = |(o, b): (usize, &f32)| {
            let b = (f64::from(*b) / steps[o]).round();
            // Beyond what the sums and the range of the result reach together, all is one.
            let Some(own) = own else { return b as i64 };
            let per = p.per_output();
            let (lo, hi) = input.bounds();
            let reach: f64 =
                weights[o * per..(o + 1) * per].iter().map(|q| f64::from(q.abs())).sum();
            let (low, high) = own.bounds();
            let most = reach * hi.max(-lo) as f64 + (high - low + 1) as f64 / factors[o];
            b.clamp(-most, most).round() as i64
        };
        let bias = p.bias.as_ref().map(|b| b.iter().enumerate().map(bias).collect());
        let factors = match factors.iter().all(|f| *f == factors[0]) {
            true => factors[..1].to_vec(),
            false => factors,
        };
        let rescale = match own {
            Some(_) => self.rescale(cell, &factors)?,
            None => {
                let how = How::FloatingPoint(factors.iter().map(|f| *f as f32).collect());
                Rescale { factors, how }
            }
        };
        let integers = Some(Integers { weights, bias });
        Ok(CellPlan { integers, ..decided(own, Some(rescale)) })
    }

    fn rescale(&mut self, cell: &Cell, factors: &[f64]) -> Result<Rescale, Diagnostic> {
        let mode = match self.options.rescaling {
            Rescaling::SingleShift | Rescaling::DoubleShift => Rescaling::FixedPoint32,
            mode => mode,
        };
        if mode != self.options.rescaling && self.remarks.is_empty() {
            let text = format!(
                "from `{}` on, results are rescaled in the mode {mode:?}: what shifts get wrong \
                 would have to be made up for in weights, and those were learned",
                shown(&cell.name)
            );
            self.remarks.push(text);
        }
        crate::approximated(cell, factors, mode, &mut self.remarks).map(|found| found.rescale)
    }
}

/// Whether the range of a result does what an upper bound of the activation does.
fn fits(cell: &Cell, own: Option<Output>) -> bool {
    let reach = |o: Output| (o.levels() as f64 - 0.5) * o.scale;
    match (own, cell.activation) {
        (Some(own), Activation::Rectifier { clipping: Some(t) }) => f64::from(t) >= reach(own),
        (Some(own), Activation::Saturation { threshold }) => f64::from(threshold) >= reach(own),
        _ => true,
    }
}

fn alike(inputs: &[Output]) -> bool {
    inputs.iter().all(|o| (o.signed, o.bits) == (inputs[0].signed, inputs[0].bits))
}

/// Multiplies weights that use few integers, and divides their steps, as far as they stay bytes: biases are
/// rounded to steps.
fn refine(weights: &mut [i32], steps: &mut [f64]) {
    let most = weights.iter().map(|q| q.unsigned_abs()).max().unwrap_or(0);
    let by = (i8::MAX as u32).checked_div(most).unwrap_or(1).max(1);
    weights.iter_mut().for_each(|q| *q *= by as i32);
    steps.iter_mut().for_each(|step| *step /= f64::from(by));
}

/// The learned integers of weights as those of their layer, and the real value of a step of each
/// output. A normalization that was folded into the layer has changed the steps, and turned the
/// sign where its scale is negative.
fn weights(p: &Parameters, mut q: Vec<i32>, round: bool) -> (Vec<i32>, Vec<f64>) {
    let per = p.per_output().max(1);
    // The largest of an output says most precisely what a step became.
    let step = |w: &[f32], q: &[i32]| {
        let at = (0..q.len()).max_by_key(|i| q[*i].unsigned_abs())?;
        (q[at] != 0).then(|| f64::from(w[at]) / f64::from(q[at]))
    };
    let mut steps: Vec<Option<f64>> =
        p.weights.chunks(per).zip(q.chunks(per)).map(|(w, q)| step(w, q)).collect();
    if round && q.iter().any(|q| q.unsigned_abs() > i8::MAX as u32) {
        let [from, to] = ROUNDED;
        steps.iter_mut().flatten().for_each(|step| *step *= from / to);
        q.iter_mut().for_each(|q| *q = (f64::from(*q) * to / from).round_ties_even() as i32);
    }
    let largest = steps.iter().flatten().fold(0.0, |m: f64, s| m.max(s.abs()));
    let least = if largest > 0.0 { largest * FADED } else { 1.0 };
    let mut learned_weights = Vec::with_capacity(steps.len());
    for ((w, q), step) in p.weights.chunks(per).zip(q.chunks_mut(per)).zip(steps) {
        learned_weights.push(match step {
            Some(step) if step.abs() >= least => {
                if step < 0.0 {
                    q.iter_mut().for_each(|q| *q = -*q);
                }
                step.abs()
            }
            _ => {
                let fade = |w: &f32| (f64::from(*w) / least).round() as i32;
                q.iter_mut().zip(w).for_each(|(q, w)| *q = fade(w));
                least
            }
        });
    }
    (q, learned_weights)
}
