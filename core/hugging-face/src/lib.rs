//! Front-ends for checkpoints: a folder of Hugging Face (`config.json` and weights) or a file of GGUF becomes a decoder
//! with its cache, an encoder with a head, both of them, or a model of pictures, of sound, or of texts with pictures.
//! No Python is needed, and no code of the folder is run.
//!
//! `folder` says what lies in a folder. `safetensors`, `pickled` and `checkpoint` find tensors in mapped files, and
//! `quantization` those that come as integers. `config` reads `config.json` and notes what was read. `kinds` says of
//! which kind a family is. A family of decoders (`families`) turns the fields into a description, as its differences
//! from Llama, and `decoder` writes the graph of a description. `encoders` with `encoder`, `seq2seq`, `vision`,
//! `towers` and `audio` do so for the other kinds, and `sentence` reads what comes behind. `gguf` makes such fields and
//! weights of a file of GGUF. `proof` compares layers of a graph with a second implementation. `family` is what other
//! plugins use.
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
pub mod family;
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
mod proof;
mod quantization;
mod raw;
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
use onnxd_plugin_sdk::{Claim, Frontend, Imported, Probe, Submission};

/// What the plugin for all families declares of params. Another one leaves them to it: one plugin declares a param.
pub const PARAMS: &str = params::Source::ROWS;

/// The front-end for all families that are known here.
#[derive(Clone, Copy, Debug)]
pub struct HuggingFace;

impl Frontend for HuggingFace {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        Ok(match folder::ends(submission.network(), beside::GGUF) {
            true => gguf::probe(submission)?,
            // A plugin for this family alone comes first.
            false => folder::probe(submission, &|kind| match kinds::named(kind) {
                Some(_) => Claim::ByContent,
                None => Claim::ByExtension,
            })?,
        })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        import::import(submission, &kinds::named)
    }
}

impl Frontend for family::Decoders {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        Ok(folder::probe(submission, &|kind| match self.named(kind) {
            Some(_) => Claim::ByContent,
            None => Claim::No,
        })?)
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        import::import(submission, &|kind| self.named(kind).map(kinds::Family::Decoder))
    }
}
