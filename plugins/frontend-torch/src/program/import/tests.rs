//! Small programs, made as text: `y = aten.add.Tensor(x, 2)`.

mod hostile;
mod loops;

use crate::Torch;
use crate::archive::fixture;
use crate::diag::Diagnostics;
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Model, Tensor, ValueId, ValueType};
use onnxd_plugin_sdk::testing::{self, Dropped};
use serde_json::{Map, Value, json};

/// An argument: `x`, `%symbol`, `2`, `0.5`, `true`, `none`, `@graph`, `[a, b]`.
fn argument(text: &str, graphs: &[(&str, Value)]) -> Value {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let names: Vec<&str> = inner.split(", ").filter(|name| !name.is_empty()).collect();
        if names.iter().all(|name| name.parse::<i64>().is_ok()) && !names.is_empty() {
            return json!({"as_ints": names.iter().map(|n| n.parse::<i64>().unwrap()).collect::<Vec<_>>()});
        }
        return json!({"as_tensors": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    }
    if let Some(name) = text.strip_prefix('@') {
        let graph = &graphs.iter().find(|(known, _)| *known == name).unwrap().1;
        return json!({"as_graph": {"name": name, "graph": graph}});
    }
    match (text, text.strip_prefix('%'), text.parse::<i64>(), text.parse::<f64>()) {
        ("none", ..) => json!({"as_none": true}),
        ("true" | "false", ..) => json!({"as_bool": text == "true"}),
        (_, Some(symbol), ..) => json!({"as_sym_int": {"as_name": symbol}}),
        (_, _, Ok(int), _) => json!({ "as_int": int }),
        (_, _, _, Ok(float)) => json!({ "as_float": float }),
        _ if text.starts_with('\'') => json!({"as_string": text.trim_matches('\'')}),
        _ if text.starts_with("torch.ops.") => json!({ "as_operator": text }),
        _ => json!({"as_tensor": {"name": text}}),
    }
}

/// What is between commas outside of brackets.
fn separated(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, vec![]);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// `a, b = aten.f.g(x, name=2)`
fn node(line: &str, graphs: &[(&str, Value)]) -> Value {
    let (outputs, call) = line.split_once(" = ").unwrap_or(("", line));
    let (target, arguments) = call.trim().split_once('(').unwrap();
    let python = ["_operator.", "math.", "torch."].iter().any(|module| target.starts_with(module));
    let target = if python { target.to_owned() } else { format!("torch.ops.{target}") };
    let arguments = separated(arguments.strip_suffix(')').unwrap()).into_iter().map(|text| {
        match text.split_once('=') {
            Some((name, value)) => json!({"name": name, "arg": argument(value, graphs), "kind": 2}),
            None => json!({"name": "", "arg": argument(text, graphs), "kind": 1}),
        }
    });
    let outputs = separated(outputs).into_iter().map(|name| argument(name, graphs));
    let metadata = json!({"nn_module_stack": "L__self__,,m.Net;L__self__sub,sub@1,m.Sub"});
    json!({
        "target": target, "inputs": arguments.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(), "metadata": metadata,
    })
}

/// A graph; its inputs are declared as `x: 2 s0`, floats of those sizes.
fn graph(inputs: &str, lines: &str, outputs: &str, graphs: &[(&str, Value)]) -> Value {
    let mut tensors = Map::new();
    let input = |text: &str| {
        let (name, sizes) = text.split_once(':').unwrap_or((text, ""));
        let size = |size: &str| match size.parse::<i64>() {
            Ok(known) => json!({ "as_int": known }),
            Err(_) => json!({"as_expr": {"expr_str": size}}),
        };
        if let Some(sizes) = text.contains(':').then(|| sizes.split_whitespace().map(size)) {
            let sizes = sizes.collect::<Vec<_>>();
            tensors.insert(name.into(), json!({"dtype": 7, "sizes": sizes, "strides": []}));
        }
        argument(name, graphs)
    };
    let inputs: Vec<Value> = separated(inputs).into_iter().map(input).collect();
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let outputs = separated(outputs).into_iter().map(|name| argument(name, graphs));
    json!({
        "inputs": inputs, "nodes": lines.map(|line| node(line, graphs)).collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(), "tensor_values": tensors,
    })
}

/// A program around a graph. Inputs that start with `p_`, `b_` are parameters and buffers of two floats; `p_a` and
/// `p_tied` are one tensor. Outputs are the user's, but the first ones new values of the buffers `written`.
#[allow(clippy::needless_pass_by_value)]
fn program(graph: Value, written: &[&str]) -> Value {
    let input = |input: &Value| {
        let name = input["as_tensor"]["name"].as_str().unwrap_or_default();
        match name.split_once('_') {
            Some(("p", of)) => {
                json!({"parameter": {"arg": {"name": name}, "parameter_name": format!("sub.{of}")}})
            }
            Some(("b", of)) => {
                json!({"buffer": {"arg": {"name": name}, "buffer_name": of, "persistent": true}})
            }
            _ => json!({"user_input": {"arg": input}}),
        }
    };
    let output = |(at, output): (usize, &Value)| match written.get(at) {
        Some(buffer) => {
            json!({"buffer_mutation": {"arg": output["as_tensor"], "buffer_name": buffer}})
        }
        None => json!({"user_output": {"arg": output}}),
    };
    let inputs: Vec<Value> = graph["inputs"].as_array().unwrap().iter().map(input).collect();
    let outputs: Vec<Value> =
        graph["outputs"].as_array().unwrap().iter().enumerate().map(output).collect();
    json!({
        "graph_module": {
            "graph": graph, "signature": {"input_specs": inputs, "output_specs": outputs},
            "module_call_graph": [],
        },
        "opset_version": {"aten": 10}, "range_constraints": {"s0": {"min_val": 2, "max_val": 64}},
        "schema_version": {"major": 8, "minor": 20},
    })
}

/// An archive of programs; each has the weights `sub.a` and `sub.tied` (1, 2), and the buffers `k` and `n` (3, 4).
/// `same` is the tensor of `k`.
fn archive(programs: &[(&str, Value)]) -> Dropped {
    Dropped::file("x.pt2", archived(programs))
}

fn archived(programs: &[(&str, Value)]) -> Bytes {
    let entry = |path: &str| {
        json!({"path_name": path, "is_param": true, "use_pickle": false, "tensor_meta": {
            "dtype": 7, "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}],
            "storage_offset": {"as_int": 0}}})
    };
    let config = json!({"config": {
        "sub.a": entry("weight_0"), "sub.tied": entry("weight_0"),
        "k": entry("weight_1"), "n": entry("weight_2"), "same": entry("weight_1"),
    }})
    .to_string();
    let mut members = vec![
        ("m/archive_format".to_owned(), b"pt2".to_vec()),
        ("m/data/weights/weight_0".to_owned(), fixture::floats(&[1.0, 2.0])),
        ("m/data/weights/weight_1".to_owned(), fixture::floats(&[3.0, 4.0])),
        ("m/data/weights/weight_2".to_owned(), fixture::floats(&[3.0, 4.0])),
    ];
    for (name, program) in programs {
        members.push((format!("m/models/{name}.json"), program.to_string().into_bytes()));
        let list = format!("m/data/weights/{name}_weights_config.json");
        members.push((list, config.clone().into_bytes()));
    }
    let members: Vec<(&str, &[u8])> = members.iter().map(|(n, b)| (&**n, &**b)).collect();
    fixture::archive(&members)
}

fn imported(dropped: &Dropped) -> Result<Model, Diagnostics> {
    testing::import(&Torch, dropped).map(|done| done.model)
}

fn converted(graph: Value) -> Model {
    let found = imported(&archive(&[("model", program(graph, &[]))]));
    found.unwrap_or_else(|found| panic!("{found:?}"))
}

/// What is wrong with a program: codes and messages.
fn refused(dropped: &Dropped) -> Vec<String> {
    let found = imported(dropped).unwrap_err();
    found.0.iter().map(|found| format!("{} {}", found.code, found.message)).collect()
}

fn names(graph: &Graph, ids: &[ValueId]) -> Vec<String> {
    ids.iter().map(|id| graph[*id].name.clone()).collect()
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::vector(values.to_vec())
}

#[test]
fn nodes_run_in_order_with_weights_under_their_names() {
    let model = converted(graph(
        "p_a, p_tied, b_k, x: 2",
        "m = aten.mul.Tensor(x, p_a)
         s = aten.add.Tensor(m, p_tied, alpha=2)",
        "s, x, 3, none",
        &[],
    ));
    let graph = &model.graph;
    // Tied weights are one, and what is never read is left out.
    let held = graph.value_ids().filter(|id| graph[*id].initializer().is_some());
    let held: Vec<String> = held.map(|id| graph[id].name.clone()).collect();
    assert_eq!(held.iter().filter(|name| name.starts_with("sub.")).count(), 1, "{held:?}");
    assert!(held.contains(&"sub.a".to_owned()) && !held.contains(&"k".to_owned()), "{held:?}");
    assert_eq!(names(graph, graph.inputs()), ["x"]);
    assert_eq!(names(graph, graph.outputs())[0], "s");
    let outputs = testing::run(&model, [("x", floats(&[10.0, 20.0]))]).unwrap();
    assert_eq!(outputs[0].1, floats(&[12.0, 44.0]));
    assert_eq!(outputs[1].1, floats(&[10.0, 20.0]));
    assert_eq!(outputs[2].1, Tensor::scalar(3i64));
    let layers = graph.node_ids().into_iter().flat_map(|id| graph[id].layers.clone());
    assert!(layers.into_iter().any(|layer| layer.name == "sub" && layer.kind == "Sub"));
}

#[test]
fn symbols_are_names_of_dimensions() {
    let graph = graph(
        "x: s0 3, y: s0 2*s1",
        "%n = aten.sym_size.int(x, 0)
         %w = aten.sym_size.int(y, 1)
         %m = _operator.mul(%n, 2)
         %h = _operator.floordiv(%w, 2)
         %b = _operator.gt(%n, 4)
         %i = torch.sym_ite(%b, %m, 7)
         z = aten.mul.Tensor(x, %i)",
        "z, %h",
        &[],
    );
    let dropped = archive(&[("model", program(graph, &[]))]);
    let model = imported(&dropped).unwrap();
    let shape =
        |model: &Model, id: ValueId| model.graph[id].ty.as_ref().unwrap().shape().unwrap().to_vec();
    let input = |model: &Model, at: usize| shape(model, model.graph.inputs()[at]);
    let output = model.graph.outputs()[0];
    assert_eq!(input(&model, 0), [Dim::from("s0"), Dim::Known(3)]);
    assert_eq!(input(&model, 1), [Dim::from("s0"), Dim::from("2*s1")]);
    assert_eq!(shape(&model, output), [Dim::from("s0"), Dim::Known(3)]);
    let run = |rows: usize| {
        let x = Tensor::from_vec(vec![rows, 3], vec![1f32; rows * 3]);
        let y = Tensor::from_vec(vec![rows, 10], vec![1f32; rows * 10]);
        let outputs = testing::run(&model, [("x", x), ("y", y)]).unwrap();
        (outputs[0].1.to_reals().unwrap().values[0], outputs[1].1.clone())
    };
    assert_eq!(run(3), (7.0, Tensor::scalar(5i64)));
    assert_eq!(run(5).0, 10.0);

    // Sizes that the params give hold for the whole program.
    let given = dropped.clone().param("export.input_shapes", json!([[5, 3]]));
    let model = imported(&given).unwrap();
    assert_eq!(input(&model, 1), [Dim::Known(5), Dim::from("2*s1")]);
    let found = refused(&dropped.param("export.input_shapes", json!([[5, 4]])));
    assert!(found[0].starts_with("N0105") && found[0].contains("size 4"), "{found:?}");
}

#[test]
fn what_is_written_is_an_error_or_an_output() {
    let in_place = graph(
        "b_k, b_n, x: 2",
        "a = aten.add_.Tensor(b_k, 1)
         c = aten.mul_.Tensor(b_n, 2)
         y = aten.add.Tensor(x, a)",
        "y",
        &[],
    );
    let functional = graph(
        "b_k, b_n, x: 2",
        "a = aten.add.Tensor(b_k, 1)
         c = aten.mul.Tensor(b_n, 2)
         y = aten.add.Tensor(x, a)",
        "a, c, y",
        &[],
    );
    for program in [program(in_place, &[]), program(functional, &["k", "n"])] {
        let dropped = archive(&[("model", program)]);
        let found = refused(&dropped);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("buffer `k`") && found[1].contains("buffer `n`"), "{found:?}");
        let model = imported(&dropped.param("export.mutations", "outputs")).unwrap();
        let graph = &model.graph;
        assert_eq!(names(graph, graph.outputs()), ["y", "k_out", "n_out"]);
        assert_eq!(names(graph, graph.inputs()), ["x", "k", "n"]);
        let first = testing::run(&model, [("x", floats(&[0.0, 0.0]))]).unwrap();
        assert_eq!(first[0].1, floats(&[4.0, 5.0]));
        let next = [("x", floats(&[0.0, 0.0])), ("k", first[1].1.clone())];
        let next = testing::run(&model, next).unwrap();
        assert_eq!((&next[0].1, &next[2].1), (&floats(&[5.0, 6.0]), &floats(&[6.0, 8.0])));
    }
}

