//! Attention: scaled products of queries and keys weigh values. torch's fused layers of transformers are made of it.

use super::conv::batched;
use super::dtype::{dtype_of, operand};
use super::linear::{gelu, linear, matmul};
use super::nested;
use super::norm::layer;
use super::sizes::{known_size, rank, scalar, size, sizes, times, vector};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Bool;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::scaled_dot_product_attention" => |b, a: Scaled| attention(b, &a);
        "aten::_scaled_dot_product_attention_math" | "aten::_scaled_dot_product_attention_math_for_mps" =>
            |b, a: Scaled| weighed(b, &a);
        "aten::_scaled_dot_product_flash_attention" => |b, a: Fused| fused(b, a, 9);
        "aten::_scaled_dot_product_flash_attention_for_cpu" => |b, a: Fused| fused(b, a, 2);
        "aten::_scaled_dot_product_efficient_attention" => |b, a: Fused| fused(b, a, 4);
        "aten::_scaled_dot_product_cudnn_attention" => |b, a: Fused| fused(b, a, 9);
        "aten::_scaled_dot_product_fused_attention_overrideable" => |b, a: Fused| fused(b, a, 9);
        "aten::_native_multi_head_attention" => |b, a: MultiHead| multi_head(b, &a);
        "aten::_transformer_encoder_layer_fwd" => encoder_layer;
    }
}

arguments! {
    /// `scaled_dot_product_attention`
    struct Scaled {
        query: Var, key: Var, value: Var, attn_mask: Option<Var>, dropout_p: f64, is_causal: bool,
        dropout_mask: Value = Value::None, scale: Option<f64>, enable_gqa: Option<bool>,
    }
    /// `_scaled_dot_product_efficient_attention`
    struct Fused {
        query: Var, key: Var, value: Var, attn_mask: Option<Var>, attn_bias: Option<Var>,
        compute_log_sumexp: Value = Value::None, dropout_p: f64, is_causal: bool,
        return_debug_mask: Value = Value::None,
        scale: Option<f64>,
    }
    /// `_native_multi_head_attention`
    struct MultiHead {
        query: Var, key: Var, value: Var, embed_dim: i64, num_head: i64, qkv_weight: Var,
        qkv_bias: Var, proj_weight: Var, proj_bias: Var, mask: Option<Var>, need_weights: bool,
        average_attn_weights: bool, mask_type: Option<i64>,
    }
    /// `_transformer_encoder_layer_fwd`
    struct Encoder {
        src: Var, embed_dim: i64, num_heads: i64, qkv_weight: Var, qkv_bias: Var, proj_weight: Var,
        proj_bias: Var, use_gelu: bool, norm_first: bool, eps: f64, norm_weight_1: Var,
        norm_bias_1: Var, norm_weight_2: Var, norm_bias_2: Var, ffn_weight_1: Var, ffn_bias_1: Var,
        ffn_weight_2: Var, ffn_bias_2: Var, mask: Option<Var>, mask_type: Option<i64>,
    }
}

/// The attention of a fused operator. Its other results serve the computation of gradients.
fn fused(b: &Lower, a: Fused, results: usize) -> Lowered<Several> {
    let Fused { query, key, value, dropout_p, is_causal, scale, .. } = a;
    let attn_mask = a.attn_mask.or(a.attn_bias);
    let (dropout_mask, enable_gqa) = (Value::None, None);
    let scaled = Scaled {
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        dropout_mask,
        scale,
        enable_gqa,
    };
    let mut all = vec![Value::None; results];
    all[0] = attention(b, &scaled)?.into();
    Ok(Several(all))
}

/// One operator where the opset has it.
fn attention(b: &Lower, a: &Scaled) -> Lowered<Var> {
    let ranks = [a.query, a.key, a.value].map(|v| b.rank_of(v));
    let heads = matches!(ranks, [Some(3 | 4), ..]) && ranks[1..] == [ranks[0]; 2];
    if b.opset() < 23 || !heads || a.dropout_p > 0.0 || dtype_of(b, a.query)? == Bool {
        return Ok(weighed(b, a)?[0]);
    }
    let single = (ranks[0] == Some(3)).then_some(1i64);
    let mask = a.attn_mask.map(|mask| typed_mask(b, mask, a.query)).transpose()?;
    let call = b.attention(a.query, a.key, a.value).attn_mask(mask).scale(a.scale);
    call.is_causal(a.is_causal).q_num_heads(single).kv_num_heads(single).one()
}

