//! Strings.

use super::Rules;
use super::activation::same;
use super::math::variadic;
use super::site::{InferContext, Shapes, one, show, unknown};
use crate::{Attr, Dim};

pub(super) const RULES: Rules = &[
    ("RegexFullMatch", same),
    ("StringConcat", variadic),
    ("StringNormalizer", string_normalizer),
    ("StringSplit", string_split),
    ("TfIdfVectorizer", tf_idf_vectorizer),
];

/// Stop words are left out of the last axis.
fn string_normalizer(site: &InferContext<'_>) -> Shapes {
    let stops = matches!(site.node.attr("stopwords"), Some(Attr::Strs(words)) if !words.is_empty());
    match site.shape(0) {
        Some(shape) if !stops => one(shape.to_vec()),
        Some([outer @ .., _]) => one([outer, &[Dim::Unknown]].concat()),
        _ => unknown(),
    }
}

fn string_split(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    Ok(vec![Some([shape, &[Dim::Unknown]].concat()), Some(shape.to_vec())])
}

/// The last axis becomes one of counts.
fn tf_idf_vectorizer(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let most = site.list("ngram_indexes").and_then(|list| list.iter().max()).copied();
    let counts = most.and_then(|n| n.checked_add(1)).map_or(Dim::Unknown, Dim::Known);
    match shape {
        [] | [_] => one(vec![counts]),
        [batch, _] => one(vec![batch.clone(), counts]),
        _ => Err(format!("{} has more than two axes", show(shape))),
    }
}
