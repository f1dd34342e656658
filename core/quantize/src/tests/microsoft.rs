//! Layers of transformers that are one operator of ONNX Runtime.

use super::dynamic::dynamic;
use super::{difference, model, operators, quantized, samples};
use crate::emit::{fold, quantize_dynamic, unfold};
use crate::plan::{QuantizeRequest, Settings};
use crate::report::Form;
use onnxd_ir::{DataType, VerifyLevel, infer, verify};

const ATTENTION: &str = "
    g (float[2,3,8] x, float[2,2,2,3,4] past) => (float[2,3,8] y, float[2,2,2,6,4] p)
    <float[8,24] w, float[24] b, int32[2,6] m = {1,1,1,1,1,1,0,1,1,1,1,0}>
    { y, p = com.microsoft.Attention<num_heads = 2, unidirectional = 1>(x, w, b, m, past) }";

/// Without a bias, with sizes that say what is usual.
const BARE: &str = "
    g (float[2,3,8] x) => (float[2,3,4] y) <float[8,12] w>
    { y = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4, 4, 4], scale = 0.5>(x, w) }";

#[test]
fn attention_projects_integers() {
    for (graph, share) in [(ATTENTION, 0.02), (BARE, 0.02)] {
        let float = model(graph, 3);
        let given = samples(&float, 3, 8);
        for (weight, per_channel, symmetric, reduce_range) in [
            (DataType::Int8, true, false, false),
            (DataType::Int8, false, true, true),
            (DataType::Uint8, true, true, false),
            (DataType::Uint8, false, false, false),
        ] {
            let settings =
                Settings { weight, per_channel, symmetric, reduce_range, ..Settings::default() };
            let (quantized, done) = dynamic(&float, settings, Form::QLinear);
            assert_eq!(operators(&quantized), "DynamicQuantizeLinear QAttention");
            assert_eq!((done.layers.len(), done.left_in_float.len()), (1, 0), "{done:?}");
            let w = quantized.graph.value_named("w");
            let w = w.and_then(|v| quantized.graph[v].initializer());
            assert!(w.is_none(), "weights that nothing reads are gone");
            let (worst, largest) = difference(&float, &quantized, &given);
            let share = if reduce_range { 2.0 * share } else { share };
            assert!(worst > 0.0 && worst < share * largest, "{settings:?}: {worst} of {largest}");
        }
    }
}

/// With ranges from samples: pairs around the operator, and the operator on integers.
#[test]
fn attention_reads_ranges_of_samples() {
    for graph in [ATTENTION, BARE] {
        let float = model(graph, 3);
        let given = samples(&float, 3, 8);
        for (activation, weight, per_channel) in [
            (DataType::Uint8, DataType::Int8, true),
            (DataType::Uint8, DataType::Uint8, false),
            (DataType::Int8, DataType::Int8, true),
        ] {
            let settings = Settings { activation, weight, per_channel, ..Settings::default() };
            let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
            let (pairs, done) = quantized(&float, &request, &given);
            assert_eq!((done.layers.len(), done.left_in_float.len()), (1, 0), "{done:?}");
            let (worst, largest) = difference(&float, &pairs, &given);
            assert!(worst > 0.0 && worst < 0.03 * largest, "{settings:?}: {worst} of {largest}");
            let mut own = pairs.clone();
            let told = fold(&mut own);
            if activation == DataType::Int8 {
                assert!(told.left[0].1.contains("no kernel of QAttention"), "{told:?}");
                continue;
            }
            assert_eq!(operators(&own).matches(" QAttention").count(), 1, "{told:?}");
            assert!(infer(&mut own).0.is_empty() && verify(&own, VerifyLevel::Full).0.is_empty());
            let (worst, largest) = difference(&pairs, &own, &given);
            assert!(worst < 1e-5 * largest, "{worst} of {largest}");
            unfold(&mut own);
            assert_eq!(operators(&own).matches("Attention").count(), 1);
            assert!(!operators(&own).contains("QAttention"), "{}", operators(&own));
            assert!(infer(&mut own).0.is_empty() && verify(&own, VerifyLevel::Full).0.is_empty());
            let (worst, largest) = difference(&pairs, &own, &given);
            assert!(worst < 1e-5 * largest, "{worst} of {largest}");
        }
    }
    // A quantizer that writes weighted operators alone leaves what is no product in its sense.
    let request = QuantizeRequest { weighted_only: true, ..QuantizeRequest::default() };
    let float = model(ATTENTION, 3);
    let (_, done) = quantized(&float, &request, &samples(&float, 1, 8));
    assert!(done.layers.is_empty() && done.left_in_float.is_empty(), "{done:?}");
}

