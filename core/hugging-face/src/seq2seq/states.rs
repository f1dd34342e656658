//! The hidden states of an encoder without its decoder, for vectors of texts.

use super::graph::{READ, encoded, read, written};
use super::net::Net;
use super::{EncoderDecoder, Source};
use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::diag::{Code, Diagnostic};
use crate::sentence::{self, Sentence};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::Graph;

/// An encoder that reads words, whose decoder is left out.
pub(crate) struct States(EncoderDecoder, usize);

impl States {
    /// # Errors
    /// That the encoder reads no words.
    pub(crate) fn new(d: EncoderDecoder) -> Result<States> {
        match d.source {
            Source::Words(words) => Ok(States(d, words)),
            Source::Sound { .. } => {
                let why =
                    "`source.task` is `feature-extraction`, which encoders of sound do not have";
                Err(Diagnostic::new(Code::ParamsBadValue, why).help("Leave it out."))
            }
        }
    }

    fn write(&self, net: &Net<'_>, sentence: Option<&Sentence>) -> Result<()> {
        let (b, hidden) = (net.b, self.0.hidden);
        let inputs = ["input_ids", "attention_mask"].map(|name| net.tokens(name, READ));
        let (x, bias) = read(net, self.1, inputs)?;
        let x = encoded(net, x, Some(bias))?;
        sentence::output(b, [x, inputs[1]], (sentence, hidden))
    }
}

impl Architecture for States {
    fn prefixes(&self) -> &'static [&'static str] {
        self.0.prefixes
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        written(&self.0, weights, target, |net| self.write(net, None))
    }

    fn sentences(
        &self,
        weights: &Checkpoint,
        target: &Target,
        sentence: &Sentence,
    ) -> Result<Graph> {
        written(&self.0, weights, target, |net| self.write(net, Some(sentence)))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let EncoderDecoder { encoder, hidden, head, .. } = &self.0;
        vec![
            ("task", "feature-extraction".to_owned()),
            ("layers", encoder.layers.to_string()),
            ("hidden_size", hidden.to_string()),
            ("heads", encoder.heads.to_string()),
            ("head_size", head.to_string()),
            ("vocabulary", self.1.to_string()),
        ]
    }
}
