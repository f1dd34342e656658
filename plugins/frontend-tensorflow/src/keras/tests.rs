use super::fixture::{self, FUNCTIONAL, OLD, SEQUENCE};
use super::hdf5::Hdf5;
use super::{config, converted, import, import_hdf5};
use crate::states::tests as testing;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{DataType, Graph, Tensor, VerifyLevel, verify};
use onnxd_plugin_sdk::{ExportOptions, Imported};

fn read(config: &str, groups: &fixture::Groups<'_>) -> Result<Imported, Diagnostics> {
    read_for(18, config, groups)
}

fn read_for(
    opset: i64,
    config: &str,
    groups: &fixture::Groups<'_>,
) -> Result<Imported, Diagnostics> {
    let file = fixture::archive(config, &fixture::weights(groups));
    import(file.into(), &ExportOptions::of_shapes(opset, vec![]))
}

const DENSE: (&str, &[(&str, &[u64])]) = ("layers/dense/vars", &[("0", &[4, 3]), ("1", &[3])]);

fn graph(config: &str) -> Graph {
    let found = read(config, &[DENSE]).map_err(|e| e.to_string()).unwrap();
    let findings = verify(&found.model, VerifyLevel::Full);
    assert!(findings.0.is_empty(), "{findings}");
    found.model.graph
}

fn refusals(config: &str) -> Vec<String> {
    let found = read(config, &[DENSE]).map(|_| ()).unwrap_err();
    found.0.into_iter().map(|found| format!("{} {}", found.code, found.message)).collect()
}

fn ops(graph: &Graph) -> Vec<String> {
    graph.nodes().map(|(_, node)| node.op.to_string()).collect()
}

fn outputs(graph: &Graph) -> Vec<String> {
    graph.outputs().iter().map(|v| graph[*v].name.clone()).collect()
}

#[test]
fn a_sequence_runs_one_layer_after_the_other() {
    let graph = graph(SEQUENCE);
    assert_eq!(ops(&graph), ["Gemm", "Relu"]);
    assert_eq!(outputs(&graph), ["d"]);
}

#[test]
fn two_calls_of_a_layer_share_its_weights() {
    let graph = graph(FUNCTIONAL);
    assert_eq!(ops(&graph).iter().filter(|op| *op == "Gemm").count(), 2);
    let kernels = graph.value_ids().filter(|v| graph.constant(*v).is_some_and(|t| t.rank() == 2));
    assert_eq!(kernels.count(), 1);
    assert_eq!(outputs(&graph), ["c", "d"]);
}

#[test]
fn version_2_counts_the_making_of_a_model_as_a_call() {
    let weights = fixture::weights(&[]);
    let found = super::fuzzing::description(OLD.as_bytes(), &weights, true).unwrap();
    assert_eq!(ops(&found.graph), ["LeakyRelu", "Reshape", "Add"]);
    assert!(super::fuzzing::description(OLD.as_bytes(), &weights, false).is_none());
}

#[test]
fn code_that_is_not_in_the_file_is_listed_at_once() {
    let own = r#"{"module": "mine", "class_name": "Mine", "registered_name": "mine>Mine", "config": {"name": "m"}},
        {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "l"}},
        {"module": "keras.layers", "class_name": "Dense""#;
    let config = SEQUENCE.replace(r#"{"module": "keras.layers", "class_name": "Dense""#, own);
    let found = refusals(&config);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`Mine`") && found[1].contains("`Lambda`"), "{found:?}");
}

#[test]
fn only_a_type_that_is_given_and_not_read_is_reported() {
    let notes = |dtype: &str| {
        let layer = format!(
            r#", {{"module": "keras.src.ops.numpy", "class_name": "Absolute",
                "config": {{"name": "a", "dtype": {dtype}}}}}]}}}}"#
        );
        let config = format!("{}{layer}", SEQUENCE.strip_suffix("]}}").unwrap());
        let done = read(&config, &[DENSE]).map_err(|e| e.to_string()).unwrap();
        done.notes.into_iter().map(|note| note.into_finding().message).collect::<Vec<_>>()
    };
    assert_eq!(notes("null"), [""; 0]);
    assert_eq!(notes("\"float16\""), ["`dtype` has no effect."]);
}

