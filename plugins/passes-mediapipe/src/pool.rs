//! Pools that tell which cell of the window was the largest, and what puts numbers back there.

use super::{PIXELS_MAX, SAME, check_window, exactly, size, words};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::ir::window::{Padding, WindowAxis};
use onnxd_plugin_sdk::lower::{Lower, Lowered};

arguments! {
    /// `MaxPoolingWithArgmax2D(input)` and `MaxUnpooling2D(input, indices)`: the options are `TfLitePoolParams`.
    pub(super) struct Pool { inputs: Vec<Var>, options: Vec<i64> }
}

/// A window: its sizes and steps along height and width.
struct Window {
    padding: i64,
    strides: [i64; 2],
    kernel: [i64; 2],
    activation: i64,
}

impl Window {
    fn from_options(b: &GraphBuilder, options: &[i64]) -> Lowered<Window> {
        let [padding, stride_w, stride_h, width, height, activation] = words(b, options)?;
        check_window(b, padding, &[stride_w, stride_h, width, height])?;
        let (strides, kernel) = ([stride_h, stride_w], [height, width]);
        Ok(Window { padding, strides, kernel, activation })
    }

    /// The numbers of cells before and behind an axis of `size` cells over which the window stands `count` times.
    fn pads(&self, axis: usize, size: i64, count: i64) -> [i64; 2] {
        let (kernel, stride, padding) = (self.kernel[axis], self.strides[axis], Padding::SameUpper);
        let window = WindowAxis { kernel, stride, dilation: 1, padding };
        window.pads(size, count).unwrap_or_default()
    }

    /// What the activation makes of a result.
    fn activated(&self, b: &GraphBuilder, y: Var) -> Lowered<Var> {
        match self.activation {
            1 => b.relu(y),
            2 => b.clip(y).min(-1.0).max(1.0).one(),
            3 => b.clip(y).min(0.0).max(6.0).one(),
            _ => Ok(y),
        }
    }
}

/// Numbers from 0 on along an axis of four, times `step`, less `from`.
fn origins(b: &GraphBuilder, count: i64, axis: usize, [step, from]: [i64; 2]) -> Lowered<Var> {
    if !(0..=PIXELS_MAX).contains(&count) {
        let message = format!("{count} pixels along an axis are more than is supported.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let all: Vec<i64> = (0..count).map(|i| i * step - from).collect();
    let mut dims = [1; 4];
    dims[axis] = all.len();
    let all = Tensor::from_vec(dims, all);
    Ok(b.constant(all))
}

/// The largest number of each window, and its place there: `y * width + x`, and a tenth more so that it rounds down.
pub(super) fn max_pool(b: &Lower, a: Pool) -> Lowered<[Var; 2]> {
    let [x] = exactly(b, &a.inputs)?;
    let window = Window::from_options(b, &a.options)?;
    let sizes = [size(b, x, 1)?, size(b, x, 2)?];
    let mut pads = [0; 4];
    for axis in 0..2 {
        if window.padding == SAME {
            let count = (sizes[axis] + window.strides[axis] - 1) / window.strides[axis];
            [pads[axis], pads[axis + 2]] = window.pads(axis, sizes[axis], count);
        }
    }
    let first = b.transpose(x).perm([0, 3, 1, 2]).one()?;
    let call = b.max_pool(first).kernel_shape(window.kernel.to_vec());
    let [y, at] = call.strides(window.strides.to_vec()).pads(pads.to_vec()).outputs()?;
    let counts = [size(b, y, 2)?, size(b, y, 3)?];
    // Where the cell is in the picture, less where the window begins.
    let row = b.mod_(b.div(at, sizes[1])?, sizes[0]).one()?;
    let column = b.mod_(at, sizes[1]).one()?;
    let within = |place: Var, axis: usize| {
        let begin = origins(b, counts[axis], axis + 2, [window.strides[axis], pads[axis]])?;
        b.sub(place, begin)
    };
    let place = b.add(b.mul(within(row, 0)?, window.kernel[1])?, within(column, 1)?)?;
    let place = b.add(b.cast(place, Float)?, 0.1)?;
    let last = |x: Var| b.transpose(x).perm([0, 2, 3, 1]).one();
    Ok([last(window.activated(b, y)?)?, last(place)?])
}

/// Zeros, and numbers where the indices of their windows say.
pub(super) fn max_unpool(b: &Lower, a: Pool) -> Lowered<Var> {
    let [x, indices] = exactly(b, &a.inputs)?;
    let window = Window::from_options(b, &a.options)?;
    let counts = [size(b, x, 1)?, size(b, x, 2)?];
    let channels = size(b, x, 3)?;
    let product = |[a, c]: [i64; 2]| {
        let message = "The picture that is made has more numbers than is supported.";
        a.checked_mul(c).ok_or_else(|| b.diagnostic(Code::LayerParameter, message))
    };
    let sizes = [product([counts[0], window.kernel[0]])?, product([counts[1], window.kernel[1]])?];
    let all = product(sizes)?;
    let within = b.cast(indices, Int64)?;
    let place = |inner: Var, axis: usize| {
        let before = window.pads(axis, sizes[axis], counts[axis])[0];
        b.add(inner, origins(b, counts[axis], axis + 1, [window.strides[axis], before])?)
    };
    let row = place(b.div(within, window.kernel[1])?, 0)?;
    let column = place(b.mod_(within, window.kernel[1]).one()?, 1)?;
    let inside = |place: Var, size: i64| b.and(b.greater_or_equal(place, 0)?, b.less(place, size)?);
    let is_inside = b.and(inside(row, sizes[0])?, inside(column, sizes[1])?)?;
    // What is outside goes behind the picture, and is cut off.
    let to = b.where_(is_inside, b.add(b.mul(row, sizes[1])?, column)?, all)?;
    let flat = |x: Var| b.reshape(x, [0, counts[0] * counts[1], channels]).one();
    let zeros = b.concat([
        b.shape(x).start(0).end(1).one()?,
        b.constant(Tensor::vector(vec![all + 1, channels])),
    ]);
    let zeros = b.constant_of_shape(zeros.axis(0).one()?).one()?;
    let y = b.scatter_elements(zeros, flat(to)?, flat(x)?).axis(1).one()?;
    let y = b.slice(y, [0], [all]).axes([1]).one()?;
    b.reshape(y, [0, sizes[0], sizes[1], channels]).one()
}
