//! Arithmetic of the element types: integers wrap as two's complement, floats follow IEEE 754.

use crate::fault::{Fault, Outcome};
use onnxd_ir::{Element, Tensor};
use std::borrow::Cow;

/// An element type that arithmetic is defined on.
pub(crate) trait Num: Element + Copy + PartialOrd + Default {
    /// Whether division truncates.
    const INTEGER: bool;
    /// One.
    const ONE: Self;
    /// Nothing is smaller (minus infinity for floats).
    const LOWEST: Self;
    /// Nothing is larger (infinity for floats).
    const HIGHEST: Self;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Integers truncate; their divisor is not zero.
    fn over(self, other: Self) -> Self;
    /// The remainder with the sign of `self`; an integer divisor is not zero.
    fn remainder(self, other: Self) -> Self;
    fn opposite(self) -> Self;
    fn magnitude(self) -> Self;
    /// -1, 0 or 1 (NaN stays NaN).
    fn sign(self) -> Self;
    fn to_f64(self) -> f64;
    /// Integers truncate and saturate.
    fn from_f64(x: f64) -> Self;
    /// `self` to an integer power: exact modulo 2^bits for integers.
    fn power(self, exponent: i64) -> Self;

    /// `self * factor + term`, rounded once where the type can do that.
    fn fused(self, factor: Self, term: Self) -> Self {
        self.times(factor).plus(term)
    }

    /// The remainder with the sign of `other`.
    fn modulo(self, other: Self) -> Self {
        let rest = self.remainder(other);
        let zero = Self::default();
        let differ = (rest < zero) != (other < zero);
        if rest != zero && differ { rest.plus(other) } else { rest }
    }

    /// The larger; NaN if either is.
    fn larger(self, other: Self) -> Self {
        if is_nan(self) || self > other { self } else { other }
    }

    /// The smaller; NaN if either is.
    fn smaller(self, other: Self) -> Self {
        if is_nan(self) || self < other { self } else { other }
    }
}

/// Only NaN differs from itself.
#[allow(clippy::eq_op)]
pub(crate) fn is_nan<T: Num>(x: T) -> bool {
    x != x
}

macro_rules! floats {
    ($($t:ident),*) => { $(impl Num for $t {
        const INTEGER: bool = false;
        const ONE: $t = 1.0;
        const LOWEST: $t = $t::NEG_INFINITY;
        const HIGHEST: $t = $t::INFINITY;
        fn plus(self, other: $t) -> $t { self + other }
        fn minus(self, other: $t) -> $t { self - other }
        fn times(self, other: $t) -> $t { self * other }
        fn over(self, other: $t) -> $t { self / other }
        fn remainder(self, other: $t) -> $t { self % other }
        fn opposite(self) -> $t { -self }
        fn magnitude(self) -> $t { self.abs() }
        fn sign(self) -> $t { if self == 0.0 { 0.0 } else { self.signum() } }
        fn to_f64(self) -> f64 { f64::from(self) }
        fn from_f64(x: f64) -> $t { x as $t }
        fn power(self, exponent: i64) -> $t { self.powf(exponent as $t) }
        fn fused(self, factor: $t, term: $t) -> $t { self.mul_add(factor, term) }
    })* };
}

macro_rules! integers {
    ($($t:ident $sign:expr, $abs:expr;)*) => { $(impl Num for $t {
        const INTEGER: bool = true;
        const ONE: $t = 1;
        const LOWEST: $t = $t::MIN;
        const HIGHEST: $t = $t::MAX;
        fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
        fn minus(self, other: $t) -> $t { self.wrapping_sub(other) }
        fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
        fn over(self, other: $t) -> $t { self.wrapping_div(other) }
        fn remainder(self, other: $t) -> $t { self.wrapping_rem(other) }
        fn opposite(self) -> $t { self.wrapping_neg() }
        fn magnitude(self) -> $t { let abs: fn($t) -> $t = $abs; abs(self) }
        fn sign(self) -> $t { let sign: fn($t) -> $t = $sign; sign(self) }
        fn to_f64(self) -> f64 { self as f64 }
        fn from_f64(x: f64) -> $t { x as $t }
        fn power(self, exponent: i64) -> $t { integer_power(self, exponent) }
    })* };
}

floats!(f32, f64);
integers!(
    i8 i8::signum, i8::wrapping_abs;
    i16 i16::signum, i16::wrapping_abs;
    i32 i32::signum, i32::wrapping_abs;
    i64 i64::signum, i64::wrapping_abs;
    u8 |x| x.min(1), |x| x;
    u16 |x| x.min(1), |x| x;
    u32 |x| x.min(1), |x| x;
    u64 |x| x.min(1), |x| x;
);

/// Repeated squaring; a negative exponent truncates the real result towards zero.
fn integer_power<T: Num>(base: T, exponent: i64) -> T {
    if exponent < 0 {
        return T::from_f64(base.to_f64().powf(exponent as f64));
    }
    let (mut result, mut square, mut rest) = (T::ONE, base, exponent as u64);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.times(square);
        }
        square = square.times(square);
        rest >>= 1;
    }
    result
}

/// The elements of `x` as `T`.
pub(crate) fn slice<T: Element>(x: &Tensor) -> Outcome<Cow<'_, [T]>> {
    x.as_slice::<T>().ok_or_else(|| {
        Fault::invalid(format!("found elements of type {} where {} is needed", x.dtype(), T::DTYPE))
    })
}

/// Evaluates the body with `$t` as the Rust type of one of the element types named.
macro_rules! typed {
    ($dtype:expr, $t:ident => $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(onnxd_ir::DataType::$name => { type $t = $rust; $body })*
            other => Err($crate::fault::Fault::dtype(other)),
        }
    };
}

/// [`typed!`] for all numeric element types.
macro_rules! numeric {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::num::typed!($dtype, $t => $body; Float f32, Double f64,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64)
    };
}

/// [`typed!`] for integers.
macro_rules! integer {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::num::typed!($dtype, $t => $body;
            Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64)
    };
}

/// [`typed!`] for `float` and `double`; kernels see the 16-bit floats as `float`.
macro_rules! float {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::num::typed!($dtype, $t => $body; Float f32, Double f64)
    };
}

pub(crate) use {float, integer, numeric, typed};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_edges() {
        assert_eq!(i32::MIN.over(-1), i32::MIN);
        assert_eq!(200u8.plus(100), 44);
        assert_eq!((-7i32).over(2), -3);
        assert_eq!([(-7i32).modulo(3), 7i32.modulo(-3), (-6i32).modulo(3)], [2, -2, 0]);
        assert_eq!([(-7i32).remainder(3), 7i32.remainder(-3)], [-1, 1]);
        assert_eq!([3i64.power(4), 2i64.power(64), 2i64.power(-1)], [81, 0, 0]);
        assert_eq!((-5.5f32).modulo(3.0), 0.5);
    }
}
