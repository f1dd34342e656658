//! The graph of a decoder: one for prompts, parts of prompts, and single steps.

use super::attention::attention;
use super::conv::convolution;
use super::genai;
use super::grouped::{self, MICROSOFT};
use super::latent;
use super::mask::Tokens;
use super::mlp::mlp;
use super::moe::experts;
use super::rotary::Turn;
use super::shared::{BATCH, CachedLayer, NEW, PAST, Shared, TOTAL};
use super::state::state_space;
use super::tables::{Lengths, Table};
use super::weights::Net;
use super::{Decoder, DecoderLayer, Logits, Mixer, Order};
use crate::architecture::{Architecture, Target, not_of_genai};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag;
use crate::layers;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Tensor, ValueType};
use serde_json::{Map, Value};

/// The parts of the cache of layers without keys.
const CONV: &str = "conv_state";
const RECURRENT: &str = "recurrent_state";

impl Architecture for Decoder {
    fn prefixes(&self) -> &'static [&'static str] {
        self.names.prefixes
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        layers::graph(weights, target.opset, |layers| {
            if target.is_genai {
                layers.b.import_domain(MICROSOFT);
            }
            write(&Net { layers, d: self, target })
        })
    }

    fn has_decoder(&self) -> bool {
        true
    }

    fn genai(&self, config: &Config, generation: &Map<String, Value>) -> Result<String> {
        // It has no names for states, and one size for keys and values.
        let is_attentive = self.layers.iter().all(|layer| layer.mixer == Mixer::Attention);
        match is_attentive && self.head == self.value {
            true => Ok(genai::text(config, generation, self)),
            false => Err(not_of_genai(config)),
        }
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
    let all = if net.target.has_cache { TOTAL } else { NEW };
    let (ids, mask) = (ids_of("input_ids", NEW), ids_of("attention_mask", all));
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
        _ if !net.target.has_cache => without_cache(net, ids, layer),
        (Mixer::State, Some(state)) => {
            let [conv, recurrent] = state.sizes();
            Ok(vec![kept(i, CONV, conv), kept(i, RECURRENT, recurrent)])
        }
        (Mixer::Conv(taps), _) => Ok(vec![kept(i, CONV, [d.hidden, taps - 1])]),
        _ => Ok(vec![cached(i, "key", d.head), cached(i, "value", d.value)]),
    };
    let pasts: Vec<Vec<Var>> = d.layers.iter().enumerate().map(of_layer).collect::<Result<_>>()?;
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
    if !net.target.has_cache {
        return Ok(());
    }
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

/// What a layer begins with where there is no cache.
pub(super) fn without_cache(net: &Net<'_>, ids: Var, layer: &DecoderLayer) -> Result<Vec<Var>> {
    match (layer.mixer, &net.d.state) {
        (Mixer::State, Some(state)) => {
            state.sizes().map(|sizes| zeros(net, ids, sizes)).into_iter().collect()
        }
        _ => Ok(vec![]),
    }
}

/// A state before all tokens, for graphs without a cache: [B, ..sizes].
fn zeros(net: &Net<'_>, ids: Var, sizes: [usize; 2]) -> Result<Var> {
    let b = net.b;
    let batch = b.shape(ids).start(0).end(1).one()?;
    let sizes = b.constant(Tensor::vector(sizes.map(|size| size as i64).to_vec()));
    let sizes = b.concat([batch, sizes]).axis(0).one()?;
    b.constant_of_shape(sizes).value(Tensor::vector(vec![0f32])).one()
}

/// Positions, masks and rotations, once for all layers.
pub(super) fn shared(net: &Net<'_>, ids: Var, mask: Var) -> Result<Shared> {
    let (b, d) = (net.b, net.d);
    let tokens = Tokens::new(b, ids, mask, d.embedding.positions.is_some())?;
    let turns =
        d.ropes.iter().map(|rope| Turn::new(b, rope, tokens.positions)).collect::<Result<_>>()?;
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
    let lengths = match net.target.is_genai {
        true => Some(Lengths::new(b, mask)?),
        false => None,
    };
    let tables = match net.target.is_genai {
        true => Table::all(net),
        false => vec![],
    };
    Ok(Shared { tokens, turns, biases, lengths, tables })
}

/// What the first layer reads, and the table of words.
pub(super) fn embedding(net: &Net<'_>, ids: Var, tokens: &Tokens) -> Result<(Var, Var)> {
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
pub(super) fn layer_of(
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
                let (mixed, last) =
                    convolution(net, shared, x, (prefix, taps, past.first().copied()))?;
                return Ok((mixed, vec![last]));
            }
            (Mixer::State, Some(state)) => {
                let past = [past[0], past[1]];
                return state_space(net, shared, x, (prefix, state, past));
            }
            _ => {}
        }
        let at =
            CachedLayer { number, layer: *layer, prefix, past: past.first_chunk::<2>().copied() };
        let (mixed, cache) = match (&d.attention.latent, shared.lengths) {
            (_, Some(lengths)) if d.is_grouped() => {
                grouped::attention(net, shared, x, (&at, lengths))?
            }
            (Some(sizes), _) => latent::attention(net, shared, x, (&at, sizes))?,
            (None, _) => attention(net, shared, x, &at)?,
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

/// Logits by the table of words.
fn tied(net: &Net<'_>, x: Var, ids: Var, table: Var) -> Result<Var> {
    let (d, w) = (net.d, net.w);
    let name = format!("{}.bias", d.names.lm_head);
    let bias = w.optional(&name, &[d.vocabulary])?.map(|bias| net.constant(&name, bias));
    net.by_table(x, table, (bias, ids), [d.hidden, d.vocabulary])
}
