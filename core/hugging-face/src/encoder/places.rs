//! Which row of a table belongs to how far a key is from a query.

use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// Rows for distances `query - key` from `-reach` to `reach`. Beyond, they are those of the ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Places {
    reach: usize,
    rows: Vec<i64>,
}

impl Places {
    fn new(reach: usize, row: impl Fn(i64) -> i64) -> Places {
        let reach = reach as i64;
        Places { reach: reach as usize, rows: (-reach..=reach).map(row).collect() }
    }

    /// A row for each distance below `reach` on both sides, of a table of twice as many.
    pub(crate) fn each(reach: usize) -> Places {
        let last = 2 * reach as i64 - 1;
        Places::new(reach, |far| (far + reach as i64).clamp(0, last))
    }

    /// A row for each distance below `rows`, on both sides: of a table of `2 rows - 1`, as BERT has it.
    pub(crate) fn between(rows: usize) -> Places {
        let most = rows as i64 - 1;
        Places::new(rows - 1, |far| far + most)
    }

    /// Buckets of T5 and MPNet: half of them for keys behind the query. Of each half, the first half are single
    /// distances, and the others grow up to `longest`.
    pub(crate) fn halves(buckets: usize, longest: usize) -> Places {
        let half = (buckets / 2) as i64;
        let exact = half / 2;
        Places::new(longest, |far| {
            let n = far.abs();
            let first = if far < 0 { half } else { 0 };
            if n < exact {
                return first + n;
            }
            // In float32, as it is computed there.
            let log = (n as f32 / exact as f32).ln() / (longest as f32 / exact as f32).ln();
            let bucket = exact + (log * (half - exact) as f32) as i64;
            first + bucket.min(half - 1)
        })
    }

    /// Buckets of DeBERTa: single distances up to half of them, and logarithms up to `longest`, on both sides.
    pub(crate) fn logarithms(buckets: usize, longest: usize) -> Places {
        let (middle, span) = ((buckets / 2) as i64, buckets as i64);
        Places::new(longest, |far| {
            let n = far.abs();
            let bucket = if n <= middle {
                far
            } else {
                // In float32, as it is computed there.
                let part = |n: f32| (n / middle as f32).ln();
                let log = part(n as f32) / part((longest - 1) as f32) * (middle - 1) as f32;
                far.signum() * (log.ceil() as i64 + middle)
            };
            (bucket + span).clamp(0, 2 * span - 1)
        })
    }

    /// Rows for each query and key of a sequence: `[S, S]`.
    pub(super) fn rows(&self, b: &GraphBuilder, keys: Var) -> Result<Var> {
        let reach = self.reach as i64;
        let far = b.sub(b.unsqueeze(keys, vec![1])?, keys)?;
        let [least, most] = [-reach, reach].map(|end| b.constant(Tensor::scalar(end)));
        let near = b.clip(far).min(least).max(most).one()?;
        let rows = b.constant(Tensor::vector(self.rows.clone()));
        b.gather(rows, b.add(near, reach)?).one()
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    fn row(places: &Places, far: i64) -> i64 {
        places.rows[(far.clamp(-(places.reach as i64), places.reach as i64) + places.reach as i64)
            as usize]
    }

    #[test]
    fn distances_have_the_rows_of_their_formulas() {
        let each = Places::each(4);
        assert_eq!([-9, -4, -1, 0, 3, 4, 9].map(|far| row(&each, far)), [0, 0, 3, 4, 7, 7, 7]);
        let between = Places::between(3);
        assert_eq!([-2, 0, 2].map(|far| row(&between, far)), [0, 2, 4]);
        let halves = Places::halves(32, 128);
        assert_eq!(
            [0, 7, 8, 15, 16, 127, 128, 999].map(|far| row(&halves, far)),
            [0, 7, 8, 9, 10, 15, 15, 15]
        );
        assert_eq!([-1, -7, -8, -128].map(|far| row(&halves, far)), [17, 23, 24, 31]);
        // Buckets 8, longest 16: middle 4; ln(5/4) / ln(15/4) 3 = 0.51, ln(9/4) .. = 1.84, ln(15/4) .. = 3.
        let logarithms = Places::logarithms(8, 16);
        assert_eq!(
            [0, 4, 5, 9, 15, 16, 99].map(|far| row(&logarithms, far)),
            [8, 12, 13, 14, 15, 15, 15]
        );
        assert_eq!([-4, -5, -9, -15, -16].map(|far| row(&logarithms, far)), [4, 3, 2, 1, 0]);
    }
}
