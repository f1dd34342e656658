//! Params of this front-end alone.

onnxd_plugin_sdk::params! {
    /// What of a file is converted, and how.
    pub(crate) struct Source in "source" {
        /// Name of the signature that is converted, where a SavedModel or TFLite model has several.
        signature: Option<String> = "text", unset;
        /// Tag of the graph that is converted, where a SavedModel has several; unset takes `serve`.
        tag: Option<String> = "text", unset;
        /// Tensors that are the inputs of a graph of TensorFlow, as `node` or `node:1`, in their order; empty takes
        /// the placeholders, or those of the signature.
        inputs: Vec<String> = "[text]", [];
        /// Tensors that are its outputs; empty takes those that nothing reads, or those of the signature.
        outputs: Vec<String> = "[text]", [];
        /// Inputs that the model takes with channels first (NCHW), where the file has them last; `*` stands for all.
        inputs_as_nchw: Vec<String> = "[text]", [];
        /// Outputs that it gives with channels first; `*` stands for all.
        outputs_as_nchw: Vec<String> = "[text]", [];
    }
}
