//! Systems of equations, inverses and factors of matrices: eliminations and reflections as loops over the columns.
//!
//! Rows and columns are the last two axes, so that stacks of matrices are one tensor all the way. Sizes need not be
//! known, but the number of axes and the element type.

use crate::{dtype_of, number};
use onnxd_build::{GraphBuilder, Result, Turn, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::{DataType, Tensor};

pub(crate) fn rank(b: &GraphBuilder, x: Var) -> Result<i64> {
    let rank = b.rank_of(x).filter(|rank| *rank >= 2).ok_or_else(|| {
        let message = format!("`{}` is not known to be a matrix.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerParameter, message)
    })?;
    Ok(rank as i64)
}

fn go_on(b: &GraphBuilder) -> Var {
    let truth = Tensor::new(DataType::Bool, vec![], vec![1].into());
    b.constant(truth.expect("one byte is a truth value"))
}

/// The size of an axis, as a number.
pub(crate) fn size(b: &GraphBuilder, x: Var, axis: i64) -> Result<Var> {
    if b.opset() < 15 {
        return b.gather(b.shape(x).one()?, axis).axis(0).one();
    }
    b.squeeze(b.shape(x).start(axis).end(axis + 1).one()?).axes([0]).one()
}

/// Column or row `at` of matrices.
fn line(b: &GraphBuilder, x: Var, at: Var, axis: i64) -> Result<Var> {
    b.gather(x, at).axis(axis).one()
}

/// `x`, which has the type of another value: results of loops have no sizes.
fn like(b: &GraphBuilder, x: Var, other: Var) -> Result<Var> {
    if let Some(ty) = b.type_of(other) {
        b.declare(x, ty);
    }
    Ok(x)
}

fn zeros(b: &GraphBuilder, like: Var) -> Result<Var> {
    b.expand(number(b, like, 0.0)?, b.shape(like).one()?)
}

/// Whether matrices are known to have no element. Loops over their columns have no turn, and runtimes refuse what they
/// would do in it, so that such results are said without a loop.
pub(crate) fn is_empty(b: &GraphBuilder, x: Var) -> bool {
    let dims = b.shape_of(x).unwrap_or_default();
    dims.iter().rev().take(2).any(|size| size.known() == Some(0))
}

/// A number for each matrix, and as many times as `count` along a new axis: the first one, or else the last one.
pub(crate) fn repeated(
    b: &GraphBuilder,
    x: Var,
    value: f64,
    (count, first): (i64, bool),
) -> Result<Var> {
    let stack = b.shape(x).end(-2).one()?;
    let count = b.constant(Tensor::vector(vec![count]));
    let sizes = if first { [count, stack] } else { [stack, count] };
    b.expand(number(b, x, value)?, b.concat(sizes).axis(0).one()?)
}

/// Matrices with rows and columns exchanged.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn transposed(b: &GraphBuilder, x: Var) -> Result<Var> {
    let rank = rank(b, x)?;
    let mut perm: Vec<i64> = (0..rank).collect();
    perm.swap(rank as usize - 1, rank as usize - 2);
    b.transpose(x).perm(perm).one()
}

/// Kronecker's product: each element of `x` times all of `y`.
///
/// # Errors
/// `N0204` if the number of axes is not known.
pub fn kron(b: &GraphBuilder, x: Var, y: Var) -> Result<Var> {
    let (Some(n), Some(m)) = (b.rank_of(x), b.rank_of(y)) else {
        let message = "The numbers of axes of both factors must be known.";
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let all = n.max(m) as i64;
    if all == 0 {
        return b.mul(x, y);
    }
    let full = |v: Var, rank: usize| match all - rank as i64 {
        0 => Ok(v),
        missing => b.unsqueeze(v, (0..missing).collect::<Vec<_>>()),
    };
    let (x, y) = (full(x, n)?, full(y, m)?);
    let shape = b.mul(b.shape(x).one()?, b.shape(y).one()?)?;
    let (odd, even): (Vec<_>, Vec<_>) = (0..all).map(|i| (2 * i + 1, 2 * i)).unzip();
    b.reshape(b.mul(b.unsqueeze(x, odd)?, b.unsqueeze(y, even)?)?, shape).one()
}

/// How much the rows of a matrix vary together: products of rows, each without its mean and of length 1.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn correlation(b: &GraphBuilder, x: Var) -> Result<Var> {
    let last = rank(b, x)? - 1;
    let distance = b.sub(x, b.reduce_mean(x).axes([last]).keepdims(1).one()?)?;
    let unit = b.div(distance, b.reduce_l2(distance).axes([last]).keepdims(1).one()?)?;
    b.clip(b.mat_mul(unit, transposed(b, unit)?)?).min(-1.0).max(1.0).one()
}

/// Identity matrices of as many rows as `x` has, and as many as there are in `x`.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn identity(b: &GraphBuilder, x: Var) -> Result<Var> {
    let rank = rank(b, x)?;
    let rows = size(b, x, rank - 2)?;
    let places = b.range(0, rows, 1).one()?;
    let matrix = b.cast(b.equal(places, b.unsqueeze(places, [1])?)?, dtype_of(b, x)?)?;
    if rank == 2 {
        return Ok(matrix);
    }
    let square = b.unsqueeze(rows, [0])?;
    let shape = b.concat([b.shape(x).end(-2).one()?, square, square]).axis(0).one()?;
    b.expand(matrix, shape)
}

