//! Attention.

mod scores;

pub(crate) use scores::{Masked, ScoreOptions, over_heads};
use scores::{causal, with_scores};

use crate::ops::create::{number, steps};
use crate::ops::linear::swapped;
use crate::ops::shape::{DimSize, axis_of, size as size_of, sized, sizes, transposed};
use crate::ops::{Lower, RowContext, Values, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::DataType::{Bool, Float, Float16};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Sizes of weights.
const SIZE_MAX: i64 = 1 << 30;

/// What both kinds of attention with several heads are called with; keys have `size` elements.
macro_rules! given {
    ($a:ident, $size:expr) => {
        AttentionCall {
            inputs: [$a.query, $a.key.unwrap_or($a.value), $a.value],
            masks: [$a.query_mask, $a.value_mask, $a.key_mask.filter(|_| $a.key.is_some())],
            mask: $a.attention_mask,
            axes: vec![],
            causal: $a.use_causal_mask,
            window: $a.sliding_window,
            explicit: $a.return_attention_scores || $a.dropout > 0.0,
            added: false,
            scores: $a.return_attention_scores,
            size: $size,
        }
    };
}

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "MultiHeadAttention" => |b, a: MultiHead| {
            let (axes, added, size) = (a.attention_axes.unwrap_or_default(), a.query_shape.is_some(), a.key_dim);
            multi_head(b, AttentionCall { axes, added, ..given!(a, size) }, &a.weights, [a.use_bias, a.use_gate])
        };
        "GroupQueryAttention" | "GroupedQueryAttention" => |b, a: Grouped| {
            multi_head(b, given!(a, a.head_dim), &a.weights, [a.use_bias, a.use_gate])
        };
        "Attention" => |b, a: Plain| plain(b, a, false);
        "AdditiveAttention" => |b, a: Plain| plain(b, a, true);
    }
}

arguments! {
    /// `MultiHeadAttention(num_heads, key_dim, value_dim=None, dropout=0.0, use_bias=True, output_shape=None,
    /// attention_axes=None, flash_attention=None, sliding_window=None, use_gate=False)`
    struct MultiHead {
        query: Var, value: Var, key: Option<Var>, query_mask: Option<Var>, value_mask: Option<Var>,
        key_mask: Option<Var>, attention_mask: Option<Var>, return_attention_scores: bool = false,
        training: Option<Value>, use_causal_mask: bool = false, num_heads: i64, key_dim: i64, value_dim: Option<i64>,
        dropout: f64 = 0.0, use_bias: bool = true, use_gate: bool = false, output_shape: Option<Value>,
        attention_axes: Option<Vec<i64>>, sliding_window: Option<i64>, flash_attention: Option<Value>,
        query_shape: Option<Value>, key_shape: Option<Value>, value_shape: Option<Value>, dtype: Option<Value>,
        weights: Vec<Var>,
    }
    /// `GroupQueryAttention(head_dim, num_query_heads, num_key_value_heads, dropout=0.0, use_bias=True,
    /// flash_attention=None, sliding_window=None, use_gate=False)`
    struct Grouped {
        query: Var, value: Var, key: Option<Var>, query_mask: Option<Var>, value_mask: Option<Var>,
        key_mask: Option<Var>, attention_mask: Option<Var>, return_attention_scores: bool = false,
        training: Option<Value>, use_causal_mask: bool = false, head_dim: i64, num_query_heads: i64,
        num_key_value_heads: i64, dropout: f64 = 0.0, use_bias: bool = true, use_gate: bool = false,
        sliding_window: Option<i64>, flash_attention: Option<Value>, dtype: Option<Value>, weights: Vec<Var>,
    }
    /// `Attention(use_scale=False, score_mode="dot", dropout=0.0)`
    struct Plain {
        inputs: Vec<Var>, mask: Option<Vec<Value>>, training: Option<Value>, return_attention_scores: bool = false,
        use_causal_mask: bool = false, use_scale: bool = false, score_mode: Option<String>, dropout: Option<f64>,
        causal: Option<bool>, dtype: Option<Value>, weights: Option<Vec<Var>>,
    }
}

/// A call of attention with several heads.
struct AttentionCall {
    /// Query, key, value.
    inputs: [Var; 3],
    /// Which steps of query, value and key count.
    masks: [Option<Var>; 3],
    mask: Option<Var>,
    /// Axes of steps.
    axes: Vec<i64>,
    causal: bool,
    /// How far steps look.
    window: Option<i64>,
    /// Keras computes the scores by itself, and leaves nothing of steps that may look at none.
    explicit: bool,
    /// Masks are added, as before version 3.
    added: bool,
    scores: bool,
    /// The size of keys.
    size: i64,
}

