use crate::tflite::fixture::Lite;
use crate::tflite::fixture::{
    FLOAT, Field, Fields, INT8, INT16, INT32, UINT8, graph, int32s, operator, quantized, single,
    tensor, text,
};

const ADD: i32 = 0;
const CONCATENATION: i32 = 2;
const FULLY_CONNECTED: i32 = 9;
const RESHAPE: i32 = 22;
const RESIZE_BILINEAR: i32 = 23;
const PAD: i32 = 34;
const TRANSPOSE: i32 = 39;
const ONE_HOT: i32 = 85;
const QUANTIZE: i32 = 114;

fn tensor_of(name: &str, dtype: i8, dims: &[i32], scale: f32) -> Fields {
    quantized(tensor(name, dtype, dims, 0), &[scale], &[3], 0)
}

fn plain(name: &str, dtype: i8, dims: &[i32], scale: f32, constant: i32) -> Fields {
    quantized(tensor(name, dtype, dims, constant), &[scale], &[0], 0)
}

/// The kernels copy bytes, whatever number they stand for.
#[test]
fn what_moves_integers_keeps_them() {
    for (code, list, dims) in [(RESHAPE, [2, 1], [2, 1]), (TRANSPOSE, [1, 0], [2, 1])] {
        for scale in [0.5, 0.25] {
            let tensors = vec![
                tensor_of("x", INT8, &[1, 2], 0.5),
                tensor("list", INT32, &[2], 1),
                tensor_of("y", INT8, &dims, scale),
            ];
            let kept = text(&single(code, tensors, vec![int32s(&list)], vec![]));
            assert!(!kept.contains("Linear"), "{kept}");
        }
    }
}

#[test]
fn what_joins_tensors_rescales_them() {
    let join = |scale| {
        let tensors = ["a", "b"].map(|name| tensor_of(name, UINT8, &[2], 0.5));
        let tensors = [&tensors[..], &[tensor_of("y", UINT8, &[4], scale)]].concat();
        let node = operator(0, &[0, 1], &[2], vec![(0, Field::I32(0))]);
        let graphs = vec![graph(tensors, [&[0, 1], &[2]], vec![node])];
        text(&Lite { codes: vec![(CONCATENATION, "")], graphs, ..Lite::default() })
    };
    assert!(!join(0.5).contains("Linear"), "{}", join(0.5));
    assert!(join(0.25).contains("QuantizeLinear"), "{}", join(0.25));
}

#[test]
fn integers_of_32_bits_are_quantized_and_back() {
    let from = vec![plain("x", INT32, &[2], 0.5, 0), plain("y", INT8, &[2], 0.25, 0)];
    let shown = text(&single(QUANTIZE, from, vec![], vec![]));
    assert!(shown.contains("= DequantizeLinear(x, "), "{shown}");
    let to = vec![plain("x", INT16, &[2], 0.5, 0), plain("y", INT32, &[2], 0.25, 0)];
    let shown = text(&single(QUANTIZE, to, vec![], vec![]));
    assert!(shown.contains("Div(") && shown.contains("y = Cast"), "{shown}");
}

/// The kernel adds what is stored.
#[test]
fn other_integers_of_32_bits_are_numbers() {
    let tensors = vec![
        plain("x", INT32, &[2], 0.5, 0),
        plain("c", INT32, &[2], 0.125, 1),
        plain("y", INT32, &[2], 0.25, 0),
    ];
    let shown = text(&single(ADD, tensors, vec![int32s(&[1, 2])], vec![]));
    assert!(shown.contains("y = Add(x, c)"), "{shown}");
    let tensors = vec![
        plain("x", INT8, &[1, 2], 0.5, 0),
        plain("paddings", INT32, &[2, 2], 0.25, 1),
        plain("y", INT8, &[1, 3], 0.5, 0),
    ];
    let shown = text(&single(PAD, tensors, vec![int32s(&[0, 0, 0, 1])], vec![]));
    assert!(shown.contains("{0, 0, 0, 1}"), "{shown}");
}

#[test]
fn biases_are_real_numbers() {
    let tensors = vec![
        plain("x", INT8, &[1, 2], 0.5, 0),
        plain("w", INT8, &[1, 2], 0.5, 1),
        plain("b", INT32, &[1], 0.25, 2),
        tensor("y", FLOAT, &[1, 1], 0),
    ];
    let shown = text(&single(FULLY_CONNECTED, tensors, vec![vec![1, 2], int32s(&[8])], vec![]));
    assert!(shown.contains("y_constant_2 = {0.25}"), "{shown}");
    assert!(shown.contains("DequantizeLinear(constant, y_constant_2)"), "{shown}");
}

/// What is chosen between is cast, and the last value has the name.
#[test]
fn results_that_are_cast_keep_their_names() {
    let tensors = vec![
        tensor("x", INT32, &[2], 0),
        tensor("depth", INT32, &[], 1),
        tensor_of("on", INT8, &[], 0.5),
        tensor_of("off", INT8, &[], 0.25),
        tensor_of("y", INT8, &[2, 3], 0.5),
    ];
    let mut lite =
        single(ONE_HOT, tensors, vec![int32s(&[3]), vec![7], vec![1]], vec![(0, Field::I32(-1))]);
    let Field::Tables(tensors) = &mut lite.graphs[0][0].1 else { panic!("tensors") };
    for (at, constant) in [(2, 2), (3, 3)] {
        tensors[at][2] = (2, Field::I32(constant));
    }
    let shown = text(&lite);
    assert!(shown.contains("(int32[2] x) => (int8[2,3] y)"), "{shown}");
}

/// `QuantizeLinear` rounds them to even integers.
#[test]
fn halves_between_pixels_are_rounded_up() {
    let tensors = vec![
        tensor_of("x", INT8, &[1, 2, 2, 1], 1.0),
        tensor("size", INT32, &[2], 1),
        tensor_of("y", INT8, &[1, 4, 4, 1], 1.0),
    ];
    let shown = text(&single(RESIZE_BILINEAR, tensors, vec![int32s(&[4, 4])], vec![]));
    assert!(shown.contains("= Add(") && shown.contains("0.00024414"), "{shown}");
}
