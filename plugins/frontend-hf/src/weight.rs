//! Weights of linear layers: real numbers, or integers with scales as the checkpoint has them, which are not rounded
//! again.

use crate::checkpoint::Checkpoint;
use crate::layers::{Layers, checked};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Derivation, Tensor, TensorError};

/// A matrix with its outputs first, or one for each of several experts.
#[derive(Clone, Debug)]
pub(crate) enum Weight {
    Float(Tensor),
    Blocks(Box<Blocks>),
}

/// Integers in blocks along the inputs: `(code - zero_point) * scale + offset`. What is said of a block has the sizes of
/// the codes with a block for `block` inputs; the last one may have less.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// [outputs, inputs], or [experts, outputs, inputs]: a byte for each, of which types of 4 bits take the low ones.
    pub(crate) codes: Tensor,
    /// The type that codes and zero points are written as: of 4 or 8 bits.
    pub(crate) dtype: DataType,
    pub(crate) block: usize,
    /// Float.
    pub(crate) scales: Tensor,
    /// As the codes.
    pub(crate) zero_points: Option<Tensor>,
    /// Float; then blocks divide the inputs.
    pub(crate) offsets: Option<Tensor>,
    /// int64: code `i` of a row is for the input `order[i]`, or `order[expert, i]`.
    pub(crate) order: Option<Tensor>,
}

/// How a checkpoint that comes quantized stores its weights.
pub(crate) trait Scheme {
    /// The weights of the linear layer `name`; `None` if these are real numbers.
    ///
    /// # Errors
    /// A tensor that is missing, or has another shape or type.
    fn linear(&self, w: &Checkpoint, name: &str, sizes: [usize; 2]) -> Result<Option<Blocks>>;

    /// The same for a tensor with the weights of all experts: [experts, outputs, inputs].
    ///
    /// # Errors
    /// As [`Scheme::linear`].
    fn experts(&self, _w: &Checkpoint, _name: &str, _sizes: [usize; 3]) -> Result<Option<Blocks>> {
        Ok(None)
    }

    /// Its name in reports.
    fn told(&self) -> &'static str;
}

impl From<Blocks> for Weight {
    fn from(blocks: Blocks) -> Weight {
        Weight::Blocks(Box::new(blocks))
    }
}

impl Weight {
    /// Some of the outputs, if `cut` takes these from each tensor along its outputs.
    pub(crate) fn cut(
        &self,
        cut: impl Fn(&Tensor) -> std::result::Result<Tensor, TensorError>,
    ) -> std::result::Result<Weight, TensorError> {
        Ok(match self {
            Weight::Float(w) => Weight::Float(cut(w)?),
            Weight::Blocks(w) => Weight::from(Blocks {
                codes: cut(&w.codes)?,
                scales: cut(&w.scales)?,
                zero_points: w.zero_points.as_ref().map(&cut).transpose()?,
                offsets: w.offsets.as_ref().map(&cut).transpose()?,
                ..(**w).clone()
            }),
        })
    }

    /// Matrices of one form as [experts, outputs, inputs]; `None` if their forms differ.
    pub(crate) fn stacked(all: &[Weight]) -> std::result::Result<Option<Weight>, TensorError> {
        let tensors = |part: fn(&Weight) -> Option<&Tensor>| {
            let parts: Vec<&Tensor> = all.iter().filter_map(part).collect();
            let apart = parts.iter().map(|t| t.reshaped([&[1], t.dims()].concat()));
            let apart = apart.collect::<std::result::Result<Vec<_>, _>>()?;
            match apart.len() == all.len() {
                true => Tensor::concat(&apart, 0).map(Some),
                false => Ok(None),
            }
        };
        let Some(Weight::Blocks(first)) = all.first() else {
            let all = tensors(|w| if let Weight::Float(w) = w { Some(w) } else { None })?;
            return Ok(all.map(Weight::Float));
        };
        let same = |w: &Weight| match w {
            Weight::Blocks(w) => {
                let form =
                    |w: &Blocks| (w.dtype, w.block, w.zero_points.is_some(), w.offsets.is_some());
                form(w) == form(first)
            }
            Weight::Float(_) => false,
        };
        if !all.iter().all(same) {
            return Ok(None);
        }
        fn of(w: &Weight) -> Option<&Blocks> {
            if let Weight::Blocks(w) = w { Some(w) } else { None }
        }
        let codes = tensors(|w| of(w).map(|w| &w.codes))?;
        let scales = tensors(|w| of(w).map(|w| &w.scales))?;
        let (Some(codes), Some(scales)) = (codes, scales) else { return Ok(None) };
        let zero_points = tensors(|w| of(w)?.zero_points.as_ref())?;
        let offsets = tensors(|w| of(w)?.offsets.as_ref())?;
        let order = orders(all.iter().filter_map(of))?;
        let (dtype, block) = (first.dtype, first.block);
        Ok(Some(Blocks { codes, dtype, block, scales, zero_points, offsets, order }.into()))
    }
}

/// The orders of inputs of several matrices, [experts, inputs], if one has any.
fn orders<'a>(
    all: impl Iterator<Item = &'a Blocks> + Clone,
) -> std::result::Result<Option<Tensor>, TensorError> {
    if all.clone().all(|w| w.order.is_none()) {
        return Ok(None);
    }
    let orders = all.map(|w| {
        let inputs = w.codes.dims()[1];
        let own = || Tensor::vector((0..inputs as i64).collect::<Vec<_>>());
        w.order.clone().unwrap_or_else(own).reshaped([1, inputs])
    });
    Tensor::concat(&orders.collect::<std::result::Result<Vec<_>, _>>()?, 0).map(Some)
}

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