impl AttentionCall {
    fn scale(&self) -> f64 {
        1.0 / (self.size.max(1) as f64).sqrt()
    }
}

/// Products with the heads of queries, keys or values.
pub(crate) struct Heads {
    /// `[batch, steps, heads * size]`
    all: Var,
    pub(crate) count: i64,
    pub(crate) size: i64,
}

impl Heads {
    /// A product of the last axis with `[inputs, heads, size]`.
    ///
    /// # Errors
    /// `N0201` for weights with other axes; those of the builder.
    pub(crate) fn split(
        b: &GraphBuilder,
        x: Var,
        kernel: Var,
        bias: Option<Var>,
    ) -> Lowered<Heads> {
        let dims = b.dims_of(kernel).unwrap_or_default();
        let dims =
            <[i64; 3]>::try_from(dims).ok().filter(|dims| dims.iter().all(|n| *n <= SIZE_MAX));
        let damaged =
            || b.diagnostic(Code::SourceSyntax, "The weights of attention have three axes.");
        let [inputs, count, size] = dims.ok_or_else(damaged)?;
        let y = b.mat_mul(x, b.reshape(kernel, [inputs, count * size]).one()?)?;
        let bias = bias.map(|bias| b.reshape(bias, [count * size]).one()).transpose()?;
        let all = bias.map_or(Ok(y), |bias| b.add(y, bias))?;
        Ok(Heads { all, count, size })
    }

    /// `[batch, steps, heads, size]`
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn apart(&self, b: &GraphBuilder) -> Lowered<Var> {
        let heads = vec![DimSize::Known(self.count), DimSize::Known(self.size)];
        sized(b, self.all, &[sizes(b, self.all, 0..2)?, heads].concat())
    }
}

/// `[batch, other axes, steps, size]`, and how many other axes there are.
fn steps_last(b: &GraphBuilder, x: Var, axes: &[i64]) -> Lowered<(Var, Vec<i64>, usize)> {
    let n = rank(b, x)?;
    let mut own = axes.iter().map(|a| axis_of(b, x, *a)).collect::<Lowered<Vec<_>>>()?;
    if own.is_empty() {
        own = (1..n - 1).collect();
    }
    let others: Vec<usize> = (1..n - 1).filter(|a| !own.contains(a)).collect();
    let perm = [vec![0], others.clone(), own, vec![n - 1]].concat();
    let perm: Vec<i64> = perm.into_iter().map(|a| a as i64).collect();
    Ok((transposed(b, x, &perm)?, perm, others.len()))
}

/// All axes of samples as one, and all axes of steps as one.
fn flat(b: &GraphBuilder, x: Var, others: usize) -> Lowered<Var> {
    let n = rank(b, x)?;
    if n == 3 {
        return Ok(x);
    }
    let product = |from: usize, to: usize| -> Lowered<DimSize> {
        let all = sizes(b, x, from..to)?;
        let known: Option<i64> =
            all.iter().map(|n| if let DimSize::Known(n) = n { Some(*n) } else { None }).product();
        match known {
            Some(n) => Ok(DimSize::Known(n)),
            None => Ok(DimSize::Computed(
                b.reduce_prod(b.shape(x).start(from as i64).end(to as i64).one()?)
                    .keepdims(1)
                    .one()?,
            )),
        }
    };
    let all = [product(0, 1 + others)?, product(1 + others, n - 1)?, size_of(b, x, n - 1)?];
    sized(b, x, &all)
}

