//! Attention inside windows, which may be shifted: each token sees those of its window.

use super::relative;
use super::swin::{Stage, Swin, padded};
use crate::layers::Layers;
use crate::transformer::project;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// What scores of tokens lose that were not neighbours before the shift.
const FAR: f32 = -100.0;

impl Swin {
    /// Attention of the tokens [B, H W, C] inside windows that lie `shift` further down and on the right.
    pub(super) fn windows(
        &self,
        net: &Layers<'_>,
        x: Var,
        name: &str,
        (stage, shift): (&Stage, Option<(usize, Var)>),
    ) -> Result<Var> {
        let (b, window) = (net.b, self.window);
        let ([rows, columns], size) = (stage.grid, stage.channels);
        let full = self.full(stage.grid);
        let (shift, mask) = shift.unzip();
        let shift = shift.unwrap_or(0);
        let [down, right] = full.map(|side| side / window);
        let shape = |x, sizes: &[usize]| {
            let sizes: Vec<i64> = sizes.iter().map(|n| *n as i64).collect();
            b.reshape(x, [&[-1], &sizes[..]].concat()).one()
        };
        let x = shape(x, &[rows, columns, size])?;
        let x = padded(net, x, [0, full[0] - rows, full[1] - columns, 0])?;
        let x = rolled(net, x, [shift; 2], full)?;
        let x = shape(x, &[down, window, right, window, size])?;
        let x = b.transpose(x).perm([0, 1, 3, 2, 4, 5]).one()?;
        let x = shape(x, &[window * window, size])?;
        let x = self.inside(net, x, name, (stage, mask))?;
        let x = shape(x, &[down, right, window, window, size])?;
        let x = b.transpose(x).perm([0, 1, 3, 2, 4, 5]).one()?;
        let x = shape(x, &[full[0], full[1], size])?;
        let mut x = rolled(net, x, full.map(|side| (side - shift) % side), full)?;
        if full != [rows, columns] {
            let ends = vec![rows as i64, columns as i64];
            x = b.slice(x, vec![0, 0], ends).axes(vec![1, 2]).one()?;
        }
        shape(x, &[rows * columns, size])
    }

    /// Attention of the tokens of each window: [B windows, N, C].
    fn inside(
        &self,
        net: &Layers<'_>,
        x: Var,
        name: &str,
        (stage, mask): (&Stage, Option<Var>),
    ) -> Result<Var> {
        let b = net.b;
        let (size, heads, tokens) = (stage.channels, stage.heads, self.window * self.window);
        let head = size / heads;
        let part = |role: &str, perm: [i64; 4]| {
            let x = project(net, x, &format!("{name}.self.{role}"), [size; 2])?;
            let x = b.reshape(x, vec![0, 0, heads as i64, head as i64]).one()?;
            b.transpose(x).perm(perm).one()
        };
        let (q, k) = (part("query", [0, 2, 1, 3])?, part("key", [0, 2, 3, 1])?);
        let scores = b.mul(b.mat_mul(q, k)?, (head as f64).powf(-0.5))?;
        let table = format!("{name}.self.relative_position_bias_table");
        let sizes = [relative::count([self.window; 2]), heads];
        let mut scores = b.add(scores, relative::bias(net, &table, sizes, stage.distances)?)?;
        if let Some(mask) = mask {
            // Scores by pictures and windows, because each window has its own mask.
            let [rows, columns] = self.full(stage.grid);
            let (heads, tokens) = (heads as i64, tokens as i64);
            let windows = (rows * columns) as i64 / tokens;
            let apart = b.reshape(scores, vec![-1, windows, heads, tokens, tokens]).one()?;
            let masked = b.add(apart, mask)?;
            scores = b.reshape(masked, vec![-1, heads, tokens, tokens]).one()?;
        }
        let mixed = b.mat_mul(b.softmax(scores).axis(-1).one()?, part("value", [0, 2, 1, 3])?)?;
        let together = b.transpose(mixed).perm([0, 2, 1, 3]).one()?;
        let together = b.reshape(together, vec![0, 0, size as i64]).one()?;
        project(net, together, &format!("{name}.output.dense"), [size; 2])
    }

    /// Rows and columns with the tokens of zeros that fill the last windows.
    fn full(&self, grid: [usize; 2]) -> [usize; 2] {
        grid.map(|side| side.next_multiple_of(self.window))
    }

    /// What every other block of a stage shifts windows by, and what is added to scores: [windows, 1, N, N].
    pub(super) fn shift(
        &self,
        net: &Layers<'_>,
        grid: [usize; 2],
        blocks: usize,
    ) -> Result<Option<(usize, Var)>> {
        let (b, window) = (net.b, self.window);
        let shift = window / 2;
        // Where one window takes in a whole side, there is nothing to shift.
        if blocks < 2 || shift == 0 || grid.iter().any(|side| *side <= window) {
            return Ok(None);
        }
        let regions = regions(self.full(grid), window, shift);
        let tokens = window * window;
        let regions = b.constant(Tensor::from_vec([regions.len() / tokens, 1, tokens], regions));
        let turned = b.transpose(regions).perm([0, 2, 1]).one()?;
        let near = b.unsqueeze(b.equal(turned, regions)?, vec![1])?;
        let number = |x: f32| b.constant(Tensor::scalar(x));
        Ok(Some((shift, b.where_(near, number(0.0), number(FAR))?)))
    }
}

/// The region that each token comes from, window by window. The shift brings tokens of two sides of a picture
/// together in a window; they are of different regions.
fn regions([rows, columns]: [usize; 2], window: usize, shift: usize) -> Vec<i32> {
    // Along a side: windows of neighbours alone, then in the last window those of this side and of the other one.
    let part = |at: usize, side: usize| match side - at {
        left if left > window => 0,
        left if left > shift => 1,
        _ => 2,
    };
    let mut regions = Vec::with_capacity(rows * columns);
    for top in (0..rows).step_by(window) {
        for left in (0..columns).step_by(window) {
            for row in top..top + window {
                let row = 3 * part(row, rows);
                regions.extend((left..left + window).map(|column| row + part(column, columns)));
            }
        }
    }
    regions
}

/// Rows and columns [B, H, W, C], of which so many of the first come last.
fn rolled(net: &Layers<'_>, mut x: Var, by: [usize; 2], full: [usize; 2]) -> Result<Var> {
    let b = net.b;
    for (axis, (by, side)) in by.into_iter().zip(full).enumerate() {
        if by > 0 {
            let parts = vec![by as i64, (side - by) as i64];
            let axis = axis as i64 + 1;
            let [first, rest] = b.split(x).split(parts).axis(axis).outputs()?;
            x = b.concat([rest, first]).axis(axis).one()?;
        }
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::regions;

    #[test]
    fn the_last_windows_of_a_shifted_picture_have_tokens_of_two_sides() {
        // Two windows of four by four beside each other, and one above the other.
        let found = regions([8, 8], 4, 2);
        let window = |i: usize| &found[16 * i..][..16];
        assert_eq!(window(0), [0; 16]);
        assert_eq!(window(1), [1, 1, 2, 2].repeat(4));
        assert_eq!(window(2), [[3; 8], [6; 8]].concat());
        assert_eq!(window(3), [[4, 4, 5, 5].repeat(2), [7, 7, 8, 8].repeat(2)].concat());
    }
}
