//! Mixtures of experts. All experts see all tokens, and each token takes what its experts give by their weights.

use super::mlp::{activate, gated};
use super::weights::{Net, checked, turned};
use super::{Decoder, ExpertWeights, Experts, Router};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// The experts of the layer under `prefix`: `x` is [B, S, E].
pub(super) fn experts(net: &Net<'_>, x: Var, prefix: &str, e: &Experts) -> Result<Var> {
    let b = net.b;
    let Decoder { hidden, .. } = *net.parts();
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
    let before = match e.router {
        Router::SoftmaxFirst { .. } => b.softmax(scores).axis(-1).one()?,
        Router::SoftmaxLast => scores,
    };
    let [best, which] = b.top_k(before, vec![e.chosen as i64]).axis(-1).outputs()?;
    let best = match e.router {
        Router::SoftmaxFirst { divided: false } => best,
        Router::SoftmaxFirst { divided: true } => {
            b.div(best, b.reduce_sum(best).axes(vec![-1]).keepdims(1).one()?)?
        }
        Router::SoftmaxLast => b.softmax(best).axis(-1).one()?,
    };
    let none = b.mul(scores, 0.0)?;
    let all = b.scatter_elements(none, which, best).axis(-1).one()?;
    b.unsqueeze(b.transpose(all).perm(vec![1, 0]).one()?, vec![2])
}

/// What each expert gives for each token.
fn given(net: &Net<'_>, x: Var, prefix: &str, e: &Experts) -> Result<Var> {
    let (b, hidden) = (net.b, net.d.hidden);
    let name = |part: &str| format!("{prefix}{part}");
    let [gate, up, down] = match e.weights {
        ExpertWeights::Each { gate, up, down } => {
            let all = |part, inputs, outputs| each(net, &name(part), [inputs, outputs], e.count);
            [all(gate, hidden, e.inner)?, all(up, hidden, e.inner)?, all(down, e.inner, hidden)?]
        }
        ExpertWeights::Stacked { gate_up, down } => {
            let (both, last) = (name(gate_up), name(down));
            let tensor =
                net.w.tensor(&format!("{both}.weight"), &[e.count, 2 * e.inner, hidden])?;
            let cut = |role: &str, first| {
                let axes = [(0, e.count, 1), (first, e.inner, 1), (0, hidden, 1)];
                stacked(net, &format!("{both}.{role}"), &checked(&both, tensor.sliced(&axes))?)
            };
            let tensor = net.w.tensor(&format!("{last}.weight"), &[e.count, hidden, e.inner])?;
            [cut("gate", 0)?, cut("up", e.inner)?, stacked(net, &last, &tensor)?]
        }
        ExpertWeights::Alternating { .. } => unreachable!("they have a function of their own"),
    };
    let gate = activate(b, b.mat_mul(x, gate)?, net.d.mlp.activation)?;
    b.mat_mul(b.mul(gate, b.mat_mul(x, up)?)?, down)
}

/// One constant of the weights of all experts, [X, inputs, outputs]; `*` in the name is the number of one.
fn each(net: &Net<'_>, name: &str, [inputs, outputs]: [usize; 2], count: usize) -> Result<Var> {
    let one = |i: usize| {
        let name = name.replace('*', &i.to_string());
        let weight = net.w.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        checked(&name, turned(&name, &weight)?.reshaped([1, inputs, outputs]))
    };
    let all = (0..count).map(one).collect::<Result<Vec<_>>>()?;
    let all = checked(name, Tensor::concat(&all, 0))?;
    Ok(net.constant(&format!("{}.weight", name.replace('*', "all")), all))
}

/// [X, outputs, inputs] as [X, inputs, outputs].
fn stacked(net: &Net<'_>, name: &str, tensor: &Tensor) -> Result<Var> {
    let turned = checked(name, tensor.permuted(&[0, 2, 1]))?;
    Ok(net.constant(&format!("{name}.weight"), turned))
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
    let weight = net.w.tensor(&both, &[count, hidden, 2 * e.inner])?;
    let bias = net.w.tensor(&format!("{both}_bias"), &[count, 2 * e.inner])?;
    let part = |role: &str, first: usize| {
        let axes = [(0, count, 1), (0, hidden, 1), (first, e.inner, 2)];
        let weight = checked(&both, weight.sliced(&axes))?;
        let bias = checked(&both, bias.sliced(&[(0, count, 1), (first, e.inner, 2)]))?;
        let bias = checked(&both, bias.reshaped([count, 1, e.inner]))?;
        let y = b.mat_mul(x, net.constant(&format!("{both}.{role}"), weight))?;
        b.add(y, net.constant(&format!("{both}_bias.{role}"), bias))
    };
    let gate = b.clip(part("gate", 0)?).max(bound).one()?;
    let up = b.clip(part("up", 1)?).min(-bound).max(bound).one()?;
    let bent = b.mul(gate, b.sigmoid(b.mul(gate, alpha)?)?)?;
    let inner = b.mul(b.add(up, 1.0)?, bent)?;
    let last = name("down_proj");
    let weight = net.constant(&last, net.w.tensor(&last, &[count, e.inner, hidden])?);
    let bias = net.w.tensor(&format!("{last}_bias"), &[count, hidden])?;
    let bias = checked(&last, bias.reshaped([count, 1, hidden]))?;
    b.add(b.mat_mul(inner, weight)?, net.constant(&format!("{last}_bias"), bias))
}