fn multi_head(
    b: &Lower,
    a: AttentionCall,
    weights: &[Var],
    [has_bias, has_gate]: [bool; 2],
) -> Lowered<Values> {
    let each = if has_bias { 2 } else { 1 };
    let count = if has_gate { 5 } else { 4 };
    refuse!(weights.len() != each * count =>
        b.diagnostic(Code::SourceSyntax, format!("Attention has {} weights, not {}.", weights.len(), each * count)));
    let weight =
        |i: usize| (weights[i * each], weights.get(i * each + 1).copied().filter(|_| has_bias));
    let (query, perm, others) = steps_last(b, a.inputs[0], &a.axes)?;
    let mut flats = vec![flat(b, query, others)?];
    for x in &a.inputs[1..] {
        flats.push(flat(b, steps_last(b, *x, &a.axes)?.0, others)?);
    }
    let heads = |i: usize, x: Var| Heads::split(b, x, weight(i).0, weight(i).1);
    let all = [heads(0, flats[0])?, heads(1, flats[1])?, heads(2, flats[2])?];
    let gate = if has_gate { Some(b.sigmoid(heads(3, flats[0])?.all)?) } else { None };
    let (y, scores) = weighed(b, &a, &all, others, [flats[0], flats[2]])?;
    let y = gate.map_or(Ok(y), |gate| b.mul(y, gate))?;
    let (kernel, bias) = weight(count - 1);
    let dims = b.dims_of(kernel).unwrap_or_default();
    let outer: i64 = dims.iter().skip(2).product();
    let mut y = together(b, y, kernel)?;
    if let Some(bias) = bias {
        y = b.add(y, b.reshape(bias, [outer]).one()?)?;
    }
    let n = rank(b, query)?;
    if n != 3 || dims.len() != 3 {
        let mut all = sizes(b, query, 0..n - 1)?;
        all.extend(dims.iter().skip(2).map(|n| DimSize::Known(*n)));
        y = sized(b, y, &all)?;
    }
    let mut back = vec![0; perm.len()];
    (0..).zip(&perm).for_each(|(i, axis)| back[*axis as usize] = i);
    let last = back.pop().unwrap_or(0);
    back.extend(last..last + dims.len() as i64 - 2);
    let y = transposed(b, y, &back)?;
    refuse!(a.scores && rank(b, a.inputs[0])? != 3 => b.unsupported("Scores over several axes are not converted."));
    Ok(Values::with(y, scores))
}

/// A product of `[batch, steps, heads * size]` with `[heads, size, ...]`, the last axes as one.
///
/// # Errors
/// Those of the builder.
pub(crate) fn together(b: &GraphBuilder, x: Var, kernel: Var) -> Lowered<Var> {
    let sizes = b.dims_of(kernel).unwrap_or_default();
    let inner: i64 = sizes.iter().take(2).product();
    let outer: i64 = sizes.iter().skip(2).product();
    b.mat_mul(x, b.reshape(kernel, [inner, outer]).one()?)
}

/// What heads see, as `[batch, steps, heads * size]`, and the scores if they are asked for.
fn weighed(
    b: &Lower,
    a: &AttentionCall,
    all: &[Heads; 3],
    others: usize,
    [query, value]: [Var; 2],
) -> Lowered<(Var, Option<Var>)> {
    let is_flat = rank(b, a.inputs[0])? == 3;
    let masked = match (a.added, a.explicit || !is_flat) {
        (true, _) => Masked::Added,
        (false, true) => Masked::Zero,
        (false, false) => Masked::Even,
    };
    if let Some(y) = by_operator(b, a, all, masked, [query, value])? {
        return Ok((y, None));
    }
    let mask = mask(b, a, others, [query, value])?;
    let scale = Some(a.scale());
    let options = ScoreOptions { scale, masked, mask, ..ScoreOptions::default() };
    let apart = [all[0].apart(b)?, all[1].apart(b)?, all[2].apart(b)?];
    let (y, scores) = with_scores(b, apart, options)?;
    let whole = DimSize::Known(all[0].count * all[2].size);
    let y = sized(b, y, &[sizes(b, y, 0..2)?, vec![whole]].concat())?;
    Ok((y, a.scores.then_some(scores)))
}

/// All as one operator, where the opset has it and says the same: steps that may look at nothing give no numbers there,
/// so masks are added.
fn by_operator(
    b: &Lower,
    a: &AttentionCall,
    [query, key, value]: &[Heads; 3],
    masked: Masked,
    lengths: [Var; 2],
) -> Lowered<Option<Var>> {
    let dtype = dtype_of(b, query.all)?;
    let is_free = a.mask.is_none() && a.masks.iter().all(Option::is_none) && a.window.is_none();
    let is_shared = key.count == value.count && key.count > 0 && query.count % key.count == 0;
    if b.opset() < 23 || masked == Masked::Zero || !is_shared || rank(b, a.inputs[0])? != 3 {
        return Ok(None);
    }
    if dtype != Float && (dtype != Float16 || !is_free) {
        return Ok(None);
    }
    let mask = if is_free { None } else { mask(b, a, 0, lengths)? };
    let low = b.constant(number(masked.lowest(dtype), dtype));
    let bias = mask.map(|mask| b.where_(mask, b.constant(number(0.0, dtype)), low)).transpose()?;
    let call = b.attention(query.all, key.all, value.all).attn_mask(bias).scale(a.scale());
    let call = call.is_causal(i64::from(is_free && a.causal));
    let precise = (dtype == Float16).then_some(i64::from(Float.number()));
    let call = call.softmax_precision(precise).q_num_heads(query.count);
    call.kv_num_heads(key.count).one().map(Some)
}

