//! Biases of scores by how far apart two places of a window are.

use crate::layers::Layers;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// Rows of a table of distances, for each query and each key in a window: both counted row by row.
pub(super) fn distances([height, width]: [usize; 2]) -> Vec<i32> {
    let places = height * width;
    let row = |query: usize, key: usize| {
        let down = query / width + height - 1 - key / width;
        let right = query % width + width - 1 - key % width;
        (down * (2 * width - 1) + right) as i32
    };
    (0..places).flat_map(|query| (0..places).map(move |key| row(query, key))).collect()
}

/// How many distances there are in a window.
pub(super) fn count([height, width]: [usize; 2]) -> usize {
    (2 * height - 1) * (2 * width - 1)
}

/// The same with a token before all places. The last rows of the table are: from it, to it, and to itself.
pub(super) fn with_token(window: [usize; 2]) -> Vec<i32> {
    let [from, to, own] = [0, 1, 2].map(|i| (count(window) + i) as i32);
    let places = window[0] * window[1];
    let mut rows = vec![own];
    rows.extend(vec![from; places]);
    for query in distances(window).chunks(places) {
        rows.push(to);
        rows.extend(query);
    }
    rows
}

/// What is added to scores, by the table `name` and its rows: [1, heads, tokens, tokens].
pub(super) fn bias(
    net: &Layers<'_>,
    name: &str,
    [rows, heads]: [usize; 2],
    index: Var,
) -> Result<Var> {
    let b = net.b;
    let table = net.constant(name, net.w.tensor(name, &[rows, heads])?);
    let bias = b.transpose(b.gather(table, index).one()?).perm([2, 0, 1]).one()?;
    b.unsqueeze(bias, vec![0])
}

/// The rows for all pairs of so many tokens, as a constant.
pub(super) fn index(net: &Layers<'_>, tokens: usize, rows: Vec<i32>) -> Var {
    net.b.constant(Tensor::from_vec([tokens, tokens], rows))
}

#[cfg(test)]
mod tests {
    use super::{count, distances, with_token};

    #[test]
    fn places_find_the_row_of_their_distance() {
        // A window of two rows and three columns: distances from (-1, -2) to (1, 2), in 3 times 5 rows.
        let rows = distances([2, 3]);
        assert_eq!(count([2, 3]), 15);
        assert_eq!(rows[..6], [7, 6, 5, 2, 1, 0], "from the first place");
        assert_eq!(rows[30..], [14, 13, 12, 9, 8, 7], "from the last place");
        let middle = |i: usize| rows[i * 6 + i];
        assert!((0..6).all(|i| middle(i) == 7), "to itself");
    }

    #[test]
    fn the_token_before_them_has_rows_of_its_own() {
        let rows = with_token([1, 2]);
        assert_eq!(rows, [5, 3, 3, 4, 1, 0, 4, 2, 1]);
    }
}
