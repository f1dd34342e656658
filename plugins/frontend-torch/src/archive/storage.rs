//! Tensors as views of storages in the mapped file.

use onnxd_plugin_sdk::ir::Tensor;
use std::rc::Rc;

/// A tensor of an archive.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Its elements; not held where strides are not row-major. Quantized ones are the integers.
    pub(crate) tensor: Tensor,
    /// Which view of which storage it is; equal ones are one tensor (tied weights).
    pub(crate) place: Place,
    pub(crate) quantizer: Option<Quantizer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Member of the archive that has the elements.
    pub(crate) member: Rc<str>,
    /// In elements.
    pub(crate) offset: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

/// How integers of a quantized tensor stand for numbers: `(q - zero_point) * scale`.
#[derive(Clone, Debug)]
pub(crate) struct Quantizer {
    /// One, or one for each index of `axis`.
    pub(crate) scales: Vec<f64>,
    pub(crate) zero_points: Vec<i64>,
    pub(crate) axis: Option<usize>,
}