#[test]
fn a_state_of_two_names_is_one() {
    let functional = |written: &[&str]| {
        let lines = "a = aten.add.Tensor(b_same, 1)
            c = aten.mul.Tensor(b_k, 2)
            y = aten.add.Tensor(x, b_k)";
        let given = if written.len() == 1 { "a, y" } else { "a, c, y" };
        program(graph("b_k, b_same, x: 2", lines, given, &[]), written)
    };
    let in_place = "a = aten.add_.Tensor(b_same, 1)
         y = aten.add.Tensor(x, b_k)";
    let in_place = program(graph("b_k, b_same, x: 2", in_place, "y", &[]), &[]);
    for (program, name, first) in [(functional(&["same"]), "same", 3.0), (in_place, "k", 4.0)] {
        let dropped = archive(&[("model", program)]);
        assert_eq!(refused(&dropped).len(), 1);
        let done = testing::import(&Torch, &dropped.param("export.mutations", "outputs")).unwrap();
        let graph = &done.model.graph;
        assert_eq!(names(graph, graph.inputs()), ["x", name]);
        assert_eq!(done.log.states.len(), 1);
        let given = testing::run(&done.model, [("x", floats(&[0.0, 0.0]))]).unwrap();
        assert_eq!(
            (&given[0].1, &given[1].1),
            (&floats(&[first, first + 1.0]), &floats(&[4.0, 5.0]))
        );
    }
    let both = archive(&[("model", functional(&["same", "k"]))]);
    let found = refused(&both.param("export.mutations", "outputs"));
    assert_eq!(found, ["N0203 The program writes `k` and `same`, which are one tensor."]);
}

