//! Random numbers that follow from a seed: the generator Philox 4x32-10, in integers of 64 bits.
//!
//! A call computes numbers in groups of four words of 32 bits. Group `i` is the counter plus `i`, mixed by ten rounds.
//!
//! Source: <https://www.thesalmons.org/john/random123/papers/random123sc11.pdf>

use super::create::{number, scalar};
use super::shape::int64s;
use super::{Lower, RowContext, dtype_of};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Bfloat16, Double, Float, Float16};
use onnxd_plugin_sdk::ir::DataType::{Int32, Int64, Uint32, Uint64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};
use std::f64::consts::TAU;

/// What words are multiplied by, and what is added to the key for each round.
const FACTORS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const STEPS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;
/// The key that TensorFlow scrambles seeds with.
const SCRAMBLE: [i64; 2] = [0x3ec8_f720, 0x0246_1e29];
/// The algorithms by number: Philox, and the choice of the device, which is Philox too.
const ALGORITHMS: [i64; 2] = [1, 3];
/// Logarithms are taken of numbers from here on.
const LEAST: f64 = 1.0e-7;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "StatelessRandomUniform" => |b, shape: Operand, seed: Var, dtype: ElementType| {
            uniform(b, &shape, &Philox::seeded(b, seed)?, dtype.0)
        };
        "StatelessRandomNormal" => |b, shape: Operand, seed: Var, dtype: ElementType| {
            normal(b, &shape, &Philox::seeded(b, seed)?, dtype.0)
        };
        "StatelessRandomUniformFullInt" => |b, shape: Operand, seed: Var, dtype: ElementType| {
            integers(b, &shape, &Philox::seeded(b, seed)?, dtype.0)
        };
        "StatelessRandomUniformInt" => |b, shape: Operand, seed: Var, minval: Var, maxval: Var, dtype: ElementType| {
            within(b, &shape, &Philox::seeded(b, seed)?, [minval, maxval], dtype.0)
        };
        "StatelessRandomUniformV2" => |b, a: Keyed| uniform(b, &a.shape, &Philox::keyed(b, &a)?, a.dtype.0);
        "StatelessRandomNormalV2" => |b, a: Keyed| normal(b, &a.shape, &Philox::keyed(b, &a)?, a.dtype.0);
        "StatelessRandomUniformFullIntV2" => |b, a: Keyed| integers(b, &a.shape, &Philox::keyed(b, &a)?, a.dtype.0);
        "StatelessRandomUniformIntV2" => |b, a: KeyedRange| {
            let KeyedRange { shape, key, counter, alg, minval, maxval, dtype } = a;
            let keyed = Keyed { shape, key, counter, alg, dtype };
            within(b, &keyed.shape, &Philox::keyed(b, &keyed)?, [minval, maxval], dtype.0)
        };
        "StatelessRandomGetKeyCounter" => |b, seed: Var| {
            let Philox { key, counter } = Philox::seeded(b, seed)?;
            Ok([whole(b, &key)?, whole(b, &counter)?])
        };
        "StatelessRandomGetKeyCounterAlg" => |b, seed: Var| {
            let Philox { key, counter } = Philox::seeded(b, seed)?;
            let algorithm = b.constant(Tensor::scalar(ALGORITHMS[0] as i32));
            Ok([whole(b, &key)?, whole(b, &counter)?, algorithm])
        };
        "StatelessRandomGetAlg" => |b, _: Nothing| Ok(b.constant(Tensor::scalar(ALGORITHMS[0] as i32)));
    }
}

arguments! {
    /// `StatelessRandomUniformV2`
    struct Keyed { shape: Operand, key: Var, counter: Var, alg: i64, dtype: ElementType }
    /// `StatelessRandomUniformIntV2`
    struct KeyedRange {
        shape: Operand, key: Var, counter: Var, alg: i64, minval: Var, maxval: Var, dtype: ElementType,
    }
    /// `StatelessRandomGetAlg`
    struct Nothing {}
}

/// Words of 32 bits, held in integers of 64; the lowest comes first.
#[derive(Clone, Copy, Debug)]
struct Philox {
    key: [Var; 2],
    counter: [Var; 4],
}

