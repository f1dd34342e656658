//! What is gathered along an axis, element after element: running products, and logarithms of running sums.

use crate::{dtype_of, number};
use onnxd_build::{GraphBuilder, Result, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::{Tensor, ValueType};

/// Which elements a place has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach {
    /// Those before it, and not its own.
    pub exclusive: bool,
    /// From the last one on.
    pub reverse: bool,
}

/// A tensor with an axis in front, so that operators run over it.
#[derive(Debug)]
pub struct Turned {
    pub rows: Var,
    order: Vec<i64>,
}

impl Turned {
    /// `x` with the axis `axis` in front.
    ///
    /// # Errors
    /// `N0204` if the number of axes is not known.
    pub fn new(b: &GraphBuilder, x: Var, axis: usize) -> Result<Turned> {
        let rank = b.rank_of(x).filter(|rank| axis < *rank).ok_or_else(|| {
            let message = format!("The axes of `{}` are not known.", shown(&b.name_of(x)));
            b.diagnostic(Code::LayerParameter, message)
        })?;
        let mut order: Vec<i64> = (0..rank as i64).collect();
        order.swap(0, axis);
        let rows = if axis == 0 { x } else { b.transpose(x).perm(&order).one()? };
        Ok(Turned { rows, order })
    }

    /// What all rows gave, as a tensor of the shape of `x`.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn back(&self, b: &GraphBuilder, stacked: Var) -> Result<Var> {
        if let (Some(shape), Some(dtype)) = (b.shape_of(self.rows), b.dtype_of(stacked)) {
            b.declare(stacked, ValueType::tensor(dtype, shape));
        }
        match self.order.first() {
            Some(0) => Ok(stacked),
            _ => b.transpose(stacked).perm(&self.order).one(),
        }
    }
}

/// Products along an axis.
///
/// # Errors
/// Those of [`Turned::new`].
pub fn product(b: &GraphBuilder, x: Var, axis: usize, reach: Reach) -> Result<Var> {
    if b.opset() >= 26 {
        let flag = |on: bool| on.then_some(1i64);
        let call = b.cum_prod(x, Tensor::scalar(axis as i64));
        return call.exclusive(flag(reach.exclusive)).reverse(flag(reach.reverse)).one();
    }
    running(b, x, axis, reach, 1.0, GraphBuilder::mul)
}

/// Logarithms of sums of powers of e along an axis.
///
/// # Errors
/// Those of [`Turned::new`].
pub fn log_sum_exp(b: &GraphBuilder, x: Var, axis: usize, reach: Reach) -> Result<Var> {
    running(b, x, axis, reach, f64::NEG_INFINITY, |b, x, y| {
        let greater = b.max([x, y])?;
        let distance = b.neg(b.abs(b.sub(x, y)?)?)?;
        let sum = b.add(greater, b.softplus(distance)?)?;
        // There is no distance between two numbers that are minus infinity.
        b.where_(b.equal(greater, f64::NEG_INFINITY)?, greater, sum)
    })
}

/// What `step` makes of all elements along an axis, beginning with `first`.
fn running(
    b: &GraphBuilder,
    x: Var,
    axis: usize,
    reach: Reach,
    first: f64,
    step: impl FnOnce(&GraphBuilder, Var, Var) -> Result<Var>,
) -> Result<Var> {
    let turned = Turned::new(b, x, axis)?;
    let directed = |x: Var| match reach.reverse {
        true => b.slice(x, [-1], [i64::MIN + 1]).axes([0]).steps([-1]).one(),
        false => Ok(x),
    };
    let rows = directed(turned.rows)?;
    let sizes = match b.opset() >= 15 {
        true => b.shape(rows).start(1).one()?,
        false => b.slice(b.shape(rows).one()?, [1], [i64::MAX]).axes([0]).one()?,
    };
    let start = b.expand(number_of(b, x, first)?, sizes)?;
    let all = b.scan(&[start], &[rows], |b, states, slices| {
        let next = step(b, states[0], slices[0])?;
        Ok(vec![next, if reach.exclusive { states[0] } else { next }])
    })?;
    turned.back(b, directed(all[1])?)
}

/// A number of the type of `x`, which may be one of integers.
fn number_of(b: &GraphBuilder, x: Var, value: f64) -> Result<Var> {
    match dtype_of(b, x)?.is_float() {
        true => number(b, x, value),
        false => b.cast(b.constant(Tensor::scalar(value as i64)), dtype_of(b, x)?),
    }
}

#[cfg(test)]
mod tests;
