//! MPNet: scores have a number for how far keys are.

use super::base::{self, BERT, Base, NAMES};
use super::roberta;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::places::Places;
use crate::encoder::{Encoder, Names, Positions, Relative};

/// Buckets of distances, and the distance from which on there is one; the file has no say in it.
const BUCKETS: (usize, usize) = (32, 128);

const MPNET: Base = Base {
    names: Names {
        prefixes: &["mpnet."],
        q: "attention.attn.q",
        k: "attention.attn.k",
        v: "attention.attn.v",
        o: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        ..NAMES
    },
    vocabulary: 30527,
    types: None,
    ..BERT
};

pub(super) fn mpnet(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, &MPNET)?;
    // The word for padding is 1, whatever the file says.
    let rows = base::size(c, ("max_position_embeddings", 512))?;
    e.embedding.positions = Positions::Words { rows, padding: 1 };
    let rows = base::size(c, ("relative_attention_num_buckets", BUCKETS.0))?;
    if rows < BUCKETS.0 {
        return Err(c.wrong("relative_attention_num_buckets", "32 or more, as MPNet uses 32"));
    }
    let places = Places::halves(BUCKETS.0, BUCKETS.1);
    e.attention.relative =
        Relative::Bias { table: "encoder.relative_attention_bias", rows, places };
    e.tasks = roberta::tasks(&e);
    Ok(e)
}
