//! Whether two models compute the same, looked at value by value: what a pass changed is cut out of the model before
//! and after it, and both parts run on the same random numbers. Parts are small, so that large networks can be
//! compared, too; the smallest come first, until the work that is allowed has been done.

use onnxd_diagnostics::Layer;
use onnxd_eval::{Comparison, Executor, RandomSource, RunOptions, compare};
use onnxd_ir::{
    DataType, Dim, Model, NodeId, Part, Reals, Tensor, ValueId, ValueType, same_data, same_node,
    verify,
};
use std::collections::BTreeMap;

/// Size of axes that a model leaves open.
const OPEN_SIZE: usize = 2;
/// Values that are not compared for a reason, and kept with it.
const REASONS_MAX: usize = 100;
/// Work of a node whose sizes are not known.
const UNKNOWN_WORK: u64 = 1 << 20;
/// Work of an element that is drawn or compared: several operations in double precision, none of them vectors.
const ELEMENT_WORK: u64 = 32;
const TIME_IS_OVER: &str = "the time is over";
/// How much more work is allowed to make sure of a difference.
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
    let mut search = Search::new(before, after, effort);
    let mut changed: Vec<Changed> = search.changed();
    changed.sort_by_key(|c| (c.work, c.position));
    for c in changed {
        if c.work > search.work_left {
            search.pass_over(c.value, "it takes more work than is allowed");
            continue;
        }
        if effort.stop.is_some_and(|stop| stop()) {
            search.pass_over(c.value, TIME_IS_OVER);
            continue;
        }
        search.work_left -= c.work;
        search.look_at(c.value);
    }
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
    if work(before, &parts[0]).saturating_add(work(after, &parts[1])) > effort.work {
        return Err("it takes more work than is allowed".into());
    }
    let mut feeds = Feeds::default();
    let wanted = feeds.outputs(before, &parts[0], effort)?;
    let found = feeds.outputs(after, &parts[1], effort)?;
    let apart = |((name, wanted), (_, found)): ((String, Tensor), (String, Tensor))| {
        compare(&found, &wanted).map(|how| (name, how)).map_err(|why| why.to_string())
    };
    wanted.into_iter().zip(found).map(apart).collect()
}

/// A value whose computation is another one than before.
struct Changed {
    value: ValueId,
    position: usize,
    work: u64,
}

struct Search<'m> {
    before: &'m Model,
    after: &'m Model,
    /// By value of `after`: the one of that name before.
    pairs: Vec<Option<ValueId>>,
    /// By value of `after`: its place in the order of evaluation.
    order: Vec<usize>,
    /// By value of `before`: the place in that order of the value of its name.
    order_before: Vec<Option<usize>>,
    effort: Effort<'m>,
    work_left: u64,
    suspects: Vec<(ValueId, String)>,
    found: Equivalence,
}

