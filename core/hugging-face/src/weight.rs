//! Products with the weights of linear layers, whether these are real numbers or integers.

pub(crate) use crate::blocks::{Blocks, Weight};
pub(crate) use crate::checkpoint::Scheme;

use crate::layers::{Layers, checked};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{Derivation, Tensor, TensorError};

/// A matrix with its last two axes exchanged.
fn turned(matrix: &Tensor) -> std::result::Result<Tensor, TensorError> {
    if matrix.rank() == 2 {
        return matrix.permuted(&[1, 0]);
    }
    match matrix.derivation() {
        // Matrices that were put together are turned one by one, each from where it lies.
        Some(Derivation::Concat { parts, axis: 0 })
            if matrix.derivation_dims() == Some(matrix.dims()) =>
        {
            let parts = parts.iter().map(|part| part.permuted(&[0, 2, 1]));
            Tensor::concat(&parts.collect::<std::result::Result<Vec<_>, _>>()?, 0)
        }
        _ => matrix.permuted(&[0, 2, 1]),
    }
}

impl Layers<'_> {
    /// The weights of the linear layer `name`.
    pub(crate) fn weight(&self, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Weight> {
        match self.w.quantized(name, [outputs, inputs])? {
            Some(blocks) => Ok(blocks.into()),
            None => self.w.tensor(&format!("{name}.weight"), &[outputs, inputs]).map(Weight::Float),
        }
    }

    /// `x W^T`. The weights become a constant `name`.
    pub(crate) fn product(&self, x: Var, name: &str, weight: &Weight) -> Result<Var> {
        match weight {
            Weight::Float(w) => {
                let turned = self.constant(name, checked(name, turned(w))?);
                self.b.mat_mul(x, turned)
            }
            Weight::Blocks(w) => self.blocked(x, name, w),
        }
    }

    /// ONNX Runtime fuses this to `MatMulNBits` where it can.
    fn blocked(&self, x: Var, name: &str, w: &Blocks) -> Result<Var> {
        let b = self.b;
        let part =
            |role: &str, tensor: &Tensor| self.constant(&format!("{name}_{role}"), tensor.clone());
        let x = match &w.order {
            Some(order) => self.ordered(x, &format!("{name}_order"), order)?,
            None => x,
        };
        let real = self.real(name, w)?;
        let perm = if w.codes.rank() == 2 { vec![1, 0] } else { vec![0, 2, 1] };
        let y = b.mat_mul(x, b.transpose(real).perm(perm).one()?)?;
        let Some(offsets) = &w.offsets else { return Ok(y) };
        // What a block adds is its offset times the sum of its inputs.
        let rank = b.rank_of(x).ok_or_else(|| b.wrong("the rank of its input is not known"))?;
        let mut sizes = vec![0; rank - 1];
        sizes.extend([-1, w.block as i64]);
        let sums = b.reduce_sum(b.reshape(x, sizes).one()?).axes(vec![-1]).keepdims(0).one()?;
        b.add(y, b.mat_mul(sums, part("offset", &checked(name, turned(offsets))?))?)
    }

    /// Inputs in the order of codes; if experts have orders of their own, for each of them.
    fn ordered(&self, x: Var, name: &str, order: &Tensor) -> Result<Var> {
        let b = self.b;
        if order.rank() == 1 {
            return b.gather(x, self.constant(name, order.clone())).axis(-1).one();
        }
        if b.rank_of(x) == Some(2) {
            let all = b.gather(x, self.constant(name, order.clone())).axis(-1).one()?;
            return b.transpose(all).perm(vec![1, 0, 2]).one();
        }
        let [experts, inputs] = [0, 1].map(|axis| order.dims()[axis]);
        let order = checked(name, order.reshaped([experts, 1, inputs]))?;
        let places = b.expand(self.constant(name, order), b.shape(x).one()?)?;
        b.gather_elements(x, places).axis(-1).one()
    }

    /// The real numbers that blocks stand for, without their offsets.
    fn real(&self, name: &str, w: &Blocks) -> Result<Var> {
        let written = |tensor: &Tensor| match w.dtype.bits() {
            4 => checked(name, tensor.packed_as(w.dtype)),
            _ => Ok(tensor.clone()),
        };
        let codes = self.constant(name, written(&w.codes)?);
        let scales = self.constant(&format!("{name}_scale"), w.scales.clone());
        let call = self.b.dequantize_linear(codes, scales);
        let call = call.axis(w.codes.rank() as i64 - 1).block_size(w.block as i64);
        match &w.zero_points {
            Some(zeros) => {
                let zeros = self.constant(&format!("{name}_zero_point"), written(zeros)?);
                call.x_zero_point(zeros).one()
            }
            None => call.one(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
