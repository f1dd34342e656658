//! Operators of ONNX Runtime.

use super::Rules;
use super::activation::same;
use super::conv::conv_of;
use super::linear::{gemm, matmul, product};
use super::pool::{global_of, pool_of};
use super::reduce::reduce;
use super::site::{
    InferContext, Shapes, axis, both, broadcast, one, plus, show, sized, times, unknown,
};
use crate::{DataType, Dim, Shape};
use onnxd_diagnostics::refuse;

pub(super) const DOMAIN: &str = "com.microsoft";

pub(super) const RULES: Rules = &[
    ("Attention", |site| attention(site, 1, 4)),
    ("BiasGelu", same),
    ("DequantizeLinear", same),
    ("DynamicQuantizeLSTM", lstm),
    ("DynamicQuantizeMatMul", |site| matmul(site, 1)),
    ("EmbedLayerNormalization", embedding),
    ("FastGelu", same),
    ("FusedConv", |site| site.shape(0).map_or_else(unknown, |x| conv_of(site, x, 1))),
    ("FusedGemm", |site| gemm(site, [0, 1, 2])),
    ("FusedMatMul", fused_matmul),
    ("GatherBlockQuantized", gather_blocks),
    ("Gelu", same),
    ("GroupQueryAttention", grouped_query_attention),
    ("MatMulInteger16", |site| matmul(site, 1)),
    ("MatMulIntegerToFloat", |site| matmul(site, 1)),
    ("MatMulNBits", matmul_nbits),
    ("MultiHeadAttention", multi_head_attention),
    ("NhwcMaxPool", |site| with_channels(site, true, &|x| pool_of(site, x))),
    ("QAttention", |site| attention(site, 1, 8)),
    ("QEmbedLayerNormalization", embedding),
    ("QGemm", |site| gemm(site, [0, 3, 6])),
    ("QLinearAdd", |site| broadcast_all(site, &[0, 3])),
    ("QLinearAveragePool", |site| with_channels(site, is_last(site), &|x| pool_of(site, x))),
    ("QLinearConcat", concat),
    ("QLinearConv", |site| with_channels(site, is_last(site), &|x| conv_of(site, x, 3))),
    ("QLinearGlobalAveragePool", |site| with_channels(site, is_last(site), &global_of)),
    ("QLinearLeakyRelu", same),
    ("QLinearMul", |site| broadcast_all(site, &[0, 3])),
    ("QLinearReduceMean", reduce),
    ("QLinearSigmoid", same),
    ("QLinearSoftmax", same),
    ("QLinearWhere", |site| broadcast_all(site, &[0, 1, 4])),
    ("QuantizeLinear", same),
    ("QuickGelu", same),
    ("RotaryEmbedding", same),
    ("SkipLayerNormalization", skip_normalization),
    ("SkipSimplifiedLayerNormalization", skip_normalization),
    ("Tokenizer", tokens),
    ("Trilu", same),
];

/// As many tokens as the longest string has.
fn tokens(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    one([shape, &[Dim::Unknown]].concat())
}

/// Element types of outputs that no letter binds.
pub(super) fn dtype(site: &InferContext<'_>) -> Option<DataType> {
    match site.node.op.as_str() {
        "MatMulInteger16" => match (site.dtype(0)?, site.dtype(1)?) {
            (DataType::Uint16, DataType::Uint16) => Some(DataType::Uint32),
            _ => Some(DataType::Int32),
        },
        "QGemm" if site.has(8) => site.dtype(8),
        "QGemm" if !site.has(7) => Some(DataType::Float),
        "QuantizeLinear" if !site.has(2) => Some(DataType::Uint8),
        _ => None,
    }
}

fn broadcast_all(site: &InferContext<'_>, inputs: &[usize]) -> Shapes {
    let mut all: Shape = vec![];
    for i in inputs {
        let Some(shape) = site.shape(*i) else { return unknown() };
        all = broadcast(&all, shape)?;
    }
    one(all)
}

