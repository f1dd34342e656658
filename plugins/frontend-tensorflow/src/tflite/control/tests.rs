use crate::tflite::fixture::{
    BOOL, FLOAT, Field, Fields, INT32, Lite, RESOURCE, graph, operator, problem, tensor,
};

const CASE: i32 = 209;
const IF: i32 = 118;

fn float(name: &str) -> Fields {
    tensor(name, FLOAT, &[2], 0)
}

/// A graph that chooses between others, which double what they are given.
fn chosen(code: i32, inputs: &[i32], by: Fields, mut options: Fields) -> Lite {
    let mut node = operator(0, inputs, &[2], vec![]);
    if code == CASE {
        // Its options are in the second table.
        node.retain(|(slot, _)| *slot != 4);
        node.extend([(11, Field::I8(20)), (12, Field::Table(std::mem::take(&mut options)))]);
    } else {
        node = operator(0, inputs, &[2], options);
    }
    let handle = operator(2, &[], &[3], vec![]);
    let tensors = vec![by, float("x"), float("y"), tensor("h", RESOURCE, &[], 0)];
    let double = || {
        graph(vec![float("a"), float("b")], [&[0], &[1]], vec![operator(1, &[0, 0], &[1], vec![])])
    };
    Lite {
        codes: vec![(code, ""), (0, ""), (142, "")],
        graphs: vec![graph(tensors, [&[0, 1], &[2]], vec![handle, node]), double(), double()],
        ..Lite::default()
    }
}

#[test]
fn what_is_missing_is_told() {
    let graphs = || vec![(0, Field::I32(1)), (1, Field::I32(2))];
    let condition = || tensor("c", BOOL, &[], 0);
    let found = problem(&chosen(IF, &[-1, 1], condition(), graphs()));
    assert!(found.contains("left out") && found.contains("[layer y (IF)]"), "{found}");
    let found = problem(&chosen(IF, &[], condition(), graphs()));
    assert!(found.contains("no inputs"), "{found}");
    let found = problem(&chosen(IF, &[3, 1], condition(), graphs()));
    assert!(found.contains("variable or table"), "{found}");
    let found = problem(&chosen(CASE, &[0, 1], tensor("c", INT32, &[], 0), vec![]));
    assert!(found.contains("names no graphs"), "{found}");
}
