use crate::states::tests as testing;
use crate::tflite::fixture::{
    FLOAT, Field, INT32, Lite, RESOURCE, graph, operator, problem, tensor,
};
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

/// A model that reads `v` and `w`, and sets those that `sets` and a first run name.
fn two(sets: &[&str], initial: &[&str]) -> Lite {
    let float = |name| tensor(name, FLOAT, &[1], 0);
    let handle = |name| tensor(name, RESOURCE, &[], 0);
    let of = |name: &str, to: i32| operator(0, &[], &[to], vec![(1, Field::Text(name.into()))]);
    let place = |name: &&str| if *name == "v" { 2 } else { 3 };
    let mut nodes = vec![
        operator(5, &[], &[], vec![(0, Field::I32(1))]),
        of("v", 2),
        of("w", 3),
        operator(1, &[2], &[4], vec![]),
        operator(1, &[3], &[5], vec![]),
        operator(3, &[0, 4], &[6], vec![]),
        operator(3, &[6, 5], &[1], vec![]),
    ];
    nodes.extend(sets.iter().map(|name| operator(2, &[place(name), 1], &[], vec![])));
    let first = initial.iter().flat_map(|name| [of(name, 0), operator(2, &[0, 1], &[], vec![])]);
    let tensors = vec![
        float("x"),
        float("y"),
        handle("hv"),
        handle("hw"),
        float("v"),
        float("w"),
        float("s"),
    ];
    let start = vec![handle("h"), tensor("c", FLOAT, &[1], 1)];
    Lite {
        codes: vec![(142, ""), (143, ""), (144, ""), (0, ""), (4, ""), (129, "")],
        constants: vec![1f32.to_le_bytes().to_vec()],
        graphs: vec![
            graph(tensors, [&[0], &[1]], nodes),
            graph(start, [&[], &[]], first.collect()),
        ],
        ..Lite::default()
    }
}

#[test]
fn a_variable_is_zeros_at_first_only_where_all_are() {
    assert_eq!(calls(&two(&["v", "w"], &[]), 2), [[1.0], [3.0]]);
    assert_eq!(calls(&two(&["v", "w"], &["w", "v"]), 2), [[3.0], [7.0]]);
    let never = problem(&two(&["v"], &[]));
    assert!(
        never.contains("Nothing sets the variable `w`") && never.contains("layer w "),
        "{never}"
    );
    let found = problem(&two(&["v", "w"], &["v"]));
    assert!(found.contains("`w` is read, and the graph of the first run sets others"), "{found}");
}

/// Nothing reads what the choice gives, but its branches set `v`.
#[test]
fn a_choice_whose_branches_set_a_variable_runs() {
    let float = |name| tensor(name, FLOAT, &[1], 0);
    let handle = || tensor("h", RESOURCE, &[], 0);
    let of_v = |to: i32| operator(0, &[], &[to], vec![(1, Field::Text("v".into()))]);
    let mut choice = operator(3, &[1, 0], &[], vec![]);
    choice.retain(|(slot, _)| *slot != 4);
    choice.push((11, Field::I8(20)));
    choice.push((12, Field::Table(vec![(0, Field::Ints(vec![1, 1]))])));
    let tensors = vec![float("x"), tensor("i", INT32, &[], 0), float("y"), handle(), float("r")];
    let nodes =
        vec![of_v(3), operator(1, &[3], &[4], vec![]), operator(4, &[0, 4], &[2], vec![]), choice];
    let sets = vec![of_v(1), operator(2, &[1, 0], &[], vec![])];
    let lite = Lite {
        codes: vec![(142, ""), (143, ""), (144, ""), (209, ""), (0, "")],
        graphs: vec![
            graph(tensors, [&[0, 1], &[2]], nodes),
            graph(vec![float("new"), handle()], [&[0], &[]], sets),
        ],
        ..Lite::default()
    };
    let found = crate::tflite::fixture::converted(&lite.bytes(), 18).unwrap_err();
    assert!(found.contains("`v`, which is set inside of a condition or loop"), "{found}");
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
