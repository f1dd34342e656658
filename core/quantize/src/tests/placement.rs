//! Where pairs go, and that what they change stays small.

use super::{difference, model, operators, outputs, quantized, samples};
use crate::emit::{Ranges, place};
use crate::plan::{Overrides, QuantizeRequest, Settings, plan};
use onnxd_ir::{DataType, Tensor};
use onnxd_params::words::Mode;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CNN: &str = "
net (float[1,3,8,8] x) => (float[1,5] y)
<float[4,3,3,3] w1, float[4] b1, float[4,1,3,3] w2, float[4,4,1,1] w3, float[5,64] w4, float[5] b4>
{
  c1 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w1, b1)
  r1 = Relu(c1)
  c2 = Conv<group = 4, kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(r1, w2)
  c3 = Conv<kernel_shape = [1, 1]>(c2, w3)
  s = Add(c3, r1)
  r3 = Relu(s)
  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r3)
  f = Flatten(p)
  y = Gemm<alpha = 0.5, beta = 2.0, transB = 1>(f, w4, b4)
}";

const BLOCK: &str = "
net (float[2,3,8] x) => (float[2,3,8] y)
<float[8] g, float[8,8] wq, float[8] bq, float[8,8] wk, float[8,8] wo>
{
  n = LayerNormalization(x, g)
  q0 = MatMul(n, wq)
  q = Add(q0, bq)
  k0 = MatMul(n, wk)
  k = Transpose<perm = [0, 2, 1]>(k0)
  a = MatMul(q, k)
  s = Softmax(a)
  h = MatMul(s, n)
  o = MatMul(h, wo)
  y = Add(o, x)
}";

#[test]
fn convolutions_pass_integers_on() {
    let float = model(CNN, 1);
    let given = samples(&float, 4, 2);
    let (quantized, done) = quantized(&float, &QuantizeRequest::default(), &given);
    // Both clamps are gone; the last product gives its sums as they are; what goes through the pool
    // and is flattened keeps its scale; the weights and biases of four weighted operators are integers.
    let ops = operators(&quantized);
    let count = |op: &str| ops.split(' ').filter(|o| *o == op).count();
    assert_eq!((count("Relu"), count("Q")), (0, 7), "{ops}");
    assert_eq!(count("D"), 7 + 4 + 2, "{ops}");
    assert!(done.left_in_float.is_empty());
    assert_eq!(done.layers.len(), 4);
    let by_name = |name: &str| done.tensors.iter().find(|t| t.name == name).unwrap();
    assert_eq!(by_name("p").scales, by_name("r3").scales);
    assert_eq!(by_name("f").scales, by_name("r3").scales);
    assert_eq!(by_name("r1").zero_points, [0], "what a clamp leaves is not negative");
    assert_eq!(by_name("w1").scales.len(), 4);
    let (worst, largest) = difference(&float, &quantized, &given);
    assert!(worst < 0.03 * largest, "{worst} of {largest}");
}

#[test]
fn products_alone_leave_all_else_in_float() {
    let float = model(CNN, 1);
    let given = samples(&float, 4, 2);
    let request = QuantizeRequest { weighted_only: true, ..QuantizeRequest::default() };
    let (quantized, done) = quantized(&float, &request, &given);
    let ops = operators(&quantized);
    let count = |op: &str| ops.split(' ').filter(|o| *o == op).count();
    // The inputs of the first convolution, the second and the last product, and four results; the
    // result of `c2` is the input of `c3`.
    assert_eq!((count("Relu"), count("Q"), count("D")), (2, 7, 7 + 4 + 2), "{ops}");
    assert_eq!(done.layers.len(), 4);
    let graph = &quantized.graph;
    let reads = |name: &str| {
        let node = &graph[graph.producer(graph.value_named(name).unwrap()).unwrap()];
        let inputs = node.inputs.iter().flatten();
        inputs.map(|v| graph[*v].name.as_str()).collect::<Vec<_>>()
    };
    // The sum reads the clamp's float, not what was rounded for the second convolution.
    assert_eq!(reads("s"), ["c3", "r1"]);
    assert_eq!(reads("p"), ["r3"]);
    assert_eq!(reads("y"), ["y_quantized", "y_scale", "y_zero_point"]);
    let (worst, largest) = difference(&float, &quantized, &given);
    assert!(worst < 0.03 * largest, "{worst} of {largest}");
}

