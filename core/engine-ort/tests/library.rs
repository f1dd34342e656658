//! ONNX Runtime against the built-in executor. What needs the library says that it is skipped
//! where there is none; `ORT_DYLIB_PATH` names it.

use onnxd_engine_ort::{OnnxRuntime, Optimization, OrtLibrary, OrtOptions};
use onnxd_eval::{Builtin, Engine, Observer, RunOptions};
use onnxd_ir::text::parse_model;
use onnxd_ir::{DataType, Model, Tensor};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn engine(options: OrtOptions) -> Option<OnnxRuntime> {
    match OrtLibrary::load(None) {
        Ok(library) => Some(OnnxRuntime::new(library, options)),
        Err(why) => {
            eprintln!("SKIPPED, because {why}");
            None
        }
    }
}

type Feeds = BTreeMap<String, Tensor>;

fn feeds(list: &[(&str, Tensor)]) -> Feeds {
    list.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect()
}

/// Everything that is fed or computed, by name.
fn everything(engine: &dyn Engine, model: &Model, feeds: &Feeds) -> (Feeds, Feeds) {
    let mut seen = Feeds::new();
    let mut observer = |name: &str, tensor: &Tensor| {
        let other = seen.insert(name.to_owned(), tensor.clone());
        assert!(other.is_none(), "{name} is shown once");
    };
    let mut prepared = engine.prepare(model).unwrap();
    let options = RunOptions { observer: Some(&mut observer), ..RunOptions::default() };
    let outputs = prepared.run(feeds, options).unwrap();
    let again = prepared.run(feeds, RunOptions::default()).unwrap();
    assert_eq!(outputs, again);
    (outputs.into_iter().collect(), seen)
}

const NETWORK: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
main (float[N, 4, 8, 8] x, float[1] gain) => (float[N, 64] y, bool[N, 64] positive, float[N, 64] z)
<float[1] gain = {2.0}> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w)
    b = Relu (a)
    p = GlobalAveragePool (b)
    y = Flatten (p)
    zero = Constant <value_float = 0.1> ()
    positive = Greater (y, zero)
    n = Shape (y)
    q = Cast <to = 3> (y)
    z = Mul (y, gain)
}"#;

/// The network with weights that are given apart from the message.
fn network() -> (Model, Feeds) {
    let mut model = parse_model(&NETWORK.replace("(x, w)", "(x, x)")).unwrap();
    let wave = |n: usize| (0..n).map(|i| (i as f32 * 0.37).sin()).collect::<Vec<f32>>();
    let weights = Tensor::from_vec(vec![64, 4, 3, 3], wave(2304));
    let w = model.graph.add_initializer("w", weights);
    let conv = model.graph.nodes().find(|(_, n)| n.op == "Conv").map(|(id, _)| id).unwrap();
    model.graph.set_input(conv, 1, Some(w));
    (model, feeds(&[("x", Tensor::from_vec(vec![3, 4, 8, 8], wave(768)))]))
}

fn near(a: &Tensor, b: &Tensor) {
    assert_eq!((a.dtype(), a.dims()), (b.dtype(), b.dims()));
    let (a, b) = (a.to_reals().unwrap(), b.to_reals().unwrap());
    assert!(a.values.iter().zip(&b.values).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn all_values_are_those_of_the_builtin_engine() {
    let (model, feeds) = network();
    let (outputs, values) = everything(&Builtin, &model, &feeds);
    for watched_bytes_max in [1, 2000, 1 << 30] {
        let options = OrtOptions { watched_bytes_max, ..OrtOptions::default() };
        let Some(engine) = engine(options) else { return };
        let (found, seen) = everything(&engine, &model, &feeds);
        assert_eq!(seen.keys().collect::<Vec<_>>(), values.keys().collect::<Vec<_>>());
        outputs.iter().for_each(|(name, y)| near(&found[name], y));
        values.iter().for_each(|(name, y)| near(&seen[name], y));
    }
}

#[test]
fn unwanted_values_are_not_shown() {
    struct Only<'a>(&'a str, Vec<String>);
    impl Observer for Only<'_> {
        fn wants(&mut self, value: &str) -> bool {
            value == self.0
        }
        fn see(&mut self, value: &str, _: &Tensor) {
            self.1.push(value.to_owned());
        }
    }
    let (model, feeds) = network();
    let Some(engine) = engine(OrtOptions::default()) else { return };
    for name in ["b", "x", "y", "z"] {
        let mut only = Only(name, Vec::new());
        let options = RunOptions { observer: Some(&mut only), ..RunOptions::default() };
        let outputs = engine.prepare(&model).unwrap().run(&feeds, options).unwrap();
        assert_eq!(outputs.len(), 3);
        assert_eq!(only.1, [name]);
    }
}

