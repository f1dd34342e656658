//! What single operators become, as ONNX text: before, after, and back.

mod common;

use common::{assert_forms, assert_same, folded, model, unfolded};

/// `x` with scale 0.5 and zero point 3, and an output with scale 0.25 and zero point 7.
fn around(inputs: &str, constants: &str, body: &str, output: &str) -> String {
    format!("g ({inputs}) => ({output}) <{constants}> {{ {body} }}")
}

const SCALES: &str = "float xs = {0.5}, uint8 xz = {3}, float ys = {0.25}, uint8 yz = {7}";

#[test]
fn a_convolution_with_a_scale_for_each_channel() {
    let constants = format!(
        "{SCALES}, int8[2,1,1,1] w = {{2, -3}}, float[2] ws = {{0.125, 0.25}}, \
         int8[2] wz = {{0, 0}}, int32[2] b = {{10, 20}}, float[2] bs = {{0.0625, 0.125}}"
    );
    let before = around(
        "uint8[1,1,4,4] x",
        &constants,
        "xf = DequantizeLinear(x, xs, xz)
         wf = DequantizeLinear<axis = 0>(w, ws)
         bf = DequantizeLinear<axis = 0>(b, bs)
         yf = Conv<pads = [1, 1, 1, 1]>(xf, wf, bf)
         y = QuantizeLinear(yf, ys, yz)",
        "uint8[1,2,6,6] y",
    );
    let after = around(
        "uint8[1,1,4,4] x",
        &constants,
        "y = QLinearConv<pads = [1, 1, 1, 1]>(x, xs, xz, w, ws, wz, ys, yz, b)",
        "uint8[1,2,6,6] y",
    );
    let told = assert_forms(&before, &after);
    assert_eq!(told.folded, [("Conv -> yf".into(), "Conv".into(), "QLinearConv".into())]);
    assert!(told.left.is_empty());
    let (back, _) = unfolded(&model(&after));
    assert_same(&folded(&back).0, &model(&after));
    assert_eq!(back.graph.nodes().filter(|(_, n)| n.is("DequantizeLinear")).count(), 3);
}

#[test]
fn a_float_bias_is_rounded_to_the_steps_of_the_sum() {
    let constants = format!("{SCALES}, int8[2,1,1,1] w = {{2, -3}}, float ws = {{0.125}}");
    let before = around(
        "uint8[1,1,4,4] x",
        &format!("{constants}, float[2] b = {{0.0625, -1.03}}"),
        "xf = DequantizeLinear(x, xs, xz)
         wf = DequantizeLinear(w, ws)
         yf = Conv(xf, wf, b)
         y = QuantizeLinear(yf, ys, yz)",
        "uint8[1,2,4,4] y",
    );
    let after = around(
        "uint8[1,1,4,4] x",
        &format!("{constants}, int8 wz = {{0}}, int32[2] b = {{1, -16}}"),
        "y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)",
        "uint8[1,2,4,4] y",
    );
    assert_forms(&before, &after);
}

#[test]
fn a_product_is_in_float_where_nothing_quantizes_it() {
    let constants = format!(
        "{SCALES}, int8[3,2] w = {{1, 2, 3, 4, 5, 6}}, float[2] ws = {{1, 2}}, \
         int8[2] wz = {{0, 1}}, float[2] bias = {{1, 2}}"
    );
    let product = |tail: &str, out: &str| {
        around(
            "uint8[1,4,3] x",
            &constants,
            &format!(
                "xf = DequantizeLinear(x, xs, xz)
                 wf = DequantizeLinear<axis = -1>(w, ws, wz)
                 p = MatMul(xf, wf)
                 {tail}"
            ),
            out,
        )
    };
    assert_forms(
        &product("y = Add(p, bias)", "float[1,4,2] y"),
        &around(
            "uint8[1,4,3] x",
            &constants,
            "p = com.microsoft.MatMulIntegerToFloat(x, w, xs, ws, xz, wz) y = Add(p, bias)",
            "float[1,4,2] y",
        ),
    );
    assert_forms(
        &product("y = QuantizeLinear(p, ys, yz)", "uint8[1,4,2] y"),
        &around(
            "uint8[1,4,3] x", &constants, "y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz)",
            "uint8[1,4,2] y",
        ),
    );
}

