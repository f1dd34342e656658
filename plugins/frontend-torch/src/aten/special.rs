//! Functions that ONNX has no operators for: inverses of the error function, gamma and Bessel functions.

use super::dtype::{dtype_of, float_of, operand, to_float};
use super::{Lower, RowContext, Unary};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::formulas::special::{
    bessel, digamma, erfcx, erfinv, lgamma, log_ndtr, ndtri, scaled_bessel,
};
use onnxd_plugin_sdk::formulas::vector;
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::PI;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::erfinv" | "aten::special_erfinv" | "prims::erf_inv" => |b, a: Unary| {
            computed(b, a.input, Float, erfinv)
        };
        "aten::special_ndtri" | "prims::ndtri" => |b, a: Unary| computed(b, a.input, Float, ndtri);
        "aten::special_erfcx" | "prims::erfcx" => |b, a: Unary| computed(b, a.input, Float, erfcx);
        "aten::special_log_ndtr" => |b, a: Unary| computed(b, a.input, Float, log_ndtr);
        "aten::lgamma" | "aten::special_gammaln" | "prims::lgamma" => |b, a: Unary| {
            computed(b, a.input, Double, lgamma)
        };
        "aten::digamma" | "aten::special_digamma" | "aten::special_psi" | "prims::digamma"
            => |b, a: Unary| computed(b, a.input, Double, psi);
        "aten::mvlgamma" | "aten::special_multigammaln" => mvlgamma(input, p);
        "aten::i0" | "aten::special_i0" | "aten::special_modified_bessel_i0" | "prims::bessel_i0"
            => |b, a: Unary| computed(b, a.input, Double, |b, x| bessel(b, x, false));
        "aten::special_i1" | "aten::special_modified_bessel_i1" | "prims::bessel_i1"
            => |b, a: Unary| computed(b, a.input, Double, |b, x| bessel(b, x, true));
        "aten::special_i0e" | "prims::bessel_i0e" => |b, a: Unary| {
            computed(b, a.input, Double, |b, x| scaled_bessel(b, x, false))
        };
        "aten::special_i1e" | "prims::bessel_i1e" => |b, a: Unary| {
            computed(b, a.input, Double, |b, x| scaled_bessel(b, x, true))
        };
        "aten::angle" => angle;
    }
    .refused("aten::polygamma", "ONNX has no derivatives of the gamma function")
    .refused("aten::special_polygamma", "ONNX has no derivatives of the gamma function")
    .refused("aten::special_zeta", "ONNX has no zeta function")
    .refused("aten::igamma", "ONNX has no incomplete gamma function")
    .refused("aten::igammac", "ONNX has no incomplete gamma function")
    .refused("aten::special_gammainc", "ONNX has no incomplete gamma function")
    .refused("aten::special_gammaincc", "ONNX has no incomplete gamma function")
}

/// Applies `f` in a type that is at least as wide as `least`, and gives the type of a float function.
fn computed(
    b: &Lower,
    x: Var,
    least: DataType,
    f: fn(&GraphBuilder, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let dtype = float_of(dtype_of(b, x)?);
    let wide = if dtype == Double { Double } else { least };
    b.cast(f(b, b.cast(x, wide)?)?, dtype)
}

/// The derivative of `lgamma`. In torch the pole at 0 has the sign of the side that it is seen from.
fn psi(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.where_(b.equal(x, 0i64)?, b.neg(b.reciprocal(x)?)?, digamma(b, x)?)
}

/// The sum of the logarithms of gamma at `x`, `x - 1 / 2`, ...
fn mvlgamma(b: &Lower, input: Var, p: i64) -> Lowered<Var> {
    let dtype = float_of(dtype_of(b, input)?);
    let x = b.unsqueeze(b.cast(input, Double)?, [-1])?;
    let below = vector(b, x, (0..p).map(|j| j as f64 / 2.0).collect())?;
    let each = lgamma(b, b.sub(x, below)?)?;
    let sum = b.reduce_sum(each).axes([-1]).keepdims(false).one()?;
    b.cast(b.add(sum, (p * (p - 1)) as f64 / 4.0 * PI.ln())?, dtype)
}

/// The angle of a real number: none, or half a turn.
fn angle(b: &Lower, a: Unary) -> Lowered<Var> {
    let x = to_float(b, a.input)?;
    let zero = operand(b, &Value::Int(0), dtype_of(b, x)?)?;
    let angle =
        b.where_(b.less(x, 0i64)?, operand(b, &Value::Float(PI), dtype_of(b, x)?)?, zero)?;
    b.where_(b.is_nan(x)?, x, angle)
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{assert_near, floats, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;

    fn special_value<const N: usize>(op: &str, x: [f32; N]) -> Tensor {
        run(op, [("input", floats(x).into())])
    }

    #[test]
    fn error_functions_are_inverted() {
        let found = special_value("aten::erfinv", [-0.5, 0.0, 0.999, 1.0]);
        assert_near(&found, &floats([-0.476_936_28, 0.0, 2.326_753_8, f32::INFINITY]));
        assert_near(
            &special_value("aten::special_ndtri", [0.025, 1e-6]),
            &floats([-1.959_964, -4.753_424]),
        );
        assert_near(
            &special_value("aten::special_erfcx", [-1.0, 5.0]),
            &floats([5.008_980_3, 0.110_704_64]),
        );
        assert_near(
            &special_value("aten::special_log_ndtr", [-9.0, 1.0]),
            &floats([-43.628_15, -0.172_753_78]),
        );
    }

    #[test]
    fn gamma_functions_hold_on_both_sides() {
        let found = special_value("aten::lgamma", [-1.5, 1.0, 0.5, 100.0]);
        assert_near(&found, &floats([0.860_047, 0.0, 0.572_364_9, 359.134_2]));
        assert_near(
            &special_value("aten::digamma", [-1.5, 1.0]),
            &floats([0.703_156_6, -0.577_215_7]),
        );
        let both = run("aten::mvlgamma", [("input", floats([3.0]).into()), ("p", 2i64.into())]);
        assert_near(&both, &floats([1.550_194_7]));
        let refused = run_at(18, "aten::polygamma", []).unwrap_err();
        assert!(refused.contains("derivatives of the gamma function"), "{refused}");
    }

    #[test]
    fn bessel_functions_hold_far_out() {
        assert_near(&special_value("aten::i0", [0.0, -3.0]), &floats([1.0, 4.880_792_6]));
        assert_near(&special_value("aten::special_i1", [2.0]), &floats([1.590_636_9]));
        assert_near(
            &special_value("aten::special_i0e", [90.0, 400.0]),
            &floats([0.042_110_87, 0.019_953_357]),
        );
        assert_near(&special_value("aten::special_i1e", [-400.0]), &floats([-0.019_928_398]));
    }
}