/// A mask of truth values as it is; another one in the type of the queries.
fn typed_mask(b: &Lower, mask: Var, like: Var) -> Lowered<Var> {
    match dtype_of(b, mask)? {
        Bool => Ok(mask),
        _ => b.cast(mask, dtype_of(b, like)?),
    }
}

/// What was weighed, and the weights: `softmax(query key^T scale + mask)`.
fn weighed(b: &Lower, a: &Scaled) -> Lowered<[Var; 2]> {
    let (key, value) = match a.enable_gqa {
        Some(true) => (repeated(b, a.key, a.query)?, repeated(b, a.value, a.query)?),
        _ => (a.key, a.value),
    };
    let query = b.mul(a.query, factor(b, a.query, a.scale)?)?;
    let rank = rank(b, key)?;
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    if rank < 2 {
        return Err(b.diagnostic(Code::LayerParameter, "Keys need at least two axes."));
    }
    perm.swap(rank - 1, rank - 2);
    let mut scores = matmul(b, query, b.transpose(key).perm(perm).one()?)?;
    let mut mask = a.attn_mask.map(|mask| typed_mask(b, mask, a.query)).transpose()?;
    if a.is_causal {
        mask = Some(causal(b, a.query, key)?);
    }
    let lowest = operand(b, &Value::Float(f64::NEG_INFINITY), dtype_of(b, scores)?)?;
    match mask {
        Some(mask) if dtype_of(b, mask)? == Bool => scores = b.where_(mask, scores, lowest)?,
        Some(mask) => scores = b.add(scores, mask)?,
        None => {}
    }
    let mut weights = b.softmax(scores).axis(-1).one()?;
    // A query without any key gives zeros; a causal mask leaves each one.
    if let Some(mask) = a.attn_mask.filter(|mask| b.dtype_of(*mask) == Some(Bool)) {
        let zero = operand(b, &Value::Int(0), dtype_of(b, weights)?)?;
        weights = b.where_(mask, weights, zero)?;
    }
    if a.dropout_p > 0.0 {
        weights = b.dropout(weights).ratio(a.dropout_p).training_mode(true).one()?;
    }
    Ok([matmul(b, weights, value)?, weights])
}

/// What products are scaled with: 1 over the square root of the number of features, unless it is given.
fn factor(b: &Lower, query: Var, given: Option<f64>) -> Lowered<Var> {
    let dtype = dtype_of(b, query)?;
    let last = rank(b, query)?.saturating_sub(1);
    let known = known_size(b, query, last).map(|n| 1.0 / (n.max(1) as f64).sqrt());
    if let Some(scale) = given.or(known) {
        return operand(b, &Value::Float(scale), dtype);
    }
    let n = b.cast(scalar(b, &size(b, query, last)?)?, dtype)?;
    b.reciprocal(b.sqrt(n)?)
}

/// Whether a key is not behind its query, both counted from the start.
fn causal(b: &Lower, query: Var, key: Var) -> Lowered<Var> {
    let length = |x: Var| {
        let axis = rank(b, x)?.saturating_sub(2);
        scalar(b, &size(b, x, axis)?)
    };
    let keys = b.range(0i64, length(key)?, 1i64).one()?;
    let queries = b.range(0i64, length(query)?, 1i64).one()?;
    b.not(b.less(b.unsqueeze(queries, [1])?, keys)?)
}

/// Heads of keys that serve several heads of queries.
fn repeated(b: &Lower, x: Var, query: Var) -> Lowered<Var> {
    let (n, m) = (rank(b, x)?, rank(b, query)?);
    if n < 3 || m < 3 {
        return Ok(x);
    }
    let (own, all) = (size(b, x, n - 3)?, size(b, query, m - 3)?);
    if own == all {
        return Ok(x);
    }
    let each = super::sizes::over(b, &all, &own)?;
    let mut shape = sizes(b, x)?;
    shape.insert(n - 2, each);
    let apart = b.expand(b.unsqueeze(x, [n as i64 - 2])?, vector(b, &shape)?)?;
    let each = shape.remove(n - 2);
    shape[n - 3] = times(b, &shape[n - 3], &each)?;
    b.reshape(apart, vector(b, &shape)?).one()
}

/// `[batch, words, elements]` with the elements as heads: `[batch, heads, words, elements]`.
fn heads(b: &Lower, x: Var, count: i64) -> Lowered<Var> {
    b.transpose(b.reshape(x, [0, 0, count, -1]).one()?).perm([0, 2, 1, 3]).one()
}

