//! Functions of two elements, with broadcasting.

use crate::call::{KernelCall, one};
use crate::dims;
use crate::elementwise::zip;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, integer, numeric, slice};
use crate::vector::{self, mapped};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// The two operands; before opset 7 the second is aligned by the attributes `broadcast` and `axis`.
pub(crate) fn operands(call: &KernelCall) -> Outcome<(Tensor, Tensor)> {
    let (a, b) = (call.x(0)?.clone(), call.x(1)?.clone());
    if call.opset >= 7 || !call.flag("broadcast", false)? {
        return Ok((a, b));
    }
    let Some(axis) = call.int_opt("axis")? else { return Ok((a, b)) };
    let behind = a.rank().checked_sub(dims::axis(axis, a.rank())? + b.rank());
    let behind = behind.ok_or_else(|| Fault::invalid("the second operand has too many axes"))?;
    let aligned = b.reshaped([b.dims(), &vec![1; behind]].concat())?;
    Ok((a, aligned))
}

/// The operands of one type.
fn same_typed(call: &KernelCall) -> Outcome<(Tensor, Tensor)> {
    let (a, b) = operands(call)?;
    refuse!(a.dtype() != b.dtype() => "{a:?} and {b:?} differ in element type");
    Ok((a, b))
}

macro_rules! arithmetic {
    ($($name:ident $method:ident;)*) => { $(
        pub(super) fn $name(call: &KernelCall) -> Outcome<Vec<Tensor>> {
            let (a, b) = same_typed(call)?;
            numeric!(a.dtype(), T => one(zip(call, a.dtype(), (&a, &b), T::$method)?))
        }
    )* };
}

arithmetic! {
    add plus;
    sub minus;
    mul times;
}

/// Integers truncate towards zero.
pub(super) fn div(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    numeric!(a.dtype(), T => {
        refuse_zero::<T>(&b)?;
        one(zip(call, a.dtype(), (&a, &b), T::over)?)
    })
}

/// The result has the sign of the divisor, with `fmod` that of the dividend.
pub(super) fn modulo(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    let fmod = call.flag("fmod", false)?;
    numeric!(a.dtype(), T => {
        refuse_zero::<T>(&b)?;
        let f = if fmod { T::remainder } else { T::modulo };
        one(zip(call, a.dtype(), (&a, &b), f)?)
    })
}

fn refuse_zero<T: Num>(divisor: &Tensor) -> Outcome<()> {
    refuse!(T::INTEGER && slice::<T>(divisor)?.contains(&T::default()) => "an integer is divided by zero");
    Ok(())
}

/// The result has the type of the base; integers to integer powers are exact modulo 2^bits.
pub(super) fn pow(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = operands(call)?;
    let both = (&a, &b);
    let out = a.dtype();
    match (a.dtype(), b.dtype()) {
        (DataType::Float, DataType::Float) => match fixed_power(a.rank(), &b)? {
            Some(kernel) => one(mapped(&a, &kernel)?),
            None => one(zip(call, out, both, f32::powf)?),
        },
        (base, exponent)
            if exponent.is_integer() && (base.is_integer() || exponent != DataType::Uint64) =>
        {
            let exponents = Tensor::from_vec(b.dims(), exponents(&b)?);
            numeric!(base, T => one(zip(call, out, (&a, &exponents), T::power)?))
        }
        (base, _) => {
            let exponents = Tensor::from_vec(b.dims(), crate::reals::reals(&b)?);
            numeric!(base, T => {
                let f = |x: T, e: f64| T::from_f64(x.to_f64().powf(e));
                one(zip(call, out, (&a, &exponents), f)?)
            })
        }
    }
}

/// The kernel for powers of a base with so many axes, where one exponent stands for all elements, if there is one.
pub(crate) fn fixed_power(rank: usize, exponent: &Tensor) -> Outcome<Option<vector::InPlace>> {
    if exponent.len() != 1 || exponent.rank() > rank {
        return Ok(None);
    }
    Ok(match slice::<f32>(exponent)?[0] {
        -1.0 => Some(vector::reciprocals),
        0.5 => Some(vector::powers_of_half),
        2.0 => Some(vector::squares),
        3.0 => Some(vector::cubes),
        _ => None,
    })
}

/// Exponents as `int64`; larger ones become smaller ones that give the same integer powers. Modulo
/// 2^bits the powers of odd numbers repeat every 2^62, and those of even ones are 0 from 64 on.
fn exponents(b: &Tensor) -> Outcome<Vec<i64>> {
    if b.dtype() != DataType::Uint64 {
        return crate::call::integers(b);
    }
    const PERIOD: u64 = 1 << 62;
    let fit = |e: &u64| i64::try_from(*e).unwrap_or((e % PERIOD + PERIOD) as i64);
    Ok(slice::<u64>(b)?.iter().map(fit).collect())
}

/// A shift by the number of bits or more, or by a negative one, leaves only what sign extension
/// gives.
pub(super) fn bit_shift(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    let left = match call.string("direction", "")? {
        "LEFT" => true,
        "RIGHT" => false,
        other => return Err(Fault::invalid(format!("direction `{other}` is not LEFT or RIGHT"))),
    };
    integer!(a.dtype(), T => {
        let shift = |x: T, by: T| {
            let by = u32::try_from(by).unwrap_or(u32::MAX);
            let found = if left { x.checked_shl(by) } else { x.checked_shr(by) };
            let zero = T::default();
            let fill = if !left && x < zero { zero.minus(T::ONE) } else { zero };
            found.unwrap_or(fill)
        };
        one(zip(call, a.dtype(), (&a, &b), shift)?)
    })
}

macro_rules! bitwise {
    ($($name:ident $op:tt;)*) => { $(
        pub(super) fn $name(call: &KernelCall) -> Outcome<Vec<Tensor>> {
            let (a, b) = same_typed(call)?;
            integer!(a.dtype(), T => one(zip(call, a.dtype(), (&a, &b), |x: T, y: T| x $op y)?))
        }
    )* };
}

bitwise! {
    bitwise_and &;
    bitwise_or |;
    bitwise_xor ^;
}
