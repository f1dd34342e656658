//! Comparison and selection.

use super::Rules;
use super::activation::same;
use super::math::{binary, variadic};

pub(super) const RULES: Rules = &[
    ("And", binary),
    ("BitwiseAnd", binary),
    ("BitwiseNot", same),
    ("BitwiseOr", binary),
    ("BitwiseXor", binary),
    ("Equal", binary),
    ("Greater", binary),
    ("GreaterOrEqual", binary),
    ("IsInf", same),
    ("IsNaN", same),
    ("Less", binary),
    ("LessOrEqual", binary),
    ("Not", same),
    ("Or", binary),
    ("Where", variadic),
    ("Xor", binary),
];
