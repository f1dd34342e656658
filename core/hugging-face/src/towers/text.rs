//! The tower of texts.

use super::Given;
use crate::layers::Layers;
use crate::transformer::{Stack, project};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};

const LENGTH: &str = "sequence_length";

#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) vocabulary: usize,
    pub(super) positions: usize,
    pub(super) stack: Stack,
    /// Whether tokens see those before them alone, and no padding.
    pub(super) is_causal: bool,
    pub(super) pool: Pool,
}

/// The token that stands for a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pool {
    /// The first with this id.
    First(i64),
    /// The first of those with the greatest id.
    Greatest,
    /// The last one, through a layer that gives so many elements.
    Last(&'static str, usize),
}

impl Text {
    /// The input of tokens.
    pub(super) fn ids(&self, net: &Layers<'_>, batch: &str) -> Var {
        input(net, "input_ids", batch)
    }

    /// What the tower makes of tokens.
    pub(super) fn write(&self, net: &Layers<'_>, batch: &str, ids: Var) -> Result<Given> {
        let (b, hidden) = (net.b, self.stack.hidden);
        let table = |part: &str, rows| {
            let name = format!("text_model.embeddings.{part}.weight");
            Ok(net.constant(&name, net.w.tensor(&name, &[rows, hidden])?))
        };
        let bias = match self.is_causal {
            true => Some(seen(net, ids, input(net, "attention_mask", batch))?),
            false => None,
        };
        let words = b.gather(table("token_embedding", self.vocabulary)?, ids).one()?;
        let length = b.shape(ids).start(1).end(2).one()?;
        let places = table("position_embedding", self.positions)?;
        let places = b.slice(places, vec![0], length).axes(vec![0]).one()?;
        let x = self.stack.apply(net, b.add(words, places)?, |_| Ok(bias))?;
        let name = "text_model.final_layer_norm";
        let tokens = net.layer_norm(x, name, hidden, self.stack.epsilon)?;
        let pooled = match self.pool {
            Pool::First(id) => at(net, tokens, b.equal(ids, b.constant(Tensor::scalar(id)))?)?,
            Pool::Greatest => at(net, tokens, ids)?,
            Pool::Last(layer, size) => {
                let last = b.gather(tokens, b.constant(Tensor::scalar(-1i64))).axis(1).one()?;
                project(net, last, layer, [hidden, size])?
            }
        };
        Ok(Given { tokens, pooled: Some(pooled) })
    }
}

fn input(net: &Layers<'_>, name: &str, batch: &str) -> Var {
    let dims = [batch, LENGTH].map(|name| Dim::Symbol(name.into()));
    net.b.input(name, ValueType::tensor(DataType::Int64, dims))
}

/// The token of each row where `keys` are greatest first: [B, E].
fn at(net: &Layers<'_>, tokens: Var, keys: Var) -> Result<Var> {
    let b = net.b;
    let keys = b.cast(keys, DataType::Int32)?;
    let first = b.arg_max(keys).axis(1).keepdims(1).one()?;
    b.gather_nd(tokens, first).batch_dims(1).one()
}

/// What is added to scores: 0 for tokens up to a query's own one, but for padding: [B, 1, S, S].
fn seen(net: &Layers<'_>, ids: Var, mask: Var) -> Result<Var> {
    let b = net.b;
    let length = b.squeeze(b.shape(ids).start(1).end(2).one()?).axes(vec![0]).one()?;
    let keys = b.range(0, length, 1).one()?;
    let before = b.less_or_equal(keys, b.unsqueeze(keys, vec![1])?)?;
    let is_token = b.unsqueeze(b.cast(mask, DataType::Bool)?, vec![1, 2])?;
    let number = |x: f32| b.constant(Tensor::scalar(x));
    // Not infinity: a query of padding sees nothing, and its softmax must have a value.
    b.where_(b.and(before, is_token)?, number(0.0), number(f32::MIN))
}
