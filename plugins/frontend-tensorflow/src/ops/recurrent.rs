//! Recurrent networks: one operator of ONNX for each cell where it has the activations, else a Scan.
//!
//! Weights are as Keras has them: gates lie side by side in the columns of `kernel` and `recurrent`. TensorFlow's loops
//! over such cells and TFLite's fused cells can be said by the same functions.

mod fused;
pub(crate) mod masked;
pub(crate) mod steps;

use super::shape::{squeezed, transposed, unsqueezed};
use super::{RowContext, dtype_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    fused::rows(table)
}

/// What a cell does, and the order of its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// Input, forget, cell, output.
    Lstm,
    /// Update, reset, hidden. The reset gate acts before or behind the product with the state.
    Gru {
        reset_after: bool,
    },
    Simple,
}

impl CellKind {
    pub(crate) fn gates(self) -> i64 {
        match self {
            CellKind::Lstm => 4,
            CellKind::Gru { .. } => 3,
            CellKind::Simple => 1,
        }
    }

    /// How many states are handed on.
    pub(crate) fn states(self) -> usize {
        if self == CellKind::Lstm { 2 } else { 1 }
    }

    /// Where ONNX's gates are in Keras' order.
    fn order(self) -> &'static [usize] {
        match self {
            CellKind::Lstm => &[0, 3, 1, 2],
            CellKind::Gru { .. } => &[0, 1, 2],
            CellKind::Simple => &[0],
        }
    }
}

/// What a function makes of a tensor.
pub(crate) type Apply = Box<dyn Fn(&GraphBuilder, Var) -> Lowered<Var>>;

/// An activation function.
pub(crate) struct Activation {
    /// As ONNX's recurrent operators name it, with its two numbers.
    pub(crate) onnx: Option<(&'static str, Option<f32>, Option<f32>)>,
    pub(crate) apply: Apply,
}

/// A cell with its weights.
pub(crate) struct RecurrentCell {
    pub(crate) kind: CellKind,
    pub(crate) units: i64,
    /// `[inputs, gates * units]`
    pub(crate) kernel: Var,
    /// `[units, gates * units]`
    pub(crate) recurrent: Var,
    /// `[gates * units]`; for a GRU with the reset gate behind the product `[2, gates * units]`.
    pub(crate) bias: Option<Var>,
    pub(crate) activation: Activation,
    /// The activation of the gates.
    pub(crate) gates: Activation,
}

/// What a cell gives over a sequence.
pub(crate) struct SequenceOutputs {
    /// `[time, batch, units]`, in the order of the inputs.
    pub(crate) outputs: Var,
    /// The last states, `[batch, units]`.
    pub(crate) states: Vec<Var>,
}

impl RecurrentCell {
    /// Whether an operator of ONNX has its activations.
    pub(crate) fn is_operator(&self) -> bool {
        self.activation.onnx.is_some() && self.gates.onnx.is_some()
    }

    /// Names and numbers of the activations in ONNX's order, unless they are the default ones.
    fn activations(&self) -> Option<(Vec<String>, Vec<f32>, Vec<f32>)> {
        let (own, gates) = (self.activation.onnx?, self.gates.onnx?);
        let all = match self.kind {
            CellKind::Lstm => vec![gates, own, own],
            CellKind::Gru { .. } => vec![gates, own],
            CellKind::Simple => vec![own],
        };
        let usual = ["Sigmoid", "Tanh", "Tanh"];
        let skipped = usize::from(self.kind == CellKind::Simple);
        if all.iter().map(|(name, ..)| *name).eq(usual[skipped..].iter().copied().take(all.len())) {
            return None;
        }
        let names = all.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let alphas = all.iter().filter_map(|(_, alpha, _)| *alpha).collect();
        Some((names, alphas, all.iter().filter_map(|(_, _, beta)| *beta).collect()))
    }