#[test]
fn sums_and_normalizations_of_a_transformer_stay_as_they_are() {
    let float = model(BLOCK, 3);
    let given = samples(&float, 4, 4);
    let (quantized, done) = quantized(&float, &QuantizeRequest::default(), &given);
    // One pair for the input of two weighted operators, one for that of the third.
    let ops = operators(&quantized);
    assert_eq!(ops.split(' ').filter(|o| *o == "Q").count(), 2, "{ops}");
    let left: Vec<&str> = done.left_in_float.iter().map(|l| l.at.as_str()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // The product of attention reads what was computed, not what was rounded for others.
    let graph = &quantized.graph;
    let h = graph.producer(graph.value_named("h").unwrap()).unwrap();
    assert_eq!(graph[graph[h].input(1).unwrap()].name, "n");
    let (worst, largest) = difference(&float, &quantized, &given);
    assert!(worst < 0.03 * largest, "{worst} of {largest}");
}

#[test]
fn nodes_stay_in_float_on_demand() {
    let float = model(CNN, 1);
    let given = samples(&float, 2, 2);
    let exclude = vec!["c*".to_owned()];
    let request = QuantizeRequest { exclude, ..QuantizeRequest::default() };
    let (quantized_model, done) = quantized(&float, &request, &given);
    assert_eq!(done.layers.len(), 1);
    assert_eq!(done.left_in_float.len(), 3);
    let ops = operators(&quantized_model);
    assert_eq!(ops.matches("Relu").count(), 2, "{ops}");
    let none = QuantizeRequest { op_types: vec!["LSTM".into()], ..QuantizeRequest::default() };
    let (same, done) = quantized(&float, &none, &given);
    assert_eq!((operators(&same), done.layers.len()), (operators(&float), 0));
}

#[test]
fn a_bias_keeps_its_size() {
    let net = "
        net (float[1,2] x) => (float[1,3] y) <float[3,2] w, float[3] b>
        { y = Gemm<transB = 1>(x, w, b) }";
    let mut float = model(net, 1);
    let set = |m: &mut onnxd_ir::Model, name: &str, data: Tensor| {
        let v = m.graph.value_named(name).unwrap();
        m.graph.set_initializer(v, Some(data));
    };
    // No weight at all, a weight so small that the bias would not fit 32 bits, and a usual one.
    let w = vec![0.0, 0.0, 1e-9, 1e-9, 1.0, -1.0f32];
    set(&mut float, "w", Tensor::from_vec([3, 2], w));
    set(&mut float, "b", Tensor::vector(vec![0.3, 5.0, 0.1f32]));
    let given = samples(&float, 4, 2);
    for per_channel in [true, false] {
        let settings = crate::plan::Settings { per_channel, ..crate::plan::Settings::default() };
        let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        let (quantized, _) = quantized(&float, &request, &given);
        let y = outputs(&quantized, &given[0])[0].1.to_reals().unwrap().values;
        assert!((y[0] - 0.3).abs() < 1e-4, "{y:?}");
        assert!((y[1] - 5.0).abs() < 1e-4, "{y:?}");
    }
}

#[test]
fn what_cannot_be_quantized_is_not_touched() {
    let net = "
        net (float[1,2] x) => (float[1,2] y, float[1,2] z)
        <float[2,2] w = {1.0, nan, 2.0, 3.0}, float[2,2] v, float[2] b = {inf, 0.0}>
        { y = MatMul(x, w) z = Gemm(x, v, b) }";
    let float = model(net, 1);
    let (same, done) = quantized(&float, &QuantizeRequest::default(), &samples(&float, 1, 2));
    assert_eq!(operators(&same), operators(&float));
    let reasons: Vec<&str> = done.left_in_float.iter().map(|l| l.reason.as_str()).collect();
    assert!(reasons.iter().all(|why| why.contains("finite")) && reasons.len() == 2, "{reasons:?}");
}

/// See [`crate::emit::keep_bias_unfused`].
#[test]
fn vectors_added_to_products_of_integers_get_axes() {
    let settings =
        crate::plan::Settings { activation: DataType::Int8, ..crate::plan::Settings::default() };
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    for (opset, dims) in [(17, vec![1, 1, 8]), (21, vec![1, 1, 8])] {
        let mut float = model(BLOCK, 3);
        float.opsets.insert(String::new(), opset);
        let given = samples(&float, 2, 4);
        let (mut made, _) = quantized(&float, &request, &given);
        let before = outputs(&made, &given[0]);
        crate::emit::keep_bias_unfused(&mut made);
        let graph = &made.graph;
        let add = graph.producer(graph.value_named("q").unwrap()).unwrap();
        let bias = graph.constant(graph[add].input(1).unwrap()).unwrap();
        assert_eq!(bias.dims(), dims, "opset {opset}");
        assert_eq!(outputs(&made, &given[0]), before);
    }
    // Where sizes are known, those of unsigned ones too.
    for (sizes, dims) in [("1,4,8", vec![1, 1, 8]), ("n,4,8", vec![8])] {
        let text = format!(
            "g (float[{sizes}] x) => (float[{sizes}] y) <float[8,8] w, float[8] b>
             {{ p = MatMul(x, w) y = Add(p, b) }}"
        );
        let float = model(&text, 3);
        let given = samples(&model(&text.replace("n,", "2,"), 3), 2, 4);
        let (mut made, _) = quantized(&float, &QuantizeRequest::default(), &given);
        crate::emit::keep_bias_unfused(&mut made);
        let graph = &made.graph;
        let add = graph.producer(graph.value_named("y").unwrap()).unwrap();
        assert_eq!(graph.constant(graph[add].input(1).unwrap()).unwrap().dims(), dims, "{sizes}");
    }
    let text = "g (float[1,2,3] x, float[1] b) => (float[1,2,1] y) <float[3,1] w>
        { p = MatMul(x, w) y = Add(b, p) }";
    let mut float = model(text, 3);
    float.opsets.insert(String::new(), 21);
    let given = samples(&float, 2, 4);
    let (mut made, _) = quantized(&float, &request, &given);
    let before = outputs(&made, &given[0]);
    crate::emit::keep_bias_unfused(&mut made);
    assert!(operators(&made).contains("Unsqueeze"));
    assert_eq!(outputs(&made, &given[0]), before);
}

fn requests() -> impl Strategy<Value = QuantizeRequest> {
    let types = prop::sample::select(vec![DataType::Uint8, DataType::Int8]);
    let made = (types.clone(), types, any::<bool>(), any::<bool>(), any::<bool>());
    made.prop_map(|(activation, weight, per_channel, symmetric, over)| {
        let settings = crate::plan::Settings {
            activation,
            weight,
            per_channel,
            symmetric,
            ..crate::plan::Settings::default()
        };
        let mut request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        if over {
            let tensor = Overrides { per_channel: Some(false), ..Overrides::default() };
            request.overrides.insert("c2".into(), tensor);
        }
        request
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A valid graph, near the float one, for all settings.
    #[test]
    fn all_settings_stay_near(request in requests(), seed in 0u64..1000, block: bool) {
        let float = model(if block { BLOCK } else { CNN }, seed);
        let given = samples(&float, 3, seed + 1);
        let (quantized, _) = quantized(&float, &request, &given);
        let (worst, largest) = difference(&float, &quantized, &given);
        prop_assert!(worst < 0.15 * largest, "{} of {}", worst, largest);
    }
}

#[test]
fn signed_activations_take_signed_weights() {
    let float = model("g (float[2,4] x) => (float[2,3] y) <float[4,3] w> { y = MatMul(x, w) }", 3);
    for (activation, weight, found) in [
        (DataType::Int8, DataType::Uint8, DataType::Int8),
        (DataType::Int16, DataType::Uint16, DataType::Int16),
        (DataType::Uint8, DataType::Uint8, DataType::Uint8),
        (DataType::Int8, DataType::Uint4, DataType::Uint4),
    ] {
        let settings = Settings { activation, weight, ..Settings::default() };
        let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        let plan = plan(&float.graph, &request, &BTreeSet::new());
        let done = place(&mut float.graph.clone(), &plan, &Ranges::new(), "");
        assert_eq!(done.tensors[1].element_type, found.to_string());
        assert_eq!(done.signed, usize::from(found != weight));
    }
}

#[test]
fn operators_without_integers_are_known() {
    let op_types = ["Conv", "GRU", "Add", "Relu", "Gather"].map(str::to_owned).to_vec();
    let request = QuantizeRequest { op_types, ..QuantizeRequest::default() };
    assert_eq!(request.idle_types(Mode::Static), ["GRU"]);
    assert_eq!(request.idle_types(Mode::Dynamic), ["GRU", "Add", "Relu"]);
    assert_eq!(request.idle_types(Mode::WeightOnly), ["Conv", "GRU", "Add", "Relu"]);
}

#[test]
fn products_in_local_functions_are_named() {
    let text = "f (x, w) => (y) { m = MatMul(x, w) y = Relu(m) }";
    let mut float =
        model("g (float[2,4] x) => (float[2,3] y) <float[4,3] w> { y = MatMul(x, w) }", 3);
    let graph = onnxd_ir::text::parse_graph(text).unwrap();
    let name = "Linear".to_owned();
    float.functions.push(onnxd_ir::Function { name, graph, ..Default::default() });
    let mut done = crate::report::Report::default();
    done.leave_functions(&float);
    let [left] = &done.left_in_float[..] else { panic!("{done:?}") };
    assert!(left.reason.contains("Linear") && left.at.contains("MatMul"), "{left:?}");
}
