//! Transposed convolution: products of the input with the kernels, summed where windows overlap
//! (col2im).

use super::window::{self, AXES, Window};
use crate::call::{KernelCall, integers, one};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::gemm::{GemmSizes, Matrix, Product, multiply_add};
use crate::num::{Num, float, numeric, slice};
use crate::parallel::for_each_chunk;
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;
use onnxd_ir::window::WindowAxis;

pub(super) fn conv_transpose(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, w) = (call.x(0)?, call.x(1)?);
    refuse!(x.dtype() != w.dtype() => "{x:?} and {w:?} differ in element type");
    float!(x.dtype(), T => one(transposed::<T>(call, x, w)?))
}

/// The window seen from the output: its `input` is this operator's output.
fn window(call: &KernelCall, input: &[usize], kernel: &[usize]) -> Outcome<Window> {
    let axes = window::axes(call, kernel)?;
    let list = |name: &str| -> Outcome<Option<&[i64]>> {
        let list = call.ints(name)?.filter(|l| !l.is_empty());
        match list {
            Some(l) if l.len() != axes.len() || l.iter().any(|n| *n < 0) => Err(Fault::invalid(
                format!("attribute `{name}` = {l:?} does not fit {} spatial axes", axes.len()),
            )),
            list => Ok(list),
        }
    };
    let (extra, wanted) = (list("output_padding")?, list("output_shape")?);
    let made = |(i, axis): (usize, &WindowAxis)| {
        let at = |list: Option<&[i64]>| list.map(|list| list[i]);
        let made = axis.transposed(input[i] as i64, at(extra).unwrap_or(0), at(wanted));
        let (size, pads) = made.ok_or_else(|| Fault::invalid("the output is too large"))?;
        let misfit = |_| Fault::invalid("the padding exceeds the output");
        Ok((usize::try_from(size).map_err(misfit)?, pads))
    };
    let made = axes.iter().enumerate().map(made).collect::<Outcome<Vec<_>>>()?;
    let (output, pads): (Vec<usize>, Vec<[i64; 2]>) = made.into_iter().unzip();
    Ok(Window::of(&axes, &pads, &output, input))
}

fn transposed<T: Product>(call: &KernelCall, x: &Tensor, w: &Tensor) -> Outcome<Tensor> {
    let misfit = || Fault::invalid(format!("input {x:?} does not fit the weights {w:?}"));
    refuse!(x.rank() < 3 || x.rank() != w.rank() || x.dims()[1] != w.dims()[0] => misfit());
    let groups = usize::try_from(call.int("group", 1)?).unwrap_or(0);
    refuse!(groups == 0 || !x.dims()[1].is_multiple_of(groups) => misfit());
    let kernel = &w.dims()[2..];
    let window = window(call, &x.dims()[2..], kernel)?;
    let (channels, filters) = (x.dims()[1] / groups, w.dims()[1]);
    let all = filters.checked_mul(groups).ok_or_else(misfit)?;
    let mut dims = vec![x.dims()[0], all];
    dims.extend_from_slice(&window.input[AXES - kernel.len()..]);
    let total = call.room(T::DTYPE, &dims)?;
    call.room(T::DTYPE, &[window.taps(), window.outputs()])?;
    let (values, weights) = (slice::<T>(x)?, slice::<T>(w)?);
    let mut y = vec![T::default(); total];
    let (area, taps, inputs) = (window.inputs(), window.taps(), window.outputs());
    if let Some(b) = call.opt(2) {
        let bias = slice::<T>(b)?;
        refuse!(bias.len() != all => "bias {b:?} does not fit the weights {w:?}");
        y.chunks_mut(area.max(1)).enumerate().for_each(|(i, y)| y.fill(bias[i % all]));
    }
    for_each_chunk(&mut y, area, &|i, y| {
        let (image, filter) = (i / all, i % all);
        let (group, filter) = (filter / filters, filter % filters);
        let first = image * groups * channels + group * channels;
        let x = &values[first * inputs..(first + channels) * inputs];
        let w = &weights[(group * channels * filters + filter) * taps..];
        let mut unrolled = vec![T::default(); taps * inputs];
        let s = GemmSizes { m: taps, k: channels, n: inputs };
        let w = Matrix { data: w, rows: 1, columns: filters * taps };
        multiply_add(s, w, Matrix::new(x, inputs), &mut unrolled, inputs);
        roll_up(&window, &unrolled, y);
    });
    Ok(Tensor::from_vec(dims, y))
}

/// Adds rows (kernel element) of columns (window position) to the elements they stand for.
fn roll_up<T: Num>(window: &Window, unrolled: &[T], y: &mut [T]) {
    let ([_, o1, o2], [_, i1, i2], [_, k1, k2]) = (window.output, window.input, window.kernel);
    if o1 * o2 == 0 {
        return;
    }
    for (tap, row) in unrolled.chunks(window.outputs()).enumerate() {
        let k = [tap / (k1 * k2), tap / k2 % k1, tap % k2];
        let (first, end) = window.inner_range(k[2]);
        for (line, columns) in row.chunks(o2).enumerate() {
            let (a, b) = (window.source(0, line / o1, k[0]), window.source(1, line % o1, k[1]));
            let (Some(a), Some(b)) = (a, b) else { continue };
            let base = (a * i1 + b) * i2 + k[2] * window.dilations[2];
            for (o, x) in columns.iter().enumerate().take(end).skip(first) {
                let at = base + o * window.strides[2] - window.before[2];
                y[at] = y[at].plus(*x);
            }
        }
    }
}

/// Rearranges columns of blocks into an image, summing where blocks overlap.
pub(super) fn col2im(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let image = dims::sizes(&integers(call.x(1)?)?)?;
    let block = dims::sizes(&integers(call.x(2)?)?)?;
    let misfit = || Fault::invalid(format!("{x:?} does not fit image {image:?}, block {block:?}"));
    let ([batch, rows, columns], true) = (x.dims(), image.len() == block.len()) else {
        return Err(misfit());
    };
    let window = Window::over(&window::axes(call, &block)?, &image, false)?;
    let taps = window.taps();
    refuse!(window.outputs() != *columns || rows % taps != 0 => misfit());
    let channels = rows / taps;
    let dims = [&[*batch, channels], &image[..]].concat();
    let total = call.room_like(x, &dims)?;
    numeric!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut y = vec![T::default(); total];
        let area = window.inputs().max(1);
        for (y, x) in y.chunks_mut(area).zip(values.chunks((taps * columns).max(1))) {
            roll_up(&window, x, y);
        }
        one(Tensor::from_vec(dims, y))
    })
}
