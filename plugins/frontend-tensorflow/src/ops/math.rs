//! Special functions.

use super::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::elementary;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "Exp" => |b, x: Var| b.exp(x);
        "Expm1" => |b, x: Var| elementary::expm1(b, x);
        "Log" => |b, x: Var| b.log(x);
        "Log1p" => |b, x: Var| elementary::log1p(b, x);
        "Sqrt" => |b, x: Var| b.sqrt(x);
        "Rsqrt" => |b, x: Var| b.reciprocal(b.sqrt(x)?);
        "Reciprocal" | "Inv" => |b, x: Var| reciprocal(b, x);
        "Floor" => |b, x: Var| b.floor(x);
        "Ceil" => |b, x: Var| b.ceil(x);
        "Round" | "Rint" => |b, x: Var| if_float(b, x, |b, x| b.round(x));
        "Erf" => |b, x: Var| b.erf(x);
        "Sigmoid" => |b, x: Var| b.sigmoid(x);
        "Tanh" => |b, x: Var| b.tanh(x);
    };
    angles(table)
}

fn angles(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Sin" => |b, x: Var| b.sin(x);
        "Cos" => |b, x: Var| b.cos(x);
        "Tan" => |b, x: Var| elementary::tan(b, x);
        "Asin" => |b, x: Var| elementary::asin(b, x);
        "Acos" => |b, x: Var| elementary::acos(b, x);
        "Atan" => |b, x: Var| elementary::atan(b, x);
        "Sinh" => |b, x: Var| b.sinh(x);
        "Cosh" => |b, x: Var| b.cosh(x);
        "Asinh" => |b, x: Var| elementary::asinh(b, x);
        "Acosh" => |b, x: Var| elementary::acosh(b, x);
        "Atanh" => |b, x: Var| elementary::atanh(b, x);
        "Atan2" => |b, y: Var, x: Var| elementary::atan2(b, y, x);
    }
}

/// Integers are round.
fn if_float(b: &Lower, x: Var, f: fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    if dtype_of(b, x)?.is_float() { f(b, x) } else { Ok(x) }
}

/// Of integers, the division of one by them.
fn reciprocal(b: &Lower, x: Var) -> Lowered<Var> {
    if dtype_of(b, x)?.is_float() { b.reciprocal(x) } else { b.div(1, x) }
}
