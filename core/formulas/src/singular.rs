//! Singular values and vectors, and those of symmetric matrices, by rotations of columns (one-sided Jacobi).
//!
//! A rotation makes two columns orthogonal. In one turn of a loop, each column meets another one; after as many turns
//! as there are others, a sweep, all have met. Columns change places between turns as players of a tournament do: the
//! first one stays, the others go round. The loop ends after a sweep without a rotation.
//!
//! Columns are not those of the matrix, but those of the transposed triangle of its factorization with pivots (Drmac
//! and Veselic): they are nearly orthogonal and in order, so that 5 to 10 sweeps are enough where rows differ by many
//! orders of magnitude or depend on each other, which takes 30 sweeps and more otherwise.

use crate::matrix::{identity, is_empty, pivoted, reflected, repeated, size, transposed};
use crate::{dtype_of, number};
use onnxd_build::{GraphBuilder, Result, Turn, Var};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{DataType, Dim, Tensor};

/// Sweeps over all pairs of columns, if rounding keeps the rotations from ending.
const SWEEPS_MAX: i64 = 60;

/// `x = u diag(s) transposed(v)`, with squares `u` and `v`: as many values as the shorter side is long, the largest
/// first.
#[derive(Clone, Copy, Debug)]
pub struct Singular {
    pub u: Var,
    pub s: Var,
    pub v: Var,
}

impl Singular {
    /// With as many vectors as values.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn thin(self, b: &GraphBuilder) -> Result<Singular> {
        let zero = b.constant(Tensor::vector(vec![0i64]));
        let count = b.shape(self.s).start(-1).one()?;
        let first = |x: Var| b.slice(x, zero, count).axes([-1]).one();
        Ok(Singular { u: first(self.u)?, s: self.s, v: first(self.v)? })
    }

    /// The pseudo-inverse, where magnitudes up to `limit` count as zero.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn inverse(self, b: &GraphBuilder, limit: Var) -> Result<Var> {
        let counts = b.greater(b.abs(self.s)?, limit)?;
        let none = b.mul(self.s, 0.0)?;
        let one = b.add(none, 1.0)?;
        let inverse = b.where_(counts, b.div(one, b.where_(counts, self.s, one)?)?, none)?;
        b.mat_mul(b.mul(self.v, b.unsqueeze(inverse, [-2])?)?, transposed(b, self.u)?)
    }
}

/// Eigenvalues of symmetric matrices, the smallest first, and their vectors as columns.
#[derive(Clone, Copy, Debug)]
pub struct Eigen {
    pub values: Var,
    pub vectors: Var,
}

/// What the last two axes of matrices are called.
struct Axes {
    row: i64,
    column: i64,
}

impl Axes {
    /// # Errors
    /// `N0204` if `x` is not known to be a matrix.
    fn last_two(b: &GraphBuilder, x: Var) -> Result<Axes> {
        let rank = crate::matrix::rank(b, x)?;
        Ok(Axes { row: rank - 2, column: rank - 1 })
    }
}

/// Singular values and vectors of matrices.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn singular(b: &GraphBuilder, x: Var) -> Result<Singular> {
    let axes = Axes::last_two(b, x)?;
    if is_empty(b, x) {
        let (u, v) = (identity(b, x)?, identity(b, transposed(b, x)?)?);
        return Ok(Singular { u, s: repeated(b, x, 0.0, (0, false))?, v });
    }
    let scale = magnitude(b, x)?;
    let [q, r, order] = pivoted(b, b.div(x, scale)?)?;
    let least = least(b, x)?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let first = |x: Var, axis: i64| b.slice(x, zero, least).axes([axis]).one();
    let rest = |x: Var| b.slice(x, least, [i64::MAX]).axes([axes.column]).one();
    let [w, turned] = orthogonal(b, transposed(b, first(r, axes.row)?)?)?;
    let [lengths, places] = sorted(b, lengths(b, w)?, true)?;
    let (w, turned) = (columns(b, w, places)?, columns(b, turned, places)?);
    let u = b.mat_mul(first(q, axes.column)?, turned)?;
    let u = b.concat([u, rest(q)?]).axis(axes.column).one()?;
    // Reflections complete what columns of length zero leave open.
    let [v, _] = reflected(b, w)?;
    let own = first(v, axes.column)?;
    let along = b.reduce_sum(b.mul(own, w)?).axes([axes.row]).one()?;
    let own = b.mul(own, sign(b, along)?)?;
    let v = b.concat([own, rest(v)?]).axis(axes.column).one()?;
    // Rows go back to where the columns of the matrix came from.
    let count = b.shape(order).start(-1).one()?;
    let [_, back] = b.top_k(order, count).axis(-1).largest(false).outputs()?;
    let back = b.expand(b.unsqueeze(back, [axes.column])?, b.shape(v).one()?)?;
    let v = b.gather_elements(v, back).axis(axes.row).one()?;
    Ok(Singular { u, s: b.mul(lengths, flat(b, scale)?)?, v })
}

