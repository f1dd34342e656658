//! Mixtures of experts. All experts see all tokens, and each token takes what its experts give by their weights.

use super::mlp::gated;
use super::weights::Net;
use super::{Decoder, ExpertWeights, Experts, Router};
use crate::diag::shown;
use crate::layers::{activate, checked};
use crate::problem::damaged;
use crate::weight::Weight;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{Tensor, TensorError};

/// The experts of the layer under `prefix`: `x` is [B, S, E].
pub(super) fn experts(net: &Net<'_>, x: Var, prefix: &str, e: &Experts) -> Result<Var> {
    let b = net.b;
    let Decoder { hidden, .. } = *net.d;
    let flat = b.reshape(x, vec![-1, hidden as i64]).one()?;
    let shares = shares(net, flat, prefix, e)?;
    // Experts, tokens, elements.
    let given = match e.weights {
        ExpertWeights::Alternating { bound, alpha } => {
            alternating(net, flat, prefix, e, [bound, alpha])?
        }
        _ => given(net, flat, prefix, e)?,
    };
    let taken = b.reduce_sum(b.mul(given, shares)?).axes(vec![0]).keepdims(0).one()?;
    let taken = b.reshape(taken, b.shape(x).one()?).one()?;
    let Some((name, inner, gate)) = e.shared else { return Ok(taken) };
    let part = |part: &str| format!("{prefix}{name}.{part}");
    let common = gated(net, x, [part("gate_proj"), part("up_proj"), part("down_proj")], inner)?;
    if gate.is_empty() {
        return b.add(taken, common);
    }
    let gate = b.sigmoid(net.project(x, &format!("{prefix}{gate}"), [hidden, 1])?)?;
    b.add(taken, b.mul(common, gate)?)
}

/// What share each expert has in each token, 0 for those that were not chosen: [X, tokens, 1].
fn shares(net: &Net<'_>, x: Var, prefix: &str, e: &Experts) -> Result<Var> {
    let b = net.b;
    let scores = net.project(x, &format!("{prefix}{}", e.router_name), [net.d.hidden, e.count])?;
    if let Router::Grouped { .. } = e.router {
        return grouped(net, scores, prefix, e);
    }
    let before = match e.router {
        Router::SoftmaxFirst { .. } => b.softmax(scores).axis(-1).one()?,
        _ => scores,
    };
    let [best, which] = b.top_k(before, vec![e.chosen as i64]).axis(-1).outputs()?;
    let best = match e.router {
        Router::SoftmaxFirst { divided: false } => best,
        Router::SoftmaxFirst { divided: true } => {
            b.div(best, b.reduce_sum(best).axes(vec![-1]).keepdims(1).one()?)?
        }
        _ => b.softmax(best).axis(-1).one()?,
    };
    spread(net, scores, [which, best])
}

/// Shares of chosen experts among those of all, which are 0: [X, tokens, 1]. `like` has the sizes [tokens, X].
fn spread(net: &Net<'_>, like: Var, [which, best]: [Var; 2]) -> Result<Var> {
    let b = net.b;
    let none = b.constant_of_shape(b.shape(like).one()?).one()?;
    let all = b.scatter_elements(none, which, best).axis(-1).one()?;
    b.unsqueeze(b.transpose(all).perm(vec![1, 0]).one()?, vec![2])
}

/// Experts of the best groups. A group is as good as its best expert, or as its two best where the choice is corrected.
fn grouped(net: &Net<'_>, scores: Var, prefix: &str, e: &Experts) -> Result<Var> {
    let b = net.b;
    let Router::Grouped { groups, chosen, is_corrected, divided, scale } = e.router else {
        unreachable!("the caller looked")
    };
    let scores =
        if is_corrected { b.sigmoid(scores)? } else { b.softmax(scores).axis(-1).one()? };
    let mut choice = scores;
    if is_corrected {
        let name = format!("{prefix}{}.e_score_correction_bias", e.router_name);
        choice = b.add(scores, net.constant(&name, net.w.tensor(&name, &[e.count])?))?;
    }
    if chosen < groups {
        let apart = b.reshape(choice, vec![0, groups as i64, -1]).one()?;
        let best = if is_corrected { 2 } else { 1 };
        let [best, _] = b.top_k(apart, vec![best]).axis(-1).outputs()?;
        let good = b.reduce_sum(best).axes(vec![-1]).keepdims(0).one()?;
        let [values, which] = b.top_k(good, vec![chosen as i64]).axis(-1).outputs()?;
        let one = b.add(b.mul(values, 0.0)?, 1.0)?;
        let none = b.constant_of_shape(b.shape(good).one()?).one()?;
        let is_good = b.unsqueeze(b.scatter_elements(none, which, one).axis(-1).one()?, vec![2])?;
        choice = b.reshape(b.mul(apart, is_good)?, vec![0, e.count as i64]).one()?;
    }
    let [_, which] = b.top_k(choice, vec![e.chosen as i64]).axis(-1).outputs()?;
    let mut best = b.gather_elements(scores, which).axis(-1).one()?;
    if divided {
        let sum = b.reduce_sum(best).axes(vec![-1]).keepdims(1).one()?;
        best = b.div(best, b.add(sum, 1e-20)?)?;
    }
    let best = if scale == 1.0 { best } else { b.mul(best, scale)? };
    spread(net, scores, [which, best])
}

