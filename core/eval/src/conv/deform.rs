//! Deformable convolution: every kernel element samples the input bilinearly at an offset of its
//! own.

use super::bias_of;
use super::window::{self, Window};
use crate::call::{KernelCall, one};
use crate::fault::{Fault, Outcome};
use crate::gemm::Product;
use crate::num::{float, slice};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// Sizes of one deformable convolution.
struct DeformSizes {
    groups: usize,
    offset_groups: usize,
    channels: usize,
    filters: usize,
    depth: usize,
}

pub(super) fn deform_conv(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, w) = (call.x(0)?, call.x(1)?);
    float!(x.dtype(), T => one(deformed::<T>(call, x, w)?))
}

fn deformed<T: Product>(call: &KernelCall, x: &Tensor, w: &Tensor) -> Outcome<Tensor> {
    let misfit = || Fault::invalid(format!("input {x:?} does not fit the weights {w:?}"));
    let ([batch, channels, h, width], [filters, depth, kh, kw]) = (x.dims(), w.dims()) else {
        return Err(Fault::unsupported("only two spatial axes are computed"));
    };
    let groups = usize::try_from(call.int("group", 1)?).unwrap_or(0);
    let offset_groups = usize::try_from(call.int("offset_group", 1)?).unwrap_or(0);
    let divides = |n: usize, by: usize| by > 0 && n.is_multiple_of(by);
    let parts = [(channels, groups), (filters, groups), (channels, offset_groups)];
    refuse!(parts.iter().any(|(whole, groups)| !divides(**whole, *groups)) => misfit());
    refuse!(channels / groups != *depth => misfit());
    let s = DeformSizes {
        groups,
        offset_groups,
        channels: *channels,
        filters: *filters,
        depth: *depth,
    };
    let window = Window::over(&window::axes(call, &[*kh, *kw])?, &[*h, *width], false)?;
    let [_, oh, ow] = window.output;
    let (taps, area) = (window.taps(), window.outputs());
    let offsets = call.x(2)?;
    refuse!(offsets.dims() != [*batch, offset_groups * 2 * taps, oh, ow] => "offsets {offsets:?} do not fit");
    let mask = call.opt(4);
    refuse!(mask.is_some_and(|m| m.dims() != [*batch, offset_groups * taps, oh, ow]) => "the mask does not fit");
    let dims = vec![*batch, *filters, oh, ow];
    let mut y = vec![T::default(); call.room(T::DTYPE, &dims)?];
    let bias = bias_of::<T>(call, 3, w)?;
    let (values, weights, offsets) = (slice::<T>(x)?, slice::<T>(w)?, slice::<T>(offsets)?);
    let mask = mask.map(slice::<T>).transpose()?;
    let sample = |image: usize, channel: usize, tap: usize, position: usize| -> f64 {
        let group = channel / (s.channels / s.offset_groups);
        let at = (image * s.offset_groups + group) * taps + tap;
        let offset = |axis: usize| offsets[(2 * at + axis) * area + position].to_f64();
        let plane = &values[(image * s.channels + channel) * window.inputs()..][..window.inputs()];
        let gain = mask.as_ref().map_or(1.0, |m| m[at * area + position].to_f64());
        gain * bilinear(plane, &window, place(&window, tap, position, [offset(0), offset(1)]))
    };
    for (i, y) in y.iter_mut().enumerate() {
        let (image, filter, position) = (i / area / s.filters, i / area % s.filters, i % area);
        let group = filter / (s.filters / s.groups);
        let mut sum = bias.as_ref().map_or(0.0, |b| b[filter].to_f64());
        for c in 0..s.depth {
            for tap in 0..taps {
                let weight = weights[(filter * s.depth + c) * taps + tap].to_f64();
                sum += weight * sample(image, group * s.depth + c, tap, position);
            }
        }
        *y = T::from_f64(sum);
    }
    Ok(Tensor::from_vec(dims, y))
}

/// Where kernel element `tap` looks at output `position`.
fn place(window: &Window, tap: usize, position: usize, offset: [f64; 2]) -> [f64; 2] {
    let k = [tap / window.kernel[2], tap % window.kernel[2]];
    let o = [position / window.output[2], position % window.output[2]];
    std::array::from_fn(|a| {
        let regular = o[a] * window.strides[a + 1] + k[a] * window.dilations[a + 1];
        regular as f64 - window.before[a + 1] as f64 + offset[a]
    })
}

/// Bilinear sample, zero outside.
fn bilinear<T: Product>(plane: &[T], window: &Window, [y, x]: [f64; 2]) -> f64 {
    let [_, h, w] = window.input;
    let (top, left) = (y.floor(), x.floor());
    let mut sum = 0.0;
    for (row, row_gain) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
        for (column, gain) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
            let inside = row >= 0.0 && column >= 0.0 && row < h as f64 && column < w as f64;
            if inside {
                sum += row_gain * gain * plane[row as usize * w + column as usize].to_f64();
            }
        }
    }
    sum
}
