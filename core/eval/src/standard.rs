//! Kernels of the standard's operators: the families' tables, searched by operator and version.

use crate::call::KernelRow;
use crate::{
    activation, attention, control, conv, detection, image, linear, logic, loss, math, ml, norm,
    pool,
};
use crate::{quant, random, recurrent, reduce, sequence, shape, signal, text};
use onnxd_ir::Node;

/// The families' tables.
const FAMILIES: &[&[KernelRow]] = &[
    activation::ROWS,
    attention::ROWS,
    control::ROWS,
    conv::ROWS,
    detection::ROWS,
    image::ROWS,
    linear::ROWS,
    logic::ROWS,
    loss::ROWS,
    math::ROWS,
    ml::encode::ROWS,
    ml::linear::ROWS,
    ml::map::ROWS,
    ml::scale::ROWS,
    ml::svm::ROWS,
    ml::tree::ROWS,
    norm::ROWS,
    pool::ROWS,
    quant::ROWS,
    random::ROWS,
    recurrent::ROWS,
    reduce::ROWS,
    sequence::ROWS,
    shape::ROWS,
    signal::ROWS,
    text::ROWS,
];

/// All rows.
pub(crate) fn rows() -> impl Iterator<Item = &'static KernelRow> {
    FAMILIES.iter().flat_map(|rows| rows.iter())
}

/// The row that computes the node's operator as version `opset` of its domain defines it.
pub(crate) fn find(node: &Node, opset: i64) -> Option<&'static KernelRow> {
    rows().find(|row| row.computes(node, opset))
}
