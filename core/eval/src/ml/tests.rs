//! Kernels of `ai.onnx.ml` on cases worked out by hand.

use crate::call::{FunctionAttributes, KernelCall};
use crate::item::{Map, RunValue};
use crate::table;
use crate::testing::{reals, run, try_all, try_run, word};
use crate::{Executor, RunOptions};
use bytes::Bytes;
use onnxd_ir::{Attr, Graph, Model, Node, Tensor};
use std::collections::BTreeMap;

fn words(list: &[&'static str]) -> Tensor {
    let list: Vec<Bytes> = list.iter().map(|s| Bytes::from(*s)).collect();
    Tensor::strings(vec![list.len()], list).unwrap()
}

/// What an operator makes of a map.
fn of_map(
    op: &str,
    attrs: &[(&str, Attr)],
    keys: &Tensor,
    values: &Tensor,
) -> Result<Tensor, String> {
    let mut node = Node { domain: super::DOMAIN.into(), ..Node::new(op, [], []) };
    node.attrs = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
    let scope = FunctionAttributes::new();
    let call = KernelCall {
        node: &node,
        opset: 1,
        inputs: &[None],
        scope: &scope,
        bytes_max: 1 << 20,
        steps: &[],
        winograd: false,
        derives: false,
    };
    let map = Map::new(keys, values).map_err(|f| format!("{f:?}"))?;
    let row = table::find(&node, 1).expect("it has a kernel");
    let found = row.run(&call, &[Some(RunValue::Map(map.into()))], &mut |_, _| unreachable!());
    let found = found.map_err(|f| format!("{f:?}"))?;
    Ok(found[0].tensor().expect("a tensor").clone())
}

#[test]
fn rows_become_maps_and_maps_are_outputs() {
    let mut g = Graph::new("g");
    let x = g.add_input("x", None);
    let z = g.add_value("z", None);
    let node = Node { domain: super::DOMAIN.into(), ..Node::new("ZipMap", [x], [z]) };
    let labels = [Bytes::from("dog"), Bytes::from("cat")].to_vec();
    g.add_node(node.with("classlabels_strings", Attr::Strs(labels)));
    g.mark_output(z);
    let mut model = Model::new(g, 8, 18);
    model.opsets.insert(super::DOMAIN.into(), 1);
    let x = Tensor::from_vec([2, 2], vec![1f32, 2.0, 3.0, 4.0]);
    let fed = BTreeMap::from([("x".to_owned(), x)]);
    let found = Executor::new(&model).unwrap().run(&fed, RunOptions::default()).unwrap();
    let values = Tensor::from_vec([2, 2], vec![2f32, 1.0, 4.0, 3.0]);
    let expected = [("z.keys".to_owned(), words(&["cat", "dog"])), ("z.values".to_owned(), values)];
    assert_eq!(found, expected);
}

#[test]
fn maps_become_tensors() {
    let (keys, values) = (words(&["b", "a"]), Tensor::vector(vec![1.5f32, 2.5]));
    let vocabulary = [("string_vocabulary", Attr::Strs(vec!["x".into(), "a".into(), "b".into()]))];
    let y = of_map("DictVectorizer", &vocabulary, &keys, &values).unwrap();
    assert_eq!(y, Tensor::from_vec([1, 3], vec![0f32, 2.5, 1.5]));
    let keys = Tensor::vector(vec![3i64, 0]);
    let y = of_map("CastMap", &[], &keys, &values).unwrap();
    assert_eq!(y, Tensor::from_vec([1, 2], vec![2.5f32, 1.5]));
    let sparse =
        [("map_form", word("SPARSE")), ("max_map", Attr::Int(3)), ("cast_to", word("TO_STRING"))];
    let y = of_map("CastMap", &sparse, &keys, &values).unwrap();
    assert_eq!(y.as_strings().unwrap(), ["2.500000", "0.f", "0.f"]);
    let y = of_map("CastMap", &[("cast_to", word("TO_INT64"))], &keys, &words(&["-7", "12"]));
    assert_eq!(y.unwrap().to_i64s().unwrap(), [12, -7]);
    assert!(of_map("DictVectorizer", &vocabulary, &keys, &values).is_err());
}

/// A stump: `x0 <= 1` leads to node 1, else to node 2, whose weights belong to class 0.
fn stump(weights: [f32; 2]) -> Vec<(&'static str, Attr)> {
    let modes = ["BRANCH_LEQ", "LEAF", "LEAF"].map(Bytes::from).to_vec();
    vec![
        ("nodes_treeids", Attr::Ints(vec![0; 3])),
        ("nodes_nodeids", Attr::Ints(vec![0, 1, 2])),
        ("nodes_featureids", Attr::Ints(vec![0; 3])),
        ("nodes_modes", Attr::Strs(modes)),
        ("nodes_values", Attr::Floats(vec![1.0, 0.0, 0.0])),
        ("nodes_truenodeids", Attr::Ints(vec![1, 0, 0])),
        ("nodes_falsenodeids", Attr::Ints(vec![2, 0, 0])),
        ("class_treeids", Attr::Ints(vec![0, 0])),
        ("class_nodeids", Attr::Ints(vec![1, 2])),
        ("class_ids", Attr::Ints(vec![0, 0])),
        ("class_weights", Attr::Floats(weights.to_vec())),
        ("classlabels_strings", Attr::Strs(vec!["no".into(), "yes".into()])),
    ]
}

/// Weights that are never negative are probabilities, others tell by their sign.
#[test]
fn two_classes_may_share_a_score() {
    let x = Some(Tensor::from_vec([2, 1], vec![1f32, 1.5]));
    let both = |attrs: &[(&str, Attr)]| {
        try_all("ai.onnx.ml.TreeEnsembleClassifier", 1, attrs, std::slice::from_ref(&x), 2).unwrap()
    };
    let found = both(&stump([0.25, 0.75]));
    assert_eq!(found[0], words(&["no", "yes"]));
    assert_eq!(reals(&found[1]), [0.75, 0.25, 0.25, 0.75]);
    let found = both(&stump([-0.25, 0.75]));
    assert_eq!(found[0], words(&["no", "yes"]));
    assert_eq!(reals(&found[1]), [0.25, -0.25, -0.75, 0.75]);
    let mut cyclic = stump([0.0; 2]);
    cyclic[3].1 = Attr::Strs(["BRANCH_LEQ"; 3].map(Bytes::from).to_vec());
    assert!(
        try_run("ai.onnx.ml.TreeEnsembleClassifier", 1, &cyclic, &[x.as_ref().unwrap()]).is_err()
    );
}

#[test]
fn columns_and_thresholds() {
    let x = Tensor::from_vec([2, 3], vec![0i32, 1, 2, 10, 11, 12]);
    let picked = Tensor::vector(vec![2i64, 0]);
    let y = run("ai.onnx.ml.ArrayFeatureExtractor", 1, &[], &[&x, &picked]);
    assert_eq!((y.dims(), y.to_i64s().unwrap()), (&[2, 2][..], vec![2, 0, 12, 10]));
    let outside = Tensor::vector(vec![3i64]);
    assert!(try_run("ai.onnx.ml.ArrayFeatureExtractor", 1, &[], &[&x, &outside]).is_err());
    let x = Tensor::vector(vec![0.5f32, 1.0, -2.0]);
    let threshold = [("threshold", Attr::Float(0.5))];
    assert_eq!(reals(&run("ai.onnx.ml.Binarizer", 1, &threshold, &[&x])), [0.0, 1.0, 0.0]);
}

#[test]
fn labels() {
    let words = |list: &[&'static str]| list.iter().map(|s| Bytes::from(*s)).collect();
    let x = Tensor::strings(vec![3], words(&["b", "x", "a"])).unwrap();
    let attrs = [
        ("keys_strings", Attr::Strs(words(&["a", "b"]))),
        ("values_int64s", Attr::Ints(vec![5, 6])),
        ("default_int64", Attr::Int(9)),
    ];
    let y = run("ai.onnx.ml.LabelEncoder", 2, &attrs, &[&x]);
    assert_eq!(y.to_i64s().unwrap(), [6, 9, 5]);
    let y = run("ai.onnx.ml.LabelEncoder", 2, &attrs[..2], &[&x]);
    assert_eq!(y.to_i64s().unwrap(), [6, -1, 5]);
    let x = Tensor::vector(vec![f32::NAN, -0.0]);
    let attrs = [
        ("keys_floats", Attr::Floats(vec![0.0, f32::NAN])),
        ("values_floats", Attr::Floats(vec![1.0, 2.0])),
    ];
    assert_eq!(reals(&run("ai.onnx.ml.LabelEncoder", 4, &attrs, &[&x])), [2.0, 1.0]);
}

#[test]
fn a_tree_with_a_split_and_a_set() {
    // x0 <= 1 leads to leaf 0, else x1 among {3, 4} to leaf 1, else to leaf 2.
    let attrs = [
        ("tree_roots", Attr::Ints(vec![0])),
        ("n_targets", Attr::Int(2)),
        ("nodes_featureids", Attr::Ints(vec![0, 1])),
        ("nodes_splits", Attr::Tensor(Tensor::vector(vec![1f32, 0.0]))),
        ("nodes_modes", Attr::Tensor(Tensor::vector(vec![0u8, 6]))),
        ("nodes_truenodeids", Attr::Ints(vec![0, 1])),
        ("nodes_trueleafs", Attr::Ints(vec![1, 1])),
        ("nodes_falsenodeids", Attr::Ints(vec![1, 2])),
        ("nodes_falseleafs", Attr::Ints(vec![0, 1])),
        ("leaf_targetids", Attr::Ints(vec![0, 1, 1])),
        ("leaf_weights", Attr::Tensor(Tensor::vector(vec![5f32, 7.0, -1.0]))),
        ("membership_values", Attr::Tensor(Tensor::vector(vec![3f32, 4.0, f32::NAN]))),
    ];
    let x = Tensor::from_vec([3, 2], vec![1f32, 0.0, 2.0, 4.0, 2.0, 5.0]);
    let y = run("ai.onnx.ml.TreeEnsemble", 5, &attrs, &[&x]);
    assert_eq!(reals(&y), [5.0, 0.0, 0.0, 7.0, 0.0, -1.0]);
    let mut cyclic = attrs.clone();
    (cyclic[5].1, cyclic[6].1) = (Attr::Ints(vec![0, 1]), Attr::Ints(vec![0, 0]));
    assert!(try_run("ai.onnx.ml.TreeEnsemble", 5, &cyclic, &[&x]).is_err());
}