#[test]
fn what_is_written_into_an_input_counts_if_an_output_depends_on_it() {
    let with = |lines: &str| archive(&[("model", program(graph("x: 2", lines, "y", &[]), &[]))]);
    let after = with("y = aten.mul.Tensor(x, 2)\n a = aten.add_.Tensor(x, 1)");
    let done = testing::import(&Torch, &after).unwrap();
    let told: Vec<_> = done.log.notes.iter().map(|note| note.message.as_str()).collect();
    assert!(told.len() == 1 && told[0].contains("writes the input `x`"), "{told:?}");
    assert_eq!((done.model.graph.outputs().len(), done.model.graph.node_count()), (1, 1));
    let before = with("a = aten.add_.Tensor(x, 1)\n y = aten.mul.Tensor(a, 2)");
    assert!(refused(&before)[0].contains("input `x`"));
    let model = imported(&before.param("export.mutations", "outputs")).unwrap();
    assert_eq!(names(&model.graph, model.graph.outputs()), ["y", "x_out"]);
}

#[test]
fn normalization_in_training_moves_its_statistics() {
    let line = "y = aten.batch_norm.default(x, none, none, b_k, b_n, true, 0.5, 0.00001, true)";
    let dropped = archive(&[("model", program(graph("b_k, b_n, x: 2 2", line, "y", &[]), &[]))]);
    assert_eq!(refused(&dropped).len(), 2);
    let model = imported(&dropped.param("export.mutations", "outputs")).unwrap();
    let x = Tensor::from_vec(vec![2, 2], vec![1f32, 10.0, 3.0, 14.0]);
    let outputs = testing::run(&model, [("x", x)]).unwrap();
    // Means 2 and 12, variances 2 and 8.
    assert_eq!((&outputs[1].1, &outputs[2].1), (&floats(&[2.5, 8.0]), &floats(&[2.5, 6.0])));
}

