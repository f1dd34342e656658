//! The params of a conversion that concern a network's source.

use onnxd_plugin_sdk::Params;
use onnxd_plugin_sdk::host_params::{Export, Source};
use onnxd_plugin_sdk::ir::DataType;

/// What the params say; everything has a default.
#[derive(Clone, Debug)]
pub(crate) struct ImportOptions {
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

impl ImportOptions {
    /// Looks only at what counts: whoever looks at a param says that it has an effect.
    pub(crate) fn read(params: &Params) -> ImportOptions {
        let (source, export): (Source, Export) = (params.section(), params.section());
        let random = source.random();
        let weights_ignore = !random && source.weights_ignore();
        let weights = if random { None } else { source.weights() };
        ImportOptions {
            weights: weights.map(|path| path.trim_end_matches('/').to_owned()),
            random,
            weights_ignore,
            seed: if random || weights_ignore { source.seed() } else { 1 },
            ignore_quantizers: source.quantizers() == "ignored",
            strict: source.strict(),
            dtype: match export.float_type().as_deref() {
                Some("float16") => DataType::Float16,
                Some("float64") => DataType::Double,
                _ => DataType::Float,
            },
        }
    }
}
