//! The recipes for Linear layers, as ONNX text.

mod common;

use common::{assert_same, distance, folded, model, outputs, unfolded, valid};
use onnxd_ir::Model;
use onnxd_quantize::emit::recipes::{Recipe, apply};

const CONSTANTS: &str = "float xs = {0.1}, uint8 xz = {3}, int8[3,2] w = {1, -2, 3, 4, -5, 60}, \
    float[2] ws = {0.5, 0.25}, int8[2] wz = {0, 0}, float ys = {0.2}, uint8 yz = {100}";

fn linear(constants: &str, body: &str) -> Model {
    model(&format!(
        "g (float[1,4,3] x) => (float[1,4,2] y) <{CONSTANTS}, {constants}> {{
            xq = QuantizeLinear(x, xs, xz) {body} }}"
    ))
}

fn quantized(constants: &str, tail: &str) -> Model {
    let factors = "xf = DequantizeLinear(xq, xs, xz) wf = DequantizeLinear<axis = 1>(w, ws, wz)";
    linear(constants, &format!("{factors} p = MatMul(xf, wf) {tail}"))
}

const BIAS: &str = "float[2] anything = {0.77, -3.01}";
const SUM: &str = "y = Add(p, anything)";
const ROUNDED_PRODUCT: &str =
    "pq = QuantizeLinear(p, ys, yz) pf = DequantizeLinear(pq, ys, yz) y = Add(anything, pf)";

fn written(before: &Model, recipe: Recipe) -> Model {
    let mut after = before.clone();
    let told = apply(&mut after, recipe, true);
    assert_eq!(told.left, []);
    valid(&mut after);
    after
}

#[test]
fn the_sum_stays_in_float() {
    let plain = quantized(BIAS, SUM);
    assert_same(&written(&plain, Recipe::Fp32Bias), &plain);
    let swapped = quantized(BIAS, "y = Add(anything, p)");
    assert_same(&written(&quantized(BIAS, ROUNDED_PRODUCT), Recipe::Fp32Bias), &swapped);
    let on_integers = linear(
        BIAS,
        "p = com.microsoft.MatMulIntegerToFloat(xq, w, xs, ws, xz, wz) y = Add(p, anything)",
    );
    assert_same(&folded(&plain).0, &on_integers);
}

#[test]
fn the_sum_is_of_integers() {
    let before = quantized(BIAS, SUM);
    let after = written(&before, Recipe::Int32Bias);
    // 0.77 / 0.05 and -3.01 / 0.025, and the weighted operators of the scales in float.
    let want = linear(
        "int32[2] bias = {15, -120}, float[2] scale = {0.05, 0.025}",
        "p_product = MatMulInteger(xq, w, xz, wz)
         p_sum = Add(p_product, bias)
         p_real = Cast<to = 1>(p_sum)
         y = Mul(p_real, scale)",
    );
    assert_same(&after, &want);
    assert!(distance(&outputs(&before, 3), &outputs(&after, 3)) < 0.05);
    assert_same(&written(&quantized(BIAS, ROUNDED_PRODUCT), Recipe::Int32Bias), &want);
    // There is nothing to fold, and going back gives a sum with a dequantized bias.
    assert_same(&folded(&after).0, &after);
    let (back, _) = unfolded(&after);
    assert!(distance(&outputs(&back, 3), &outputs(&after, 3)) < 1e-4);
    assert_eq!(back.graph.nodes().filter(|(_, n)| n.is("MatMulInteger")).count(), 0);
}

#[test]
fn a_bias_beyond_32_bits_stays_in_float() {
    // The second is the first that leaves no room for the weighted operators of its column.
    for (bias, whole) in [("1e30, -1e30", false), ("0.0, 5.3687e7", false), ("0.0, 5.36e7", true)] {
        let before = quantized(&format!("float[2] anything = {{{bias}}}"), SUM);
        let mut after = before.clone();
        let told = apply(&mut after, Recipe::Int32Bias, true);
        valid(&mut after);
        assert!(distance(&outputs(&before, 3), &outputs(&after, 3)) <= 8.0);
        if whole {
            assert_eq!((told.left.len(), told.folded.len()), (0, 1));
            continue;
        }
        let [(_, why)] = &told.left[..] else { panic!("{told:?}") };
        assert!(why.contains("32 bits do not hold its bias"), "{why}");
        assert_same(&after, &before);
    }
}

/// Where no weight says how large the steps are, any bias fits.
#[test]
fn a_column_without_weights_has_steps_of_its_bias() {
    let constants = CONSTANTS.replace("{1, -2, 3, 4, -5, 60}", "{1, 0, 3, 0, -5, 0}");
    let before = model(&format!(
        "g (float[1,4,3] x) => (float[1,4,2] y) <{constants}, float[2] b = {{0.77, 1e12}}> {{
            xq = QuantizeLinear(x, xs, xz) xf = DequantizeLinear(xq, xs, xz)
            wf = DequantizeLinear<axis = 1>(w, ws, wz) p = MatMul(xf, wf) y = Add(p, b) }}"
    ));
    let after = written(&before, Recipe::Int32Bias);
    let found = outputs(&after, 3).remove(0);
    assert!(found.values.chunks(2).all(|row| (row[1] / 1e12 - 1.0).abs() < 1e-6), "{found:?}");
}

#[test]
fn the_sum_is_rounded_instead_of_the_product() {
    let after = written(&quantized(BIAS, ROUNDED_PRODUCT), Recipe::Fp32BiasQdq);
    let want = quantized(
        BIAS,
        "y_float = Add(anything, p)
         y_quantized = QuantizeLinear(y_float, ys, yz)
         y = DequantizeLinear(y_quantized, ys, yz)",
    );
    assert_same(&after, &want);
    assert_same(&written(&want, Recipe::Fp32BiasQdq), &want);
}

#[test]
fn without_a_bias_or_with_a_computed_one_nothing_changes() {
    for tail in ["y = Neg(p)", "t = Neg(p) y = Add(p, t)"] {
        let before = quantized(BIAS, tail);
        assert_same(&written(&before, Recipe::Int32Bias), &before);
    }
}
