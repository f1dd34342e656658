//! Regions of a graph that work on the last axis alone, so that all axes before it may be one.

use onnxd_plugin_sdk::ir::{Attr, DataType, Dim, Facts, Graph, Node, NodeId, Tensor, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Operators that compute each element from those at the same place.
const ELEMENT_WISE: [&str; 33] = [
    "Abs", "Add", "Cast", "Ceil", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "Not",
    "Pow", "Reciprocal", "Relu", "Sigmoid", "Sin", "Softplus", "Sqrt", "Sub", "Swish", "Tanh",
    "Where",
];

/// Operators over the last axis if their axis is -1, as is the default of these versions and later ones.
const ALONG_THE_LAST: [(&str, i64); 4] =
    [("LayerNormalization", 17), ("LogSoftmax", 13), ("RMSNormalization", 23), ("Softmax", 13)];

/// What a region computes in one node once it works with matrices.
#[derive(Clone, Copy)]
pub(crate) enum Member {
    /// A product, and the sum of it and a bias.
    Biased(NodeId, NodeId),
    /// Any other node.
    Plain(NodeId),
}

impl Member {
    /// The sum, if it has a bias.
    pub(crate) fn sum(&self) -> Option<NodeId> {
        match self {
            Member::Biased(_, sum) => Some(*sum),
            Member::Plain(_) => None,
        }
    }

    pub(crate) fn nodes(self) -> impl Iterator<Item = NodeId> {
        let (first, second) = match self {
            Member::Biased(product, sum) => (product, Some(sum)),
            Member::Plain(id) => (id, None),
        };
        [first].into_iter().chain(second)
    }
}

/// Nodes that hang together by values whose axes before the last are the same.
#[derive(Default)]
pub(crate) struct Region {
    /// In the order of the graph.
    pub(crate) members: Vec<Member>,
    /// What it reads from outside.
    pub(crate) inputs: Vec<ValueId>,
    /// What it computes.
    pub(crate) outputs: Vec<ValueId>,
}

impl Region {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().flat_map(|member| member.nodes())
    }

    pub(crate) fn biases(&self) -> usize {
        self.members.iter().filter(|member| member.sum().is_some()).count()
    }
}

/// All regions with a bias.
pub(crate) fn regions(graph: &Graph, facts: &Facts, opset: i64) -> Vec<Region> {
    let search = RegionSearch { graph, facts, opset };
    let mut taken: HashSet<NodeId> = HashSet::new();
    let mut groups = ValueGroups::default();
    let mut members: Vec<(Member, Vec<ValueId>, ValueId)> = Vec::new();
    for id in graph.topological().unwrap_or_default() {
        if taken.contains(&id) {
            continue;
        }
        let member = search.member(id);
        let Some((member, reads, out)) = member else { continue };
        taken.extend(member.nodes());
        reads.iter().for_each(|v| groups.join(*v, out));
        members.push((member, reads, out));
    }
    let mut regions: BTreeMap<ValueId, Region> = BTreeMap::new();
    for (member, _, out) in &members {
        let region = regions.entry(groups.root_of(*out)).or_default();
        region.members.push(*member);
        region.outputs.push(*out);
    }
    let made: HashSet<ValueId> = members.iter().map(|(_, _, out)| *out).collect();
    let mut seen: HashSet<ValueId> = HashSet::new();
    for v in members.iter().flat_map(|(_, reads, _)| reads) {
        if !made.contains(v) && seen.insert(*v) {
            regions.entry(groups.root_of(*v)).or_default().inputs.push(*v);
        }
    }
    regions.into_values().filter(|region| region.biases() > 0).collect()
}

struct RegionSearch<'a> {
    graph: &'a Graph,
    facts: &'a Facts,
    opset: i64,
}