/// What each expert gives for each token.
fn given(net: &Net<'_>, x: Var, prefix: &str, e: &Experts) -> Result<Var> {
    let (b, hidden) = (net.b, net.d.hidden);
    let name = |part: &str| format!("{prefix}{part}");
    let named = |(name, weight): &(String, Weight), x| net.product(x, name, weight);
    let [gate, up, down] = match e.weights {
        ExpertWeights::Each { gate, up, down } => {
            let all = |part, inputs, outputs| each(net, &name(part), [inputs, outputs], e.count);
            [all(gate, hidden, e.inner)?, all(up, hidden, e.inner)?, all(down, e.inner, hidden)?]
        }
        ExpertWeights::Stacked { gate_up, down } => {
            let (both, last) = (name(gate_up), name(down));
            let weight = stacked(net, &both, [e.count, 2 * e.inner, hidden])?;
            let cut = |role: &str, first| {
                let part = checked(&both, weight.cut(|t| outputs(t, first, e.inner, 1)))?;
                Ok((format!("{both}.{role}.weight"), part))
            };
            let weight = stacked(net, &last, [e.count, hidden, e.inner])?;
            let last = (format!("{last}.weight"), weight);
            [cut("gate", 0)?, cut("up", e.inner)?, last]
        }
        ExpertWeights::Alternating { .. } => unreachable!("they have a function of their own"),
    };
    let inner = activate(b, named(&gate, x)?, net.d.mlp.activation)?;
    named(&down, b.mul(inner, named(&up, x)?)?)
}

/// Of matrices [X, outputs, inputs] so many outputs.
fn outputs(
    matrices: &Tensor,
    first: usize,
    count: usize,
    step: isize,
) -> std::result::Result<Tensor, TensorError> {
    let dims = matrices.dims();
    matrices.sliced(&[(0, dims[0], 1), (first, count, step), (0, dims[2], 1)])
}

/// The weights of all experts, which lie in one tensor: [experts, outputs, inputs].
fn stacked(net: &Net<'_>, name: &str, sizes: [usize; 3]) -> Result<Weight> {
    let name = format!("{name}.weight");
    match net.w.quantized_experts(&name, sizes)? {
        Some(blocks) => Ok(blocks.into()),
        None => net.w.tensor(&name, &sizes).map(Weight::Float),
    }
}

/// The weights of all experts as one, and their name; `*` in `name` is the number of one.
fn each(net: &Net<'_>, name: &str, sizes: [usize; 2], count: usize) -> Result<(String, Weight)> {
    let one = |i: usize| net.weight(&name.replace('*', &i.to_string()), sizes);
    let all = (0..count).map(one).collect::<Result<Vec<_>>>()?;
    let all = checked(name, Weight::stacked(&all))?.ok_or_else(|| {
        damaged(format!("the weights of the experts `{}` are not stored in one way", shown(name)))
    })?;
    Ok((format!("{}.weight", name.replace('*', "all")), all))
}

/// `(u + 1) g sigmoid(alpha g)` with bounds, where gate and up alternate.
fn alternating(
    net: &Net<'_>,
    x: Var,
    prefix: &str,
    e: &Experts,
    [bound, alpha]: [f64; 2],
) -> Result<Var> {
    let (b, hidden, count) = (net.b, net.d.hidden, e.count);
    let name = |part: &str| format!("{prefix}mlp.experts.{part}");
    let both = name("gate_up_proj");
    let weight = alternating_weight(net, &both, [count, 2 * e.inner, hidden])?;
    let bias = net.w.tensor(&format!("{both}_bias"), &[count, 2 * e.inner])?;
    let part = |role: &str, first: usize| {
        let weight = checked(&both, weight.cut(|t| outputs(t, first, e.inner, 2)))?;
        let bias = checked(&both, bias.sliced(&[(0, count, 1), (first, e.inner, 2)]))?;
        let bias = checked(&both, bias.reshaped([count, 1, e.inner]))?;
        let y = net.product(x, &format!("{both}.{role}"), &weight)?;
        b.add(y, net.constant(&format!("{both}_bias.{role}"), bias))
    };
    let gate = b.clip(part("gate", 0)?).max(bound).one()?;
    let up = b.clip(part("up", 1)?).min(-bound).max(bound).one()?;
    let bent = b.mul(gate, b.sigmoid(b.mul(gate, alpha)?)?)?;
    let inner = b.mul(b.add(up, 1.0)?, bent)?;
    let last = name("down_proj");
    let weight = alternating_weight(net, &last, [count, hidden, e.inner])?;
    let bias = net.w.tensor(&format!("{last}_bias"), &[count, hidden])?;
    let bias = checked(&last, bias.reshaped([count, 1, hidden]))?;
    b.add(net.product(inner, &last, &weight)?, net.constant(&format!("{last}_bias"), bias))
}

/// Matrices of all experts: as real numbers they have their inputs first.
fn alternating_weight(net: &Net<'_>, name: &str, sizes: [usize; 3]) -> Result<Weight> {
    if let Some(blocks) = net.w.quantized_experts(name, sizes)? {
        return Ok(blocks.into());
    }
    let [count, outputs, inputs] = sizes;
    let weight = net.w.tensor(name, &[count, inputs, outputs])?;
    checked(name, weight.permuted(&[0, 2, 1])).map(Weight::Float)
}
