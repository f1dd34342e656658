//! Functions that frameworks have as operators and ONNX has not, as graphs of its operators.
//!
//! A function takes values of a graph and adds the nodes of the formula. Inputs have a float type unless the function
//! says otherwise; how wide one must be stands beside it. What front-ends decide differently, such as the types in
//! which operands meet, is theirs.

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]

pub mod activation;
pub mod arithmetic;
pub mod complex;
pub mod elementary;
pub mod fourier;
pub mod matrix;
pub mod recurrent;
pub mod running;
pub mod singular;
pub mod special;
#[cfg(test)]
mod testing;
pub mod window;

use onnxd_build::{GraphBuilder, Operand, Result, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::{DataType, Reals};

/// The element type of `x`.
///
/// # Errors
/// `N0204` if it is not known.
pub(crate) fn dtype_of(b: &GraphBuilder, x: Var) -> Result<DataType> {
    b.dtype_of(x).ok_or_else(|| {
        let message = format!("The element type of `{}` is not known.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// A number of the type of `x`, where no other operand says the type.
pub(crate) fn number(b: &GraphBuilder, x: Var, value: f64) -> Result<Var> {
    let tensor = Operand::Float(value).to_tensor(Some(dtype_of(b, x)?));
    Ok(b.constant(tensor.expect("a real number of a float type")))
}

/// Numbers as a vector of the float type of `x`.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn vector(b: &GraphBuilder, x: Var, items: Vec<f64>) -> Result<Var> {
    let tensor = Reals { dims: vec![items.len()], values: items }.to_tensor(dtype_of(b, x)?);
    Ok(b.constant(tensor.expect("reals of a float type")))
}
