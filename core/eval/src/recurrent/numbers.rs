//! The numbers that recurrent layers are computed in: `float`, or `double` where a layer is given in it or rounds its
//! operands itself.

use super::activations::Activation;
use crate::reals::Real;
use std::borrow::Cow;

pub(super) trait RecurrentNumber: Real {
    /// Replaces every number by the function of it.
    fn activate(f: &Activation, run: &mut [Self]);
    /// The left side of a product with 8-bit weights.
    fn rounded(values: &[Self]) -> Cow<'_, [Self]>;
}

impl RecurrentNumber for f32 {
    fn activate(f: &Activation, run: &mut [f32]) {
        f.of_floats(run);
    }

    fn rounded(values: &[f32]) -> Cow<'_, [f32]> {
        let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
        Cow::Owned(crate::quant::rounded(&wide).into_iter().map(|v| v as f32).collect())
    }
}

impl RecurrentNumber for f64 {
    fn activate(f: &Activation, run: &mut [f64]) {
        run.iter_mut().for_each(|v| *v = f.apply(*v));
    }

    fn rounded(values: &[f64]) -> Cow<'_, [f64]> {
        Cow::Owned(crate::quant::rounded(values))
    }
}
