use crate::tflite::fixture::{FLOAT, Field, Lite, RESOURCE, graph, operator, problem, tensor};

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
    assert!(found.contains("keeps nothing between runs"), "{found}");
}