/// The singular values alone, which take about half the time.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn values(b: &GraphBuilder, x: Var) -> Result<Var> {
    let axes = Axes::last_two(b, x)?;
    if is_empty(b, x) {
        return repeated(b, x, 0.0, (0, false));
    }
    let scale = magnitude(b, x)?;
    let [_, r, _] = pivoted(b, b.div(x, scale)?)?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let r = b.slice(r, zero, least(b, x)?).axes([axes.row]).one()?;
    let [w, _] = rotated_until_orthogonal(b, transposed(b, r)?, false)?;
    let [lengths, _] = sorted(b, lengths(b, w)?, true)?;
    b.mul(lengths, flat(b, scale)?)
}

/// Eigenvalues and vectors of symmetric matrices.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn symmetric(b: &GraphBuilder, x: Var) -> Result<Eigen> {
    let axes = Axes::last_two(b, x)?;
    if is_empty(b, x) {
        return Ok(Eigen { values: repeated(b, x, 0.0, (0, false))?, vectors: x });
    }
    let scale = magnitude(b, x)?;
    let x = b.div(x, scale)?;
    // Where no eigenvalue is negative, vectors are singular ones. No eigenvalue exceeds the largest sum of a row.
    let sums = b.reduce_sum(b.abs(x)?).axes([axes.column]).keepdims(1).one()?;
    let by = largest(b, sums, &[axes.row])?;
    let [q, r, _] = pivoted(b, b.add(x, b.mul(identity(b, x)?, by)?)?)?;
    let [_, turned] = orthogonal(b, transposed(b, r)?)?;
    let v = b.mat_mul(q, turned)?;
    let values = b.reduce_sum(b.mul(v, b.mat_mul(x, v)?)?).axes([axes.row]).keepdims(0).one()?;
    let [values, order] = sorted(b, values, false)?;
    Ok(Eigen { values: b.mul(values, flat(b, scale)?)?, vectors: columns(b, v, order)? })
}

/// How long the shorter side of matrices is, as a vector of one.
fn least(b: &GraphBuilder, x: Var) -> Result<Var> {
    let row = Axes::last_two(b, x)?.row;
    b.reduce_min(b.shape(x).start(row).one()?).keepdims(1).one()
}

/// One number of each matrix, beside a vector of the matrix.
fn flat(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.squeeze(x).axes([Axes::last_two(b, x)?.column]).one()
}

/// As [`symmetric`], of matrices of which one half counts.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn symmetric_by_half(b: &GraphBuilder, x: Var, upper: bool) -> Result<Eigen> {
    let half = b.trilu(x).upper(upper).one()?;
    let beside = b.trilu(x).upper(upper).k(if upper { 1i64 } else { -1 }).one()?;
    symmetric(b, b.add(half, transposed(b, beside)?)?)
}

/// From this length of the shorter side on, users hear what loops over columns cost.
const SIDE_NOTED: i64 = 129;

/// What users should know of matrices that are known to be large: it takes long to find what is asked of them.
pub fn cost(b: &GraphBuilder, x: Var, what: &str) -> Option<Diagnostic> {
    let dims = b.shape_of(x)?;
    let [.., rows, columns] = &dims[..] else { return None };
    let (m, n) = (rows.known()?, columns.known()?);
    if m.min(n) < SIDE_NOTED {
        return None;
    }
    let message = format!(
        "The {what} of {m} x {n} numbers are found in a loop, which is slow: of 512 x 512 numbers, \
         it takes ONNX Runtime about 10 seconds, and 8 times as long for sides of twice the length."
    );
    let help = "Compute them outside of the network, or of smaller matrices.";
    Some(b.diagnostic(Code::LayerParameter, message).help(help))
}

/// The lengths of columns.
fn lengths(b: &GraphBuilder, x: Var) -> Result<Var> {
    let square = b.reduce_sum(b.mul(x, x)?).axes([Axes::last_two(b, x)?.row]).keepdims(0).one()?;
    b.sqrt(square)
}

