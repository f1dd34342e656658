//! Rounding that is learned from samples (adaptive rounding, arXiv 2004.10568): the nearest integers
//! are not those with the least error of what a layer computes, because errors of weights that read
//! related inputs add up or make up for each other.
//!
//! A layer's integers are chosen so that what it computes from the *quantized* network's values is
//! nearest to what the float network computes; so it also makes up for layers before it. Integers
//! stay within one step of the nearest, scales and zero points stay as they are, no label is needed.
//!
//! To make up for layers before it, a layer must see what they became: each takes a run of its own.
//! Where those would be too many, layers are learned together, each for its own errors only; else
//! several would make up for the same error.

mod rows;
mod solve;
mod sums;

use crate::graph::quantized::{dequantize_source, floats};
use crate::graph::weighted::{WeightedNode, WeightedOp};
use crate::observe::Limits;
use crate::observe::hessian::Pairs;
use crate::plan::request::Settings;
use crate::range::weights::Rule;
use crate::range::{Levels, integers};
use crate::report::{Report, name_of};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{Builtin, Engine, Observer, RunOptions, quoted};
use onnxd_ir::ops::Gemm;
use onnxd_ir::{At, DataType, Graph, Model, NodeId, Tensor, ValueId};
pub(crate) use rows::Shape;
use solve::WeightRow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use sums::Sums;

/// Layers up to which each is learned after those before it.
const ONE_BY_ONE_MAX: usize = 24;

/// Bytes of what is remembered of inputs at a time.
const SUMS_MAX: usize = 1 << 28;

/// Inputs of a layer above which nothing is learned: what is remembered grows with the square.
const INPUTS_MAX: usize = 4608;

/// The integers that layers have learned.
#[derive(Clone, Debug, Default)]
pub struct Rounding {
    /// By node that reads the weights.
    integers: BTreeMap<NodeId, Tensor>,
    /// Layers that keep the nearest integers, and why.
    pub notes: Vec<Diagnostic>,
}

/// How samples are had and what may be taken.
#[derive(Clone, Copy)]
pub struct AdaRoundOptions<'s> {
    /// Samples, from the beginning each time.
    pub samples: crate::accuracy::Samples<'s>,
    /// What the runs may take.
    pub limits: Limits<'s>,
    /// Biases are corrected afterwards, so that constant errors do not count where there are some.
    pub corrected: bool,
    /// Few layers are learned at once, too, each for its own errors only: that takes fewer runs.
    pub together: bool,
    /// Whether there is time for the next layers, of so many.
    pub go_on: &'s dyn Fn(Range<usize>, usize) -> bool,
}

/// Weights of the quantized graph, and all who read them.
struct WeightSite {
    readers: Vec<WeightReader>,
    shape: Shape,
    dims: Vec<usize>,
    levels: Levels,
    centered: bool,
}

struct WeightReader {
    node: NodeId,
    /// What it reads in the quantized graph, and what it computes in the float graph.
    names: (String, String),
    bias: Vec<f64>,
}

impl Rounding {
    /// Whether nothing was learned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.integers.is_empty()
    }

    /// The integers of a weighted operator's weights.
    pub(crate) fn integers(&self, node: NodeId) -> Option<&Tensor> {
        self.integers.get(&node)
    }

    /// Writes the integers into a graph that was quantized with the same weights, and names them in
    /// the report. Weights whose scale became another one stay as they are.
    pub fn apply(&self, graph: &mut Graph, done: &mut Report) {
        for (node, learned) in &self.integers {
            let Some((v, now)) = stored(graph, *node) else { continue };
            let near = |(a, b): (i64, i64)| (a - b).abs() <= 1;
            let both = now.to_i64s().zip(learned.to_i64s());
            let fits = now.dims() == learned.dims() && now.dtype() == learned.dtype();
            if !fits || !both.is_some_and(|(a, b)| a.into_iter().zip(b).all(near)) {
                continue;
            }
            let name = graph[v].name.clone();
            graph.set_initializer(v, Some(learned.clone()));
            for row in &mut done.tensors {
                if format!("{}_quantized", row.name) == name && !row.method.contains("AdaRound") {
                    row.method.push_str(", AdaRound");
                }
            }
        }
    }
}

