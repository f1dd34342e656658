//! Operators that TFLite has otherwise than TensorFlow, by family.
// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

pub(crate) mod activation;
mod conv;
mod detection;
mod embedding;
mod hlo;
mod hlo_index;
mod lstm;
mod recurrent;
mod shape;
mod window;

use crate::ops::{RowContext, size_of};
use onnxd_plugin_sdk::lower::Table;

/// The operators of TFLite that are none of TensorFlow's.
pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let families = [
        activation::rows,
        conv::rows,
        detection::rows,
        embedding::rows,
        hlo::rows,
        hlo_index::rows,
        lstm::rows,
        recurrent::rows,
        shape::rows,
        window::rows,
    ];
    families.into_iter().fold(table, |table, rows| rows(table))
}

#[cfg(test)]
mod tests;
