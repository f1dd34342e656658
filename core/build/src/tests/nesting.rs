use super::{builder, float, text};
use crate::{Operand, Turn};
use onnxd_ir::{DataType, Dim, ValueType};

fn bool_scalar() -> ValueType {
    ValueType::tensor(DataType::Bool, Vec::<Dim>::new())
}

#[test]
fn branches_capture_what_they_read() {
    let b = builder(18);
    let (x, c) = (b.input("x", float([2])), b.input("c", bool_scalar()));
    let doubled = b.mul(x, 2.0).unwrap();
    let y = b.if_(c, |b| Ok(vec![b.add(doubled, x)?]), |_| Ok(vec![x])).unwrap();
    assert_eq!(b.dims_of(y[0]), Some(vec![2]));
    b.output(y[0], "y").unwrap();
    let graph = text(b);
    assert!(graph.contains("If") && graph.contains("Identity(x)"), "{graph}");
}

#[test]
fn a_known_condition_needs_no_node() {
    let b = builder(18);
    let x = b.input("x", float([2]));
    let y = b.if_(true, |b| Ok(vec![b.relu(x)?]), |b| Ok(vec![b.neg(x)?])).unwrap();
    b.output(y[0], "y").unwrap();
    let graph = text(b);
    assert!(graph.contains("Relu") && !graph.contains("Neg") && !graph.contains("If"), "{graph}");
}

#[test]
fn loops_carry_and_stack() {
    let b = builder(18);
    let x = b.input("x", float([2]));
    let start = b.mul(x, 0.0).unwrap();
    let results = b
        .loop_(3, Operand::Absent, &[start], |b, i, go_on, carried| {
            let step = b.cast(i, DataType::Float)?;
            let sum = b.add(carried[0], b.mul(x, step)?)?;
            Ok(Turn { condition: go_on, carried: vec![sum], scanned: vec![sum] })
        })
        .unwrap();
    let [sum, all] = results[..] else { panic!("two results") };
    b.output(sum, "sum").unwrap();
    b.output(all, "all").unwrap();
    let graph = text(b);
    assert!(graph.contains("Loop") && graph.contains("float[2] sum"), "{graph}");
}

#[test]
fn loops_nest_and_capture_through_both() {
    let b = builder(18);
    let x = b.input("x", float([2]));
    let inner = |b: &crate::GraphBuilder, from: crate::Var| {
        b.loop_(2, Operand::Absent, &[from], |b, _, go_on, carried| {
            let sum = b.add(carried[0], x)?;
            Ok(Turn { condition: go_on, carried: vec![sum], scanned: vec![] })
        })
    };
    let results = b.loop_(2, Operand::Absent, &[x], |b, _, go_on, carried| {
        Ok(Turn { condition: go_on, carried: inner(b, carried[0])?, scanned: vec![] })
    });
    b.output(results.unwrap()[0], "y").unwrap();
    assert_eq!(text(b).matches("Loop").count(), 2);
}

#[test]
fn scans_and_maps_of_sequences() {
    let b = builder(18);
    let (x, h) = (b.input("x", float([5, 2])), b.input("h", float([2])));
    let results = b.scan(&[h], &[x], |b, h, x| {
        let sum = b.add(h[0], x[0])?;
        Ok(vec![sum, sum])
    });
    let results = results.unwrap();
    assert_eq!(b.dims_of(results[1]), Some(vec![5, 2]));
    b.output(results[1], "all").unwrap();
    let sequence = b.sequence_construct([x, x]).unwrap();
    let mapped = b.sequence_map(sequence, &[], |b, e| Ok(vec![b.neg(e[0])?])).unwrap();
    b.output(mapped[0], "mapped").unwrap();
    text(b);
}

#[test]
fn a_branch_that_fails_leaves_the_graph_as_it_was() {
    let b = builder(18);
    let (x, c) = (b.input("x", float([2])), b.input("c", bool_scalar()));
    let w = b.input("w", float([3]));
    let failed = b.if_(c, |b| Ok(vec![b.add(x, w)?]), |_| Ok(vec![x]));
    assert_eq!(failed.unwrap_err().code, "N0215");
    b.output(b.relu(x).unwrap(), "y").unwrap();
    assert_eq!(text(b).matches("Relu").count(), 1);
    let b = builder(18);
    let (x, c) = (b.input("x", float([2])), b.input("c", bool_scalar()));
    let counts = b.if_(c, |_| Ok(vec![x]), |_| Ok(vec![])).unwrap_err();
    assert!(counts.message.contains("1 and 0"), "{counts}");
}

#[test]
fn sizes_that_a_turn_computes_may_vary() {
    let b = builder(18);
    let x = b.input("x", ValueType::tensor(DataType::Float, [Dim::Unknown, Dim::Known(2)]));
    let varies = |v: crate::Var| -> Vec<bool> {
        b.shape_of(v).unwrap().iter().map(|size| b.may_vary(size)).collect()
    };
    b.loop_(3, Operand::Absent, &[x], |b, i, go_on, carried| {
        let doubled = b.concat([x, x]).axis(0).one()?;
        assert_eq!(varies(doubled), [false, false]);
        assert_eq!(varies(b.range(0, i, 1).one()?), [true]);
        Ok(Turn { condition: go_on, carried: carried.to_vec(), scanned: vec![] })
    })
    .unwrap();
}
