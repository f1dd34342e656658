//! Systems of equations, inverses and factors of matrices, as loops over columns.

use super::sizes::{known_size, rank};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::matrix::{
    cholesky, cholesky_or_not, identity, qr, solved, solved_or_not, transposed, triangular,
};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::inverse" => |b, a: One| solved(b, a.input, identity(b, a.input)?);
        "aten::linalg_inv" => |b, a: Inverse| solved(b, a.A, identity(b, a.A)?);
        "aten::linalg_inv_ex" => |b, a: Inverse| {
            let [inverse, info] = solved_or_not(b, a.A, identity(b, a.A)?)?;
            Ok(Several(vec![inverse.into(), info.into()]))
        };
        "aten::linalg_solve" => |b, a: Solve| system(b, a.A, a.B, a.left.unwrap_or(true));
        "aten::linalg_solve_ex" => |b, a: Solve| {
            let [solution, info] = system_or_not(b, a.A, a.B, a.left.unwrap_or(true))?;
            Ok(Several(vec![solution.into(), info.into()]))
        };
        "aten::_linalg_solve_ex" => |b, a: Solve| {
            let [solution, info] = system_or_not(b, a.A, a.B, a.left.unwrap_or(true))?;
            Ok(Several(vec![solution.into(), Value::None, Value::None, info.into()]))
        };
        "aten::cholesky" | "aten::linalg_cholesky" => |b, a: Cholesky| factor(b, &a);
        "aten::linalg_cholesky_ex" => |b, a: Cholesky| {
            let [solution, info] = factor_or_not(b, &a)?;
            Ok(Several(vec![solution.into(), info.into()]))
        };
        "aten::linalg_solve_triangular" => |b, a: Triangular| {
            let matrix = triangle(b, a.input, a.upper, a.unitriangular)?;
            match a.left {
                true => triangular(b, matrix, a.B, !a.upper),
                false => {
                    transposed(b, triangular(b, transposed(b, matrix)?, transposed(b, a.B)?, a.upper)?)
                }
            }
        };
        "aten::triangular_solve" => |b, a: OldTriangular| {
            let matrix = triangle(b, a.A, a.upper, a.unitriangular)?;
            let solution = match a.transpose {
                true => triangular(b, transposed(b, matrix)?, a.input, a.upper)?,
                false => triangular(b, matrix, a.input, !a.upper)?,
            };
            Ok(Several(vec![solution.into(), a.A.into()]))
        };
        "aten::linalg_qr" => |b, a: Qr| {
            factors(b, a.A, a.mode.as_deref().unwrap_or("reduced"))
        };
        "aten::qr" => |b, a: OldQr| factors(b, a.input, if a.some { "reduced" } else { "complete" });
    }
}

/// Torch's names of matrices are capitals.
#[allow(non_snake_case)]
mod named {
    use super::{Var, arguments};
    arguments! {
        /// `inverse(Tensor self)`
        pub(super) struct One { input: Var }
        /// `linalg_inv_ex(Tensor A, *, bool check_errors=False)`
        pub(super) struct Inverse { A: Var, check_errors: Option<bool> }
        /// `linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)`
        pub(super) struct Solve { A: Var, B: Var, left: Option<bool>, check_errors: Option<bool> }
        /// `linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False)`
        pub(super) struct Cholesky { input: Var, upper: bool, check_errors: Option<bool> }
        /// `linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)`
        pub(super) struct Triangular { input: Var, B: Var, upper: bool, left: bool, unitriangular: bool }
        /// `triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)`
        pub(super) struct OldTriangular {
            input: Var, A: Var, upper: bool, transpose: bool, unitriangular: bool,
        }
        /// `linalg_qr(Tensor A, str mode="reduced")`
        pub(super) struct Qr { A: Var, mode: Option<String> }
        /// `qr(Tensor self, bool some=True)`
        pub(super) struct OldQr { input: Var, some: bool }
    }
}
use named::{Cholesky, Inverse, OldQr, OldTriangular, One, Qr, Solve, Triangular};

