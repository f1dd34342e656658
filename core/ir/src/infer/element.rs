//! Element types of outputs: from the standard's constraints, and where those leave it open, from
//! attributes.

use super::site::InferContext;
use super::{ML, microsoft, ml};
use crate::schema::{Param, ParamKind, ParamType};
use crate::{Attr, DataType, Dim, Shape, ValueType};

/// The type of output `slot`, given what is known of its shape.
pub(super) fn output_type(
    site: &InferContext<'_>,
    slot: usize,
    shape: Option<Shape>,
) -> Option<ValueType> {
    let bound = bound_type(site, slot);
    if let Some(ty) = bound.filter(|t| !matches!(t, ValueType::Tensor { .. })) {
        return Some(ty.clone()); // a sequence or optional handed through
    }
    let dtype = by_attribute(site, slot)
        .or_else(|| bound.and_then(ValueType::dtype))
        .or_else(|| site.schema.types_of(site.schema.output(slot)?)?.only_tensor());
    // A computed shape may be nonsense; that is for whoever runs the model.
    let size = |d: Dim| if matches!(d, Dim::Known(..0)) { Dim::Unknown } else { d };
    let shape: Option<Shape> = shape.map(|s| s.into_iter().map(size).collect());
    match (dtype, shape) {
        (None, None) => None,
        (dtype, shape) => Some(ValueType::Tensor { dtype, shape }),
    }
}

/// The type of an input whose type the output shares.
fn bound_type<'a>(site: &InferContext<'a>, slot: usize) -> Option<&'a ValueType> {
    let output = site.schema.output(slot)?;
    let free = |p: &Param| matches!(p.kind, ParamKind::Variadic { homogeneous: false, .. });
    let letter = match output.ty {
        ParamType::Letter(letter) if !free(output) => letter,
        _ => return None,
    };
    (0..site.node.inputs.len()).find_map(|i| {
        let input = site.schema.input(i)?;
        let shares = matches!(input.ty, ParamType::Letter(l) if l == letter) && !free(input);
        if shares { site.ty(i) } else { None }
    })
}

/// Operators that say the element type of their output themselves.
fn by_attribute(site: &InferContext<'_>, slot: usize) -> Option<DataType> {
    let number = |name: &str| DataType::from_number(i32::try_from(site.int(name, 0)).ok()?);
    if site.node.domain == ML {
        return ml::label_type(site).filter(|_| slot == 0);
    }
    if site.node.domain == microsoft::DOMAIN {
        return microsoft::dtype(site);
    }
    match site.node.op.as_str() {
        "BitCast" | "Cast" => number("to"),
        "Constant" => match site.node.attrs.first()? {
            (_, Attr::Tensor(tensor)) => Some(tensor.dtype()),
            (_, Attr::Int(_) | Attr::Ints(_)) => Some(DataType::Int64),
            (_, Attr::Float(_) | Attr::Floats(_)) => Some(DataType::Float),
            (_, Attr::Str(_) | Attr::Strs(_)) => Some(DataType::String),
            _ => None,
        },
        "ConstantOfShape" => match site.node.attr("value") {
            Some(Attr::Tensor(tensor)) => Some(tensor.dtype()),
            _ => Some(DataType::Float),
        },
        "EyeLike" | "RandomNormalLike" | "RandomUniformLike" | "Bernoulli" => {
            number("dtype").or_else(|| site.dtype(0))
        }
        "RandomNormal" | "RandomUniform" => number("dtype").or(Some(DataType::Float)),
        "Multinomial" => number("dtype").or(Some(DataType::Int32)),
        "HannWindow" | "HammingWindow" | "BlackmanWindow" | "MelWeightMatrix" => {
            number("output_datatype").or(Some(DataType::Float))
        }
        "QuantizeLinear" if !site.has(2) => number("output_dtype").or(Some(DataType::Uint8)),
        "ConcatFromSequence" => match site.ty(0)? {
            ValueType::Sequence(of) => of.dtype(),
            _ => None,
        },
        "LinearAttention" if slot == 1 => site.dtype(3).or_else(|| site.dtype(0)),
        // The statistics are computed in a type of their own.
        "LayerNormalization" if slot > 0 => number("stash_type").or(Some(DataType::Float)),
        "DequantizeLinear" => number("output_dtype").or_else(|| site.dtype(1)),
        _ => None,
    }
}
