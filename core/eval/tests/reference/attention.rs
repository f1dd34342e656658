//! Attention and its kin, one query at a time.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{Nd, codes, from_codes, reals};
use crate::shape::moved;
use onnxd_ir::{DataType, Tensor};

properties! {
    attention: "Attention";
    linear_attention: "LinearAttention";
    rotary_embedding: "RotaryEmbedding";
    causal_conv: "CausalConvWithState";
}

use DataType::*;

/// `[batch, heads, length, size]` as `[batch, length, heads * size]`.
fn merged(x: &Nd) -> Nd {
    let (heads, size) = (x.dims[1], x.dims[3]);
    Nd::fill(&[x.dims[0], x.dims[2], heads * size], |o| {
        x.at(&[o[0], o[2] / size, o[1], o[2] % size])
    })
}

/// The same of a tensor, at will.
fn packed(x: &Tensor, flat: bool) -> Tensor {
    if !flat {
        return x.clone();
    }
    let (n, size) = (x.dims(), x.dims()[3]);
    moved(x, &[n[0], n[2], n[1] * size], |o| vec![o[0], o[2] / size, o[1], o[2] % size])
}

/// Two tensors behind each other along axis 2.
fn behind(a: Option<&Tensor>, b: &Tensor) -> Tensor {
    let Some(a) = a else { return b.clone() };
    let (x, y, past) = (codes(a), codes(b), a.dims()[2]);
    let dims = crate::nd::put(b.dims(), 2, past + b.dims()[2]);
    let both = Nd::fill(&dims, |o| match o[2] {
        i if i < past => x.at(o),
        i => y.at(&crate::nd::put(o, 2, i - past)),
    });
    from_codes(b.dtype(), &dims, &both.v)
}

/// Which keys a query may see, apart from the mask.
struct View {
    causal: bool,
    left: i64,
    right: i64,
    past: i64,
    valid: Option<Vec<i64>>,
    queries: i64,
}

impl View {
    fn random(d: &mut Dice, opset: i64, batch: usize, sizes: [usize; 3]) -> View {
        let [queries, keys, past] = sizes;
        let valid = (opset >= 24 && past == 0 && d.once_in(3))
            .then(|| (0..batch).map(|_| d.below(keys + 1) as i64).collect());
        let window = |d: &mut Dice| if opset >= 25 && d.once_in(3) { d.int(0, 3) } else { -1 };
        let (left, right) = (window(d), window(d));
        View { causal: d.coin(), left, right, past: past as i64, valid, queries: queries as i64 }
    }

    fn sees(&self, b: usize, i: usize, j: usize) -> bool {
        let offset = self.valid.as_ref().map_or(self.past, |v| v[b] - self.queries);
        let (own, j) = (i as i64 + offset, j as i64);
        (!self.causal || j <= own)
            && (self.left < 0 || own - self.left <= j)
            && (self.right < 0 || j <= own + self.right)
            && self.valid.as_ref().is_none_or(|v| j < v[b])
    }

    fn attrs(&self, d: &mut Dice, case: Case) -> Case {
        case.attr_if(self.causal || d.coin(), "is_causal", self.causal)
            .attr_if(self.left >= 0, "left_window_size", self.left)
            .attr_if(self.right >= 0, "right_window_size", self.right)
    }
}

/// A mask that broadcasts to the logits, its last axis possibly too short.
fn mask(d: &mut Dice, dtype: DataType, full: &[usize]) -> Option<Tensor> {
    if !d.coin() {
        return None;
    }
    let kind = d.pick(&[dtype, Bool]);
    let mut dims = full.to_vec();
    dims[3] -= if d.once_in(3) { d.below(dims[3]) } else { 0 };
    for n in &mut dims[..3] {
        *n = if d.once_in(3) { 1 } else { *n };
    }
    let skipped = d.below(3);
    Some(d.tensor(kind, &dims[skipped..]))
}