impl Philox {
    /// The state that TensorFlow makes of two seeds.
    fn seeded(b: &GraphBuilder, seed: Var) -> Lowered<Philox> {
        let seed = b.cast(b.cast(seed, Int64)?, Uint64)?;
        let constant = |word: i64| b.constant(scalar(word, Uint64));
        let key = SCRAMBLE.map(constant);
        let mixed = rounds(b, Philox { key, counter: words(b, seed)? })?;
        let zero = constant(0);
        Ok(Philox { key: [mixed[0], mixed[1]], counter: [zero, zero, mixed[2], mixed[3]] })
    }

    fn keyed(b: &GraphBuilder, a: &Keyed) -> Lowered<Philox> {
        if !ALGORITHMS.contains(&a.alg) {
            let message = format!("Of the generators, Philox is converted, not number {}.", a.alg);
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
        let key = b.gather(a.key, 0).axis(0).one()?;
        Ok(Philox { key: [low(b, key)?, high(b, key)?], counter: words(b, a.counter)? })
    }

    /// The words of so many groups, one row for each.
    fn drawn(&self, b: &GraphBuilder, groups: Var) -> Lowered<[Var; 4]> {
        let mut carried = b.cast(b.range(0, groups, 1).one()?, Uint64)?;
        let mut counter = self.counter;
        for word in &mut counter {
            let sum = b.add(*word, carried)?;
            (*word, carried) = (low(b, sum)?, high(b, sum)?);
        }
        rounds(b, Philox { key: self.key, counter })
    }
}

fn low(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.mod_(x, b.constant(scalar(1 << 32, Uint64))).one()
}

fn high(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.div(x, b.constant(scalar(1 << 32, Uint64)))
}

fn joined(b: &GraphBuilder, low: Var, high: Var) -> Lowered<Var> {
    b.add(b.mul(high, b.constant(scalar(1 << 32, Uint64)))?, low)
}

/// The four words of a vector of two numbers.
fn words(b: &GraphBuilder, both: Var) -> Lowered<[Var; 4]> {
    let at = |i: i64| b.gather(both, i).axis(0).one();
    let (first, second) = (at(0)?, at(1)?);
    Ok([low(b, first)?, high(b, first)?, low(b, second)?, high(b, second)?])
}

/// Pairs of words as a vector.
fn whole(b: &GraphBuilder, all: &[Var]) -> Lowered<Var> {
    let pair = |pair: &[Var]| b.unsqueeze(joined(b, pair[0], pair[1])?, [0]);
    match all.chunks(2).map(pair).collect::<Lowered<Vec<_>>>()?[..] {
        [only] => Ok(only),
        ref both => b.concat(both).axis(0).one(),
    }
}

/// What ten rounds make of a counter.
fn rounds(b: &GraphBuilder, state: Philox) -> Lowered<[Var; 4]> {
    let constant = |word: i64| b.constant(scalar(word, Uint64));
    let Philox { mut key, counter: mut x } = state;
    for _ in 0..ROUNDS {
        let [first, second] =
            [b.mul(x[0], constant(FACTORS[0]))?, b.mul(x[2], constant(FACTORS[1]))?];
        let mixed = |product: Var, word: Var, key: Var| {
            b.bitwise_xor(b.bitwise_xor(high(b, product)?, word)?, key)
        };
        x = [
            mixed(second, x[1], key[0])?,
            low(b, second)?,
            mixed(first, x[3], key[1])?,
            low(b, first)?,
        ];
        key = [
            low(b, b.add(key[0], constant(STEPS[0]))?)?,
            low(b, b.add(key[1], constant(STEPS[1]))?)?,
        ];
    }
    Ok(x)
}

/// Numbers of the sizes `shape`, so many to a group, that `f` makes of the words.
fn filled(
    b: &Lower,
    shape: &Operand,
    state: &Philox,
    per_group: i64,
    f: impl FnOnce(&GraphBuilder, [Var; 4]) -> Lowered<Vec<Var>>,
) -> Lowered<Var> {
    if b.opset() < 18 {
        let message = "The bits of two integers are combined from opset 18 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let sizes = match int64s(b, shape)? {
        Operand::Ints(sizes) => b.constant(Tensor::vector(sizes)),
        Operand::Var(sizes) => sizes,
        _ => b.constant(Tensor::vector(Vec::<i64>::new())),
    };
    let count = b.reduce_prod(sizes).keepdims(0).one()?;
    let groups = b.div(b.add(count, per_group - 1)?, per_group)?;
    let all = f(b, state.drawn(b, groups)?)?;
    let columns =
        all.into_iter().map(|part| b.unsqueeze(part, [1])).collect::<Lowered<Vec<_>>>()?;
    let flat = b.reshape(b.concat(columns).axis(1).one()?, [-1]).one()?;
    let cut = b.slice(flat, [0], b.unsqueeze(count, [0])?).axes([0]).one()?;
    b.reshape(cut, sizes).allowzero(1).one()
}

/// The lowest bits of words as numbers from zero on, below one.
fn share(b: &GraphBuilder, word: Var, bits: u32, to: DataType) -> Lowered<Var> {
    let kept = b.mod_(word, b.constant(scalar(1 << bits, Uint64))).one()?;
    b.mul(b.cast(kept, to)?, b.constant(number(0.5f64.powi(bits as i32), to)))
}

/// Two words as a number of 52 bits.
fn wide_share(b: &GraphBuilder, first: Var, second: Var) -> Lowered<Var> {
    let high = b.mod_(first, b.constant(scalar(1 << 20, Uint64))).one()?;
    share(b, joined(b, second, high)?, 52, Double)
}

fn uniform(b: &Lower, shape: &Operand, state: &Philox, dtype: DataType) -> Lowered<Var> {
    let bits = match dtype {
        Double => {
            return filled(b, shape, state, 2, |b, x| {
                Ok(vec![wide_share(b, x[0], x[1])?, wide_share(b, x[2], x[3])?])
            });
        }
        Float16 => 10,
        Bfloat16 => 7,
        _ => 23,
    };
    let y = filled(b, shape, state, 4, |b, x| {
        x.into_iter().map(|word| share(b, word, bits, Float)).collect()
    })?;
    b.cast(y, dtype)
}

/// Two numbers of the normal distribution from two of the uniform one, by Box and Muller.
fn box_muller(b: &GraphBuilder, length: Var, angle: Var) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, length)?;
    let length = b.max([length, b.constant(number(LEAST, dtype))])?;
    let turn = b.mul(angle, b.constant(number(TAU, dtype)))?;
    let radius = b.sqrt(b.mul(b.log(length)?, -2.0)?)?;
    Ok([b.mul(b.sin(turn)?, radius)?, b.mul(b.cos(turn)?, radius)?])
}