#[test]
fn gemm_keeps_alpha_and_takes_beta_into_its_bias() {
    let constants = format!(
        "{SCALES}, int8[2,3] w = {{1, 2, 3, 4, 5, 6}}, float[2] ws = {{0.5, 0.25}}, \
         int8[2] wz = {{0, 0}}"
    );
    let before = around(
        "uint8[4,3] x",
        &format!("{constants}, int32[2] b = {{8, 12}}, float[2] bs = {{0.25, 0.125}}"),
        "xf = DequantizeLinear(x, xs, xz)
         wf = DequantizeLinear<axis = 0>(w, ws)
         bf = DequantizeLinear<axis = 0>(b, bs)
         y = Gemm<alpha = 0.5, beta = 2.0, transB = 1>(xf, wf, bf)",
        "float[4,2] y",
    );
    // 8 * 0.25 * 2 / (0.5 * 0.5 * 0.5) and 12 * 0.125 * 2 / (0.5 * 0.5 * 0.25)
    let after = around(
        "uint8[4,3] x",
        &format!("{constants}, int32[2] c = {{32, 48}}"),
        "y = com.microsoft.QGemm<alpha = 0.5, transB = 1>(x, xs, xz, w, ws, wz, c)",
        "float[4,2] y",
    );
    assert_forms(&before, &after);
    let back = unfolded(&model(&after)).0;
    assert_same(&folded(&back).0, &model(&after));
}

#[test]
fn what_the_integers_saturate_anyway_is_not_clipped_before() {
    let net = |zero: u8, bounds: &str| {
        around(
            "uint8[4,3] x",
            &format!(
                "{SCALES}, int8[3,2] w = {{1, 2, 3, 4, 5, 6}}, float ws = {{0.5}}, \
                 int8 wz = {{0}}, uint8 z = {{{zero}}}, float low = {{0}}, float high = {{63.8}}"
            ),
            &format!(
                "xf = DequantizeLinear(x, xs, xz)
                 wf = DequantizeLinear(w, ws, wz)
                 p = MatMul(xf, wf)
                 r = {bounds}
                 y = QuantizeLinear(r, ys, z)"
            ),
            "uint8[4,2] y",
        )
    };
    let ops = |net: &str| -> Vec<String> {
        folded(&model(net)).0.graph.nodes().map(|(_, n)| n.op.clone()).collect()
    };
    assert_eq!(ops(&net(0, "Relu(p)")), ["QLinearMatMul"]);
    assert_eq!(ops(&net(0, "Clip(p, low, high)")), ["QLinearMatMul"]);
    assert_eq!(ops(&net(1, "Relu(p)")), ["Relu", "QuantizeLinear", "MatMulIntegerToFloat"]);
}

#[test]
fn what_changes_nothing_goes_also_where_it_follows_itself() {
    let zero = "float xs = {0.5}, uint8 z = {0}";
    let relu = |from: &str, to: &str| {
        format!(
            "{from}f = DequantizeLinear({from}, xs, z) {from}r = Relu({from}f) \
                 {to} = QuantizeLinear({from}r, xs, z)"
        )
    };
    let twice = format!(
        "{} {} t = Transpose(bf) y = QuantizeLinear(t, xs, z)",
        relu("x", "a"),
        relu("a", "b")
    )
    .replace("t = ", "bf = DequantizeLinear(b, xs, z) t = ");
    assert_forms(
        &around("uint8[2,3] x", zero, &twice, "uint8[3,2] y"),
        &around("uint8[2,3] x", zero, "y = Transpose(x)", "uint8[3,2] y"),
    );
    // The name of an output stays.
    assert_forms(
        &around("uint8[2,3] x", zero, &relu("x", "y"), "uint8[2,3] y"),
        &around(
            "uint8[2,3] x", "uint8 low = {0}, uint8 high = {255}", "y = Clip(x, low, high)",
            "uint8[2,3] y",
        ),
    );
}

