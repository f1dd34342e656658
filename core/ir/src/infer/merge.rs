//! Declared and inferred types brought together.

use super::site::both;
use super::symbolic::{is_fresh, readable};
use crate::{Dim, Shape, ValueType};

/// What is known of a value that is declared as `declared` and was inferred as `inferred`; `None`
/// if no value is both. With `keep` declared symbols do not become numbers: callers may rely on
/// them.
pub(super) fn types(
    declared: Option<&ValueType>,
    inferred: &ValueType,
    keep: bool,
) -> Option<ValueType> {
    let Some(declared) = declared else { return Some(inferred.clone()) };
    Some(match (declared, inferred) {
        (ValueType::Tensor { dtype: a, shape: s }, ValueType::Tensor { dtype: b, shape: t }) => {
            if a.is_some() && b.is_some() && a != b {
                return None;
            }
            ValueType::Tensor { dtype: a.or(*b), shape: shapes(s.as_ref(), t.as_ref(), keep)? }
        }
        (ValueType::Sequence(a), ValueType::Sequence(b)) => {
            ValueType::Sequence(Box::new(types(Some(a), b, keep)?))
        }
        (ValueType::Optional(a), ValueType::Optional(b)) => {
            ValueType::Optional(Box::new(types(Some(a), b, keep)?))
        }
        (ValueType::Sparse { .. }, ValueType::Sparse { .. })
        | (ValueType::Map(..), ValueType::Map(..))
        | (ValueType::Opaque { .. }, _) => declared.clone(),
        _ => return None,
    })
}

/// Whether a value can be both, and the sizes that were inferred say enough without the declared.
pub(super) fn fits(declared: &ValueType, inferred: &ValueType) -> bool {
    inferred.shape().is_some() && types(Some(declared), inferred, true).is_some()
}

/// Whether two types can be one if sizes are left aside.
pub(super) fn same_but_for_shapes(a: &ValueType, b: &ValueType) -> bool {
    match (a, b) {
        (ValueType::Tensor { dtype: a, .. }, ValueType::Tensor { dtype: b, .. }) => {
            a.is_none() || b.is_none() || a == b
        }
        (ValueType::Sequence(a), ValueType::Sequence(b))
        | (ValueType::Optional(a), ValueType::Optional(b)) => same_but_for_shapes(a, b),
        _ => false,
    }
}

/// `Some(None)` where nothing is known.
fn shapes(declared: Option<&Shape>, inferred: Option<&Shape>, keep: bool) -> Option<Option<Shape>> {
    let (Some(declared), Some(inferred)) = (declared, inferred) else {
        return Some(declared.or(inferred).cloned());
    };
    if declared.len() != inferred.len() {
        return None;
    }
    let merged = declared.iter().zip(inferred).map(|(a, b)| match a {
        Dim::Symbol(_) if keep && b.known().is_some() => Some(a.clone()),
        // What was computed is more than a name; see `restore`.
        Dim::Symbol(_) if matches!(b, Dim::Symbol(_)) => Some(b.clone()),
        _ => both(a, b),
    });
    merged.collect::<Option<Shape>>().map(Some)
}

/// Calls `f` for the sizes of all axes.
pub(super) fn for_each_size(ty: &mut ValueType, f: &mut dyn FnMut(usize, &mut Dim)) {
    match ty {
        ValueType::Tensor { shape, .. } | ValueType::Sparse { shape, .. } => {
            shape.iter_mut().flatten().enumerate().for_each(|(i, d)| f(i, d));
        }
        ValueType::Sequence(of) | ValueType::Optional(of) | ValueType::Map(_, of) => {
            for_each_size(of, f);
        }
        ValueType::Opaque { .. } => {}
    }
}

/// Gives computed sizes names for readers: those that are declared, if there are such.
pub(super) fn restore(ty: &mut ValueType, declared: Option<&ValueType>) {
    let declared = declared.and_then(ValueType::shape);
    for_each_size(ty, &mut |i, dim| {
        if matches!(dim, Dim::Symbol(_)) {
            let name = declared.and_then(|d| d.get(i)).filter(|d| matches!(d, Dim::Symbol(_)));
            *dim = name.cloned().or_else(|| readable(dim)).unwrap_or(Dim::Unknown);
        }
    });
}

/// The type of a value that is computed repeatedly: sizes of which nothing is known but that they
/// were numbered inside, `since` or later, may differ each time.
pub(super) fn varying(ty: &ValueType, since: usize) -> ValueType {
    let mut ty = ty.clone();
    for_each_size(&mut ty, &mut |_, dim| {
        if is_fresh(dim, since) {
            *dim = Dim::Unknown;
        }
    });
    ty
}