/// How a system of equations is solved.
type Solver<T> = fn(&GraphBuilder, Var, Var) -> Lowered<T>;

/// `x` such that `matrix x = other`, or `x matrix = other`. `other` may be vectors.
fn system(b: &Lower, matrix: Var, other: Var, left: bool) -> Lowered<Var> {
    Ok(system_by(b, (matrix, other), left, |b, matrix, other| Ok([solved(b, matrix, other)?]))?[0])
}

/// As [`system`], with what LAPACK says of each matrix.
fn system_or_not(b: &Lower, matrix: Var, other: Var, left: bool) -> Lowered<[Var; 2]> {
    system_by(b, (matrix, other), left, solved_or_not)
}

/// As [`system`]; the first result of `solver` is the solution.
fn system_by<const N: usize>(
    b: &Lower,
    (matrix, other): (Var, Var),
    left: bool,
    solver: Solver<[Var; N]>,
) -> Lowered<[Var; N]> {
    let (of_matrix, of_other) = (rank(b, matrix)?, rank(b, other)?);
    let same = |axis: usize| known_size(b, matrix, axis) == known_size(b, other, axis);
    let stacked = of_other + 1 == of_matrix && (0..of_other).all(same);
    if of_other == 1 || stacked {
        let mut solution = system_by(b, (matrix, b.unsqueeze(other, [-1])?), true, solver)?;
        solution[0] = b.squeeze(solution[0]).axes([-1]).one()?;
        return Ok(solution);
    }
    if !left {
        let turned = (transposed(b, matrix)?, transposed(b, other)?);
        let mut solution = system_by(b, turned, true, solver)?;
        solution[0] = transposed(b, solution[0])?;
        return Ok(solution);
    }
    // Stacks broadcast: a product has the shape of the result, and its stack is that of the matrices.
    let stack = 0..of_other.saturating_sub(2);
    let alike = of_matrix == of_other
        && stack.into_iter().all(|axis| known_size(b, matrix, axis).is_some() && same(axis));
    if alike {
        return solver(b, matrix, other);
    }
    let shape = b.shape(b.mat_mul(matrix, other)?).one()?;
    let other = b.expand(other, shape)?;
    let stack = b.slice(shape, [0], [-2]).one()?;
    let sizes = b.concat([stack, b.shape(matrix).start(-2).one()?]).axis(0).one()?;
    solver(b, b.expand(matrix, sizes)?, other)
}

/// A triangle of matrices; with ones on its diagonal, if they are not held.
fn triangle(b: &Lower, x: Var, upper: bool, unit: bool) -> Lowered<Var> {
    let part = b.trilu(x).upper(upper);
    if !unit {
        return part.one();
    }
    let without = b.trilu(x).upper(upper).k(if upper { 1i64 } else { -1 }).one()?;
    b.add(without, identity(b, x)?)
}

fn factor(b: &Lower, a: &Cholesky) -> Lowered<Var> {
    // Only one half of the matrix counts, and the loop reads the lower one.
    match a.upper {
        false => cholesky(b, a.input),
        true => transposed(b, cholesky(b, transposed(b, a.input)?)?),
    }
}

fn factor_or_not(b: &Lower, a: &Cholesky) -> Lowered<[Var; 2]> {
    if !a.upper {
        return cholesky_or_not(b, a.input);
    }
    let [found, info] = cholesky_or_not(b, transposed(b, a.input)?)?;
    Ok([transposed(b, found)?, info])
}

fn factors(b: &Lower, x: Var, mode: &str) -> Lowered<Several> {
    let complete = match mode {
        "complete" => true,
        "reduced" | "r" => false,
        _ => {
            return Err(b.diagnostic(Code::LayerParameter, "The mode of `linalg_qr` is not known."));
        }
    };
    let [q, r] = qr(b, x, complete)?;
    let q = if mode == "r" { b.constant(Tensor::vector(Vec::<f32>::new())) } else { q };
    Ok(Several(vec![q.into(), r.into()]))
}
