//! The graph of a decoder: one for prompts, parts of prompts, and single steps.

use super::attention::{CachedLayer, Shared, attention};
use super::conv::convolution;
use super::latent;
use super::mask::Tokens;
use super::mlp::mlp;
use super::moe::experts;
use super::rotary::Turn;
use super::state::state_space;
use super::weights::Net;
use super::{Decoder, DecoderLayer, Logits, Mixer, Order};
use crate::architecture::Architecture;
use crate::checkpoint::Checkpoint;
use crate::diag;
use crate::layers::Layers;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, Tensor, ValueType};

const BATCH: &str = "batch_size";
const NEW: &str = "sequence_length";
const PAST: &str = "past_sequence_length";
const TOTAL: &str = "total_sequence_length";

/// The parts of the cache of layers without keys.
const CONV: &str = "conv_state";
const RECURRENT: &str = "recurrent_state";

impl Architecture for Decoder {
    fn prefixes(&self) -> &'static [&'static str] {
        self.names.prefixes
    }

    fn graph(&self, weights: &Checkpoint, opset: i64) -> Result<Graph> {
        let opsets = Opsets::from([(String::new(), opset)]);
        let b = GraphBuilder::new(Graph::new("main"), opsets).with_node_names();
        write(&Net { layers: Layers { b: &b, w: weights }, d: self })?;
        Ok(b.finish())
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let elements = self.kv_heads * (self.head + self.value);
        let attentive = self.layers.iter().filter(|layer| layer.mixer == Mixer::Attention).count();
        let cache = attentive * elements * size_of::<f32>();
        vec![
            ("layers", self.layers.len().to_string()),
            ("hidden_size", self.hidden.to_string()),
            ("heads", self.heads.to_string()),
            ("key_value_heads", self.kv_heads.to_string()),
            ("head_size", self.head.to_string()),
            ("vocabulary", self.vocabulary.to_string()),
            ("cache_bytes_per_token", cache.to_string()),
        ]
    }
}

fn symbol(name: &str) -> Dim {
    Dim::Symbol(name.into())
}

fn write(net: &Net<'_>) -> Result<()> {
    let (b, d) = (net.b, net.d);
    let ids_of = |name, length| {
        b.input(name, ValueType::tensor(DataType::Int64, [symbol(BATCH), symbol(length)]))
    };
    let (ids, mask) = (ids_of("input_ids", NEW), ids_of("attention_mask", TOTAL));
    let cached = |i: usize, part: &str, head: usize| {
        let [heads, head] = [d.kv_heads, head].map(|n| Dim::Known(n as i64));
        let ty = ValueType::tensor(DataType::Float, [symbol(BATCH), heads, symbol(PAST), head]);
        b.input(&format!("past_key_values.{i}.{part}"), ty)
    };
    let kept = |i: usize, part: &str, sizes: [usize; 2]| {
        let [size, each] = sizes.map(|n| Dim::Known(n as i64));
        let ty = ValueType::tensor(DataType::Float, [symbol(BATCH), size, each]);
        b.input(&format!("past_key_values.{i}.{part}"), ty)
    };
    let of_layer = |(i, layer): (usize, &DecoderLayer)| match (layer.mixer, &d.state) {
        (Mixer::Conv(taps), _) => vec![kept(i, CONV, [d.hidden, taps - 1])],
        (Mixer::State, Some(state)) => {
            let conv = kept(i, CONV, [state.channels(), state.taps - 1]);
            vec![conv, kept(i, RECURRENT, [state.inner, state.size])]
        }
        _ => vec![cached(i, "key", d.head), cached(i, "value", d.value)],
    };
    let pasts: Vec<Vec<Var>> = d.layers.iter().enumerate().map(of_layer).collect();
    let shared = shared(net, ids, mask)?;
    let (mut x, table) = embedding(net, ids, &shared.tokens)?;
    let mut present = vec![];
    for (number, (layer, past)) in d.layers.iter().zip(pasts).enumerate() {
        let prefix = format!("{}.{number}.", d.names.layers);
        let name = diag::Layer::new(format!("{}.{number}", d.names.layers), "decoder layer");
        let (next, cache) =
            b.in_layer(name, |_| layer_of(net, &shared, x, (number, layer, &prefix, &past)))?;
        x = next;
        present.push(cache);
    }
    let words = logits(net, x, ids, table)?;
    b.output(words, "logits")?;
    for (i, (cache, layer)) in present.into_iter().zip(&d.layers).enumerate() {
        let parts = match layer.mixer {
            Mixer::Attention => ["key", "value"],
            Mixer::Conv(_) | Mixer::State => [CONV, RECURRENT],
        };
        for (part, value) in parts.iter().zip(cache) {
            b.output(value, &format!("present.{i}.{part}"))?;
        }
    }
    Ok(())
}

/// Positions, masks and rotations, once for all layers.
fn shared(net: &Net<'_>, ids: Var, mask: Var) -> Result<Shared> {
    let (b, d) = (net.b, net.d);
    let tokens = Tokens::new(b, ids, mask, d.embedding.positions.is_some())?;
    let turns = d.ropes.iter().map(|rope| Turn::new(b, rope, &tokens)).collect::<Result<_>>()?;
    let mut biases: Vec<(Option<usize>, Var)> = vec![];
    let attentive = d.layers.iter().filter(|layer| layer.mixer == Mixer::Attention);
    for DecoderLayer { window, .. } in attentive {
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
    let (b, d, w) = (net.b, net.d, net.w);
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

/// A layer by its number, with what names of its weights begin with and its cache before; and its cache after.
fn layer_of(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    (number, layer, prefix, past): (usize, &DecoderLayer, &str, &[Var]),
) -> Result<(Var, Vec<Var>)> {
    let (b, d) = (net.b, net.d);
    let names = &d.names;
    let norm = |x, name: &str| net.norm(x, &format!("{prefix}{name}"), d.hidden);
    let mix = |x| {
        match (layer.mixer, &d.state) {
            (Mixer::Conv(taps), _) => {
                let (mixed, last) = convolution(net, shared, x, (prefix, taps, past[0]))?;
                return Ok((mixed, vec![last]));
            }
            (Mixer::State, Some(state)) => {
                let past = [past[0], past[1]];
                return state_space(net, shared, x, (prefix, state, past));
            }
            _ => {}
        }
        let at = CachedLayer { number, layer: *layer, prefix, past: [past[0], past[1]] };
        let (mixed, cache) = match &d.attention.latent {
            Some(sizes) => latent::attention(net, shared, x, (&at, sizes))?,
            None => attention(net, shared, x, &at)?,
        };
        Ok((mixed, cache.to_vec()))
    };
    let think = |x| match (d.mlp.experts, layer.has_experts) {
        (Some(all), true) if d.mlp.beside_experts => {
            b.add(experts(net, x, prefix, &all)?, mlp(net, x, prefix)?)
        }
        (Some(all), true) => experts(net, x, prefix, &all),
        _ => mlp(net, x, prefix),
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
        Order::Alone => {
            let (mixed, cache) = mix(norm(x, names.norm)?)?;
            Ok((add(x, mixed)?, cache))
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
    let (b, d) = (net.b, net.d);
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
    let (b, d, w) = (net.b, net.d, net.w);
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
