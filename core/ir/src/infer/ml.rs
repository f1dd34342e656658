//! Classical machine learning (`ai.onnx.ml`) and training.

use super::activation::same;
use super::site::{InferContext, Shapes, one, sized, unknown};
use super::{Rules, TypeRules, Types};
use crate::{Attr, DataType, Dim, Shape, ValueType};

pub(super) const RULES: Rules = &[
    ("ArrayFeatureExtractor", array_feature_extractor),
    ("Binarizer", same),
    ("CastMap", cast_map),
    ("CategoryMapper", same),
    ("DictVectorizer", dict_vectorizer),
    ("FeatureVectorizer", feature_vectorizer),
    ("Imputer", same),
    ("LabelEncoder", same),
    ("LinearClassifier", classifier),
    ("LinearRegressor", |site| regressor(site, "targets")),
    ("Normalizer", same),
    ("OneHotEncoder", one_hot_encoder),
    ("SVMClassifier", |site| Ok(vec![Some(vec![rows(site)]), None])),
    ("SVMRegressor", |site| one(vec![rows(site), Dim::Known(1)])),
    ("Scaler", same),
    ("TreeEnsemble", |site| regressor(site, "n_targets")),
    ("TreeEnsembleClassifier", classifier),
    ("TreeEnsembleRegressor", |site| regressor(site, "n_targets")),
];

pub(super) const TYPES: TypeRules = &[("ZipMap", zip_map)];

pub(super) const TRAINING: TypeRules =
    &[("Adagrad", |s| updated(s, 3)), ("Adam", |s| updated(s, 4)), ("Momentum", |s| updated(s, 3))];

/// How many samples there are: a vector is one.
fn rows(site: &InferContext<'_>) -> Dim {
    match site.shape(0) {
        Some([_]) => Dim::Known(1),
        Some([rows, _]) => rows.clone(),
        _ => Dim::Unknown,
    }
}

/// A sparse map has a place for each key below `max_map`; of a dense one, the number of values is not known.
fn cast_map(site: &InferContext<'_>) -> Shapes {
    let places = match site.text("map_form") {
        "SPARSE" => Dim::Known(site.node.int("max_map", 1)),
        _ => Dim::Unknown,
    };
    one(vec![Dim::Known(1), places])
}

fn dict_vectorizer(site: &InferContext<'_>) -> Shapes {
    let words = match (site.node.attr("string_vocabulary"), site.node.attr("int64_vocabulary")) {
        (Some(Attr::Strs(words)), _) if !words.is_empty() => words.len(),
        (_, Some(Attr::Ints(words))) => words.len(),
        _ => return unknown(),
    };
    one(vec![Dim::Known(1), Dim::from(words as i64)])
}

fn array_feature_extractor(site: &InferContext<'_>) -> Shapes {
    let (Some(x), Some([count])) = (site.shape(0), site.shape(1)) else { return unknown() };
    match x {
        [] => Err("the input is a scalar".to_owned()),
        [_] => one(vec![Dim::Known(1), count.clone()]),
        [outer @ .., _] => one([outer, std::slice::from_ref(count)].concat()),
    }
}

fn feature_vectorizer(site: &InferContext<'_>) -> Shapes {
    let sizes = site.list("inputdimensions").unwrap_or_default();
    let total = sizes.iter().try_fold(0i64, |sum, n| sum.checked_add(*n));
    let total = if sizes.is_empty() { Dim::Unknown } else { sized(total) };
    one(vec![rows(site), total])
}

/// Labels of the classes, whichever attribute has them.
fn classes(site: &InferContext<'_>) -> Option<(DataType, usize)> {
    let of = |name: &str| site.node.attr(name);
    let ints = of("classlabels_ints").or_else(|| of("classlabels_int64s"));
    match (of("classlabels_strings"), ints) {
        (Some(Attr::Strs(names)), _) if !names.is_empty() => Some((DataType::String, names.len())),
        (_, Some(Attr::Ints(numbers))) => Some((DataType::Int64, numbers.len())),
        _ => None,
    }
}

/// The element type that the attributes of the node give its output.
pub(super) fn label_type(site: &InferContext<'_>) -> Option<DataType> {
    match site.node.op.as_str() {
        "CategoryMapper" => match site.dtype(0)? {
            DataType::String => Some(DataType::Int64),
            _ => Some(DataType::String),
        },
        "CastMap" => match site.text("cast_to") {
            "TO_STRING" => Some(DataType::String),
            "TO_INT64" => Some(DataType::Int64),
            _ => Some(DataType::Float),
        },
        "LabelEncoder" => site.node.attrs.iter().find_map(|(name, attr)| match name.as_str() {
            "values_strings" => Some(DataType::String),
            "values_int64s" => Some(DataType::Int64),
            "values_floats" => Some(DataType::Float),
            "values_tensor" => match attr {
                Attr::Tensor(tensor) => Some(tensor.dtype()),
                _ => None,
            },
            "classes_strings" => match site.dtype(0)? {
                DataType::String => Some(DataType::Int64),
                _ => Some(DataType::String),
            },
            _ => None,
        }),
        _ => Some(classes(site)?.0),
    }
}

/// Labels, then a score for each class.
fn classifier(site: &InferContext<'_>) -> Shapes {
    let scores = match classes(site) {
        Some((_, n @ 2..)) => Dim::Known(n as i64),
        _ => Dim::Unknown,
    };
    Ok(vec![Some(vec![rows(site)]), Some(vec![rows(site), scores])])
}

fn regressor(site: &InferContext<'_>, targets: &str) -> Shapes {
    let given = targets == "targets" || site.node.attr(targets).is_some();
    let count = given.then(|| site.int(targets, 1));
    one(vec![rows(site), sized(count)])
}

fn one_hot_encoder(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let count = match (site.node.attr("cats_int64s"), site.node.attr("cats_strings")) {
        (Some(Attr::Ints(list)), _) if !list.is_empty() => list.len(),
        (_, Some(Attr::Strs(list))) => list.len(),
        _ => return unknown(),
    };
    one([shape, &[Dim::Known(count as i64)]].concat())
}

fn zip_map(site: &InferContext<'_>) -> Types {
    let Some((key, _)) = classes(site) else { return vec![] };
    let value = ValueType::Tensor { dtype: Some(DataType::Float), shape: Some(Shape::new()) };
    vec![Some(ValueType::Sequence(Box::new(ValueType::Map(key, Box::new(value)))))]
}

/// Rate and step, then `groups` of values per tensor: the tensors, their gradients, and state.
/// Tensors and state come out anew.
fn updated(site: &InferContext<'_>, groups: usize) -> Types {
    let count = site.node.inputs.len().saturating_sub(2) / groups;
    let from = (0..groups).filter(|group| *group != 1);
    from.flat_map(|group| (0..count).map(move |i| site.ty(2 + group * count + i).cloned()))
        .collect()
}
