//! Ensembles of trees, followed from the root as they grew.

use crate::case::{Case, Value, case};
use crate::dice::Dice;
use crate::ml::{best, table, weights};
use crate::nd::{Nd, int64, reals};
use onnxd_ir::{DataType, Tensor};

properties! {
    classifier: "ai.onnx.ml.TreeEnsembleClassifier";
    ensemble: "ai.onnx.ml.TreeEnsemble";
    regressor: "ai.onnx.ml.TreeEnsembleRegressor";
}

const MODES: [&str; 7] = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER"];

enum Tree {
    Leaf(usize, f32),
    Split { feature: usize, mode: usize, at: f32, members: Vec<f32>, sides: Box<[Tree; 2]> },
}

fn grown(d: &mut Dice, columns: usize, targets: usize, modes: usize, depth: usize) -> Tree {
    if depth == 0 || (depth < 3 && d.coin()) {
        let weight = weights(d, 1)[0];
        return Tree::Leaf(d.below(targets), weight);
    }
    let (feature, mode, at) = (d.below(columns), d.below(modes), d.int(-2, 2) as f32);
    let members = d.whole(2, -2, 2).iter().map(|v| *v as f32).collect();
    let sides = [0, 1].map(|_| grown(d, columns, targets, modes, depth - 1));
    Tree::Split { feature, mode, at, members, sides: Box::new(sides) }
}

impl Tree {
    fn leaf(&self, row: &[f64]) -> (usize, f64) {
        match self {
            Tree::Leaf(target, weight) => (*target, f64::from(*weight)),
            Tree::Split { feature, mode, at, members, sides } => {
                let (v, at) = (row[*feature], f64::from(*at));
                let holds = match MODES[*mode] {
                    "LEQ" => v <= at,
                    "LT" => v < at,
                    "GTE" => v >= at,
                    "GT" => v > at,
                    "EQ" => v == at,
                    "NEQ" => v != at,
                    _ => members.iter().any(|m| f64::from(*m) == v),
                };
                sides[usize::from(!holds)].leaf(row)
            }
        }
    }
}

/// Lists of nodes and leaves by name.
#[derive(Default)]
struct Lists {
    trees: Vec<i64>,
    nodes: Vec<i64>,
    features: Vec<i64>,
    modes: Vec<usize>,
    splits: Vec<f32>,
    ways: [Vec<i64>; 2],
    /// Of the newest version: whether the ways lead to leaves.
    ends: [Vec<i64>; 2],
    members: Vec<f32>,
    /// Tree, node, target and weight.
    leaves: Vec<(i64, i64, i64, f32)>,
    roots: Vec<i64>,
}

impl Lists {
    fn put(&mut self, tree: i64, node: i64, feature: usize, mode: usize, at: f32) -> usize {
        self.trees.push(tree);
        self.nodes.push(node);
        self.features.push(feature as i64);
        self.modes.push(mode);
        self.splits.push(at);
        self.ways.iter_mut().for_each(|way| way.push(0));
        self.ends.iter_mut().for_each(|end| end.push(0));
        self.nodes.len() - 1
    }

    /// Earlier versions: leaves are nodes, and nodes are numbered within their tree, here in steps.
    fn add(&mut self, tree: i64, of: &Tree, next: &mut i64) -> i64 {
        let node = *next;
        *next += 1 + tree % 2;
        match of {
            Tree::Leaf(target, weight) => {
                self.put(tree, node, 0, usize::MAX, 0.0);
                self.leaves.push((tree, node, *target as i64, *weight));
            }
            Tree::Split { feature, mode, at, sides, .. } => {
                let place = self.put(tree, node, *feature, *mode, *at);
                for (i, side) in sides.iter().enumerate() {
                    self.ways[i][place] = self.add(tree, side, next);
                }
            }
        }
        node
    }

