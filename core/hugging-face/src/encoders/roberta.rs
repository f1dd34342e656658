//! RoBERTa and its kind: positions are counted from the number of the word for padding.

use super::base::{self, BERT, Base, NAMES, dense, kind_of_positions};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::{Encoder, Head, Names, Positions, Pretraining, Tasks};
use crate::layers::Activation;

const ROBERTA: Base =
    Base { names: Names { prefixes: &["roberta."], ..NAMES }, vocabulary: 50265, ..BERT };

const XLM_ROBERTA: Base = Base { vocabulary: 30522, ..ROBERTA };

const DATA2VEC: Base =
    Base { names: Names { prefixes: &["data2vec_text."], ..NAMES }, ..XLM_ROBERTA };

pub(super) fn roberta(c: &Config) -> Result<Encoder, Diagnostic> {
    described(c, &ROBERTA)
}

pub(super) fn xlm_roberta(c: &Config) -> Result<Encoder, Diagnostic> {
    described(c, &XLM_ROBERTA)
}

pub(super) fn data2vec(c: &Config) -> Result<Encoder, Diagnostic> {
    described(c, &DATA2VEC)
}

pub(super) fn described(c: &Config, base: &Base) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, base)?;
    let rows = base::size(c, ("max_position_embeddings", 512))?;
    e.embedding.positions = Positions::Words { rows, padding: padding(c)? };
    kind_of_positions(c, &mut e, "attention.self.distance_embedding")?;
    e.tasks = tasks(&e);
    Ok(e)
}

fn padding(c: &Config) -> Result<i64, Diagnostic> {
    let Some(value) = c.get("pad_token_id") else { return Ok(1) };
    let number = value.as_i64().filter(|number| (0..1 << 31).contains(number));
    number.ok_or_else(|| c.wrong("pad_token_id", "the number of a word"))
}

/// Heads, which MPNet has, too.
pub(super) fn tasks(e: &Encoder) -> Tasks {
    Tasks {
        words: (
            Head {
                dense: Some(("lm_head.dense", Activation::Gelu)),
                norm: Some("lm_head.layer_norm"),
                out: "lm_head.decoder",
            },
            "lm_head.bias",
        ),
        sequence: dense("classifier.dense", Activation::Tanh, "classifier.out_proj"),
        pretraining: Pretraining::None,
        ..e.tasks
    }
}
