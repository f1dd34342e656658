use crate::states::tests as testing;
use crate::tflite::fixture::{
    BOOL, FLOAT, Field, Fields, INT32, Lite, graph, int32s, operator, problem, tensor,
};
use crate::tflite::network::{Asked, import};
use onnxd_plugin_sdk::ir::Tensor;

fn float(name: &str, constant: i32) -> Fields {
    tensor(name, FLOAT, &[1, 1], constant)
}

fn state(name: &str) -> Fields {
    [float(name, 0), vec![(5, Field::Bool(true))]].concat()
}

fn floats(x: f32) -> Vec<u8> {
    x.to_le_bytes().to_vec()
}

/// `h = relu(x W + h R + b)` of one step. Tensors 1 to 3 are `W`, `R` and `b`.
fn step(x: i32, h: i32, y: i32) -> Fields {
    operator(0, &[x, 1, 2, 3, h], &[y], vec![(0, Field::I8(1))])
}

fn bias() -> Fields {
    tensor("b", FLOAT, &[1], 2)
}

/// Two layers, one behind the other, with states of these tensors.
fn layers(first: i32, second: i32) -> Lite {
    let tensors = vec![
        float("x", 0),
        float("w", 1),
        float("r", 1),
        bias(),
        state("h;one"),
        state("h;two"),
        float("m", 0),
        float("y", 0),
    ];
    let nodes = vec![step(0, first, 6), step(6, second, 7)];
    Lite {
        codes: vec![(24, "")],
        constants: vec![floats(1.0), floats(0.0)],
        graphs: vec![graph(tensors, [&[0], &[7]], nodes)],
        ..Lite::default()
    }
}

fn calls(lite: &Lite, count: usize) -> Vec<Vec<f32>> {
    let done = import(&lite.bytes(), Asked::default(), &mut testing::wanting()).unwrap();
    testing::calls(done, &[("x", Tensor::from_vec(vec![1, 1], vec![1f32]))], count)
}

#[test]
fn states_of_one_name_are_two() {
    assert_eq!(calls(&layers(4, 5), 3), [[1.0], [3.0], [6.0]]);
}

#[test]
fn a_state_of_two_layers_goes_on_in_one_call() {
    assert_eq!(calls(&layers(4, 4), 2), [[2.0], [6.0]]);
    let found = problem(&layers(4, 4));
    assert!(found.contains("state `h`") && found.contains("layer m (RNN)"), "{found}");
}

/// In a loop a kernel goes on from turn to turn, which the zeros of a first call are not.
#[test]
fn a_state_inside_of_a_loop_is_refused() {
    let number = |name: &str, constant| tensor(name, INT32, &[], constant);
    let body = vec![
        number("i", 0),
        float("w", 1),
        float("r", 1),
        bias(),
        state("h"),
        float("x", 0),
        float("y", 0),
        number("one", 3),
        number("next", 0),
    ];
    let nodes = vec![step(5, 4, 6), operator(2, &[0, 7], &[8], vec![])];
    let condition =
        vec![number("i", 0), float("x", 0), number("three", 4), tensor("go", BOOL, &[], 0)];
    let main = vec![number("zero", 5), float("x", 0), number("last", 0), float("y", 0)];
    let options = vec![(0, Field::I32(1)), (1, Field::I32(2))];
    let lite = Lite {
        codes: vec![(24, ""), (119, ""), (0, ""), (58, "")],
        constants: vec![floats(1.0), floats(0.0), int32s(&[1]), int32s(&[3]), int32s(&[0])],
        graphs: vec![
            graph(main, [&[1], &[3]], vec![operator(1, &[0, 1], &[2, 3], options)]),
            graph(condition, [&[0, 1], &[3]], vec![operator(3, &[0, 2], &[3], vec![])]),
            graph(body, [&[0, 5], &[8, 6]], nodes),
        ],
        ..Lite::default()
    };
    let said = "which goes on from turn to turn of a loop";
    let found = problem(&lite);
    assert!(found.contains(said) && found.contains("layer main/y (RNN)"), "{found}");
    let asked = import(&lite.bytes(), Asked::default(), &mut testing::wanting()).unwrap_err();
    assert!(asked.0[0].to_string().contains(said), "{asked:?}");
}
