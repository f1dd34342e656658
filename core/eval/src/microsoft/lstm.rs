//! LSTM on 8-bit weights, whose other operands are quantized as they come.

use crate::call::KernelCall;
use crate::cells::transposed;
use crate::fault::{Fault, Outcome};
use crate::reals::reals;
use crate::recurrent::quantized_lstm;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// Weights `[directions, rows, gates * hidden]` as exact numbers in the order of `LSTM`; scale and
/// zero point belong to a direction, or to each of its columns.
fn weights(call: &KernelCall, i: usize, scale: usize) -> Outcome<Tensor> {
    let (w, scale, zero) = (call.x(i)?, call.x(scale)?, call.x(scale + 1)?);
    let [directions, rows, columns] = *w.dims() else {
        return Err(Fault::invalid(format!("{w:?} does not have three axes")));
    };
    call.room(DataType::Double, w.dims())?;
    let (scales, zeros) = (reals(scale)?, reals(zero)?);
    let per_column = scales.len() == directions.saturating_mul(columns);
    refuse!(zeros.len() != scales.len() || !(per_column || scales.len() == directions) =>
        "{scale:?} and {zero:?} do not fit {w:?}");
    let real = |(i, q): (usize, f64)| {
        let (direction, column) = (i / (rows * columns), i % columns);
        let at = if per_column { direction * columns + column } else { direction };
        (q - zeros[at]) * scales[at]
    };
    let values = reals(w)?.into_iter().enumerate().map(real).collect();
    transposed(&Tensor::from_vec(w.dims(), values), &[0, 2, 1])
}

/// The inputs of `LSTM`, then scale and zero point of both weights.
pub(super) fn dynamic_quantize_lstm(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let mut inputs = call.inputs.to_vec();
    inputs.truncate(8);
    call.x(11)?;
    (inputs[1], inputs[2]) = (Some(weights(call, 1, 8)?), Some(weights(call, 2, 10)?));
    quantized_lstm(&KernelCall { inputs: &inputs, ..*call })
}