#[test]
fn one_of_several_programs_is_chosen() {
    let one = |number: &str| {
        let line = format!("y = aten.add.Tensor(x, {number})");
        program(graph("x: 1", &line, "y", &[]), &[])
    };
    let dropped = archive(&[("a", one("1")), ("b", one("2"))]);
    let found = refused(&dropped);
    assert!(found[0].starts_with("N0105") && found[0].contains("`a`, `b`"), "{found:?}");
    let model = imported(&dropped.clone().param("source.model", "b")).unwrap();
    assert_eq!(testing::run(&model, [("x", floats(&[1.0]))]).unwrap()[0].1, floats(&[3.0]));
    assert!(refused(&dropped.param("source.model", "c"))[0].starts_with("N0105"));
}

#[test]
fn operators_of_users_are_listed_or_kept() {
    let mut source = graph(
        "x: 2",
        "a, b = my.two.default(x, 2.5)
         none, c = higher_order.auto_functionalized(torch.ops.my.mut.default, x=a, y=b)
         d = aten.add.Tensor(b, c)",
        "d",
        &[],
    );
    for name in ["a", "b", "c"] {
        source["tensor_values"][name] = source["tensor_values"]["x"].clone();
    }
    let dropped = archive(&[("model", program(source, &[]))]);
    let found = refused(&dropped);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`my::mut`") && found[1].contains("`my::two`"), "{found:?}");
    let model = imported(&dropped.lowered("my::two").lowered("my::mut")).unwrap();
    let graph = &model.graph;
    let own: Vec<_> = graph.node_ids().into_iter().filter(|id| graph[*id].domain == "my").collect();
    assert_eq!(own.len(), 2);
    assert_eq!((graph[own[0]].outputs.len(), graph[own[1]].outputs.len()), (2, 1));
    let c = graph[own[1]].outputs[0].unwrap();
    assert_eq!(graph[c].ty, Some(ValueType::tensor(DataType::Float, [2])));
}
