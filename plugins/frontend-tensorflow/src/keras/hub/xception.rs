//! Xception: convolutions of each channel by itself, in blocks whose inputs are added to their outputs.

use super::{ArgumentResult, Graph, LAYERS_MAX, Settings, conv, pool};
use crate::keras::layer::{Argument, KerasNetwork};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::Value as Json;

/// What all norms add to the variance: Keras' own default.
const EPSILON: f64 = 1e-3;

const FILTERS: &str = "stackwise_conv_filters";
const POOLS: &str = "stackwise_pooling";

pub(super) fn xception(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&[FILTERS, POOLS, "image_shape"])?;
    let (blocks, pools) = (filters(s)?, pools(s)?);
    refuse!(blocks.len() != pools.len() => s.wrong(POOLS, &format!("it must be as long as `{FILTERS}`")));
    let mut graph = Graph::new(s);
    let shape = s.image_shape()?;
    let input = graph.unnamed_input("float32", &shape);
    let (mut x, mut channels) = (input.clone(), shape[2].as_i64().unwrap_or_default());
    for (i, (filters, has_pool)) in blocks.iter().zip(pools).enumerate() {
        let before = x.clone();
        let place = [i == 0, i + 1 == blocks.len()];
        for (conv, filters) in filters.iter().enumerate() {
            x = convolved(&mut graph, place, [i, conv], *filters, x)?;
        }
        let name = format!("block{}", i + 1);
        if has_pool {
            x = graph.add("MaxPooling2D", &format!("{name}_pool"), pool([3, 2], "same"), x)?;
        }
        let last = filters.last().copied().unwrap_or(channels);
        if place == [false, false] {
            let around = match last == channels {
                true => before,
                false => {
                    let name = format!("{name}_residual_conv");
                    let y = graph.conv(&name, [last, 1, 2], "same", before)?;
                    graph.normed(&name.replace("_conv", "_bn"), EPSILON, y)?
                }
            };
            x = graph.sum(&format!("{name}_residual_add"), vec![x, around])?;
        }
        channels = last;
    }
    Ok(graph.network(input, x))
}

/// Filters of the convolutions of each block.
fn filters(s: &Settings<'_>) -> Result<Vec<Vec<i64>>, Diagnostic> {
    let must = || s.wrong(FILTERS, &format!("it must be lists of {LAYERS_MAX} sizes at most"));
    let lists = s.config.get(FILTERS).and_then(Json::as_array).ok_or_else(must)?;
    let size = |json: &Json| json.as_i64().filter(|n| (1..=super::SIZE_MAX).contains(n));
    let list = |json: &Json| json.as_array()?.iter().map(size).collect::<Option<Vec<i64>>>();
    let found: Vec<Vec<i64>> = lists.iter().map(list).collect::<Option<_>>().ok_or_else(must)?;
    let count = found.iter().map(Vec::len).sum::<usize>().max(found.len());
    if count as i64 > LAYERS_MAX { Err(must()) } else { Ok(found) }
}

/// Whether blocks end with a pool.
fn pools(s: &Settings<'_>) -> Result<Vec<bool>, Diagnostic> {
    let list = s.config.get(POOLS).and_then(Json::as_array);
    let found = list.and_then(|list| list.iter().map(Json::as_bool).collect());
    found.ok_or_else(|| s.wrong(POOLS, "it must be a list of truth values"))
}

/// A convolution with its norm and what is above zero: behind it in the first and last block, else before it.
fn convolved(
    graph: &mut Graph,
    [is_first, is_last]: [bool; 2],
    [block, i]: [usize; 2],
    filters: i64,
    mut x: Argument,
) -> ArgumentResult {
    let kind = if is_first { "conv" } else { "sepconv" };
    let name = format!("block{}_{kind}{}", block + 1, i + 1);
    let act = |graph: &mut Graph, x: Argument| graph.activated(&format!("{name}_act"), "relu", x);
    if !is_first && !is_last && (block != 1 || i != 0) {
        x = act(graph, x)?;
    }
    x = match is_first {
        true => {
            let stride = if i == 0 { 2 } else { 1 };
            graph.conv(&name, [filters, 3, stride], "valid", x)?
        }
        false => graph.add("SeparableConv2D", &name, conv([filters, 3, 1], "same"), x)?,
    };
    x = graph.normed(&format!("{name}_bn"), EPSILON, x)?;
    if is_first || is_last { act(graph, x) } else { Ok(x) }
}