#[test]
fn activations_whose_code_is_not_in_the_file_are_refused() {
    let plain = r#""activation": "relu""#;
    for own in [
        r#""activation": {"value": ["4wEA", null, null]}"#,
        r#""activation": {"class_name": "__lambda__", "config": {"value": "4wEA"}}"#,
        r#""activation": {"module": "builtins", "class_name": "function", "config": "My>relu"}"#,
    ] {
        let found = refusals(&SEQUENCE.replace(plain, own));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("N0203"), "{found:?}");
    }
}

#[test]
fn weights_have_the_names_of_keras() {
    let graph = graph(SEQUENCE);
    let names: Vec<&str> = graph
        .value_ids()
        .filter(|v| graph.constant(*v).is_some())
        .map(|v| graph[v].name.as_str())
        .collect();
    assert_eq!(names, ["d/kernel", "d/bias"]);
}

/// A model of one layer on four steps of three numbers.
fn one_layer(class: &str, config: &str) -> String {
    format!(
        r#"{{"class_name": "Sequential", "config": {{"name": "s", "layers": [
            {{"module": "keras.layers", "class_name": "InputLayer", "config": {{"batch_shape": [null, 4, 3],
              "dtype": "float32", "name": "x"}}}},
            {{"module": "keras.layers", "class_name": "{class}", "config": {{"name": "l", {config}}}}}]}}}}"#
    )
}

