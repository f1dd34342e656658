use crate::{Executor, RunOptions};
use onnxd_ir::{Attr, DataType, Graph, Model, Node, Tensor, ValueId, ValueType};
use std::collections::BTreeMap;

/// Runs a graph that `build` makes of the inputs; gives its output.
fn computed(
    inputs: &[Tensor],
    build: impl Fn(&mut Graph, &[ValueId]) -> ValueId,
) -> Result<Tensor, String> {
    let mut g = Graph::new("g");
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let xs: Vec<ValueId> = names.iter().map(|n| g.add_input(n, None)).collect();
    let y = build(&mut g, &xs);
    g.mark_output(y);
    let model = Model::new(g, 8, 18);
    let fed: BTreeMap<String, Tensor> = names.into_iter().zip(inputs.iter().cloned()).collect();
    let executor = Executor::new(&model).map_err(|d| d.to_string())?;
    let found = executor.run(&fed, RunOptions::default()).map_err(|d| d.to_string())?;
    Ok(found[0].1.clone())
}

fn apply(g: &mut Graph, op: &str, inputs: &[ValueId], attrs: &[(&str, i64)]) -> ValueId {
    let y = g.add_value(op, None);
    let mut node = Node::new(op, inputs.to_vec(), [y]);
    node.attrs = attrs.iter().map(|(n, v)| ((*n).to_owned(), Attr::Int(*v))).collect();
    g.add_node(node);
    y
}

#[test]
fn sequences_are_built_and_joined() {
    let xs = [Tensor::vector(vec![1i64, 2]), Tensor::vector(vec![3i64, 4]), Tensor::scalar(-1i64)];
    let found = computed(&xs, |g, x| {
        let list = apply(g, "SequenceConstruct", &x[..2], &[]);
        let list = apply(g, "SequenceInsert", &[list, x[0], x[2]], &[]);
        apply(g, "ConcatFromSequence", &[list], &[("axis", 1), ("new_axis", 1)])
    });
    let expected = Tensor::from_vec(vec![2, 3], vec![1i64, 1, 3, 2, 2, 4]);
    assert_eq!(found.unwrap(), expected);
    let erased = computed(&xs, |g, x| {
        let list = apply(g, "SequenceConstruct", &x[..2], &[]);
        let list = apply(g, "Identity", &[list], &[]);
        let list = apply(g, "SequenceErase", &[list], &[]);
        apply(g, "SequenceAt", &[list, x[2]], &[])
    });
    assert_eq!(erased.unwrap(), xs[0]);
}

