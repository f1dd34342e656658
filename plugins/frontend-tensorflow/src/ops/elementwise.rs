//! Arithmetic element by element.

use super::compare::where_zero;
use super::operands::Two;
use super::{Lower, RowContext, Values, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::arithmetic::{floor_quotient, floor_remainder};
use onnxd_plugin_sdk::formulas::elementary::log1p;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Identity" | "StopGradient" | "Snapshot" | "GuaranteeConst" | "PlaceholderWithDefault" | "PreventGradient"
            | "EnsureShape" => |_, input: Var| Ok(input);
        "DeepCopy" => |_, x: Var| Ok(x);
        "CheckNumerics" => |_, tensor: Var| Ok(tensor);
        "IdentityN" => |_, input: Vec<Value>| Ok(Values(input));
        "Add" | "AddV2" => |b, a: Two| b.add(a.x, a.y);
        "Sub" => |b, a: Two| b.sub(a.x, a.y);
        "Mul" => |b, a: Two| b.mul(a.x, a.y);
        "RealDiv" | "Div" | "TruncateDiv" => divide;
        "FloorDiv" => |b, a: Two| floor_quotient(b, a.x, a.y);
        "FloorMod" => |b, a: Two| floor_remainder(b, a.x, a.y);
        "Mod" | "TruncateMod" => |b, a: Two| b.mod_(a.x, a.y).fmod(1).one();
        "DivNoNan" => |b, a: Two| where_zero(b, a.y, a.y, |b| b.div(a.x, a.y));
        "MulNoNan" => |b, a: Two| where_zero(b, a.y, a.y, |b| b.mul(a.x, a.y));
        "Xdivy" => |b, a: Two| where_zero(b, a.x, a.x, |b| b.div(a.x, a.y));
        "Xlogy" => |b, a: Two| where_zero(b, a.x, a.x, |b| b.mul(a.x, b.log(a.y)?));
        "Xlog1py" => |b, a: Two| where_zero(b, a.x, a.x, |b| b.mul(a.x, log1p(b, a.y)?));
        "Pow" => |b, a: Two| power(b, a);
        "Maximum" => |b, a: Two| compared(b, a, |b, x, y| b.max([x, y]));
        "Minimum" => |b, a: Two| compared(b, a, |b, x, y| b.min([x, y]));
        "SquaredDifference" => |b, a: Two| {
            let difference = b.sub(a.x, a.y)?;
            b.mul(difference, difference)
        };
        "AddN" | "AccumulateNV2" => |b, inputs: Vec<Var>| sum(b, &inputs);
        "BiasAdd" => bias_add;
        "BiasAddV1" => |b, a: Biased| b.add(a.value, a.bias);
        "ClipByValue" => |b, t: Var, clip_value_min: Var, clip_value_max: Var| {
            b.max([b.min([t, clip_value_max])?, clip_value_min])
        };
        "Abs" => |b, x: Var| b.abs(x);
        "Neg" => |b, x: Var| b.neg(x);
        "Sign" => |b, x: Var| b.sign(x);
        "Square" => |b, x: Var| b.mul(x, x);
    }
}

arguments! {
    /// `BiasAdd`
    pub(crate) struct Biased { value: Var, bias: Var, data_format: Option<String> }
}

/// Runtimes compare no integers of 16 bits.
fn compared(b: &Lower, a: Two, f: fn(&GraphBuilder, Var, Var) -> Lowered<Var>) -> Lowered<Var> {
    let dtype = dtype_of(b, a.x)?;
    let wide =
        if matches!(dtype, DataType::Int16 | DataType::Uint16) { DataType::Int32 } else { dtype };
    b.cast(f(b, b.cast(a.x, wide)?, b.cast(a.y, wide)?)?, dtype)
}

/// Integers are divided as in C.
fn divide(b: &Lower, a: Two) -> Lowered<Var> {
    b.div(a.x, a.y)
}

/// Powers of integers stay integers.
fn power(b: &Lower, a: Two) -> Lowered<Var> {
    let exponent = b.constant_of(a.y).filter(|t| t.len() == 1).and_then(|t| t.to_reals());
    match exponent.map(|reals| reals.values[0]) {
        Some(1.0) if b.rank_of(a.y) == Some(0) => Ok(a.x),
        Some(2.0) if b.rank_of(a.y) == Some(0) => b.mul(a.x, a.x),
        Some(0.5) if b.rank_of(a.y) == Some(0) && dtype_of(b, a.x)?.is_float() => b.sqrt(a.x),
        _ => b.pow(a.x, a.y),
    }
}

/// Adds a number for each channel.
pub(crate) fn bias_add(b: &Lower, a: Biased) -> Lowered<Var> {
    if a.data_format.as_deref() != Some("NCHW") {
        return b.add(a.value, a.bias);
    }
    let Some(rank) = b.rank_of(a.value) else {
        let message = "The number of axes must be known to add to channels of `NCHW`.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let axes: Vec<i64> = (1..rank as i64 - 1).collect();
    b.add(a.value, super::shape::unsqueezed(b, a.bias, &axes)?)
}

/// ONNX's Sum takes no integers.
fn sum(b: &Lower, inputs: &[Var]) -> Lowered<Var> {
    match inputs {
        [only] => Ok(*only),
        [first, rest @ ..] if rest.len() == 1 || !dtype_of(b, *first)?.is_float() => {
            rest.iter().try_fold(*first, |sum, x| b.add(sum, *x))
        }
        all => b.sum(all),
    }
}