/// The initializer of a weighted operator's integers.
fn stored(graph: &Graph, node: NodeId) -> Option<(ValueId, &Tensor)> {
    let value = dequantize_source(graph, graph[node].input(WeightedNode::W)?).ok()?;
    Some((value.q, graph.constant(value.q)?))
}

/// Learns the integers of weighted operators of a quantized graph whose nodes have the numbers that they have
/// in the float graph.
///
/// # Errors
/// Why samples cannot be had, or a model does not run on them.
pub fn adaround(
    (float, quantized): (&Model, &Model),
    weighted: &[(WeightedNode, Settings)],
    learning: &AdaRoundOptions,
) -> Result<Rounding, Diagnostics> {
    let mut learned = Rounding::default();
    let mut quantized = quantized.clone();
    let (mut sites, left) = sites((&float.graph, &quantized.graph), weighted, learning.corrected);
    let one_by_one = sites.len() <= ONE_BY_ONE_MAX && !learning.together;
    let together = if one_by_one { 1 } else { sites.len() };
    let (mut late, total) = (0, sites.len());
    while !sites.is_empty() {
        let mut room = SUMS_MAX;
        let take = sites.iter().take(together).take_while(|site| {
            let bytes = site.shape.bytes(one_by_one);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let (begin, count) = (total - sites.len(), take.count().max(1));
        if !(learning.go_on)(begin..begin + count, total) {
            late = sites.len();
            break;
        }
        let rest = sites.split_off(count);
        let now = std::mem::replace(&mut sites, rest);
        let seen = run((float, &quantized), &now, one_by_one, learning)?;
        let mut rounding = Rounding::default();
        for (site, sums) in now.iter().zip(seen) {
            let tensor = site.learn((&float.graph, &quantized.graph), sums, one_by_one);
            let nodes = site.readers.iter().map(|reader| reader.node);
            rounding.integers.extend(nodes.zip(tensor.iter().cycle().cloned()));
        }
        rounding.apply(&mut quantized.graph, &mut Report::default());
        learned.integers.append(&mut rounding.integers);
    }
    learned.notes = notes(&left, late);
    Ok(learned)
}

/// Who keeps the nearest integers.
fn notes(left: &BTreeMap<&'static str, Vec<String>>, late: usize) -> Vec<Diagnostic> {
    let note = |text: String| Diagnostic::new(Code::QuantizationLoss, text);
    let named = left.iter().map(|(why, names)| {
        let some = names.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let more = if names.len() > 3 { ", ..." } else { "" };
        let (count, some) = (names.len(), some.join(", "));
        note(format!("{count} layers round to the nearest ({some}{more}): {why}"))
    });
    let time = (late > 0).then(|| {
        let text = format!("{late} layers round to the nearest: there was no time to learn more");
        note(text).help("Raise `quantization.time_budget_s`.")
    });
    named.chain(time).collect()
}

type Left = BTreeMap<&'static str, Vec<String>>;

/// The weights to learn, in the order in which they are read, and what is left out.
fn sites(
    (float, quantized): (&Graph, &Graph),
    weighted: &[(WeightedNode, Settings)],
    corrected: bool,
) -> (Vec<WeightSite>, Left) {
    let order: BTreeMap<NodeId, usize> =
        (float.topological().unwrap_or_default().into_iter().enumerate())
            .map(|(at, id)| (id, at))
            .collect();
    let mut weighted: Vec<&(WeightedNode, Settings)> = weighted.iter().collect();
    weighted.sort_by_key(|(operator, _)| order.get(&operator.node));
    let (mut sites, mut left) = (Vec::<WeightSite>::new(), Left::new());
    let mut site_of_value: BTreeMap<ValueId, usize> = BTreeMap::new();
    for (operator, settings) in weighted {
        // What was not quantized is named elsewhere.
        let Some((v, _)) = stored(quantized, operator.node) else { continue };
        let found = site((float, quantized), operator, *settings, corrected);
        match (found, site_of_value.get(&v)) {
            (Ok(mut site), Some(at)) if sites[*at].shape.k == site.shape.k => {
                sites[*at].centered &= site.centered;
                sites[*at].readers.append(&mut site.readers);
            }
            (Ok(site), None) => {
                site_of_value.insert(v, sites.len());
                sites.push(site);
            }
            (Ok(_), Some(_)) => {}
            (Err(why), _) => {
                left.entry(why).or_default().push(name_of(float, &float[operator.node]));
            }
        }
    }
    (sites, left)
}

fn site(
    (float, quantized): (&Graph, &Graph),
    operator: &WeightedNode,
    settings: Settings,
    corrected: bool,
) -> Result<WeightSite, &'static str> {
    const OTHER: &str = "their weights are no matrix, or are read in another way";
    let weights = float.constant(operator.w).ok_or(OTHER)?;
    if weights.dtype() != DataType::Float {
        return Err("their weights are not of float32");
    }
    let dims = weights.dims().to_vec();
    let shape = Shape::from_product(float, operator, &dims).ok_or(OTHER)?;
    if shape.k > INPUTS_MAX || shape.bytes(true) > SUMS_MAX {
        return Err("what they read has too many channels");
    }
    let node = &quantized[operator.node];
    // Which may be another type than was asked for.
    let dtype = stored(quantized, operator.node).ok_or(OTHER)?.1.dtype();
    let rule = Rule::new(dtype, settings.symmetric, settings.reduce_range);
    let levels = rule.ok_or(OTHER)?.levels;
    let name = |graph: &Graph, v: ValueId| quoted(&graph[v].name);
    let bias = bias(quantized, operator).ok_or("what they add is no constant")?;
    let reader = WeightReader {
        node: operator.node,
        names: (name(quantized, node.input(0).ok_or(OTHER)?), name(float, operator.out)),
        bias,
    };
    let centered = corrected && super::bias_correction::has_bias(quantized, operator);
    Ok(WeightSite { readers: vec![reader], shape, dims, levels, centered })
}

/// What a weighted operator of the quantized graph adds for each output channel, or for all.
fn bias(graph: &Graph, operator: &WeightedNode) -> Option<Vec<f64>> {
    let bias = graph[operator.node].input(WeightedNode::BIAS);
    let Some(v) = bias.filter(|_| operator.op != WeightedOp::MatMul) else {
        return Some(Vec::new());
    };
    let Ok(value) = dequantize_source(graph, v) else {
        return Some(floats(graph, v).ok()?.into_iter().map(f64::from).collect());
    };
    let steps = floats(graph, value.scale).ok()?;
    let last = steps.len().checked_sub(1)?;
    let integers = graph.constant(value.q)?.to_i64s()?;
    let real = |(i, q): (usize, i64)| q as f64 * f64::from(steps[i.min(last)]);
    Some(integers.into_iter().enumerate().map(real).collect())
}

impl WeightSite {
    /// The weights of all groups as they are now.
    fn rows(&self, (float, quantized): (&Graph, &Graph)) -> Option<Vec<WeightRow>> {
        let (shape, node) = (&self.shape, self.readers.first()?.node);
        let value = dequantize_source(quantized, quantized[node].input(WeightedNode::W)?).ok()?;
        let scales = floats(quantized, value.scale).ok()?;
        let zeros = value.zero_points(quantized).ok()?;
        let nearest = quantized.constant(value.q)?.to_i64s()?;
        let values = float.constant(float[node].input(WeightedNode::W)?)?.as_slice::<f32>()?;
        let alpha = At::<Gemm>::find(float, node).map_or(1.0, |gemm| gemm.alpha);
        let row = |row: usize| WeightRow {
            values: (0..shape.k).map(|i| values[shape.at(row, i)] * alpha).collect(),
            scale: scales[row.min(scales.len() - 1)],
            zero: zeros.get(row.min(zeros.len().max(1) - 1)).copied().unwrap_or(0),
            nearest: (0..shape.k).map(|i| nearest[shape.at(row, i)]).collect(),
            ends: (self.levels.min, self.levels.max),
        };
        let fits = nearest.len() == values.len() && !scales.is_empty();
        fits.then(|| (0..shape.groups * shape.n).map(row).collect())
    }

    /// The integers with the least error, that of layers before included or not; the nearest where
    /// no sample says anything.
    fn learn(&self, graphs: (&Graph, &Graph), sums: Vec<Sums>, before: bool) -> Option<Tensor> {
        let shape = &self.shape;
        let all_rows = self.rows(graphs)?;
        let mut all = vec![0i64; all_rows.len() * shape.k];
        for (g, sums) in sums.into_iter().enumerate() {
            let rows = &all_rows[g * shape.n..(g + 1) * shape.n];
            let found = sums.integers(rows, self.centered, before);
            let found = found.unwrap_or_else(|| rows.iter().map(|r| r.nearest.clone()).collect());
            for (r, row) in found.iter().enumerate() {
                for (i, q) in row.iter().enumerate() {
                    all[shape.at(g * shape.n + r, i)] = *q;
                }
            }
        }
        integers(self.levels.dtype, &self.dims, &all)
    }
}

impl Shape {
    /// Of what is remembered, of outputs too if errors `before` count; too many for what no memory
    /// holds.
    fn bytes(&self, before: bool) -> usize {
        let cross = self.k.checked_mul(if before { self.n } else { 0 });
        let cross = cross.and_then(|n| n.checked_mul(size_of::<f32>()));
        let one = cross.and_then(|cross| Pairs::bytes(self.k).checked_add(cross));
        one.and_then(|n| n.checked_mul(self.groups)).unwrap_or(usize::MAX)
    }
}

/// Shows values of these names to a function.
struct Shown<'f> {
    names: BTreeSet<String>,
    see: &'f mut (dyn FnMut(&str, &Tensor) + Send),
}

