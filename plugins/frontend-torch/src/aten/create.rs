//! Tensors that are made of sizes and numbers.

use super::Lower;
use super::dtype;
use super::sizes as of;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Value};

/// Most elements of a tensor of equal elements that becomes a constant.
pub(crate) const ELEMENTS_MAX: i64 = 1 << 10;

/// A tensor of equal elements.
///
/// # Errors
/// `N0203` if the type has no such number.
pub(crate) fn filled(b: &Lower, sizes: &[Value], with: &Value, to: DataType) -> Lowered<Var> {
    let element = dtype::operand(b, with, to)?;
    let count = of::all_known(b, sizes).filter(|dims| dims.iter().all(|n| *n >= 0));
    let count = count.map(|dims| (dims.iter().product::<i64>(), dims));
    let Some(one) = b.constant_of(element) else {
        let element = b.reshape(element, Vec::<i64>::new()).one()?;
        return if sizes.is_empty() {
            Ok(element)
        } else {
            b.expand(element, of::vector(b, sizes)?)
        };
    };
    match count {
        Some((n @ 0..=ELEMENTS_MAX, dims)) => {
            let dims: Vec<usize> = dims.iter().map(|n| *n as usize).collect();
            let bytes = one.bytes().repeat(n as usize);
            let tensor = Tensor::new(to, dims, bytes.into());
            Ok(b.constant(tensor.map_err(|why| super::shape::unsupported(b, &why.to_string()))?))
        }
        _ => {
            let one = one.reshaped(vec![1]);
            let one = one.map_err(|why| super::shape::unsupported(b, &why.to_string()))?;
            b.constant_of_shape(of::vector(b, sizes)?).value(one).one()
        }
    }
}
