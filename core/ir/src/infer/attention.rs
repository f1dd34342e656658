//! Attention, its caches and its relatives.

use super::Rules;
use super::activation::same;
use super::site::{InferContext, Shapes, plus, ratio, show, times, unknown};
use crate::{Dim, Shape};

pub(super) const RULES: Rules = &[
    ("Attention", attention),
    ("CausalConvWithState", causal_conv_with_state),
    ("LinearAttention", linear_attention),
    ("RotaryEmbedding", same),
    ("TensorScatter", same),
];

pub(super) const PREVIEW: Rules = &[("FlexAttention", attention)];

/// Sizes of queries, keys or values: packed as `[batch, length, heads * size]` or split.
struct Heads {
    batch: Dim,
    heads: Dim,
    length: Dim,
    size: Dim,
}

fn heads(site: &InferContext<'_>, i: usize, heads: &str) -> Result<Option<Heads>, String> {
    let Some(shape) = site.shape(i) else { return Ok(None) };
    let count = Dim::Known(site.int(heads, 0));
    Ok(Some(match shape {
        [batch, heads, length, size] => Heads {
            batch: batch.clone(),
            heads: heads.clone(),
            length: length.clone(),
            size: size.clone(),
        },
        [_, _, _] if !matches!(count, Dim::Known(1..)) => {
            return Err(format!("`{heads}` is missing for the packed heads of {}", show(shape)));
        }
        [batch, length, packed] => Heads {
            batch: batch.clone(),
            length: length.clone(),
            size: ratio(packed, &count)?,
            heads: count,
        },
        _ => return Err(format!("{} has neither three nor four axes", show(shape))),
    }))
}

fn attention(site: &InferContext<'_>) -> Shapes {
    let query = heads(site, 0, "q_num_heads")?;
    let key = heads(site, 1, "kv_num_heads")?;
    let value = heads(site, 2, "kv_num_heads")?;
    let total = match (&key, site.has(4), site.shape(4)) {
        (Some(key), false, _) => key.length.clone(),
        (Some(key), true, Some([_, _, past, _])) => plus(past, &key.length),
        _ => Dim::Unknown,
    };
    let output = match (&query, &value, site.shape(0)) {
        (Some(q), Some(v), Some([batch, length, _])) => {
            Some(vec![batch.clone(), length.clone(), times(&q.heads, &v.size)])
        }
        (Some(q), Some(v), Some([batch, heads, length, _])) => {
            let _ = q;
            Some(vec![batch.clone(), heads.clone(), length.clone(), v.size.clone()])
        }
        _ => None,
    };
    let cache = |h: &Heads| -> Shape {
        vec![h.batch.clone(), h.heads.clone(), total.clone(), h.size.clone()]
    };
    let scores = query.map(|q| vec![q.batch, q.heads, q.length, total.clone()]);
    Ok(vec![output, key.as_ref().map(cache), value.as_ref().map(cache), scores])
}

fn linear_attention(site: &InferContext<'_>) -> Shapes {
    let query = heads(site, 0, "q_num_heads")?;
    let key = heads(site, 1, "kv_num_heads")?;
    let value = heads(site, 2, "kv_num_heads")?;
    let output = query.zip(value.as_ref());
    let output = output.map(|(q, v)| vec![q.batch, q.length, times(&q.heads, &v.size)]);
    let state = key.zip(value).map(|(k, v)| vec![k.batch, k.heads, k.size, v.size]);
    Ok(vec![output, state])
}

fn causal_conv_with_state(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    let [batch, channels, _] = x else {
        return Err(format!("the input {} has not three axes", show(x)));
    };
    let kernel = match site.shape(1) {
        Some([_, _, kernel]) => plus(kernel, &Dim::Known(-1)),
        _ => Dim::Unknown,
    };
    Ok(vec![Some(x.to_vec()), Some(vec![batch.clone(), channels.clone(), kernel])])
}
