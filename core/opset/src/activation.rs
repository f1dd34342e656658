//! Activations.

use crate::context::{Done, LowerContext, axis};
use crate::row::{AdapterRow, both, down};
use onnxd_ir::Dim;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

const SOFT: &[&str] = &["Softmax", "LogSoftmax", "Hardmax"];

pub(crate) const ROWS: &[AdapterRow] = &[
    both(SOFT, 13, softmax_13_up, softmax_13_down),
    down(&["HardSwish"], 14, hard_swish),
    down(&["Celu"], 12, celu),
    down(&["Mish"], 18, mish),
    down(&["Gelu"], 20, gelu),
    down(&["Swish"], 24, swish),
    down(&["ThresholdedRelu"], 10, thresholded_relu),
];

/// Up to 12 the axes from `axis` on are taken together; from 13 on there is one axis, by default
/// the last. Both are the same if `axis` is the last.
fn softmax_13_up(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let wanted = s.int("axis")?.unwrap_or(1);
    if wanted == -1 || b.rank_of(x).is_some_and(|r| r > 0 && wanted == r as i64 - 1) {
        s.set_int("axis", wanted);
        return Ok(());
    }
    if b.shape_of(x).is_some_and(|shape| shape.contains(&Dim::Known(0))) {
        // Nothing is normalized, and a 0 would stand for another size in Reshape.
        s.set_int("axis", -1);
        return Ok(());
    }
    s.set_input(0, Some(b.flatten(x).axis(wanted).one()?))?;
    s.set_int("axis", 1);
    s.then(0, |b, rows| b.reshape(rows, b.shape(x).one()?).one())
}

fn softmax_13_down(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let rank = s.rank(x)?;
    let wanted = axis(s.int("axis")?.unwrap_or(-1), rank)?;
    let last = rank.max(1) as i64 - 1;
    s.set_int("axis", last);
    if wanted == last {
        return Ok(());
    }
    // The transposition that swaps two axes is its own inverse.
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(wanted as usize, last as usize);
    s.set_input(0, Some(b.transpose(x).perm(&perm).one()?))?;
    s.then(0, |b, y| b.transpose(y).perm(perm).one())
}

/// x HardSigmoid(x / 6 + 1 / 2)
fn hard_swish(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    s.becomes(b.mul(x, b.hard_sigmoid(x).alpha(1.0 / 6.0).beta(0.5).one()?)?)
}

/// alpha Elu(x / alpha)
fn celu(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let alpha = s.float("alpha")?.unwrap_or(1.0);
    if alpha == 1.0 {
        return s.becomes(b.elu(x).one()?);
    }
    s.becomes(b.mul(b.elu(b.div(x, alpha)?).one()?, alpha)?)
}

/// x Tanh(Softplus(x))
fn mish(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    s.becomes(b.mul(x, b.tanh(b.softplus(x)?)?)?)
}

/// x / 2 (1 + Erf(x / √2)), or its approximation by Tanh.
fn gelu(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let bent = if s.word("approximate", "none")? == "tanh" {
        let cube = b.mul(b.mul(x, x)?, x)?;
        let sum = b.add(x, b.mul(cube, 0.044715)?)?;
        b.tanh(b.mul(sum, FRAC_2_PI.sqrt())?)?
    } else {
        b.erf(b.mul(x, FRAC_1_SQRT_2)?)?
    };
    s.becomes(b.mul(b.mul(x, 0.5)?, b.add(bent, 1.0)?)?)
}

/// x Sigmoid(alpha x)
fn swish(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let alpha = s.float("alpha")?.unwrap_or(1.0);
    let scaled = if alpha == 1.0 { x } else { b.mul(x, alpha)? };
    s.becomes(b.mul(x, b.sigmoid(scaled)?)?)
}

/// x where it is above alpha, else 0
fn thresholded_relu(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let alpha = s.float("alpha")?.unwrap_or(1.0);
    s.becomes(b.where_(b.greater(x, alpha)?, x, 0.0)?)
}
