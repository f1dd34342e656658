//! `keras.ops`, which functional models hold as layers. A row is `ops.` and the class of the operator; its arguments
//! are those of `call`, then those that the operator was made with.

pub(crate) mod contract;
pub(crate) mod elementwise;
pub(crate) mod fourier;
pub(crate) mod gather;
pub(crate) mod linalg;
pub(crate) mod nn;
pub(crate) mod promote;
pub(crate) mod reduce;
pub(crate) mod select;
pub(crate) mod shapes;
pub(crate) mod windows;

use crate::ops::RowContext;
use onnxd_plugin_sdk::lower::Table;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let families = [
        elementwise::rows,
        shapes::rows,
        reduce::rows,
        select::rows,
        gather::rows,
        contract::rows,
        fourier::rows,
        linalg::rows,
        nn::rows,
        windows::rows,
    ];
    families.into_iter().fold(table, |table, rows| rows(table))
}
