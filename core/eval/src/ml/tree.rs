//! Ensembles of trees, laid out flat and walked by many rows at once.

use super::scores::{Labels, Transform, demanded, floats, largest, table};
use crate::call::{KernelCall, KernelRow, integers, one, row};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::parallel::fill_parts;
use crate::reals::{reals, stored};
use forest::{Forest, Rounding, Sums};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};

mod flat;
mod forest;

pub(crate) const ROWS: &[KernelRow] = &[
    row("TreeEnsemble", tree_ensemble).in_domain(super::DOMAIN),
    row("TreeEnsembleClassifier", classifier).in_domain(super::DOMAIN).until(4),
    row("TreeEnsembleRegressor", regressor).in_domain(super::DOMAIN).until(4),
];

/// How the leaves of a row come together.
#[derive(Clone, Copy, PartialEq)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

/// Sums are as exact as the weights, in the order of the trees, so that ties fall the same way
/// everywhere.
fn rounding(x: &Tensor) -> Rounding {
    if x.dtype() == DataType::Double { Rounding::Double } else { Rounding::Single }
}

/// What every row of the input comes to, for each of `targets`.
fn sums(call: &KernelCall, forest: &Forest, targets: usize, how: Aggregate) -> Outcome<Vec<Sums>> {
    let x = call.x(0)?;
    let (rows, columns) = table(x)?;
    refuse!(let Some(target) = forest.target_max().filter(|t| *t >= targets) =>
        "a leaf has target {target} of {targets}");
    if let Some(feature) = forest.feature_max().filter(|f| *f >= columns && rows > 0) {
        return Err(Fault::invalid(format!("a node asks for feature {feature} of {columns}")));
    }
    let values = reals(x)?;
    // A sum and whether there is one.
    call.room(DataType::Complex128, &[rows, targets])?;
    let mut all = vec![Sums::new(0); rows];
    let rounding = rounding(x);
    let cost = forest.roots().saturating_mul(ROOT_COST);
    fill_parts(&mut all, 1, cost, &|first, part| {
        part.iter_mut().for_each(|sums| *sums = Sums::new(targets));
        let values = &values[first * columns..(first + part.len()) * columns];
        for (part, values) in part.chunks_mut(BLOCK).zip(values.chunks((BLOCK * columns).max(1))) {
            for tree in 0..forest.roots() {
                for (i, sums) in part.iter_mut().enumerate() {
                    let leaf = forest.leaf(tree, &values[i * columns..(i + 1) * columns]);
                    leaf.iter().for_each(|(target, weight)| match how {
                        Aggregate::Min => sums.keep(*target, *weight, f64::min),
                        Aggregate::Max => sums.keep(*target, *weight, f64::max),
                        _ => sums.keep(*target, *weight, |a, b| rounding.round(a + b)),
                    });
                }
            }
        }
    });
    if how == Aggregate::Average {
        let trees = forest.roots().max(1) as f64;
        all.iter_mut().for_each(|sums| sums.map(|v| rounding.round(v / trees)));
    }
    Ok(all)
}

/// Steps of work that a tree takes for a row, about.
const ROOT_COST: usize = 16;
/// Rows that walk a tree one after the other, while it is in the cache.
const BLOCK: usize = 64;

/// The targets of a regressor: base values are added, and several are transformed together.
fn finished(
    sums: Vec<Sums>,
    base: &[f64],
    targets: usize,
    transform: Transform,
    rounding: Rounding,
) -> Vec<f64> {
    let mut all = Vec::with_capacity(sums.len() * targets);
    for row in sums {
        let base = |i: usize| if base.len() == targets { base[i] } else { 0.0 };
        let scores = (0..targets).map(|i| rounding.round(row.score(i) + base(i)));
        let mut scores: Vec<f64> = scores.collect();
        match &mut scores[..] {
            [score] => *score = transform.apply_to_one(*score),
            scores => transform.apply(scores),
        }
        all.extend(scores);
    }
    all
}

fn tree_ensemble(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let transform = Transform::numbered(call.int("post_transform", 0)?)?;
    let targets = dims::size(call.int("n_targets", 1)?)?;
    let how = match call.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(Fault::invalid(format!("the aggregation {other} is not defined"))),
    };
    let forest = flat::with_leaves(call)?;
    let sums = sums(call, &forest, targets, how)?;
    let dims = [sums.len(), targets];
    let scores = finished(sums, &[], targets, transform, rounding(x));
    one(stored(x.dtype(), &dims, scores)?)
}

/// Numbers of an attribute, or of its twin that is a tensor.
fn numbers(call: &KernelCall, name: &str) -> Outcome<Vec<f64>> {
    match call.tensor(&format!("{name}_as_tensor"))? {
        Some(tensor) if !tensor.is_empty() => reals(tensor),
        _ => floats(call, name),
    }
}

