//! Tensors of several lengths, as torch makes them in its encoder of transformers: padded tensors with a mask. What
//! lies behind the end of a sequence is computed, counts nowhere, and is padding where the tensor ends.

use super::dtype::{dtype_of, operand};
use super::sizes::{scalar, size};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{Bool, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::collections::HashMap;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        // Another mask leaves its tensor as it is, at the end: torch does not make it one of several lengths.
        "aten::_nested_tensor_from_mask_left_aligned" => |_, t: Var, mask: Var| Ok(true);
        "aten::_nested_tensor_from_mask" => |b, a: FromMask| {
            let nested = b.identity(a.t)?;
            mark(b, nested, b.cast(a.mask, Bool)?);
            Ok(nested)
        };
        "aten::to_padded_tensor" | "aten::nested_to_padded_tensor" => padded;
    }
    .refused("aten::_nested_from_padded", NESTED)
    .refused("aten::_nested_from_padded_tensor", NESTED)
    .refused("aten::_nested_tensor_from_tensor_list", NESTED)
}

const NESTED: &str = "ONNX has no tensors of several lengths";

/// Operators that take tensors of several lengths.
const TAKES: [&str; 4] = [
    "aten::_transformer_encoder_layer_fwd", "aten::to_padded_tensor",
    "aten::nested_to_padded_tensor", "aten::size",
];

arguments! {
    /// `_nested_tensor_from_mask`
    struct FromMask { t: Var, mask: Var, mask_check: Value = Value::None }
    /// `to_padded_tensor`
    struct Padded { input: Var, padding: f64, output_size: Value = Value::None }
}

/// Which elements of the first two axes of a tensor are no padding, if it is one of several lengths.
pub(crate) fn mask_of(b: &Lower, x: Var) -> Option<Var> {
    b.source.nested.borrow().get(&x).copied()
}

/// Says which elements of the first two axes of a tensor are no padding.
pub(crate) fn mark(b: &Lower, x: Var, mask: Var) {
    b.source.nested.borrow_mut().insert(x, mask);
}

/// # Errors
/// `N0203` if an argument is a tensor of several lengths and the operator does not take it.
pub(crate) fn check(b: &Lower, op: &str, arguments: &[(String, Value)]) -> Lowered<()> {
    let nested = b.source.nested.borrow();
    let plain = op.split('.').next().unwrap_or(op);
    let has_nested = || arguments.iter().any(|(_, value)| is_nested(&nested, value));
    if nested.is_empty() || TAKES.contains(&plain) || !has_nested() {
        return Ok(());
    }
    let message = format!("`{}` takes a tensor here that is made of several lengths.", shown(op));
    Err(b.diagnostic(Code::LayerUnsupported, message))
}

/// Whether a value is a tensor of several lengths, or a list that has one.
fn is_nested(nested: &HashMap<Var, Var>, value: &Value) -> bool {
    match value {
        Value::Var(x) => nested.contains_key(x),
        Value::List(items) => items.iter().any(|item| is_nested(nested, item)),
        _ => false,
    }
}

fn padded(b: &Lower, a: Padded) -> Lowered<Var> {
    let Some(mask) = mask_of(b, a.input) else { return Ok(a.input) };
    let shown = b.or(mask, b.not(left_aligned(b, mask)?)?)?;
    let padding = operand(b, &Value::Float(a.padding), dtype_of(b, a.input)?)?;
    b.where_(b.unsqueeze(shown, [-1])?, a.input, padding)
}

/// Whether all sequences begin at the start, and end once.
fn left_aligned(b: &Lower, mask: Var) -> Lowered<Var> {
    let lengths = b.reduce_sum(b.cast(mask, Int64)?).axes([1]).keepdims(1).one()?;
    let places = b.range(0i64, scalar(b, &size(b, mask, 1)?)?, 1i64).one()?;
    let same = b.cast(b.equal(mask, b.less(places, lengths)?)?, Int64)?;
    b.cast(b.reduce_min(same).keepdims(0).one()?, Bool)
}
