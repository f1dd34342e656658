//! Inverses, determinants and systems of equations: eliminations as loops over the columns.
//!
//! Rows and columns are the last two axes, so that stacks of matrices are one tensor all the way.

use super::create::filled;
use super::linear::swapped;
use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Turn, Var};
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
            let pivots = eliminated(b, a.input)?.1;
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

/// Numbers of rows of a square matrix.
fn places(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.range(0, width(b, x)?, 1).one()
}

/// Identity matrices, as many as there are in `x`.
fn identity(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let places = places(b, x)?;
    let matrix = b.cast(b.equal(places, b.unsqueeze(places, [1])?)?, of(b, x)?)?;
    b.expand(matrix, b.shape(x).one()?)
}

/// Column or row `at` of matrices.
fn line(b: &GraphBuilder, x: Var, at: Var, axis: i64) -> Lowered<Var> {
    b.gather(x, at).axis(axis).one()
}

/// Gauss and Jordan: the matrix (and what stands beside it) once its left square is the identity, and the pivots along
/// a new first axis, with the sign of the exchange of rows.
fn eliminated(b: &GraphBuilder, x: Var) -> Lowered<(Var, Var)> {
    let n = rank(b, x)? as i64;
    let (row_axis, column_axis) = (n - 2, n - 1);
    let count = b.squeeze(b.shape(x).start(row_axis).end(row_axis + 1).one()?).axes([0]).one()?;
    let dtype = of(b, x)?;
    let go_on = b.constant(Tensor::new(Bool, vec![], vec![1].into()).expect("one truth value"));
    let whole = b.shape(x).one()?;
    let found = b.loop_(count, go_on, &[x], |b, k, go_on, state| {
        let rows = b.range(0, count, 1).one()?;
        let column = line(b, state[0], k, column_axis)?;
        let size = b.where_(b.less(rows, k)?, -1.0, b.abs(column)?)?;
        let best = b.arg_max(size).axis(n - 2).keepdims(1).one()?;
        let from = b.where_(b.equal(rows, best)?, k, rows)?;
        let from = b.where_(b.equal(rows, k)?, best, from)?;
        let from = b.expand(b.unsqueeze(from, [column_axis])?, whole)?;
        let turned = b.gather_elements(state[0], from).axis(row_axis).one()?;
        let column = line(b, turned, k, column_axis)?;
        let pivot = b.gather(column, k).axis(n - 2).one()?;
        let row = b.div(line(b, turned, k, row_axis)?, b.unsqueeze(pivot, [n - 2])?)?;
        // The own row keeps one times itself.
        let share = b.sub(column, b.cast(b.equal(rows, k)?, dtype)?)?;
        let less = b.mul(b.unsqueeze(share, [column_axis])?, b.unsqueeze(row, [row_axis])?)?;
        let stays = b.equal(b.squeeze(best).axes([n - 2]).one()?, k)?;
        let signed = b.where_(stays, pivot, b.neg(pivot)?)?;
        let carried = vec![b.sub(turned, less)?];
        Ok(Turn { condition: go_on, carried, scanned: vec![signed] })
    })?;
    Ok((found[0], found[1]))
}

/// `x` such that the product of `matrix` and it is `rhs`.
pub(crate) fn solved(b: &GraphBuilder, matrix: Var, rhs: Var) -> Lowered<Var> {
    let last = rank(b, matrix)? as i64 - 1;
    let both = b.concat([matrix, rhs]).axis(last).one()?;
    let (found, _) = eliminated(b, both)?;
    let from = b.unsqueeze(width(b, matrix)?, [0])?;
    let found = b.slice(found, from, [i64::MAX]).axes([last]).one()?;
    like(b, found, rhs)
}

/// `x`, which is known to have the type of another value: results of loops have no sizes.
fn like(b: &GraphBuilder, x: Var, other: Var) -> Lowered<Var> {
    if let Some(ty) = b.type_of(other) {
        b.declare(x, ty);
    }
    Ok(x)
}

fn determinant(b: &Lower, a: One) -> Lowered<Var> {
    if of(b, a.input)? == Float {
        return b.det(a.input);
    }
    b.reduce_prod(eliminated(b, a.input)?.1).axes([0]).keepdims(0).one()
}

/// The triangle whose product with itself, turned, is the matrix: column by column, from the lower half.
pub(crate) fn cholesky(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let dtype = of(b, x)?;
    let go_on = b.constant(Tensor::new(Bool, vec![], vec![1].into()).expect("one truth value"));
    let zeros = filled(b, b.shape(x).one()?, 0, dtype)?;
    let count = width(b, x)?;
    let found = b.loop_(count, go_on, &[zeros], |b, k, go_on, state| {
        let rows = b.range(0, count, 1).one()?;
        let row = b.unsqueeze(line(b, state[0], k, n - 2)?, [n - 1])?;
        let before = b.squeeze(b.mat_mul(state[0], row)?).axes([n - 1]).one()?;
        let rest = b.sub(line(b, x, k, n - 1)?, before)?;
        let own = b.unsqueeze(b.gather(rest, k).axis(n - 2).one()?, [n - 2])?;
        let column = b.where_(b.less(rows, k)?, 0.0, b.div(rest, b.sqrt(own)?)?)?;
        let next = b.where_(b.equal(rows, k)?, b.unsqueeze(column, [n - 1])?, state[0])?;
        Ok(Turn { condition: go_on, carried: vec![next], scanned: vec![] })
    })?;
    like(b, found[0], x)
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
