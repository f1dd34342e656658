//! The graph of a decoder: one for prompts, parts of prompts, and single steps.

use super::attention::{Place, Shared, attention};
use super::latent;
use super::mask::Tokens;
use super::mlp::mlp;
use super::moe::experts;
use super::rotary::Turn;
use super::weights::Net;
use super::{Decoder, Layer, Logits, Order};
use crate::checkpoint::Checkpoint;
use crate::diag;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, Tensor, ValueType};

const BATCH: &str = "batch_size";
const NEW: &str = "sequence_length";
const PAST: &str = "past_sequence_length";
const TOTAL: &str = "total_sequence_length";

/// Writes the graph.
pub(crate) fn build(d: &Decoder, w: &Checkpoint, opset: i64) -> Result<Graph> {
    let opsets = Opsets::from([(String::new(), opset)]);
    let b = GraphBuilder::new(Graph::new("main"), opsets).with_node_names();
    write(&Net { b: &b, d, w })?;
    Ok(b.finish())
}

fn symbol(name: &str) -> Dim {
    Dim::Symbol(name.into())
}

fn write(net: &Net<'_>) -> Result<()> {
    let Net { b, d, .. } = *net;
    let ids_of = |name, length| {
        b.input(name, ValueType::tensor(DataType::Int64, [symbol(BATCH), symbol(length)]))
    };
    let (ids, mask) = (ids_of("input_ids", NEW), ids_of("attention_mask", TOTAL));
    let cached = |i: usize, part: &str, head: usize| {
        let [heads, head] = [d.kv_heads, head].map(|n| Dim::Known(n as i64));
        let sizes = [symbol(BATCH), heads, symbol(PAST), head];
        b.input(&format!("past_key_values.{i}.{part}"), ValueType::tensor(DataType::Float, sizes))
    };
    let pasts: Vec<[Var; 2]> = (0..d.layers.len())
        .map(|i| [cached(i, "key", d.head), cached(i, "value", d.value)])
        .collect();
    let shared = shared(net, ids, mask)?;
    let (mut x, table) = embedding(net, ids, &shared.tokens)?;
    let mut present = vec![];
    for (number, (layer, past)) in d.layers.iter().zip(pasts).enumerate() {
        let prefix = format!("{}.{number}.", d.names.layers);
        let place = Place { number, layer: *layer, prefix: &prefix, past };
        let name = diag::Layer::new(format!("{}.{number}", d.names.layers), "decoder layer");
        let (next, cache) = b.in_layer(name, |_| layer_of(net, &shared, x, &place))?;
        x = next;
        present.push(cache);
    }
    let words = logits(net, x, ids, table)?;
    b.output(words, "logits")?;
    for (i, [key, value]) in present.into_iter().enumerate() {
        b.output(key, &format!("present.{i}.key"))?;
        b.output(value, &format!("present.{i}.value"))?;
    }
    Ok(())
}

/// Positions, masks and rotations, once for all layers.
fn shared(net: &Net<'_>, ids: Var, mask: Var) -> Result<Shared> {
    let Net { b, d, .. } = *net;
    let tokens = Tokens::new(b, ids, mask, d.embedding.positions.is_some())?;
    let turns = d.ropes.iter().map(|rope| Turn::new(b, rope, &tokens)).collect::<Result<_>>()?;
    let mut biases: Vec<(Option<usize>, Var)> = vec![];
    for Layer { window, .. } in &d.layers {
        if !biases.iter().any(|(known, _)| known == window) {
            biases.push((*window, tokens.bias(b, *window)?));
        }
    }
    if d.attention.alibi != 0.0 {
        let far = tokens.alibi(b, d.heads, d.attention.alibi)?;
        for (_, bias) in &mut biases {
            *bias = b.add(*bias, far)?;
        }
    }
    Ok(Shared { tokens, turns, biases })
}