/// What a mask adds; minus infinity behind its end.
fn added(mask: Option<&Tensor>, o: &[usize]) -> f64 {
    let Some(mask) = mask else { return 0.0 };
    let x = reals(mask);
    if o[3] >= x.dims[x.dims.len() - 1] {
        return f64::NEG_INFINITY;
    }
    match (mask.dtype(), x.spread(o)) {
        (Bool, 0.0) => f64::NEG_INFINITY,
        (Bool, _) => 0.0,
        (_, value) => value,
    }
}

fn attention(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = d.pick(&[25, 23, 24]);
    let (batch, shared, group) = (1 + d.below(2), 1 + d.below(2), 1 + d.below(2));
    let heads = shared * group;
    let (queries, fresh, size, width) =
        (1 + d.below(4), 1 + d.below(4), 1 + d.below(4), 1 + d.below(3));
    let past = if d.once_in(3) { 1 + d.below(3) } else { 0 };
    let keys = past + fresh;
    let flat = d.coin();
    let dtype = d.pick(&[Float, Double]);
    let q = d.tensor(dtype, &[batch, heads, queries, size]);
    let (k, v) = (
        d.tensor(dtype, &[batch, shared, fresh, size]),
        d.tensor(dtype, &[batch, shared, fresh, width]),
    );
    let (pk, pv) = (
        d.tensor(dtype, &[batch, shared, past, size]),
        d.tensor(dtype, &[batch, shared, past, width]),
    );
    let cached = past > 0;
    let (all_k, all_v) = (behind(cached.then_some(&pk), &k), behind(cached.then_some(&pv), &v));
    let view = View::random(d, opset, batch, [queries, keys, past]);
    let full = [batch, heads, queries, keys];
    let mask = mask(d, dtype, &full);
    let scale = d.coin().then_some(0.5f32);
    let cap = if d.once_in(3) { 2.0f32 } else { 0.0 };
    let mode = d.below(4) as i64;
    let (qs, ks, vs) = (reals(&q), reals(&all_k), reals(&all_v));
    let by = scale.map_or(1.0 / (size as f64).sqrt(), f64::from);
    let raw = Nd::fill(&full, |o| {
        let product =
            |e: usize| qs.at(&[o[0], o[1], o[2], e]) * ks.at(&[o[0], o[1] / group, o[3], e]);
        by * (0..size).map(product).sum::<f64>()
    });
    let c = f64::from(cap);
    let capped = crate::math::map(&raw, |x| if c > 0.0 { c * (x / c).tanh() } else { x });
    let biased = Nd::fill(&full, |o| match view.sees(o[0], o[2], o[3]) {
        true => capped.at(o) + added(mask.as_ref(), o),
        false => f64::NEG_INFINITY,
    });
    let shares = Nd::fill(&full, |o| {
        let row = (0..keys).map(|j| biased.at(&[o[0], o[1], o[2], j]).exp());
        let sum: f64 = row.sum();
        if sum == 0.0 { 0.0 } else { biased.at(o).exp() / sum }
    });
    let y = Nd::fill(&[batch, heads, queries, width], |o| {
        let value =
            |j: usize| shares.at(&[o[0], o[1], o[2], j]) * vs.at(&[o[0], o[1] / group, j, o[3]]);
        (0..keys).map(value).sum()
    });
    let case = view
        .attrs(d, case(op, opset))
        .attr_if(flat, "q_num_heads", heads as i64)
        .attr_if(flat, "kv_num_heads", shared as i64)
        .attr_if(scale.is_some(), "scale", scale.unwrap_or(0.0))
        .attr_if(cap > 0.0, "softcap", cap)
        .attr_if(mode > 0, "qk_matmul_output_mode", mode);
    let case = case.input(&packed(&q, flat)).input(&packed(&k, flat)).input(&packed(&v, flat));
    let case = case.maybe(mask.as_ref()).maybe(cached.then_some(&pk)).maybe(cached.then_some(&pv));
    let case = case.maybe(view.valid.map(Tensor::vector).as_ref());
    let y = if flat { merged(&y) } else { y };
    let sums = vec![20.0; y.v.len()];
    let case = case.near(dtype, y, &sums);
    if d.coin() {
        return Some(case);
    }
    let shown = vec![raw, capped, biased, shares].swap_remove(mode as usize);
    let sums = vec![100.0; shown.v.len()];
    Some(case.same(all_k).same(all_v).near(dtype, shown, &sums))
}

