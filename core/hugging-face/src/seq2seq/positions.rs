//! Where tokens are: rows of tables, and buckets of distances.

use super::net::Net;
use super::{Positions, Stack};
use crate::diag::Diagnostic;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// Numbers of the tokens of a call, and how many there are with those of the cache.
pub(super) struct Places {
    /// `[S]`, from 0 or from the length of the cache on.
    pub(super) new: Var,
    /// `[T]`
    pub(super) all: Var,
}

impl Places {
    /// Those of `ids` [B, S] behind a cache of `past` tokens, which is a list of one number.
    pub(super) fn new(net: &Net<'_>, ids: Var, past: Option<Var>) -> Result<Places> {
        let b = net.b;
        let count = b.shape(ids).start(1).end(2).one()?;
        let number = |x| b.squeeze(x).axes(vec![0]).one();
        let Some(past) = past else {
            let all = b.range(0, number(count)?, 1).one()?;
            return Ok(Places { new: all, all });
        };
        let (first, end) = (number(past)?, number(b.add(past, count)?)?);
        Ok(Places { new: b.range(first, end, 1).one()?, all: b.range(0, end, 1).one()? })
    }
}

/// What is added to the embedding of tokens; nothing where scores tell where they are.
pub(super) fn added(net: &Net<'_>, stack: &Stack, places: &Places) -> Result<Option<Var>> {
    let Positions::Table { rows, first, is_sinusoidal } = stack.positions else { return Ok(None) };
    let (b, hidden) = (net.b, net.d.hidden);
    let name = format!("{}.embed_positions.weight", stack.name);
    let table = match net.w.optional(&name, &[rows, hidden])? {
        Some(table) => table,
        None if is_sinusoidal => sinusoids(rows, hidden),
        None => net.w.tensor(&name, &[rows, hidden])?,
    };
    let at = if first == 0 { places.new } else { b.add(places.new, first as i64)? };
    b.gather(net.constant(&name, table), at).one().map(Some)
}

/// `sin(p / 10000^(2m / E))` for all m, then the cosines: one half of a row each.
pub(super) fn sinusoids(rows: usize, hidden: usize) -> Tensor {
    let sines = hidden.div_ceil(2);
    let element = |p: usize, i: usize| {
        let m = if i < sines { i } else { i - sines };
        let angle = p as f64 / 10000f64.powf(2.0 * m as f64 / hidden as f64);
        (if i < sines { angle.sin() } else { angle.cos() }) as f32
    };
    let numbers = (0..rows).flat_map(|p| (0..hidden).map(move |i| element(p, i)));
    Tensor::from_vec([rows, hidden], numbers.collect::<Vec<f32>>())
}

/// What scores change by, by how far keys are: [1, heads, S, T]. Only the encoder tells keys behind from keys ahead.
pub(super) fn relative(net: &Net<'_>, stack: &Stack, places: &Places) -> Result<Option<Var>> {
    let Positions::Relative { buckets, furthest } = stack.positions else { return Ok(None) };
    let (b, both_ways) = (net.b, stack.cross.is_none());
    let (query, key) = (b.unsqueeze(places.new, vec![1])?, places.all);
    let bound = |x: i64| b.constant(Tensor::scalar(x));
    let furthest = furthest as i64;
    let far = b.clip(b.sub(key, query)?).min(bound(-furthest)).max(bound(furthest)).one()?;
    let table: Vec<i64> = (-furthest..=furthest)
        .map(|far| bucket(far, buckets as i64, furthest, both_ways))
        .collect();
    let bucket = b.gather(b.constant(Tensor::vector(table)), b.add(far, furthest)?).one()?;
    let name = format!(
        "{}.{}.0.layer.0.SelfAttention.relative_attention_bias.weight",
        stack.name, stack.list
    );
    let weight = net.constant(&name, net.w.tensor(&name, &[buckets, stack.heads])?);
    let bias = b.transpose(b.gather(weight, bucket).one()?).perm(vec![2, 0, 1]).one()?;
    b.unsqueeze(bias, vec![0]).map(Some)
}

/// The bucket of a key that is so far ahead. Half of the buckets hold one distance each, the others ever more, up to
/// `furthest`. In float32, as Transformers computes them: where a logarithm is nearly whole, that decides.
fn bucket(far: i64, buckets: i64, furthest: i64, both_ways: bool) -> i64 {
    let (first, buckets, distance) = match both_ways {
        true => (if far > 0 { buckets / 2 } else { 0 }, buckets / 2, far.abs()),
        false => (0, buckets, -far.min(0)),
    };
    let exact = buckets / 2;
    if distance < exact {
        return first + distance;
    }
    let whole = (furthest as f64 / exact as f64).ln() as f32;
    let share = (distance as f32 / exact as f32).ln() / whole;
    let rest = (share * (buckets - exact) as f32) as i64;
    first + (exact + rest).min(buckets - 1)
}

/// 0, or the least number for keys that are padding: [B, 1, 1, T].
pub(super) fn padding(net: &Net<'_>, mask: Var) -> Result<Var> {
    let b = net.b;
    let is_token = b.unsqueeze(b.cast(mask, DataType::Bool)?, vec![1, 2])?;
    hidden(net, is_token)
}

/// The same for keys behind each query: [S, T].
pub(super) fn later(net: &Net<'_>, places: &Places) -> Result<Var> {
    let query = net.b.unsqueeze(places.new, vec![1])?;
    hidden(net, net.b.less_or_equal(places.all, query)?)
}

fn hidden(net: &Net<'_>, is_seen: Var) -> Result<Var> {
    let number = |x: f32| net.b.constant(Tensor::scalar(x));
    // Not infinity: a row without any token must have numbers.
    net.b.where_(is_seen, number(0.0), number(f32::MIN))
}

/// Numbers that buckets can be made of: at most so many distances have an entry.
pub(super) const FURTHEST_MAX: usize = 1 << 16;

/// Whether there are buckets for distances below `furthest`.
pub(super) fn checked(
    buckets: usize,
    furthest: usize,
    wrong: impl Fn(&str) -> Diagnostic,
) -> Result<Positions> {
    // The encoder has half of them for each side, and a half of these for single distances.
    if buckets < 4 || furthest <= buckets / 2 || furthest > FURTHEST_MAX {
        return Err(wrong(&format!("4 buckets at least, and {FURTHEST_MAX} distances at most")));
    }
    Ok(Positions::Relative { buckets, furthest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_more_the_further_they_are() {
        let of = |far| bucket(far, 32, 128, true);
        let near: Vec<i64> = [0, -1, -7, 1, 7].map(of).into();
        assert_eq!(near, [0, 1, 7, 17, 23]);
        assert_eq!([-8, -16, -32, -64, -128, 500].map(of), [8, 10, 12, 14, 15, 31]);
        let of = |far| bucket(far, 32, 128, false);
        assert_eq!([3, 0, -15, -16, -127, -128].map(of), [0, 0, 15, 16, 31, 31]);
    }

    #[test]
    fn sines_come_before_cosines() {
        let table = sinusoids(2, 4);
        let expected = [0.0, 0.0, 1.0, 1.0, 1f32.sin(), 0.01f32.sin(), 1f32.cos(), 0.01f32.cos()];
        let table = table.as_slice::<f32>().unwrap();
        let worst = table.iter().zip(expected).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f32::max) < 1e-7);
    }
}