    /// The newest version: leaves stand in lists of their own. Gives the place, and whether it is a
    /// leaf's.
    fn add_flat(&mut self, of: &Tree) -> (i64, i64) {
        match of {
            Tree::Leaf(target, weight) => {
                self.leaves.push((0, 0, *target as i64, *weight));
                (self.leaves.len() as i64 - 1, 1)
            }
            Tree::Split { feature, mode, at, members, sides } => {
                let place = self.put(0, 0, *feature, *mode, *at);
                if MODES[*mode] == "MEMBER" {
                    self.members.extend(members);
                    self.members.push(f32::NAN);
                }
                for (i, side) in sides.iter().enumerate() {
                    (self.ways[i][place], self.ends[i][place]) = self.add_flat(side);
                }
                (place as i64, 0)
            }
        }
    }

    /// The attributes of earlier versions, where leaves' are called `kind`.
    fn attrs(&self, made: Case, kind: &str) -> Case {
        let names: Vec<String> = self
            .modes
            .iter()
            .map(|m| MODES.get(*m).map_or("LEAF".into(), |m| format!("BRANCH_{m}")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let leaves = |f: fn(&(i64, i64, i64, f32)) -> i64| -> Vec<i64> {
            self.leaves.iter().map(f).collect()
        };
        let weights: Vec<f32> = self.leaves.iter().map(|l| l.3).collect();
        made.attr("nodes_treeids", &self.trees)
            .attr("nodes_nodeids", &self.nodes)
            .attr("nodes_featureids", &self.features)
            .attr("nodes_modes", &names)
            .attr("nodes_values", &self.splits)
            .attr("nodes_truenodeids", &self.ways[0])
            .attr("nodes_falsenodeids", &self.ways[1])
            .attr(&format!("{kind}_treeids"), &leaves(|l| l.0))
            .attr(&format!("{kind}_nodeids"), &leaves(|l| l.1))
            .attr(&format!("{kind}_ids"), &leaves(|l| l.2))
            .attr(&format!("{kind}_weights"), &weights)
    }
}

fn forest(d: &mut Dice, columns: usize, targets: usize, modes: usize) -> Vec<Tree> {
    (0..1 + d.below(4)).map(|_| grown(d, columns, targets, modes, 3)).collect()
}

fn lists(trees: &[Tree]) -> Lists {
    let mut lists = Lists::default();
    for (i, tree) in trees.iter().enumerate() {
        lists.add(i as i64, tree, &mut 0);
    }
    lists
}

/// For every row what the leaves of each target come to, `None` where no tree speaks of it.
fn sums(x: &Tensor, trees: &[Tree], targets: usize, how: &str) -> Vec<Vec<Option<f64>>> {
    let row = |row: &[f64]| -> Vec<Option<f64>> {
        let leaves: Vec<(usize, f64)> = trees.iter().map(|t| t.leaf(row)).collect();
        let of = |target: usize| {
            let own = leaves.iter().filter(|l| l.0 == target).map(|l| l.1);
            own.reduce(match how {
                "MIN" => f64::min,
                "MAX" => f64::max,
                _ => |a, b| a + b,
            })
        };
        let shares = if how == "AVERAGE" { trees.len() as f64 } else { 1.0 };
        (0..targets).map(|t| of(t).map(|v| v / shares)).collect()
    };
    let columns = x.dims()[1];
    reals(x).v.chunks(columns).map(row).collect()
}

const NUMBERS: [DataType; 4] =
    [DataType::Float, DataType::Double, DataType::Int64, DataType::Int32];

fn regressor(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let (targets, how) = (1 + d.below(3), d.pick(&["SUM", "AVERAGE", "MIN", "MAX"]));
    let trees = forest(d, columns, targets, 6);
    let base = d.coin().then(|| weights(d, targets));
    let base_of = |t: usize| base.as_ref().map_or(0.0, |b| f64::from(b[t]));
    let found = sums(&x, &trees, targets, how);
    let y = found
        .iter()
        .flat_map(|row| row.iter().enumerate().map(|(t, v)| v.unwrap_or(0.0) + base_of(t)));
    let y = Nd { dims: vec![rows, targets], v: y.collect() };
    let made = case(op, d.pick(&[1, 3])).attr("n_targets", targets as i64);
    let made = made.attr_if(how != "SUM" || d.coin(), "aggregate_function", how);
    let made = match &base {
        Some(base) => made.attr("base_values", base),
        None => made,
    };
    Some(lists(&trees).attrs(made, "target").input(&x).near(
        DataType::Float,
        y,
        &vec![4.0; rows * targets],
    ))
}

/// Of two classes, all leaves speak of the first, whose score tells by its sign.
fn classifier(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let classes = 2 + d.below(3);
    let trees = forest(d, columns, if classes == 2 { 1 } else { classes }, 6);
    let lists = lists(&trees);
    let negative = lists.leaves.iter().any(|l| l.3 < 0.0);
    let found = sums(&x, &trees, classes, "SUM");
    let (mut labels, mut all) = (vec![], vec![]);
    for row in &found {
        if classes == 2 {
            let score = row[0].unwrap_or(0.0);
            let limit = if negative { 0.0 } else { 0.5 };
            labels.push(i64::from(score > limit));
            all.extend(if negative { [-score, score] } else { [1.0 - score, score] });
            continue;
        }
        // A class that no leaf names is not chosen.
        let known: Vec<f64> = row.iter().map(|v| v.unwrap_or(f64::NEG_INFINITY)).collect();
        labels.push(best(&known) as i64);
        all.extend(row.iter().map(|v| v.unwrap_or(0.0)));
    }
    let names: Vec<i64> = (0..classes as i64).collect();
    let made = case(op, d.pick(&[1, 3])).attr("classlabels_int64s", &names);
    let z = Nd { dims: vec![rows, classes], v: all };
    let made = lists.attrs(made, "class").input(&x).same(int64(&[rows], &labels));
    Some(made.near(DataType::Float, z, &vec![4.0; rows * classes]))
}

fn ensemble(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &[DataType::Float, DataType::Double]);
    let (targets, how) = (1 + d.below(3), d.below(4));
    let trees = forest(d, columns, targets, 7);
    let mut lists = Lists::default();
    for tree in &trees {
        let (root, _) = lists.add_flat(tree);
        lists.roots.push(root);
    }
    let found = sums(&x, &trees, targets, ["AVERAGE", "SUM", "MIN", "MAX"][how]);
    let y = found.concat().iter().map(|v| v.unwrap_or(0.0)).collect();
    let y = Nd { dims: vec![rows, targets], v: y };
    let tensor = |list: &[f32]| {
        let list = list.to_vec();
        match x.dtype() {
            DataType::Float => Tensor::vector(list),
            _ => Tensor::vector(list.iter().map(|v| f64::from(*v)).collect()),
        }
    };
    let modes = Tensor::vector(lists.modes.iter().map(|m| *m as u8).collect());
    let ids: Vec<i64> = lists.leaves.iter().map(|l| l.2).collect();
    let weights: Vec<f32> = lists.leaves.iter().map(|l| l.3).collect();
    let mut made =
        case(op, 5).attr("n_targets", targets as i64).attr("aggregate_function", how as i64);
    let values: [(&str, Value); 10] = [
        ("tree_roots", (&lists.roots).into()),
        ("nodes_featureids", (&lists.features).into()),
        ("nodes_splits", (&tensor(&lists.splits)).into()),
        ("nodes_modes", (&modes).into()),
        ("nodes_truenodeids", (&lists.ways[0]).into()),
        ("nodes_trueleafs", (&lists.ends[0]).into()),
        ("nodes_falsenodeids", (&lists.ways[1]).into()),
        ("nodes_falseleafs", (&lists.ends[1]).into()),
        ("leaf_targetids", (&ids).into()),
        ("leaf_weights", (&tensor(&weights)).into()),
    ];
    for (name, value) in values {
        made = made.attr(name, value);
    }
    if !lists.members.is_empty() {
        made = made.attr("membership_values", &tensor(&lists.members));
    }
    Some(made.input(&x).near(x.dtype(), y, &vec![4.0; rows * targets]))
}
