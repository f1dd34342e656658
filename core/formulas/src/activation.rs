//! Activations: one operator where the version of the standard has it.

use onnxd_build::{GraphBuilder, Result, Var};

/// `x` times a sigmoid of it.
///
/// # Errors
/// Those of the builder.
pub fn silu(b: &GraphBuilder, x: Var) -> Result<Var> {
    if b.opset() >= 24 { b.swish(x).one() } else { b.mul(x, b.sigmoid(x)?) }
}

/// `x * tanh(softplus(x))`
///
/// # Errors
/// Those of the builder.
pub fn mish(b: &GraphBuilder, x: Var) -> Result<Var> {
    if b.opset() >= 18 { b.mish(x) } else { b.mul(x, b.tanh(b.softplus(x)?)?) }
}

/// `x / 6 + 1 / 2` between 0 and 1.
///
/// # Errors
/// Those of the builder.
pub fn hard_sigmoid(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.hard_sigmoid(x).alpha(1.0 / 6.0).beta(0.5).one()
}

/// `x` times a hard sigmoid of it.
///
/// # Errors
/// Those of the builder.
pub fn hard_swish(b: &GraphBuilder, x: Var) -> Result<Var> {
    if b.opset() >= 14 { b.hard_swish(x) } else { b.mul(x, hard_sigmoid(b, x)?) }
}

/// The logarithm of a sigmoid. Softplus is exact where that is 0.
///
/// # Errors
/// Those of the builder.
pub fn log_sigmoid(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.neg(b.softplus(b.neg(x)?)?)
}

/// One half along an axis times a sigmoid of the other.
///
/// # Errors
/// Those of the builder.
pub fn glu(b: &GraphBuilder, x: Var, axis: i64) -> Result<Var> {
    let halves = b.split(x).axis(axis);
    let halves = if b.opset() >= 18 { halves.num_outputs(2) } else { halves };
    let [x, gate] = halves.outputs()?;
    b.mul(x, b.sigmoid(gate)?)
}
