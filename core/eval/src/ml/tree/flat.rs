//! The two ways in which nodes list trees, read into a [`Forest`].

use super::forest::{BranchMode, Forest, Node};
use super::{members, modes, numbers};
use crate::call::KernelCall;
use crate::fault::{Fault, Outcome};
use crate::ml::scores::demanded;
use crate::reals::reals;
use onnxd_diagnostics::refuse;
use onnxd_ir::Attr;
use std::collections::HashMap;

fn unsigned(v: i64) -> Outcome<u32> {
    u32::try_from(v).map_err(|_| Fault::invalid(format!("{v} is no feature, target, node or leaf")))
}

fn ints<'a>(call: &KernelCall<'a>, name: &str) -> Outcome<&'a [i64]> {
    demanded(call.ints(name)?, name)
}

/// Trees whose leaves stand in lists of their own, as the newest version has them.
pub(super) fn with_leaves(call: &KernelCall) -> Outcome<Forest> {
    let modes = modes(call)?;
    let splits = reals(demanded(call.tensor("nodes_splits")?, "nodes_splits")?)?;
    let features = ints(call, "nodes_featureids")?;
    let sides = [
        (ints(call, "nodes_truenodeids")?, ints(call, "nodes_trueleafs")?),
        (ints(call, "nodes_falsenodeids")?, ints(call, "nodes_falseleafs")?),
    ];
    let missing = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    let targets = ints(call, "leaf_targetids")?;
    let weights = reals(demanded(call.tensor("leaf_weights")?, "leaf_weights")?)?;
    let [(a, b), (c, d)] = sides;
    let count = modes.len();
    let lists = [splits.len(), features.len(), a.len(), b.len(), c.len(), d.len()];
    let ways = !missing.is_empty() && missing.len() != count;
    refuse!(lists != [count; 6] || ways || targets.len() != weights.len() =>
        "the lists of nodes or leaves differ in length");
    let leaves = unsigned(weights.len() as i64)?;
    let first = unsigned(count as i64)?;
    // Leaves follow the nodes.
    let next = |i: usize, side: usize| -> Outcome<u32> {
        let (ids, leafs) = sides[side];
        let at = unsigned(ids[i])?;
        match leafs[i] {
            0 if at < first => Ok(at),
            0 => Err(Fault::invalid(format!("node {at} of {first} is not there"))),
            _ if at < leaves => Ok(first + at),
            _ => Err(Fault::invalid(format!("leaf {at} of {leaves} is not there"))),
        }
    };
    let mut asked = 0;
    let mut nodes = Vec::with_capacity(count + weights.len());
    for (i, mode) in modes.iter().enumerate() {
        let mode = match mode {
            0 => BranchMode::Leq,
            1 => BranchMode::Lt,
            2 => BranchMode::Gte,
            3 => BranchMode::Gt,
            4 => BranchMode::Eq,
            5 => BranchMode::Neq,
            6 => {
                asked += 1;
                BranchMode::Member(asked - 1)
            }
            other => return Err(Fault::invalid(format!("nodes of mode {other} are not defined"))),
        };
        let missing = missing.get(i).is_some_and(|m| *m != 0);
        let (feature, next) = (unsigned(features[i])?, [next(i, 0)?, next(i, 1)?]);
        nodes.push(Node { mode, missing, feature, split: splits[i], next });
    }
    let leaf = |i| Node {
        mode: BranchMode::Leaf,
        missing: false,
        feature: 0,
        split: 0.0,
        next: [i, i + 1],
    };
    nodes.extend((0..leaves).map(leaf));
    let roots = ints(call, "tree_roots")?.iter().map(|r| unsigned(*r)).collect::<Outcome<_>>()?;
    let weights = targets.iter().zip(weights).map(|(t, w)| Ok((unsigned(*t)?, w)));
    Forest::new(nodes, roots, weights.collect::<Outcome<_>>()?, members(call)?)
}

/// The places of nodes by their trees and numbers.
struct NodePlaces<'a> {
    trees: &'a [i64],
    numbers: &'a [i64],
    by_number: HashMap<(i64, i64), u32>,
}

impl NodePlaces<'_> {
    /// Where a node of the tree stands whose first node is at `start`. Most often a tree's nodes are
    /// numbered in their order, so that nothing must be looked up.
    fn find(&self, start: usize, tree: i64, number: i64) -> Outcome<u32> {
        let at = usize::try_from(number).ok().and_then(|n| start.checked_add(n));
        let here = |at: &usize| {
            self.numbers.get(*at) == Some(&number) && self.trees.get(*at) == Some(&tree)
        };
        let missing = || Fault::invalid(format!("tree {tree} has no node {number}"));
        match at.filter(here) {
            Some(at) => unsigned(at as i64),
            None => self.by_number.get(&(tree, number)).copied().ok_or_else(missing),
        }
    }
}

