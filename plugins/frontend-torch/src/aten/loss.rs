//! Losses.

use super::activation::softmax;
use super::compare::select;
use super::distance::distance;
use super::dtype::{dtype_of, float_operands, operand, operands, to_float};
use super::sizes::{known_size, rank, scalar, size};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::TAU;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::cross_entropy_loss" => cross_entropy;
        "aten::nll_loss" | "aten::nll_loss2d" | "aten::nll_loss_nd" => |b, a: Nll| nll(b, &a);
        "aten::nll_loss_forward" | "aten::nll_loss2d_forward" =>
            |b, a: Nll| Ok(Several(vec![nll(b, &a)?.into(), Value::None]));
        "aten::mse_loss" => |b, a: Pair| of_difference(b, &a, |b, d| b.mul(d, d));
        "aten::l1_loss" => |b, a: Pair| of_difference(b, &a, |b, d| b.abs(d));
        "aten::smooth_l1_loss" => smooth_l1(input, target, reduction, beta);
        "aten::huber_loss" => huber(input, target, reduction, delta);
        "aten::binary_cross_entropy" => binary_cross_entropy;
        "aten::binary_cross_entropy_with_logits" => with_logits;
        "aten::kl_div" => kl_div;
        "aten::poisson_nll_loss" => poisson;
        "aten::soft_margin_loss" => |b, a: Pair| {
            let [x, t] = operands(b, [&a.input, &a.target])?;
            reduced(b, b.softplus(b.mul(b.neg(x)?, t)?)?, a.reduction)
        };
    };
    super::rows! { table;
        "aten::cosine_embedding_loss" => cosine_embedding;
        "aten::margin_ranking_loss" => margin_ranking;
        "aten::hinge_embedding_loss" => hinge_embedding;
        "aten::triplet_margin_loss" => triplet_margin;
        "aten::multi_margin_loss" => multi_margin;
    }
}

arguments! {
    /// `cross_entropy_loss`
    struct CrossEntropy {
        input: Var, target: Var, weight: Option<Var>, reduction: i64, ignore_index: i64,
        label_smoothing: f64,
    }
    /// `nll_loss`
    struct Nll { input: Var, target: Var, weight: Option<Var>, reduction: i64, ignore_index: i64 }
    /// `mse_loss`
    struct Pair { input: Value, target: Value, reduction: i64 }
    /// `binary_cross_entropy`
    struct Binary { input: Value, target: Value, weight: Option<Var>, reduction: i64 }
    /// `binary_cross_entropy_with_logits`
    struct Logits {
        input: Value, target: Value, weight: Option<Var>, pos_weight: Option<Var>, reduction: i64,
    }
    /// `kl_div`
    struct Divergence { input: Value, target: Value, reduction: i64, log_target: bool }
    /// `poisson_nll_loss`
    struct Poisson {
        input: Value, target: Value, log_input: bool, full: bool, eps: f64, reduction: i64,
    }
    /// `cosine_embedding_loss`
    struct Embedding { input1: Var, input2: Var, target: Var, margin: f64, reduction: i64 }
    /// `hinge_embedding_loss`
    struct Hinge { input: Var, target: Var, margin: f64, reduction: i64 }
    /// `triplet_margin_loss`
    struct Triplet {
        anchor: Var, positive: Var, negative: Var, margin: f64, p: f64, eps: f64, swap: bool,
        reduction: i64,
    }
    /// `multi_margin_loss`
    struct MultiMargin {
        input: Var, target: Var, p: f64, margin: f64, weight: Option<Var>, reduction: i64,
    }
}

const MEAN: i64 = 1;
const SUM: i64 = 2;

/// All losses as they are, their mean, or their sum.
fn reduced(b: &Lower, x: Var, reduction: i64) -> Lowered<Var> {
    match reduction {
        MEAN => b.reduce_mean(x).keepdims(0).one(),
        SUM => b.reduce_sum(x).keepdims(0).one(),
        _ => Ok(x),
    }
}

fn weighed(b: &Lower, x: Var, weight: Option<Var>) -> Lowered<Var> {
    weight.map_or(Ok(x), |weight| b.mul(x, weight))
}

