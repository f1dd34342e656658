//! What types have in common.

use onnxd_ir::{Dim, ValueType};

/// What is known of a value that has either type: of tensors, or of sequences of tensors.
pub fn common_type(a: &ValueType, b: &ValueType) -> ValueType {
    if let (ValueType::Sequence(a), ValueType::Sequence(b)) = (a, b) {
        return ValueType::Sequence(Box::new(common_type(a, b)));
    }
    let dtype = a.dtype().filter(|dtype| Some(*dtype) == b.dtype());
    let size = |(a, b): (&Dim, &Dim)| if a.same(b) { a.clone() } else { Dim::Unknown };
    let shape = match (a.shape(), b.shape()) {
        (Some(a), Some(b)) if a.len() == b.len() => Some(a.iter().zip(b).map(size).collect()),
        _ => None,
    };
    ValueType::Tensor { dtype, shape }
}

/// As [`common_type`], where a type may not be known at all.
pub fn either_type(a: Option<ValueType>, b: Option<ValueType>) -> Option<ValueType> {
    match (a, b) {
        (Some(a), Some(b)) => Some(common_type(&a, &b)),
        (a, b) => a.or(b),
    }
}
