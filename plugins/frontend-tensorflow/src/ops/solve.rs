//! Inverses, determinants and systems of equations. Rows and columns are the last two axes, so that stacks of matrices
//! are one tensor all the way.

use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::matrix::{
    cholesky, determinant, identity, log_determinant, qr, solved, transposed, triangular,
};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "MatrixInverse" | "BatchMatrixInverse" => |b, input: Var, adjoint: bool| {
            let x = if adjoint { transposed(b, input)? } else { input };
            solved(b, x, identity(b, x)?)
        };
        "MatrixSolve" | "BatchMatrixSolve" => |b, matrix: Var, rhs: Var, adjoint: bool| {
            let x = if adjoint { transposed(b, matrix)? } else { matrix };
            solved(b, x, rhs)
        };
        "MatrixSolveLs" | "BatchMatrixSolveLs" => least_squares;
        "MatrixTriangularSolve" | "BatchMatrixTriangularSolve"
            => |b, matrix: Var, rhs: Var, lower: bool, adjoint: bool| {
            match adjoint {
                true => triangular(b, transposed(b, matrix)?, rhs, !lower),
                false => triangular(b, matrix, rhs, lower),
            }
        };
        "MatrixDeterminant" | "BatchMatrixDeterminant" => |b, input: Var| determinant(b, input);
        "LogMatrixDeterminant" => |b, input: Var| log_determinant(b, input);
        "Cholesky" | "BatchCholesky" => |b, input: Var| cholesky(b, input);
        "Qr" => |b, input: Var, full_matrices: bool| qr(b, input, full_matrices);
    }
}

arguments! {
    /// `MatrixSolveLs`
    struct LeastSquares { matrix: Var, rhs: Var, l2_regularizer: Var, fast: bool }
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
    let l2 = b.cast(a.l2_regularizer, dtype_of(b, x)?)?;
    let l2 = if a.fast { l2 } else { b.mul(l2, 0.0)? };
    let regular = |square: Var| b.add(square, b.mul(identity(b, square)?, l2)?);
    if rows >= columns {
        return solved(b, regular(b.mat_mul(turned, x)?)?, b.mat_mul(turned, a.rhs)?);
    }
    b.mat_mul(turned, solved(b, regular(b.mat_mul(x, turned)?)?, a.rhs)?)
}
