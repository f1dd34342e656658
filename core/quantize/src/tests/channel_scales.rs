//! Channels of activations that are divided by factors, and weights that are multiplied by them.

use super::{Dice, difference, model, samples};
use crate::search::channel_scales::ScalableActivation;
use onnxd_ir::{DataType, Model, ValueId};
use proptest::prelude::*;

/// The values with a site, as their names.
fn sites(float: &Model) -> Vec<(ValueId, usize, ScalableActivation)> {
    let graph = &float.graph;
    let last = |v: ValueId| {
        let dims = graph[v].ty.as_ref().filter(|t| t.dtype() == Some(DataType::Float))?.dims()?;
        usize::try_from(*dims.last()?).ok()
    };
    let found = graph.value_ids().filter_map(|v| {
        let channels = last(v)?;
        Some((v, channels, ScalableActivation::find(graph, v, channels)?))
    });
    found.collect()
}

/// All sites with random factors, one after the other, the last first.
fn kept(float: &Model, expected: &[&str], seed: u64) {
    let mut scaled = float.clone();
    let mut dice = Dice(seed);
    let found = sites(float);
    let names: Vec<&str> = found.iter().map(|(v, ..)| float.graph[*v].name.as_str()).collect();
    assert_eq!(names, expected);
    for (_, channels, site) in found.iter().rev() {
        let factors: Vec<f64> =
            (0..*channels).map(|_| 10f64.powf(f64::from(dice.real()))).collect();
        site.apply(&mut scaled.graph, &factors).expect("factors are moderate");
    }
    let (worst, largest) = difference(float, &scaled, &samples(float, 2, seed));
    assert!(worst <= 2e-5 * largest.max(1e-3), "{worst} of {largest}");
}

#[test]
fn attention_gates_and_convolutions_take_factors() {
    let attention = "
    g (float[2,3,8] x) => (float[2,3,5] y, float[3] sizes)
    <float[8] g, float[8] b, float[8,8] wq, float[8,8] wv, float[8] bv, float[8,5] wo,
     int64[4] split = {0, 0, 2, 4}, int64[3] merged = {0, 0, -1}>
    {
      n = LayerNormalization(x, g, b)
      shape = Shape(n)
      sizes = Cast<to = 1>(shape)
      q0 = MatMul(n, wq)
      q1 = Reshape(q0, split)
      q = Transpose<perm = [0, 2, 1, 3]>(q1)
      t = Transpose<perm = [0, 2, 3, 1]>(q1)
      s = MatMul(q, t)
      p = Softmax(s)
      v0 = MatMul(n, wv)
      v1 = Add(v0, bv)
      v2 = Reshape(v1, split)
      v = Transpose<perm = [0, 2, 1, 3]>(v2)
      o1 = MatMul(p, v)
      o2 = Transpose<perm = [0, 2, 1, 3]>(o1)
      o = Reshape(o2, merged)
      y = MatMul(o, wo)
    }";
    kept(&model(attention, 3), &["n", "o"], 4);
    let gate = "
    g (float[2,3,8] x) => (float[2,3,4] y)
    <float[8,6] w1, float[8,6] w2, float[6,4] w3, float half = {0.5}>
    {
      a = MatMul(x, w1)
      h = Mul(a, half)
      b = MatMul(x, w2)
      s = Sigmoid(b)
      m = Mul(s, h)
      y = MatMul(m, w3)
    }";
    kept(&model(gate, 3), &["m"], 4);
    let picture = "
    g (float[2,3,6,6] x) => (float[2,4] y)
    <float[5,3,3,3] w1, float[5] b1, float[4,5] w2, float[4] b2, float[5,1,1] c, float[5] g,
     float[5] o, float[5] m, float[5] u = {1, 2, 0.5, 1, 1}>
    {
      a = Conv(x, w1, b1)
      n = BatchNormalization(a, g, o, m, u)
      r = Relu(n)
      s = Add(r, c)
      p = MaxPool<kernel_shape = [2, 2]>(s)
      q = GlobalAveragePool(p)
      f = Flatten(q)
      y = Gemm<transB = 1>(f, w2, b2)
    }";
    kept(&model(picture, 3), &["f"], 4);
}

