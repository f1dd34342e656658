//! Convolutions. Everything runs over three spatial axes; fewer are filled up with axes of size
//! one.

mod deform;
mod depthwise;
mod forward;
mod plan;
mod transpose;
pub(crate) mod window;
mod winograd;

use crate::call::{KernelCall, KernelRow, one, raw, row};
use crate::exact;
use crate::fault::Outcome;
use crate::gemm::Product;
use crate::linear::centered;
use crate::num::{float, slice};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

use forward::convolved;
pub(crate) use plan::result_dims;

pub(crate) const ROWS: &[KernelRow] = &[
    row("Conv", conv),
    raw("ConvInteger", conv_integer),
    row("ConvTranspose", transpose::conv_transpose),
    row("DeformConv", deform::deform_conv),
    row("Col2Im", transpose::col2im),
];

fn conv(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, w) = (call.x(0)?, call.x(1)?);
    refuse!(x.dtype() != w.dtype() => "{x:?} and {w:?} differ in element type");
    if call.winograd && x.dtype() == DataType::Float {
        let bias = bias_of::<f32>(call, 2, w)?;
        if let Some(y) = forward::convolved_by_tiles(call, x, w, bias.as_deref())? {
            return one(y);
        }
    }
    float!(x.dtype(), T => {
        let bias = bias_of::<T>(call, 2, w)?;
        one(convolved::<T>(call, x, w, bias.as_deref())?)
    })
}

/// The bias, if given: one element per output channel.
fn bias_of<T: Product>(call: &KernelCall, i: usize, w: &Tensor) -> Outcome<Option<Vec<T>>> {
    let Some(b) = call.opt(i) else { return Ok(None) };
    refuse!(b.rank() != 1 || Some(&b.len()) != w.dims().first() => "bias {b:?} does not fit the weights {w:?}");
    Ok(Some(slice::<T>(b)?.into_owned()))
}

/// Exact in 32 bits. Padding stands for the zero point, so that it contributes nothing.
fn conv_integer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = centered(call.x(0)?, call.opt(2), false)?;
    let w = centered_weights(call.x(1)?, call.opt(3))?;
    one(integer_convolution(call, &x, &w, None)?)
}

/// The convolution of centered integers, plus `bias` per output channel, modulo 2^32.
pub(crate) fn integer_convolution(
    call: &KernelCall,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[i32]>,
) -> Outcome<Tensor> {
    let depth = w.dims().iter().skip(1).product();
    let sums = match exact::as_floats(depth, x, w)? {
        [x, w] if x.dtype() == DataType::Float => convolved::<f32>(call, &x, &w, None)?,
        [x, w] => convolved::<f64>(call, &x, &w, None)?,
    };
    let sums = exact::integers(&sums)?;
    let Some(bias) = bias else { return Ok(sums) };
    let mut y = slice::<i32>(&sums)?.into_owned();
    let area: usize = sums.dims().iter().skip(2).product();
    for (i, run) in y.chunks_mut(area.max(1)).enumerate() {
        run.iter_mut().for_each(|v| *v = v.wrapping_add(bias[i % bias.len()]));
    }
    Ok(Tensor::from_vec(sums.dims(), y))
}

/// Weights minus their zero point, which is a scalar or has one element per output channel.
pub(crate) fn centered_weights(w: &Tensor, zero: Option<&Tensor>) -> Outcome<Tensor> {
    let Some(zero) = zero.filter(|z| z.len() != 1) else { return centered(w, zero, false) };
    refuse!(zero.rank() != 1 || Some(&zero.len()) != w.dims().first() =>
        "zero point {zero:?} does not fit the weights {w:?}");
    let dims: Vec<usize> = std::iter::once(zero.len())
        .chain(std::iter::repeat_n(1, w.rank().saturating_sub(1)))
        .collect();
    centered(w, Some(&zero.reshaped(dims)?), false)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod winograd_tests;
