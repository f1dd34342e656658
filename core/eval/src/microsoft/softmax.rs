//! Softmax of integers: exponentials come from a table, quotients are rounded, ties to even.

use super::{ScaleAndZero, eight_bits};
use crate::call::{KernelCall, one};
use crate::dims;
use crate::fault::Outcome;
use crate::quant::{limits, quantized};
use crate::shape::cast;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// The largest entry of the table.
const TOP: f64 = 0x7f_ffff as f64;

/// `exp(scale * (i - 255))` in fixed point, such that `count` of them add up within 32 bits.
fn exponentials(scale: f32, count: usize) -> Vec<u64> {
    let unit = (f64::from(u32::MAX) / count as f64).min(TOP);
    let entry = |i: i32| (unit * (f64::from(i - 255) * f64::from(scale)).exp()) as u64;
    (0..256).map(entry).collect()
}

/// Along one axis; before opset 13 of the operator it replaces, along all from the axis on.
pub(super) fn q_linear_softmax(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (from, to) = (ScaleAndZero::read(call, 1, 2)?, ScaleAndZero::read(call, 3, 4)?);
    let axis = dims::axis(call.int("axis", -1)?, x.rank())?;
    let (outer, size, inner) = match call.int("opset", 13)? {
        13.. => dims::around(x.dims(), axis),
        _ => (x.dims()[..axis].iter().product(), x.dims()[axis..].iter().product(), 1),
    };
    call.room(DataType::Int64, x.dims())?;
    let mut values = eight_bits(x)?;
    let range = limits(x.dtype())?;
    let unit = to.scale.recip();
    refuse!(!(1.0..=u32::MAX as f32).contains(&unit) => "the scale {} leaves nothing of a quotient", to.scale);
    let unit = unit.floor();
    if values.is_empty() {
        return one(x.clone());
    }
    let table = exponentials(from.scale, size);
    for start in (0..outer).flat_map(|o| (0..inner).map(move |i| o * size * inner + i)) {
        let run = || (0..size).map(|k| start + k * inner);
        let top = run().map(|i| values[i]).max().unwrap_or(0);
        let entry = |q: i64| table[(q - top + 255) as usize];
        let sum: u64 = run().map(|i| entry(values[i])).sum();
        for i in run() {
            let quotient = entry(values[i]) as f64 * f64::from(unit) / sum.max(1) as f64;
            values[i] = quantized(quotient, to.zero, range);
        }
    }
    one(cast(&Tensor::from_vec(x.dims(), values), x.dtype())?)
}