#[test]
fn attention_that_has_more_stays_in_float() {
    let sizes = "
        g (float[2,3,8] x) => (float[2,3,6] y) <float[8,14] w, float[14] b>
        { y = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4, 4, 6]>(x, w, b) }";
    let scores = "
        g (float[2,3,8] x) => (float[2,3,4] y) <float[8,12] w, float[2,2,3,3] s>
        { y = com.microsoft.Attention<num_heads = 2>(x, w, , , , s) }";
    let computed = "
        g (float[2,3,8] x, float[8,12] w) => (float[2,3,4] y)
        { y = com.microsoft.Attention<num_heads = 2>(x, w) }";
    for (graph, form, why) in [
        (sizes, Form::QLinear, "one size"),
        (scores, Form::QLinear, "no bias of scores"),
        (computed, Form::QLinear, "both factors are computed"),
        (BARE, Form::Qdq, "the standard has no attention"),
    ] {
        let float = model(graph, 3);
        let (same, done) = dynamic(&float, Settings::default(), form);
        assert_eq!(operators(&same), "Attention");
        let [left] = &done.left_in_float[..] else { panic!("{done:?}") };
        assert!(left.reason.contains(why), "{}", left.reason);
    }
    // The operator of the standard has no weights.
    let mut float = model(BARE, 3);
    let request = QuantizeRequest { exclude: vec!["*".into()], ..QuantizeRequest::default() };
    let done = quantize_dynamic(&mut float, &request, Form::QLinear).unwrap();
    assert!(done.layers.is_empty() && done.left_in_float.is_empty(), "{done:?}");
}

/// Ids from 0 to 4 follow from what `x` holds.
fn embeddings(segments: bool) -> String {
    let (seg, seg_table) = if segments { ("seg", "st") } else { ("", "") };
    let table = if segments { ", float[2,16] st" } else { "" };
    format!(
        "g (float[2,3] x) => (float[2,3,16] y)
         <float[5,16] wt, float[3,16] pt, float[16] gamma, float[16] beta, float k = {{4.9}}{table}>
         {{ a = Abs(x) f = Mul(a, k) ids = Cast<to = 6>(f) r = Relu(x) s = Ceil(r)
            seg = Cast<to = 6>(s)
            y, m = com.microsoft.EmbedLayerNormalization(ids, {seg}, wt, pt, {seg_table}, gamma,
                beta) }}"
    )
}

#[test]
fn embeddings_have_tables_of_integers() {
    for segments in [true, false] {
        let float = model(&embeddings(segments), 3);
        let given = samples(&float, 3, 8);
        for symmetric in [true, false] {
            let settings = Settings { symmetric, ..Settings::default() };
            let (quantized, done) = dynamic(&float, settings, Form::QLinear);
            let found = operators(&quantized);
            assert!(found.contains("QEmbedLayerNormalization"), "{found}");
            assert_eq!(done.tensors.len(), 4 + usize::from(segments));
            let (worst, largest) = difference(&float, &quantized, &given);
            assert!(worst > 0.0 && worst < 0.03 * largest, "{worst} of {largest}");
        }
        let (_, done) = dynamic(&float, Settings::default(), Form::Qdq);
        assert_eq!(done.left_in_float[0].reason, "the standard has no embeddings on integers");
    }
}

#[test]
fn embeddings_that_give_more_stay_in_float() {
    let sum = "
        g (int32[2,3] ids) => (float[2,3,16] y, float[2,3,16] s)
        <float[5,16] wt, float[3,16] pt, float[16] gamma, float[16] beta>
        { y, m, s = com.microsoft.EmbedLayerNormalization(ids, , wt, pt, , gamma, beta) }";
    let places = "
        g (int32[2,3] ids, int32[2,3] at) => (float[2,3,16] y)
        <float[5,16] wt, float[3,16] pt, float[16] gamma, float[16] beta>
        { y, m = com.microsoft.EmbedLayerNormalization(ids, , wt, pt, , gamma, beta, , at) }";
    for (graph, why) in [(sum, "does not give the sum"), (places, "counts positions")] {
        let (_, done) = dynamic(&model(graph, 3), Settings::default(), Form::QLinear);
        assert!(done.left_in_float[0].reason.contains(why), "{done:?}");
    }
}
