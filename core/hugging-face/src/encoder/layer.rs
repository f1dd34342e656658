//! Layers, and the convolution behind the first.

use super::attention::{Shared, attention};
use super::embedding::Tokens;
use super::weights::Net;
use super::{Conv, Encoder, EncoderLayer, Mlp, Order};
use crate::layers::activate;
use onnxd_plugin_sdk::build::{Result, Var};

pub(super) fn layer(net: &Net<'_>, shared: &Shared, x: Var, layer: &EncoderLayer) -> Result<Var> {
    let (b, Encoder { names, hidden, order, .. }) = (net.b, net.e);
    let prefix = &layer.prefix;
    let norm = |x, name: &str| net.norm(x, &format!("{prefix}{name}"), *hidden);
    match order {
        Order::After => {
            let mixed = attention(net, shared, x, layer)?;
            let x = norm(b.add(mixed, x)?, names.attention_norm)?;
            norm(b.add(mlp(net, x, prefix)?, x)?, names.mlp_norm)
        }
        Order::Before => {
            let first = if layer.has_attention_norm { norm(x, names.attention_norm)? } else { x };
            let x = b.add(x, attention(net, shared, first, layer)?)?;
            b.add(x, mlp(net, norm(x, names.mlp_norm)?, prefix)?)
        }
    }
}

/// `down(f(up(x)))`, or `down(f(first) * second)` of the halves of `up(x)`.
fn mlp(net: &Net<'_>, x: Var, prefix: &str) -> Result<Var> {
    let (b, Encoder { names, hidden, .. }) = (net.b, net.e);
    let Mlp { is_gated, activation, inner } = net.e.mlp;
    let [up, down] = [names.up, names.down].map(|name| format!("{prefix}{name}"));
    let between = if is_gated {
        let both = net.plain(&up, [*hidden, 2 * inner])?;
        let first = net.apply(x, &both.rows("input", 0, inner)?)?;
        let gate = net.apply(x, &both.rows("gate", inner, inner)?)?;
        b.mul(activate(b, first, activation)?, gate)?
    } else {
        activate(b, net.project(x, &up, [*hidden, inner])?, activation)?
    };
    net.project(between, &down, [inner, *hidden])
}

/// `norm(x + f(conv(embeddings)))`, without padding.
pub(super) fn convolution(
    net: &Net<'_>,
    tokens: &Tokens,
    [x, embeddings]: [Var; 2],
    conv: &Conv,
) -> Result<Var> {
    let (b, hidden) = (net.b, net.e.hidden);
    let Conv { name, norm, taps, groups, activation } = *conv;
    let weight = net.weight(&format!("{name}.weight"), &[hidden, hidden / groups, taps])?;
    let ones = tokens.ones(net)?;
    let swapped = |x| b.transpose(x).perm(vec![0, 2, 1]).one();
    let pad = ((taps - 1) / 2) as i64;
    let call = b.conv(swapped(embeddings)?, weight).pads(vec![pad, pad]).group(groups as i64);
    let call = match net.optional_weight(&format!("{name}.bias"), &[hidden])? {
        Some(bias) => call.b(bias),
        None => call,
    };
    let near = activate(b, b.mul(swapped(call.one()?)?, ones)?, activation)?;
    b.mul(net.norm(b.add(x, near)?, norm, hidden)?, ones)
}
