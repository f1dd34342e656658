//! Params of this front-end alone.

onnxd_plugin_sdk::params! {
    /// What of a file is converted, and how.
    pub(crate) struct Source in "source" {
        /// Name of the signature that is converted, where a SavedModel or TFLite model has several.
        signature: Option<String> = "text", unset;
        /// Tag of the graph that is converted, where a SavedModel has several.
        tag: String = "text", "serve";
    }
}