/// What the first layer reads, and the table of words.
fn embedding(net: &Net<'_>, ids: Var, tokens: &Tokens) -> Result<(Var, Var)> {
    let Net { b, d, w } = *net;
    let name = format!("{}.weight", d.names.embedding);
    let table = net.constant(&name, w.tensor(&name, &[d.vocabulary, d.hidden])?);
    let mut x = b.gather(table, ids).one()?;
    if d.embedding.scale != 1.0 {
        x = b.mul(x, d.embedding.scale)?;
    }
    if let Some((rows, first)) = d.embedding.positions {
        let name = format!("{}.weight", d.names.positions);
        let places = net.constant(&name, w.tensor(&name, &[rows, d.hidden])?);
        let at = if first == 0 { tokens.positions } else { b.add(tokens.positions, first as i64)? };
        x = b.add(x, b.gather(places, at).one()?)?;
    }
    if d.embedding.has_norm {
        x = net.norm(x, d.names.embedding_norm, d.hidden)?;
    }
    Ok((x, table))
}

/// A layer, and its cache.
fn layer_of(net: &Net<'_>, shared: &Shared, x: Var, at: &Place<'_>) -> Result<(Var, [Var; 2])> {
    let Net { b, d, .. } = *net;
    let names = &d.names;
    let norm = |x, name: &str| net.norm(x, &format!("{}{name}", at.prefix), d.hidden);
    let mix = |x| match &d.attention.latent {
        Some(sizes) => latent::attention(net, shared, x, (at, sizes)),
        None => attention(net, shared, x, at),
    };
    let think = |x| match (d.mlp.experts, at.layer.has_experts) {
        (Some(all), true) => experts(net, x, at.prefix, &all),
        _ => mlp(net, x, at.prefix),
    };
    let add = |x, branch| match d.residual {
        1.0 => b.add(x, branch),
        residual => b.add(x, b.mul(branch, residual)?),
    };
    match d.order {
        Order::Before => {
            let (mixed, cache) = mix(norm(x, names.norm)?)?;
            let x = add(x, mixed)?;
            Ok((add(x, think(norm(x, names.mlp_norm)?)?)?, cache))
        }
        Order::After => {
            let (mixed, cache) = mix(x)?;
            let x = add(x, norm(mixed, names.after_attention)?)?;
            Ok((add(x, norm(think(x)?, names.after_mlp)?)?, cache))
        }
        Order::Both => {
            let (mixed, cache) = mix(norm(x, names.norm)?)?;
            let x = add(x, norm(mixed, names.after_attention)?)?;
            let thought = think(norm(x, names.mlp_norm)?)?;
            Ok((add(x, norm(thought, names.after_mlp)?)?, cache))
        }
        Order::Parallel { norms } => {
            let first = norm(x, names.norm)?;
            let second = if norms == 1 { first } else { norm(x, names.mlp_norm)? };
            let (mixed, cache) = mix(first)?;
            Ok((add(add(x, mixed)?, think(second)?)?, cache))
        }
    }
}

/// Scores of all words. A table of words that gives them, too, is one constant.
fn logits(net: &Net<'_>, x: Var, ids: Var, table: Var) -> Result<Var> {
    let Net { b, d, .. } = *net;
    let Logits { is_tied, scale, cap, without_norm } = d.head_of_words;
    let x = if without_norm { x } else { net.norm(x, d.names.final_norm, d.hidden)? };
    let mut words = match is_tied {
        true => tied(net, x, ids, table)?,
        false => net.apply(x, &net.plain(d.names.lm_head, [d.hidden, d.vocabulary])?)?,
    };
    if scale != 1.0 {
        words = b.mul(words, scale)?;
    }
    cap.map_or(Ok(words), |cap| b.mul(b.tanh(b.div(words, cap)?)?, cap))
}

/// Logits by the table of words as it lies: to turn it would make a second constant of it.
fn tied(net: &Net<'_>, x: Var, ids: Var, table: Var) -> Result<Var> {
    let Net { b, d, w } = *net;
    let flat = b.reshape(x, vec![-1, d.hidden as i64]).one()?;
    let product = b.gemm(flat, table).trans_b(1);
    let name = format!("{}.bias", d.names.lm_head);
    let words = match w.optional(&name, &[d.vocabulary])? {
        Some(bias) => product.c(net.constant(&name, bias)).one()?,
        None => product.one()?,
    };
    let vocabulary = b.constant(Tensor::vector(vec![d.vocabulary as i64]));
    let sizes = b.concat([b.shape(ids).one()?, vocabulary]).axis(0).one()?;
    b.reshape(words, sizes).one()
}
