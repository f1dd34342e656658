//! What all layers share: positions of tokens, and which keys a query sees.

use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// Tokens of a call and of the cache before them.
pub(super) struct Tokens {
    /// 1 for tokens and 0 for padding: [B, T].
    mask: Var,
    /// Where the new ones begin, counted from the end.
    begin: Var,
    /// Positions of the new tokens: [B, S].
    pub(super) positions: Var,
    /// Positions of all: [B, T].
    all: Var,
    /// Numbers of keys: `[T]`, and of queries: `[S, 1]`.
    keys: Var,
    queries: Var,
}

impl Tokens {
    /// A token's position is the number of tokens before it, without padding. That of padding on the left is -1, or 0
    /// where `are_rows` says that positions are rows of a table.
    pub(super) fn new(b: &GraphBuilder, ids: Var, mask: Var, are_rows: bool) -> Result<Tokens> {
        let size = |x| b.shape(x).start(1).end(2).one();
        let all = b.sub(b.cum_sum(mask, 1).one()?, 1)?;
        let first = b.constant(Tensor::scalar(0i64));
        let all = if are_rows { b.max([all, first])? } else { all };
        let begin = b.neg(size(ids)?)?;
        let new = |x, axis: i64| b.slice(x, begin, vec![i64::MAX]).axes(vec![axis]).one();
        let total = b.squeeze(size(mask)?).axes(vec![0]).one()?;
        let keys = b.range(0, total, 1).one()?;
        let queries = b.unsqueeze(new(keys, 0)?, vec![1])?;
        Ok(Tokens { mask, begin, positions: new(all, 1)?, all, keys, queries })
    }

    /// What is added to scores: 0, or the least number for keys that a query does not see: [B, 1, S, T].
    pub(super) fn bias(&self, b: &GraphBuilder, window: Option<usize>) -> Result<Var> {
        let mut seen = b.less_or_equal(self.keys, self.queries)?;
        if let Some(window) = window {
            let near = b.less(b.sub(self.queries, self.keys)?, window as i64)?;
            seen = b.and(seen, near)?;
        }
        self.least(b, seen)
    }

    /// The same of tokens that see those behind them, too.
    pub(super) fn both(&self, b: &GraphBuilder, window: Option<usize>) -> Result<Var> {
        let far = b.abs(b.sub(self.queries, self.keys)?)?;
        let most = window.map_or(i64::MAX, |window| window as i64);
        self.least(b, b.less(far, most)?)
    }

    fn least(&self, b: &GraphBuilder, seen: Var) -> Result<Var> {
        let is_token = b.unsqueeze(b.cast(self.mask, DataType::Bool)?, vec![1, 2])?;
        // Not infinity: a query of padding sees nothing, and its softmax must have a value.
        let least = Tensor::scalar(f32::MIN);
        b.where_(b.and(seen, is_token)?, b.constant(Tensor::scalar(0f32)), b.constant(least))
    }

    /// How far keys are, times `scale` and the slope of each head: [B, heads, 1, T].
    pub(super) fn alibi(&self, b: &GraphBuilder, heads: usize, scale: f64) -> Result<Var> {
        let far = b.unsqueeze(b.cast(self.all, DataType::Float)?, vec![1, 2])?;
        let slopes = slopes(heads).map(|slope| (slope * scale) as f32).collect::<Vec<f32>>();
        let slopes = Tensor::from_vec([heads, 1, 1], slopes);
        b.mul(far, b.constant(slopes))
    }

    /// 1 for new tokens and 0 for padding: [B, S, 1].
    pub(super) fn new_ones(&self, b: &GraphBuilder) -> Result<Var> {
        let new = b.slice(self.mask, self.begin, vec![i64::MAX]).axes(vec![1]).one()?;
        b.unsqueeze(b.cast(new, DataType::Float)?, vec![2])
    }
}

/// A geometric row for the greatest power of two, then every other one of the row of twice as many.
fn slopes(heads: usize) -> impl Iterator<Item = f64> {
    let row = |n: usize| (1..=n).map(move |i| 2f64.powf(-8.0 * i as f64 / n as f64));
    let n = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    row(n).chain(row(2 * n).step_by(2)).take(heads)
}

#[cfg(test)]
mod tests {
    use super::slopes;

    #[test]
    fn slopes_fill_up_with_every_other_one() {
        assert!(slopes(4).eq([0.25, 0.0625, 0.015625, 0.00390625]));
        assert!(slopes(6).skip(4).eq([0.5, 0.125]));
    }
}
