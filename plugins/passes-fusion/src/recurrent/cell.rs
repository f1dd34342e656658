//! One step of a recurrent network, as its formula.

use super::affine::{AffineSum, Bias, Gate, Sums, TermSource, Weight};
use crate::parts::{PatternNodes, unlike};
use onnxd_plugin_sdk::ir::{DataType, Facts, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};
use std::collections::HashSet;

/// Which operator a cell is a step of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CellKind {
    Lstm,
    /// Whether the reset gate is applied to the product, and not before it.
    Gru {
        after_product: bool,
    },
    Rnn,
}

impl CellKind {
    pub(crate) fn operator(self) -> &'static str {
        match self {
            CellKind::Lstm => "LSTM",
            CellKind::Gru { .. } => "GRU",
            CellKind::Rnn => "RNN",
        }
    }

    /// The activations of the operator that are not said.
    pub(crate) fn activations(self) -> &'static [&'static str] {
        match self {
            CellKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            CellKind::Gru { .. } => &["Sigmoid", "Tanh"],
            CellKind::Rnn => &["Tanh"],
        }
    }
}

/// A source, and its matrix for each gate in the order of ONNX.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) source: TermSource,
    pub(crate) weights: Vec<Weight>,
}

/// What a step adds up for each gate in the order of ONNX.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Biases {
    pub(crate) gates: Vec<Vec<Bias>>,
    /// What the reset gate applies to.
    pub(crate) hidden: Vec<Bias>,
}

/// One step.
#[derive(Debug)]
pub(crate) struct CellStep {
    pub(crate) kind: CellKind,
    /// In the order of ONNX.
    pub(crate) activations: Vec<&'static str>,
    pub(crate) hidden: ValueId,
    /// The hidden state before, if the formula tells it.
    pub(crate) hidden_before: Option<ValueId>,
    /// The cell state before and after.
    pub(crate) memory: Option<[ValueId; 2]>,
    pub(crate) terms: Vec<Term>,
    pub(crate) biases: Biases,
    pub(crate) width: usize,
    pub(crate) nodes: Vec<NodeId>,
}

impl CellStep {
    /// Whether it is a step of LSTM or GRU.
    pub(crate) fn is_gated(&self) -> bool {
        matches!(self.kind, CellKind::Lstm | CellKind::Gru { .. })
    }
}

/// The step whose hidden state is `v`. In the body of a loop, `varying` are the values that iterations do not share.
pub(crate) fn cell(
    cx: &Rewriter,
    facts: &Facts,
    varying: Option<&HashSet<ValueId>>,
    v: ValueId,
) -> Result<CellStep, Skip> {
    let shape = facts.shape(v).filter(|dims| dims.len() == 2).ok_or_else(unlike)?;
    let width = shape[1].known().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let width = width.ok_or_else(unlike)?;
    if cx.dtype(v)? != DataType::Float {
        return Skip::unlike();
    }
    let parts = PatternNodes::from_root(cx, v);
    let sums = Sums { cx, facts, parts: &parts, varying };
    let op = cx.graph.producer(v).map(|id| cx.graph[id].op.as_str());
    let mut cell = match op {
        Some("Mul") => lstm(&sums, v, width),
        Some("Add") => gru(&sums, v, width),
        Some("Sigmoid" | "Tanh" | "Relu") => rnn(&sums, v, width),
        _ => Skip::unlike(),
    }?;
    cell.nodes = parts.nodes();
    cell.nodes.sort_unstable();
    cell.nodes.dedup();
    Ok(cell)
}

