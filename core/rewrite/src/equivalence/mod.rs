//! Whether two models compute the same, looked at value by value: what a pass changed is cut out of the model before
//! and after it, and both parts run on the same random numbers. Parts are small, so that large networks can be
//! compared, too; the smallest come first, until the work that is allowed has been done.

mod feeds;
mod work;

use feeds::Feeds;
use onnxd_diagnostics::Layer;
use onnxd_eval::{Comparison, compare};
use onnxd_ir::{
    DataType, Graph, GraphPart, Model, NodeId, Origin, Tensor, ValueId, same_node, verify,
};
use std::collections::BTreeMap;
use work::{Reached, inside_functions, work};

/// Values that are not compared for a reason, and kept with it.
const REASONS_MAX: usize = 100;
const TOO_MUCH: &str = "it takes more work than is allowed";
const TIME_IS_OVER: &str = "the time is over";
const TOO_FAR: &str = "random numbers in place of what it reads tell nothing of it";
/// Nodes and edges that a part may have, whatever the others have.
const SMALL_PART: usize = 64;
/// All larger parts together may have so many times the nodes and values of the models.
const LARGE_PARTS: usize = 8;
/// How much more work is allowed to make sure of differences.
const CERTAINTY: u64 = 16;

/// How much may be computed.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    /// Multiplications and additions, about; a bound that gives the same on every machine.
    pub work: u64,
    /// Bytes of tensors that one comparison may hold.
    pub bytes_max: usize,
    /// Says when to stop; asked before every comparison and every node.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Equivalence {
    /// Values that both models compute by the same node from equal values.
    pub unchanged: usize,
    /// Values that were compared and are equal, but for rounding.
    pub equal: usize,
    /// Values that were not compared.
    pub not_compared: usize,
    /// Some of them, with the reason.
    pub reasons: Vec<(String, String)>,
    /// The equal value that is farthest from what it was.
    pub worst: Option<(String, Comparison)>,
    /// Outputs that are not what they were, and the first inner value that is not.
    pub different: Vec<Difference>,
}

/// A value that is not what it was.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its name, the same in both models.
    pub value: String,
    /// The layer that computes it.
    pub layer: Option<Layer>,
    /// How far it is from what it was.
    pub what: String,
}

/// Compares the values of the main graph that have one name in both models; both have inferred types.
#[must_use]
pub fn equivalence(before: &Model, after: &Model, effort: Effort) -> Equivalence {
    let mut search = DifferenceSearch::new(before, after, effort);
    let mut changed: Vec<Changed> = search.changed();
    changed.sort_by_key(|c| (c.work, c.position));
    for c in changed {
        if c.work > search.work_left {
            search.pass_over(&c.values, TOO_MUCH);
        } else if search.is_over() {
            search.pass_over(&c.values, TIME_IS_OVER);
        } else {
            search.work_left -= c.work;
            search.look_at(&c.values);
        }
    }
    search.make_sure();
    search.conclude()
}

/// How far the outputs of two whole models are apart on the same random numbers, for those that both have.
///
/// # Errors
/// Why it cannot be told: `effort` allows less, or one of the models cannot be run.
pub fn compare_outputs(
    before: &Model,
    after: &Model,
    effort: Effort,
) -> Result<Vec<(String, Comparison)>, String> {
    let (old, new) = (&before.graph, &after.graph);
    let pairs = new.outputs().iter().filter_map(|v| Some((old.value_named(&new[*v].name)?, *v)));
    let (old_outputs, new_outputs): (Vec<_>, Vec<_>) = pairs.unzip();
    let whole = |_| false;
    let parts = [old.part(&whole, &old_outputs), new.part(&whole, &new_outputs)];
    let works = [(before, &parts[0]), (after, &parts[1])];
    let works = works.map(|(model, part)| work(inside_functions(model), part));
    if works[0].saturating_add(works[1]) > effort.work {
        return Err(TOO_MUCH.into());
    }
    let mut feeds = Feeds::default();
    let wanted = feeds.outputs(before, &parts[0], effort)?;
    let found = feeds.outputs(after, &parts[1], effort)?;
    let apart = |((name, wanted), (_, found)): ((String, Tensor), (String, Tensor))| {
        compare(&found, &wanted).map(|how| (name, how)).map_err(|why| why.to_string())
    };
    wanted.into_iter().zip(found).map(apart).collect()
}

/// Values of one node whose computation is another one than before.
struct Changed {
    values: Vec<ValueId>,
    position: usize,
    work: u64,
}

