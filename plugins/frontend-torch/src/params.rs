//! Params of this front-end alone.

onnxd_plugin_sdk::params! {
    /// What of a file is converted, and how.
    pub(crate) struct Source in "source" {
        /// Name of the exported program that is converted, where an archive holds several.
        model: Option<String> = "text", unset;
        /// Method of a TorchScript module that is converted: `decode`, or `encoder.forward` of a module inside.
        method: String = "text", "forward";
        /// Dropout, batch normalization and the like of PyTorch files: as in evaluation, or as the file has them.
        training: String = "eval | preserve", "eval";
    }
}
