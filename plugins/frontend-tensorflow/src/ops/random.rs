//! Random numbers. They are others than those of TensorFlow: ONNX says a distribution, and no generator.

use super::shape::int64s;
use super::{Lower, RowContext, dtype_of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::special::ndtri;
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// The share of the normal distribution below minus two.
const TAIL: f64 = 0.022_750_131_948_179_2;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "RandomUniform" => |b, shape: Operand, seed: i64, seed2: i64, dtype: ElementType| {
            uniform(b, &shape, dtype.0, [0.0, 1.0], seeds(&[seed, seed2]))
        };
        "RandomStandardNormal" => |b, shape: Operand, seed: i64, seed2: i64, dtype: ElementType| {
            normal(b, &shape, dtype.0, seeds(&[seed, seed2]))
        };
        "TruncatedNormal" => |b, shape: Operand, seed: i64, seed2: i64, dtype: ElementType| {
            // The quantile of a share between those at two deviations.
            let share = uniform(b, &shape, Float, [TAIL, 1.0 - TAIL], seeds(&[seed, seed2]))?;
            b.cast(ndtri(b, share)?, dtype.0)
        };
        "RandomUniformInt" => whole;
        "RandomShuffle" => shuffle(value, seed, seed2);
        "Multinomial" => multinomial;
    }
}

arguments! {
    /// `RandomUniformInt`
    struct Whole { shape: Operand, minval: Var, maxval: Var, seed: i64, seed2: i64, tout: ElementType }
    /// `Multinomial`
    struct Multinomial { logits: Var, num_samples: i64, seed: i64, seed2: i64, output_dtype: ElementType }
}

/// Seeds of zero mean none.
fn seeds(both: &[i64]) -> Option<f64> {
    both.iter().find(|seed| **seed != 0).map(|seed| *seed as f64)
}

fn note(b: &Lower) {
    let message = "Random numbers are others than those of TensorFlow.";
    b.note(b.diagnostic(Code::LayerParameterIgnored, message));
}

/// A type that runtimes draw numbers of.
fn drawn(dtype: DataType) -> DataType {
    if dtype == Double { dtype } else { Float }
}

fn uniform(
    b: &Lower,
    shape: &Operand,
    dtype: DataType,
    [low, high]: [f64; 2],
    seed: Option<f64>,
) -> Lowered<Var> {
    note(b);
    let y = match int64s(b, shape)? {
        Operand::Ints(shape) => {
            let call = b.random_uniform().shape(shape).low(low).high(high);
            call.dtype(drawn(dtype)).seed(seed).one()?
        }
        shape => {
            let like = zeros(b, shape)?;
            b.random_uniform_like(like).low(low).high(high).dtype(drawn(dtype)).seed(seed).one()?
        }
    };
    b.cast(y, dtype)
}

fn normal(b: &Lower, shape: &Operand, dtype: DataType, seed: Option<f64>) -> Lowered<Var> {
    note(b);
    let y = match int64s(b, shape)? {
        Operand::Ints(shape) => {
            b.random_normal().shape(shape).dtype(drawn(dtype)).seed(seed).one()?
        }
        shape => b.random_normal_like(zeros(b, shape)?).dtype(drawn(dtype)).seed(seed).one()?,
    };
    b.cast(y, dtype)
}

fn zeros(b: &GraphBuilder, shape: Operand) -> Lowered<Var> {
    b.constant_of_shape(shape).one()
}

/// Integers from `minval` on, below `maxval`.
fn whole(b: &Lower, a: Whole) -> Lowered<Var> {
    let share = uniform(b, &a.shape, Double, [0.0, 1.0], seeds(&[a.seed, a.seed2]))?;
    let [low, high] = [b.cast(a.minval, Double)?, b.cast(a.maxval, Double)?];
    let count = b.sub(high, low)?;
    let step = b.floor(b.mul(share, count)?)?;
    b.cast(b.add(b.min([step, b.sub(count, 1.0)?])?, low)?, a.tout.0)
}

/// Rows in the order of random numbers.
fn shuffle(b: &Lower, value: Var, seed: i64, seed2: i64) -> Lowered<Var> {
    if rank(b, value)? == 0 {
        return Ok(value);
    }
    let count = b.shape(value).start(0).end(1).one()?;
    let keys = uniform(b, &count.into(), Float, [0.0, 1.0], seeds(&[seed, seed2]))?;
    let [_, order] = b.top_k(keys, count).outputs()?;
    b.gather(value, order).axis(0).one()
}

fn multinomial(b: &Lower, a: Multinomial) -> Lowered<Var> {
    note(b);
    let logits = if dtype_of(b, a.logits)? == Float { a.logits } else { b.cast(a.logits, Float)? };
    let to = if a.output_dtype.0 == Int64 { Int64 } else { Int32 };
    let call = b.multinomial(logits).sample_size(a.num_samples).dtype(to);
    b.cast(call.seed(seeds(&[a.seed, a.seed2])).one()?, a.output_dtype.0)
}
