//! Geometry that convolutions and pooling share: how a window walks over the spatial axes.

use crate::call::KernelCall;
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::window::{self, Padding, WindowAxis};

/// The number of spatial axes everything is computed with.
pub(crate) const AXES: usize = 3;

/// Windows that reach further are refused, which keeps sums of sizes from overflowing.
const REACH_MAX: i64 = 1 << 40;

/// So are larger pads.
const PADS_MAX: i64 = 1 << 32;

/// Sizes over the three spatial axes.
pub(crate) type Spatial = [usize; AXES];

/// A window and its walk. `before` is the padding in front of each axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: Spatial,
    pub(crate) strides: Spatial,
    pub(crate) dilations: Spatial,
    pub(crate) before: Spatial,
    pub(crate) after: Spatial,
    pub(crate) input: Spatial,
    pub(crate) output: Spatial,
}

/// The axes of a window over elements of these sizes.
pub(crate) fn axes(call: &KernelCall, kernel: &[usize]) -> Outcome<Vec<WindowAxis>> {
    if kernel.is_empty() || kernel.len() > AXES {
        let axes = kernel.len();
        return Err(Fault::unsupported(format!("windows over {axes} axes are not computed")));
    }
    let sizes: Vec<i64> = kernel.iter().map(|k| i64::try_from(*k).unwrap_or(i64::MAX)).collect();
    let axes = window::axes(|name| call.attr(name), &sizes).map_err(Fault::invalid)?;
    for axis in &axes {
        let Padding::Explicit([before, after]) = axis.padding else { continue };
        if !(0..=PADS_MAX).contains(&before) || !(0..=PADS_MAX).contains(&after) {
            return Err(Fault::invalid(format!("pads of {before} and {after} are not computed")));
        }
    }
    refuse!(kernel.contains(&0) => "the kernel of {kernel:?} has no element");
    let is_small = |axis: &WindowAxis| axis.reach().is_some_and(|reach| reach <= REACH_MAX);
    refuse!(!axes.iter().all(is_small) => "the window of {kernel:?} elements is too large");
    Ok(axes)
}

/// Up to three sizes as exactly three, leading axes filled with `with`.
fn filled(list: impl ExactSizeIterator<Item = usize>, with: usize) -> Spatial {
    let mut all = [with; AXES];
    let first = AXES - list.len();
    all[first..].iter_mut().zip(list).for_each(|(to, size)| *to = size);
    all
}

impl Window {
    /// The walk over an input of these spatial sizes; `ceil` rounds the number of steps up.
    pub(crate) fn over(axes: &[WindowAxis], input: &[usize], ceil: bool) -> Outcome<Window> {
        let placed = |(i, (axis, size)): (usize, (&WindowAxis, &usize))| {
            let size = *size as i64;
            let count = axis.count(size, ceil);
            let pads = count.and_then(|count| axis.pads(size, count));
            count.map(|n| n as usize).zip(pads).ok_or_else(|| {
                let [reach, padded] =
                    [axis.reach(), axis.padded(size)].map(Option::unwrap_or_default);
                Fault::invalid(format!(
                    "a window of {reach} does not fit {padded} elements on spatial axis {i}"
                ))
            })
        };
        let placed = axes.iter().zip(input).enumerate().map(placed).collect::<Outcome<Vec<_>>>()?;
        let (output, pads): (Vec<usize>, Vec<[i64; 2]>) = placed.into_iter().unzip();
        Ok(Window::of(axes, &pads, input, &output))
    }

    /// A walk whose pads and sizes are known.
    pub(crate) fn of(
        axes: &[WindowAxis],
        pads: &[[i64; 2]],
        input: &[usize],
        output: &[usize],
    ) -> Window {
        let each = |f: fn(&WindowAxis) -> i64| axes.iter().map(move |axis| f(axis) as usize);
        let side = |i: usize| pads.iter().map(move |pads| pads[i] as usize);
        Window {
            kernel: filled(each(|axis| axis.kernel), 1),
            strides: filled(each(|axis| axis.stride), 1),
            dilations: filled(each(|axis| axis.dilation), 1),
            before: filled(side(0), 0),
            after: filled(side(1), 0),
            input: filled(input.iter().copied(), 1),
            output: filled(output.iter().copied(), 1),
        }
    }

    /// Output positions of one channel.
    pub(crate) fn outputs(&self) -> usize {
        self.output.iter().product()
    }

    /// Input elements of one channel.
    pub(crate) fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of the kernel.
    pub(crate) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The input coordinate on `axis` under kernel element `k` at output position `o`; `None` in
    /// the padding.
    pub(crate) fn source(&self, axis: usize, o: usize, k: usize) -> Option<usize> {
        let padded = o * self.strides[axis] + k * self.dilations[axis];
        padded.checked_sub(self.before[axis]).filter(|i| *i < self.input[axis])
    }

    /// The output positions `[first, end)` on the last axis whose input under kernel element `k` is
    /// not padding.
    pub(crate) fn inner_range(&self, k: usize) -> (usize, usize) {
        let (stride, shift) = (self.strides[2], k * self.dilations[2]);
        let first = self.before[2].saturating_sub(shift).div_ceil(stride);
        let behind = (self.input[2] + self.before[2]).saturating_sub(shift);
        let end = behind.div_ceil(stride).min(self.output[2]);
        (first.min(end), end)
    }
}
