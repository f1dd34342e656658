//! Xception: convolutions of each channel by itself, in blocks whose inputs are added to their outputs.

use super::{Graph, LAYERS_MAX, Settings};
use crate::keras::layer::{Argument, Network};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use serde_json::{Value as Json, json};

type Found = Result<Argument, Diagnostic>;

const FILTERS: &str = "stackwise_conv_filters";
const POOLS: &str = "stackwise_pooling";

pub(super) fn xception(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    s.only(&[FILTERS, POOLS, "image_shape"])?;
    let (blocks, pools) = (filters(s)?, pools(s)?);
    if blocks.len() != pools.len() {
        return Err(s.wrong(POOLS, &format!("it must be as long as `{FILTERS}`")));
    }
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
            let pool = json!({ "pool_size": [3, 3], "strides": [2, 2], "padding": "same" });
            x = graph.add("MaxPooling2D", &format!("{name}_pool"), pool, x)?;
        }
        let last = filters.last().copied().unwrap_or(channels);
        if place == [false, false] {
            let around = match last == channels {
                true => before,
                false => {
                    let name = format!("{name}_residual_conv");
                    let y = graph.add("Conv2D", &name, conv(last, 1, 2, "same"), before)?;
                    norm(&mut graph, &name.replace("_conv", "_bn"), y)?
                }
            };
            let terms = Argument::List(vec![x, around]);
            x = graph.add("Add", &format!("{name}_residual_add"), json!({}), terms)?;
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

fn conv(filters: i64, kernel: i64, stride: i64, padding: &str) -> Json {
    json!({
        "filters": filters, "kernel_size": [kernel, kernel], "strides": [stride, stride], "padding": padding,
        "use_bias": false,
    })
}

fn norm(graph: &mut Graph, name: &str, x: Argument) -> Found {
    graph.add("BatchNormalization", name, json!({ "axis": -1 }), x)
}

/// A convolution with its norm and what is above zero: behind it in the first and last block, else before it.
fn convolved(
    graph: &mut Graph,
    [is_first, is_last]: [bool; 2],
    [block, i]: [usize; 2],
    filters: i64,
    mut x: Argument,
) -> Found {
    let kind = if is_first { "conv" } else { "sepconv" };
    let name = format!("block{}_{kind}{}", block + 1, i + 1);
    let act = |graph: &mut Graph, x: Argument| {
        graph.add("Activation", &format!("{name}_act"), json!({ "activation": "relu" }), x)
    };
    if !is_first && !is_last && (block != 1 || i != 0) {
        x = act(graph, x)?;
    }
    x = match is_first {
        true => {
            let stride = if i == 0 { 2 } else { 1 };
            graph.add("Conv2D", &name, conv(filters, 3, stride, "valid"), x)?
        }
        false => graph.add("SeparableConv2D", &name, conv(filters, 3, 1, "same"), x)?,
    };
    x = norm(graph, &format!("{name}_bn"), x)?;
    if is_first || is_last { act(graph, x) } else { Ok(x) }
}
