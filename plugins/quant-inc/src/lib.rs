//! Quantized models as Intel's Neural Compressor exports them: only `Conv`, `Gemm` and `MatMul`
//! compute on integers, all else stays in floating point, and Linear layers are written as one of
//! three recipes says.

mod params;
mod scheme;
mod source;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.quant-inc",
    summary: "Quantized models as Intel's Neural Compressor exports them",
    components: [
        quantizer(
            "inc-qdq",
            "Conv, Gemm and MatMul between QuantizeLinear and DequantizeLinear, by recipe";
            declares [include_str!("needs.toml"), include_str!("implied.toml"), params::Params::ROWS] =>
            || Box::new(scheme::Scheme(onnxd_quantize::report::Form::Qdq)),
        ),
        quantizer(
            "inc-qlinear",
            "QLinearConv, QGemm and MatMulIntegerToFloat, by recipe"; declares [include_str!("needs.toml")] =>
            || Box::new(scheme::Scheme(onnxd_quantize::report::Form::QLinear)),
        ),
    ],
}
