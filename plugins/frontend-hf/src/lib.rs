//! The front-end for checkpoints: a folder of Hugging Face (`config.json` and `*.safetensors`) or a file of GGUF
//! becomes a decoder with its cache, an encoder with a head, both of them, or a model of pictures, of sound, or of
//! texts with pictures. No Python is needed, and no code of the folder is run.
//!
//! `folder` says what lies in a folder. `safetensors` and `checkpoint` find tensors in mapped files, and `quantization`
//! those that come as integers. `config` reads `config.json` and notes what was read. `kinds` says of which kind a
//! family is. A family of decoders (`families`) turns the fields into a description, as its differences from Llama,
//! and `decoder` writes the graph of a description. `encoders` with `encoder`, `seq2seq`, `vision`, `towers` and
//! `audio` do so for the other kinds, and `sentence` reads what comes behind. `gguf` makes such fields and weights of
//! a file of GGUF.
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
mod problem;
mod proof;
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
    summary: "Reads checkpoints of Hugging Face: config.json with safetensors, and files of GGUF",
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
