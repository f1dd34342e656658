//! Activations.

use crate::row::{Row, both, down};
use crate::site::{Done, Site, axis};
use onnxd_ir::{Attr, Dim};

const SOFT: &[&str] = &["Softmax", "LogSoftmax", "Hardmax"];

pub(crate) const ROWS: &[Row] = &[
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
fn softmax_13_up(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let wanted = s.int("axis")?.unwrap_or(1);
    let rank = s.rank(x).ok();
    if wanted == -1 || rank.is_some_and(|r| r > 0 && wanted == r as i64 - 1) {
        s.set("axis", Attr::Int(wanted));
        return Ok(());
    }
    if s.shape(x).is_ok_and(|shape| shape.contains(&Dim::Known(0))) {
        // Nothing is normalized, and a 0 would stand for another size in Reshape.
        s.set("axis", Attr::Int(-1));
        return Ok(());
    }
    let flat = s.add("Flatten", "flat", &[x], &[("axis", Attr::Int(wanted))]);
    s.set_input(0, Some(flat));
    s.set("axis", Attr::Int(1));
    let shape = s.add("Shape", "shape", &[x], &[]);
    let (rows, out) = s.detach(0, "rows")?;
    s.add_to(out, "Reshape", &[rows, shape], &[]);
    Ok(())
}

fn softmax_13_down(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let rank = s.rank(x)?;
    let wanted = axis(s.int("axis")?.unwrap_or(-1), rank)?;
    let last = rank.max(1) as i64 - 1;
    if wanted == last {
        s.set("axis", Attr::Int(last));
        return Ok(());
    }
    // The transposition that swaps two axes is its own inverse.
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(wanted as usize, last as usize);
    let moved = s.transpose("moved", x, &perm);
    s.set_input(0, Some(moved));
    s.set("axis", Attr::Int(last));
    let (inner, out) = s.detach(0, "inner")?;
    s.add_to(out, "Transpose", &[inner], &[("perm", Attr::Ints(perm))]);
    Ok(())
}

/// x HardSigmoid(x / 6 + 1 / 2)
fn hard_swish(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let attrs = [("alpha", Attr::Float(1.0 / 6.0)), ("beta", Attr::Float(0.5))];
    let gate = s.add("HardSigmoid", "gate", &[x], &attrs);
    s.become_node("Mul", &[x, gate], &[]);
    Ok(())
}

/// alpha Elu(x / alpha)
fn celu(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let alpha = s.float("alpha")?.unwrap_or(1.0);
    if alpha == 1.0 {
        s.become_node("Elu", &[x], &[]);
        return Ok(());
    }
    let alpha = s.scalar("alpha", f64::from(alpha), s.dtype(x)?)?;
    let scaled = s.add("Div", "scaled", &[x, alpha], &[]);
    let elu = s.add("Elu", "elu", &[scaled], &[]);
    s.become_node("Mul", &[elu, alpha], &[]);
    Ok(())
}

/// x Tanh(Softplus(x))
fn mish(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let soft = s.add("Softplus", "soft", &[x], &[]);
    let gate = s.add("Tanh", "gate", &[soft], &[]);
    s.become_node("Mul", &[x, gate], &[]);
    Ok(())
}

/// x / 2 (1 + Erf(x / √2)), or its approximation by Tanh.
fn gelu(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let dtype = s.dtype(x)?;
    let approximate = s.word("approximate", "none")?;
    let half = s.scalar("half", 0.5, dtype)?;
    let one = s.scalar("one", 1.0, dtype)?;
    let bent = if approximate == "tanh" {
        let cubic = s.scalar("cubic", 0.044715, dtype)?;
        let gain = s.scalar("gain", (2.0 / std::f64::consts::PI).sqrt(), dtype)?;
        let square = s.add("Mul", "square", &[x, x], &[]);
        let cube = s.add("Mul", "cube", &[square, x], &[]);
        let term = s.add("Mul", "term", &[cube, cubic], &[]);
        let sum = s.add("Add", "sum", &[x, term], &[]);
        let scaled = s.add("Mul", "scaled", &[sum, gain], &[]);
        s.add("Tanh", "bent", &[scaled], &[])
    } else {
        let gain = s.scalar("gain", std::f64::consts::FRAC_1_SQRT_2, dtype)?;
        let scaled = s.add("Mul", "scaled", &[x, gain], &[]);
        s.add("Erf", "bent", &[scaled], &[])
    };
    let gate = s.add("Add", "gate", &[bent, one], &[]);
    let halved = s.add("Mul", "halved", &[x, half], &[]);
    s.become_node("Mul", &[halved, gate], &[]);
    Ok(())
}

/// x Sigmoid(alpha x)
fn swish(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let alpha = s.float("alpha")?.unwrap_or(1.0);
    let mut scaled = x;
    if alpha != 1.0 {
        let alpha = s.scalar("alpha", f64::from(alpha), s.dtype(x)?)?;
        scaled = s.add("Mul", "scaled", &[x, alpha], &[]);
    }
    let gate = s.add("Sigmoid", "gate", &[scaled], &[]);
    s.become_node("Mul", &[x, gate], &[]);
    Ok(())
}

/// x where it is above alpha, else 0
fn thresholded_relu(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let dtype = s.dtype(x)?;
    let alpha = s.scalar("alpha", f64::from(s.float("alpha")?.unwrap_or(1.0)), dtype)?;
    let zero = s.scalar("zero", 0.0, dtype)?;
    let above = s.add("Greater", "above", &[x, alpha], &[]);
    s.become_node("Where", &[above, x, zero], &[]);
    Ok(())
}