/// Nodes may come in any order, and a clip may go because nothing reads what came of it.
#[test]
fn a_clip_that_went_with_another_is_not_looked_for() {
    assert_forms(
        &around(
            "uint8[3] x",
            "float xs = {0.5}, uint8 z = {0}",
            "cq = QuantizeLinear(c, xs, z)
             c = Relu(bf)
             bf = DequantizeLinear(bq, xs, z)
             bq = QuantizeLinear(b, xs, z)
             b = Relu(af)
             af = DequantizeLinear(x, xs, z)
             y = Identity(x)",
            "uint8[3] y",
        ),
        &around("uint8[3] x", "float xs = {0.5}", "y = Identity(x)", "uint8[3] y"),
    );
}

#[test]
fn bounds_become_integers_where_the_scale_stays() {
    assert_forms(
        &around(
            "uint8[4] x",
            SCALES,
            "xf = DequantizeLinear(x, xs, xz) r = Relu(xf) y = QuantizeLinear(r, xs, xz)",
            "uint8[4] y",
        ),
        &around(
            "uint8[4] x", "uint8 low = {3}, uint8 high = {255}", "y = Clip(x, low, high)",
            "uint8[4] y",
        ),
    );
}

#[test]
fn integers_are_moved_and_what_is_filled_in_becomes_one() {
    assert_forms(
        &around(
            "uint8[1,1,4,4] x",
            &format!(
                "{SCALES}, int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}}, int64[2] flat = {{1, -1}}"
            ),
            "xf = DequantizeLinear(x, xs, xz)
             p = Pad(xf, pads)
             pq = QuantizeLinear(p, xs, xz)
             pf = DequantizeLinear(pq, xs, xz)
             m = MaxPool<kernel_shape = [2, 2]>(pf)
             mq = QuantizeLinear(m, xs, xz)
             mf = DequantizeLinear(mq, xs, xz)
             r = Reshape(mf, flat)
             y = QuantizeLinear(r, xs, xz)",
            "uint8[1,25] y",
        ),
        &around(
            "uint8[1,1,4,4] x",
            "int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[2] flat = {1, -1}, uint8 fill = {3}",
            "pq = Pad(x, pads, fill) mq = MaxPool<kernel_shape = [2, 2]>(pq) y = Reshape(mq, flat)",
            "uint8[1,25] y",
        ),
    );
}