#[test]
fn normalization_without_weights_takes_sizes_that_vary() {
    let config =
        one_layer("LayerNormalization", r#""axis": [-1], "scale": false, "center": false"#);
    let config = config.replace("[null, 4, 3]", "[null, 4, null]");
    assert!(ops(&graph(&config)).contains(&"Sqrt".to_owned()));
}

#[test]
fn normalization_rounds_to_the_type_of_its_input() {
    let config =
        one_layer("LayerNormalization", r#""axis": [-1], "scale": false, "center": false"#);
    let graph = graph(&config.replace(r#""dtype": "float32""#, r#""dtype": "float16""#));
    assert_eq!(ops(&graph), ["Cast", "LayerNormalization", "Cast", "Cast"]);
}

#[test]
fn tables_with_too_many_unknown_numbers_are_refused() {
    for count in [-1, 1i64 << 40] {
        let table = format!(
            r#""vocabulary": [1, 2], "invert": true, "output_mode": "int", "num_oov_indices": {count}"#
        );
        assert_eq!(refusals(&one_layer("IntegerLookup", &table)).len(), 1);
    }
}

#[test]
fn sizes_that_overflow_are_no_panic() {
    let large = format!("[null, {0}, {0}, {0}]", 1i64 << 40);
    let config = one_layer("Flatten", r#""dtype": "float32""#).replace("[null, 4, 3]", &large);
    let _ = read(&config, &[]);
    let window = r#""filters": 2, "kernel_size": [3], "strides": [1000000], "padding": "same", "use_bias": false"#;
    let config = one_layer("Conv1DTranspose", window);
    let kernel = ("layers/conv1d_transpose/vars", &[("0", &[3, 2, 3][..])][..]);
    let _ =
        read(&config.replace("[null, 4, 3]", &format!("[null, {}, 3]", i64::MAX / 2)), &[kernel]);
}

#[test]
fn cells_take_layers_as_activations() {
    let cell =
        ("layers/simple_rnn/cell/vars", &[("0", &[3, 2][..]), ("1", &[2, 2]), ("2", &[2])][..]);
    let run = |activation: &str| {
        let activation = format!(
            r#""units": 2, "use_bias": true, "activation": {{"module": "keras.layers", "class_name": "{activation}",
                "config": {{"name": "a", "negative_slope": 0.4, "max_value": 1.0, "threshold": 0.0}}}}"#
        );
        read(&one_layer("SimpleRNN", &activation), &[cell])
    };
    let leaky = run("LeakyReLU").map_err(|e| e.to_string()).unwrap().model.graph;
    let rnn = leaky.nodes().find(|(_, node)| node.op == "RNN").unwrap().1;
    assert!(rnn.attr("activation_alpha").is_some_and(|alpha| format!("{alpha:?}").contains("0.4")));
    assert!(
        ops(&run("ReLU").map_err(|e| e.to_string()).unwrap().model.graph)
            .contains(&"Scan".to_owned())
    );
    assert_eq!(run("PReLU").map(|_| ()).unwrap_err().0[0].code, "N0203");
}

#[test]
fn cells_compute_floats_of_integers() {
    let cell =
        ("layers/simple_rnn/cell/vars", &[("0", &[3, 2][..]), ("1", &[2, 2]), ("2", &[2])][..]);
    let config = one_layer("SimpleRNN", r#""units": 2, "use_bias": true, "activation": "tanh""#);
    let config = config.replace(r#""dtype": "float32""#, r#""dtype": "int32""#);
    let graph = read(&config, &[cell]).map_err(|e| e.to_string()).unwrap().model.graph;
    assert_eq!(ops(&graph)[0], "Cast");
    let output = graph.outputs()[0];
    assert_eq!(graph[output].ty.as_ref().unwrap().dtype(), Some(DataType::Float));
}

#[test]
fn layers_of_8_bit_floats_need_opset_19() {
    let weights: [(&str, &[u64]); 8] = [
        ("0", &[3, 2]),
        ("1", &[2]),
        ("2", &[]),
        ("3", &[4]),
        ("4", &[]),
        ("5", &[4]),
        ("6", &[]),
        ("7", &[4]),
    ];
    let config = one_layer("Dense", r#""units": 2, "use_bias": true"#);
    let dense = ("layers/dense/vars", &weights[..]);
    let found = read(&config, &[dense]).map(|_| ()).unwrap_err();
    assert_eq!(found.opset(), Some(19), "{found}");
    let graph = read_for(19, &config, &[dense]).map_err(|e| e.to_string()).unwrap().model.graph;
    let few = ["Div", "Clip", "Cast", "Cast", "Mul"];
    let all = [&few[..], &few, &["MatMul", "Add"]].concat();
    assert_eq!(ops(&graph), all);
}

#[test]
fn stateful_layers_go_on_from_the_call_before() {
    let cell =
        ("layers/simple_rnn/cell/vars", &[("0", &[3, 2][..]), ("1", &[2, 2]), ("2", &[2])][..]);
    let rnn = r#""units": 2, "use_bias": true, "activation": "linear", "stateful": true"#;
    let config = one_layer("SimpleRNN", rnn);
    let found = read(&config, &[cell]).map(|_| ()).unwrap_err();
    assert!(found.0[0].message.contains("the size of the batch is not known"), "{found}");
    let config = config.replace("[null, 4, 3]", "[1, 4, 3]");
    let found = read(&config, &[cell]).map(|_| ()).unwrap_err();
    assert!(found.0[0].message.starts_with("The network writes the state"), "{found}");
    let calls = |config: &str, options: &ExportOptions, steps: usize, count: usize| {
        let file = fixture::archive(config, &fixture::weights(&[cell]));
        let done = import(file.into(), options).map_err(|e| e.to_string()).unwrap();
        let input = done.model.graph.inputs()[0];
        let x = done.model.graph[input].name.clone();
        let ones = Tensor::from_vec(vec![1, steps, 3], vec![1f32; 3 * steps]);
        testing::calls(done, &[(&x, ones)], count)
    };
    let wanting = testing::wanting();
    let twice = calls(&config, &wanting, 4, 2);
    let once = calls(&config.replace("[1, 4, 3]", "[1, 8, 3]"), &wanting, 8, 1);
    assert_eq!(twice[1], once[0]);
    assert_ne!(twice[0], twice[1]);
}

#[test]
fn stateful_layers_of_convolutions_are_refused_with_what_to_do() {
    let conv = r#""filters": 2, "kernel_size": [3], "stateful": true"#;
    let cell = (
        "layers/conv_lstm1d/cell/vars",
        &[("0", &[3, 2, 8][..]), ("1", &[3, 2, 8]), ("2", &[8])][..],
    );
    let config = one_layer("ConvLSTM1D", conv).replace("[null, 4, 3]", "[1, 4, 3, 2]");
    let found = read(&config, &[cell]).map(|_| ()).unwrap_err().0[0].to_string();
    assert!(found.contains("`stateful`") && found.contains("ConvLSTM1D)]"), "{found}");
    assert!(found.contains("`return_state`"), "{found}");
}

#[test]
fn scales_of_bfloat16_are_computed_in_32_bits() {
    let graph =
        graph(&one_layer("Rescaling", r#""scale": 0.5, "offset": 1.0, "dtype": "mixed_bfloat16""#));
    assert_eq!(ops(&graph), ["Cast", "Cast", "Mul", "Add", "Cast"]);
}

#[test]
fn masked_steps_of_both_directions_are_zeros() {
    let all: [(&str, &[u64]); 3] = [("0", &[3, 8]), ("1", &[2, 8]), ("2", &[8])];
    let inner = |zeros: bool| {
        format!(
            r#""layer": {{"module": "keras.layers", "class_name": "LSTM", "config": {{"name": "on", "units": 2,
                "use_bias": true, "activation": "tanh", "recurrent_activation": "sigmoid", "return_sequences": true,
                "zero_output_for_mask": {zeros}}}}}, "merge_mode": "concat""#
        )
    };
    let graph = |zeros: bool| {
        let masking = r#"{"module": "keras.layers", "class_name": "Masking", "config": {"name": "m"}},
            {"module": "keras.layers", "class_name": "Bidirectional""#;
        let config = one_layer("Bidirectional", &inner(zeros));
        let config =
            config.replace(r#"{"module": "keras.layers", "class_name": "Bidirectional""#, masking);
        let base = "layers/bidirectional";
        let groups = [
            (format!("{base}/forward_layer/cell/vars"), &all[..]),
            (format!("{base}/backward_layer/cell/vars"), &all[..]),
        ];
        let groups: Vec<_> = groups.iter().map(|(name, all)| (name.as_str(), *all)).collect();
        ops(&read(&config, &groups).map_err(|e| e.to_string()).unwrap().model.graph)
    };
    assert_eq!(graph(false), graph(true));
}

/// A model that attends to its input; `more` are further arguments of the call.
fn attending(opset: i64, config: &str, more: &str) -> Graph {
    let x = r#"{"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}"#;
    let config = format!(
        r#"{{"class_name": "Functional", "config": {{"name": "f", "layers": [
            {{"class_name": "InputLayer", "config": {{"batch_shape": [null, 4, 3], "dtype": "float32", "name": "x"}},
              "name": "x", "inbound_nodes": []}},
            {{"class_name": "MultiHeadAttention", "config": {{"name": "a", "num_heads": 2, "key_dim": 3,
              "use_bias": false, {config}}}, "name": "a",
              "inbound_nodes": [{{"args": [{x}, {x}], "kwargs": {{{more}}}}}]}}],
            "input_layers": ["x", 0, 0], "output_layers": ["a", 0, 0]}}}}"#
    );
    let kernel: &[(&str, &[u64])] = &[("0", &[3, 2, 3])];
    let output: &[(&str, &[u64])] = &[("0", &[2, 3, 3])];
    let base = "layers/multi_head_attention";
    let names = ["query", "key", "value", "output"].map(|part| format!("{base}/{part}_dense/vars"));
    let groups: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), if name.contains("output") { output } else { kernel }))
        .collect();
    let found = read_for(opset, &config, &groups).map_err(|e| e.to_string()).unwrap();
    let findings = verify(&found.model, VerifyLevel::Full);
    assert!(findings.0.is_empty(), "{findings}");
    found.model.graph
}

