//! How large accumulators can become, whatever the input.

use crate::plan::Integers;

/// The largest magnitude of any partial sum of any output, over all inputs within `(lo, hi)`, of which
/// `terms` are added up. The bias is added last. Zeros around an input count as inputs, so
/// `lo <= 0 <= hi`.
pub(crate) fn accumulator_max(
    integers: &Integers,
    outputs: usize,
    terms: i64,
    (lo, hi): (i64, i64),
) -> i64 {
    let per_output = integers.weights.len().checked_div(outputs).unwrap_or(0).max(1);
    let biases = integers.bias.as_deref().unwrap_or(&[]);
    let rows = integers.weights.chunks(per_output).enumerate();
    let maxima = rows.map(|(output, weights)| {
        let (mut below, mut above) = (0i64, 0i64);
        for weight in weights {
            let (a, b) = (i64::from(*weight) * lo, i64::from(*weight) * hi);
            below = below.saturating_add(a.min(b));
            above = above.saturating_add(a.max(b));
        }
        let (below, above) = (below.saturating_mul(terms), above.saturating_mul(terms));
        let bias = biases.get(output).copied().unwrap_or(0);
        let ends = [below, above, below.saturating_add(bias), above.saturating_add(bias), bias];
        ends.iter().map(|x| x.saturating_abs()).max().unwrap_or(0)
    });
    maxima.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_reached_and_no_wider() {
        let integers = Integers { weights: vec![3, -5, 1, 1], bias: Some(vec![-7, 2]) };
        // Row 0 within 0..=255: from -5 * 255 - 7 to 3 * 255.
        assert_eq!(accumulator_max(&integers, 2, 1, (0, 255)), 5 * 255 + 7);
        assert_eq!(accumulator_max(&integers, 2, 4, (0, 255)), 4 * 5 * 255 + 7);
        // Row 0 within -128..=127: from -3 * 128 - 5 * 127 - 7 to 3 * 127 + 5 * 128.
        assert_eq!(accumulator_max(&integers, 2, 1, (-128, 127)), 3 * 128 + 5 * 127 + 7);
        let none = Integers { weights: vec![], bias: None };
        assert_eq!(accumulator_max(&none, 0, 1, (0, 255)), 0);
    }
}
