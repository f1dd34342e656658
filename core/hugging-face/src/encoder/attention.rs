//! Attention of all tokens to all others.

use super::embedding::Tokens;
use super::relative::{Distances, products};
use super::weights::Net;
use super::{Encoder, EncoderLayer, Fused};
use crate::decoder::rotary::Turn;
use crate::layers::OPERATORS;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// What layers share.
pub(super) struct Shared {
    pub(super) turns: Vec<Turn>,
    /// What is added to scores, by the reach of layers: [B, 1, 1, S], and more where it depends on more.
    pub(super) biases: Vec<(Option<usize>, Var)>,
    pub(super) distances: Option<Distances>,
}

impl Shared {
    fn bias(&self, reach: Option<usize>) -> Var {
        let found = self.biases.iter().find(|(known, _)| *known == reach);
        found.expect("there is a bias for the reach of each layer").1
    }
}

/// What is added to scores: 0, or the least number for padding and for keys that are too far.
pub(super) fn bias(b: &GraphBuilder, tokens: &Tokens, reach: Option<usize>) -> Result<Var> {
    let mut seen = b.unsqueeze(b.cast(tokens.mask, DataType::Bool)?, vec![1, 2])?;
    if let Some(reach) = reach {
        let far = b.abs(b.sub(b.unsqueeze(tokens.places, vec![1])?, tokens.places)?)?;
        seen = b.and(seen, b.less_or_equal(far, reach as i64)?)?;
    }
    if b.opset() >= OPERATORS {
        // ONNX Runtime has no operator `Attention` whose mask is the same for all queries.
        seen = b.expand(seen, tokens.pairs(b, 1)?)?;
    }
    // Not infinity: where all is padding, softmax must have a value.
    let least = b.constant(Tensor::scalar(f32::MIN));
    b.where_(seen, b.constant(Tensor::scalar(0f32)), least)
}

/// `softmax(q k^T scale + bias) v`, projected.
pub(super) fn attention(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    layer: &EncoderLayer,
) -> Result<Var> {
    let (b, Encoder { heads, head, hidden, names, attention, .. }) = (net.b, net.e);
    let (heads, head) = (*heads, *head);
    let [q, k, v] = projections(net, x, &layer.prefix)?;
    let mut bias = shared.bias(layer.reach);
    if let Some(distances) = &shared.distances {
        let apart = |x| apart(b, x, [heads, head]);
        let far = products(net, distances, [apart(q)?, apart(k)?], &layer.prefix)?;
        bias = b.add(bias, far)?;
    }
    let turn = layer.rope.map(|rope| &shared.turns[rope]);
    let mixed = if b.opset() >= OPERATORS {
        let turned = |x| turn.map_or(Ok(x), |turn| turn.together(b, x, [heads, head]));
        let call = b.attention(turned(q)?, turned(k)?, v).attn_mask(bias).scale(attention.scale);
        call.q_num_heads(heads as i64).kv_num_heads(heads as i64).only(0)?
    } else {
        let turned = |x| turn.map_or(Ok(x), |turn| turn.apply(b, x, head));
        let [q, k, v] = [q, k, v].map(|x| apart(b, x, [heads, head]));
        let k = b.transpose(turned(k?)?).perm(vec![0, 1, 3, 2]).one()?;
        let scores = b.mul(b.mat_mul(turned(q?)?, k)?, attention.scale)?;
        let shares = b.softmax(b.add(scores, bias)?).axis(-1).one()?;
        let mixed = b.transpose(b.mat_mul(shares, v?)?).perm(vec![0, 2, 1, 3]).one()?;
        b.reshape(mixed, vec![0, 0, (heads * head) as i64]).one()?
    };
    net.project(mixed, &format!("{}{}", layer.prefix, names.o), [heads * head, *hidden])
}

/// Heads that lie together, [B, S, heads D], as [B, heads, S, D].
fn apart(b: &GraphBuilder, x: Var, [heads, head]: [usize; 2]) -> Result<Var> {
    let x = b.reshape(x, vec![0, 0, heads as i64, head as i64]).one()?;
    b.transpose(x).perm(vec![0, 2, 1, 3]).one()
}

/// Queries, keys and values of all heads: [B, S, heads D].
fn projections(net: &Net<'_>, x: Var, prefix: &str) -> Result<[Var; 3]> {
    let (b, Encoder { names, hidden, heads, head, attention, .. }) = (net.b, net.e);
    let size = heads * head;
    let apart = |name: &str| net.project(x, &format!("{prefix}{name}"), [*hidden, size]);
    let all = || net.plain(&format!("{prefix}{}", names.qkv), [*hidden, 3 * size]);
    match attention.fused {
        Fused::Apart => Ok([apart(names.q)?, apart(names.k)?, apart(names.v)?]),
        Fused::InTurn => {
            let all = all()?;
            let part = |role: &str, at: usize| net.apply(x, &all.rows(role, at * size, size)?);
            Ok([part("q", 0)?, part("k", 1)?, part("v", 2)?])
        }
        Fused::Grouped { biases } => {
            let all = all()?;
            let part = |role: &str, at: usize| {
                net.apply(x, &all.grouped(role, *heads, [at * head, *head])?)
            };
            let [of_q, of_v] = biases.map(|name| net.weight(&format!("{prefix}{name}"), &[size]));
            Ok([b.add(part("q", 0)?, of_q?)?, part("k", 1)?, b.add(part("v", 2)?, of_v?)?])
        }
    }
}
