//! Random numbers. Only their shape, type and distribution are those of torch.

use super::create::{dtype_or, filled};
use super::dtype::{self, dtype_of, operand};
use super::shape::{expanded_as, unsupported, without_axes};
use super::sizes::{self as of, rank};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Double, Float, Float16, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::rand" => |b, size: Vec<Value>, dtype: Option<i64>, names: Option<Value>| new(b, &size, dtype, UNIFORM);
        "aten::randn" => |b, size: Vec<Value>, dtype: Option<i64>, names: Option<Value>| new(b, &size, dtype, NORMAL);
        "aten::rand_like" => |b, input: Var, dtype: Option<i64>| cast(b, dtype, input, drawn(b, input, UNIFORM)?);
        "aten::randn_like" => |b, input: Var, dtype: Option<i64>| cast(b, dtype, input, drawn(b, input, NORMAL)?);
        "aten::randint" => randint;
        "aten::randint_like" => randint_like;
        "aten::random" => random;
        "aten::randperm" => randperm(n, dtype);
        "aten::uniform" => |b, a: Uniform| kept(b, a.input, drawn(b, a.input, Draw::Uniform(a.from, a.to))?);
        "aten::normal" | "aten::normal_functional" => |b, a: Normal| {
            kept(b, a.input, drawn(b, a.input, Draw::Normal(a.mean, a.std))?)
        };
        "aten::normal.Tensor_float" | "aten::normal.float_Tensor" | "aten::normal.Tensor_Tensor" => normal;
        "aten::normal.float_float" => |b, mean: f64, std: f64, size: Vec<Value>, dtype: Option<i64>| {
            new(b, &size, dtype, Draw::Normal(mean, std))
        };
        "aten::log_normal" => |b, a: Normal| kept(b, a.input, b.exp(drawn(b, a.input, Draw::Normal(a.mean, a.std))?)?);
        "aten::exponential" => |b, input: Var, lambd: f64| {
            let negative = b.log(b.sub(1.0, drawn(b, input, UNIFORM)?)?)?;
            kept(b, input, b.div(negative, -lambd)?)
        };
        "aten::cauchy" => |b, input: Var, median: f64, sigma: f64| {
            let turned = drawn(b, input, Draw::Uniform(-PI / 2.0, PI / 2.0))?;
            kept(b, input, b.add(b.mul(b.tan(turned)?, sigma)?, median)?)
        };
        "aten::geometric" => |b, input: Var, p: f64| {
            let log = b.log(b.sub(1.0, drawn(b, input, UNIFORM)?)?)?;
            kept(b, input, b.ceil(b.div(log, (1.0 - p).ln())?)?)
        };
        "aten::bernoulli" => bernoulli(input, p);
        "aten::multinomial" => multinomial(input, num_samples, replacement);
    }
}

use std::f64::consts::PI;

arguments! {
    struct Integers { low: Option<Value>, high: Value, size: Vec<Value>, dtype: Option<i64> }
    struct IntegersLike { input: Var, low: Option<Value>, high: Value, dtype: Option<i64> }
    struct Random { input: Var, from: Option<i64>, to: Option<i64> }
    struct Uniform { input: Var, from: f64, to: f64 }
    struct Normal { input: Var, mean: f64, std: f64 }
    struct Normals { mean: Value, std: Value }
}

/// A distribution.
#[derive(Clone, Copy)]
enum Draw {
    /// From a number up to another.
    Uniform(f64, f64),
    /// Mean and standard deviation.
    Normal(f64, f64),
}

const UNIFORM: Draw = Draw::Uniform(0.0, 1.0);
const NORMAL: Draw = Draw::Normal(0.0, 1.0);

/// The type in which runtimes draw for a tensor of another.
fn drawn_type(dtype: DataType) -> DataType {
    if matches!(dtype, Double | Float16) { dtype } else { Float }
}

/// Random numbers in a new shape.
fn made(b: &Lower, sizes: &[Value], dtype: DataType, draw: Draw) -> Lowered<Var> {
    let within = drawn_type(dtype);
    let Some(dims) = of::all_known(b, sizes) else {
        return drawn(b, filled(b, sizes, &Value::Int(0), within)?, draw);
    };
    match draw {
        Draw::Uniform(low, high) => {
            b.random_uniform().dtype(within).low(low).high(high).shape(dims).one()
        }
        Draw::Normal(mean, std) => {
            b.random_normal().dtype(within).mean(mean).scale(std).shape(dims).one()
        }
    }
}

/// Random numbers in the shape of `x`.
fn drawn(b: &Lower, x: Var, draw: Draw) -> Lowered<Var> {
    let within = drawn_type(dtype_of(b, x)?);
    match draw {
        Draw::Uniform(low, high) => {
            b.random_uniform_like(x).dtype(within).low(low).high(high).one()
        }
        Draw::Normal(mean, std) => {
            b.random_normal_like(x).dtype(within).mean(mean).scale(std).one()
        }
    }
}