/// `o * tanh(c)` where `c = f * before + i * g`.
fn lstm(sums: &Sums, hidden: ValueId, width: usize) -> Result<CellStep, Skip> {
    let p = sums.parts;
    let (output, (shown, after)) = p.either(p.pair("Mul", hidden)?, |gate, state| {
        Ok((sums.gate(gate, width)?, sums.activation(state)?))
    })?;
    p.either(p.pair("Add", after)?, |kept, new| {
        let (forget, before) =
            p.either(p.pair("Mul", kept)?, |gate, state| Ok((sums.gate(gate, width)?, state)))?;
        let [a, b] = p.pair("Mul", new)?.map(|gate| sums.gate(gate, width));
        // Of the two gates that are multiplied, the one like the forget gate is the input gate.
        let (mut input, mut new) = (a?, b?);
        if input.activation != forget.activation {
            std::mem::swap(&mut input, &mut new);
        }
        let alike = [&input, &output].iter().all(|gate| gate.activation == forget.activation);
        let activations = vec![forget.activation, new.activation, shown];
        let (terms, gates) = gates([&input, &output, &forget, &new])?;
        let biases = Biases { gates, hidden: vec![] };
        let memory = Some([before, after]);
        let (kind, hidden_before, nodes) = (CellKind::Lstm, None, vec![]);
        if !alike {
            return Skip::unlike();
        }
        Ok(CellStep {
            kind,
            activations,
            hidden,
            hidden_before,
            memory,
            terms,
            biases,
            width,
            nodes,
        })
    })
}

/// `(before - n) * z + n`, or `(1 - z) * n + z * before`.
fn gru(sums: &Sums, hidden: ValueId, width: usize) -> Result<CellStep, Skip> {
    let p = sums.parts;
    let difference = || {
        p.either(p.pair("Add", hidden)?, |product, new| {
            p.either(p.pair("Mul", product)?, |difference, update| {
                let [before, same] = p.pair("Sub", difference)?;
                let update = sums.gate(update, width)?;
                if same == new { Ok((before, new, update)) } else { Skip::unlike() }
            })
        })
    };
    let mixture = || {
        p.either(p.pair("Add", hidden)?, |new, kept| {
            p.either(p.pair("Mul", new)?, |rest, new| {
                let [one, update] = p.pair("Sub", rest)?;
                let before = p.either(p.pair("Mul", kept)?, |a, before| {
                    if a == update { Ok(before) } else { Skip::unlike() }
                })?;
                let update = sums.gate(update, width)?;
                if p.number(one) == Some(1.0) { Ok((before, new, update)) } else { Skip::unlike() }
            })
        })
    };
    let (before, new, update) = p.attempt(difference).or_else(|_| p.attempt(mixture))?;
    let (activation, new) = sums.activation(new)?;
    let candidate = p
        .attempt(|| reset_after(sums, new, width))
        .or_else(|_| p.attempt(|| reset_before(sums, new, before, width)))?;
    let (mut terms, mut gates) = gates([&update, &candidate.reset])?;
    let is_before = |source: TermSource| match source {
        TermSource::Value(v) => same(sums.cx, v, before),
        TermSource::Step(_) => false,
    };
    let is_state = |term: &Term| is_before(term.source);
    terms.sort_by_key(is_state);
    let is_found = terms.last().is_some_and(is_state);
    let [x, h] = &mut terms[..] else { return Skip::unlike() };
    let (source, weight) = candidate.x;
    let reads_both = x.source == source && is_before(candidate.hidden.0);
    if !is_found || !reads_both || update.activation != candidate.reset.activation {
        return Skip::unlike();
    }
    let TermSource::Value(before) = h.source else { return Skip::unlike() };
    x.weights.push(weight);
    h.weights.push(candidate.hidden.1);
    gates.push(candidate.biases);
    let biases = Biases { gates, hidden: candidate.hidden_biases };
    let kind = CellKind::Gru { after_product: candidate.after_product };
    let activations = vec![update.activation, activation];
    let (hidden_before, memory, nodes) = (Some(before), None, vec![]);
    Ok(CellStep { kind, activations, hidden, hidden_before, memory, terms, biases, width, nodes })
}

/// Whether both are one value, or equal constants: exporters write the first state for each of its readers.
fn same(cx: &Rewriter, a: ValueId, b: ValueId) -> bool {
    let constants = cx.graph.constant(a).zip(cx.graph.constant(b));
    a == b || constants.is_some_and(|(a, b)| a == b)
}