/// `x` such that the product of `matrix` and it is `rhs`, which has as many axes: Gauss and Jordan, with exchange of
/// rows.
///
/// # Errors
/// `N0204` if `matrix` is not known to be one.
pub fn solved(b: &GraphBuilder, matrix: Var, rhs: Var) -> Result<Var> {
    Ok(solved_by(b, matrix, rhs, false)?.0)
}

/// As [`solved`], with LAPACK's word on each matrix: zero, or the number of the first column without a pivot.
///
/// # Errors
/// Those of [`solved`].
pub fn solved_or_not(b: &GraphBuilder, matrix: Var, rhs: Var) -> Result<[Var; 2]> {
    let (found, pivots) = solved_by(b, matrix, rhs, true)?;
    let pivots = pivots.first().copied().unwrap_or(found);
    Ok([found, first_wrong(b, b.equal(pivots, number(b, pivots, 0.0)?)?)?])
}

fn solved_by(
    b: &GraphBuilder,
    matrix: Var,
    rhs: Var,
    with_pivots: bool,
) -> Result<(Var, Vec<Var>)> {
    let n = rank(b, matrix)?;
    let both = b.concat([matrix, rhs]).axis(n - 1).one()?;
    let (found, pivots) = eliminated(b, both, with_pivots)?;
    let from = b.unsqueeze(size(b, matrix, n - 1)?, [0])?;
    let found = b.slice(found, from, [i64::MAX]).axes([n - 1]).one()?;
    Ok((like(b, found, rhs)?, pivots))
}

/// As [`solved`], of a triangle: row by row, from the one that has one element. The other half of the matrix does not
/// count, and stacks broadcast.
///
/// # Errors
/// `N0204` if `matrix` or `rhs` is not known to be one.
pub fn triangular(b: &GraphBuilder, matrix: Var, rhs: Var, lower: bool) -> Result<Var> {
    let (matrix_row, rhs_row) = (rank(b, matrix)? - 2, rank(b, rhs)? - 2);
    // A product has the shape of the result.
    let product = b.mat_mul(matrix, rhs)?;
    if is_empty(b, product) {
        return Ok(product);
    }
    let count = size(b, matrix, matrix_row)?;
    let found = b.loop_(count, go_on(b), &[zeros(b, product)?], |b, turn, go_on, state| {
        let rows = b.range(0, count, 1).one()?;
        let k = if lower { turn } else { b.sub(b.sub(count, 1)?, turn)? };
        let row = line(b, matrix, k, matrix_row)?;
        let own = b.gather(row, k).axis(matrix_row).one()?;
        let own = b.unsqueeze(own, [matrix_row, matrix_row + 1])?;
        // Rows that are not solved yet are zero.
        let before = b.mat_mul(b.unsqueeze(row, [matrix_row])?, state[0])?;
        let wanted = b.unsqueeze(line(b, rhs, k, rhs_row)?, [rhs_row])?;
        let solved = b.div(b.sub(wanted, before)?, own)?;
        let next = b.where_(b.unsqueeze(b.equal(rows, k)?, [1])?, solved, state[0])?;
        Ok(Turn { condition: go_on, carried: vec![next], scanned: vec![] })
    })?;
    like(b, found[0], product)
}

