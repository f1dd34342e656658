//! How ATen operators are said in ONNX, by family. A row is the name of an operator, or of one of its overloads, and
//! the function that lowers it.
// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

pub(crate) use onnxd_plugin_sdk::rows;

pub(crate) mod activation;
mod attention;
mod bits;
pub(crate) mod cast;
pub(crate) mod compare;
pub(crate) mod complex;
mod conv;
mod create;
mod diagonal;
mod distance;
pub(crate) mod dtype;
pub(crate) mod elementwise;
mod embedding;
mod fft;
mod grid;
mod grouped;
mod index;
mod indices;
mod istft;
mod join;
mod layout;
mod linear;
mod loss;
mod loss_ctc;
pub(crate) mod math;
pub(crate) mod nested;
mod norm;
pub(crate) mod order;
mod packed;
mod pad;
mod pool;
mod pool_adaptive;
mod prims;
mod qparams;
mod quantized;
pub(crate) mod quantizer;
mod random;
mod recurrent;
mod recurrent_dynamic;
pub(crate) mod reduce;
mod resize;
pub(crate) mod scan;
mod scatter;
mod search;
pub(crate) mod shape;
pub(crate) mod sizes;
mod slicing;
mod solve;
mod sort;
mod special;
mod spectral;
mod statistics;
#[cfg(test)]
pub(crate) mod tests;
mod torchao;
mod vision;
mod window;

use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::complex::ComplexTensors;
use onnxd_plugin_sdk::lower::{Results, Table, Value};
use std::cell::RefCell;
use std::collections::HashMap;

/// What rows need besides the graph.
#[derive(Debug, Default)]
pub(crate) struct RowContext {
    /// What packed data stands for, where it is known.
    packed: RefCell<HashMap<Var, packed::Sequences>>,
    /// What complex tensors are made of.
    pub(crate) complex: ComplexTensors,
    /// How quantized tensors are quantized.
    pub(crate) quantized: RefCell<HashMap<Var, qparams::Quantizer>>,
    /// Which elements of tensors of several lengths are no padding.
    nested: RefCell<HashMap<Var, Var>>,
    /// Whether operators in training mode stay in it.
    pub(crate) training: bool,
}

impl RowContext {
    pub(crate) fn new(training: bool) -> RowContext {
        RowContext { training, ..RowContext::default() }
    }
}

pub(crate) type Lower<'s> = onnxd_plugin_sdk::lower::Lower<'s, RowContext>;

/// Several results, of which some are no tensors.
pub(crate) struct Several(pub(crate) Vec<Value>);

impl Results for Several {
    fn results(self) -> Vec<Value> {
        self.0
    }
}

arguments! {
    /// `sin`
    pub(crate) struct Unary { input: Var }
    /// `mul`; each may be a number.
    pub(crate) struct Pair { input: Value, other: Value }
}

/// Adds the rows of a family.
type Family = fn(Table<RowContext>) -> Table<RowContext>;

const FAMILIES: &[Family] = &[
    activation::rows,
    attention::rows,
    bits::rows,
    cast::rows,
    compare::rows,
    complex::rows,
    conv::rows,
    create::rows,
    diagonal::rows,
    distance::rows,
    elementwise::rows,
    fft::rows,
    grid::rows,
    embedding::rows,
    index::rows,
    grouped::rows,
    istft::rows,
    join::rows,
    layout::rows,
    linear::rows,
    loss::rows,
    loss_ctc::rows,
    math::rows,
    nested::rows,
    norm::rows,
    packed::rows,
    pad::rows,
    pool::rows,
    pool_adaptive::rows,
    order::rows,
    quantized::rows,
    qparams::rows,
    quantizer::rows,
    prims::rows,
    random::rows,
    reduce::rows,
    scan::rows,
    scatter::rows,
    search::rows,
    shape::rows,
    slicing::rows,
    solve::rows,
    sort::rows,
    special::rows,
    spectral::rows,
    statistics::rows,
    recurrent::rows,
    recurrent_dynamic::rows,
    resize::rows,
    window::rows,
    torchao::rows,
    vision::rows,
];

/// All operators that can be lowered.
pub(crate) fn table() -> Table<RowContext> {
    FAMILIES.iter().fold(Table::new(), |table, rows| rows(table))
}
