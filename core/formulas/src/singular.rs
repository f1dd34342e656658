//! Singular values and vectors, and those of symmetric matrices, by rotations of columns (one-sided Jacobi).
//!
//! A rotation makes two columns orthogonal. In one turn of a loop, each column meets another one; after as many turns
//! as there are others, all have met. Columns change places between turns as players of a tournament do: the first one
//! stays, the others go round. A fixed number of such sweeps is enough for floats of 64 bits, so that the loop needs no
//! condition.

use crate::matrix::{identity, reflected, size, transposed};
use crate::{number, of};
use onnxd_build::{GraphBuilder, Result, Turn, Var};
use onnxd_ir::{DataType, Tensor};

/// Sweeps over all pairs of columns. The angles that are left fall quadratically.
const SWEEPS: i64 = 12;

/// `x = u diag(s) transposed(v)`, with squares `u` and `v`: as many values as the shorter side is long, the largest
/// first.
#[derive(Clone, Copy, Debug)]
pub struct Singular {
    pub u: Var,
    pub s: Var,
    pub v: Var,
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
    fn of(b: &GraphBuilder, x: Var) -> Result<Axes> {
        let rank = crate::matrix::rank(b, x)?;
        Ok(Axes { row: rank - 2, column: rank - 1 })
    }
}

/// Singular values and vectors of matrices.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn singular(b: &GraphBuilder, x: Var) -> Result<Singular> {
    let axes = Axes::of(b, x)?;
    let dims = b.shape_of(x).unwrap_or_default();
    let known = |axis: i64| dims.get(axis as usize)?.known();
    if let (Some(rows), Some(columns)) = (known(axes.row), known(axes.column))
        && rows < columns
    {
        // Fewer columns need fewer turns.
        let turned = singular(b, transposed(b, x)?)?;
        return Ok(Singular { u: turned.v, s: turned.s, v: turned.u });
    }
    let scale = magnitude(b, x)?;
    let [w, v] = orthogonal(b, b.div(x, scale)?)?;
    let square = b.reduce_sum(b.mul(w, w)?).axes([axes.row]).keepdims(0).one()?;
    let [lengths, order] = sorted(b, b.sqrt(square)?, true)?;
    let (w, v) = (columns(b, w, order)?, columns(b, v, order)?);
    // Reflections complete what columns of length zero leave open.
    let [q, _] = reflected(b, w)?;
    let least = b.reduce_min(b.shape(x).start(axes.row).one()?).keepdims(1).one()?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let first = |x: Var, axis: i64| b.slice(x, zero, least).axes([axis]).one();
    let own = first(q, axes.column)?;
    let along = b.reduce_sum(b.mul(own, first(w, axes.column)?)?).axes([axes.row]).one()?;
    let own = b.mul(own, sign(b, along)?)?;
    let rest = b.slice(q, least, [i64::MAX]).axes([axes.column]).one()?;
    let u = b.concat([own, rest]).axis(axes.column).one()?;
    let scale = b.squeeze(scale).axes([axes.column]).one()?;
    Ok(Singular { u, s: b.mul(first(lengths, axes.row)?, scale)?, v })
}

/// Eigenvalues and vectors of symmetric matrices.
///
/// # Errors
/// `N0204` if `x` is not known to be a matrix.
pub fn symmetric(b: &GraphBuilder, x: Var) -> Result<Eigen> {
    let axes = Axes::of(b, x)?;
    let scale = magnitude(b, x)?;
    let x = b.div(x, scale)?;
    // Where no eigenvalue is negative, vectors are singular ones. No eigenvalue exceeds the largest sum of a row.
    let sums = b.reduce_sum(b.abs(x)?).axes([axes.column]).keepdims(1).one()?;
    let by = b.reduce_max(sums).axes([axes.row]).keepdims(1).one()?;
    let [_, v] = orthogonal(b, b.add(x, b.mul(identity(b, x)?, by)?)?)?;
    let values = b.reduce_sum(b.mul(v, b.mat_mul(x, v)?)?).axes([axes.row]).keepdims(0).one()?;
    let [values, order] = sorted(b, values, false)?;
    let scale = b.squeeze(scale).axes([axes.column]).one()?;
    Ok(Eigen { values: b.mul(values, scale)?, vectors: columns(b, v, order)? })
}

