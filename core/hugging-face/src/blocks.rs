//! Weights of linear layers: real numbers, or integers with scales as the checkpoint has them, which are not rounded
//! again.

use onnxd_plugin_sdk::ir::{DataType, Tensor, TensorError};

/// A matrix with its outputs first, or one for each of several experts.
#[derive(Clone, Debug)]
pub(crate) enum Weight {
    Float(Tensor),
    Blocks(Box<Blocks>),
}

/// Integers in blocks along the inputs: `(code - zero_point) * scale + offset`. What is said of a block has the sizes
/// of the codes with a block for `block` inputs; the last one may have less.
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
