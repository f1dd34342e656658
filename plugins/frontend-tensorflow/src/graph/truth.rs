//! Tensors as conditions.

use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::DataType;

/// What a tensor says as a condition: one number is compared with zero, several are true, none is false.
///
/// # Errors
/// Those of the builder.
pub(crate) fn truth(b: &GraphBuilder, x: Var) -> Result<Var> {
    match b.rank_of(x) {
        None | Some(0) if b.dtype_of(x) == Some(DataType::Bool) => Ok(x),
        None | Some(0) => match b.ints_of(x).as_deref() {
            Some([known]) => Ok(constant(b, *known != 0)),
            _ => b.cast(x, DataType::Bool),
        },
        Some(_) => b.greater(b.size(x)?, 0),
    }
}

fn constant(b: &GraphBuilder, value: bool) -> Var {
    b.constant(crate::ops::create::scalar(value.into(), DataType::Bool))
}

/// The value of a condition, if it is known.
pub(crate) fn known(b: &GraphBuilder, condition: Var) -> Option<bool> {
    let tensor = b.constant_of(condition).filter(|tensor| tensor.len() == 1);
    match tensor {
        Some(tensor) => tensor.bytes().first().map(|byte| *byte != 0),
        None => super::turns::known_bool(b, condition),
    }
}

/// The finding for a condition that is a list or a variable.
pub(crate) fn no_condition(b: &GraphBuilder) -> Diagnostic {
    b.diagnostic(Code::LayerUnsupported, "The condition is no tensor.")
}
