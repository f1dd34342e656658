//! The options of Neural Compressor's export to ONNX. Each stands for a param that all conversions have, as
//! `implied.toml` says; a param that is stated beside it wins.

use onnxd_plugin_sdk::serde_json::Value;

onnxd_plugin_sdk::params! {
    /// Options of the export.
    #[allow(dead_code, reason = "each is read through the param that it stands for")]
    pub(crate) struct Params in "quantization.inc" {
        /// As in Neural Compressor's export: `fp32` leaves the model in floating point. Any key of this
        /// section asks for that export.
        dtype: Option<String> = "int8 | fp32", unset;
        /// Form of the quantized model: quantizer inc-qdq, or inc-qlinear for the others.
        quant_format: Option<String> = "QDQ | QLinear | QOperator | qdq | qlinear | qoperator", unset;
        /// Opset, as `export.opset`; with QDQ at least 13.
        opset_version: Option<u64> = "7..30", unset;
        /// How Linear layers are written, as `quantization.recipe`.
        recipe: Option<String> = "QDQ_OP_FP32_BIAS | QDQ_OP_INT32_BIAS | QDQ_OP_FP32_BIAS_QDQ", unset;
        /// As `export.input_names`.
        input_names: Option<Vec<String>> = "[text]", unset;
        /// As `export.output_names`.
        output_names: Option<Vec<String>> = "[text]", unset;
        /// As `export.dynamic_axes`.
        dynamic_axes: Option<Value> = "axes", unset;
    }
}
