//! Elementwise arithmetic and products of sums.

mod binary;
mod einsum;
mod special;
mod unary;
mod variadic;

use crate::call::{KernelRow, raw, row};

pub(crate) use binary::{fixed_power, operands};
pub(crate) use special::erf;

pub(crate) const ROWS: &[KernelRow] = &[
    row("Abs", unary::abs),
    row("Acos", unary::acos),
    row("Acosh", unary::acosh),
    row("Add", binary::add),
    row("Asin", unary::asin),
    row("Asinh", unary::asinh),
    row("Atan", unary::atan),
    row("Atanh", unary::atanh),
    raw("BitShift", binary::bit_shift),
    raw("BitwiseAnd", binary::bitwise_and),
    raw("BitwiseNot", unary::bitwise_not),
    raw("BitwiseOr", binary::bitwise_or),
    raw("BitwiseXor", binary::bitwise_xor),
    row("Ceil", unary::ceil),
    row("Cos", unary::cos),
    row("Cosh", unary::cosh),
    row("Det", einsum::det),
    row("Div", binary::div),
    row("Einsum", einsum::einsum),
    row("Erf", unary::erf),
    row("Exp", unary::exp),
    row("Floor", unary::floor),
    row("Log", unary::log),
    row("Max", variadic::max),
    row("Mean", variadic::mean),
    row("Min", variadic::min),
    row("Mod", binary::modulo),
    row("Mul", binary::mul),
    row("Neg", unary::neg),
    row("Pow", binary::pow),
    row("Reciprocal", unary::reciprocal),
    row("Round", unary::round),
    row("Sign", unary::sign),
    row("Sin", unary::sin),
    row("Sinh", unary::sinh),
    row("Sqrt", unary::sqrt),
    row("Sub", binary::sub),
    row("Sum", variadic::sum),
    row("Tan", unary::tan),
];

#[cfg(test)]
mod tests;