fn linear_attention(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, shared, group) = (1 + d.below(2), 1 + d.below(2), 1 + d.below(2));
    let (steps, size, width) = (1 + d.below(4), 1 + d.below(3), 1 + d.below(3));
    let heads = shared * group;
    let rule = d.pick(&["gated_delta", "linear", "gated", "delta"]);
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let mut small = |dims: &[usize]| d.within(Float, dims, -1.0, 1.0);
    let q = small(&[batch, steps, heads * size]);
    let k = small(&[batch, steps, shared * size]);
    let v = small(&[batch, steps, shared * width]);
    let state = small(&[batch, shared, size, width]);
    let (fine, common, with_state) = (d.coin(), d.coin(), d.coin());
    let row = if fine { shared * size } else { shared };
    let decay = gated.then(|| d.within(Float, &[batch, steps, row], -1.0, 0.0));
    let beta_row = if common { 1 } else { shared };
    let beta = delta.then(|| d.within(Float, &[batch, steps, beta_row], 0.0, 1.0));
    let scale = d.coin().then_some(0.5f32);
    let (qs, ks, vs) = (reals(&q), reals(&k), reals(&v));
    let (gs, rates) = (decay.as_ref().map(reals), beta.as_ref().map(reals));
    let mut s = if with_state { reals(&state) } else { Nd::fill(state.dims(), |_| 0.0) };
    let mut y = Nd::fill(&[batch, steps, heads * width], |_| 0.0);
    let by = scale.map_or(1.0 / (size as f64).sqrt(), f64::from);
    for t in 0..steps {
        let old = s.clone();
        let decayed = Nd::fill(&old.dims, |o| {
            let place = if fine { o[1] * size + o[2] } else { o[1] };
            old.at(o) * gs.as_ref().map_or(1.0, |g| g.at(&[o[0], t, place]).exp())
        });
        s = Nd::fill(&old.dims, |o| {
            let key = |e: usize| ks.at(&[o[0], t, o[1] * size + e]);
            let mut value = vs.at(&[o[0], t, o[1] * width + o[3]]);
            if let Some(rates) = &rates {
                let known: f64 =
                    (0..size).map(|e| decayed.at(&[o[0], o[1], e, o[3]]) * key(e)).sum();
                value = rates.at(&[o[0], t, if common { 0 } else { o[1] }]) * (value - known);
            }
            decayed.at(o) + key(o[2]) * value
        });
        for o in crate::nd::indices(&[batch, heads, width]) {
            let read = |e: usize| {
                qs.at(&[o[0], t, o[1] * size + e]) * s.at(&[o[0], o[1] / group, e, o[2]])
            };
            let place = crate::nd::flat(&y.dims, &[o[0], t, o[1] * width + o[2]]);
            y.v[place] = by * (0..size).map(read).sum::<f64>();
        }
    }
    let case = case(op, 27)
        .attr("q_num_heads", heads as i64)
        .attr("kv_num_heads", shared as i64)
        .attr_if(rule != "gated_delta" || d.coin(), "update_rule", rule)
        .attr_if(scale.is_some(), "scale", scale.unwrap_or(0.0));
    let case = case.input(&q).input(&k).input(&v).maybe(with_state.then_some(&state));
    let case = case.maybe(decay.as_ref()).maybe(beta.as_ref());
    let (ny, ns) = (y.v.len(), s.v.len());
    Some(case.near(Float, y, &vec![20.0; ny]).near(Float, s, &vec![20.0; ns]))
}

