use super::*;
use crate::tflite::fixture::{
    FLOAT, Field, Fields, INT32, INT64, Lite, int32s, int64s, problem, single, tensor, text,
};
use crate::tflite::operators;

/// The runner lowers these itself.
const RUNNER: [&str; 12] = [
    "CALL", "QUANTIZE", "DEQUANTIZE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE",
    "ASSIGN_VARIABLE", "IF", "WHILE", "STABLEHLO_WHILE", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE",
];

#[test]
fn every_operator_is_one_of_tensorflow_or_has_a_row_or_is_refused() {
    let own = rows(Table::new()).operators();
    for operator in operators::all() {
        let name = operator.name;
        let ways = [
            operator.same_as.is_some(),
            own.contains(&name),
            operator.refused.is_some(),
            RUNNER.contains(&name),
        ];
        assert_eq!(ways.iter().filter(|way| **way).count(), 1, "{name}");
    }
    for code in 0..=209 {
        assert!(code == operators::CUSTOM || operators::find(code, "").is_some(), "{code}");
    }
}

/// A slice of ten numbers whose end counts from its beginning.
fn sliced(begin: i32, end: i32, step: i32, begin_mask: i32) -> String {
    let list = |name, constant| tensor(name, INT32, &[1], constant);
    let tensors = vec![
        tensor("x", FLOAT, &[10], 0),
        list("begin", 1),
        list("end", 2),
        list("strides", 3),
        tensor("y", FLOAT, &[-1], 0),
    ];
    let options = vec![(0, Field::I32(begin_mask)), (1, Field::I32(1)), (5, Field::Bool(true))];
    text(&single(45, tensors, [begin, end, step].map(|n| int32s(&[n])).to_vec(), options))
}

/// As TFLite's interpreter takes them; it does not look at `end_mask`.
#[test]
fn ends_that_count_from_the_beginning() {
    let last = i64::MIN + 1;
    for ((begin, end, step), mask, expected) in [
        ((2, 3, 1), 0, (2, 5)),
        ((-4, 3, 1), 0, (6, 9)),
        ((-4, 4, 1), 0, (6, 10)),
        ((-20, 3, 1), 0, (0, 3)),
        ((5, 3, 1), 1, (0, 3)),
        ((5, -3, -1), 0, (5, 2)),
        ((5, -3, -1), 1, (9, 6)),
        ((12, -3, -1), 0, (9, 6)),
        ((2, -3, -1), 0, (2, last)),
    ] {
        let shown = sliced(begin, end, step, mask);
        let (from, to) = expected;
        assert!(
            shown.contains(&format!("{{{from}}}")) || from == 0,
            "{begin} {end} {step}: {shown}"
        );
        assert!(shown.contains(&format!("{{{to}}}")) || to == 10, "{begin} {end} {step}: {shown}");
    }
}

/// Channels whose number varies: each has as many filters as the option says.
#[test]
fn depthwise_filters_of_unknown_channels() {
    let of = |multiplier| {
        let mut x = tensor("x", FLOAT, &[1, 4, 4, 1], 0);
        x.push((7, Field::Ints(vec![1, 4, 4, -1])));
        let tensors =
            vec![x, tensor("w", FLOAT, &[1, 1, 1, 4], 1), tensor("y", FLOAT, &[1, 4, 4, 4], 0)];
        let strides = [(1, Field::I32(1)), (2, Field::I32(1)), (3, Field::I32(multiplier))];
        single(4, tensors, vec![int32s(&[0; 4])], strides.to_vec())
    };
    assert!(text(&of(2)).contains("group = 2"), "{}", text(&of(2)));
    assert!(problem(&of(0)).contains("number of channels"), "{}", problem(&of(0)));
}

fn list(name: &str, constant: i32) -> Fields {
    tensor(name, INT64, &[2], constant)
}

/// `REDUCE_WINDOW` by sums, with lists for two axes.
fn windows(lists: [&[i64]; 3]) -> Lite {
    let mut node = single(
        205,
        vec![
            tensor("x", FLOAT, &[4, 4], 0),
            tensor("init", FLOAT, &[], 1),
            list("shape", 2),
            list("strides", 3),
            list("dilations", 4),
            tensor("y", FLOAT, &[-1, -1], 0),
        ],
        std::iter::once(int32s(&[0])).chain(lists.map(int64s)).collect(),
        vec![],
    );
    let Field::Tables(operators) = &mut node.graphs[0][3].1 else { panic!("operators") };
    operators[0].retain(|(slot, _)| *slot != 4);
    operators[0].extend([(11, Field::I8(22)), (12, Field::Table(vec![(0, Field::I32(1))]))]);
    node
}

#[test]
fn windows_of_all_axes() {
    assert!(text(&windows([&[2, 2], &[1, 1], &[1, 1]])).contains("Slice("));
    let found = problem(&windows([&[2, 2], &[1, 1], &[i64::MAX, 1]]));
    assert!(found.contains("N0203"), "{found}");
}

/// `DILATE` of `[2, 2]` by these numbers.
fn apart(dilations: &[i64]) -> Lite {
    let tensors = vec![
        tensor("x", FLOAT, &[2, 2], 0),
        tensor("dilations", INT64, &[dilations.len() as i32], 1),
        tensor("value", FLOAT, &[], 2),
        tensor("y", FLOAT, &[-1, -1], 0),
    ];
    single(203, tensors, vec![int64s(dilations), int32s(&[0])], vec![])
}

#[test]
fn cells_between_others() {
    assert!(text(&apart(&[2, 1])).contains("Pad("), "{}", text(&apart(&[2, 1])));
    for dilations in [&[0, 1][..], &[1, i64::MIN], &[2], &[2, 2, 2]] {
        let found = problem(&apart(dilations));
        assert!(found.contains("N0204"), "{dilations:?}: {found}");
    }
}

/// `STABLEHLO_GATHER` of slices of these sizes.
fn gathered(sizes: &[i64]) -> Lite {
    let mut lite = single(
        201,
        vec![
            tensor("x", FLOAT, &[4, 4], 0),
            tensor("starts", INT32, &[1, 1], 1),
            tensor("y", FLOAT, &[1, -1], 0),
        ],
        vec![int32s(&[0])],
        vec![],
    );
    let longs = |all: &[i64]| Field::Longs(all.to_vec());
    let options = vec![(0, longs(&[1])), (1, longs(&[0])), (2, longs(&[0])), (4, longs(sizes))];
    let Field::Tables(operators) = &mut lite.graphs[0][3].1 else { panic!("operators") };
    operators[0].retain(|(slot, _)| *slot != 4);
    operators[0].extend([(11, Field::I8(18)), (12, Field::Table(options))]);
    lite
}

#[test]
fn slices_have_sizes() {
    for bad in [i64::MIN, -1] {
        let found = problem(&gathered(&[1, bad]));
        assert!(found.contains("N0204") && found.contains("elements"), "{found}");
    }
}