/// The pivots of matrices along a new first axis. The sign of each tells whether rows were exchanged for it, so that
/// their product is the determinant.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn pivots(b: &GraphBuilder, x: Var) -> Result<Var> {
    let (found, pivots) = eliminated(b, x, true)?;
    Ok(pivots.first().copied().unwrap_or(found))
}

/// Determinants: those of `float32` by the operator, which runtimes have for them alone.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn determinant(b: &GraphBuilder, x: Var) -> Result<Var> {
    if dtype_of(b, x)? == DataType::Float {
        return b.det(x);
    }
    let pivots = pivots(b, x)?;
    let product = b.reduce_prod(pivots).axes([0]).keepdims(0).one()?;
    b.where_(is_singular(b, pivots)?, 0.0, product)
}

/// The signs of determinants, and the logarithms of their magnitudes, which may be out of range themselves.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn log_determinant(b: &GraphBuilder, x: Var) -> Result<[Var; 2]> {
    let pivots = pivots(b, x)?;
    let sign = b.reduce_prod(b.sign(pivots)?).axes([0]).keepdims(0).one()?;
    let sum = b.reduce_sum(b.log(b.abs(pivots)?)?).axes([0]).keepdims(0).one()?;
    let singular = is_singular(b, pivots)?;
    Ok([b.where_(singular, 0.0, sign)?, b.where_(singular, f64::NEG_INFINITY, sum)?])
}

/// Whether a pivot is zero. Those behind it are no numbers.
fn is_singular(b: &GraphBuilder, pivots: Var) -> Result<Var> {
    let zero = b.cast(b.equal(pivots, 0.0)?, DataType::Int32)?;
    b.cast(b.reduce_max(and_none(b, zero)?).axes([0]).keepdims(0).one()?, DataType::Bool)
}

/// `x` with zeros behind it along the first axis, along which there may be nothing to look at.
fn and_none(b: &GraphBuilder, x: Var) -> Result<Var> {
    let rank = b.rank_of(x).unwrap_or(1);
    let behind = (0..2 * rank).map(|at| i64::from(at == rank)).collect();
    b.pad(x, b.constant(Tensor::vector::<i64>(behind))).one()
}

/// Of truth values along the first axis, the number of the first one that holds, counted from one; zero if none does.
fn first_wrong(b: &GraphBuilder, wrong: Var) -> Result<Var> {
    let wrong = and_none(b, b.cast(wrong, DataType::Int32)?)?;
    let first = b.arg_max(wrong).axis(0).keepdims(0).one()?;
    let first = b.cast(b.add(first, 1)?, DataType::Int32)?;
    b.mul(first, b.reduce_max(wrong).axes([0]).keepdims(0).one()?)
}

/// What stands beside the left square of matrices once that is the identity, and the pivots if they are asked for.
fn eliminated(b: &GraphBuilder, x: Var, with_pivots: bool) -> Result<(Var, Vec<Var>)> {
    let n = rank(b, x)?;
    if is_empty(b, x) {
        let pivots = with_pivots.then(|| repeated(b, x, 1.0, (0, true))).transpose()?;
        return Ok((x, pivots.into_iter().collect()));
    }
    let (row_axis, column_axis) = (n - 2, n - 1);
    let count = size(b, x, row_axis)?;
    let dtype = dtype_of(b, x)?;
    let whole = b.shape(x).one()?;
    let loop_results = b.loop_(count, go_on(b), &[x], |b, k, go_on, state| {
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
        let carried = vec![b.sub(turned, less)?];
        let mut scanned = vec![];
        if with_pivots {
            let stays = b.equal(b.squeeze(best).axes([n - 2]).one()?, k)?;
            scanned.push(b.where_(stays, pivot, b.neg(pivot)?)?);
        }
        Ok(Turn { condition: go_on, carried, scanned })
    })?;
    Ok((loop_results[0], loop_results[1..].to_vec()))
}