impl Observer for Shown<'_> {
    fn wants(&mut self, value: &str) -> bool {
        self.names.contains(value)
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        (self.see)(value, tensor);
    }
}

/// Runs both models on the samples; what was seen for each group of each site.
fn run(
    (float, quantized): (&Model, &Model),
    sites: &[WeightSite],
    before: bool,
    learning: &AdaRoundOptions,
) -> Result<Vec<Vec<Sums>>, Diagnostics> {
    let Limits { bytes_max, stop, .. } = learning.limits;
    let mut of_float = Builtin.prepare(float)?;
    let mut of_quantized = Builtin.prepare(quantized)?;
    let empty = |s: &WeightSite| vec![Sums::new(s.shape.n, s.shape.k, before); s.shape.groups];
    let mut sums: Vec<Vec<Sums>> = sites.iter().map(empty).collect();
    let readers =
        || sites.iter().enumerate().flat_map(|(i, s)| s.readers.iter().map(move |r| (i, r)));
    let wanted: BTreeSet<String> = readers().map(|(_, r)| r.names.1.clone()).collect();
    let inputs: BTreeSet<String> = readers().map(|(_, r)| r.names.0.clone()).collect();
    for feeds in (learning.samples)() {
        let feeds = feeds?;
        let mut outputs: BTreeMap<String, Tensor> = BTreeMap::new();
        let mut keep = |name: &str, tensor: &Tensor| {
            outputs.insert(name.to_owned(), tensor.clone());
        };
        let mut keeper = Shown { names: wanted.clone(), see: &mut keep };
        let options =
            RunOptions { bytes_max, stop, observer: Some(&mut keeper), ..RunOptions::default() };
        of_float.run(&feeds, options)?;
        let mut see = |name: &str, x: &Tensor| {
            for (at, reader) in readers().filter(|(_, reader)| reader.names.0 == name) {
                let Some(y) = outputs.get(&reader.names.1) else { continue };
                sums[at].iter_mut().for_each(|sums| sums.biased(&reader.bias));
                // Other sizes are those of another loop or branch, of which nothing is learned.
                let _ = sites[at].shape.see(&mut sums[at], x, y);
            }
        };
        let mut watcher = Shown { names: inputs.clone(), see: &mut see };
        let options =
            RunOptions { bytes_max, stop, observer: Some(&mut watcher), ..RunOptions::default() };
        of_quantized.run(&feeds, options)?;
    }
    Ok(sums)
}