#[test]
fn every_level_of_optimization_and_number_of_threads_runs() {
    let (model, feeds) = network();
    let (outputs, _) = everything(&Builtin, &model, &feeds);
    use Optimization::{All, Basic, Extended, Off};
    for (optimization, threads) in [(Off, 1), (Basic, 2), (Extended, 1), (All, 2)] {
        let options = OrtOptions { optimization, threads, ..OrtOptions::default() };
        let Some(engine) = engine(options) else { return };
        assert!(engine.version().starts_with("1."), "{}", engine.version());
        let found = engine.prepare(&model).unwrap().run(&feeds, RunOptions::default()).unwrap();
        found.iter().for_each(|(name, y)| near(y, &outputs[name]));
    }
}

/// Weights of every type, large enough to be given apart from the message.
#[test]
fn weights_of_every_type_arrive() {
    use DataType as T;
    let types = [
        T::Float,
        T::Double,
        T::Float16,
        T::Bfloat16,
        T::Int8,
        T::Uint8,
        T::Int16,
        T::Uint16,
        T::Int32,
        T::Uint32,
        T::Int64,
        T::Uint64,
        T::Bool,
    ];
    for dtype in types {
        let data = (0..8192 * dtype.bits() / 8).map(|i| (i % 3 == 0) as u8).collect();
        let weights = Tensor::new(dtype, vec![2, 4096], data).unwrap();
        let mut graph = onnxd_ir::Graph::new("g");
        let w = graph.add_initializer("w", weights.clone());
        let y = graph.add_value("y", Some(onnxd_ir::ValueType::tensor(dtype, [2, 4096])));
        graph.add_node(onnxd_ir::Node::new("Identity", [w], [y]));
        graph.mark_output(y);
        let model = Model::new(graph, 8, 17);
        let Some(engine) = engine(OrtOptions::default()) else { return };
        let mut prepared = engine.prepare(&model).unwrap();
        let found = prepared.run(&Feeds::new(), RunOptions::default()).unwrap();
        assert_eq!(found[0].1, weights, "{dtype}");
    }
}

#[test]
fn strings_and_empty_tensors_pass() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        main (string[N] s, float[M, 0] e) => (string[N] t, float[K] f) {
            t = Identity (s)
            shape = Constant <value_ints = [-1]> ()
            f = Flatten_ (e)
        }"#
    .replace("Flatten_ (e)", "Reshape <allowzero = 0> (e, zero)")
    .replace("shape = Constant <value_ints = [-1]>", "zero = Constant <value_ints = [0]>");
    let model = parse_model(&text).unwrap();
    let strings = ["a", "", "Grüße"].map(bytes::Bytes::from).to_vec();
    let feeds = feeds(&[
        ("s", Tensor::strings(vec![3], strings.clone()).unwrap()),
        ("e", Tensor::new(DataType::Float, vec![0, 0], bytes::Bytes::new()).unwrap()),
    ]);
    let Some(engine) = engine(OrtOptions::default()) else { return };
    let found = engine.prepare(&model).unwrap().run(&feeds, RunOptions::default()).unwrap();
    assert_eq!(found[0].1.as_strings(), Some(strings.as_slice()));
    assert_eq!(found[1].1.dims(), [0]);
}

#[test]
fn what_is_wrong_is_said() {
    let (mut model, wrong) = network();
    let Some(engine) = engine(OrtOptions::default()) else { return };
    let inputs = feeds(&[("x", Tensor::scalar(1f32)), ("w", Tensor::scalar(1f32))]);
    let found = engine.prepare(&model).unwrap().run(&inputs, RunOptions::default()).unwrap_err();
    assert_eq!(found.0.iter().map(|d| d.code.as_ref()).collect::<Vec<_>>(), ["N0507"; 2]);
    drop(wrong);
    let id = model.graph.node_ids()[1];
    model.graph.node_mut(id).op = "Frobnicate".into();
    let found = engine.prepare(&model).err().unwrap();
    assert_eq!(found.0[0].code, "N0509");
    assert!(found.0[0].message.contains("Frobnicate"), "{found}");
}