#[test]
fn attention_is_one_operator_where_the_opset_has_it() {
    let has = |graph: &Graph, op: &str| ops(graph).iter().any(|found| found == op);
    let causal = r#""use_causal_mask": true"#;
    let graph = attending(23, r#""dropout": 0.0"#, causal);
    let attention = graph.nodes().find(|(_, node)| node.op == "Attention").unwrap().1;
    assert_eq!(attention.int("is_causal", 0), 1);
    assert!(!has(&graph, "Softmax") && !has(&graph, "Where"));
    // A window is a mask, which is added.
    let window = attending(23, r#""sliding_window": 2"#, causal);
    assert!(has(&window, "Attention") && has(&window, "Where"));
    // Older opsets do not have it; with dropout Keras leaves nothing of steps that may look at none.
    assert!(has(&attending(22, r#""dropout": 0.0"#, causal), "Softmax"));
    assert!(has(&attending(23, r#""dropout": 0.5"#, causal), "Softmax"));
}

#[test]
fn weights_alone_are_refused() {
    let file = fixture::weights(&[DENSE]);
    let found = import_hdf5(file.into(), &ExportOptions::of_shapes(18, vec![])).map(|_| ());
    let found = found.unwrap_err();
    assert!(found.0[0].help.contains("model.save"), "{found}");
}

#[test]
fn weights_of_another_layer_or_of_none_are_reported() {
    let other = ("layers/conv/vars", DENSE.1);
    let found = read(SEQUENCE, &[other]).map(|_| ()).unwrap_err();
    assert_eq!(found.0[0].code, "N0201", "{found}");
}

#[test]
fn deep_descriptions_are_one_finding() {
    let lists = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(refusals(&lists).len(), 1);
    let mut model = SEQUENCE.to_owned();
    for _ in 0..40 {
        model = format!(
            r#"{{"class_name": "Sequential", "config": {{"name": "s", "layers": [{model}]}}}}"#
        );
    }
    assert_eq!(refusals(&model).len(), 1);
    let mut layer = r#"{"class_name": "LSTM", "config": {"name": "x"}}"#.to_owned();
    for _ in 0..20 {
        layer = format!(
            r#"{{"class_name": "Bidirectional", "config": {{"name": "b", "layer": {layer}}}}}"#
        );
    }
    let found = refusals(&format!(
        r#"{{"class_name": "Sequential", "config": {{"name": "s", "layers": [{layer}]}}}}"#
    ));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn models_that_call_each_other_many_times_end() {
    // Each model calls the one inside of it twice.
    let tensor = |name: &str, call: usize| {
        format!(
            r#"{{"class_name": "__keras_tensor__", "config": {{"keras_history": ["{name}", {call}, 0]}}}}"#
        )
    };
    let input = r#"{"class_name": "InputLayer", "config": {"batch_shape": [null, 4], "dtype": "float32", "name": "x"},
        "name": "x", "inbound_nodes": []}"#;
    let mut inner = format!(
        r#"{{"class_name": "ReLU", "config": {{"name": "m"}}, "name": "m", "inbound_nodes":
            [{{"args": [{0}], "kwargs": {{}}}}, {{"args": [{1}], "kwargs": {{}}}}]}}"#,
        tensor("x", 0),
        tensor("m", 0)
    );
    for level in 0..24 {
        let call = if level == 0 { 1 } else { 2 };
        inner = format!(
            r#"{{"class_name": "Functional", "config": {{"name": "m", "layers": [{input}, {inner}],
                "input_layers": ["x", 0, 0], "output_layers": ["m", {call}, 0]}}, "name": "m", "inbound_nodes":
                [{{"args": [{0}], "kwargs": {{}}}}, {{"args": [{1}], "kwargs": {{}}}}]}}"#,
            tensor("x", 0),
            tensor("m", 0)
        );
    }
    assert_eq!(refusals(&inner).len(), 1);
}

#[test]
fn a_member_that_inflates_too_far_is_not_read() {
    let mut file = fixture::archive(SEQUENCE, &fixture::weights(&[DENSE]));
    // The directory says how large the first member of this name will be, and that it is deflated.
    let at = (0..file.len() - 46).find(|i| {
        file[*i..].starts_with(b"PK\x01\x02") && file[i + 46..].starts_with(b"config.json")
    });
    let at = at.unwrap();
    file[at + 10] = 8;
    file[at + 24..at + 28].copy_from_slice(&[0xf0, 0xff, 0xff, 0xff]);
    let found = import(file.into(), &ExportOptions::of_shapes(18, vec![])).map(|_| ()).unwrap_err();
    assert_eq!(found.0[0].code, "N0213", "{found}");
}

#[test]
fn damaged_members_of_archives_are_refused() {
    let sound = fixture::archive(SEQUENCE, &fixture::weights(&[DENSE]));
    for (member, from, to) in [
        ("config.json", &b"relu"[..], &b"selu"[..]),
        ("metadata.json", b"3.15.0", b"2.15.0"),
        ("model.weights.h5", b"tensorflow", b"tensorfloW"),
    ] {
        let mut bytes = sound.clone();
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        let found = import(bytes.into(), &ExportOptions::of_shapes(18, vec![])).map(|_| ());
        let found = found.unwrap_err().to_string();
        assert!(found.contains(&format!("`{member}` does not have its checksum")), "{found}");
    }
}

/// A model of version 2 or 3 that calls `Dropout`, inside of another model, with `training`.
fn dropped(training: &str, is_keras2: bool) -> Result<Imported, Diagnostics> {
    let place = match is_keras2 {
        true => format!(r#"[["x", 0, 0, {{"training": {training}}}]]"#),
        false => format!(
            r#"{{"args": [{{"class_name": "__keras_tensor__", "config": {{"keras_history": ["x", 0, 0]}}}}],
            "kwargs": {{"training": {training}}}}}"#
        ),
    };
    let config = format!(
        r#"{{"class_name": "Functional", "config": {{"name": "f", "layers": [
        {{"class_name": "InputLayer", "config": {{"batch_shape": [null, 4], "dtype": "float32", "name": "x"}},
         "name": "x", "inbound_nodes": []}},
        {{"class_name": "Sequential", "config": {{"name": "s", "layers": [
          {{"class_name": "Dropout", "config": {{"name": "d", "dtype": "float32", "rate": 0.5}}}}]}},
         "name": "s", "inbound_nodes": [{place}]}}],
        "input_layers": [["x", 0, 0]], "output_layers": [["s", 0, 0]]}}}}"#
    );
    let file = Hdf5::open(fixture::weights(&[]).into())?;
    let model = config::read(config.as_bytes(), is_keras2)?;
    converted(&model, &file, is_keras2, &ExportOptions::of_shapes(18, vec![]))
}

#[test]
fn version_2_draws_random_numbers_where_a_model_asks_for_training() {
    for training in ["true", "1"] {
        let found = dropped(training, true).map(|_| ()).unwrap_err();
        assert!(found.to_string().contains("`training=True`"), "{found}");
    }
    for (training, is_keras2) in
        [("false", true), ("0", true), ("null", true), ("true", false), ("false", false)]
    {
        let found = dropped(training, is_keras2).map_err(|e| e.to_string()).unwrap();
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }
}
