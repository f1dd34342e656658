//! Sequences and optionals.

use super::merge::varying;
use super::site::{InferContext, Shapes, axis, one};
use super::{Rules, TypeRules, Types};
use crate::{Attr, DataType, Dim, Shape, ValueType};

pub(super) const RULES: Rules = &[
    ("ConcatFromSequence", concat_from_sequence),
    ("OptionalHasElement", |_| one(vec![])),
    ("SequenceLength", |_| one(vec![])),
];

pub(super) const TYPES: TypeRules = &[
    ("Optional", optional),
    ("OptionalGetElement", optional_get_element),
    ("SequenceAt", |site| vec![element(site, 0).cloned()]),
    ("SequenceConstruct", sequence_construct),
    ("SequenceEmpty", sequence_empty),
    ("SequenceErase", |site| vec![site.ty(0).cloned()]),
    ("SequenceInsert", sequence_insert),
    ("SequenceMap", sequence_map),
    ("SplitToSequence", split_to_sequence),
];

/// What the sequence in input `i` holds.
fn element<'a>(site: &InferContext<'a>, i: usize) -> Option<&'a ValueType> {
    match site.ty(i)? {
        ValueType::Sequence(of) => Some(of),
        _ => None,
    }
}

fn sequence(of: Option<ValueType>) -> Types {
    vec![of.map(|of| ValueType::Sequence(Box::new(of)))]
}

fn sequence_construct(site: &InferContext<'_>) -> Types {
    let types = (0..site.node.inputs.len()).map(|i| site.ty(i).cloned());
    sequence(types.reduce(|a, b| a?.either(&b?)).flatten())
}

fn sequence_empty(site: &InferContext<'_>) -> Types {
    let number = i32::try_from(site.int("dtype", 1)).ok();
    sequence(number.and_then(DataType::from_number).map(ValueType::unranked))
}

fn sequence_insert(site: &InferContext<'_>) -> Types {
    sequence(element(site, 0).zip(site.ty(1)).and_then(|(a, b)| a.either(b)))
}

fn split_to_sequence(site: &InferContext<'_>) -> Types {
    let Some(ValueType::Tensor { dtype, .. }) = site.ty(0) else { return vec![] };
    let shape = site.shape(0).and_then(|shape| part(site, shape));
    sequence(Some(ValueType::Tensor { dtype: *dtype, shape }))
}

/// The shape that all parts have.
fn part(site: &InferContext<'_>, whole: &[Dim]) -> Option<Shape> {
    let at = axis(site.int("axis", 0), whole.len()).ok()?;
    let mut out = whole.to_vec();
    if !site.has(1) {
        match site.int("keepdims", 1) {
            0 => drop(out.remove(at)),
            _ => out[at] = Dim::Known(1),
        }
        return Some(out);
    }
    let split = site.data(1);
    let size = split.and_then(|split| match (&split.items[..], &whole[at]) {
        // The last part is smaller if need be.
        ([Dim::Known(n @ 1..)], Dim::Known(all)) if split.scalar && all % n == 0 => {
            Some(Dim::Known(*n))
        }
        _ if split.scalar => None,
        ([first, others @ ..], _) => others.iter().all(|o| o.same(first)).then(|| first.clone()),
        ([], _) => None,
    });
    out[at] = size.unwrap_or(Dim::Unknown);
    Some(out)
}

fn concat_from_sequence(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = element(site, 0).and_then(ValueType::shape) else { return Ok(vec![]) };
    let new = site.int("new_axis", 0) != 0;
    let rank = shape.len() + usize::from(new);
    let at = axis(site.int("axis", 0), rank)?;
    let mut out = shape.to_vec();
    match new {
        true => out.insert(at, Dim::Unknown),
        false => out[at] = Dim::Unknown,
    }
    one(out)
}

fn optional(site: &InferContext<'_>) -> Types {
    let declared = match site.node.attr("type") {
        Some(Attr::Type(ty)) => Some(&**ty),
        _ => None,
    };
    let of = if site.has(0) { site.ty(0) } else { declared };
    vec![of.map(|of| ValueType::Optional(Box::new(of.clone())))]
}

fn optional_get_element(site: &InferContext<'_>) -> Types {
    vec![site.ty(0).map(|ty| match ty {
        ValueType::Optional(of) => (**of).clone(),
        other => other.clone(),
    })]
}

/// Types that the inputs of the body of a SequenceMap have.
pub(super) fn body_inputs(types: impl Iterator<Item = Option<ValueType>>) -> Types {
    let each = |ty: ValueType| match ty {
        ValueType::Sequence(of) => *of,
        other => other,
    };
    types.map(|ty| ty.map(each)).collect()
}

fn sequence_map(site: &InferContext<'_>) -> Types {
    let Some(Attr::Graph(body)) = site.node.attr("body") else { return vec![] };
    let outputs = body.outputs().iter();
    outputs.flat_map(|v| sequence(body[*v].ty.as_ref().map(|ty| varying(ty, site.fresh)))).collect()
}
