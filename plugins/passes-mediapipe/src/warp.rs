//! Pictures that a matrix moves.

use super::landmarks::rows;
use super::{PIXELS_MAX, exactly, size};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lower, Lowered};

arguments! {
    /// `TransformTensorBilinear(input, matrix)`: the matrix says where in the input a pixel of the result comes from.
    pub(super) struct Warp { inputs: Vec<Var>, output_size: Vec<i64>, mode: Option<String> }
}

/// Pixels are points at whole numbers.
pub(super) fn transformed(b: &Lower, a: Warp) -> Lowered<Var> {
    warped(b, a, false)
}

/// Pixels are squares: their middles are moved.
pub(super) fn transformed_between(b: &Lower, a: Warp) -> Lowered<Var> {
    warped(b, a, true)
}

fn warped(b: &GraphBuilder, a: Warp, by_middle: bool) -> Lowered<Var> {
    let [x, matrix] = exactly(b, &a.inputs)?;
    let is_bilinear = a.mode.as_deref().is_none_or(|mode| mode == "bilinear");
    let (&[height, width], true) = (&a.output_size[..], is_bilinear) else {
        let message = "The result has no height and width, or is not to be bilinear.";
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let (Some(columns), Some(lines)) = (numbers(width), numbers(height)) else {
        let message = format!("A picture of {height} x {width} is too large.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let sizes = [size(b, x, 1)?, size(b, x, 2)?];
    let channels = size(b, x, 3)?;
    let column = b.constant(Tensor::from_vec([1, columns.len(), 1], columns));
    let line = b.constant(Tensor::from_vec([lines.len(), 1, 1], lines));
    let place = |row: [Var; 4]| {
        let shift = match by_middle {
            true => b.sub(b.add(row[3], b.mul(b.add(row[0], row[1])?, 0.5)?)?, 0.5)?,
            false => row[3],
        };
        b.add(b.add(b.mul(column, row[0])?, b.mul(line, row[1])?)?, shift)
    };
    let [first, second] = rows(b, matrix)?;
    let (at_x, at_y) = (place(first)?, place(second)?);
    let inside = |at: Var, size: i64| {
        b.and(b.greater_or_equal(at, 0.0)?, b.less_or_equal(at, (size - 1) as f64)?)
    };
    let is_inside = b.and(inside(at_x, sizes[1])?, inside(at_y, sizes[0])?)?;
    let (low_x, low_y) = (b.floor(at_x)?, b.floor(at_y)?);
    let (share_x, share_y) = (b.sub(at_x, low_x)?, b.sub(at_y, low_y)?);
    // The kernel reads the first picture alone.
    let pixels = b.slice(x, [0], [1]).axes([0]).one()?;
    let pixels = b.reshape(pixels, [-1, channels]).one()?;
    let within = |at: Var, more: i64, size: i64| {
        let at = b.add(b.cast(at, Int64)?, more)?;
        let last = b.constant(Tensor::scalar(size - 1));
        b.min([b.max([at, b.constant(Tensor::scalar(0i64))])?, last])
    };
    let corner = |down: i64, right: i64| {
        let (y, x) = (within(low_y, down, sizes[0])?, within(low_x, right, sizes[1])?);
        let at = b.squeeze(b.add(b.mul(y, sizes[1])?, x)?).axes([2]).one()?;
        b.gather(pixels, at).axis(0).one()
    };
    let between = |low: Var, high: Var, share: Var| {
        b.add(b.mul(low, b.sub(1.0, share)?)?, b.mul(high, share)?)
    };
    let upper = between(corner(0, 0)?, corner(0, 1)?, share_x)?;
    let lower = between(corner(1, 0)?, corner(1, 1)?, share_x)?;
    let y = b.where_(is_inside, between(upper, lower, share_y)?, 0.0)?;
    b.unsqueeze(y, [0])
}

/// The whole numbers below `count`.
fn numbers(count: i64) -> Option<Vec<f32>> {
    (1..=PIXELS_MAX).contains(&count).then(|| (0..count).map(|i| i as f32).collect())
}
