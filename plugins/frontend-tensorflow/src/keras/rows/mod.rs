//! What layers compute, by family. A row is the class of a layer, and the function that lowers it.
//!
//! A row gets what the layer is called with, by position and by name; then the keys of its configuration by name, and
//! `weights`, its tensors in the order in which Keras makes them. Its arguments of calls therefore come first, in the
//! order of `call`. Tensors of floats and weights are of the type in which the layer computes. `dtype` is that type.
//! An `activation` that comes last is applied to what the row gives.
//!
//! A layer that calls the layers it holds is no row but one of [`WRAPPERS`]: it has them in `layer.parts`, each with
//! its own weights, and calls them with `KerasRunner::call`. Masks of arguments and results are said in `masks`.
// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod conv_lstm;
pub(crate) mod core;
pub(crate) mod functions;
pub(crate) mod hub;
pub(crate) mod image;
pub(crate) mod local;
pub(crate) mod merge;
pub(crate) mod norm;
pub(crate) mod ops;
pub(crate) mod pool;
pub(crate) mod preprocessing;
mod quantized;
pub(crate) mod recurrent;
mod recurrent_call;
pub(crate) mod shape;
pub(crate) mod sound;
pub(crate) mod tensorflow;
pub(crate) mod time;

pub(crate) use conv::window;

use super::layer::KerasLayer;
use super::runner::{CallArgs, Called};
use super::values::KerasItem;
use crate::ops::RowContext;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Reasons, and the layers and functions that share each.
const REFUSED: &str = include_str!("refused.txt");

/// All layers.
pub(crate) fn table() -> Table<RowContext> {
    let families = [
        activation::rows,
        attention::rows,
        conv::rows,
        core::rows,
        hub::rows,
        merge::rows,
        image::rows,
        local::rows,
        norm::rows,
        ops::rows,
        pool::rows,
        preprocessing::rows,
        shape::rows,
        sound::rows,
        tensorflow::rows,
    ];
    // Files of Keras 2 do not tell classes of their own from those of Keras.
    let own = Table::new().unknown_help(super::layer::EXPORT);
    let own = families.into_iter().fold(own, |table, rows| rows(table));
    // Some functions of Keras are operators of TensorFlow.
    crate::ops::refused::said(own, REFUSED).with(crate::ops::table())
}

/// A layer that calls the layers it holds: `None` if the class is none of these.
pub(crate) type Wrapper = fn(&Called<'_, '_, '_>, &CallArgs) -> Lowered<Option<Vec<KerasItem>>>;

/// Layers that call others. They are asked before the table.
pub(crate) const WRAPPERS: &[Wrapper] =
    &[recurrent::recurrent, norm::spectral, functions::said, time::pipeline, hub::holders];

/// Elements of what a row makes of a single number of a description.
const COUNT_MAX: i64 = 1 << 22;

/// A number of a description that says how many elements are made.
///
/// # Errors
/// `N0204` if it is negative, `N0213` if it is too large.
pub(crate) fn count(b: &GraphBuilder, what: &str, n: i64) -> Lowered<i64> {
    match n {
        0..=COUNT_MAX => Ok(n),
        ..0 => Err(b.wrong(format!("The number of {what} is {n}."))),
        _ => {
            let message = format!("The number of {what} is {n}, which is more than {COUNT_MAX}.");
            Err(b.diagnostic(Code::SourceLimit, message))
        }
    }
}

/// Weights that must be there.
///
/// # Errors
/// `N0201` if there are others.
pub(crate) fn exactly<const N: usize>(b: &GraphBuilder, weights: &[Var]) -> Lowered<[Var; N]> {
    weights.try_into().map_err(|_| {
        let message = format!("The layer has {} weights, not {N}.", weights.len());
        b.diagnostic(Code::SourceSyntax, message)
    })
}

/// The kernels of a recurrent layer, and its bias if it has one.
///
/// # Errors
/// `N0201` if there are others.
pub(crate) fn kernels(
    b: &GraphBuilder,
    layer: &KerasLayer,
    weights: &[Var],
) -> Lowered<(Var, Var, Option<Var>)> {
    let ([kernel, recurrent], bias) = weights_and_bias(b, weights, layer.is("use_bias"))?;
    Ok((kernel, recurrent, bias))
}

/// Weights, and a bias behind them if the layer has one.
///
/// # Errors
/// `N0201` if there are others.
pub(crate) fn weights_and_bias<const N: usize>(
    b: &GraphBuilder,
    weights: &[Var],
    has_bias: bool,
) -> Lowered<([Var; N], Option<Var>)> {
    match weights {
        [rest @ .., bias] if has_bias => Ok((exactly(b, rest)?, Some(*bias))),
        all => Ok((exactly(b, all)?, None)),
    }
}

/// One integer, or a list of them.
pub(crate) fn ints(x: &Value) -> Option<Vec<i64>> {
    let int = |x: &Value| if let Value::Int(n) = x { Some(*n) } else { None };
    match x {
        Value::List(items) => items.iter().map(int).collect(),
        one => Some(vec![int(one)?]),
    }
}

/// A number.
pub(crate) fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Int(x) => Some(*x as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
