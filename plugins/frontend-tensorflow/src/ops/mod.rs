//! How TensorFlow's operators are said in ONNX, by family. A row is the name of an operator and the function that
//! lowers it. Layers of Keras and operators of TFLite use the same functions.
// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

pub(crate) use onnxd_plugin_sdk::rows;

pub(crate) mod activation;
pub(crate) mod audio;
pub(crate) mod bits;
pub(crate) mod cast;
pub(crate) mod color;
pub(crate) mod compare;
pub(crate) mod complex;
pub(crate) mod conv;
pub(crate) mod create;
pub(crate) mod detection;
pub(crate) mod elementwise;
pub(crate) mod fft;
mod fused;
pub(crate) mod gather;
pub(crate) mod image;
pub(crate) mod join;
pub(crate) mod layout;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod math;
pub(crate) mod matrix;
pub(crate) mod norm;
pub(crate) mod operands;
pub(crate) mod pad;
mod philox;
pub(crate) mod pool;
pub(crate) mod quantize;
mod quantize_range;
mod ragged;
pub(crate) mod random;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod refused;
pub(crate) mod resize;
pub(crate) mod resize_kernel;
pub(crate) mod sample;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod search;
pub(crate) mod segment;
pub(crate) mod select;
mod sets;
pub(crate) mod shape;
pub(crate) mod slicing;
mod soft_nms;
pub(crate) mod solve;
pub(crate) mod sort;
pub(crate) mod space;
pub(crate) mod sparse;
pub(crate) mod special;
pub(crate) mod spectral;
#[cfg(test)]
mod tests;
pub(crate) mod update;
pub(crate) mod xla;

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::formulas::complex::ComplexTensors;
use onnxd_plugin_sdk::ir::{DataType, Dim};
use onnxd_plugin_sdk::lower::{Lowered, Results, Table, Value};

/// What rows need besides the graph.
#[derive(Debug, Default)]
pub(crate) struct RowContext {
    /// What the values that stand for complex tensors are made of.
    pub(crate) complex: ComplexTensors,
}

/// What functions of tables see.
pub(crate) type Lower<'s> = onnxd_plugin_sdk::lower::Lower<'s, RowContext>;

/// All operators of TensorFlow's graphs.
pub(crate) fn table() -> Table<RowContext> {
    let families = [
        activation::rows,
        bits::rows,
        cast::rows,
        compare::rows,
        complex::rows,
        conv::rows,
        create::rows,
        elementwise::rows,
        fft::rows,
        fused::rows,
        gather::rows,
        image::rows,
        join::rows,
        layout::rows,
        linear::rows,
        loss::rows,
        math::rows,
        matrix::rows,
        norm::rows,
        pad::rows,
        philox::rows,
        pool::rows,
        quantize::rows,
        random::rows,
        recurrent::rows,
        reduce::rows,
        refused::rows,
        resize::rows,
        scan::rows,
        scatter::rows,
        search::rows,
        segment::rows,
        select::rows,
        sets::rows,
        shape::rows,
        slicing::rows,
        solve::rows,
        sort::rows,
        space::rows,
        sparse::rows,
        special::rows,
        spectral::rows,
        update::rows,
        xla::rows,
    ];
    families.into_iter().fold(Table::new(), |table, rows| rows(table))
}

/// Results of a row, as many as there are.
pub(crate) struct Values(pub(crate) Vec<Value>);

impl Values {
    /// A result, and what else is asked for.
    pub(crate) fn with(first: Var, more: impl IntoIterator<Item = Var>) -> Values {
        Values([first].into_iter().chain(more).map(Value::Var).collect())
    }
}

impl Results for Values {
    fn results(self) -> Vec<Value> {
        self.0
    }
}

/// The most results of a node; operators refuse an attribute that says more.
pub(crate) const RESULTS_MAX: usize = 1 << 16;

/// The number of results that an attribute says.
///
/// # Errors
/// `N0204` if it is negative, or more than a node may have.
pub(crate) fn results(b: &GraphBuilder, count: i64) -> Lowered<usize> {
    usize::try_from(count).ok().filter(|n| *n <= RESULTS_MAX).ok_or_else(|| {
        let message = format!("An operator has no {count} results.");
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// The element type of a tensor.
///
/// # Errors
/// `N0204` if it is not known.
pub(crate) fn dtype_of(b: &GraphBuilder, x: Var) -> Lowered<DataType> {
    b.dtype_of(x).ok_or_else(|| {
        let message = format!("The element type of `{}` is not known.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// The type in which runtimes sum and sort elements of a type: they lack small integers and floats of 16 bits.
pub(crate) fn widened(dtype: DataType) -> DataType {
    match dtype {
        DataType::Double => dtype,
        d if d.is_float() => DataType::Float,
        d if d.bits() < 32 => DataType::Int32,
        DataType::Int32 => dtype,
        _ => DataType::Int64,
    }
}

/// The size of an axis, if it is known.
pub(crate) fn size_of(b: &GraphBuilder, x: Var, axis: usize) -> Option<i64> {
    b.shape_of(x)?.get(axis).and_then(Dim::known)
}

/// The number of axes of a tensor.
///
/// # Errors
/// `N0203` if it is not known.
pub(crate) fn rank(b: &GraphBuilder, x: Var) -> Lowered<usize> {
    b.rank_of(x).ok_or_else(|| {
        let message = format!("The number of axes of `{}` is not known.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerUnsupported, message)
    })
}
