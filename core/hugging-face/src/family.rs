//! A family of decoders as data, for plugins that add one: what its `config.json` and its weights are called, and what
//! it does otherwise than Llama. `plugins/example-architecture` is such a plugin.
//!
//! A family is a function from the fields of `config.json` to a [`Decoder`]. It begins with [`decoder`], which reads a
//! decoder of Llama's kind by the keys, names and defaults of a [`Base`], and changes what is different. A field that
//! no function reads is told to the user. So read each one that changes what the model computes, with [`Config::only`]
//! if there is one value that is supported.

pub use crate::config::Config;
pub use crate::config::rope::{Defaults, Frequencies, Rope, two_ropes};
pub use crate::decoder::{
    Attention, Decoder, DecoderLayer, Embedding, ExpertWeights, Experts, Fused, HeadNorm, Latent,
    Logits, Mixer, Mlp, MlpKind, Names, Norm, NormKind, Order, Router, StateKind, StateSpace,
};
pub use crate::families::Family;
pub use crate::families::base::{
    ATTENTION, Base, Keys, LLAMA, NAMES, ROPE, decoder, set_windows, window,
};
pub use crate::layers::Activation;
pub use onnxd_plugin_sdk::build::Result;

/// A front-end for decoders of these families, by `model_type`, and for no other folder. Its files are as in
/// [`HuggingFace`](crate::HuggingFace): weights, tokenizers, and what else lies beside `config.json`.
#[derive(Clone, Copy, Debug)]
pub struct Decoders(pub &'static [(&'static str, Family)]);

impl Decoders {
    pub(crate) fn named(&self, kind: &str) -> Option<Family> {
        self.0.iter().find(|(name, _)| *name == kind).map(|(_, family)| *family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HuggingFace;
    use onnxd_plugin_sdk::testing::{Dropped, probe};
    use onnxd_plugin_sdk::{Claim, Frontend};

    const OWN: Decoders = Decoders(&[("plume", |c| decoder(c, &LLAMA))]);

    fn claim(frontend: &dyn Frontend, file: &str, text: &str) -> Claim {
        probe(frontend, &Dropped::file(file, text).and("model.safetensors", "")).unwrap().claim
    }

    #[test]
    fn a_family_of_ones_own_is_claimed_before_all_others() {
        let plume = r#"{"model_type": "plume"}"#;
        assert_eq!(claim(&OWN, "config.json", plume), Claim::ByContent);
        assert_eq!(claim(&HuggingFace, "config.json", plume), Claim::ByExtension);
        let llama = r#"{"model_type": "llama"}"#;
        assert_eq!(claim(&HuggingFace, "config.json", llama), Claim::ByContent);
        for (file, text) in [
            ("config.json", llama),
            ("config.json", r#"{"architectures": ["X"]}"#),
            ("config.json", "{"),
            ("adapter_config.json", r#"{"peft_type": "LORA"}"#),
        ] {
            assert_eq!(claim(&OWN, file, text), Claim::No, "{file} {text}");
        }
    }
}
