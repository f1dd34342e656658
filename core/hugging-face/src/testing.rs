//! What holds of each model without cache, by small checkpoints and the built-in executor: opsets agree, rows do not
//! see each other, and what goes in counts.

use crate::fixture::{self, complete};
use onnxd_plugin_sdk::ir::{DataType, Dim, Model, Tensor, ValueId, VerifyLevel, verify};
use onnxd_plugin_sdk::testing::run;
use serde_json::{Value, json};

/// Lines of a list of cases: `model_type`, and the other fields of its `config.json`.
pub(crate) fn cases(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

/// The `config.json` of a line.
pub(crate) fn config(line: &str) -> Value {
    config_over(json!({}), line)
}

/// The same with fields that all lines of a list have unless they say otherwise.
pub(crate) fn config_over(mut config: Value, line: &str) -> Value {
    let (kind, fields) = line.split_once(' ').unwrap();
    config["model_type"] = kind.into();
    let fields: Value = serde_json::from_str(fields).unwrap();
    for (key, value) in fields.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// Each family has a case, and is in one of the manual's lists of families.
pub(crate) fn check_list<'a>(families: impl Iterator<Item = &'a str>, list: &'static str) {
    let known: Vec<&str> = cases(list).filter_map(|line| line.split(' ').next()).collect();
    let listed = listed_families(include_str!("../../../docs/manual.md"));
    for kind in families {
        assert!(known.contains(&kind), "{kind} has no case");
        assert!(listed.contains(&kind), "{kind} is in no list of the manual: {listed:?}");
    }
}

/// The words in backticks of all sentences that list families.
fn listed_families(manual: &str) -> Vec<&str> {
    let lists = manual.split("These families ").skip(1);
    let sentence = |text: &'_ str| text.find(". ").into_iter().chain(text.find(".\n")).min();
    let lists = lists.map(|text| &text[..sentence(text).expect("a sentence ends")]);
    lists.flat_map(|list| list.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn families_are_looked_for_in_lists_alone() {
    let manual = "Not `a`. **Here.** These families are read: `b`,\n`c` (also d). `e`\nThese families `f`.\n`g`";
    assert_eq!(listed_families(manual), ["b", "c", "f"]);
}

/// Inputs and outputs by name.
type Named = Vec<(String, Tensor)>;

/// Inputs of a model: sizes that are no numbers are those of `sizes`.
fn feeds(model: &Model, sizes: &[(&str, usize)]) -> Named {
    let graph = &model.graph;
    let size = |dim: &Dim| match dim {
        Dim::Known(n) => *n as usize,
        Dim::Symbol(name) => sizes.iter().find(|(known, _)| **known == **name).expect(name).1,
        Dim::Unknown => panic!("a size that nothing says"),
    };
    let feed = |input: &ValueId| {
        let value = &graph[*input];
        let ty = value.ty.as_ref().unwrap();
        let dims: Vec<usize> = ty.shape().unwrap().iter().map(size).collect();
        let random = fixture::numbers(&value.name, dims.iter().product());
        let tensor = match (value.name.as_str(), ty.dtype()) {
            ("attention_mask", _) => Tensor::from_vec(dims, vec![1i64; random.len()]),
            (_, Some(DataType::Int64)) => {
                Tensor::from_vec(dims, random.iter().map(|x| (x.abs() * 14.0) as i64).collect())
            }
            _ => Tensor::from_vec(dims, random),
        };
        (value.name.clone(), tensor)
    };
    graph.inputs().iter().map(feed).collect()
}

fn call(model: &Model, feeds: &Named) -> Named {
    run(model, feeds.iter().map(|(name, x)| (name.as_str(), x.clone()))).unwrap()
}

fn same(a: &Tensor, b: &Tensor, what: &str) {
    let [x, y] = [a, b].map(|t| t.as_slice::<f32>().unwrap().into_owned());
    let scale = x.iter().fold(1e-6f32, |most, x| most.max(x.abs()));
    assert!(x.iter().all(|x| x.is_finite()), "{what}: {x:?}");
    let worst = x.iter().zip(&y).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(a.dims() == b.dims() && worst <= 1e-4 * scale, "{what}: {x:?} {y:?}");
}

/// The first row of a tensor, and the others.
fn rows(x: &Tensor) -> [Tensor; 2] {
    let part = |first, count| {
        let mut axes: Vec<_> = x.dims().iter().map(|size| (0, *size, 1)).collect();
        axes[0] = (first, count, 1);
        x.sliced(&axes).unwrap()
    };
    [part(0, 1), part(1, x.dims()[0] - 1)]
}

/// The model of a case, and another one of a newer opset.
pub(crate) fn models(line: &str) -> [Model; 2] {
    let text = config(line).to_string();
    let (tensors, model) = complete(&text, &[]);
    let newer = fixture::model(&text, &tensors, 24).unwrap();
    for model in [&model, &newer] {
        let found = verify(model, VerifyLevel::Full);
        assert!(found.0.is_empty(), "{text}: {found}");
    }
    [model, newer]
}

/// Checks the model of a case. Sizes of batches differ from each other and from all other sizes.
pub(crate) fn check(line: &str, sizes: &[(&str, usize)]) {
    let [model, newer] = models(line);
    let inputs = feeds(&model, sizes);
    let given = call(&model, &inputs);
    for ((name, a), (_, b)) in given.iter().zip(&call(&newer, &inputs)) {
        same(a, b, &format!("`{name}` by opset 24: {line}"));
    }
    for at in (0..inputs.len()).filter(|at| inputs[*at].0 != "attention_mask") {
        let mut others = inputs.clone();
        let [first, rest] = rows(&inputs[at].1);
        let changed = match first.dtype() {
            DataType::Int64 => Tensor::from_vec(first.dims(), vec![5i64; first.len()]),
            _ => Tensor::from_vec(first.dims(), fixture::numbers("other", first.len())),
        };
        others[at].1 = Tensor::concat(&[changed, rest], 0).unwrap();
        let batch = inputs[at].1.dims()[0];
        for ((name, a), (_, b)) in given.iter().zip(&call(&model, &others)) {
            if a.dims()[0] == batch {
                let ([first, rest], [other, others]) = (rows(a), rows(b));
                let differs = first.as_slice::<f32>() != other.as_slice::<f32>();
                assert!(differs, "`{}` counts for `{name}`: {line}", inputs[at].0);
                same(&rest, &others, &format!("`{name}` of other rows: {line}"));
            }
        }
    }
}

/// Checks that numbers are finite, and the same but for rounding.
pub(crate) fn same_numbers(a: &[f32], b: &[f32], what: &str) {
    let scale = a.iter().fold(1e-6f32, |most, x| most.max(x.abs()));
    assert!(a.iter().all(|x| x.is_finite()), "{what}: {a:?}");
    let worst = a.iter().zip(b).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(a.len() == b.len() && worst <= 1e-4 * scale, "{what}: {a:?} {b:?}");
}