/// The triangle whose product with itself, transposed, is the matrix: column by column, from the lower half.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn cholesky(b: &GraphBuilder, x: Var) -> Result<Var> {
    Ok(triangle_by(b, x, false)?.0)
}

/// As [`cholesky`], with LAPACK's word on each matrix: zero, or the size of the first square at the top left that is
/// not positive definite.
///
/// # Errors
/// Those of [`cholesky`].
pub fn cholesky_or_not(b: &GraphBuilder, x: Var) -> Result<[Var; 2]> {
    let (found, squares) = triangle_by(b, x, true)?;
    let squares = squares.first().copied().unwrap_or(found);
    let right = b.greater(squares, number(b, squares, 0.0)?)?;
    Ok([found, first_wrong(b, b.not(right)?)?])
}

fn triangle_by(b: &GraphBuilder, x: Var, with_squares: bool) -> Result<(Var, Vec<Var>)> {
    let n = rank(b, x)?;
    if is_empty(b, x) {
        let squares = with_squares.then(|| repeated(b, x, 1.0, (0, true))).transpose()?;
        return Ok((x, squares.into_iter().collect()));
    }
    let count = size(b, x, n - 1)?;
    let found = b.loop_(count, go_on(b), &[zeros(b, x)?], |b, k, go_on, state| {
        let rows = b.range(0, count, 1).one()?;
        let row = b.unsqueeze(line(b, state[0], k, n - 2)?, [n - 1])?;
        let before = b.squeeze(b.mat_mul(state[0], row)?).axes([n - 1]).one()?;
        let rest = b.sub(line(b, x, k, n - 1)?, before)?;
        let square = b.gather(rest, k).axis(n - 2).one()?;
        let own = b.unsqueeze(square, [n - 2])?;
        let column = b.where_(b.less(rows, k)?, 0.0, b.div(rest, b.sqrt(own)?)?)?;
        let next = b.where_(b.equal(rows, k)?, b.unsqueeze(column, [n - 1])?, state[0])?;
        let scanned = with_squares.then_some(square).into_iter().collect();
        Ok(Turn { condition: go_on, carried: vec![next], scanned })
    })?;
    Ok((like(b, found[0], x)?, found[1..].to_vec()))
}

/// Householder's reflections, with the signs of LAPACK: the product of them all, whose columns are orthogonal, and what
/// they make of the matrix, whose upper triangle counts.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn reflected(b: &GraphBuilder, x: Var) -> Result<[Var; 2]> {
    let n = rank(b, x)?;
    let (height, width) = (size(b, x, n - 2)?, size(b, x, n - 1)?);
    let start = identity(b, x)?;
    if is_empty(b, x) {
        return Ok([start, x]);
    }
    let count = b.min([height, width])?;
    let found = b.loop_(count, go_on(b), &[start, x], |b, k, go_on, state| {
        let carried = mirrored(b, [state[0], state[1]], k, height, n)?.to_vec();
        Ok(Turn { condition: go_on, carried, scanned: vec![] })
    })?;
    Ok([like(b, found[0], start)?, like(b, found[1], x)?])
}

/// Factors of matrices: orthogonal columns, and an upper triangle. As many columns as there are rows, or as the shorter
/// side is long.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn qr(b: &GraphBuilder, x: Var, complete: bool) -> Result<[Var; 2]> {
    let n = rank(b, x)?;
    let [q, r] = reflected(b, x)?;
    let r = b.trilu(r).upper(true).one()?;
    if complete {
        return Ok([q, r]);
    }
    let least = b.reduce_min(b.shape(x).start(n - 2).one()?).keepdims(1).one()?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let q = b.slice(q, zero, least).axes([n - 1]).one()?;
    Ok([q, b.slice(r, zero, least).axes([n - 2]).one()?])
}