impl RegionSearch<'_> {
    /// The axes of `v` before the last, if they may become one: there are several, and at most one size is open.
    fn rows(&self, v: ValueId) -> Option<&[Dim]> {
        let (last, rows) = self.facts.shape(v)?.split_last()?;
        let open = rows.iter().filter(|d| d.known().is_none()).count();
        let fits = rows.len() > 1 && open <= 1 && !rows.contains(&Dim::Unknown);
        let filled = rows.iter().chain([last]).all(|d| *d != Dim::Known(0));
        (fits && filled && last.known().is_some()).then_some(rows)
    }

    /// The node as part of a region, the values of the region that it reads, and what it computes.
    fn member(&self, id: NodeId) -> Option<(Member, Vec<ValueId>, ValueId)> {
        let node = &self.graph[id];
        let (out, None) = (node.output(0)?, node.output(1)) else { return None };
        if !node.is_standard() {
            return None;
        }
        if node.is("MatMul") {
            let [a, w] = [node.input(0)?, node.input(1)?];
            let rows = self.rows(a)?;
            // A matrix that is computed has too few axes to be in a region.
            if self.facts.shape(w)?.len() != 2 || !self.same(out, rows) {
                return None;
            }
            return Some(match self.biased(out) {
                Some(sum) => (Member::Biased(id, sum), vec![a], self.graph[sum].output(0)?),
                None => (Member::Plain(id), vec![a], out),
            });
        }
        let rows = self.rows(out)?;
        let op = node.op.as_str();
        let last = |since: i64| self.opset >= since && node.int("axis", -1) == -1;
        let reads = if ELEMENT_WISE.contains(&op) && node.attr("axis").is_none() {
            let reads = node.inputs.iter().flatten().map(|v| self.operand(*v, rows));
            reads.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()
        } else if ALONG_THE_LAST.iter().any(|(name, since)| *name == op && last(*since))
            || op == "ReduceMean" && self.keeps_last(node)
        {
            vec![node.input(0).filter(|v| self.same(*v, rows))?]
        } else {
            return None;
        };
        let reads: Vec<ValueId> = reads;
        (!reads.is_empty()).then_some((Member::Plain(id), reads, out))
    }

    /// The sum of the product `v`, read once, and a bias for its last axis.
    fn biased(&self, v: ValueId) -> Option<NodeId> {
        let [sum] = self.graph.readers(v) else { return None };
        let node =
            self.graph.node(*sum).filter(|node| node.is("Add") && !self.graph.is_output(v))?;
        let bias = node.inputs.iter().flatten().find(|other| **other != v)?;
        let bias = self.graph.constant(*bias)?;
        if !matches!(bias.dtype(), DataType::Float | DataType::Double) {
            return None;
        }
        let last = self.facts.shape(v)?.last()?.known()?;
        let one =
            bias.len() == 1 || bias.len() as i64 == last && bias.dims().last() == Some(&bias.len());
        let same = self.same(node.output(0)?, self.rows(v)?);
        (one && same && node.attrs.is_empty()).then_some(*sum)
    }

    /// What an element-wise operator reads: a value of the region, or nothing that depends on its axes.
    #[allow(clippy::option_option)]
    fn operand(&self, v: ValueId, rows: &[Dim]) -> Option<Option<ValueId>> {
        let dims = self.facts.shape(v)?;
        let one = |d: &Dim| *d == Dim::Known(1);
        if self.graph.constant(v).is_some() {
            return dims.split_last().is_none_or(|(_, rows)| rows.iter().all(one)).then_some(None);
        }
        match dims.len() {
            0 | 1 => Some(None),
            _ => self.same(v, rows).then_some(Some(v)),
        }
    }

    fn same(&self, v: ValueId, rows: &[Dim]) -> bool {
        let own = self.rows(v);
        own.is_some_and(|own| {
            own.len() == rows.len() && own.iter().zip(rows).all(|(a, b)| a.same(b))
        })
    }

    /// Whether a reduction is along the axis -1, which stays with one element.
    fn keeps_last(&self, node: &Node) -> bool {
        let axes = match (node.attr("axes"), node.input(1)) {
            (Some(Attr::Ints(axes)), None) => axes.clone(),
            (None, Some(v)) => self.graph.constant(v).and_then(Tensor::to_i64s).unwrap_or_default(),
            _ => Vec::new(),
        };
        axes == [-1] && node.int("keepdims", 1) == 1
    }
}

/// Values that belong together.
#[derive(Default)]
struct ValueGroups(HashMap<ValueId, ValueId>);

impl ValueGroups {
    fn root_of(&mut self, v: ValueId) -> ValueId {
        let mut at = v;
        while let Some(next) = self.0.get(&at).copied().filter(|next| *next != at) {
            // Paths get shorter where they are walked.
            let over = self.0.get(&next).copied().unwrap_or(next);
            self.0.insert(at, over);
            at = over;
        }
        at
    }

    fn join(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.root_of(a), self.root_of(b));
        self.0.insert(a.max(b), a.min(b));
    }
}
