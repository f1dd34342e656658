//! Quantization in the standard's own operators, for every float graph: as pairs of
//! `QuantizeLinear` and `DequantizeLinear` (`QDQ`), or with operators on integers (`QLinear`). What
//! is quantized already changes form.

mod reform;
mod scheme;
mod weights;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.quant-onnx",
    summary: "Quantization in the operators of the ONNX standard and of ONNX Runtime",
    components: [
        quantizer(
            "qdq",
            "Float operators between QuantizeLinear and DequantizeLinear";
            declares ["format = 'QDQ'", include_str!("needs.toml"), include_str!("computed.toml")] =>
            || Box::new(scheme::Scheme(onnxd_quantize::report::Form::Qdq)),
        ),
        quantizer(
            "qlinear",
            "Operators on integers, such as QLinearConv, QGemm and MatMulNBits";
            declares ["format = 'QLinear'", include_str!("needs.toml")] =>
            || Box::new(scheme::Scheme(onnxd_quantize::report::Form::QLinear)),
        ),
    ],
}