#[test]
fn sequences_and_maps_are_given_by_their_parts() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        main (seq(float[n, 2]) xs, map(int64, float) m, map(string, double) w)
            => (float[k, 2] y, seq(float[n, 2]) zs, float[1, l] v, double[1, 2] u) {
            y = ConcatFromSequence <axis = 0> (xs)
            p = Constant <value_int = 0> ()
            zs = SequenceErase (xs, p)
            v = ai.onnx.ml.CastMap <cast_to = "TO_FLOAT", map_form = "SPARSE", max_map = 6> (m)
            u = ai.onnx.ml.DictVectorizer <string_vocabulary = ["b", "a"]> (w)
        }"#;
    let model = parse_model(text).unwrap();
    let words = Tensor::strings(vec![2], ["a", "b"].map(bytes::Bytes::from).to_vec()).unwrap();
    let inputs = feeds(&[
        ("xs.0", Tensor::from_vec(vec![1, 2], vec![1f32, 2.0])),
        ("xs.1", Tensor::from_vec(vec![2, 2], vec![3f32, 4.0, 5.0, 6.0])),
        ("m.keys", Tensor::vector(vec![4i64, 1])),
        ("m.values", Tensor::vector(vec![0.5f32, -2.0])),
        ("w.keys", words),
        ("w.values", Tensor::vector(vec![0.25f64, 8.0])),
    ]);
    let Some(engine) = engine(OrtOptions::default()) else { return };
    let (outputs, seen) = everything(&Builtin, &model, &inputs);
    let (found, same) = everything(&engine, &model, &inputs);
    assert_eq!(outputs, found);
    assert_eq!(outputs["y"].dims(), [3, 2]);
    assert_eq!(outputs["v"].to_reals().unwrap().values, [0.0, -2.0, 0.0, 0.0, 0.5, 0.0]);
    assert_eq!(outputs["u"].to_reals().unwrap().values, [8.0, 0.25]);
    assert!(same.iter().all(|(name, tensor)| seen[name] == *tensor), "{same:?} {seen:?}");
}

#[test]
fn a_sequence_without_elements_is_refused() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        main (seq(float[n]) xs) => (int64 n) { n = SequenceLength (xs) }"#;
    let model = parse_model(text).unwrap();
    let Some(engine) = engine(OrtOptions::default()) else { return };
    let mut prepared = engine.prepare(&model).unwrap();
    let found = prepared.run(&Feeds::new(), RunOptions::default()).unwrap_err();
    assert_eq!(found.0[0].code, "N0509");
    assert!(found.0[0].message.contains("`xs` is a sequence without elements"), "{found}");
}

#[test]
fn an_endless_loop_is_stopped() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        main (float[2] x) => (float[2] y) {
            c = Constant <value = bool {1}> ()
            y = Loop (, c, x) <body = b (int64 i, bool keep, float[2] s) => (bool more, float[2] t) {
                more = Identity (keep)
                t = Neg (s)
            }>
        }"#;
    let model = parse_model(text).unwrap();
    let Some(engine) = engine(OrtOptions::default()) else { return };
    let begun = Instant::now();
    let stop = || begun.elapsed() > Duration::from_millis(50);
    let options = RunOptions { stop: Some(&stop), ..RunOptions::default() };
    let inputs = feeds(&[("x", Tensor::vector(vec![1f32, 2.0]))]);
    let found = engine.prepare(&model).unwrap().run(&inputs, options).unwrap_err();
    assert_eq!(found.0[0].code, "N0309");
}

#[test]
fn a_library_that_is_none_is_an_error() {
    let folder = std::env::current_exe().unwrap();
    // A library is loaded once, so it must not be there yet; other tests may have been faster.
    let found = std::process::Command::new(folder)
        .args(["--exact", "in_a_process_of_its_own", "--ignored"])
        .env("ORT_DYLIB_PATH", "/nonexistent/libonnxruntime.so")
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
}

#[test]
#[ignore = "run by another test"]
fn in_a_process_of_its_own() {
    let found = OrtLibrary::load(None).unwrap_err();
    assert_eq!(found.code, "N0310");
    assert!(found.message.contains("/nonexistent/"), "{found}");
    assert!(found.help.contains("ORT_DYLIB_PATH"), "{found}");
    let system = std::path::Path::new("libc.so.6");
    let found = OrtLibrary::load(Some(system)).unwrap_err();
    assert!(found.message.contains("is not a library of ONNX Runtime"), "{found}");
}