fn is_last(site: &InferContext<'_>) -> bool {
    site.int("channels_last", 0) != 0
}

/// `rule` sees the channels in front.
fn with_channels(site: &InferContext<'_>, last: bool, rule: &dyn Fn(&[Dim]) -> Shapes) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    if !last || shape.len() < 2 {
        return rule(shape);
    }
    let mut front = shape.to_vec();
    front[1..].rotate_right(1);
    let mut shapes = rule(&front)?;
    for shape in shapes.iter_mut().flatten().filter(|s| s.len() > 1) {
        shape[1..].rotate_left(1);
    }
    Ok(shapes)
}

/// Every third input from the third on is a part.
fn concat(site: &InferContext<'_>) -> Shapes {
    let mut out: Option<Shape> = None;
    for i in (2..site.node.inputs.len()).step_by(3) {
        let Some(shape) = site.shape(i) else { return unknown() };
        let at = axis(site.int("axis", 0), shape.len())?;
        let Some(so_far) = out else {
            out = Some(shape.to_vec());
            continue;
        };
        let dims = so_far.iter().zip(shape).enumerate();
        let joined = dims.map(|(k, (a, b))| if k == at { Some(plus(a, b)) } else { both(a, b) });
        let joined = joined.collect::<Option<Shape>>().filter(|j| j.len() == shape.len());
        let wrong = || format!("{} does not fit {} at axis {at}", show(shape), show(&so_far));
        out = Some(joined.ok_or_else(wrong)?);
    }
    Ok(vec![out])
}

/// A factor of `FusedMatMul`, its axes in the order of the product.
fn factor(site: &InferContext<'_>, i: usize, side: &str) -> Option<Shape> {
    let mut shape = site.shape(i)?.to_vec();
    let rank = shape.len();
    if rank >= 2 && site.int(&format!("transBatch{side}"), 0) != 0 {
        shape[..rank - 1].rotate_left(1);
    }
    if rank >= 2 && site.int(&format!("trans{side}"), 0) != 0 {
        shape.swap(rank - 2, rank - 1);
    }
    Some(shape)
}

fn fused_matmul(site: &InferContext<'_>) -> Shapes {
    match (factor(site, 0, "A"), factor(site, 1, "B")) {
        (Some(a), Some(b)) => product(&a, &b),
        _ => unknown(),
    }
}

fn matmul_nbits(site: &InferContext<'_>) -> Shapes {
    let Some(a) = site.shape(0) else { return unknown() };
    let Some((last, outer)) = a.split_last() else {
        return Err("the left side is a scalar".to_owned());
    };
    let k = site.int("K", 0);
    refuse!(last.known().is_some_and(|n| n != k) => "{} does not have K = {k} columns", show(a));
    one([outer, &[sized(Some(site.int("N", -1)))]].concat())
}

/// Bytes hold several numbers along the last axis.
fn gather_blocks(site: &InferContext<'_>) -> Shapes {
    let (Some(data), Some(indices)) = (site.shape(0), site.shape(1)) else { return unknown() };
    let at = axis(site.int("gather_axis", 0), data.len())?;
    let mut data = data.to_vec();
    let bits = site.int("bits", 4);
    if site.dtype(0) == Some(DataType::Uint8)
        && matches!(bits, 2 | 4 | 8)
        && let Some(last) = data.last_mut()
    {
        *last = times(last, &Dim::Known(8 / bits));
    }
    one([&data[..at], indices, &data[at + 1..]].concat())
}

/// The statistics have one element per row; the last output is the sum.
fn skip_normalization(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let mut reduced = shape.to_vec();
    if let Some(last) = reduced.last_mut() {
        *last = Dim::Known(1);
    }
    let whole = Some(shape.to_vec());
    Ok(vec![whole.clone(), Some(reduced.clone()), Some(reduced), whole])
}

