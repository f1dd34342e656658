//! The two graphs: an encoder, and a decoder for the first call and for later ones.

use super::attention::{Attention, Crossing};
use super::embedding::{embedded, logits};
use super::net::{BATCH, Net};
use super::positions::{self, Places};
use super::{EncoderDecoder, Source, Stack};
use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::diag::{Code, Diagnostic, Layer};
use crate::layers;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Tensor, ValueType};

pub(super) const READ: &str = "encoder_sequence_length";
const NEW: &str = "decoder_sequence_length";
const PAST: &str = "past_decoder_sequence_length";
const PAST_READ: &str = "past_encoder_sequence_length";

/// Names of files, as Optimum and Transformers.js know them.
const ENCODER: &str = "encoder_model";
const DECODER: &str = "decoder_model_merged";

impl Architecture for EncoderDecoder {
    fn prefixes(&self) -> &'static [&'static str] {
        self.prefixes
    }

    fn file(&self) -> &'static str {
        ENCODER
    }

    fn has_decoder(&self) -> bool {
        true
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        if !target.has_cache {
            let why = "`export.cache` is false, and a decoder beside an encoder is written with its cache";
            return Err(Diagnostic::new(Code::ParamsBadValue, why).help("Leave it out."));
        }
        written(self, weights, target, encoder)
    }

    fn further(&self, weights: &Checkpoint, target: &Target) -> Result<Vec<(&'static str, Graph)>> {
        Ok(vec![(DECODER, written(self, weights, target, decoder)?)])
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let EncoderDecoder { encoder, decoder, .. } = self;
        let elements = 2 * decoder.layers * decoder.heads * self.head;
        vec![
            ("encoder_layers", encoder.layers.to_string()),
            ("decoder_layers", decoder.layers.to_string()),
            ("hidden_size", self.hidden.to_string()),
            ("heads", decoder.heads.to_string()),
            ("head_size", self.head.to_string()),
            ("vocabulary", self.words.to_string()),
            ("cache_bytes_per_token", (elements * size_of::<f32>()).to_string()),
        ]
    }
}

