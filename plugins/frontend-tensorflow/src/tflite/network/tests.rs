use super::{Asked, import};
use crate::tflite::fixture::{
    BOOL, FLOAT, Field, Fields, INT8, INT16, Lite, RESOURCE, converted, file, graph, operator,
    problem, quantized, signature, tensor, text,
};
use crate::tflite::model;
use bytes::Bytes;
use onnxd_plugin_sdk::ExportOptions;
use std::rc::Rc;

const ADD: (i32, &str) = (0, "");
const CALL: (i32, &str) = (31, "");
const CALL_ONCE: (i32, &str) = (129, "");
const IF: (i32, &str) = (118, "");
const WHILE: (i32, &str) = (119, "");
const VAR_HANDLE: (i32, &str) = (142, "");
const READ: (i32, &str) = (143, "");
const ASSIGN: (i32, &str) = (144, "");

fn activation(number: i8) -> Fields {
    vec![(0, Field::I8(number))]
}

/// `y = relu6(x + c)`
fn sum(x: Fields, y: Fields) -> Lite {
    let c = tensor("c", FLOAT, &[2], 1);
    let add = operator(0, &[0, 1], &[2], activation(3));
    let bytes = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    Lite {
        codes: vec![ADD],
        constants: vec![bytes],
        graphs: vec![graph(vec![x, c, y], [&[0], &[2]], vec![add])],
        ..Lite::default()
    }
}

#[test]
fn activations_are_part_of_operators() {
    let lite = sum(tensor("x", FLOAT, &[2], 0), tensor("out:0", FLOAT, &[2], 0));
    let text = text(&lite);
    assert!(text.contains("(float[2] x) => (float[2] out)"), "{text}");
    assert!(text.contains("Add(x, c)") && text.contains("out = Clip("), "{text}");
}

#[test]
fn signatures_name_what_the_graph_orders() {
    let tensors = ["a", "b", "y"].map(|name| tensor(name, FLOAT, &[2], 0)).to_vec();
    let add = operator(0, &[0, 1], &[2], vec![]);
    let mut lite = Lite {
        codes: vec![ADD],
        graphs: vec![graph(tensors, [&[1, 0], &[2]], vec![add])],
        signatures: vec![signature("serve", &[("first", 0), ("second", 1)], &[("sum", 2)])],
        ..Lite::default()
    };
    let shown = text(&lite);
    assert!(shown.contains("(float[2] second, float[2] first) => (float[2] sum)"), "{shown}");
    lite.signatures.push(signature("other", &[], &[("sum", 2)]));
    let found = problem(&lite);
    assert!(
        found.contains("N0105") && found.contains("`serve, other`")
            || found.contains("serve, other"),
        "{found}"
    );
}

#[test]
fn sizes_that_vary() {
    let mut x = tensor("x", FLOAT, &[1, 2], 0);
    x.push((7, Field::Ints(vec![-1, 2])));
    let lite = sum(x, tensor("y", FLOAT, &[1, 2], 0));
    assert!(text(&lite).contains("(float[x_dynamic_axes_1,2] x)"), "{}", text(&lite));
}

fn int8(name: &str, constant: i32, scale: f32, zero: i64) -> Fields {
    quantized(tensor(name, INT8, &[2], constant), &[scale], &[zero], 0)
}

#[test]
fn operators_compute_between_integers() {
    let add = operator(0, &[0, 1], &[2], activation(3));
    let lite = |scale, zero| Lite {
        codes: vec![ADD],
        constants: vec![vec![1, 2]],
        graphs: vec![graph(
            vec![int8("x", 0, 0.5, 3), int8("c", 1, 0.25, 0), int8("y", 0, scale, zero)],
            [&[0], &[2]],
            vec![add.clone()],
        )],
        ..Lite::default()
    };
    let shown = text(&lite(6.0 / 255.0, -128));
    assert!(shown.contains("(int8[2] x) => (int8[2] y)"), "{shown}");
    assert!(shown.contains("y = QuantizeLinear("), "{shown}");
    assert_eq!(shown.matches("DequantizeLinear(").count(), 2, "{shown}");
    assert!(!shown.contains("Clip"), "integers end where the activation does: {shown}");
    assert!(text(&lite(0.1, 0)).contains("Clip"));
}

/// Before opset 21 there is no node for integers of 16 bits.
#[test]
fn integers_of_16_bits() {
    let int16 = |name| quantized(tensor(name, INT16, &[2], 0), &[0.5], &[0], 0);
    let add = operator(0, &[0, 0], &[1], vec![]);
    let lite = Lite {
        codes: vec![ADD],
        graphs: vec![graph(vec![int16("x"), int16("y")], [&[0], &[1]], vec![add])],
        ..Lite::default()
    };
    let old = text(&lite);
    assert!(old.contains("Round") && old.contains("Clip") && !old.contains("Linear"), "{old}");
    assert!(converted(&lite.bytes(), 21).unwrap().contains("QuantizeLinear"));
    let mut options = ExportOptions::of_shapes(18, vec![]);
    let done = import(&lite.bytes(), Asked::default(), &mut options).unwrap();
    assert_eq!(done.model.opset(), 21);
}

