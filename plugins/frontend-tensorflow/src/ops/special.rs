//! Functions that ONNX has no operators for: the error function and its inverse, gamma and Bessel functions.

use super::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::formulas::special::{
    bessel, digamma, erfcx, erfinv, lgamma, ndtri, scaled_bessel,
};
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Erfc" => |b, x: Var| computed(b, x, Float, erfc);
        "Erfinv" => |b, x: Var| computed(b, x, Float, erfinv);
        "Ndtri" => |b, x: Var| computed(b, x, Float, ndtri);
        "Lgamma" => |b, x: Var| computed(b, x, Double, lgamma);
        "Digamma" => |b, x: Var| computed(b, x, Double, digamma);
        "BesselI0" => |b, x: Var| computed(b, x, Double, |b, x| finite_bessel(b, x, false));
        "BesselI1" => |b, x: Var| computed(b, x, Double, |b, x| finite_bessel(b, x, true));
        "BesselI0e" => |b, x: Var| computed(b, x, Double, |b, x| scaled_bessel(b, x, false));
        "BesselI1e" => |b, x: Var| computed(b, x, Double, |b, x| scaled_bessel(b, x, true));
    }
}

/// Applies `f` in a type that is at least as wide as `least`.
pub(crate) fn computed(
    b: &Lower,
    x: Var,
    least: DataType,
    f: fn(&GraphBuilder, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let wide = if dtype == Double { Double } else { least };
    b.cast(f(b, b.cast(x, wide)?)?, dtype)
}

/// A Bessel function, which TensorFlow has not at infinity.
fn finite_bessel(b: &GraphBuilder, x: Var, first: bool) -> Lowered<Var> {
    b.where_(b.is_inf(x).one()?, f64::NAN, bessel(b, x, first)?)
}

/// What the error function lacks to one. Far out that difference would be rounded away.
pub(crate) fn erfc(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let tail = b.mul(b.exp(b.neg(b.mul(x, x)?)?)?, erfcx(b, x)?)?;
    b.where_(b.less(x, 1.0)?, b.sub(1.0, b.erf(x)?)?, tail)
}
