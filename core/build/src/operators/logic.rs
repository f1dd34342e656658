//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `And(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__And.html>
    direct and = And(a: "A", b: "B")
    /// `BitwiseAnd(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html>
    direct bitwise_and = BitwiseAnd(a: "A", b: "B")
    /// `BitwiseNot(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__BitwiseNot.html>
    direct bitwise_not = BitwiseNot(x: "X")
    /// `BitwiseOr(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__BitwiseOr.html>
    direct bitwise_or = BitwiseOr(a: "A", b: "B")
    /// `BitwiseXor(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__BitwiseXor.html>
    direct bitwise_xor = BitwiseXor(a: "A", b: "B")
    /// `Equal(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Equal.html>
    direct equal = Equal(a: "A", b: "B")
    /// `Greater(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Greater.html>
    direct greater = Greater(a: "A", b: "B")
    /// `GreaterOrEqual(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html>
    direct greater_or_equal = GreaterOrEqual(a: "A", b: "B")
    /// `IsInf(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__IsInf.html>
    call is_inf = IsInf(x: "X") {
        detect_negative: "detect_negative",
        detect_positive: "detect_positive",
    }
    /// `IsNaN(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__IsNaN.html>
    direct is_nan = IsNaN(x: "X")
    /// `Less(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Less.html>
    direct less = Less(a: "A", b: "B")
    /// `LessOrEqual(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__LessOrEqual.html>
    direct less_or_equal = LessOrEqual(a: "A", b: "B")
    /// `Not(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Not.html>
    direct not = Not(x: "X")
    /// `Or(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Or.html>
    direct or = Or(a: "A", b: "B")
    /// `Where(condition, X, Y) -> output`, <https://onnx.ai/onnx/operators/onnx__Where.html>
    direct where_ = Where(condition: "condition", x: "X", y: "Y")
    /// `Xor(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Xor.html>
    direct xor = Xor(a: "A", b: "B")
}
