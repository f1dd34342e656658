//! Special functions.

mod double;

use super::compare::is_infinite;
use super::create::number;
use super::operands::One;
use super::{Lower, Source, of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table};
use std::f64::consts::PI;

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "Exp" => |b, a: One| b.exp(a.x);
        "Expm1" => |b, a: One| expm1(b, a.x);
        "Log" => |b, a: One| b.log(a.x);
        "Log1p" => |b, a: One| log1p(b, a.x);
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
        "Tan" => |b, a: One| if is_double(b, a.x) { b.div(b.sin(a.x)?, b.cos(a.x)?) } else { b.tan(a.x) };
        "Asin" => |b, a: One| if is_double(b, a.x) { double::asin(b, a.x) } else { b.asin(a.x) };
        "Acos" => |b, a: One| if is_double(b, a.x) { double::acos(b, a.x) } else { b.acos(a.x) };
        "Atan" => |b, a: One| atan(b, a.x);
        "Sinh" => |b, a: One| b.sinh(a.x);
        "Cosh" => |b, a: One| b.cosh(a.x);
        "Asinh" => |b, a: One| if is_double(b, a.x) { double::asinh(b, a.x) } else { b.asinh(a.x) };
        "Acosh" => |b, a: One| if is_double(b, a.x) { double::acosh(b, a.x) } else { b.acosh(a.x) };
        "Atanh" => |b, a: One| if is_double(b, a.x) { double::atanh(b, a.x) } else { b.atanh(a.x) };
        "Atan2" => |b, a: Angle| atan2(b, a.y, a.x);
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

/// `log(1 + x)`, exact for small numbers: `1 + x` is rounded, and the quotient takes the rounding back.
pub(crate) fn log1p(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let sum = b.add(x, 1.0)?;
    let corrected = b.mul(b.log(sum)?, b.div(x, b.sub(sum, 1.0)?)?)?;
    // Where the sum is one, the logarithm is the number; where it is infinite, it is itself.
    let result = b.where_(b.equal(sum, 1.0)?, x, corrected)?;
    b.where_(is_infinite(b, sum)?, sum, result)
}

/// `exp(x) - 1`, exact for small numbers.
pub(crate) fn expm1(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let power = b.exp(x)?;
    let less = b.sub(power, 1.0)?;
    let corrected = b.mul(less, b.div(x, b.log(power)?)?)?;
    // Near zero the rounding is taken back; elsewhere the difference is exact enough.
    let near = b.and(b.less(b.abs(x)?, 0.5)?, b.not(b.equal(power, 1.0)?)?)?;
    let result = b.where_(near, corrected, less)?;
    b.where_(b.equal(power, 1.0)?, x, result)
}

/// Whether numbers have 64 bits, for which runtimes lack several of these functions.
fn is_double(b: &GraphBuilder, x: Var) -> bool {
    b.dtype_of(x) == Some(DataType::Double)
}

fn atan(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    if is_double(b, x) { double::atan(b, x) } else { b.atan(x) }
}

/// The angle of a point: that of its quotient, turned by half a circle on the left.
pub(crate) fn atan2(b: &GraphBuilder, y: Var, x: Var) -> Lowered<Var> {
    // Upright points, and the origin.
    let tiny = match of(b, x)? {
        DataType::Float16 => 6e-8,
        DataType::Double => 1e-300,
        _ => 1e-38,
    };
    let angle = atan(b, b.div(y, b.where_(b.equal(x, 0)?, tiny, x)?)?)?;
    let half = b.where_(b.less(y, 0)?, b.constant(number(-PI, of(b, x)?)), PI)?;
    b.where_(b.less(x, 0)?, b.add(angle, half)?, angle)
}