/// The largest of numbers that are not negative along axes, which stay; zero where there are none.
///
/// # Errors
/// Those of the builder.
pub fn largest(b: &GraphBuilder, x: Var, axes: &[i64]) -> Result<Var> {
    let dims = b.shape_of(x).unwrap_or_default();
    let is_some = |axis: &i64| dims.get(*axis as usize).and_then(Dim::known).is_some_and(|n| n > 0);
    let mut x = x;
    if !axes.iter().all(is_some) {
        let rank = b.rank_of(x).unwrap_or_default() as i64;
        let behind = (0..rank).map(|axis| i64::from(axes.contains(&axis)));
        let pads = (0..rank).map(|_| 0).chain(behind).collect();
        x = b.pad(x, b.constant(Tensor::vector::<i64>(pads))).one()?;
    }
    b.reduce_max(x).axes(axes).keepdims(1).one()
}

/// The largest magnitude in each matrix, so that no square is too large or small; 1 for zeros.
fn magnitude(b: &GraphBuilder, x: Var) -> Result<Var> {
    let axes = Axes::last_two(b, x)?;
    let most = largest(b, b.abs(x)?, &[axes.row, axes.column])?;
    b.where_(b.equal(most, number(b, x, 0.0)?)?, number(b, x, 1.0)?, most)
}

/// -1 for negative numbers, else 1.
fn sign(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.where_(b.less(x, number(b, x, 0.0)?)?, number(b, x, -1.0)?, number(b, x, 1.0)?)
}

/// Numbers along the last axis in order, and their places.
fn sorted(b: &GraphBuilder, x: Var, largest: bool) -> Result<[Var; 2]> {
    let count = b.shape(x).start(-1).one()?;
    b.top_k(x, count).axis(-1).largest(largest).outputs()
}

/// The columns of matrices in an order.
fn columns(b: &GraphBuilder, x: Var, order: Var) -> Result<Var> {
    let axes = Axes::last_two(b, x)?;
    let order = b.expand(b.unsqueeze(order, [axes.row])?, b.shape(x).one()?)?;
    b.gather_elements(x, order).axis(axes.column).one()
}

/// A product of the matrix and an orthogonal one whose columns are orthogonal, and the orthogonal one.
fn orthogonal(b: &GraphBuilder, x: Var) -> Result<[Var; 2]> {
    let axes = Axes::last_two(b, x)?;
    let [both, _] = rotated_until_orthogonal(b, x, true)?;
    let height = b.shape(x).start(axes.row).end(axes.column).one()?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let w = b.slice(both, zero, height).axes([axes.row]).one()?;
    Ok([w, b.slice(both, height, [i64::MAX]).axes([axes.row]).one()?])
}

/// The matrix times an orthogonal one that makes its columns orthogonal; `with_turned`, that one is below it. The
/// second result is the number of turns since the last rotation.
fn rotated_until_orthogonal(b: &GraphBuilder, x: Var, with_turned: bool) -> Result<[Var; 2]> {
    let axes = Axes::last_two(b, x)?;
    let (height, width) = (size(b, x, axes.row)?, size(b, x, axes.column)?);
    let whole = match with_turned {
        true => b.concat([x, identity(b, transposed(b, x)?)?]).axis(axes.row).one()?,
        false => x,
    };
    // Each column needs a partner: a column of zeros stays as it is, at the first place.
    let odd = b.unsqueeze(b.mod_(width, 2).one()?, [0])?;
    let before = b.constant(Tensor::vector(vec![0i64; axes.column as usize]));
    let behind = b.constant(Tensor::vector(vec![0i64; axes.column as usize + 1]));
    let even = b.pad(whole, b.concat([before, odd, behind]).axis(0).one()?).one()?;
    let count = b.add(width, b.squeeze(odd).axes([0]).one()?)?;
    let half = b.div(count, 2)?;
    let next = next_places(b, count, half)?;
    let others = b.sub(count, 1)?;
    // As LAPACK has it: products of columns are rounded, the more the longer they are.
    let share = b.sqrt(b.cast(height, dtype_of(b, x)?)?)?;
    let share = b.mul(share, number(b, x, epsilon(b, x)?)?)?;
    let turns = b.mul(others, SWEEPS_MAX)?;
    let none = b.constant(Tensor::scalar(0i64));
    let go_on = b.less(none, others)?;
    let loop_results = b.loop_(turns, go_on, &[even, none], |b, _, _, state| {
        let [turned, rotations] = rotated(b, state[0], [height, half, share], &axes)?;
        let quiet = b.where_(b.greater(rotations, 0)?, 0, b.add(state[1], 1)?)?;
        let carried = vec![b.gather(turned, next).axis(axes.column).one()?, quiet];
        Ok(Turn { condition: b.less(quiet, others)?, carried, scanned: vec![] })
    })?;
    if let Some(ty) = b.type_of(even) {
        b.declare(loop_results[0], ty);
    }
    let turned = b.slice(loop_results[0], odd, [i64::MAX]).axes([axes.column]).one()?;
    Ok([turned, loop_results[1]])
}

