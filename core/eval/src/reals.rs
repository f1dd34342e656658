//! Kernels that compute in `f64` whatever the element type: one instance of each instead of one per
//! type.

use crate::fault::{Fault, Outcome};
use crate::gemm::Product;
use crate::num::slice;
use crate::shape::cast;
use crate::vector;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use std::borrow::Cow;

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
    refuse!(x.dims() != dims => "{what} is {x:?}, its shape must be {dims:?}");
    reals(x)
}

/// `float` or `double`, for kernels that are written once for both.
pub(crate) trait Real: Product {
    /// The elements of a tensor.
    fn elements(x: &Tensor) -> Outcome<Cow<'_, [Self]>>;
    /// Rounds to an element type.
    fn stored(dtype: DataType, dims: &[usize], values: Vec<Self>) -> Outcome<Tensor>;
    /// Replaces numbers by their hyperbolic tangents.
    fn tangents(run: &mut [Self]);
    /// Replaces numbers by their softmax.
    fn softmax(run: &mut [Self]);
}

impl Real for f32 {
    fn elements(x: &Tensor) -> Outcome<Cow<'_, [f32]>> {
        if x.dtype() == DataType::Float {
            return slice::<f32>(x);
        }
        let wide = cast(x, DataType::Float)?;
        Ok(Cow::Owned(slice::<f32>(&wide)?.into_owned()))
    }

    fn stored(dtype: DataType, dims: &[usize], values: Vec<f32>) -> Outcome<Tensor> {
        let y = Tensor::from_vec(dims, values);
        if dtype == DataType::Float { Ok(y) } else { cast(&y, dtype) }
    }

    fn tangents(run: &mut [f32]) {
        vector::tanhs(run);
    }

    fn softmax(run: &mut [f32]) {
        vector::softmax(run);
    }
}

impl Real for f64 {
    fn elements(x: &Tensor) -> Outcome<Cow<'_, [f64]>> {
        reals(x).map(Cow::Owned)
    }

    fn stored(dtype: DataType, dims: &[usize], values: Vec<f64>) -> Outcome<Tensor> {
        stored(dtype, dims, values)
    }

    fn tangents(run: &mut [f64]) {
        run.iter_mut().for_each(|v| *v = v.tanh());
    }

    fn softmax(run: &mut [f64]) {
        let top = run.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        run.iter_mut().for_each(|v| *v = (*v - top).exp());
        let sum: f64 = run.iter().sum();
        run.iter_mut().for_each(|v| *v /= sum);
    }
}
