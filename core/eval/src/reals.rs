//! Kernels that compute in `f64` whatever the element type: one instance of each instead of one per
//! type.

use crate::fault::{Fault, Outcome};
use crate::shape::cast;
use onnxd_ir::{DataType, Tensor};

/// The elements of a tensor of numbers.
pub(crate) fn reals(x: &Tensor) -> Outcome<Vec<f64>> {
    let found = x.to_reals().ok_or_else(|| Fault::dtype(x.dtype()))?;
    Ok(found.values)
}

/// Rounds to an element type.
pub(crate) fn stored(dtype: DataType, dims: &[usize], values: Vec<f64>) -> Outcome<Tensor> {
    cast(&Tensor::from_vec(dims, values), dtype)
}

/// The elements of a tensor that must have these sizes.
pub(crate) fn sized(x: &Tensor, dims: &[usize], what: &str) -> Outcome<Vec<f64>> {
    if x.dims() != dims {
        return Err(Fault::invalid(format!("{what} is {x:?}, its shape must be {dims:?}")));
    }
    reals(x)
}