/// Queries, keys and values, each by its third of the weights.
fn projected(b: &Lower, a: &MultiHead) -> Lowered<[Var; 3]> {
    let three = (b.opset() >= 18).then_some(3i64);
    let thirds = |x: Var, axis: i64| {
        let parts = b.split(x).axis(axis).num_outputs(three).list(3)?;
        Ok::<_, onnxd_plugin_sdk::diagnostics::Diagnostic>([parts[0], parts[1], parts[2]])
    };
    if a.query == a.key && a.key == a.value {
        return thirds(linear(b, a.query, a.qkv_weight, Some(a.qkv_bias))?, -1);
    }
    let (weights, biases) = (thirds(a.qkv_weight, 0)?, thirds(a.qkv_bias, 0)?);
    let inputs = [a.query, a.key, a.value];
    let one = |i: usize| linear(b, inputs[i], weights[i], Some(biases[i]));
    Ok([one(0)?, one(1)?, one(2)?])
}

fn multi_head(b: &Lower, a: &MultiHead) -> Lowered<Several> {
    let [q, k, v] = projected(b, a)?;
    let (query, key, value) =
        (heads(b, q, a.num_head)?, heads(b, k, a.num_head)?, heads(b, v, a.num_head)?);
    let attn_mask = a.mask.map(|mask| kept(b, mask, a.mask_type)).transpose()?;
    let scaled = Scaled {
        query,
        key,
        value,
        attn_mask,
        dropout_p: 0.0,
        is_causal: false,
        dropout_mask: Value::None,
        scale: None,
        enable_gqa: None,
    };
    let (y, weights) = if a.need_weights {
        let [y, weights] = weighed(b, &scaled)?;
        let weights = match a.average_attn_weights {
            true => b.reduce_mean(weights).axes([1]).keepdims(0).one()?,
            false => weights,
        };
        (y, Value::Var(weights))
    } else {
        (attention(b, &scaled)?, Value::None)
    };
    let y = b.reshape(b.transpose(y).perm([0, 2, 1, 3]).one()?, [0, 0, -1]).one()?;
    let y = linear(b, y, a.proj_weight, Some(a.proj_bias))?;
    Ok(Several(vec![y.into(), weights]))
}

/// The keys that count. torch says here which do not: of all queries (0), of a sequence (1), or of each head (2).
fn kept(b: &Lower, mask: Var, kind: Option<i64>) -> Lowered<Var> {
    let kept = b.not(b.cast(mask, Bool)?)?;
    match (kind, b.rank_of(kept)) {
        (Some(1), _) | (None, Some(2)) => b.unsqueeze(kept, [1, 2]),
        _ => Ok(kept),
    }
}

fn encoder_layer(b: &Lower, a: Encoder) -> Lowered<Var> {
    let lengths = nested::mask_of(b, a.src);
    // What lies behind the end of a sequence is no key.
    let (mask, mask_type) = match (a.mask, lengths) {
        (None, Some(lengths)) => (Some(b.not(lengths)?), Some(1)),
        (mask, _) => (mask, a.mask_type),
    };
    let norm = |x, weights: [Var; 2]| layer(b, x, vec![a.embed_dim], weights.map(Some), a.eps);
    let first = |x| norm(x, [a.norm_weight_1, a.norm_bias_1]);
    let second = |x| norm(x, [a.norm_weight_2, a.norm_bias_2]);
    let attended = |x: Var| {
        let attention = MultiHead {
            query: x,
            key: x,
            value: x,
            embed_dim: a.embed_dim,
            num_head: a.num_heads,
            qkv_weight: a.qkv_weight,
            qkv_bias: a.qkv_bias,
            proj_weight: a.proj_weight,
            proj_bias: a.proj_bias,
            mask,
            need_weights: false,
            average_attn_weights: false,
            mask_type,
        };
        match multi_head(b, &attention)?.0[..] {
            [Value::Var(y), ..] => Ok(y),
            _ => Err(b.diagnostic(Code::InvariantBroken, "Attention gives a tensor.")),
        }
    };
    let forward = |x: Var| {
        let x = linear(b, x, a.ffn_weight_1, Some(a.ffn_bias_1))?;
        let x = if a.use_gelu { gelu(b, x)? } else { b.relu(x)? };
        linear(b, x, a.ffn_weight_2, Some(a.ffn_bias_2))
    };
    // A single sequence is a batch of one.
    let [y] = batched(b, a.src, 1, |src| {
        if a.norm_first {
            let x = b.add(attended(first(src)?)?, src)?;
            return Ok([b.add(forward(second(x)?)?, x)?]);
        }
        let x = first(b.add(attended(src)?, src)?)?;
        Ok([second(b.add(forward(x)?, x)?)?])
    })?;
    if let Some(lengths) = lengths {
        nested::mark(b, y, lengths);
    }
    Ok(y)
}
