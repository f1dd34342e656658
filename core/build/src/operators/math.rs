//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Abs(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Abs.html>
    direct abs = Abs(x: "X")
    /// `Acos(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Acos.html>
    direct acos = Acos(input: "input")
    /// `Acosh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Acosh.html>
    direct acosh = Acosh(input: "input")
    /// `Add(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Add.html>
    direct add = Add(a: "A", b: "B")
    /// `Asin(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Asin.html>
    direct asin = Asin(input: "input")
    /// `Asinh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Asinh.html>
    direct asinh = Asinh(input: "input")
    /// `Atan(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Atan.html>
    direct atan = Atan(input: "input")
    /// `Atanh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Atanh.html>
    direct atanh = Atanh(input: "input")
    /// `Bernoulli(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Bernoulli.html>
    call bernoulli = Bernoulli(input: "input") {
        dtype: "dtype",
        seed: "seed",
    }
    /// `BitCast(input) -> output`, <https://onnx.ai/onnx/operators/onnx__BitCast.html>
    call bit_cast = BitCast(input: "input") {
        to: "to",
    }
    /// `BitShift(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx__BitShift.html>
    call bit_shift = BitShift(x: "X", y: "Y") {
        direction: "direction",
    }
    /// `Ceil(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Ceil.html>
    direct ceil = Ceil(x: "X")
    /// `Cos(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Cos.html>
    direct cos = Cos(input: "input")
    /// `Cosh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Cosh.html>
    direct cosh = Cosh(input: "input")
    /// `CumProd(x, axis) -> y`, <https://onnx.ai/onnx/operators/onnx__CumProd.html>
    call cum_prod = CumProd(x: "x", axis: "axis") {
        exclusive: "exclusive",
        reverse: "reverse",
    }
    /// `CumSum(x, axis) -> y`, <https://onnx.ai/onnx/operators/onnx__CumSum.html>
    call cum_sum = CumSum(x: "x", axis: "axis") {
        exclusive: "exclusive",
        reverse: "reverse",
    }
    /// `Det(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Det.html>
    direct det = Det(x: "X")
    /// `Div(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Div.html>
    direct div = Div(a: "A", b: "B")
    /// `Erf(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Erf.html>
    direct erf = Erf(input: "input")
    /// `Exp(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Exp.html>
    direct exp = Exp(input: "input")
    /// `Floor(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Floor.html>
    direct floor = Floor(x: "X")
    /// `Log(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Log.html>
    direct log = Log(input: "input")
    /// `Max(data_0...) -> max`, <https://onnx.ai/onnx/operators/onnx__Max.html>
    direct max = Max(; ..inputs)
    /// `Mean(data_0...) -> mean`, <https://onnx.ai/onnx/operators/onnx__Mean.html>
    direct mean = Mean(; ..inputs)
    /// `Min(data_0...) -> min`, <https://onnx.ai/onnx/operators/onnx__Min.html>
    direct min = Min(; ..inputs)
    /// `Mod(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Mod.html>
    call mod_ = Mod(a: "A", b: "B") {
        fmod: "fmod",
    }
    /// `Mul(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Mul.html>
    direct mul = Mul(a: "A", b: "B")
    /// `Multinomial(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Multinomial.html>
    call multinomial = Multinomial(input: "input") {
        dtype: "dtype",
        sample_size: "sample_size",
        seed: "seed",
    }
    /// `Neg(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Neg.html>
    direct neg = Neg(x: "X")
    /// `Pow(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx__Pow.html>
    direct pow = Pow(x: "X", y: "Y")
    /// `Reciprocal(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Reciprocal.html>
    direct reciprocal = Reciprocal(x: "X")
    /// `Round(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Round.html>
    direct round = Round(x: "X")
    /// `Sign(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Sign.html>
    direct sign = Sign(input: "input")
    /// `Sin(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Sin.html>
    direct sin = Sin(input: "input")
    /// `Sinh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Sinh.html>
    direct sinh = Sinh(input: "input")
    /// `Sqrt(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Sqrt.html>
    direct sqrt = Sqrt(x: "X")
    /// `Sub(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Sub.html>
    direct sub = Sub(a: "A", b: "B")
    /// `Sum(data_0...) -> sum`, <https://onnx.ai/onnx/operators/onnx__Sum.html>
    direct sum = Sum(; ..inputs)
    /// `Tan(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Tan.html>
    direct tan = Tan(input: "input")
}