pub(super) fn written(
    d: &EncoderDecoder,
    weights: &Checkpoint,
    target: &Target,
    write: impl FnOnce(&Net<'_>) -> Result<()>,
) -> Result<Graph> {
    layers::graph(weights, target.opset, |layers| write(&Net { layers, d }))
}

/// Calls `layer` for each layer of a stack, with its number and what names of its weights begin with.
fn each_layer(
    net: &Net<'_>,
    stack: &Stack,
    mut x: Var,
    mut layer: impl FnMut(usize, &str, Var) -> Result<Var>,
) -> Result<Var> {
    for number in 0..stack.layers {
        let name = format!("{}.{}.{number}", stack.name, stack.list);
        let prefix = format!("{name}.");
        let of = Layer::new(name, format!("{} layer", stack.name));
        x = net.b.in_layer(of, |_| layer(number, &prefix, x))?;
    }
    net.final_norm(stack, x)
}

fn encoder(net: &Net<'_>) -> Result<()> {
    let (x, bias) = match net.d.source {
        Source::Words(words) => {
            let inputs = ["input_ids", "attention_mask"].map(|name| net.tokens(name, READ));
            let (x, bias) = read(net, words, inputs)?;
            (x, Some(bias))
        }
        Source::Sound { bands, positions } => (heard(net, bands, positions)?, None),
    };
    net.b.output(encoded(net, x, bias)?, "last_hidden_state")
}

/// What the layers of the encoder give.
pub(super) fn encoded(net: &Net<'_>, x: Var, bias: Option<Var>) -> Result<Var> {
    let stack = &net.d.encoder;
    each_layer(net, stack, x, |_, prefix, x| {
        let attention = Attention { stack, names: &stack.attention, prefix };
        let norm = |name: &str| format!("{prefix}{name}");
        let x = net.residual(x, &norm(stack.attention.norm), |x| {
            Ok(attention.to_itself(net, x, None, bias)?.0)
        })?;
        net.residual(x, &norm(stack.mlp_norm), |x| net.mlp(x, stack, prefix))
    })
}

/// Words with their positions, and what is added to scores.
pub(super) fn read(net: &Net<'_>, words: usize, [ids, mask]: [Var; 2]) -> Result<(Var, Var)> {
    let stack = &net.d.encoder;
    let places = Places::new(net, ids, None)?;
    let (_, x) = embedded(net, stack, (ids, words), &places)?;
    let padding = positions::padding(net, mask)?;
    let bias = match positions::relative(net, stack, &places)? {
        Some(relative) => net.b.add(relative, padding)?,
        None => padding,
    };
    Ok((x, bias))
}

/// Frames of sound through two convolutions, with their positions.
fn heard(net: &Net<'_>, bands: usize, positions: usize) -> Result<Var> {
    let (b, hidden) = (net.b, net.d.hidden);
    let sizes = [bands, 2 * positions].map(|size| Dim::Known(size as i64));
    let [bands_of, frames] = sizes;
    let ty = ValueType::tensor(DataType::Float, [Dim::Symbol(BATCH.into()), bands_of, frames]);
    let convolved = |x, name: &str, inputs, stride| {
        let weight = net.w.tensor(&format!("{name}.weight"), &[hidden, inputs, 3])?;
        let bias = net.w.tensor(&format!("{name}.bias"), &[hidden])?;
        let constant = |part: &str, tensor| net.constant(&format!("{name}.{part}"), tensor);
        let call = b.conv(x, constant("weight", weight)).b(constant("bias", bias));
        b.gelu(call.pads(vec![1, 1]).strides(vec![stride]).one()?).one()
    };
    let x = convolved(b.input("input_features", ty), "encoder.conv1", bands, 1)?;
    let x = convolved(x, "encoder.conv2", hidden, 2)?;
    let name = "encoder.embed_positions.weight";
    let table = net.constant(name, net.w.tensor(name, &[positions, hidden])?);
    b.add(b.transpose(x).perm(vec![0, 2, 1]).one()?, table)
}

/// The decoder. It computes keys and values of what the encoder gives in the first call; where `use_cache_branch` is
/// true, it takes them from the cache.
fn decoder(net: &Net<'_>) -> Result<()> {
    let (b, d) = (net.b, net.d);
    let stack = &d.decoder;
    let ids = net.tokens("input_ids", NEW);
    let mask = match d.source {
        Source::Words(_) => Some(net.tokens("encoder_attention_mask", READ)),
        Source::Sound { .. } => None,
    };
    let symbol = |name: &str| Dim::Symbol(name.into());
    let known = |size: usize| Dim::Known(size as i64);
    let ty = ValueType::tensor(DataType::Float, [symbol(BATCH), symbol(READ), known(d.hidden)]);
    let states = b.input("encoder_hidden_states", ty);
    let cached = |i: usize, of: &str, length: &str| {
        let sizes = [symbol(BATCH), known(stack.heads), symbol(length), known(d.head)];
        let input = |part: &str| {
            let name = format!("past_key_values.{i}.{of}.{part}");
            b.input(&name, ValueType::tensor(DataType::Float, sizes.clone()))
        };
        ["key", "value"].map(input)
    };
    let pasts: Vec<_> = (0..stack.layers)
        .map(|i| (cached(i, "decoder", PAST), cached(i, "encoder", PAST_READ)))
        .collect();
    let is_cached = b.input("use_cache_branch", ValueType::tensor(DataType::Bool, [known(1)]));
    // Some callers fill what there is no past of with zeros.
    let least = |x: i64| b.constant(Tensor::vector(vec![x]));
    let end = b.where_(is_cached, least(i64::MAX), least(0))?;
    let kept = |x| b.slice(x, vec![0], end).axes(vec![2]).one();
    let pasts = pasts.into_iter().map(|([k, v], cross)| Ok(([kept(k)?, kept(v)?], cross)));
    let pasts = pasts.collect::<Result<Vec<_>>>()?;
    let places = Places::new(net, ids, Some(b.shape(pasts[0].0[0]).start(2).end(3).one()?))?;
    let (table, x) = embedded(net, stack, (ids, d.words), &places)?;
    let later = positions::later(net, &places)?;
    let bias = match positions::relative(net, stack, &places)? {
        Some(relative) => b.add(relative, later)?,
        None => later,
    };
    let padding = mask.map(|mask| positions::padding(net, mask)).transpose()?;
    let mut present = vec![];
    let x = each_layer(net, stack, x, |number, prefix, x| {
        let (own, past) = pasts[number];
        let crossing = Crossing { is_cached, states, past, bias: padding };
        let (x, caches) = layer(net, prefix, x, (own, bias, crossing))?;
        present.push(caches);
        Ok(x)
    })?;
    b.output(logits(net, x, ids, table)?, "logits")?;
    for (i, caches) in present.into_iter().enumerate() {
        for (of, cache) in ["decoder", "encoder"].into_iter().zip(caches) {
            for (part, value) in ["key", "value"].into_iter().zip(cache) {
                b.output(value, &format!("present.{i}.{of}.{part}"))?;
            }
        }
    }
    Ok(())
}

/// A layer of the decoder, and its two caches.
fn layer(
    net: &Net<'_>,
    prefix: &str,
    x: Var,
    (past, bias, crossing): ([Var; 2], Var, Crossing),
) -> Result<(Var, [[Var; 2]; 2])> {
    let stack = &net.d.decoder;
    let norm = |name: &str| format!("{prefix}{name}");
    let (mut own, mut cross) = (past, crossing.past);
    let attention = |names| Attention { stack, names, prefix };
    let mut x = net.residual(x, &norm(stack.attention.norm), |x| {
        let attention = attention(&stack.attention);
        let (mixed, cache) = attention.to_itself(net, x, Some(past), Some(bias))?;
        own = cache;
        Ok(mixed)
    })?;
    if let Some(names) = &stack.cross {
        x = net.residual(x, &norm(names.norm), |x| {
            let (mixed, cache) = attention(names).to_encoder(net, x, crossing)?;
            cross = cache;
            Ok(mixed)
        })?;
    }
    let x = net.residual(x, &norm(stack.mlp_norm), |x| net.mlp(x, stack, prefix))?;
    Ok((x, [own, cross]))
}
