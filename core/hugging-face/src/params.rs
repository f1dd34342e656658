//! Params of this front-end alone.

onnxd_plugin_sdk::params! {
    /// What of a checkpoint is converted.
    pub struct Source in "source" {
        /// What a checkpoint of Hugging Face is converted for, by the name that its pipelines have: `fill-mask`,
        /// `feature-extraction`. Unset is what the class says that `architectures` names.
        task: Option<String> = "text", unset;
    }
}
