//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    direct and = And(a "A", b "B") -> "C"
    direct bitwise_and = BitwiseAnd(a "A", b "B") -> "C"
    direct bitwise_not = BitwiseNot(x "X") -> "Y"
    direct bitwise_or = BitwiseOr(a "A", b "B") -> "C"
    direct bitwise_xor = BitwiseXor(a "A", b "B") -> "C"
    direct equal = Equal(a "A", b "B") -> "C"
    direct greater = Greater(a "A", b "B") -> "C"
    direct greater_or_equal = GreaterOrEqual(a "A", b "B") -> "C"
    call is_inf = IsInf(x "X") { detect_negative, detect_positive } -> "Y"
    direct is_nan = IsNaN(x "X") -> "Y"
    direct less = Less(a "A", b "B") -> "C"
    direct less_or_equal = LessOrEqual(a "A", b "B") -> "C"
    direct not = Not(x "X") -> "Y"
    direct or = Or(a "A", b "B") -> "C"
    direct where_ = Where(condition, x "X", y "Y") -> "output"
    direct xor = Xor(a "A", b "B") -> "C"
}
