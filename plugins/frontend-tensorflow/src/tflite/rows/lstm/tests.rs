use crate::tflite::fixture::{
    Field, Fields, INT8, INT16, INT32, Lite, graph, int32s, operator, quantized, tensor, text,
};

fn stored(name: &str, dtype: i8, dims: &[i32], scale: f32, zero: i64, constant: i32) -> Fields {
    quantized(tensor(name, dtype, dims, constant), &[scale], &[zero], 0)
}

/// A layer of one unit on integers, whose state and result have these scales, and the zero point 3.
fn layer(state: f32, result: f32) -> Lite {
    layer_of(state, result, 1.0 / 4096.0)
}

fn layer_of(state: f32, result: f32, cell: f32) -> Lite {
    let variable = |name: &str, dtype, scale, zero| {
        let mut found = stored(name, dtype, &[1, 1], scale, zero, 0);
        found.push((5, Field::Bool(true)));
        found
    };
    let tensors = vec![
        stored("x", INT8, &[1, 4, 1], 0.5, 0, 0),
        stored("w", INT8, &[1, 1], 0.5, 0, 1),
        stored("b", INT32, &[1], 0.25, 0, 2),
        variable("h", INT8, state, 3),
        variable("c", INT16, cell, 0),
        stored("computed", INT8, &[0], 0.25, 3, 0),
        stored("y", INT8, &[1, 4, 1], result, 3, 0),
    ];
    let inputs = [0, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, 2, 2, 2, 2, -1, -1, 3, 4];
    let mut node = operator(0, &inputs, &[6], vec![(0, Field::I8(4))]);
    node.push((8, Field::Ints(vec![-1, -1, -1, -1, 5])));
    Lite {
        codes: vec![(44, "")],
        constants: vec![vec![1], int32s(&[1])],
        graphs: vec![graph(tensors, [&[0], &[6]], vec![node])],
        ..Lite::default()
    }
}

/// The kernel stores what it computes in 8 bits, and hands these on as they are.
#[test]
fn results_are_integers_between_steps() {
    let count = |shown: &str, word: &str| shown.matches(&format!(" {word}(")).count();
    let alike = text(&layer(0.25, 0.25));
    assert!(alike.contains("Scan") && !alike.contains("LSTM"), "{alike}");
    let (inside, all) = (count(&alike, "QuantizeLinear"), text(&layer(0.5, 0.125)));
    assert_eq!(inside, 2, "one in the loop, and that of the result: {alike}");
    assert_eq!(count(&all, "QuantizeLinear"), 3, "{all}");
    assert!(all.contains("-7.99") && all.contains("7.99"), "the cell ends where 16 bits do: {all}");
}

/// TFLite's kernel has `tanh` for cells that reach 1, 2, 4 ... 64, and takes the input gate elsewhere.
#[test]
fn tanh_is_left_out_where_the_kernel_has_none() {
    let count =
        |bits: i32| text(&layer_of(0.25, 0.25, 2f32.powi(bits - 15))).matches("Tanh(").count();
    assert_eq!([-1, 0, 3, 6, 7].map(count), [1, 2, 2, 2, 1]);
}
