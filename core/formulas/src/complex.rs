//! Complex numbers. ONNX computes with none, so a complex tensor is its real and imaginary parts, or both along a last
//! axis of two. A value that nothing computes stands for it in the program, with its type and sizes.

use crate::elementary::atan2;
use onnxd_build::{GraphBuilder, Result, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::DataType::{self, Complex64, Complex128, Double, Float};
use onnxd_ir::{Dim, ValueType};
use std::cell::RefCell;
use std::collections::HashMap;

/// The real and the imaginary part.
pub type ComplexParts = [Var; 2];

/// Whether elements of this type are complex.
pub fn is_complex(dtype: DataType) -> bool {
    matches!(dtype, Complex64 | Complex128)
}

/// Whether `v` is complex.
pub fn is(b: &GraphBuilder, v: Var) -> bool {
    b.dtype_of(v).is_some_and(is_complex)
}

/// The type of the parts.
pub fn float_of(dtype: DataType) -> DataType {
    if dtype == Complex128 { Double } else { Float }
}

/// The type of both parts along a last axis, for the type of a complex tensor.
pub fn pair_of(ty: &ValueType) -> Option<ValueType> {
    let dtype = ty.dtype().filter(|dtype| is_complex(*dtype))?;
    let shape = ty.shape().map(|shape| shape.iter().cloned().chain([Dim::Known(2)]).collect());
    Some(ValueType::Tensor { dtype: Some(float_of(dtype)), shape })
}

/// What a complex value is made of.
#[derive(Clone, Copy, Debug)]
enum MadeOf {
    Parts(ComplexParts),
    /// Real and imaginary parts along the last axis.
    Pair(Var),
}

/// What the values that stand for complex tensors are made of.
#[derive(Debug, Default)]
pub struct ComplexTensors(RefCell<HashMap<Var, MadeOf>>);

impl ComplexTensors {
    /// A complex tensor of parts that broadcast.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn of_broadcast(&self, b: &GraphBuilder, [re, im]: ComplexParts) -> Result<Var> {
        let same = match (b.shape_of(re), b.shape_of(im)) {
            (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| x.same(y)),
            _ => false,
        };
        if same {
            return Ok(self.of_parts(b, [re, im]));
        }
        let both = [b.expand(re, b.shape(im).one()?)?, b.expand(im, b.shape(re).one()?)?];
        Ok(self.of_parts(b, both))
    }

    /// A complex tensor of its parts, which have one shape.
    pub fn of_parts(&self, b: &GraphBuilder, [re, im]: ComplexParts) -> Var {
        let larger = if b.rank_of(im) > b.rank_of(re) { im } else { re };
        self.stands_for(b, larger, 0, MadeOf::Parts([re, im]))
    }

    /// A complex tensor of both parts along the last axis.
    pub fn of_pair(&self, b: &GraphBuilder, pair: Var) -> Var {
        self.stands_for(b, pair, 1, MadeOf::Pair(pair))
    }

    /// A value that stands for a complex tensor.
    fn stands_for(&self, b: &GraphBuilder, like: Var, axes: usize, made_of: MadeOf) -> Var {
        let dtype = if b.dtype_of(like) == Some(Double) { Complex128 } else { Complex64 };
        let shape = b.shape_of(like);
        let shape = shape.map(|shape| shape[..shape.len().saturating_sub(axes)].to_vec());
        let v = b.placeholder(Some(ValueType::Tensor { dtype: Some(dtype), shape }));
        self.0.borrow_mut().insert(v, made_of);
        v
    }

    /// What a complex tensor is made of; a constant is taken apart now.
    fn made_of(&self, b: &GraphBuilder, v: Var) -> Result<MadeOf> {
        if let Some(known) = self.0.borrow().get(&v) {
            return Ok(*known);
        }
        let constant = b.constant_of(v).and_then(|t| {
            let dtype = float_of(t.dtype());
            t.viewed_as(dtype, &[t.dims(), &[2]].concat()).ok()
        });
        let message = "A complex tensor is needed that is computed here, or constant.";
        let constant = constant.ok_or_else(|| b.diagnostic(Code::LayerUnsupported, message))?;
        let pair = MadeOf::Pair(b.parameter("complex", constant));
        self.0.borrow_mut().insert(v, pair);
        Ok(pair)
    }

    /// Both parts along a last axis.
    ///
    /// # Errors
    /// `N0203` if it is not known what the tensor is made of, or how many axes its parts have.
    pub fn pair(&self, b: &GraphBuilder, v: Var) -> Result<Var> {
        match self.made_of(b, v)? {
            MadeOf::Pair(pair) => Ok(pair),
            MadeOf::Parts([re, im]) => {
                let axis = axes(b, re)?;
                let parts = [b.unsqueeze(re, [axis])?, b.unsqueeze(im, [axis])?];
                let pair = b.concat(parts).axis(axis).one()?;
                self.0.borrow_mut().insert(v, MadeOf::Pair(pair));
                Ok(pair)
            }
        }
    }

    /// The real and the imaginary part.
    ///
    /// # Errors
    /// Those of [`ComplexTensors::pair`].
    pub fn parts(&self, b: &GraphBuilder, v: Var) -> Result<ComplexParts> {
        match self.made_of(b, v)? {
            MadeOf::Parts(parts) => Ok(parts),
            MadeOf::Pair(pair) => {
                let last = axes(b, pair)? - 1;
                let part = |i: i64| b.gather(pair, i).axis(last).one();
                Ok([part(0)?, part(1)?])
            }
        }
    }

    /// A real tensor whose axes begin with those of `v`.
    ///
    /// # Errors
    /// Those of [`ComplexTensors::pair`].
    pub fn shaped(&self, b: &GraphBuilder, v: Var) -> Result<Var> {
        if !is(b, v) {
            return Ok(v);
        }
        Ok(match self.made_of(b, v)? {
            MadeOf::Parts([re, _]) => re,
            MadeOf::Pair(pair) => pair,
        })
    }

    /// The distance from zero.
    ///
    /// # Errors
    /// Those of [`ComplexTensors::pair`].
    pub fn length(&self, b: &GraphBuilder, v: Var) -> Result<Var> {
        match self.made_of(b, v)? {
            MadeOf::Parts(parts) => b.sqrt(square(b, parts)?),
            MadeOf::Pair(pair) => b.reduce_l2(pair).axes([axes(b, pair)? - 1]).keepdims(0).one(),
        }
    }
}