/// A graph whose one operator runs another graph.
fn runs(operator: Fields, tensors: Vec<Fields>) -> Fields {
    graph(tensors, [&[0], &[1]], vec![operator])
}

fn floats(names: &[&str]) -> Vec<Fields> {
    names.iter().map(|name| tensor(name, FLOAT, &[2], 0)).collect()
}

#[test]
fn calls_are_inlined_and_end() {
    let call = |graph| operator(0, &[0], &[1], vec![(0, Field::I32(graph))]);
    let add = operator(1, &[0, 0], &[1], vec![]);
    let mut lite = Lite {
        codes: vec![CALL, ADD],
        graphs: vec![runs(call(1), floats(&["x", "y"])), runs(add, floats(&["a", "b"]))],
        ..Lite::default()
    };
    assert!(text(&lite).contains("y = Add(x, x)"), "{}", text(&lite));
    lite.graphs[1] = runs(call(0), floats(&["a", "b"]));
    assert!(problem(&lite).contains("N0213"), "{}", problem(&lite));
    lite.graphs[1] = runs(call(7), floats(&["a", "b"]));
    assert!(problem(&lite).contains("no graph number 7"), "{}", problem(&lite));
}

#[test]
fn loops_that_contain_themselves() {
    let repeated = |codes| Lite {
        codes: vec![codes],
        graphs: vec![runs(
            operator(0, &[0], &[1], vec![(0, Field::I32(0)), (1, Field::I32(0))]),
            floats(&["x", "y"]),
        )],
        ..Lite::default()
    };
    assert!(problem(&repeated(WHILE)).contains("N0213"), "{}", problem(&repeated(WHILE)));
}

#[test]
fn branches() {
    let tensors =
        vec![tensor("c", BOOL, &[], 0), tensor("x", FLOAT, &[2], 0), tensor("y", FLOAT, &[2], 0)];
    let choice = operator(0, &[0, 1], &[2], vec![(0, Field::I32(1)), (1, Field::I32(2))]);
    let add = |n: i8| operator(1, &[0, 0], &[1], activation(n));
    let lite = Lite {
        codes: vec![IF, ADD],
        graphs: vec![
            graph(tensors, [&[0, 1], &[2]], vec![choice]),
            runs(add(0), floats(&["a", "b"])),
            runs(add(1), floats(&["a", "b"])),
        ],
        ..Lite::default()
    };
    let shown = text(&lite);
    assert!(shown.contains("y = If") && shown.contains("Relu"), "{shown}");
}

