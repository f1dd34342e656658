//! Geometry that convolutions and pooling share: how a window walks over the spatial axes.

use crate::call::Call;
use crate::fault::{Fault, Outcome};

/// The number of spatial axes everything is computed with.
pub(crate) const AXES: usize = 3;

/// Windows that reach further are refused, which keeps sums of sizes from overflowing.
const REACH_MAX: usize = 1 << 40;

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

/// The attributes of a window as the node writes them, one entry per spatial axis.
pub(crate) struct Walk {
    pub(crate) kernel: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) dilations: Vec<usize>,
    pub(crate) before: Vec<usize>,
    pub(crate) after: Vec<usize>,
    pub(crate) auto_pad: AutoPad,
}

/// Who decides about padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoPad {
    NotSet,
    SameUpper,
    SameLower,
    Valid,
}

impl Walk {
    /// Reads the attributes for a kernel of these sizes.
    pub(crate) fn read(call: &Call, kernel: &[usize]) -> Outcome<Walk> {
        let axes = kernel.len();
        if axes == 0 || axes > AXES {
            return Err(Fault::unsupported(format!("windows over {axes} axes are not computed")));
        }
        let list = |name: &str, count: usize, least: i64| -> Outcome<Vec<usize>> {
            let Some(list) = call.ints(name)?.filter(|l| !l.is_empty()) else {
                return Ok(vec![least as usize; count]);
            };
            if list.len() != count || list.iter().any(|n| *n < least || *n > i64::from(u32::MAX)) {
                return Err(Fault::invalid(format!(
                    "attribute `{name}` = {list:?} does not fit {axes} spatial axes"
                )));
            }
            Ok(list.iter().map(|n| *n as usize).collect())
        };
        let pads = list("pads", 2 * axes, 0)?;
        let auto_pad = match call.string("auto_pad", "NOTSET")? {
            "NOTSET" | "" => AutoPad::NotSet,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            "VALID" => AutoPad::Valid,
            other => return Err(Fault::invalid(format!("auto_pad `{other}` is not defined"))),
        };
        let fixed = auto_pad == AutoPad::NotSet;
        let side = |part: &[usize]| if fixed { part.to_vec() } else { vec![0; axes] };
        if kernel.contains(&0) {
            return Err(Fault::invalid("the kernel has no element"));
        }
        Ok(Walk {
            kernel: kernel.to_vec(),
            strides: list("strides", axes, 1)?,
            dilations: list("dilations", axes, 1)?,
            before: side(&pads[..axes]),
            after: side(&pads[axes..]),
            auto_pad,
        })
    }

    /// The walk over an input of these spatial sizes; `ceil` rounds the number of steps up.
    pub(crate) fn over(mut self, input: &[usize], ceil: bool) -> Outcome<Window> {
        let axes = self.kernel.len();
        let mut output = vec![0; axes];
        for i in 0..axes {
            let reach = reach(self.kernel[i], self.dilations[i])?;
            if matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
                output[i] = input[i].div_ceil(self.strides[i]);
                let needed = output[i].saturating_sub(1) * self.strides[i] + reach;
                let total = needed.saturating_sub(input[i]);
                let small = total / 2;
                let upper = self.auto_pad == AutoPad::SameUpper;
                self.before[i] = if upper { small } else { total - small };
                self.after[i] = total - self.before[i];
                continue;
            }
            let padded = input[i] + self.before[i] + self.after[i];
            let Some(room) = padded.checked_sub(reach) else {
                return Err(Fault::invalid(format!(
                    "a window of {reach} does not fit {padded} elements on spatial axis {i}"
                )));
            };
            output[i] = room / self.strides[i] + 1;
            if ceil && room % self.strides[i] != 0 {
                // A last window counts only if it starts within the input or the padding before it.
                let start = output[i] * self.strides[i];
                output[i] += usize::from(start < input[i] + self.before[i]);
            }
        }
        Ok(Window {
            kernel: filled(&self.kernel, 1),
            strides: filled(&self.strides, 1),
            dilations: filled(&self.dilations, 1),
            before: filled(&self.before, 0),
            after: filled(&self.after, 0),
            input: filled(input, 1),
            output: filled(&output, 1),
        })
    }
}

/// Elements from the first to the last one under a dilated kernel.
pub(crate) fn reach(kernel: usize, dilation: usize) -> Outcome<usize> {
    let span = (kernel - 1).checked_mul(dilation).and_then(|n| n.checked_add(1));
    span.filter(|n| *n <= REACH_MAX).ok_or_else(|| Fault::invalid("the window is too large"))
}

/// Up to three sizes as exactly three, leading axes filled with `with`.
pub(crate) fn filled(list: &[usize], with: usize) -> Spatial {
    let mut all = [with; AXES];
    all[AXES - list.len()..].copy_from_slice(list);
    all
}

impl Window {
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
