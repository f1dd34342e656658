//! The numbers that recurrent layers are computed in: `float`, or `double` where a layer is given in it or rounds its
//! operands itself.

use super::activations::Activation;
use crate::fault::Outcome;
use crate::gemm::Product;
use crate::num::slice;
use crate::reals::{reals, stored};
use crate::shape::cast;
use onnxd_ir::{DataType, Tensor};
use std::borrow::Cow;

pub(super) trait Real: Product {
    /// The elements of a tensor.
    fn elements(x: &Tensor) -> Outcome<Cow<'_, [Self]>>;
    /// Rounds to an element type.
    fn stored(dtype: DataType, dims: &[usize], values: Vec<Self>) -> Outcome<Tensor>;
    /// Replaces every number by the function of it.
    fn activate(f: &Activation, run: &mut [Self]);
    /// The left side of a product with 8-bit weights.
    fn rounded(values: &[Self]) -> Cow<'_, [Self]>;
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

    fn activate(f: &Activation, run: &mut [f32]) {
        f.of_floats(run);
    }

    fn rounded(values: &[f32]) -> Cow<'_, [f32]> {
        let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
        Cow::Owned(crate::quant::rounded(&wide).into_iter().map(|v| v as f32).collect())
    }
}

impl Real for f64 {
    fn elements(x: &Tensor) -> Outcome<Cow<'_, [f64]>> {
        reals(x).map(Cow::Owned)
    }

    fn stored(dtype: DataType, dims: &[usize], values: Vec<f64>) -> Outcome<Tensor> {
        stored(dtype, dims, values)
    }

    fn activate(f: &Activation, run: &mut [f64]) {
        run.iter_mut().for_each(|v| *v = f.of(*v));
    }

    fn rounded(values: &[f64]) -> Cow<'_, [f64]> {
        Cow::Owned(crate::quant::rounded(values))
    }
}