/// All masks as one: `[batch, heads, queries, keys]`.
fn mask(
    b: &GraphBuilder,
    a: &AttentionCall,
    others: usize,
    [query, value]: [Var; 2],
) -> Lowered<Option<Var>> {
    let truth = |x: Var| b.cast(x, Bool);
    let is_flat = rank(b, a.inputs[0])? == 3;
    let mut all = vec![];
    let [of_query, of_value, of_key] = a.masks;
    if let Some(mask) = of_query {
        all.push(b.unsqueeze(truth(mask)?, [-1])?);
    }
    for mask in [of_value, of_key].into_iter().flatten() {
        all.push(b.unsqueeze(truth(mask)?, [-2])?);
    }
    refuse!(!is_flat && (!all.is_empty() || a.causal || a.window.is_some() || (others > 0 && a.mask.is_some())) =>
        b.unsupported("Masks of attention over several axes are not converted."));
    if let Some(mask) = a.mask {
        let mask = truth(mask)?;
        match rank(b, mask)? {
            n if is_flat || n <= 3 => all.push(mask),
            _ => {
                let [t, s] = [query, value].map(|x| size_of(b, x, 1));
                let sizes = [size_of(b, mask, 0)?, t?, s?];
                all.push(sized(b, mask, &sizes)?);
            }
        }
    }
    if a.causal || a.window.is_some() {
        let (rows, columns) = (b.unsqueeze(steps(b, query, 1)?, [1])?, steps(b, value, 1)?);
        if a.causal {
            all.push(b.unsqueeze(b.greater_or_equal(rows, columns)?, [0])?);
        }
        if let Some(window) = a.window {
            let apart = b.abs(b.sub(rows, columns)?)?;
            all.push(b.unsqueeze(b.less(apart, window)?, [0])?);
        }
    }
    let Some((first, rest)) = all.split_first() else { return Ok(None) };
    let common_mask = rest.iter().try_fold(*first, |mask, x| b.and(mask, *x))?;
    // The axis of heads stands before those of steps.
    let missing = 4usize.saturating_sub(rank(b, common_mask)?);
    let new: Vec<i64> = match missing {
        0 => vec![],
        1 => vec![1],
        n => (0..n as i64).collect(),
    };
    crate::ops::shape::unsqueezed(b, common_mask, &new).map(Some)
}

/// Attention with one head and without products.
fn plain(b: &Lower, a: Plain, additive: bool) -> Lowered<Values> {
    let (query, value, key) = match a.inputs[..] {
        [query, value] => (query, value, value),
        [query, value, key] => (query, value, key),
        _ => return Err(b.wrong("Attention is called on a query, a value and a key.")),
    };
    let weights = a.weights.unwrap_or_default();
    let is_sum = additive || a.score_mode.as_deref() == Some("concat");
    let scale = weights.first().copied().filter(|_| a.use_scale);
    let scaled = |x: Var| scale.map_or(Ok(x), |scale| b.mul(x, scale));
    let mut scores = if is_sum {
        let both = b.add(b.unsqueeze(query, [-2])?, b.unsqueeze(key, [-3])?)?;
        let terms = match additive {
            true => scaled(b.tanh(both)?)?,
            false => b.tanh(scaled(both)?)?,
        };
        let sum = b.reduce_sum(terms).axes([-1]).keepdims(0).one()?;
        match weights.get(usize::from(a.use_scale)) {
            Some(weight) if !additive => b.mul(sum, *weight)?,
            _ => sum,
        }
    } else {
        scaled(b.mat_mul(query, swapped(b, key)?)?)?
    };
    let mask_of = |i: usize| match a.mask.as_ref().and_then(|masks| masks.get(i)) {
        Some(Value::Var(mask)) => b.cast(*mask, Bool).map(Some),
        _ => Ok(None),
    };
    let mut mask = mask_of(1)?.map(|mask| b.unsqueeze(mask, [-2])).transpose()?;
    if a.use_causal_mask || a.causal == Some(true) {
        let own = causal(b, scores)?;
        mask = Some(mask.map_or(Ok(own), |mask| b.and(mask, own))?);
    }
    if let Some(mask) = mask {
        let most = if dtype_of(b, scores)? == Float16 { 65504.0 } else { 1e9 };
        scores = b.where_(mask, scores, b.sub(scores, most)?)?;
    }
    let shares = b.softmax(scores).axis(-1).one()?;
    let mut y = b.mat_mul(shares, value)?;
    if let Some(mask) = mask_of(0)? {
        y = b.where_(b.unsqueeze(mask, [-1])?, y, 0)?;
    }
    Ok(Values::with(y, a.return_attention_scores.then_some(shares)))
}