fn rotary_embedding(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, heads, steps, half) =
        (1 + d.below(2), 1 + d.below(3), 1 + d.below(4), 1 + d.below(3));
    let size = 2 * half;
    let turned = if d.coin() { 2 * (1 + d.below(half)) } else { size };
    let (flat, interleaved) = (d.coin(), d.coin());
    let dtype = d.pick(&[Float, Float16, Bfloat16]);
    let x = d.tensor(dtype, &[batch, heads, steps, size]);
    let named = d.coin();
    let longest = 6;
    let cache = if named { vec![longest, turned / 2] } else { vec![batch, steps, turned / 2] };
    let (cos, sin) = (d.within(dtype, &cache, -1.0, 1.0), d.within(dtype, &cache, -1.0, 1.0));
    let ids = d.whole(batch * steps, 0, longest as i64 - 1);
    let (xs, cs, ss) = (reals(&x), reals(&cos), reals(&sin));
    let y = Nd::fill(x.dims(), |o| {
        let (b, t, e) = (o[0], o[2], o[3]);
        if e >= turned {
            return xs.at(o);
        }
        let (pair, second) = match interleaved {
            true => (e / 2, e % 2 == 1),
            false => (e % (turned / 2), e >= turned / 2),
        };
        let turn = |table: &Nd| match named {
            true => table.at(&[ids[b * steps + t] as usize, pair]),
            false => table.at(&[b, t, pair]),
        };
        let (first, other) =
            if interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + turned / 2) };
        let at = |e: usize| xs.at(&[b, o[1], t, e]);
        match second {
            false => turn(&cs) * at(first) - turn(&ss) * at(other),
            true => turn(&ss) * at(first) + turn(&cs) * at(other),
        }
    });
    let y = if flat { merged(&y) } else { y };
    let case = case(op, 23)
        .attr_if(flat || d.coin(), "num_heads", heads as i64)
        .attr_if(turned != size || d.coin(), "rotary_embedding_dim", turned as i64)
        .attr_if(interleaved || d.coin(), "interleaved", interleaved)
        .input(&packed(&x, flat))
        .input(&cos)
        .input(&sin);
    let ids = named.then(|| crate::nd::int64(&[batch, steps], &ids));
    let sums = vec![8.0; y.v.len()];
    Some(case.maybe(ids.as_ref()).near(dtype, y, &sums))
}

fn causal_conv(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, channels, steps, k) =
        (1 + d.below(2), 1 + d.below(3), 1 + d.below(5), 1 + d.below(4));
    let dtype = d.pick(&[Float, Float16]);
    let x = d.tensor(dtype, &[batch, channels, steps]);
    let w = d.tensor(dtype, &[channels, 1, k]);
    let bias = d.coin().then(|| d.tensor(dtype, &[channels]));
    let past = d.coin().then(|| d.tensor(dtype, &[batch, channels, k - 1]));
    let smooth = d.pick(&["none", "silu", "swish"]);
    let (xs, ws) = (reals(&x), reals(&w));
    let (bs, ps) = (bias.as_ref().map(reals), past.as_ref().map(reals));
    // Position t counts from the first new one; the past lies before it.
    let at = |b: usize, c: usize, t: i64| match usize::try_from(t) {
        Ok(t) => xs.at(&[b, c, t]),
        Err(_) => ps.as_ref().map_or(0.0, |p| p.at(&[b, c, (t + k as i64 - 1) as usize])),
    };
    let y = Nd::fill(x.dims(), |o| {
        let tap =
            |i: usize| ws.at(&[o[1], 0, i]) * at(o[0], o[1], (o[2] + i) as i64 - k as i64 + 1);
        let sum = (0..k).map(tap).sum::<f64>() + bs.as_ref().map_or(0.0, |b| b.v[o[1]]);
        if smooth == "none" { sum } else { sum / (1.0 + (-sum).exp()) }
    });
    let state = Nd::fill(&[batch, channels, k - 1], |o| {
        at(o[0], o[1], (steps + o[2]) as i64 - k as i64 + 1)
    });
    let case = case(op, 27).attr_if(smooth != "none" || d.coin(), "activation", smooth);
    let case = case.input(&x).input(&w).maybe(bias.as_ref()).maybe(past.as_ref());
    let sums = vec![64.0; y.v.len()];
    Some(case.near(dtype, y, &sums).rounded(dtype, state))
}