/// A number in the type of `x`.
fn like(b: &Lower, number: f64, x: Var) -> Lowered<Var> {
    operand(b, &Value::Float(number), dtype_of(b, x)?)
}

/// What is below 0 becomes 0.
fn positive(b: &Lower, x: Var) -> Lowered<Var> {
    b.relu(x)
}

fn of_difference(b: &Lower, a: &Pair, f: impl Fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    let [x, t] = operands(b, [&a.input, &a.target])?;
    reduced(b, f(b, b.sub(x, t)?)?, a.reduction)
}

/// Quadratic up to a difference of `beta`, linear beyond.
fn smooth_l1(b: &Lower, input: Value, target: Value, reduction: i64, beta: f64) -> Lowered<Var> {
    let [x, t] = operands(b, [&input, &target])?;
    let d = b.abs(b.sub(x, t)?)?;
    if beta == 0.0 {
        return reduced(b, d, reduction);
    }
    let near = b.mul(b.mul(d, d)?, 0.5 / beta)?;
    let loss = b.where_(b.less(d, beta)?, near, b.sub(d, 0.5 * beta)?)?;
    reduced(b, loss, reduction)
}

fn huber(b: &Lower, input: Value, target: Value, reduction: i64, delta: f64) -> Lowered<Var> {
    let [x, t] = operands(b, [&input, &target])?;
    let d = b.abs(b.sub(x, t)?)?;
    let near = b.mul(b.mul(d, d)?, 0.5)?;
    let far = b.mul(b.sub(d, 0.5 * delta)?, delta)?;
    reduced(b, b.where_(b.less(d, delta)?, near, far)?, reduction)
}

/// Logarithms are not below -100.
fn binary_cross_entropy(b: &Lower, a: Binary) -> Lowered<Var> {
    let [x, t] = operands(b, [&a.input, &a.target])?;
    let log = |x: Var| b.max([b.log(x)?, like(b, -100.0, x)?]);
    let (yes, no) = (log(x)?, log(b.sub(like(b, 1.0, x)?, x)?)?);
    let loss = b.sub(b.mul(b.sub(t, 1.0)?, no)?, b.mul(t, yes)?)?;
    reduced(b, weighed(b, loss, a.weight)?, a.reduction)
}

/// `(1 - t) x + p softplus(-x)`, where `p` is the weight of positive targets.
fn with_logits(b: &Lower, a: Logits) -> Lowered<Var> {
    let [x, t] = operands(b, [&a.input, &a.target])?;
    let mut spread = b.softplus(b.neg(x)?)?;
    if let Some(positive) = a.pos_weight {
        let share = b.add(b.mul(b.sub(positive, 1.0)?, t)?, 1.0)?;
        spread = b.mul(share, spread)?;
    }
    let loss = b.add(b.mul(b.sub(like(b, 1.0, t)?, t)?, x)?, spread)?;
    reduced(b, weighed(b, loss, a.weight)?, a.reduction)
}

/// `x log(y)`, and 0 where `x` is 0.
fn x_log_x(b: &Lower, x: Var) -> Lowered<Var> {
    let zero = like(b, 0.0, x)?;
    b.where_(b.equal(x, zero)?, zero, b.mul(x, b.log(x)?)?)
}

fn kl_div(b: &Lower, a: Divergence) -> Lowered<Var> {
    let [x, t] = operands(b, [&a.input, &a.target])?;
    let loss = match a.log_target {
        true => b.mul(b.exp(t)?, b.sub(t, x)?)?,
        false => b.sub(x_log_x(b, t)?, b.mul(t, x)?)?,
    };
    reduced(b, loss, a.reduction)
}

fn poisson(b: &Lower, a: Poisson) -> Lowered<Var> {
    let [x, t] = float_operands(b, [&a.input, &a.target])?;
    let mut loss = match a.log_input {
        true => b.sub(b.exp(x)?, b.mul(t, x)?)?,
        false => b.sub(x, b.mul(t, b.log(b.add(x, a.eps)?)?)?)?,
    };
    if a.full {
        // Stirling's approximation of the logarithm of a factorial.
        let half_log = b.mul(b.log(b.mul(t, TAU)?)?, 0.5)?;
        let more = b.add(b.sub(b.mul(t, b.log(t)?)?, t)?, half_log)?;
        let many = b.greater(t, 1.0)?;
        loss = b.add(loss, b.where_(many, more, like(b, 0.0, t)?)?)?;
    }
    reduced(b, loss, a.reduction)
}

