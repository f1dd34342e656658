//! Networks that say what they compute in other ways than most are quantized like them: with local
//! functions, and in other types than `float32`. Inputs that are no tensors are compared like others.

use onnxd_integration_tests::{converted, folder_with};
use onnxd_ir::{DataType, Model, Reals, Tensor, ValueType, text};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::Value;
use tempfile::TempDir;

const NETWORK: &str = r#"<ir_version: 10, opset_import: ["" : 17, "l" : 1]>
net (T[n,2,6,6] x) => (T[n,8] y) <T[4,2,3,3] w1, T[4,4,3,3] w2, T[36,8] w3> {
  c1 = l.Layer <slope = 0.1> (x, w1)
  c2 = l.Layer (c1, w2)
  p = AveragePool <kernel_shape = [2,2], strides = [2,2]> (c2)
  f = Flatten (p)
  y = l.Linear (f, w3)
}
<domain: "l", opset_import: ["" : 17]> Bent <slope: float = 0.2> (a) => (b) {
  b = LeakyRelu <alpha: float = @slope> (a)
}
<domain: "l", opset_import: ["" : 17, "l" : 1]> Layer <slope: float = 0.3> (a, w) => (b) {
  c = Conv <pads = [1,1,1,1]> (a, w)
  b = l.Bent <slope: float = @slope> (c)
}
<domain: "l", opset_import: ["" : 17]> Linear (a, w, b) => (c) { c = Gemm (a, w, b) }"#;

/// A folder with the network in a type, and samples.
fn network(dtype: DataType) -> TempDir {
    let folder = folder_with(&[
        "libonnxd_frontend_onnx.so", "libonnxd_passes_cleanup.so", "libonnxd_passes_fusion.so",
        "libonnxd_passes_layout.so", "libonnxd_quant_onnx.so", "libonnxd_quant_inc.so",
    ]);
    let numbers = |dims: Vec<usize>, seed: u64| {
        let one = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed << 40) >> 44;
        let count = dims.iter().product::<usize>() as u64;
        Reals { dims, values: (0..count).map(|i| one(i * i) as f64 / 524_288.0 - 1.0).collect() }
    };
    // Convolutions of bfloat16 came with opset 22.
    let opset = if dtype == DataType::Bfloat16 { 22 } else { 17 };
    let text = NETWORK.replace("T[", &format!("{dtype}[")).replace(": 17", &format!(": {opset}"));
    let mut model = text::parse_model(&text).unwrap_or_else(|d| panic!("{d}"));
    for (name, dims, seed) in
        [("w1", vec![4, 2, 3, 3], 1), ("w2", vec![4, 4, 3, 3], 2), ("w3", vec![36, 8], 3)]
    {
        let w = model.graph.value_named(name).unwrap();
        model.graph.set_initializer(w, numbers(dims, seed).to_tensor(dtype));
    }
    write_model(&model, &folder.path().join("net.onnx"), &WriteOptions::default()).unwrap();
    let samples = numbers(vec![32, 2, 6, 6], 4).to_tensor(DataType::Float).unwrap();
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    folder
}

/// The result of a quantization, and its report.
fn quantized(folder: &TempDir, sets: &[&str]) -> (Model, Value) {
    let files = ["net.onnx", "calib.npz"];
    let (status, stderr, report) = converted(folder.path(), "out", &files, sets);
    assert!(status <= 1, "{sets:?}: {stderr}");
    (onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model, report)
}

const WAYS: [[&str; 2]; 6] = [
    ["quantization.format=QDQ", "quantization.mode=static"],
    ["quantization.format=QLinear", "quantization.mode=static"],
    ["quantization.format=inc-qdq", "quantization.mode=static"],
    ["quantization.format=QDQ", "quantization.mode=dynamic"],
    ["quantization.format=QLinear", "quantization.mode=dynamic"],
    ["quantization.format=QDQ", "quantization.mode=weight_only"],
];

