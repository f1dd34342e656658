//! Quantization in the standard's own operators, for every float graph: as pairs of
//! `QuantizeLinear` and `DequantizeLinear` (`QDQ`).

mod params;
mod scheme;
mod search;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.quant-onnx",
    summary: "Quantization in the operators of the ONNX standard and of ONNX Runtime",
    components: [
        quantizer(
            "qdq",
            "Float operators between QuantizeLinear and DequantizeLinear" =>
            || Box::new(scheme::Scheme),
        ),
    ],
}