/// Trees whose leaves are nodes with weights in lists called `kind`, as earlier versions have them.
pub(super) fn with_nodes(call: &KernelCall, kind: &str) -> Outcome<Forest> {
    let (trees, own) = (ints(call, "nodes_treeids")?, ints(call, "nodes_nodeids")?);
    let features = ints(call, "nodes_featureids")?;
    let (truths, lies) = (ints(call, "nodes_truenodeids")?, ints(call, "nodes_falsenodeids")?);
    let Some(Attr::Strs(modes)) = call.attr("nodes_modes") else {
        return Err(Fault::invalid("attribute `nodes_modes` is missing"));
    };
    let splits = numbers(call, "nodes_values")?;
    let missing = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    let count = trees.len();
    let lists = [own.len(), features.len(), truths.len(), lies.len(), modes.len(), splits.len()];
    refuse!(lists != [count; 6] => "the lists of nodes differ in length");
    // The first node of a tree is its root.
    let mut starts: HashMap<i64, usize> = HashMap::new();
    let mut roots = Vec::new();
    let mut by_number = HashMap::new();
    let mut in_order = true;
    for (i, tree) in trees.iter().enumerate() {
        let start = *starts.entry(*tree).or_insert(i);
        if start == i {
            roots.push(unsigned(i as i64)?);
        }
        in_order &= own[i] == (i - start) as i64;
    }
    if !in_order {
        for (i, key) in trees.iter().copied().zip(own.iter().copied()).enumerate() {
            refuse!(by_number.insert(key, unsigned(i as i64)?).is_some() =>
                "tree {} has node {} twice", key.0, key.1);
        }
    }
    let places = NodePlaces { trees, numbers: own, by_number };
    let (weights, ranges) = weights(call, kind, &places, &starts)?;
    let mut nodes = Vec::with_capacity(count);
    for i in 0..count {
        let mode = mode_of(&modes[i])?;
        let next = match mode {
            BranchMode::Leaf => ranges[i],
            _ => {
                let start = starts[&trees[i]];
                [places.find(start, trees[i], truths[i])?, places.find(start, trees[i], lies[i])?]
            }
        };
        let feature = if mode == BranchMode::Leaf { 0 } else { unsigned(features[i])? };
        let missing = missing.get(i).is_some_and(|m| *m != 0);
        nodes.push(Node { mode, missing, feature, split: splits[i], next });
    }
    Forest::new(nodes, roots, weights, vec![])
}

fn mode_of(name: &[u8]) -> Outcome<BranchMode> {
    Ok(match name {
        b"BRANCH_LEQ" => BranchMode::Leq,
        b"BRANCH_LT" => BranchMode::Lt,
        b"BRANCH_GTE" => BranchMode::Gte,
        b"BRANCH_GT" => BranchMode::Gt,
        b"BRANCH_EQ" => BranchMode::Eq,
        b"BRANCH_NEQ" => BranchMode::Neq,
        b"LEAF" => BranchMode::Leaf,
        other => {
            let name = String::from_utf8_lossy(other);
            let name = onnxd_diagnostics::shown(&name);
            return Err(Fault::invalid(format!("nodes of mode `{name}` are not defined")));
        }
    })
}

/// Targets and weights sorted by their nodes, and for every node where its own begin and end.
type TargetWeights = (Vec<(u32, f64)>, Vec<[u32; 2]>);

fn weights(
    call: &KernelCall,
    kind: &str,
    places: &NodePlaces,
    starts: &HashMap<i64, usize>,
) -> Outcome<TargetWeights> {
    let list = |name: &str| ints(call, &format!("{kind}_{name}"));
    let (ids, trees, nodes) = (list("ids")?, list("treeids")?, list("nodeids")?);
    let numbers_given = numbers(call, &format!("{kind}_weights"))?;
    refuse!([trees.len(), nodes.len(), numbers_given.len()] != [ids.len(); 3] =>
        "the lists of leaves differ in length");
    let mut sorted = Vec::with_capacity(ids.len());
    for i in 0..ids.len() {
        let start = starts.get(&trees[i]).copied();
        let start =
            start.ok_or_else(|| Fault::invalid(format!("there is no tree {}", trees[i])))?;
        sorted.push((places.find(start, trees[i], nodes[i])?, unsigned(ids[i])?, numbers_given[i]));
    }
    // Stable, so that the weights of a leaf stay in their order.
    sorted.sort_by_key(|(node, ..)| *node);
    let mut ranges = vec![[0u32; 2]; places.trees.len()];
    for (i, (node, ..)) in sorted.iter().enumerate() {
        let range = &mut ranges[*node as usize];
        let at = unsigned(i as i64)?;
        *range = [if range[1] == 0 { at } else { range[0] }, at + 1];
    }
    Ok((sorted.into_iter().map(|(_, target, weight)| (target, weight)).collect(), ranges))
}
