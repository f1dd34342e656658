//! Sizes of a convolution, and what is done to its output channels.

use super::window::{self, Window};
use crate::call::KernelCall;
use crate::fault::{Fault, Outcome};
use crate::gemm::Product;
use crate::steps::ElementStep;
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// Sizes of one convolution.
pub(super) struct ConvPlan {
    pub(super) window: Window,
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Input channels per group.
    pub(super) channels: usize,
    /// Output channels per group.
    pub(super) filters: usize,
}

/// The sizes that operands and attributes give, and those of the result.
pub(super) fn plan(call: &KernelCall, x: &Tensor, w: &Tensor) -> Outcome<(ConvPlan, Vec<usize>)> {
    let misfit = |why: &str| Fault::invalid(format!("input {x:?} and weights {w:?}: {why}"));
    refuse!(x.rank() < 3 || x.rank() != w.rank() => misfit("ranks differ or leave no spatial axis"));
    let groups = usize::try_from(call.int("group", 1)?).unwrap_or(0);
    let (x_dims, w_dims) = (x.dims(), w.dims());
    refuse!(groups == 0 || w_dims[0] % groups != 0 || w_dims[1].checked_mul(groups) != Some(x_dims[1]) =>
        misfit(&format!("channels do not fit group = {groups}")));
    let kernel = &w_dims[2..];
    if let Some(said) = call.ints("kernel_shape")?.filter(|k| !k.is_empty()) {
        let same = said.iter().copied().eq(kernel.iter().map(|k| *k as i64));
        refuse!(!same => misfit(&format!("kernel_shape is {said:?}")));
    }
    let window = Window::over(&window::axes(call, kernel)?, &x_dims[2..], false)?;
    let mut dims = vec![x_dims[0], w_dims[0]];
    dims.extend_from_slice(&window.output[window.output.len() - kernel.len()..]);
    let filters = w_dims[0] / groups;
    Ok((ConvPlan { window, batch: x_dims[0], groups, channels: w_dims[1], filters }, dims))
}

/// The sizes of the result, if the operands fit.
pub(crate) fn result_dims(call: &KernelCall, x: &Tensor, w: &Tensor) -> Option<Vec<usize>> {
    plan(call, x, w).ok().map(|(_, dims)| dims)
}

/// What stands at the beginning and at the end of every output channel.
pub(super) struct Ends<'a, T> {
    pub(super) bias: Option<&'a [T]>,
    pub(super) steps: &'a [ElementStep],
}

impl<T: Product> Ends<'_, T> {
    /// What the sums of a channel begin with.
    pub(super) fn start(&self, channel: usize) -> T {
        self.bias.map_or(T::default(), |bias| bias[channel])
    }

    /// `at` is the index of the run in the result.
    pub(super) fn end(&self, at: usize, run: &mut [T]) {
        T::follow(self.steps, at, run);
    }
}