    /// Weights as ONNX has them: `[1, gates * units, columns]`.
    fn weights(&self, b: &GraphBuilder, w: Var) -> Lowered<Var> {
        unsqueezed(b, self.ordered(b, transposed(b, w, &[1, 0])?)?, &[0])
    }

    /// Gates along the first axis in ONNX's order.
    fn ordered(&self, b: &GraphBuilder, w: Var) -> Lowered<Var> {
        let order = self.kind.order();
        if order.is_sorted() {
            return Ok(w);
        }
        let parts = b.split(w).split(vec![self.units; order.len()]).axis(0).list(order.len())?;
        b.concat(order.iter().map(|i| parts[*i])).axis(0).one()
    }

    /// Both biases of all gates: `[1, 2 * gates * units]`.
    fn biases(&self, b: &GraphBuilder, dtype: DataType) -> Lowered<Option<Var>> {
        let Some(bias) = self.bias else { return Ok(None) };
        let (bias, columns) = (b.cast(bias, dtype)?, self.kind.gates() * self.units);
        let flat = match b.rank_of(bias) {
            Some(2) => b.reshape(bias, [-1i64]).one()?,
            _ => b.pad(self.ordered(b, bias)?, [0, columns]).one()?,
        };
        unsqueezed(b, flat, &[0]).map(Some)
    }
}

/// Runs a cell over `x` (`[time, batch, inputs]`) by the operator of ONNX. `initial` may be empty. Of sample `i`, the
/// first `lengths[i]` steps count (int32); outputs behind them are zeros.
pub(crate) fn operator(
    b: &GraphBuilder,
    cell: &RecurrentCell,
    x: Var,
    initial: &[Var],
    lengths: Option<Var>,
    backwards: bool,
) -> Lowered<SequenceOutputs> {
    let dtype = dtype_of(b, x)?;
    let computed = if dtype == Double { Double } else { Float };
    let [x, kernel, recurrent] = [x, cell.kernel, cell.recurrent].map(|v| b.cast(v, computed));
    let (x, w, r) = (x?, cell.weights(b, kernel?)?, cell.weights(b, recurrent?)?);
    let bias = cell.biases(b, computed)?;
    let state = |i: usize| -> Lowered<Option<Var>> {
        let Some(state) = initial.get(i) else { return Ok(None) };
        b.unsqueeze(b.cast(*state, computed)?, [0]).map(Some)
    };
    let (h, c) = (state(0)?, state(1)?);
    let direction = backwards.then_some("reverse");
    let (names, alphas, betas) = cell.activations().unzip3();
    let (alphas, betas) = (alphas.filter(|x| !x.is_empty()), betas.filter(|x| !x.is_empty()));
    macro_rules! call {
        ($f:ident) => {
            b.$f(x, w, r)
                .b(bias)
                .sequence_lens(lengths)
                .initial_h(h)
                .activations(names)
                .activation_alpha(alphas)
                .activation_beta(betas)
                .direction(direction)
                .hidden_size(cell.units)
        };
    }
    let all = match cell.kind {
        CellKind::Lstm => call!(lstm).initial_c(c).list(3)?,
        CellKind::Gru { reset_after } => {
            call!(gru).linear_before_reset(reset_after.then_some(1i64)).list(2)?
        }
        CellKind::Simple => call!(rnn).list(2)?,
    };
    let without = |v: Var, axis: i64| b.cast(squeezed(b, v, &[axis])?, dtype);
    let states = all[1..].iter().map(|v| without(*v, 0)).collect::<Lowered<_>>()?;
    Ok(SequenceOutputs { outputs: without(all[0], 1)?, states })
}

trait Unzip3<A, B, C> {
    fn unzip3(self) -> (Option<A>, Option<B>, Option<C>);
}

impl<A, B, C> Unzip3<A, B, C> for Option<(A, B, C)> {
    fn unzip3(self) -> (Option<A>, Option<B>, Option<C>) {
        self.map_or((None, None, None), |(a, b, c)| (Some(a), Some(b), Some(c)))
    }
}