fn normal(b: &Lower, shape: &Operand, state: &Philox, dtype: DataType) -> Lowered<Var> {
    if dtype == Double {
        return filled(b, shape, state, 2, |b, x| {
            box_muller(b, wide_share(b, x[0], x[1])?, wide_share(b, x[2], x[3])?).map(Vec::from)
        });
    }
    let y = filled(b, shape, state, 4, |b, x| {
        let pair =
            |at: usize| box_muller(b, share(b, x[at], 23, Float)?, share(b, x[at + 1], 23, Float)?);
        Ok([pair(0)?, pair(2)?].concat())
    })?;
    b.cast(y, dtype)
}

/// Integers of all values.
fn integers(b: &Lower, shape: &Operand, state: &Philox, dtype: DataType) -> Lowered<Var> {
    let narrow = matches!(dtype, Int32 | Uint32);
    let y = match narrow {
        true => filled(b, shape, state, 4, |_, x| Ok(x.to_vec()))?,
        false => filled(b, shape, state, 2, |b, x| {
            Ok(vec![joined(b, x[0], x[1])?, joined(b, x[2], x[3])?])
        })?,
    };
    b.cast(y, dtype)
}

/// Integers from one on, below another: what a division by their distance leaves.
fn within(
    b: &Lower,
    shape: &Operand,
    state: &Philox,
    [from, to]: [Var; 2],
    dtype: DataType,
) -> Lowered<Var> {
    let unsigned = if matches!(dtype, Int32 | Uint32) { Uint32 } else { Uint64 };
    let drawn = b.cast(integers(b, shape, state, unsigned)?, Uint64)?;
    let [from, to] = [b.cast(from, Int64)?, b.cast(to, Int64)?];
    let rest = b.mod_(drawn, b.cast(b.sub(to, from)?, Uint64)?).one()?;
    b.cast(b.add(b.cast(rest, Int64)?, from)?, dtype)
}