#[test]
fn parts_of_a_tensor() {
    let x = Tensor::from_vec(vec![3, 2], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let parts = [x.clone(), Tensor::scalar(2i64), Tensor::scalar(1i64)];
    let last = computed(&parts, |g, x| {
        let list = apply(g, "SplitToSequence", &x[..2], &[]);
        apply(g, "SequenceAt", &[list, x[2]], &[])
    });
    assert_eq!(last.unwrap(), Tensor::from_vec(vec![1, 2], vec![5f32, 6.0]));
    let rows = computed(&[x, Tensor::scalar(1i64)], |g, x| {
        let list = apply(g, "SplitToSequence", &x[..1], &[("keepdims", 0)]);
        apply(g, "SequenceAt", &[list, x[1]], &[])
    });
    assert_eq!(rows.unwrap(), Tensor::vector(vec![3f32, 4.0]));
}

#[test]
fn a_body_is_mapped() {
    let mut b = Graph::new("body");
    let (x, y) = (b.add_input("x", None), b.add_input("y", None));
    let sum = apply(&mut b, "Add", &[x, y], &[]);
    b.mark_output(sum);
    let found = computed(&[Tensor::vector(vec![1i32, 2, 3]), Tensor::scalar(10i32)], |g, x| {
        let list = apply(g, "SplitToSequence", &x[..1], &[]);
        let mapped = g.add_value("mapped", None);
        let node = Node::new("SequenceMap", [list, x[1]], [mapped]);
        g.add_node(node.with("body", Attr::Graph(Box::new(b.clone()))));
        apply(g, "ConcatFromSequence", &[mapped], &[("axis", 0)])
    });
    assert_eq!(found.unwrap(), Tensor::vector(vec![11i32, 12, 13]));
}

#[test]
fn optionals() {
    let has = |empty: bool| {
        computed(&[Tensor::scalar(1f32)], |g, x| {
            let wrapped = apply(g, "Optional", if empty { &[] } else { &x[..1] }, &[]);
            apply(g, "OptionalHasElement", &[wrapped], &[])
        })
    };
    let truth = |v: u8| Tensor::from_vec_as(DataType::Bool, vec![], vec![v]);
    assert_eq!((has(false).unwrap(), has(true).unwrap()), (truth(1), truth(0)));
    let element = |empty: bool| {
        computed(&[Tensor::scalar(1f32)], |g, x| {
            let wrapped = apply(g, "Optional", if empty { &[] } else { &x[..1] }, &[]);
            apply(g, "OptionalGetElement", &[wrapped], &[])
        })
    };
    assert_eq!(element(false).unwrap(), Tensor::scalar(1f32));
    assert!(element(true).unwrap_err().contains("no element"));
}

#[test]
fn kinds_do_not_mix() {
    let x = [Tensor::vector(vec![1f32])];
    let relu = computed(&x, |g, x| {
        let list = apply(g, "SequenceConstruct", &x[..1], &[]);
        apply(g, "Relu", &[list], &[])
    });
    assert!(relu.unwrap_err().contains("a sequence where a tensor is needed"));
    let length = computed(&x, |g, x| apply(g, "SequenceLength", &x[..1], &[]));
    assert!(length.unwrap_err().contains("a tensor where a sequence is needed"));
}

/// Collects `i` in a sequence that a loop carries.
#[test]
fn loops_carry_sequences() {
    let mut b = Graph::new("body");
    let [i, keep, list] = ["i", "keep", "list"].map(|n| b.add_input(n, None));
    let longer = apply(&mut b, "SequenceInsert", &[list, i], &[]);
    b.mark_output(keep);
    b.mark_output(longer);
    let found = computed(&[Tensor::scalar(3i64)], |g, x| {
        let start = apply(g, "SequenceEmpty", &[], &[]);
        let last = g.add_value("last", None);
        let mut node = Node::new("Loop", [x[0]], [last]);
        node.inputs.extend([None, Some(start)]);
        g.add_node(node.with("body", Attr::Graph(Box::new(b.clone()))));
        apply(g, "SequenceLength", &[last], &[])
    });
    assert_eq!(found.unwrap(), Tensor::scalar(3i64));
}

#[test]
fn an_optional_input_takes_a_tensor() {
    let mut g = Graph::new("g");
    let tensor = ValueType::tensor(DataType::Float, [2i64]);
    let x = g.add_input("x", Some(ValueType::Optional(Box::new(tensor))));
    let y = apply(&mut g, "OptionalHasElement", &[x], &[]);
    g.mark_output(y);
    let model = Model::new(g, 8, 18);
    let executor = Executor::new(&model).unwrap();
    let run =
        |x: Tensor| executor.run(&BTreeMap::from([("x".to_owned(), x)]), RunOptions::default());
    assert_eq!(run(Tensor::vector(vec![1f32, 2.0])).unwrap()[0].1.to_i64s().unwrap(), [1]);
    assert!(run(Tensor::vector(vec![1f32])).is_err());
}

#[test]
fn the_elements_of_a_sequence_that_is_an_output_have_names() {
    let mut g = Graph::new("g");
    let xs = ["a", "b"].map(|n| g.add_input(n, None));
    let list = apply(&mut g, "SequenceConstruct", &xs, &[]);
    let empty = apply(&mut g, "SequenceEmpty", &[], &[]);
    g.mark_output(list);
    g.mark_output(empty);
    let name = g[list].name.clone();
    let model = Model::new(g, 8, 18);
    let (a, b) = (Tensor::vector(vec![1f32]), Tensor::scalar(2f32));
    let fed = BTreeMap::from([("a".to_owned(), a.clone()), ("b".to_owned(), b.clone())]);
    let found = Executor::new(&model).unwrap().run(&fed, RunOptions::default()).unwrap();
    assert_eq!(found, [(format!("{name}.0"), a), (format!("{name}.1"), b)]);
}