#[test]
fn functions_are_inlined_where_a_network_is_quantized() {
    let folder = network(DataType::Float);
    for way in WAYS {
        let (model, report) = quantized(&folder, &way);
        assert_eq!(model.functions.len(), 0, "{way:?}");
        let pass = &report["passes"][0];
        let told = "inlined functions: 3; nodes that applied them: 5";
        assert_eq!((&pass["name"], &pass["notes"][0]), (&"inline-functions".into(), &told.into()));
        let quality = &report["quantization"]["quality"];
        let some = quality["quantized"].as_u64().unwrap();
        assert!(
            some == 3 || way[1].ends_with("only") || way[0].ends_with("inc-qdq"),
            "{way:?} {quality}"
        );
        assert!(quality["sqnr_db"].as_f64().unwrap() > 25.0, "{way:?} {quality}");
    }
    let (model, report) = quantized(&folder, &["quantization.format=none"]);
    assert_eq!(model.functions.len(), 3, "a float model keeps them");
    assert!(!report["passes"].to_string().contains("inline-functions"), "{report}");
    let (model, report) = quantized(&folder, &[WAYS[0][0], "passes.disable=inline-functions"]);
    assert_eq!(model.functions.len(), 3);
    let said = report["quantization"]["left_in_float"].to_string();
    assert!(said.contains("it stands in the local function `Layer`"), "{said}");
}

#[test]
fn other_types_are_computed_in_float32() {
    for dtype in [DataType::Double, DataType::Bfloat16] {
        let folder = network(dtype);
        for way in WAYS {
            let (model, report) = quantized(&folder, &way);
            let graph = &model.graph;
            let ends = graph.inputs().iter().chain(graph.outputs());
            for v in ends {
                let ty = graph[*v].ty.as_ref().and_then(ValueType::dtype);
                assert_eq!(ty, Some(dtype), "{way:?} {}", graph[*v].name);
            }
            let quality = &report["quantization"]["quality"];
            assert!(quality["quantized"].as_u64().unwrap() > 0, "{way:?} {quality}");
            assert!(quality["sqnr_db"].as_f64().unwrap() > 25.0, "{dtype} {way:?} {quality}");
            let said = report["diagnostics"].to_string();
            let told = format!("what the model computes in {dtype} is computed in float32");
            assert!(said.contains(&told), "{way:?} {said}");
        }
    }
}

#[test]
fn sequences_and_maps_are_references_of_a_drop() {
    let folder = folder_with(&["libonnxd_frontend_onnx.so"]);
    let text = r#"<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        net (seq(float[n, 2]) xs, map(int64, float) m) => (float[k, 2] y, float[1, l] v) {
            y = ConcatFromSequence <axis = 0> (xs)
            v = ai.onnx.ml.CastMap <cast_to = "TO_FLOAT", map_form = "SPARSE", max_map = 4> (m)
        }"#;
    let model = text::parse_model(text).unwrap();
    write_model(&model, &folder.path().join("net.onnx"), &WriteOptions::default()).unwrap();
    let write = |name: &str, arrays: &[(&str, Tensor)]| {
        let arrays = arrays.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect();
        onnxd_arrays::write(&folder.path().join(name), &arrays).unwrap();
    };
    let inputs = [
        ("xs.0", Tensor::from_vec(vec![1, 2], vec![1f32, 2.0])),
        ("xs.1", Tensor::from_vec(vec![1, 2], vec![3f32, 4.0])),
        ("m.keys", Tensor::vector(vec![3i64, 1])),
        ("m.values", Tensor::vector(vec![0.5f32, -2.0])),
    ];
    let y = Tensor::from_vec(vec![2, 2], vec![1f32, 2.0, 3.0, 4.0]);
    let files = ["net.onnx", "inputs.npz", "outputs.npz"];
    for (last, expected) in [(0.5f32, 0), (0.75, 1)] {
        let v = Tensor::from_vec(vec![1, 4], vec![0.0, -2.0, 0.0, last]);
        write("inputs.npz", &inputs);
        write("outputs.npz", &[("y", y.clone()), ("v", v)]);
        let (status, stderr, report) =
            converted(folder.path(), "out", &files, &["passes.profile=none"]);
        assert_eq!(status, expected, "{stderr}");
        let rows = report["numerics"]["outputs"].as_array().unwrap();
        let within: Vec<bool> = rows.iter().map(|row| row["within"].as_bool().unwrap()).collect();
        assert_eq!(within, [true, expected == 0], "{report}");
    }
    write("inputs.npz", &inputs[..3]);
    let (_, _, report) = converted(folder.path(), "out", &files, &["passes.profile=none"]);
    let said = report["diagnostics"].to_string();
    assert!(said.contains("its arrays are `m.keys` and `m.values`"), "{said}");
}
