//! What a step of a recurrent cell makes of the sums of its gates.

use onnxd_build::{GraphBuilder, Result, Var};

/// The next hidden and cell state of an LSTM, from the sums of its gates for the input, for forgetting, for new values
/// and for the output. `gate` is the activation of gates, `own` that of values.
///
/// # Errors
/// Those of the builder and the activations.
pub fn lstm(
    b: &GraphBuilder,
    [input, forget, new, output]: [Var; 4],
    cell: Var,
    gate: impl Fn(Var) -> Result<Var>,
    own: impl Fn(Var) -> Result<Var>,
) -> Result<[Var; 2]> {
    let cell = b.add(b.mul(gate(forget)?, cell)?, b.mul(gate(input)?, own(new)?)?)?;
    Ok([b.mul(gate(output)?, own(cell)?)?, cell])
}

/// The next hidden state of a GRU whose reset gate acts behind the product with the state. `x` and `state` are the
/// parts of the sums for the update gate, the reset gate and new values that inputs and the hidden state give.
///
/// # Errors
/// Those of the builder and the activations.
pub fn gru(
    b: &GraphBuilder,
    x: [Var; 3],
    state: [Var; 3],
    hidden: Var,
    gate: impl Fn(Var) -> Result<Var>,
    own: impl Fn(Var) -> Result<Var>,
) -> Result<Var> {
    let (update, reset) = (gate(b.add(x[0], state[0])?)?, gate(b.add(x[1], state[1])?)?);
    let new = own(b.add(x[2], b.mul(reset, state[2])?)?)?;
    updated(b, update, hidden, new)
}

/// The hidden state where the update gate is one, new values where it is zero.
///
/// # Errors
/// Those of the builder.
pub fn updated(b: &GraphBuilder, update: Var, hidden: Var, new: Var) -> Result<Var> {
    b.add(b.mul(b.sub(hidden, new)?, update)?, new)
}