fn regressor(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let transform = Transform::from_call(call)?;
    let targets = dims::size(demanded(call.int_opt("n_targets")?, "n_targets")?)?;
    let how = match call.string("aggregate_function", "SUM")? {
        "AVERAGE" => Aggregate::Average,
        "SUM" => Aggregate::Sum,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => {
            return Err(Fault::invalid(format!("aggregate_function `{other}` is not defined")));
        }
    };
    let forest = flat::with_nodes(call, "target")?;
    let base = numbers(call, "base_values")?;
    let sums = sums(call, &forest, targets, how)?;
    let dims = [sums.len(), targets];
    let scores = finished(sums, &base, targets, transform, rounding(x));
    one(stored(DataType::Float, &dims, scores)?)
}

/// What a classifier needs to know beside the sums of a row.
struct Classes {
    count: usize,
    base: Vec<f64>,
    /// All leaves of a classifier of two classes speak of the first, whose score is the second's.
    binary: bool,
    /// No leaf has a negative weight, so that a score is a probability.
    positive: bool,
    transform: Transform,
    rounding: Rounding,
}

fn classifier(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let labels = match call.attr("classlabels_strings") {
        Some(Attr::Strs(list)) if !list.is_empty() => Labels::from_call(call, "")?,
        _ => Labels::from_call(call, "classlabels_int64s")?,
    };
    let ids = call.ints("class_ids")?.unwrap_or_default();
    let count = labels.len();
    let classes = Classes {
        count,
        base: numbers(call, "base_values")?,
        binary: count == 2 && ids.iter().all(|id| *id == 0),
        positive: numbers(call, "class_weights")?.iter().all(|w| *w >= 0.0),
        transform: Transform::from_call(call)?,
        rounding: rounding(call.x(0)?),
    };
    let forest = flat::with_nodes(call, "class")?;
    let sums = sums(call, &forest, count, Aggregate::Sum)?;
    let rows = sums.len();
    let (mut places, mut all) = (Vec::with_capacity(rows), Vec::with_capacity(rows * count));
    for row in &sums {
        let (place, scores) = classes.finished(row);
        places.push(place);
        all.extend(scores);
    }
    let width = all.len().checked_div(rows).unwrap_or(count);
    let labels = if count == 1 { labels.of_two()? } else { labels };
    let y = stored(DataType::Float, &[rows, width], all)?;
    Ok(vec![labels.at(call, places)?, y])
}

impl Classes {
    /// The class of a row and its scores.
    fn finished(&self, row: &Sums) -> (usize, Vec<f64>) {
        let added = |i: usize, base: Option<&f64>| {
            self.rounding.round(row.score(i) + base.copied().unwrap_or(0.0))
        };
        if self.count > 1 && !self.binary {
            let mut scores: Vec<f64> =
                (0..self.count).map(|i| added(i, self.base.get(i))).collect();
            let counts = |i: usize| row.has(i) || i < self.base.len();
            let known: Vec<usize> = (0..self.count).filter(|i| counts(*i)).collect();
            let among: Vec<f64> = known.iter().map(|i| scores[*i]).collect();
            let place = known.get(largest(&among)).copied().unwrap_or(0);
            self.transform.apply(&mut scores);
            return (place, scores);
        }
        self.of_two(&added)
    }

    /// Two classes that share a score, or one. The standard is silent on it; this is what ONNX
    /// Runtime does.
    fn of_two(&self, added: &dyn Fn(usize, Option<&f64>) -> f64) -> (usize, Vec<f64>) {
        let mut scores = match self.base[..] {
            [_, ref second] => {
                let score = added(0, Some(second));
                vec![-score, score]
            }
            _ => vec![added(0, self.base.first())],
        };
        let deciding = scores[scores.len() - 1];
        let limit = if self.binary && self.positive { 0.5 } else { 0.0 };
        match scores[..] {
            [score] if self.count == 1 => scores[0] = self.transform.apply_to_one(score),
            [score] => scores = self.transform.shared(score, !self.positive),
            _ => self.transform.apply(&mut scores),
        }
        (usize::from(deciding > limit), scores)
    }
}

/// The places of NaN part the members of the nodes that ask for membership.
fn members(call: &KernelCall) -> Outcome<Vec<Vec<f64>>> {
    let Some(all) = call.tensor("membership_values")? else { return Ok(vec![]) };
    Ok(reals(all)?.split(|v| v.is_nan()).map(<[f64]>::to_vec).collect())
}

/// Integers of an attribute of any kind of integer tensor.
fn modes(call: &KernelCall) -> Outcome<Vec<i64>> {
    integers(demanded(call.tensor("nodes_modes")?, "nodes_modes")?)
}
