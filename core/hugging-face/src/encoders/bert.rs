//! BERT, and Ernie, which has its weights.

use super::base::{self, BERT, Base, NAMES, kind_of_positions};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::{Encoder, Names, Pretraining};

pub(super) fn bert(c: &Config) -> Result<Encoder, Diagnostic> {
    described(c, &BERT)
}

pub(super) fn ernie(c: &Config) -> Result<Encoder, Diagnostic> {
    c.only("use_task_id", false)?;
    c.pass_over(&["task_type_vocab_size"]);
    described(c, &Base { names: Names { prefixes: &["ernie."], ..NAMES }, ..BERT })
}

pub(super) fn described(c: &Config, base: &Base) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, base)?;
    kind_of_positions(c, &mut e, "attention.self.distance_embedding")?;
    let (linear, output) = ("cls.seq_relationship", "seq_relationship_logits");
    e.tasks.pretraining = Pretraining::Words { linear, output, are_next: true };
    Ok(e)
}
