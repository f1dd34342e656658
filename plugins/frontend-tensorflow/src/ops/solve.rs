//! Inverses, determinants and systems of equations. Rows and columns are the last two axes, so that stacks of matrices
//! are one tensor all the way.

use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::matrix::{
    cholesky, determinant, identity, log_determinant, qr, solved, transposed, triangular,
};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "MatrixInverse" | "BatchMatrixInverse" => |b, a: Inverse| {
            let x = if a.adjoint { transposed(b, a.input)? } else { a.input };
            solved(b, x, identity(b, x)?)
        };
        "MatrixSolve" | "BatchMatrixSolve" => |b, a: System| {
            let x = if a.adjoint { transposed(b, a.matrix)? } else { a.matrix };
            solved(b, x, a.rhs)
        };
        "MatrixSolveLs" | "BatchMatrixSolveLs" => least_squares;
        "MatrixTriangularSolve" | "BatchMatrixTriangularSolve" => |b, a: Triangular| {
            match a.adjoint {
                true => triangular(b, transposed(b, a.matrix)?, a.rhs, !a.lower),
                false => triangular(b, a.matrix, a.rhs, a.lower),
            }
        };
        "MatrixDeterminant" | "BatchMatrixDeterminant" => |b, a: One| determinant(b, a.input);
        "LogMatrixDeterminant" => |b, a: One| log_determinant(b, a.input);
        "Cholesky" | "BatchCholesky" => |b, a: One| cholesky(b, a.input);
        "Qr" => |b, a: Qr| qr(b, a.input, a.full_matrices);
    }
}

arguments! {
    /// `Cholesky(input; T: type) -> output`
    struct One { input: Var }
    /// `Qr(input; full_matrices: bool = false, T: type) -> q, r`
    struct Qr { input: Var, full_matrices: bool }
    /// `MatrixInverse(input; adjoint: bool = false, T: type) -> output`
    struct Inverse { input: Var, adjoint: bool }
    /// `MatrixSolve(matrix, rhs; adjoint: bool = false, T: type) -> output`
    struct System { matrix: Var, rhs: Var, adjoint: bool }
    /// `MatrixSolveLs(matrix, rhs, l2_regularizer; T: type, fast: bool = true) -> output`
    struct LeastSquares { matrix: Var, rhs: Var, l2_regularizer: Var, fast: bool }
    /// `MatrixTriangularSolve(matrix, rhs; lower: bool = true, adjoint: bool = false, T: type) -> output`
    struct Triangular { matrix: Var, rhs: Var, lower: bool, adjoint: bool }
}

/// The solution of least squares by its normal equations, as TensorFlow finds it if it is told to be fast.
fn least_squares(b: &Lower, a: LeastSquares) -> Lowered<Var> {
    let (x, n) = (a.matrix, rank(b, a.matrix)?);
    let dims = b.shape_of(x).unwrap_or_default();
    let known = |axis: usize| dims.get(axis)?.known();
    let (Some(rows), Some(columns)) = (known(n.saturating_sub(2)), known(n.saturating_sub(1)))
    else {
        let message = "The sizes of matrices must be known to find least squares.";
        return Err(b.diagnostic(onnxd_plugin_sdk::diagnostics::Code::LayerUnsupported, message));
    };
    let turned = transposed(b, x)?;
    let l2 = b.cast(a.l2_regularizer, of(b, x)?)?;
    let l2 = if a.fast { l2 } else { b.mul(l2, 0.0)? };
    let regular = |square: Var| b.add(square, b.mul(identity(b, square)?, l2)?);
    if rows >= columns {
        return solved(b, regular(b.mat_mul(turned, x)?)?, b.mat_mul(turned, a.rhs)?);
    }
    b.mat_mul(turned, solved(b, regular(b.mat_mul(x, turned)?)?, a.rhs)?)
}
