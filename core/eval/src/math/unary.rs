//! Functions of one element.

use super::special;
use crate::call::{Call, one};
use crate::elementwise::map;
use crate::fault::Outcome;
use crate::num::{Num, float, integer, numeric};
use crate::parallel::fill_parts;
use onnxd_ir::{DataType, Tensor};

macro_rules! real_functions {
    ($($name:ident $f:expr;)*) => { $(
        pub(super) fn $name(call: &Call) -> Outcome<Vec<Tensor>> {
            let x = call.x(0)?;
            float!(x.dtype(), T => {
                let f: fn(T) -> T = $f;
                one(map(x, f)?)
            })
        }
    )* };
}

real_functions! {
    acos |x| x.acos();
    acosh |x| x.acosh();
    asin |x| x.asin();
    asinh |x| x.asinh();
    atan |x| x.atan();
    atanh |x| x.atanh();
    ceil |x| x.ceil();
    cos |x| x.cos();
    cosh |x| x.cosh();
    exp |x| x.exp();
    floor |x| x.floor();
    log |x| x.ln();
    reciprocal |x| x.recip();
    round |x| x.round_ties_even();
    sin |x| x.sin();
    sinh |x| x.sinh();
    sqrt |x| x.sqrt();
    tan |x| x.tan();
}

pub(super) fn abs(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, T::magnitude)?))
}

pub(super) fn neg(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, T::opposite)?))
}

pub(super) fn sign(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, T::sign)?))
}

pub(super) fn erf(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    if x.dtype() == DataType::Float {
        let values = call.slice::<f32>(0)?;
        let mut y = vec![0f32; values.len()];
        fill_parts(&mut y, 1, 8, &|first, part| {
            special::erf32(&values[first..first + part.len()], part);
        });
        return one(Tensor::from_vec(x.dims(), y));
    }
    numeric!(x.dtype(), T => one(map(x, |v: T| T::from_f64(special::erf(v.to_f64())))?))
}

pub(super) fn bitwise_not(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    integer!(x.dtype(), T => one(map(x, |v: T| !v)?))
}
