//! The operator whose steps are given: its weights, its inputs, and which of its outputs are wanted.

use super::affine::{Bias, Weight};
use super::cell::{Biases, CellKind, CellStep};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result as Built, Var};
use onnxd_plugin_sdk::ir::{Attr, Graph, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::Skip;

/// Bytes of a constant from which on it is derived from the one that it stands in for, and not held.
const DERIVED_BYTES_MIN: usize = 64 << 10;
/// Biases of the input and of the hidden state.
const BIASES: usize = 2;

/// What the weights are as the operator reads them: `W`, `R` and `B`.
pub(crate) type Constants = (ValueId, ValueId, Option<ValueId>);

/// What steps have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ChainWeights {
    pub(crate) kind: CellKind,
    pub(crate) activations: Vec<&'static str>,
    pub(crate) width: usize,
    pub(crate) x: Vec<Weight>,
    pub(crate) hidden: Vec<Weight>,
    pub(crate) biases: Biases,
}

impl ChainWeights {
    /// Those of a cell of whose terms the hidden state is `role`.
    pub(crate) fn of(cell: &CellStep, role: usize) -> ChainWeights {
        let [x, hidden] = [1 - role, role].map(|role| cell.terms[role].weights.clone());
        let (kind, width, biases) = (cell.kind, cell.width, cell.biases.clone());
        ChainWeights { kind, activations: cell.activations.clone(), width, x, hidden, biases }
    }

    /// How many elements the biases of the input have, or those of the hidden state.
    pub(crate) fn bias_len(&self) -> usize {
        self.x.len() * self.width
    }

    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Weight> {
        self.x.iter().chain(&self.hidden)
    }

    fn all_biases(&self) -> impl Iterator<Item = &Bias> {
        self.biases.gates.iter().flatten().chain(&self.biases.hidden)
    }