/// As [`reflected`], of the matrix with its columns in another order: each time, the longest of what is left comes
/// first. The third result says where each column comes from. What is below the triangle is zero.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn pivoted(b: &GraphBuilder, x: Var) -> Result<[Var; 3]> {
    let n = rank(b, x)?;
    let (height, width) = (size(b, x, n - 2)?, size(b, x, n - 1)?);
    let start = identity(b, x)?;
    let count = b.min([height, width])?;
    let (whole, rows) = (b.shape(x).one()?, b.range(0, height, 1).one()?);
    let rows = b.unsqueeze(rows, [1])?;
    let places = b.range(0, width, 1).one()?;
    let stack = b.shape(x).end(-2).one()?;
    let sizes = b.concat([stack, b.unsqueeze(width, [0])?]).axis(0).one()?;
    let order = if n == 2 { places } else { b.expand(places, sizes)? };
    let loop_results = b.loop_(count, go_on(b), &[start, x, order], |b, k, go_on, state| {
        let left = b.where_(b.less(rows, k)?, number(b, x, 0.0)?, state[1])?;
        let squares = b.reduce_sum(b.mul(left, left)?).axes([n - 2]).keepdims(0).one()?;
        let squares = b.where_(b.less(places, k)?, number(b, x, -1.0)?, squares)?;
        let best = b.arg_max(squares).axis(n - 2).keepdims(1).one()?;
        let from = b.where_(b.equal(places, best)?, k, places)?;
        let from = b.where_(b.equal(places, k)?, best, from)?;
        let order = b.gather_elements(state[2], from).axis(n - 2).one()?;
        let from = b.expand(b.unsqueeze(from, [n - 2])?, whole)?;
        let r = b.gather_elements(state[1], from).axis(n - 1).one()?;
        let [q, r] = mirrored(b, [state[0], r], k, height, n)?;
        Ok(Turn { condition: go_on, carried: vec![q, r, order], scanned: vec![] })
    })?;
    let r = like(b, loop_results[1], x)?;
    let r = b.where_(b.less(places, rows)?, number(b, x, 0.0)?, r)?;
    Ok([like(b, loop_results[0], start)?, r, like(b, loop_results[2], order)?])
}

/// The reflection that makes column `k` of `r` zero below its own row, from the left on `r`, and from the right on `q`.
fn mirrored(b: &GraphBuilder, [q, r]: [Var; 2], k: Var, height: Var, n: i64) -> Result<[Var; 2]> {
    let rows = b.range(0, height, 1).one()?;
    let column = line(b, r, k, n - 1)?;
    let zero = number(b, r, 0.0)?;
    let one = number(b, r, 1.0)?;
    let left = b.where_(b.less(rows, k)?, zero, column)?;
    // No square is too large or small.
    let most = b.reduce_max(b.abs(left)?).axes([-1]).keepdims(1).one()?;
    let left = b.div(left, b.where_(b.equal(most, zero)?, one, most)?)?;
    let below = b.where_(b.equal(rows, k)?, zero, left)?;
    let rest = b.reduce_sum(b.mul(below, below)?).axes([-1]).keepdims(1).one()?;
    let own = b.unsqueeze(b.gather(left, k).axis(n - 2).one()?, [n - 2])?;
    let length = b.sqrt(b.add(rest, b.mul(own, own)?)?)?;
    let turned = b.where_(b.less(own, zero)?, length, b.neg(length)?)?;
    // A column that is zero below its own row is left as it is.
    let stays = b.equal(rest, zero)?;
    let first = b.sub(own, turned)?;
    let mirror = b.where_(b.equal(rows, k)?, first, below)?;
    let square = b.reduce_sum(b.mul(mirror, mirror)?).axes([-1]).keepdims(1).one()?;
    let scale = b.div(b.add(one, one)?, b.where_(stays, one, square)?)?;
    let scale = b.unsqueeze(b.where_(stays, zero, scale)?, [n - 1])?;
    let across = b.unsqueeze(mirror, [n - 2])?;
    let mirror = b.unsqueeze(mirror, [n - 1])?;
    let of_r = b.mul(b.mul(mirror, scale)?, b.mat_mul(across, r)?)?;
    let of_q = b.mul(b.mul(b.mat_mul(q, mirror)?, scale)?, across)?;
    Ok([b.sub(q, of_q)?, b.sub(r, of_r)?])
}
