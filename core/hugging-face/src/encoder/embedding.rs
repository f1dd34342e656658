//! What the first layer reads.

use super::weights::Net;
use super::{Embedding, Encoder, Positions, Projection};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// The inputs of the graph, and places of tokens.
pub(super) struct Tokens {
    pub(super) ids: Var,
    /// 1 for tokens and 0 for padding: [B, S].
    pub(super) mask: Var,
    pub(super) types: Option<Var>,
    /// Numbers from 0 on: `[S]`.
    pub(super) places: Var,
}

impl Tokens {
    pub(super) fn new(net: &Net<'_>, ids: Var, mask: Var, types: Option<Var>) -> Result<Tokens> {
        let b = net.b;
        let length = b.squeeze(b.shape(ids).start(1).end(2).one()?).axes(vec![0]).one()?;
        Ok(Tokens { ids, mask, types, places: b.range(0, length, 1).one()? })
    }

    /// Sizes of a number for each pair of tokens, for so many heads: `[B, heads, S, S]`.
    pub(super) fn pairs(&self, b: &GraphBuilder, heads: usize) -> Result<Var> {
        let batch = b.shape(self.ids).start(0).end(1).one()?;
        let length = b.shape(self.places).one()?;
        let heads = b.constant(Tensor::vector(vec![heads as i64]));
        b.concat([batch, heads, length, length]).axis(0).one()
    }

    /// 1 for tokens and 0 for padding, for what lies in the last axis: [B, S, 1].
    pub(super) fn ones(&self, net: &Net<'_>) -> Result<Var> {
        net.b.unsqueeze(net.b.cast(self.mask, DataType::Float)?, vec![2])
    }
}

/// `project(norm(words + positions + types))`, of which each part may be absent.
pub(super) fn embedding(net: &Net<'_>, tokens: &Tokens) -> Result<Var> {
    let (b, Encoder { names, hidden, embedding, .. }) = (net.b, net.e);
    let Embedding { size, types, projection, has_norm, is_masked, .. } = *embedding;
    let mut x = b.gather(net.words()?, tokens.ids).one()?;
    if let Some(positions) = positions(net, tokens)? {
        x = b.add(x, positions)?;
    }
    if types > 0 {
        let table = net.weight(&format!("{}.weight", names.types), &[types, size])?;
        x = b.add(x, tokens.types.map_or(Ok(table), |types| b.gather(table, types).one())?)?;
    }
    if projection == Projection::BeforeNorm {
        x = net.project(x, names.projection, [size, *hidden])?;
    }
    if has_norm {
        let size = if projection == Projection::BeforeNorm { *hidden } else { size };
        x = net.norm(x, names.embedding_norm, size)?;
    }
    if is_masked {
        x = b.mul(x, tokens.ones(net)?)?;
    }
    match projection {
        Projection::AfterNorm => net.project(x, names.projection, [size, *hidden]),
        _ => Ok(x),
    }
}

fn positions(net: &Net<'_>, tokens: &Tokens) -> Result<Option<Var>> {
    let (b, size) = (net.b, net.e.embedding.size);
    let table = |rows| net.weight(&format!("{}.weight", net.e.names.positions), &[rows, size]);
    Ok(Some(match net.e.embedding.positions {
        Positions::None => return Ok(None),
        Positions::Places { rows } => b.gather(table(rows)?, tokens.places).one()?,
        Positions::Words { rows, padding } => {
            let is_word = b.cast(b.not(b.equal(tokens.ids, padding)?)?, DataType::Int64)?;
            let count = b.mul(b.cum_sum(is_word, 1).one()?, is_word)?;
            b.gather(table(rows)?, b.add(count, padding)?).one()?
        }
    }))
}

impl Net<'_> {
    /// The table of words.
    pub(super) fn words(&self) -> Result<Var> {
        let Encoder { names, vocabulary, embedding, .. } = self.e;
        self.weight(&format!("{}.weight", names.words), &[*vocabulary, embedding.size])
    }
}