impl<'m> Search<'m> {
    fn new(before: &'m Model, after: &'m Model, effort: Effort<'m>) -> Search<'m> {
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
        Search {
            before,
            after,
            pairs,
            order,
            order_before,
            effort,
            work_left,
            suspects: Vec::new(),
            found,
        }
    }

    /// Values that both models have and that the same nodes do not compute; counts the others.
    fn changed(&mut self) -> Vec<Changed> {
        let mut changed = Vec::new();
        for v in self.after.graph.value_ids() {
            let Some(pair) = self.pairs[v.index()] else { continue };
            match self.same_source(v, pair) {
                None => {}
                Some(true) => self.found.unchanged += 1,
                Some(false) => {
                    let (old, new) = self.parts(v, pair, false);
                    let work = work(self.before, &old).saturating_add(work(self.after, &new));
                    changed.push(Changed { value: v, position: self.order[v.index()], work });
                }
            }
        }
        changed
    }

    /// Whether a value comes from the same place in both models; `None` for what nothing computes.
    fn same_source(&self, v: ValueId, pair: ValueId) -> Option<bool> {
        let (old, new) = (&self.before.graph, &self.after.graph);
        let same = match (old.producer(pair), new.producer(v)) {
            (Some(a), Some(b)) => self.same_node(a, b) && slot(old, a, pair) == slot(new, b, v),
            (None, None) => match (old.constant(pair), new.constant(v)) {
                (Some(a), Some(b)) if new.uses(v) > 0 && old.uses(pair) > 0 => same_data(a, b),
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
                || matches!((old.constant(mine), new.constant(other)), (Some(x), Some(y)) if same_data(x, y))
        };
        same_node((old, a), (new, b), &same)
    }

    /// What computes a value before and after: from values that both models have and that come earlier, or from the
    /// inputs of the network alone.
    fn parts(&self, v: ValueId, pair: ValueId, whole: bool) -> (Part, Part) {
        let at = self.order[v.index()];
        let (old, new) = (&self.before.graph, &self.after.graph);
        let earlier = |order: usize| !whole && order > 0 && order < at;
        let old_leaf = |u: ValueId| self.order_before[u.index()].is_some_and(earlier);
        let new_leaf =
            |u: ValueId| self.pairs[u.index()].is_some() && earlier(self.order[u.index()]);
        (old.part(&old_leaf, &[pair]), new.part(&new_leaf, &[v]))
    }

    fn look_at(&mut self, v: ValueId) {
        match self.compared(v, false) {
            Ok(Verdict::Equal(how)) => self.equal(v, how),
            // Random numbers in the middle of a network may be such that never occur there.
            Ok(Verdict::Apart(_)) | Err(_) => match self.compared_whole(v) {
                Ok(Verdict::Equal(how)) => self.equal(v, how),
                Ok(Verdict::Apart(what)) => self.suspects.push((v, what)),
                Err(why) => self.pass_over(v, &why),
            },
        }
    }

    /// Compares a value as it follows from the inputs of the network.
    fn compared_whole(&self, v: ValueId) -> Result<Verdict, String> {
        let pair = self.pairs[v.index()].ok_or("it is new")?;
        let (old, new) = self.parts(v, pair, true);
        let work = work(self.before, &old).saturating_add(work(self.after, &new));
        match work <= self.effort.work.saturating_mul(CERTAINTY) {
            true => self.compared(v, true),
            false => Err("random numbers in place of what it reads tell nothing of it".into()),
        }
    }

    fn compared(&self, v: ValueId, whole: bool) -> Result<Verdict, String> {
        let pair = self.pairs[v.index()].ok_or("it is new")?;
        let (old, new) = self.parts(v, pair, whole);
        let mut feeds = Feeds::default();
        let wanted = feeds.run(self.before, &old, self.effort)?;
        match feeds.run(self.after, &new, self.effort) {
            Ok(found) => Ok(verdict(&found, &wanted)),
            Err(why) if self.effort.stop.is_some_and(|stop| stop()) => Err(why),
            Err(why) => Ok(Verdict::Apart(format!("it cannot be computed any more: {why}"))),
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

    fn pass_over(&mut self, v: ValueId, why: &str) {
        self.found.not_compared += 1;
        if self.found.reasons.len() < REASONS_MAX {
            self.found.reasons.push((self.after.graph[v].name.clone(), why.to_owned()));
        }
    }

    /// Inner values may change as long as the outputs do not.
    fn conclude(mut self) -> Equivalence {
        let Some(first) = self.suspects.iter().min_by_key(|(v, _)| self.order[v.index()]).cloned()
        else {
            return self.found;
        };
        let mut unknown = None;
        for v in self.after.graph.outputs().to_vec() {
            match self.compared_whole(v) {
                Ok(Verdict::Equal(_)) => {}
                Ok(Verdict::Apart(what)) => self.differs(v, what),
                Err(why) => unknown = Some(why),
            }
        }
        let is_output = self.after.graph.is_output(first.0);
        if !is_output && (unknown.is_some() || !self.found.different.is_empty()) {
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

fn slot(graph: &onnxd_ir::Graph, id: NodeId, v: ValueId) -> Option<usize> {
    graph[id].outputs.iter().position(|o| *o == Some(v))
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

/// Random numbers by the names of values, the same for both models.
#[derive(Default)]
struct Feeds {
    drawn: BTreeMap<String, Tensor>,
}

impl Feeds {
    /// The one output of a part.
    fn run(&mut self, whole: &Model, part: &Part, effort: Effort) -> Result<Tensor, String> {
        match <[_; 1]>::try_from(self.outputs(whole, part, effort)?) {
            Ok([(_, output)]) => Ok(output),
            Err(_) => Err("it is no tensor".into()),
        }
    }

    /// The outputs of a part, by name.
    fn outputs(
        &mut self,
        whole: &Model,
        part: &Part,
        effort: Effort,
    ) -> Result<Vec<(String, Tensor)>, String> {
        if effort.stop.is_some_and(|stop| stop()) {
            return Err(TIME_IS_OVER.into());
        }
        let graph = &part.graph;
        let mut inputs = BTreeMap::new();
        let mut bytes = 0;
        for (v, own) in &part.inputs {
            if graph.inputs().contains(own) {
                let drawn = self.draw(&whole.graph[*v].name, whole.graph[*v].ty.as_ref())?;
                bytes += drawn.byte_len();
                inputs.insert(graph[*own].name.clone(), drawn);
            }
        }
        if bytes > effort.bytes_max {
            return Err("what it reads is too large".into());
        }
        let model = Model {
            opsets: whole.opsets.clone(),
            functions: whole.functions.clone(),
            ..Model::new(graph.clone(), whole.ir_version, whole.opset())
        };
        let options =
            RunOptions { bytes_max: effort.bytes_max, stop: effort.stop, ..RunOptions::default() };
        let first = |found: onnxd_diagnostics::Diagnostics| {
            found.0.into_iter().next().map(|d| d.message).unwrap_or_default()
        };
        let executor = Executor::new(&model).map_err(first)?;
        executor.run(&inputs, options).map_err(first)
    }

    fn draw(&mut self, name: &str, ty: Option<&ValueType>) -> Result<Tensor, String> {
        if let Some(drawn) = self.drawn.get(name) {
            return Ok(drawn.clone());
        }
        let unknown = || format!("the type of `{name}` is not known");
        let dims = ty.and_then(sizes).ok_or_else(unknown)?;
        let dtype = ty.and_then(ValueType::dtype).ok_or_else(unknown)?;
        // Equal names get equal numbers, whatever else is drawn.
        let seed =
            name.bytes().fold(1, |hash: u64, b| hash.wrapping_mul(31).wrapping_add(b.into()));
        let mut random = RandomSource::new(seed);
        let count = dims.iter().product::<usize>();
        let values = (0..count).map(|_| number(&mut random, dtype)).collect();
        let drawn = match dtype {
            DataType::Bool => {
                let values: Vec<f64> = values;
                let bits = values.iter().map(|x| u8::from(*x > 0.0)).collect();
                Tensor::from_vec_as(dtype, dims, bits)
            }
            _ => stored(&Reals { dims, values }, dtype)
                .ok_or_else(|| format!("no random numbers of type {dtype}"))?,
        };
        self.drawn.insert(name.to_owned(), drawn.clone());
        Ok(drawn)
    }
}

/// A number that most operators take: indices and sizes are small.
fn number(random: &mut RandomSource, dtype: DataType) -> f64 {
    let x = random.fraction();
    match dtype {
        DataType::Uint8 => (x * 256.0).floor(),
        DataType::Int8 => (x * 256.0).floor() - 128.0,
        dtype if dtype.is_integer() => (x * 2.0).floor(),
        _ => x * 2.0 - 1.0,
    }
}

fn stored(reals: &Reals, dtype: DataType) -> Option<Tensor> {
    fn integers<T: onnxd_ir::Element>(reals: &Reals, of: fn(f64) -> T) -> Tensor {
        Tensor::from_vec(reals.dims.clone(), reals.values.iter().map(|x| of(*x)).collect())
    }
    match dtype {
        DataType::Int64 => Some(integers(reals, |x| x as i64)),
        DataType::Int32 => Some(integers(reals, |x| x as i32)),
        DataType::Uint8 => Some(integers(reals, |x| x as u8)),
        DataType::Int8 => Some(integers(reals, |x| x as i8)),
        _ => reals.to_tensor(dtype),
    }
}

/// The sizes that a value gets; `None` if its rank is not known.
fn sizes(ty: &ValueType) -> Option<Vec<usize>> {
    let size = |d: &Dim| d.known().map_or(OPEN_SIZE, |n| usize::try_from(n).unwrap_or(0));
    Some(ty.shape()?.iter().map(size).collect())
}

/// About how many multiplications and additions a part takes.
fn work(whole: &Model, part: &Part) -> u64 {
    let graph = &part.graph;
    let functions: u64 = whole.functions.iter().map(|f| f.graph.node_count() as u64).sum();
    let elements = |v: ValueId| {
        let sizes = graph[v].ty.as_ref().and_then(sizes);
        sizes.map(|s| s.iter().fold(1u64, |n, s| n.saturating_mul(*s as u64)))
    };
    let node = |node: &onnxd_ir::Node| {
        if node.subgraphs().next().is_some() {
            return UNKNOWN_WORK.saturating_mul(64);
        }
        let made = node.outputs.iter().flatten().map(|v| elements(*v).unwrap_or(UNKNOWN_WORK));
        let made: u64 = made.fold(0, u64::saturating_add);
        let read = node.inputs.iter().flatten().map(|v| elements(*v).unwrap_or(UNKNOWN_WORK));
        let read: u64 = read.fold(0, u64::saturating_add);
        made.saturating_mul(depth(graph, node)).saturating_add(read)
    };
    let nodes = graph.nodes().map(|(_, n)| node(n)).fold(0, u64::saturating_add);
    let handled = graph.inputs().iter().chain(graph.outputs());
    let handled =
        handled.map(|v| elements(*v).unwrap_or(UNKNOWN_WORK)).fold(0, u64::saturating_add);
    let nodes = nodes.saturating_add(handled.saturating_mul(ELEMENT_WORK));
    nodes.saturating_add(functions.saturating_mul(graph.node_count() as u64))
}

/// How many products go into one element of the output.
fn depth(graph: &onnxd_ir::Graph, node: &onnxd_ir::Node) -> u64 {
    let sizes_of = |i: usize| node.input(i).and_then(|v| graph[v].ty.as_ref()).and_then(sizes);
    let product = |sizes: &[usize]| sizes.iter().fold(1u64, |n, s| n.saturating_mul(*s as u64));
    match node.op.as_str() {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" | "DeformConv" => {
            sizes_of(if node.op == "QLinearConv" { 3 } else { 1 })
                .map_or(64, |w| product(&w[1.min(w.len())..]))
        }
        "MatMul" | "Gemm" | "MatMulInteger" | "QLinearMatMul" => {
            sizes_of(0).and_then(|x| x.last().copied()).map_or(64, |k| k as u64)
        }
        "LSTM" | "GRU" | "RNN" => {
            sizes_of(1).map_or(4096, |w| product(&w[w.len().min(2)..]).saturating_mul(8))
        }
        "Attention" | "Einsum" | "DFT" | "STFT" => 256,
        _ => 1,
    }
}

#[cfg(test)]
#[path = "equivalence_tests.rs"]
mod tests;