fn new(b: &Lower, sizes: &[Value], dtype: Option<i64>, draw: Draw) -> Lowered<Var> {
    let to = dtype.map_or(Ok(Float), |number| dtype::named(b, number))?;
    b.cast(made(b, sizes, to, draw)?, to)
}

fn cast(b: &Lower, dtype: Option<i64>, x: Var, drawn: Var) -> Lowered<Var> {
    b.cast(drawn, dtype_or(b, dtype, x)?)
}

/// What is written into `x`, in its type.
fn kept(b: &Lower, x: Var, drawn: Var) -> Lowered<Var> {
    b.cast(drawn, dtype_of(b, x)?)
}

/// Whole numbers from `low` up to `high`, of numbers from 0 to 1.
fn whole(b: &Lower, unit: Var, low: &Value, high: &Value, to: DataType) -> Lowered<Var> {
    let dtype = dtype_of(b, unit)?;
    let span = of::minus(b, high, low)?;
    let below = b.floor(b.mul(unit, operand(b, &span, dtype)?)?)?;
    let found = match of::known(b, low) {
        Some(0) => below,
        _ => b.add(below, operand(b, low, dtype)?)?,
    };
    b.cast(found, to)
}

fn randint(b: &Lower, a: Integers) -> Lowered<Var> {
    let to = a.dtype.map_or(Ok(Int64), |number| dtype::named(b, number))?;
    let unit = made(b, &a.size, Float, UNIFORM)?;
    whole(b, unit, &a.low.unwrap_or(Value::Int(0)), &a.high, to)
}

fn randint_like(b: &Lower, a: IntegersLike) -> Lowered<Var> {
    let to = dtype_or(b, a.dtype, a.input)?;
    let unit = drawn(b, a.input, UNIFORM)?;
    whole(b, unit, &a.low.unwrap_or(Value::Int(0)), &a.high, to)
}

fn random(b: &Lower, a: Random) -> Lowered<Var> {
    let to = dtype_of(b, a.input)?;
    let most = match to {
        Bool => 2,
        to if to.is_float() => 1 << 24,
        to => 1i64 << (to.bits() - 1).min(24),
    };
    let (low, high) = (a.from.unwrap_or(0), a.to.unwrap_or(most));
    whole(b, drawn(b, a.input, UNIFORM)?, &Value::Int(low), &Value::Int(high), to)
}

fn randperm(b: &Lower, n: Value, dtype: Option<i64>) -> Lowered<Var> {
    let to = dtype.map_or(Ok(Int64), |number| dtype::named(b, number))?;
    let keys = made(b, std::slice::from_ref(&n), Float, UNIFORM)?;
    let [_, order] = b.top_k(keys, of::single(b, &n)?).axis(0).outputs()?;
    b.cast(order, to)
}

fn normal(b: &Lower, a: Normals) -> Lowered<Var> {
    let [mean, std] = dtype::float_operands(b, [&a.mean, &a.std])?;
    let whole = b.add(mean, std)?;
    b.add(mean, b.mul(std, drawn(b, whole, NORMAL)?)?)
}

fn bernoulli(b: &Lower, input: Var, p: Option<Value>) -> Lowered<Var> {
    let to = dtype_of(b, input)?;
    let chances = match p {
        None => dtype::to_float(b, input)?,
        Some(p) => {
            let within = match &p {
                Value::Var(p) => dtype_of(b, *p)?,
                _ => Float,
            };
            expanded_as(b, operand(b, &p, within)?, input)?
        }
    };
    // Not ONNX's Bernoulli: ONNX Runtime draws 1 with the probability of 0.
    b.cast(b.less(drawn(b, chances, UNIFORM)?, chances)?, to)
}

fn multinomial(b: &Lower, input: Var, num_samples: Value, replacement: bool) -> Lowered<Var> {
    let rank = rank(b, input)?;
    let x = if rank == 1 { b.unsqueeze(input, [0])? } else { input };
    let chances = b.log(x)?;
    let found = match (of::known(b, &num_samples), replacement) {
        (Some(n), true) => b.multinomial(chances).dtype(Int64).sample_size(n).one()?,
        (None, true) => {
            return Err(unsupported(b, "multinomial needs a number of samples that is known."));
        }
        (_, false) => {
            // The largest of log-chances with Gumbel noise are a draw without replacement.
            let noise =
                b.neg(b.log(b.neg(b.log(drawn(b, chances, Draw::Uniform(1e-20, 1.0))?)?)?)?)?;
            let keys = b.add(chances, noise)?;
            let [_, order] = b.top_k(keys, of::single(b, &num_samples)?).axis(1).outputs()?;
            order
        }
    };
    without_axes(b, found, if rank == 1 { vec![0] } else { vec![] })
}