#[test]
fn what_is_filled_in_goes_where_nothing_is() {
    let pad = |body: &str| {
        let constants =
            format!("{SCALES}, int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}}, float fill = {{0.5}}");
        around("uint8[1,1,4,4] x", &constants, body, "uint8[1,1,6,6] y")
    };
    assert_forms(
        &pad("xf = DequantizeLinear(x, xs, xz)
              p = Pad<mode = \"edge\">(xf, pads, fill)
              y = QuantizeLinear(p, xs, xz)"),
        &pad("y = Pad<mode = \"edge\">(x, pads)"),
    );
}

#[test]
fn large_weights_are_unsigned_so_that_no_sum_of_two_products_saturates() {
    let product = |weights: &str, body: &str| {
        around("uint8[4,2] x", &format!("{SCALES}, {weights}"), body, "float[4,1] y")
    };
    assert_forms(
        &product(
            "int8[2,1] w = {-128, 65}, float ws = {0.5}",
            "xf = DequantizeLinear(x, xs, xz) wf = DequantizeLinear(w, ws) y = MatMul(xf, wf)",
        ),
        &product(
            "uint8[2,1] w = {0, 193}, float ws = {0.5}, uint8 wz = {128}",
            "y = com.microsoft.MatMulIntegerToFloat(x, w, xs, ws, xz, wz)",
        ),
    );
}

/// What must stay, and the reason that is told.
#[test]
fn reasons_to_stay() {
    let net = |constants: &str, body: &str, out: &str| {
        let constants = format!("{SCALES}, {constants}");
        around(
            "uint8[1,4,4] x",
            &constants,
            &format!("xf = DequantizeLinear(x, xs, xz) {body}"),
            out,
        )
    };
    let weight = "int8[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] ws = {1,2,3,4}";
    for (why, net) in [
        (
            "`w` has scales along axis 0",
            net(
                weight, "wf = DequantizeLinear<axis = 0>(w, ws) y = MatMul(xf, wf)",
                "float[1,4,4] y",
            ),
        ),
        (
            "`s` is read in float too",
            net(
                "float one = {1}", "s = Sigmoid(xf) y = QuantizeLinear(s, ys, yz)",
                "float[1,4,4] s, uint8[1,4,4] y",
            ),
        ),
        ("`y` stays in float", net("float one = {1}", "y = Sigmoid(xf)", "float[1,4,4] y")),
        (
            "`x` and `y` differ in scale, zero point or type",
            net(
                "float one = {1}", "t = Transpose(xf) y = QuantizeLinear(t, ys, yz)",
                "uint8[4,4,1] y",
            ),
        ),
        (
            "no operator on integers stands for Tanh",
            net("float one = {1}", "t = Tanh(xf) y = QuantizeLinear(t, ys, yz)", "uint8[1,4,4] y"),
        ),
        (
            "`x` is uint8 and `y` is int8: kernels take one type",
            net("int8 z = {1}", "t = Sigmoid(xf) y = QuantizeLinear(t, ys, z)", "int8[1,4,4] y"),
        ),
        (
            "no kernel on integers takes the mean of these axes",
            net(
                "float one = {1}",
                "t = ReduceMean<axes = [1]>(xf) y = QuantizeLinear(t, ys, yz)",
                "uint8[1,1,4] y",
            ),
        ),
    ] {
        let before = model(&net);
        let (after, told) = folded(&before);
        assert_same(&after, &before);
        let reasons: Vec<&str> = told.left.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(reasons, [why]);
    }
}

#[test]
fn chains_of_dynamic_quantization_become_dequantized_factors() {
    let (back, told) = unfolded(&model(&around(
        "float[4,3] x",
        "int8[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] ws = {1, 2}, int8 wz = {0}",
        "q, s, z = DynamicQuantizeLinear(x)
         p = MatMulInteger(q, w, z, wz)
         c = Cast<to = 1>(p)
         f = Mul(s, ws)
         y = Mul(c, f)",
        "float[4,2] y",
    )));
    assert_eq!(told.left, []);
    let want = model(&around(
        "float[4,3] x",
        "int8[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] ws = {1, 2}, int8[2] wz = {0, 0}",
        "q, s, z = DynamicQuantizeLinear(x)
         q_dequantized = DequantizeLinear(q, s, z)
         w_dequantized = DequantizeLinear<axis = 1>(w, ws, wz)
         y = MatMul(q_dequantized, w_dequantized)",
        "float[4,2] y",
    ));
    assert_same(&back, &want);
}

#[test]
fn a_bias_of_32_bits_becomes_a_dequantized_sum() {
    let chain = model(&around(
        "float[4,3] x",
        &format!(
            "{SCALES}, int8[3,2] w = {{1, 2, 3, 4, 5, 6}}, int8[2] wz = {{0, 0}}, \
             int32[2] b = {{7, -9}}, float[2] sb = {{0.3, 0.7}}"
        ),
        "q = QuantizeLinear(x, xs, xz)
         p = MatMulInteger(q, w, xz, wz)
         t = Add(p, b)
         c = Cast<to = 1>(t)
         y = Mul(c, sb)",
        "float[4,2] y",
    ));
    let (back, told) = unfolded(&chain);
    assert_eq!(told.left, []);
    let mut ops: Vec<&str> = back.graph.nodes().map(|(_, n)| n.op.as_str()).collect();
    ops.sort_unstable();
    let dq = "DequantizeLinear";
    assert_eq!(ops, ["Add", dq, dq, dq, "MatMul", "QuantizeLinear"]);
    let (a, b) = (common::outputs(&chain, 5), common::outputs(&back, 5));
    assert!(common::distance(&a, &b) < 1e-4);
}
