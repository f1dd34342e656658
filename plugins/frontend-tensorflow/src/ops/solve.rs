//! Inverses, determinants and systems of equations. Rows and columns are the last two axes, so that stacks of matrices
//! are one tensor all the way.

use super::create::filled;
use super::linear::swapped;
use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Turn, Var};
use onnxd_plugin_sdk::formulas::matrix::{cholesky, identity, pivots, solved};
use onnxd_plugin_sdk::ir::DataType::{Bool, Float};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "MatrixInverse" | "BatchMatrixInverse" => |b, a: Inverse| {
            let x = if a.adjoint { swapped(b, a.input)? } else { a.input };
            solved(b, x, identity(b, x)?)
        };
        "MatrixSolve" | "BatchMatrixSolve" => |b, a: System| {
            let x = if a.adjoint { swapped(b, a.matrix)? } else { a.matrix };
            solved(b, x, a.rhs)
        };
        "MatrixSolveLs" | "BatchMatrixSolveLs" => least_squares;
        "MatrixTriangularSolve" | "BatchMatrixTriangularSolve" => |b, a: Triangular| {
            match a.adjoint {
                true => triangular(b, swapped(b, a.matrix)?, a.rhs, !a.lower),
                false => triangular(b, a.matrix, a.rhs, a.lower),
            }
        };
        "MatrixDeterminant" | "BatchMatrixDeterminant" => determinant;
        "LogMatrixDeterminant" => |b, a: One| {
            let pivots = pivots(b, a.input)?;
            let sign = b.reduce_prod(b.sign(pivots)?).axes([0]).keepdims(0).one()?;
            Ok([sign, b.reduce_sum(b.log(b.abs(pivots)?)?).axes([0]).keepdims(0).one()?])
        };
        "Cholesky" | "BatchCholesky" => |b, a: One| cholesky(b, a.input);
    };
    const DECOMPOSED: &str =
        "ONNX has no decompositions of matrices, and their loops have no fixed length";
    super::refused(
        table,
        &[
            (&["Svd", "BatchSvd", "Qr", "Eig", "SelfAdjointEig", "SelfAdjointEigV2"], DECOMPOSED),
            (&["BatchSelfAdjointEig", "BatchSelfAdjointEigV2", "Lu"], DECOMPOSED),
            (
                &["MatrixExponential", "MatrixLogarithm", "MatrixSquareRoot"],
                "ONNX has no functions of matrices as a whole",
            ),
            (
                &["BandedTriangularSolve", "TridiagonalSolve"],
                "ONNX has no solver for matrices that are held as bands",
            ),
        ],
    )
}

arguments! {
    /// `Cholesky(input; T: type) -> output`
    struct One { input: Var }
    /// `MatrixInverse(input; adjoint: bool = false, T: type) -> output`
    struct Inverse { input: Var, adjoint: bool }
    /// `MatrixSolve(matrix, rhs; adjoint: bool = false, T: type) -> output`
    struct System { matrix: Var, rhs: Var, adjoint: bool }
    /// `MatrixSolveLs(matrix, rhs, l2_regularizer; T: type, fast: bool = true) -> output`
    struct LeastSquares { matrix: Var, rhs: Var, l2_regularizer: Var, fast: bool }
    /// `MatrixTriangularSolve(matrix, rhs; lower: bool = true, adjoint: bool = false, T: type) -> output`
    struct Triangular { matrix: Var, rhs: Var, lower: bool, adjoint: bool }
}

/// The size of the last axis.
fn width(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let last = rank(b, x)? as i64 - 1;
    b.squeeze(b.shape(x).start(last).one()?).axes([0]).one()
}

fn determinant(b: &Lower, a: One) -> Lowered<Var> {
    if of(b, a.input)? == Float {
        return b.det(a.input);
    }
    b.reduce_prod(pivots(b, a.input)?).axes([0]).keepdims(0).one()
}

/// Column or row `at` of matrices.
fn line(b: &GraphBuilder, x: Var, at: Var, axis: i64) -> Lowered<Var> {
    b.gather(x, at).axis(axis).one()
}

/// `x`, which is known to have the type of another value: results of loops have no sizes.
fn like(b: &GraphBuilder, x: Var, other: Var) -> Lowered<Var> {
    if let Some(ty) = b.type_of(other) {
        b.declare(x, ty);
    }
    Ok(x)
}

/// As [`solved`], of a triangle: row by row, from the one that has one element.
fn triangular(b: &GraphBuilder, matrix: Var, rhs: Var, lower: bool) -> Lowered<Var> {
    let dtype = of(b, matrix)?;
    let go_on = b.constant(Tensor::new(Bool, vec![], vec![1].into()).expect("one truth value"));
    // Stacks broadcast, and a product has the shape of the result.
    let product = b.mat_mul(matrix, rhs)?;
    let zeros = filled(b, b.shape(product).one()?, 0, dtype)?;
    let matrix_row = rank(b, matrix)? as i64 - 2;
    let rhs_row = rank(b, rhs)? as i64 - 2;
    let count = width(b, matrix)?;
    let found = b.loop_(count, go_on, &[zeros], |b, turn, go_on, state| {
        let rows = b.range(0, count, 1).one()?;
        let k = if lower { turn } else { b.sub(b.sub(count, 1)?, turn)? };
        let row = line(b, matrix, k, matrix_row)?;
        let own =
            b.unsqueeze(b.gather(row, k).axis(matrix_row).one()?, [matrix_row, matrix_row + 1])?;
        // Rows that are not solved yet are zero.
        let before = b.mat_mul(b.unsqueeze(row, [matrix_row])?, state[0])?;
        let wanted = b.unsqueeze(line(b, rhs, k, rhs_row)?, [rhs_row])?;
        let solved = b.div(b.sub(wanted, before)?, own)?;
        let next = b.where_(b.unsqueeze(b.equal(rows, k)?, [1])?, solved, state[0])?;
        Ok(Turn { condition: go_on, carried: vec![next], scanned: vec![] })
    })?;
    like(b, found[0], product)
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
    let turned = swapped(b, x)?;
    let l2 = b.cast(a.l2_regularizer, of(b, x)?)?;
    let l2 = if a.fast { l2 } else { b.mul(l2, 0.0)? };
    let regular = |square: Var| b.add(square, b.mul(identity(b, square)?, l2)?);
    if rows >= columns {
        return solved(b, regular(b.mat_mul(turned, x)?)?, b.mat_mul(turned, a.rhs)?);
    }
    b.mat_mul(turned, solved(b, regular(b.mat_mul(x, turned)?)?, a.rhs)?)
}
