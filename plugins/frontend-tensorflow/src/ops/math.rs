//! Special functions.

use super::operands::One;
use super::{Lower, Source, of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::elementary;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "Exp" => |b, a: One| b.exp(a.x);
        "Expm1" => |b, a: One| elementary::expm1(b, a.x);
        "Log" => |b, a: One| b.log(a.x);
        "Log1p" => |b, a: One| elementary::log1p(b, a.x);
        "Sqrt" => |b, a: One| b.sqrt(a.x);
        "Rsqrt" => |b, a: One| b.reciprocal(b.sqrt(a.x)?);
        "Reciprocal" | "Inv" => |b, a: One| reciprocal(b, a.x);
        "Floor" => |b, a: One| b.floor(a.x);
        "Ceil" => |b, a: One| b.ceil(a.x);
        "Round" | "Rint" => |b, a: One| if_float(b, a.x, |b, x| b.round(x));
        "Erf" => |b, a: One| b.erf(a.x);
        "Sigmoid" => |b, a: One| b.sigmoid(a.x);
        "Tanh" => |b, a: One| b.tanh(a.x);
    };
    angles(table)
}

fn angles(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Sin" => |b, a: One| b.sin(a.x);
        "Cos" => |b, a: One| b.cos(a.x);
        "Tan" => |b, a: One| elementary::tan(b, a.x);
        "Asin" => |b, a: One| elementary::asin(b, a.x);
        "Acos" => |b, a: One| elementary::acos(b, a.x);
        "Atan" => |b, a: One| elementary::atan(b, a.x);
        "Sinh" => |b, a: One| b.sinh(a.x);
        "Cosh" => |b, a: One| b.cosh(a.x);
        "Asinh" => |b, a: One| elementary::asinh(b, a.x);
        "Acosh" => |b, a: One| elementary::acosh(b, a.x);
        "Atanh" => |b, a: One| elementary::atanh(b, a.x);
        "Atan2" => |b, a: Angle| elementary::atan2(b, a.y, a.x);
    }
}

arguments! {
    /// `Atan2(y, x; T: type) -> z`
    struct Angle { y: Var, x: Var }
}

/// Integers are round.
fn if_float(b: &Lower, x: Var, f: fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    if of(b, x)?.is_float() { f(b, x) } else { Ok(x) }
}

/// Of integers, the division of one by them.
fn reciprocal(b: &Lower, x: Var) -> Lowered<Var> {
    if of(b, x)?.is_float() { b.reciprocal(x) } else { b.div(1, x) }
}
