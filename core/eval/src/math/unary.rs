//! Functions of one element.

use super::special;
use crate::call::{KernelCall, one};
use crate::elementwise::{map, of_floats};
use crate::fault::Outcome;
use crate::num::{Num, float, integer, numeric};
use crate::vector;
use onnxd_ir::Tensor;

/// A function of a float element, and the kernel for those of 32 bits, if one is faster.
macro_rules! real_functions {
    ($($name:ident $f:expr $(, by $kernel:ident)?;)*) => { $(
        pub(super) fn $name(call: &KernelCall) -> Outcome<Vec<Tensor>> {
            $(
                if let Some(found) = of_floats(call, &vector::$kernel)? {
                    return Ok(found);
                }
            )?
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
    ceil |x| x.ceil(), by ceils;
    cos |x| x.cos();
    cosh |x| x.cosh();
    exp |x| x.exp(), by exps;
    floor |x| x.floor(), by floors;
    log |x| x.ln(), by logs;
    reciprocal |x| x.recip(), by reciprocals;
    round |x| x.round_ties_even(), by rounds;
    sin |x| x.sin();
    sinh |x| x.sinh();
    sqrt |x| x.sqrt(), by square_roots;
    tan |x| x.tan();
}

pub(super) fn abs(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, T::magnitude)?))
}

pub(super) fn neg(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, T::opposite)?))
}

pub(super) fn sign(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, T::sign)?))
}

pub(super) fn erf(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    if let Some(found) = of_floats(call, &vector::erfs)? {
        return Ok(found);
    }
    numeric!(x.dtype(), T => one(map(x, |v: T| T::from_f64(special::erf(v.to_f64())))?))
}

pub(super) fn bitwise_not(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    integer!(x.dtype(), T => one(map(x, |v: T| !v)?))
}