/// The largest magnitude in each matrix, so that no square is too large or small; 1 for zeros.
fn magnitude(b: &GraphBuilder, x: Var) -> Result<Var> {
    let axes = Axes::of(b, x)?;
    let most = b.reduce_max(b.abs(x)?).axes([axes.row, axes.column]).keepdims(1).one()?;
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
    let axes = Axes::of(b, x)?;
    let order = b.expand(b.unsqueeze(order, [axes.row])?, b.shape(x).one()?)?;
    b.gather_elements(x, order).axis(axes.column).one()
}

/// A product of the matrix and an orthogonal one whose columns are orthogonal, and the orthogonal one.
fn orthogonal(b: &GraphBuilder, x: Var) -> Result<[Var; 2]> {
    let axes = Axes::of(b, x)?;
    let (height, width) = (size(b, x, axes.row)?, size(b, x, axes.column)?);
    // Each column needs a partner: a column of zeros stays as it is.
    let odd = b.unsqueeze(b.mod_(width, 2).one()?, [0])?;
    let before = b.constant(Tensor::vector(vec![0i64; 2 * axes.column as usize + 1]));
    let even = b.pad(x, b.concat([before, odd]).axis(0).one()?).one()?;
    let own = identity(b, transposed(b, even)?)?;
    let both = b.concat([even, own]).axis(axes.row).one()?;
    let count = size(b, both, axes.column)?;
    let half = b.div(count, 2)?;
    let next = next_places(b, count, half)?;
    let others = b.sub(count, 1)?;
    let yes = Tensor::new(DataType::Bool, vec![], vec![1].into());
    let yes = b.constant(yes.expect("one byte is a truth value"));
    let turns = b.mul(others, SWEEPS)?;
    let found = b.loop_(turns, yes, &[both], |b, _, go_on, state| {
        let turned = rotated(b, state[0], (height, half), &axes)?;
        let carried = vec![b.gather(turned, next).axis(axes.column).one()?];
        Ok(Turn { condition: go_on, carried, scanned: vec![] })
    })?;
    if let Some(ty) = b.type_of(both) {
        b.declare(found[0], ty);
    }
    let [height, width] = [height, width].map(|size| b.unsqueeze(size, [0]));
    let (height, width) = (height?, width?);
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let own = b.slice(found[0], zero, width).axes([axes.column]).one()?;
    let w = b.slice(own, zero, height).axes([axes.row]).one()?;
    let v = b.slice(own, height, b.add(height, width)?).axes([axes.row]).one()?;
    Ok([w, v])
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

/// Matrices whose columns of the first half are orthogonal to those of the second one, in their first `height` rows.
fn rotated(b: &GraphBuilder, x: Var, (height, half): (Var, Var), axes: &Axes) -> Result<Var> {
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
    // Columns that are orthogonal but for rounding are left as they are, so that it does not add up.
    let epsilon =
        if of(b, x)? == DataType::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let least = b.mul(b.mul(b.sqrt(square_p)?, b.sqrt(square_q)?)?, number(b, x, epsilon)?)?;
    let is_done = b.not(b.greater(b.abs(common)?, least)?)?;
    let cotangent = b.div(difference, b.where_(is_done, one, b.mul(common, two?)?)?)?;
    let root = b.sqrt(b.add(b.mul(cotangent, cotangent)?, one)?)?;
    let tangent = b.div(sign(b, cotangent)?, b.add(b.abs(cotangent)?, root)?)?;
    let tangent = b.where_(is_done, none, tangent)?;
    let cosine = b.div(one, b.sqrt(b.add(b.mul(tangent, tangent)?, one)?)?)?;
    let sine = b.mul(cosine, tangent)?;
    let new_p = b.sub(b.mul(p, cosine)?, b.mul(q, sine)?)?;
    let new_q = b.add(b.mul(p, sine)?, b.mul(q, cosine)?)?;
    b.concat([new_p, new_q]).axis(axes.column).one()
}
