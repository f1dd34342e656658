//! The elements of a tensor as numbers, a block at a time, so that no second copy of it is held.

use half::{bf16, f16};
use onnxd_ir::{DataType, Tensor};

/// Elements of a block.
pub(crate) const BLOCK: usize = 4096;

/// Calls `f` with the elements of `x` in order, in blocks, and the place of the first of each;
/// `None` if they are not real numbers.
pub fn blocks(x: &Tensor, mut f: impl FnMut(usize, &[f64])) -> Option<()> {
    let f: &mut dyn FnMut(usize, &[f64]) = &mut f;
    match x.dtype() {
        DataType::Float => converted(&x.as_slice::<f32>()?, |v| f64::from(*v), f),
        DataType::Double => converted(&x.as_slice::<f64>()?, |v| *v, f),
        DataType::Float16 => converted(&x.as_slice::<f16>()?, |v| v.to_f64(), f),
        DataType::Bfloat16 => converted(&x.as_slice::<bf16>()?, |v| v.to_f64(), f),
        DataType::Int8 => converted(&x.as_slice::<i8>()?, |v| f64::from(*v), f),
        DataType::Uint8 => converted(&x.as_slice::<u8>()?, |v| f64::from(*v), f),
        _ => converted(&x.to_i64s()?, |v| *v as f64, f),
    }
    Some(())
}

fn converted<T>(x: &[T], number: impl Fn(&T) -> f64, f: &mut dyn FnMut(usize, &[f64])) {
    let mut block = [0.0; BLOCK];
    for (i, part) in x.chunks(BLOCK).enumerate() {
        block.iter_mut().zip(part).for_each(|(to, from)| *to = number(from));
        f(i * BLOCK, &block[..part.len()]);
    }
}
