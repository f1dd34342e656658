//! Casts and bit patterns.

use super::{Lower, RowContext, dtype_of};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Cast" => cast(x, dstt, truncate);
    }
}

/// ONNX truncates as TensorFlow does. Integers that do not fit a smaller type wrap: ONNX leaves that open for floats,
/// so they go through a wide one.
fn cast(b: &Lower, x: Var, dstt: ElementType, truncate: Option<bool>) -> Lowered<Var> {
    let ElementType(to) = dstt;
    let from = dtype_of(b, x)?;
    if matches!(to, DataType::Complex64 | DataType::Complex128) {
        return super::complex::of_real(b, x, to);
    }
    if truncate == Some(true) && from.is_float() && to.is_float() && to.bits() < from.bits() {
        let message =
            "ONNX rounds floats to narrower ones, and does not cut them off (`Truncate`).";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let narrow = to.is_integer() && to.bits() < 32;
    match from.is_float() && narrow {
        true => b.cast(b.cast(x, DataType::Int32)?, to),
        false => b.cast(x, to),
    }
}
