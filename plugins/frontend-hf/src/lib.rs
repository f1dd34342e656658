//! The front-end for checkpoints of Hugging Face: `config.json` and weights become a decoder with its cache, or
//! an encoder with a head, without Python, and without running any code of the folder.
//!
//! `safetensors` and `checkpoint` find tensors in mapped files. `config` reads `config.json` and notes what was read.
//! A family (`families`) turns it into a description of a decoder, as its differences from Llama. `decoder` writes
//! the graph of a description. `encoders` and `encoder` do so for encoders, and `sentence` reads what comes behind.
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod architecture;
mod audio;
mod beside;
mod blocks;
mod checkpoint;
mod config;
mod conv;
mod decoder;
mod encoder;
mod encoders;
mod export;
mod families;
mod fields;
#[cfg(test)]
mod fixture;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod gguf;
mod import;
mod kinds;
mod layers;
mod params;
mod pickled;
mod problem;
mod quantization;
mod safetensors;
mod sentence;
mod seq2seq;
#[cfg(test)]
mod testing;
mod towers;
mod transformer;
mod vision;
mod weight;

mod diag {
    pub(crate) use onnxd_plugin_sdk::diagnostics::*;
}

use diag::Diagnostics;
use onnxd_plugin_sdk::{Frontend, Imported, Probe, Submission};

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-hf",
    summary: "Reads checkpoints of Hugging Face: config.json with safetensors or pickles, and files of GGUF",
    components: [
        frontend("hf", "Hugging Face checkpoints"; "config.json", "adapter_config.json", "*.gguf"; declares [
            "is_source = true\n", params::Source::ROWS
        ]
            => || Box::new(HuggingFace)),
    ],
}

struct HuggingFace;

impl Frontend for HuggingFace {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        Ok(match folder::ends(submission.network(), beside::GGUF) {
            true => gguf::probe(submission)?,
            false => folder::probe(submission)?,
        })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        import::import(submission)
    }
}