fn axes(b: &GraphBuilder, x: Var) -> Result<i64> {
    let rank = b.rank_of(x).ok_or_else(|| {
        let message = format!("The number of axes of `{}` is not known.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerUnsupported, message)
    })?;
    Ok(rank as i64)
}

/// The square of the distance from zero.
fn square(b: &GraphBuilder, [re, im]: ComplexParts) -> Result<Var> {
    b.add(b.mul(re, re)?, b.mul(im, im)?)
}

/// The angle to the right half of the real axis.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn angle(b: &GraphBuilder, [re, im]: ComplexParts) -> Result<Var> {
    atan2(b, im, re)
}

/// The number of a distance and an angle.
///
/// # Errors
/// Those of the builder.
pub fn polar(b: &GraphBuilder, length: Var, angle: Var) -> Result<ComplexParts> {
    Ok([b.mul(length, b.cos(angle)?)?, b.mul(length, b.sin(angle)?)?])
}

/// The mirror image at the real axis.
///
/// # Errors
/// Those of the builder.
pub fn conjugate(b: &GraphBuilder, [re, im]: ComplexParts) -> Result<ComplexParts> {
    Ok([re, b.neg(im)?])
}

/// A product of any kind that is linear in both operands.
///
/// # Errors
/// Those of the product.
pub fn product(
    b: &GraphBuilder,
    [re, im]: ComplexParts,
    [re2, im2]: ComplexParts,
    times: impl Fn(Var, Var) -> Result<Var>,
) -> Result<ComplexParts> {
    Ok([b.sub(times(re, re2)?, times(im, im2)?)?, b.add(times(re, im2)?, times(im, re2)?)?])
}

/// `x / y`, for the product of `x` with the conjugate of `y`.
///
/// # Errors
/// Those of the builder.
pub fn over_square(
    b: &GraphBuilder,
    [re, im]: ComplexParts,
    y: ComplexParts,
) -> Result<ComplexParts> {
    let square = square(b, y)?;
    Ok([b.div(re, square)?, b.div(im, square)?])
}

/// `x / y`
///
/// # Errors
/// Those of the builder.
pub fn quotient(b: &GraphBuilder, x: ComplexParts, y: ComplexParts) -> Result<ComplexParts> {
    let product = product(b, x, conjugate(b, y)?, |x, y| b.mul(x, y))?;
    over_square(b, product, y)
}

/// `1 / x`
///
/// # Errors
/// Those of the builder.
pub fn reciprocal(b: &GraphBuilder, x: ComplexParts) -> Result<ComplexParts> {
    over_square(b, conjugate(b, x)?, x)
}

/// The power of e.
///
/// # Errors
/// Those of the builder.
pub fn exp(b: &GraphBuilder, [re, im]: ComplexParts) -> Result<ComplexParts> {
    polar(b, b.exp(re)?, im)
}