/// A variable that the first run sets, and the main graph adds to `x`; `again` sets it in each run.
fn variable(again: bool) -> Lite {
    let name = vec![(1, Field::Text("v".into()))];
    let handle = |to: i32| operator(0, &[], &[to], name.clone());
    let assign = |from: &[i32]| operator(2, from, &[], vec![]);
    let mut main = vec![
        operator(3, &[], &[], vec![(0, Field::I32(1))]),
        handle(2),
        operator(1, &[2], &[3], vec![]),
        operator(4, &[0, 3], &[1], vec![]),
    ];
    if again {
        main.push(assign(&[2, 1]));
    }
    let mut tensors = floats(&["x", "y"]);
    tensors.extend([tensor("h", RESOURCE, &[], 0), tensor("r", FLOAT, &[2], 0)]);
    let start = vec![tensor("h", RESOURCE, &[], 0), tensor("c", FLOAT, &[2], 1)];
    Lite {
        codes: vec![VAR_HANDLE, READ, ASSIGN, CALL_ONCE, ADD],
        constants: vec![[1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect()],
        graphs: vec![
            graph(tensors, [&[0], &[1]], main),
            graph(start, [&[], &[]], vec![handle(0), assign(&[0, 1])]),
        ],
        ..Lite::default()
    }
}

#[test]
fn variables_are_what_the_first_run_sets() {
    let shown = text(&variable(false));
    assert!(shown.contains("= Add(x, "), "{shown}");
    assert!(problem(&variable(true)).contains("keeps nothing between calls"));
}

#[test]
fn files_that_contradict_themselves() {
    let add = |inputs: &[i32]| Lite {
        codes: vec![ADD],
        graphs: vec![graph(
            floats(&["x", "y", "z"]),
            [&[0], &[1]],
            vec![operator(0, inputs, &[1], vec![])],
        )],
        ..Lite::default()
    };
    assert!(problem(&add(&[0, 9])).contains("no tensor 9"), "{}", problem(&add(&[0, 9])));
    assert!(problem(&add(&[0, -7])).contains("no tensor -7"));
    assert!(problem(&add(&[0, 2])).contains("before anything computes it"));
    assert!(problem(&add(&[0, 1])).contains("before anything computes it"));
    assert!(problem(&add(&[0, 0, 0])).contains("has 3 inputs"));
    assert!(problem(&add(&[0])).contains("`y` must be a tensor"));
    let mut unknown = add(&[0, 0]);
    unknown.codes = vec![(5000, "")];
    assert!(problem(&unknown).contains("5000"));
    unknown.codes = vec![(32, "Mine")];
    assert!(problem(&unknown).contains("`Mine`"));
}

/// Many operators may have one long name.
#[test]
fn custom_names_are_shared() {
    let node = |from, to| operator(0, &[from], &[to], vec![]);
    let lite = Lite {
        codes: vec![(32, "Mine")],
        graphs: vec![graph(floats(&["x", "y", "z"]), [&[0], &[2]], vec![node(0, 1), node(1, 2)])],
        ..Lite::default()
    };
    let model = model::read(&lite.bytes()).unwrap();
    let [first, second] = &model.graphs[0].operators[..] else { panic!("two operators") };
    assert!(Rc::ptr_eq(&first.custom, &second.custom));
}

#[test]
fn sizes_and_data_that_do_not_fit() {
    let of = |dims: &[i32]| {
        let mut lite = sum(tensor("x", FLOAT, &[2], 0), tensor("y", FLOAT, &[2], 0));
        let tensors = vec![
            tensor("x", FLOAT, &[2], 0),
            tensor("c", FLOAT, dims, 1),
            tensor("y", FLOAT, &[2], 0),
        ];
        let add = operator(0, &[0, 1], &[2], vec![]);
        lite.graphs = vec![graph(tensors, [&[0], &[2]], vec![add])];
        problem(&lite)
    };
    assert!(of(&[3]).contains("do not fit"), "{}", of(&[3]));
    assert!(of(&[-2]).contains("negative"), "{}", of(&[-2]));
    assert!(of(&[i32::MAX; 8]).contains("overflows"), "{}", of(&[i32::MAX; 8]));
    assert!(of(&[1; 40]).contains("too many axes"), "{}", of(&[1; 40]));
}

#[test]
fn offsets_that_lead_outside() {
    let broken = |root: Fields| converted(&file(&root), 18).unwrap_err();
    for offset in [0, 1, 7, 1 << 20, u32::MAX] {
        let found = broken(vec![(2, Field::Offset(offset))]);
        assert!(found.contains("N0201"), "{offset}: {found}");
    }
    assert!(converted(&Bytes::from_static(b"\x08\0\0\0TFL3"), 18).unwrap_err().contains("N0201"));
    // Each cut leaves a file that is read or refused.
    let whole = variable(true).bytes();
    for length in 0..whole.len() {
        let _ = converted(&whole.slice(..length), 18);
    }
}

/// Each byte is damaged in turn.
#[test]
fn damaged_files_are_read_or_refused() {
    let whole = variable(false).bytes();
    for at in 0..whole.len() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.to_vec();
            damaged[at] = byte;
            let _ = converted(&damaged.into(), 18);
        }
    }
}

/// `y = conv(x, w)` on floats, where the filter is stored as integers with a scale for each result.
fn weights_alone() -> Lite {
    let filter = quantized(tensor("w", INT8, &[2, 1, 3, 1], 1), &[0.5, 2.0], &[0, 0], 0);
    let tensors =
        vec![tensor("x", FLOAT, &[1, 1, 3, 1], 0), filter, tensor("y", FLOAT, &[1, 1, 1, 2], 0)];
    let options = vec![(0, Field::I8(1)), (1, Field::I32(1)), (2, Field::I32(1))];
    let conv = operator(0, &[0, 1], &[2], options);
    Lite {
        codes: vec![(3, "")],
        constants: vec![vec![1, 2, 3, 4, 5, 6]],
        graphs: vec![graph(tensors, [&[0], &[2]], vec![conv])],
        ..Lite::default()
    }
}

#[test]
fn weights_that_are_quantized_alone_stay_integers() {
    let shown = text(&weights_alone());
    assert!(shown.contains("int8[2,1,1,3] w_1 = {1, 2, 3, 4, 5, 6}"), "{shown}");
    assert!(shown.contains("DequantizeLinear<axis = 0>(w_1"), "{shown}");
    assert_eq!(shown.matches("Transpose").count(), 2, "those of input and result: {shown}");
    // Integers are what a quantizer takes a model for that is quantized already.
    let asked = Asked { quantized: true, ..Asked::default() };
    let options = &mut ExportOptions::of_shapes(18, vec![]);
    let done = import(&weights_alone().bytes(), asked, options).unwrap();
    let shown = onnxd_plugin_sdk::ir::text::print_graph(&done.model.graph);
    assert!(!shown.contains("DequantizeLinear") && shown.contains("8.0, 10.0, 12.0"), "{shown}");
}