/// The negative logarithm of the probability of the class. A single sample is a batch of one.
fn nll(b: &Lower, a: &Nll) -> Lowered<Var> {
    let single = rank(b, a.input)? == 1;
    let added = |x: Var| if single { b.unsqueeze(x, [0]) } else { Ok(x) };
    let word = word(b, a.reduction)?;
    let call = b.negative_log_likelihood_loss(added(a.input)?, added(a.target)?).weight(a.weight);
    let loss = call.ignore_index(a.ignore_index).reduction(word).one()?;
    if single && word == "none" { b.squeeze(loss).axes([0]).one() } else { Ok(loss) }
}

fn word(b: &Lower, reduction: i64) -> Lowered<&'static str> {
    match reduction {
        0 => Ok("none"),
        MEAN => Ok("mean"),
        SUM => Ok("sum"),
        _ => Err(b.diagnostic(Code::LayerParameter, "The reduction of a loss is not known.")),
    }
}

fn cross_entropy(b: &Lower, a: CrossEntropy) -> Lowered<Var> {
    if dtype_of(b, a.target)?.is_float() {
        return of_probabilities(b, &a);
    }
    let single = rank(b, a.input)? == 1;
    if a.label_smoothing == 0.0 && !single {
        let call = b.softmax_cross_entropy_loss(a.input, a.target).weights(a.weight);
        return call.ignore_index(a.ignore_index).reduction(word(b, a.reduction)?).one();
    }
    let dim = i64::from(!single);
    let logs = softmax(b, a.input, dim, true)?;
    let CrossEntropy { target, weight, reduction, ignore_index, .. } = a;
    let loss = nll(b, &Nll { input: logs, target, weight, reduction, ignore_index })?;
    if a.label_smoothing == 0.0 {
        return Ok(loss);
    }
    // The share of all classes.
    let all =
        b.neg(b.reduce_sum(by_class(b, logs, weight, dim)?).axes([dim]).keepdims(0).one()?)?;
    let dtype = dtype_of(b, target)?;
    let counts = b.not(b.equal(target, operand(b, &Value::Int(ignore_index), dtype)?)?)?;
    let all = b.where_(counts, all, like(b, 0.0, all)?)?;
    let smooth = match reduction {
        MEAN => {
            let sum = reduced(b, all, SUM)?;
            let of_class = match weight {
                Some(weight) => {
                    let zero = operand(b, &Value::Int(0), dtype)?;
                    let class = b.where_(counts, target, zero)?;
                    b.where_(counts, b.gather(weight, class).one()?, like(b, 0.0, logs)?)?
                }
                None => b.cast(counts, dtype_of(b, logs)?)?,
            };
            b.div(sum, reduced(b, of_class, SUM)?)?
        }
        other => reduced(b, all, other)?,
    };
    let classes = b.cast(scalar(b, &size(b, logs, dim as usize)?)?, dtype_of(b, logs)?)?;
    let share = b.div(like(b, a.label_smoothing, logs)?, classes)?;
    b.add(b.mul(loss, 1.0 - a.label_smoothing)?, b.mul(smooth, share)?)
}

/// `x` times the weight of each class.
fn by_class(b: &Lower, x: Var, weight: Option<Var>, dim: i64) -> Lowered<Var> {
    let Some(weight) = weight else { return Ok(x) };
    let behind: Vec<i64> = (1..rank(b, x)? as i64 - dim).collect();
    let weight = if behind.is_empty() { weight } else { b.unsqueeze(weight, behind)? };
    b.mul(x, weight)
}

/// The cross entropy where the probability of each class is given.
fn of_probabilities(b: &Lower, a: &CrossEntropy) -> Lowered<Var> {
    let dim = i64::from(rank(b, a.input)? != 1);
    let logs = softmax(b, a.input, dim, true)?;
    let classes = scalar(b, &size(b, logs, dim as usize)?)?;
    let target = match a.label_smoothing {
        0.0 => a.target,
        share => {
            let each = b.div(like(b, share, logs)?, b.cast(classes, dtype_of(b, logs)?)?)?;
            b.add(b.mul(a.target, 1.0 - share)?, each)?
        }
    };
    let product = by_class(b, b.mul(logs, target)?, a.weight, dim)?;
    let each = b.neg(b.reduce_sum(product).axes([dim]).keepdims(0).one()?)?;
    reduced(b, each, a.reduction)
}