fn embedding(site: &InferContext<'_>) -> Shapes {
    let (Some([batch, words]), Some([_, hidden])) = (site.shape(0), site.shape(2)) else {
        return unknown();
    };
    let whole = Some(vec![batch.clone(), words.clone(), hidden.clone()]);
    Ok(vec![whole.clone(), Some(vec![batch.clone()]), whole])
}

/// The width of the values: the last of three sizes, or a third of the weights' columns.
fn attention(site: &InferContext<'_>, weights: usize, past: usize) -> Shapes {
    let Some([batch, words, _]) = site.shape(0) else { return unknown() };
    let columns = site.shape(weights).and_then(<[Dim]>::last).and_then(Dim::known);
    let width = match site.list("qkv_hidden_sizes") {
        Some(sizes) => sizes.get(2).copied(),
        None => columns.map(|n| n / 3),
    };
    let out = vec![batch.clone(), words.clone(), sized(width)];
    let heads = site.int("num_heads", 0);
    let size = width.and_then(|w| w.checked_div(heads));
    let before = match site.shape(past) {
        Some([_, _, _, before, _]) => before.clone(),
        _ if site.has(past) => Dim::Unknown,
        _ => Dim::Known(0),
    };
    let two = Dim::Known(2);
    let present = vec![two, batch.clone(), sized(Some(heads)), plus(&before, words), sized(size)];
    Ok(vec![Some(out), Some(present)])
}

/// What attention gives, and keys and values of the cache with the new ones.
fn grouped_query_attention(site: &InferContext<'_>) -> Shapes {
    let Some([batch, words, width]) = site.shape(0) else { return unknown() };
    let heads = site.int("num_heads", 0);
    let kv_heads = site.int("kv_num_heads", 0);
    if heads < 1 || kv_heads < 1 {
        return unknown();
    }
    let all = kv_heads.checked_mul(2).and_then(|both| both.checked_add(heads));
    let past = site.shape(3).filter(|past| past.len() == 4);
    let (before, size) = match (past, width, all) {
        (Some([_, _, before, size]), ..) => (before.clone(), size.clone()),
        (_, Dim::Known(n), _) if site.has(1) => (Dim::Known(0), Dim::Known(n / heads)),
        (_, Dim::Known(n), Some(all)) if !site.has(1) => (Dim::Known(0), Dim::Known(n / all)),
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let given = if site.has(1) { width.clone() } else { times(&Dim::Known(heads), &size) };
    let cache = vec![batch.clone(), Dim::Known(kv_heads), plus(&before, words), size];
    let mixed = vec![batch.clone(), words.clone(), given];
    Ok(vec![Some(mixed), Some(cache.clone()), Some(cache)])
}

/// As long as the queries, as wide as the values.
fn multi_head_attention(site: &InferContext<'_>) -> Shapes {
    let Some([batch, words, rest @ ..]) = site.shape(0) else { return unknown() };
    let width = match (rest, site.shape(2)) {
        // Queries, keys and values in one.
        ([heads, _, size], _) => times(heads, size),
        ([_], Some([_, _, width])) => width.clone(),
        ([_], Some([_, heads, _, size])) => times(heads, size),
        ([width], None) => width.clone(),
        _ => Dim::Unknown,
    };
    one(vec![batch.clone(), words.clone(), width])
}

/// `X [steps, batch, width]`, `R [directions, hidden, 4 * hidden]`.
fn lstm(site: &InferContext<'_>) -> Shapes {
    let (Some([steps, batch, _]), Some([d, hidden, _])) = (site.shape(0), site.shape(2)) else {
        return unknown();
    };
    let state = vec![d.clone(), batch.clone(), hidden.clone()];
    let all = [steps, d, batch, hidden].map(Clone::clone).to_vec();
    Ok(vec![Some(all), Some(state.clone()), Some(state)])
}