/// Attention whose queries, keys and values one weighted operator computes, in the ways that they are taken
/// apart. The product has as many columns as `parts` says.
fn fused(apart: &str, parts: usize) -> String {
    format!(
        "g (float[2,3,8] x) => (float[2,3,5] y)
         <float[8] g, float[8] b, float[8,{columns}] w, float[{columns}] c, float[8,5] wo,
          int64[4] split = {{0, 0, 2, 4}}, int64[5] five = {{0, 0, 3, 2, 4}},
          int64[5] inner = {{0, 0, 2, 3, 4}}, int64[3] merged = {{0, 0, -1}},
          int64 i0 = {{0}}, int64 i1 = {{1}}, int64 i2 = {{-1}}, int64[1] ax0 = {{0}},
          int64[1] ax3 = {{3}}, int64[1] last = {{-1}}, int64[1] a = {{8}}, int64[1] z = {{16}},
          int64[1] n0 = {{0}}, int64[1] n1 = {{8}}, int64[1] n2 = {{16}}, int64[1] end = {{99}}>
         {{
           n = LayerNormalization(x, g, b)
           p = MatMul(n, w)
           f = Add(p, c)
           {apart}
           s0 = Softmax(s)
           o1 = MatMul(s0, v)
           o2 = Transpose<perm = [0, 2, 1, 3]>(o1)
           o = Reshape(o2, merged)
           y = MatMul(o, wo)
         }}",
        columns = 8 * parts
    )
}

const HEADS: &str = "q1 = Reshape(q0, split) k1 = Reshape(k0, split) v1 = Reshape(v0, split)
    q = Transpose<perm = [0, 2, 1, 3]>(q1) k = Transpose<perm = [0, 2, 3, 1]>(k1)
    v = Transpose<perm = [0, 2, 1, 3]>(v1) s = MatMul(q, k)";

#[test]
fn one_product_for_queries_keys_and_values_takes_factors() {
    let turned = "k = Transpose<perm = [0, 1, 3, 2]>(k0) s = MatMul(q, k)";
    for apart in [
        format!("q0, k0, v0 = Split<axis = -1>(f) {HEADS}"),
        // Each takes its own, from the fifth axis of [batch, rows, 3, heads, columns].
        format!(
            "q0 = Slice(f, n0, a, last) k0 = Slice(f, a, z, last) v0 = Slice(f, z, end, last) {HEADS}"
        ),
        format!(
            "r = Reshape(f, five) t = Transpose<perm = [2, 0, 3, 1, 4]>(r)
             q = Gather<axis = 0>(t, i0) k0 = Gather<axis = 0>(t, i1) v = Gather<axis = 0>(t, i2)
             {turned}"
        ),
        format!(
            "r = Reshape(f, five) t = Transpose<perm = [2, 0, 3, 1, 4]>(r)
             q4, k4, v4 = Split<axis = 0>(t)
             q = Squeeze(q4, ax0) k0 = Squeeze(k4, ax0) v = Squeeze(v4, ax0) {turned}"
        ),
        // Heads have their queries, keys and values side by side.
        format!(
            "r = Reshape(f, inner) t = Transpose<perm = [0, 2, 3, 1, 4]>(r)
             q = Gather<axis = 2>(t, i0) k0 = Gather<axis = 2>(t, i1) v = Gather<axis = 2>(t, i2)
             {turned}"
        ),
    ] {
        kept(&model(&fused(&apart, 3), 3), &["n", "o"], 4);
    }
    // What a query reads is scores, and what two read is not one's own.
    for apart in [
        format!("q0, k0, v9 = Split<axis = -1>(f) v0 = Add(v9, q0) {HEADS}"),
        format!(
            "q0 = Slice(f, n0, a, last) k0 = Slice(f, a, z, last) v0 = Slice(f, a, z, last) {HEADS}"
        ),
        format!("q0, k0, v0 = Split<axis = -1>(f) {HEADS}")
            .replace("v1 = Reshape(v0", "e = Exp(v0) v1 = Reshape(e"),
    ] {
        kept(&model(&fused(&apart, 3), 3), &["n"], 4);
    }
    let gate = "
    g (float[2,3,8] x) => (float[2,3,4] y) <float[8,12] w, float[6,4] v>
    {
      f = MatMul(x, w)
      a, b = Split<axis = 2>(f)
      s = Sigmoid(a)
      h = Mul(a, s)
      m = Mul(h, b)
      y = MatMul(m, v)
    }";
    kept(&model(gate, 3), &["m"], 4);
}

#[test]
fn attention_that_is_one_operator_takes_factors() {
    let projected = "
    g (float[2,3,8] x) => (float[2,3,5] y) <float[8,20] w, float[20] b, float[8,5] v>
    {
      a = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [6, 6, 8]>(x, w, b)
      y = MatMul(a, v)
    }";
    kept(&model(projected, 3), &["a"], 4);
    let several = "
    g (float[2,3,8] x) => (float[2,3,5] y) <float[8,24] w, float[8,5] v>
    {
      f = MatMul(x, w)
      q, k, u = Split<axis = -1>(f)
      a = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, u)
      y = MatMul(a, v)
    }";
    kept(&model(several, 3), &["a"], 4);
}

