//! Params of exported programs.

onnxd_plugin_sdk::params! {
    /// Which program is read.
    pub(crate) struct Source in "source" {
        /// Name of the exported program that is converted, where an archive holds several.
        model: Option<String> = "text", unset;
    }
}

onnxd_plugin_sdk::params! {
    /// What becomes of programs that keep something between runs.
    pub(crate) struct Export in "export" {
        /// What becomes of buffers and inputs that an exported program writes: an error, or outputs with their new values.
        mutations: String = "error | outputs", "error";
    }
}