/// The distance between 1 and the next number.
fn epsilon(b: &GraphBuilder, x: Var) -> Result<f64> {
    let is_double = dtype_of(b, x)? == DataType::Double;
    Ok(if is_double { f64::EPSILON } else { f64::from(f32::EPSILON) })
}

/// Where the column of each place comes from in the next turn: the first one stays, the others go round.
fn next_places(b: &GraphBuilder, count: Var, half: Var) -> Result<Var> {
    let places = b.range(0, count, 1).one()?;
    let turned = b.where_(b.less(places, half)?, b.sub(places, 1)?, b.add(places, 1)?)?;
    let at = |place: Var, from: Var, turned: Var| b.where_(b.equal(places, place)?, from, turned);
    let (zero, one) = (b.constant(Tensor::scalar(0i64)), b.constant(Tensor::scalar(1i64)));
    let turned = at(b.sub(count, 1)?, b.sub(half, 1)?, turned)?;
    // Of two columns, the second one stays, too.
    at(zero, zero, at(one, half, turned)?)
}

/// Matrices whose columns of the first half are orthogonal to those of the second one, in their first `height` rows,
/// and how many were rotated. Those whose product is at most a `share` of their lengths are orthogonal.
fn rotated(
    b: &GraphBuilder,
    x: Var,
    [height, half, share]: [Var; 3],
    axes: &Axes,
) -> Result<[Var; 2]> {
    let (height, half) = (b.unsqueeze(height, [0])?, b.unsqueeze(half, [0])?);
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let p = b.slice(x, zero, half).axes([axes.column]).one()?;
    let q = b.slice(x, half, [i64::MAX]).axes([axes.column]).one()?;
    let upper = |x: Var| b.slice(x, zero, height).axes([axes.row]).one();
    let (own_p, own_q) = (upper(p)?, upper(q)?);
    let product = |x: Var, y: Var| b.reduce_sum(b.mul(x, y)?).axes([axes.row]).keepdims(1).one();
    let (square_p, square_q) = (product(own_p, own_p)?, product(own_q, own_q)?);
    let difference = b.sub(square_q, square_p)?;
    let common = product(own_p, own_q)?;
    let [none, one, two] = [0.0, 1.0, 2.0].map(|x| number(b, common, x));
    let (none, one) = (none?, one?);
    // The longest column is as long as 1. What is as short as its rounding is no direction: such columns would be
    // rotated again and again, ever shorter.
    let tiny = number(b, x, epsilon(b, x)?)?;
    let length = |square: Var| b.max([b.sqrt(square)?, tiny]);
    let least = b.mul(b.mul(length(square_p)?, length(square_q)?)?, share)?;
    let goes = b.greater(b.abs(common)?, least)?;
    let cotangent = b.div(difference, b.where_(goes, b.mul(common, two?)?, one)?)?;
    let root = b.sqrt(b.add(b.mul(cotangent, cotangent)?, one)?)?;
    let tangent = b.div(sign(b, cotangent)?, b.add(b.abs(cotangent)?, root)?)?;
    let tangent = b.where_(goes, tangent, none)?;
    let cosine = b.div(one, b.sqrt(b.add(b.mul(tangent, tangent)?, one)?)?)?;
    let sine = b.mul(cosine, tangent)?;
    // Rutishauser's form of `p cosine - q sine` and `p sine + q cosine`: the cosine of a small angle is rounded to 1,
    // so that columns would become a bit longer each time.
    let half = b.div(sine, b.add(cosine, one)?)?;
    let new_p = b.sub(p, b.mul(sine, b.add(q, b.mul(p, half)?)?)?)?;
    let new_q = b.add(q, b.mul(sine, b.sub(p, b.mul(q, half)?)?)?)?;
    let turned = b.concat([new_p, new_q]).axis(axes.column).one()?;
    Ok([turned, b.reduce_sum(b.cast(goes, DataType::Int64)?).keepdims(0).one()?])
}

#[cfg(test)]
mod tests;