/// What is no longer the same function, or would take memory, is left.
#[test]
fn what_others_read_or_bend_takes_none() {
    for (before, after) in [
        ("t = MatMul(x, w) h = Sigmoid(t)", "y = MatMul(h, v)"),
        ("t = MatMul(x, w) h = Clip(t, zero, six)", "y = MatMul(h, v)"),
        ("t = MatMul(x, w) h = Add(t, six)", "y = MatMul(h, v)"),
        ("t = MatMul(x, w) h = Add(t, x)", "y = MatMul(h, v)"),
        ("h = Relu(x)", "y = MatMul(h, v)"),
        ("t = Mul(x, g) h = MaxPool<kernel_shape = [1], strides = [1]>(t)", "y = MatMul(h, v)"),
        ("h = MatMul(x, w)", "a = MatMul(h, v) y = Add(a, h)"),
        ("h = MatMul(x, w)", "y = Gemm(h, v, h)"),
        ("h = MatMul(x, w)", "y = MatMul(h, w)"),
        ("h = MatMul(x, w)", "y = Gemm<transA = 1>(h, v)"),
        ("h = MatMul(x, w)", "y = MatMul(v, h)"),
        ("t = LayerNormalization<axis = 0>(x, v) h = Relu(t)", "y = MatMul(h, w)"),
    ] {
        let dims = if before.contains("Pool") { "1,4,4" } else { "4,4" };
        let graph = format!(
            "g (float[{dims}] x) => (float[{dims}] y)
             <float[4,4] w, float[4,4] v, float[4] g, float zero = {{0}}, float six = {{6}}>
             {{ {before} {after} }}"
        );
        let found = sites(&model(&graph, 1));
        assert!(found.is_empty(), "{before} {after}");
    }
}

/// One step on the way from a weighted operator to a weighted operator.
fn step(kind: usize, at: usize) -> String {
    let (from, to) = (format!("h{at}"), format!("h{}", at + 1));
    match kind {
        0 => format!("{to} = Relu({from})"),
        1 => format!("{to} = LeakyRelu<alpha = 0.3>({from})"),
        2 => format!("{to} = Add({from}, c{at})"),
        3 => format!("{to} = Mul(c{at}, {from})"),
        4 => format!("{to} = Sub({from}, d{at})"),
        5 => format!("{to} = Div({from}, e{at})"),
        6 => format!("{to} = PRelu({from}, c{at})"),
        7 => format!("r{at} = Reshape({from}, flat) {to} = Reshape(r{at}, full)"),
        8 => format!(
            "s{at} = Transpose<perm = [2, 0, 1]>({from}) {to} = Transpose<perm = [1, 2, 0]>(s{at})"
        ),
        9 => format!("{to} = LayerNormalization({from}, c{at}, o{at})"),
        _ => format!("{to} = Add({from}, big{at})"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever stands between two weighted operators, the function stays the same to float rounding.
    #[test]
    fn the_function_stays(
        steps in prop::collection::vec(0usize..11, 0..6), k in 2usize..9, readers in 1usize..3,
        gemm: bool, seed: u64,
    ) {
        let mut constants = String::new();
        let mut body = match gemm {
            true => "x2 = Reshape(x, flat0) h00 = Gemm<transB = 1>(x2, w, b) h0 = Reshape(h00, full)",
            false => "h0 = MatMul(x, w)",
        }
        .to_owned();
        for (at, kind) in steps.iter().enumerate() {
            constants += &format!(
                ", float[{k}] c{at}, float[{k}] o{at}, float[1,{k}] d{at}, float e{at},
                 float[2,3,{k}] big{at}"
            );
            body += " ";
            body += &step(*kind, at);
        }
        let last = format!("h{}", steps.len());
        let outputs: Vec<String> = (0..readers).map(|i| format!("float[2,3,4] y{i}")).collect();
        for i in 0..readers {
            constants += &format!(", float[{k},4] v{i}");
            body += &format!(" y{i} = MatMul({last}, v{i})");
        }
        let first = if gemm { format!("float[{k},5] w, float[{k}] b") } else { format!("float[5,{k}] w") };
        let graph = format!(
            "g (float[2,3,5] x) => ({}) <{first}, int64[2] flat0 = {{6, 5}},
             int64[2] flat = {{6, {k}}}, int64[3] full = {{2, 3, {k}}}{constants}> {{ {body} }}",
            outputs.join(", ")
        );
        let float = model(&graph, seed);
        kept(&float, &[&last], seed);
    }
}