    /// All that is read of the graph.
    pub(crate) fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.matrices().map(|weight| weight.value).chain(self.all_biases().map(|bias| bias.value))
    }

    /// The same weights, where each value is what `to` says of it.
    pub(crate) fn moved(mut self, to: impl Fn(ValueId) -> ValueId) -> ChainWeights {
        let matrices = self.x.iter_mut().chain(&mut self.hidden).map(|weight| &mut weight.value);
        let biases = self.biases.gates.iter_mut().flatten().chain(&mut self.biases.hidden);
        matrices.chain(biases.map(|bias| &mut bias.value)).for_each(|v| *v = to(*v));
        self
    }

    /// Tensors for the operator, of weights that are constants.
    pub(crate) fn derived(&self, graph: &mut Graph) -> Result<Constants, Skip> {
        let matrix = |weights: &[Weight], role: &str| {
            let parts: Option<Vec<Tensor>> =
                weights.iter().map(|weight| weight.tensor(graph)).collect();
            let all = parts.and_then(|parts| {
                let all = Tensor::concat(&parts, 0).ok()?;
                let dims = [1, all.dims()[0], all.dims()[1]];
                all.reshaped(dims).ok()
            });
            let all = all.ok_or_else(|| Skip("its weights are derived too often".into()))?;
            let all = if all.byte_len() < DERIVED_BYTES_MIN { all.held() } else { all };
            let name = format!("{}_{role}", graph[weights[0].value].name);
            Ok((name, all))
        };
        let w = matrix(&self.x, "input")?;
        let r = matrix(&self.hidden, "hidden")?;
        let b = self.bias(graph);
        let mut add = |(name, tensor): (String, Tensor)| graph.add_initializer(&name, tensor);
        let (b_name, w, r) = (format!("{}_bias", w.0), add(w), add(r));
        Ok((w, r, b.map(|b| add((b_name, b)))))
    }

    /// The biases of the input and of the hidden state, for each gate; `None` if there are none.
    fn bias(&self, graph: &Graph) -> Option<Tensor> {
        self.all_biases().next()?;
        let count = self.bias_len();
        let mut all = vec![0f64; BIASES * count];
        let mut add = |at: usize, biases: &[Bias]| {
            for bias in biases {
                let values = bias.reals(graph).expect("a bias is a constant vector").values;
                all[at..].iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
            }
        };
        for (i, biases) in self.biases.gates.iter().enumerate() {
            add(i * self.width, biases);
        }
        add(BIASES * count - self.width, &self.biases.hidden);
        let all: Vec<f32> = all.into_iter().map(|x| x as f32).collect();
        Some(Tensor::from_vec(vec![1, all.len()], all))
    }

    /// The same as [`ChainWeights::derived`], of weights of which some are computed.
    pub(crate) fn computed(&self, b: &GraphBuilder) -> Built<Constants> {
        let joined = |parts: Vec<Var>| b.unsqueeze(b.concat(parts).axis(0).one()?, vec![0i64]);
        let matrix = |weights: &[Weight]| {
            let parts = weights.iter().map(|weight| weight.built(b)).collect::<Built<_>>()?;
            b.id(joined(parts)?)
        };
        let zeros = b.constant(Tensor::from_vec(vec![self.width], vec![0f32; self.width]));
        let sum =
            |biases: &[Bias]| biases.iter().try_fold(zeros, |sum, bias| b.add(sum, bias.built(b)?));
        let gates = self.biases.gates.iter().map(|biases| sum(biases));
        let mut biases = gates.collect::<Built<Vec<Var>>>()?;
        biases.resize(BIASES * biases.len() - 1, zeros);
        biases.push(sum(&self.biases.hidden)?);
        Ok((matrix(&self.x)?, matrix(&self.hidden)?, Some(b.id(joined(biases)?)?)))
    }

    /// The operator over the sequence `x`, whose first axis are the steps: its first `count` outputs. `states` are
    /// those before the first step.
    pub(crate) fn operator(
        &self,
        b: &GraphBuilder,
        x: Var,
        (w, r, bias): Constants,
        states: [Option<ValueId>; 2],
        count: usize,
    ) -> Built<Vec<Var>> {
        let [hidden, memory] = states.map(|v| match v.filter(|v| !is_zero(&b.graph(), *v)) {
            Some(v) => Ok(b.unsqueeze(b.var(v), vec![0i64])?.into()),
            None => Ok(Operand::Absent),
        });
        let bias = bias.map_or(Operand::Absent, |bias| b.var(bias).into());
        let mut inputs: Vec<Operand> =
            vec![x.into(), b.var(w).into(), b.var(r).into(), bias, Operand::Absent, hidden?];
        if self.kind == CellKind::Lstm {
            inputs.push(memory?);
        }
        let call = b.op("", self.kind.operator(), inputs).set("hidden_size", self.width as i64);
        let call = match self.kind {
            CellKind::Gru { after_product: true } => call.set("linear_before_reset", 1i64),
            _ => call,
        };
        let words: Vec<String> = self.activations.iter().map(|word| (*word).to_owned()).collect();
        let call = match self.activations == self.kind.activations() {
            true => call,
            false => call.set("activations", words),
        };
        call.list(count)
    }
}

/// Whether `v` has no other elements than 0.
pub(crate) fn is_zero(graph: &Graph, v: ValueId) -> bool {
    let zeros = |t: &Tensor| t.to_reals().is_some_and(|r| r.values.iter().all(|x| *x == 0.0));
    if let Some(constant) = graph.constant(v) {
        return zeros(constant);
    }
    let Some(node) = graph.producer(v).map(|id| &graph[id]) else { return false };
    match node.attr("value") {
        _ if node.is("Expand") => node.input(0).and_then(|v| graph.constant(v)).is_some_and(zeros),
        None => node.is("ConstantOfShape"),
        Some(Attr::Tensor(t)) => node.is("ConstantOfShape") && zeros(t),
        Some(_) => false,
    }
}

/// The node computes no output of `made` that nothing reads.
pub(crate) fn leave_out_unread(b: &GraphBuilder, made: &[Var]) -> Built<()> {
    let made = made.iter().map(|v| b.id(*v)).collect::<Built<Vec<ValueId>>>()?;
    let mut graph = b.graph_mut();
    let read = made.iter().map(|v| Some(*v).filter(|v| graph.uses(*v) > 0));
    let mut read: Vec<Option<ValueId>> = read.collect();
    while read.last() == Some(&None) {
        read.pop();
    }
    if let Some(id) = graph.producer(made[0]) {
        graph.set_node_outputs(id, read);
    }
    Ok(())
}
