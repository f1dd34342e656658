use crate::states::tests as testing;
use crate::tflite::fixture::{FLOAT, Field, Lite, RESOURCE, graph, operator, problem, tensor};
use crate::tflite::network::{Asked, import};
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::ir::Tensor;

/// The first run sets `v`; each run adds it to `x`, and hands it to a graph that sets it.
#[test]
fn variables_that_other_graphs_are_given() {
    let float = |name| tensor(name, FLOAT, &[1], 0);
    let handle = || tensor("h", RESOURCE, &[], 0);
    let of_v = |to: i32| operator(0, &[], &[to], vec![(1, Field::Text("v".into()))]);
    let run =
        |code, graph, inputs: &[i32]| operator(code, inputs, &[], vec![(0, Field::I32(graph))]);
    let main = vec![
        run(3, 1, &[]),
        of_v(2),
        operator(1, &[2], &[3], vec![]),
        operator(4, &[0, 3], &[1], vec![]),
        run(5, 2, &[2, 1]),
    ];
    let start = vec![of_v(0), operator(2, &[0, 1], &[], vec![])];
    let lite = Lite {
        codes: vec![(142, ""), (143, ""), (144, ""), (129, ""), (0, ""), (31, "")],
        constants: vec![1f32.to_le_bytes().to_vec()],
        graphs: vec![
            graph(vec![float("x"), float("y"), handle(), float("r")], [&[0], &[1]], main),
            graph(vec![handle(), tensor("c", FLOAT, &[1], 1)], [&[], &[]], start),
            graph(
                vec![handle(), float("new")],
                [&[0, 1], &[]],
                vec![operator(2, &[0, 1], &[], vec![])],
            ),
        ],
        ..Lite::default()
    };
    let found = problem(&lite);
    assert!(found.contains("writes the variable `v`") && found.contains("main/new"), "{found}");
    assert_eq!(calls(&lite, 3), [[2.0], [3.0], [4.0]]);
}

/// What calls give for ones, with states passed on.
fn calls(lite: &Lite, count: usize) -> Vec<Vec<f32>> {
    let done = import(&lite.bytes(), Asked::default(), &mut testing::wanting()).unwrap();
    let x = done.model.graph.inputs()[0];
    let dims = done.model.graph[x].ty.as_ref().unwrap().dims().unwrap();
    let dims: Vec<usize> = dims.into_iter().map(|n| n as usize).collect();
    let ones = Tensor::from_vec(dims.clone(), vec![1f32; dims.iter().product()]);
    testing::calls(done, &[("x", ones)], count)
}

/// As kernels for microcontrollers, whose variables are zeros at first.
#[test]
fn variables_that_nothing_sets_before() {
    let tensors = vec![
        tensor("x", FLOAT, &[1], 0),
        tensor("y", FLOAT, &[1], 0),
        tensor("h", RESOURCE, &[], 0),
        tensor("r", FLOAT, &[1], 0),
    ];
    let handle = operator(0, &[], &[2], vec![(1, Field::Text("v".into()))]);
    let read = operator(1, &[2], &[3], vec![]);
    let add = operator(3, &[0, 3], &[1], vec![]);
    let assign = operator(2, &[2, 1], &[], vec![]);
    let lite = |operators: Vec<_>| Lite {
        codes: vec![(142, ""), (143, ""), (144, ""), (0, "")],
        graphs: vec![graph(tensors.clone(), [&[0], &[1]], operators)],
        ..Lite::default()
    };
    let all = lite(vec![handle.clone(), read.clone(), add.clone(), assign]);
    assert_eq!(calls(&all, 3), [[1.0], [2.0], [3.0]]);
    let never = problem(&lite(vec![handle, read, add]));
    assert!(never.contains("Nothing sets the variable `v`"), "{never}");
}

/// `h = relu(x W + h R + b)` of one step, where the kernel changes `h` in place.
#[test]
fn tensors_that_kernels_change() {
    let state = [tensor("h", FLOAT, &[1, 1], 0), vec![(5, Field::Bool(true))]].concat();
    let tensors = vec![
        tensor("x", FLOAT, &[1, 1], 0),
        tensor("w", FLOAT, &[1, 1], 1),
        tensor("r", FLOAT, &[1, 1], 1),
        tensor("b", FLOAT, &[1], 2),
        state,
        tensor("y", FLOAT, &[1, 1], 0),
    ];
    let floats = |x: f32| x.to_le_bytes().to_vec();
    let step = operator(0, &[0, 1, 2, 3, 4], &[5], vec![(0, Field::I8(1))]);
    let lite = Lite {
        codes: vec![(24, "")],
        constants: vec![floats(2.0), floats(1.0)],
        graphs: vec![graph(tensors, [&[0], &[5]], vec![step])],
        ..Lite::default()
    };
    let mut options = ExportOptions::of_shapes(18, vec![]);
    let done = import(&lite.bytes(), Asked::default(), &mut options).unwrap();
    let said = done.notes[0].to_string();
    assert!(done.states.is_empty() && said.contains("begins each call with zeros"), "{said}");
    assert_eq!(calls(&lite, 3), [[3.0], [9.0], [21.0]]);
}