/// What the new hidden state is made of before its activation.
struct Candidate {
    reset: Gate,
    x: (TermSource, Weight),
    /// What the reset gate applies to, or what it reset.
    hidden: (TermSource, Weight),
    biases: Vec<Bias>,
    hidden_biases: Vec<Bias>,
    after_product: bool,
}

/// `x * w + b + reset * (before * r + c)`
fn reset_after(sums: &Sums, new: ValueId, width: usize) -> Result<Candidate, Skip> {
    let p = sums.parts;
    let product = |v: ValueId| {
        p.either(p.pair("Mul", v)?, |gate, hidden| {
            Ok((sums.gate(gate, width)?, sums.affine(hidden, width)?))
        })
    };
    let (mut open, mut found, mut x) = (vec![new], None, AffineSum::default());
    while let Some(v) = open.pop() {
        if found.is_none() {
            found = p.attempt(|| product(v)).ok();
            if found.is_some() {
                continue;
            }
            if let Ok(pair) = p.attempt(|| p.pair("Add", v)) {
                open.extend(pair);
                continue;
            }
        }
        sums.add(v, new, width, &mut x)?;
    }
    let (reset, hidden) = found.ok_or_else(unlike)?;
    let (Ok([x_term]), Ok([hidden_term])) =
        (<[_; 1]>::try_from(x.terms), <[_; 1]>::try_from(hidden.terms))
    else {
        return Skip::unlike();
    };
    let (biases, hidden_biases, after_product) = (x.biases, hidden.biases, true);
    Ok(Candidate { reset, x: x_term, hidden: hidden_term, biases, hidden_biases, after_product })
}

/// `x * w + (reset * before) * r + b`
fn reset_before(
    sums: &Sums,
    new: ValueId,
    before: ValueId,
    width: usize,
) -> Result<Candidate, Skip> {
    let p = sums.parts;
    let AffineSum { terms, biases } = sums.affine(new, width)?;
    let Ok([a, b]) = <[_; 2]>::try_from(terms) else { return Skip::unlike() };
    let reset_of = |source: TermSource| {
        let TermSource::Value(v) = source else { return Skip::unlike() };
        p.attempt(|| {
            p.either(p.pair("Mul", v)?, |gate, state| {
                if !same(sums.cx, state, before) {
                    return Skip::unlike();
                }
                sums.gate(gate, width)
            })
        })
    };
    let (reset, x, weight) = match reset_of(b.0) {
        Ok(reset) => (reset, a, b.1),
        Err(_) => (reset_of(a.0)?, b, a.1),
    };
    let hidden = (TermSource::Value(before), weight);
    Ok(Candidate { reset, x, hidden, biases, hidden_biases: vec![], after_product: false })
}

/// `tanh(x * w + before * r + b)`
fn rnn(sums: &Sums, hidden: ValueId, width: usize) -> Result<CellStep, Skip> {
    let gate = sums.gate(hidden, width)?;
    let (terms, gates) = gates([&gate])?;
    let biases = Biases { gates, hidden: vec![] };
    let (kind, activations) = (CellKind::Rnn, vec![gate.activation]);
    let (hidden_before, memory, nodes) = (None, None, vec![]);
    Ok(CellStep { kind, activations, hidden, hidden_before, memory, terms, biases, width, nodes })
}

/// The two sources of `gates` with their matrices, and the biases.
fn gates<const N: usize>(gates: [&Gate; N]) -> Result<(Vec<Term>, Vec<Vec<Bias>>), Skip> {
    let mut terms: Vec<Term> = vec![];
    for (i, gate) in gates.iter().enumerate() {
        for (source, weight) in gate.sum.terms.iter().cloned() {
            match terms.iter_mut().find(|term| term.source == source) {
                Some(term) if term.weights.len() == i => term.weights.push(weight),
                None if i == 0 => terms.push(Term { source, weights: vec![weight] }),
                _ => return Skip::unlike(),
            }
        }
    }
    let complete = terms.iter().all(|term| term.weights.len() == N);
    let biases = gates.map(|gate| gate.sum.biases.clone()).to_vec();
    if complete && terms.len() == 2 { Ok((terms, biases)) } else { Skip::unlike() }
}