/// The cosine of pairs that belong together should be 1, that of others below the margin.
fn cosine_embedding(b: &Lower, a: Embedding) -> Lowered<Var> {
    const EPSILON: f64 = 1e-12;
    let dim = rank(b, a.target)? as i64;
    let [x, y] = [to_float(b, a.input1)?, to_float(b, a.input2)?];
    let dot = |x: Var, y: Var| b.reduce_sum(b.mul(x, y)?).axes([dim]).keepdims(0).one();
    let square = |x: Var| b.add(dot(x, x)?, EPSILON);
    let lengths = b.sqrt(b.mul(square(x)?, square(y)?)?)?;
    let cosine = b.div(dot(x, y)?, lengths)?;
    let zero = like(b, 0.0, cosine)?;
    let together = b.sub(like(b, 1.0, cosine)?, cosine)?;
    let apart = positive(b, b.sub(cosine, a.margin)?)?;
    let is = |number: f64| b.equal(a.target, like(b, number, a.target)?);
    let apart = b.where_(is(-1.0)?, apart, zero)?;
    reduced(b, b.where_(is(1.0)?, together, apart)?, a.reduction)
}

fn margin_ranking(b: &Lower, a: Embedding) -> Lowered<Var> {
    let [x, y, t] = [a.input1, a.input2, a.target].map(Value::Var);
    let [x, y, t] = float_operands(b, [&x, &y, &t])?;
    let behind = b.mul(b.neg(t)?, b.sub(x, y)?)?;
    let behind = if a.margin == 0.0 { behind } else { b.add(behind, a.margin)? };
    reduced(b, positive(b, behind)?, a.reduction)
}

fn hinge_embedding(b: &Lower, a: Hinge) -> Lowered<Var> {
    let x = to_float(b, a.input)?;
    let zero = like(b, 0.0, x)?;
    let is = |number: f64| b.equal(a.target, like(b, number, a.target)?);
    let apart = positive(b, b.sub(like(b, a.margin, x)?, x)?)?;
    let apart = b.where_(is(1.0)?, zero, apart)?;
    let together = b.where_(is(-1.0)?, zero, x)?;
    reduced(b, b.add(apart, together)?, a.reduction)
}

fn triplet_margin(b: &Lower, a: Triplet) -> Lowered<Var> {
    let near = distance(b, [a.anchor, a.positive], a.p, a.eps, false)?;
    let mut far = distance(b, [a.anchor, a.negative], a.p, a.eps, false)?;
    if a.swap {
        far = b.min([far, distance(b, [a.positive, a.negative], a.p, a.eps, false)?])?;
    }
    reduced(b, positive(b, b.add(b.sub(near, far)?, a.margin)?)?, a.reduction)
}

/// Each other class should be behind the right one by a margin.
fn multi_margin(b: &Lower, a: MultiMargin) -> Lowered<Var> {
    let last = rank(b, a.input)? as i64 - 1;
    let target = b.unsqueeze(a.target, [last])?;
    let right = b.gather_elements(a.input, target).axis(last).one()?;
    let classes = known_size(b, a.input, last as usize);
    let message = "The number of classes must be known.";
    let n = classes.ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
    let behind = positive(b, b.add(b.sub(a.input, right)?, a.margin)?)?;
    let mut loss = if a.p == 2.0 { b.mul(behind, behind)? } else { behind };
    if let Some(weight) = a.weight {
        loss = b.mul(loss, b.gather(weight, target).one()?)?;
    }
    let others = b.not(b.equal(target, b.range(0i64, n, 1i64).one()?)?)?;
    let loss = select(b, others, loss, like(b, 0.0, loss)?)?;
    let loss = b.reduce_sum(loss).axes([last]).keepdims(0).one()?;
    reduced(b, b.div(loss, n as f64)?, a.reduction)
}
