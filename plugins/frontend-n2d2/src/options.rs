//! The params of a conversion that concern a network's source.

use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::serde_json::Value;

/// What the params say; everything has a default.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Folder of the weights, relative to the submission's root or to the network.
    pub(crate) weights: Option<String>,
    /// Random weights instead of files.
    pub(crate) random: bool,
    /// Random weights where files are missing.
    pub(crate) weights_ignore: bool,
    pub(crate) seed: u64,
    /// Layers that learned with rounded numbers are converted without.
    pub(crate) ignore_quantizers: bool,
    /// Settings without effect are errors.
    pub(crate) strict: bool,
    /// Element type of all values.
    pub(crate) dtype: DataType,
}

impl Options {
    /// Looks only at what counts: whoever looks at a param says that it has an effect.
    pub(crate) fn read<'p>(param: impl Fn(&str, &str) -> &'p Value) -> Options {
        let flag = |key: &str| param("source", key).as_bool().unwrap_or(false);
        let random = flag("random");
        let weights_ignore = !random && flag("weights_ignore");
        let seed = (random || weights_ignore).then(|| param("source", "seed").as_u64()).flatten();
        let weights = (!random).then(|| param("source", "weights").as_str()).flatten();
        Options {
            weights: weights.map(|path| path.trim_end_matches('/').to_owned()),
            random,
            weights_ignore,
            seed: seed.unwrap_or(1),
            ignore_quantizers: param("source", "quantizers") == "ignored",
            strict: flag("strict"),
            dtype: match param("export", "float_type").as_str() {
                Some("float16") => DataType::Float16,
                Some("float64") => DataType::Double,
                _ => DataType::Float,
            },
        }
    }
}