struct DifferenceSearch<'m> {
    before: &'m Model,
    after: &'m Model,
    /// By value of `after`: the one of that name before.
    pairs: Vec<Option<ValueId>>,
    /// By value of `after`: its place in the order of evaluation.
    order: Vec<usize>,
    /// By value of `before`: the place in that order of the value of its name.
    order_before: Vec<Option<usize>>,
    /// Work that a node may be because it applies a function, before and after.
    functions: [u64; 2],
    effort: Effort<'m>,
    work_left: u64,
    /// Work that may still be done to make sure of differences.
    certainty_left: u64,
    /// What random numbers in the middle of the network do not show to be equal.
    uncertain: Vec<ValueId>,
    suspects: Vec<(ValueId, String)>,
    found: Equivalence,
}

impl<'m> DifferenceSearch<'m> {
    fn new(before: &'m Model, after: &'m Model, effort: Effort<'m>) -> DifferenceSearch<'m> {
        let (old, new) = (&before.graph, &after.graph);
        let pairs: Vec<_> = new.value_ids().map(|v| old.value_named(&new[v].name)).collect();
        // Inputs and constants come before everything that is computed.
        let mut order = vec![0; pairs.len()];
        for (at, id) in new.topological().unwrap_or_default().into_iter().enumerate() {
            new[id].outputs.iter().flatten().for_each(|v| order[v.index()] = at + 1);
        }
        let mut order_before = vec![None; old.value_ids().len()];
        for (v, pair) in new.value_ids().zip(&pairs) {
            if let Some(pair) = pair {
                order_before[pair.index()] = Some(order[v.index()]);
            }
        }
        let (work_left, found) = (effort.work, Equivalence::default());
        DifferenceSearch {
            before,
            after,
            pairs,
            order,
            order_before,
            functions: [before, after].map(inside_functions),
            effort,
            work_left,
            certainty_left: work_left.saturating_mul(CERTAINTY),
            uncertain: Vec::new(),
            suspects: Vec::new(),
            found,
        }
    }

    /// Values that both models have and that the same nodes do not compute; counts the others.
    fn changed(&mut self) -> Vec<Changed> {
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for values in self.changed_values() {
            match self.sized(values, &mut { SMALL_PART }) {
                Ok(changed) => small.push(changed),
                Err(values) => large.push(values),
            }
        }
        let size = |model: &Model| model.graph.node_bound() + model.graph.value_ids().len();
        let mut left = LARGE_PARTS * (size(self.before) + size(self.after));
        for values in large {
            match self.sized(values, &mut left) {
                Ok(changed) => small.push(changed),
                Err(values) => self.pass_over(&values, TOO_MUCH),
            }
        }
        small
    }

    /// Values that are not computed as before, those of one node together.
    fn changed_values(&mut self) -> Vec<Vec<ValueId>> {
        let mut by_node: BTreeMap<NodeId, Vec<ValueId>> = BTreeMap::new();
        let mut others = Vec::new();
        for v in self.after.graph.value_ids() {
            let Some(pair) = self.pairs[v.index()] else { continue };
            match (self.same_source(v, pair), self.after.graph.producer(v)) {
                (None, _) => {}
                (Some(true), _) => self.found.unchanged += 1,
                (Some(false), Some(node)) => by_node.entry(node).or_default().push(v),
                (Some(false), None) => others.push(vec![v]),
            }
        }
        others.extend(by_node.into_values());
        others
    }

    /// What it takes to compare values of one node; the values themselves if that is in more than `left` nodes and
    /// edges.
    fn sized(&self, values: Vec<ValueId>, left: &mut usize) -> Result<Changed, Vec<ValueId>> {
        let Some((old, new)) = self.parts(&values, left) else { return Err(values) };
        let [before, after] = self.functions;
        let work = work(before, &old).saturating_add(work(after, &new));
        Ok(Changed { position: self.order[values[0].index()], values, work })
    }

    /// Whether a value comes from the same place in both models; `None` for what nothing computes.
    fn same_source(&self, v: ValueId, pair: ValueId) -> Option<bool> {
        let (old, new) = (&self.before.graph, &self.after.graph);
        let same = match (old.producer(pair), new.producer(v)) {
            (Some(a), Some(b)) => self.same_node(a, b) && slot(old, pair) == slot(new, v),
            (None, None) => match (old.constant(pair), new.constant(v)) {
                (Some(a), Some(b)) if new.uses(v) > 0 && old.uses(pair) > 0 => a == b,
                _ => return None,
            },
            // What an input or a name without a value became is for verification.
            (Some(_), None) => new.constant(v).map(|_| false)?,
            (None, Some(_)) => old.constant(pair).map(|_| false)?,
        };
        Some(same)
    }

    fn same_node(&self, a: NodeId, b: NodeId) -> bool {
        let name = |id: ValueId| self.pairs[id.index()];
        let (old, new) = (&self.before.graph, &self.after.graph);
        // Equal constants may have been merged under one name.
        let same = |mine: ValueId, other: ValueId| {
            name(other) == Some(mine)
                || matches!((old.constant(mine), new.constant(other)), (Some(x), Some(y)) if x == y)
        };
        same_node((old, a), (new, b), &same)
    }

    /// What computes values of one node before and after, from values that both models have and that come earlier,
    /// unless that is more than `left`.
    fn parts(&self, values: &[ValueId], left: &mut usize) -> Option<(GraphPart, GraphPart)> {
        let at = self.order[values.first()?.index()];
        let pairs = self.pairs_of(values)?;
        let (old, new) = (&self.before.graph, &self.after.graph);
        let earlier = |order: usize| order > 0 && order < at;
        let old_leaf = |u: ValueId| self.order_before[u.index()].is_some_and(earlier);
        let new_leaf =
            |u: ValueId| self.pairs[u.index()].is_some() && earlier(self.order[u.index()]);
        let new = new.part_within(&new_leaf, values, left)?;
        Some((old.part_within(&old_leaf, &pairs, left)?, new))
    }

    /// The values of these names before.
    fn pairs_of(&self, values: &[ValueId]) -> Option<Vec<ValueId>> {
        values.iter().map(|v| self.pairs[v.index()]).collect()
    }

    fn look_at(&mut self, values: &[ValueId]) {
        let parts = self.parts(values, &mut { usize::MAX }).expect("there is no bound");
        let verdicts = self.compared(&parts.0, &parts.1).unwrap_or_default();
        let mut verdicts = verdicts.into_iter();
        for v in values {
            match verdicts.next() {
                Some(Verdict::Equal(how)) => self.equal(*v, how),
                _ => self.uncertain.push(*v),
            }
        }
    }

    /// Random numbers in the middle of a network may be such that never occur there. What they do not show to be equal
    /// is compared as it follows from the inputs of the network.
    fn make_sure(&mut self) {
        let mut uncertain = std::mem::take(&mut self.uncertain);
        uncertain.sort_by_key(|v| self.order[v.index()]);
        for (v, verdict) in self.look_at_whole(&uncertain) {
            match verdict {
                Ok(Verdict::Equal(how)) => self.equal(v, how),
                Ok(Verdict::Apart(what)) => self.suspects.push((v, what)),
                Err(why) => self.pass_over(&[v], &why),
            }
        }
    }

    /// Compares values as they follow from the inputs of the network, all in one run. Where it fails, they run in
    /// halves, to find the one that cannot be computed.
    fn look_at_whole(&mut self, values: &[ValueId]) -> Vec<(ValueId, Result<Verdict, String>)> {
        let is_over = self.is_over();
        let (near, far) = values.split_at(if is_over { 0 } else { self.within_reach(values) });
        let mut looked: Vec<_> = match (self.compared_whole(near), near) {
            (_, []) => vec![],
            (Ok(verdicts), _) => near.iter().copied().zip(verdicts.into_iter().map(Ok)).collect(),
            (Err(why), [v]) => vec![(*v, Err(why))],
            (Err(_), _) => {
                let (first, second) = near.split_at(near.len() / 2);
                let mut looked = self.look_at_whole(first);
                looked.extend(self.look_at_whole(second));
                looked
            }
        };
        let why = if is_over { TIME_IS_OVER } else { TOO_FAR };
        looked.extend(far.iter().map(|v| (*v, Err(why.to_owned()))));
        looked
    }

    fn is_over(&self) -> bool {
        self.effort.stop.is_some_and(|stop| stop())
    }

    /// How many of `values` follow from the inputs of the network by the work that is left for this; takes it.
    fn within_reach(&mut self, values: &[ValueId]) -> usize {
        let (mut old, mut new) = (Reached::of(self.before), Reached::of(self.after));
        let is_within = |v: &&ValueId| {
            let before = self.pairs[v.index()].map_or(0, |pair| old.add(pair));
            let work = before.saturating_add(new.add(**v));
            let left = self.certainty_left.checked_sub(work);
            self.certainty_left = left.unwrap_or(self.certainty_left);
            left.is_some()
        };
        values.iter().take_while(is_within).count()
    }

    /// Compares values as they follow from the inputs of the network.
    fn compared_whole(&self, values: &[ValueId]) -> Result<Vec<Verdict>, String> {
        let pairs = self.pairs_of(values).ok_or("it is new")?;
        let whole = |_| false;
        let (old, new) = (&self.before.graph, &self.after.graph);
        self.compared(&old.part(&whole, &pairs), &new.part(&whole, values))
    }

    /// Compares the outputs of two parts; what cannot be computed any more is told of one alone.
    fn compared(&self, old: &GraphPart, new: &GraphPart) -> Result<Vec<Verdict>, String> {
        let mut feeds = Feeds::default();
        let wanted = feeds.outputs(self.before, old, self.effort)?;
        match feeds.outputs(self.after, new, self.effort) {
            Ok(found) => {
                let pairs = found.iter().zip(&wanted);
                Ok(pairs.map(|((_, found), (_, wanted))| verdict(found, wanted)).collect())
            }
            Err(why) if wanted.len() > 1 || self.is_over() => Err(why),
            Err(why) => Ok(vec![Verdict::Apart(format!("it cannot be computed any more: {why}"))]),
        }
    }

    fn equal(&mut self, v: ValueId, how: Option<Comparison>) {
        self.found.equal += 1;
        let Some(how) = how else { return };
        let farther = |(_, worst): &(String, Comparison)| how.sqnr_db < worst.sqnr_db;
        if self.found.worst.as_ref().is_none_or(farther) {
            self.found.worst = Some((self.after.graph[v].name.clone(), how));
        }
    }

    fn pass_over(&mut self, values: &[ValueId], why: &str) {
        self.found.not_compared += values.len();
        let room = REASONS_MAX.saturating_sub(self.found.reasons.len());
        let told = values.iter().take(room);
        let told = told.map(|v| (self.after.graph[*v].name.clone(), why.to_owned()));
        self.found.reasons.extend(told);
    }

    /// Inner values may change as long as the outputs do not.
    fn conclude(mut self) -> Equivalence {
        let Some(first) = self.suspects.iter().min_by_key(|(v, _)| self.order[v.index()]).cloned()
        else {
            return self.found;
        };
        let mut unknown = false;
        self.certainty_left = self.effort.work.saturating_mul(CERTAINTY);
        let outputs = self.after.graph.outputs();
        for (v, verdict) in self.look_at_whole(outputs) {
            match verdict {
                Ok(Verdict::Equal(_)) => {}
                Ok(Verdict::Apart(what)) => self.differs(v, what),
                Err(_) => unknown = true,
            }
        }
        let is_output = self.after.graph.is_output(first.0);
        if !is_output && (unknown || !self.found.different.is_empty()) {
            self.differs(first.0, first.1);
        }
        self.found
    }

    fn differs(&mut self, v: ValueId, what: String) {
        let graph = &self.after.graph;
        let layer = graph.producer(v).map(|id| verify::source_layer(graph, &graph[id]));
        self.found.different.push(Difference { value: graph[v].name.clone(), layer, what });
    }
}

/// Which output of its node a value is.
fn slot(graph: &Graph, v: ValueId) -> Option<usize> {
    match graph[v].origin() {
        Origin::Node(_, slot) => Some(slot),
        _ => None,
    }
}

enum Verdict {
    /// Equal, but for rounding; the difference unless there is none.
    Equal(Option<Comparison>),
    Apart(String),
}

/// Results may be rounded otherwise. What decides is far from that: a pass that is wrong loses everything.
fn verdict(found: &Tensor, wanted: &Tensor) -> Verdict {
    if (found.dtype(), found.dims()) != (wanted.dtype(), wanted.dims()) {
        return Verdict::Apart(format!("it was {wanted:?} and is {found:?}"));
    }
    let least = match wanted.dtype() {
        DataType::Float16 | DataType::Bfloat16 => 20.0,
        _ => 30.0,
    };
    match compare(found, wanted) {
        Ok(how) if how.equal => Verdict::Equal(None),
        Ok(how) if how.sqnr_db >= least => Verdict::Equal(Some(how)),
        Ok(how) => Verdict::Apart(format!(
            "it differs by up to {:.3e} on random inputs (SQNR {:.1} dB)",
            how.max_abs, how.sqnr_db
        )),
        Err(why) => Verdict::Apart(why.to_string()),
    }
}

#[cfg(test)]
mod tests;
