//! EfficientNet: convolutions of each channel by itself between those of all, and factors for channels.

use super::{ArgumentResult, Graph, SIZE_MAX, Settings};
use crate::keras::layer::{Argument, KerasNetwork};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::{Value as Json, json};

const SETTINGS: [&str; 22] = [
    "stackwise_width_coefficients", "stackwise_depth_coefficients", "stackwise_kernel_sizes",
    "stackwise_num_repeats", "stackwise_input_filters", "stackwise_output_filters",
    "stackwise_expansion_ratios", "stackwise_squeeze_and_excite_ratios", "stackwise_strides",
    "stackwise_block_types", "stackwise_force_input_filters", "dropout", "depth_divisor",
    "min_depth", "activation", "input_shape", "include_stem_padding",
    "use_depth_divisor_as_min_depth", "cap_round_filter_decrease", "stem_conv_padding",
    "batch_norm_momentum", "batch_norm_epsilon",
];

/// Filters of the last convolution. Files do not have others.
const FEATURES: i64 = 1280;

/// Blocks that a stack may have, which letters count.
const BLOCKS_MAX: i64 = 26;

/// What all blocks have in common.
struct BlockStyle<'n> {
    activation: &'n str,
    projection: Option<&'n str>,
    epsilon: f64,
}

/// The sizes of a block.
struct BlockSizes<'n> {
    name: &'n str,
    given: i64,
    made: i64,
    kernel: i64,
    stride: i64,
    expansion: i64,
    /// Which part of the channels the factors are made of.
    squeeze: f64,
}

pub(super) fn efficientnet(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&[&SETTINGS[..], &["projection_activation"]].concat())?;
    s.only_float32()?;
    let projection = match s.config.get("projection_activation") {
        None | Some(Json::Null) => None,
        Some(_) => Some(s.word("projection_activation")?),
    };
    let epsilon = s.number("batch_norm_epsilon", 1e-5)?;
    let kind = BlockStyle { activation: s.word("activation")?, projection, epsilon };
    let mut graph = Graph::new(s);
    let input = graph.unnamed_input("float32", &s.shape_of("input_shape")?);
    let mut x = input.clone();
    if s.flag("include_stem_padding", true)? {
        x = graph.padded("stem_conv_pad", 1, x)?;
    }
    let padding = s.word("stem_conv_padding")?;
    let stacks = s.sizes("stackwise_kernel_sizes")?.len();
    let first = s.sizes("stackwise_input_filters")?.first().copied().unwrap_or(1);
    let filters = rounded(s, first, 0)?;
    x = graph.conv("stem_conv", [filters, 3, 2], padding, x)?;
    x = normed(&mut graph, &kind, ["stem_bn", "stem_activation"], x)?;
    for i in 0..stacks {
        x = stack(&mut graph, s, &kind, i, x)?;
    }
    let filters = rounded(s, FEATURES, stacks.saturating_sub(1))?;
    x = graph.conv("top_conv", [filters, 1, 1], "same", x)?;
    x = normed(&mut graph, &kind, ["top_bn", "top_activation"], x)?;
    Ok(graph.network(input, x))
}

/// The number of a stack among those of all.
fn nth(s: &Settings<'_>, key: &str, i: usize) -> Result<f64, Diagnostic> {
    let found = s.config.get(key).and_then(|list| list.get(i)?.as_f64());
    found.ok_or_else(|| s.wrong(key, "it must have a number for each stack"))
}

/// Filters of a stack by its width, in steps.
fn rounded(s: &Settings<'_>, filters: i64, stack: usize) -> Result<i64, Diagnostic> {
    let wide = filters as f64 * nth(s, "stackwise_width_coefficients", stack)?;
    let step = s.size("depth_divisor")?;
    let is_step = s.flag("use_depth_divisor_as_min_depth", false)?;
    let least = if is_step { step } else { s.size("min_depth")? };
    let mut found = ((wide + step as f64 / 2.0) as i64).saturating_div(step).saturating_mul(step);
    found = found.max(least);
    if s.flag("cap_round_filter_decrease", false)? && (found as f64) < 0.9 * wide {
        found = found.saturating_add(step);
    }
    match (1..=SIZE_MAX).contains(&found) {
        true => Ok(found),
        false => {
            Err(s.wrong("stackwise_width_coefficients", "a stack has no such number of filters"))
        }
    }
}

/// Blocks of one kind.
fn stack(
    graph: &mut Graph,
    s: &Settings<'_>,
    kind: &BlockStyle<'_>,
    i: usize,
    mut x: Argument,
) -> ArgumentResult {
    const TYPES: &str = "stackwise_block_types";
    let word = s.config.get(TYPES).and_then(|list| list.get(i)?.as_str());
    refuse!(word != Some("v1") => s.wrong(TYPES, "only blocks `v1` are converted"));
    let whole_number = |key: &str| -> Result<i64, Diagnostic> {
        let filter_count = nth(s, key, i)?;
        let is_whole =
            filter_count.fract() == 0.0 && (0.0..=SIZE_MAX as f64).contains(&filter_count);
        if is_whole {
            Ok(filter_count as i64)
        } else {
            Err(s.wrong(key, "it must be whole numbers"))
        }
    };
    let repeats = whole_number("stackwise_num_repeats")? as f64;
    let repeats = (nth(s, "stackwise_depth_coefficients", i)? * repeats).ceil();
    refuse!(!(0.0..=BLOCKS_MAX as f64).contains(&repeats) =>
        s.wrong("stackwise_num_repeats", &format!("a stack may have {BLOCKS_MAX} blocks")));
    let made = rounded(s, whole_number("stackwise_output_filters")?, i)?;
    let mut input_filters = rounded(s, whole_number("stackwise_input_filters")?, i)?;
    let forced = whole_number("stackwise_force_input_filters")?;
    let (kernel, expansion) =
        (whole_number("stackwise_kernel_sizes")?, whole_number("stackwise_expansion_ratios")?);
    refuse!(input_filters.saturating_mul(expansion.max(1)) > SIZE_MAX =>
        s.wrong("stackwise_expansion_ratios", "there are too many channels"));
    for (j, letter) in ('a'..='z').take(repeats as usize).enumerate() {
        input_filters = if j == 0 { input_filters } else { made };
        if forced > 0 {
            input_filters = rounded(s, forced, i)?;
        }
        let block = BlockSizes {
            name: &format!("block{}{letter}_", i + 1),
            given: input_filters,
            made,
            kernel,
            stride: if j == 0 { whole_number("stackwise_strides")? } else { 1 },
            expansion,
            squeeze: nth(s, "stackwise_squeeze_and_excite_ratios", i)?,
        };
        x = added(graph, kind, &block, x)?;
    }
    Ok(x)
}

fn normed(
    graph: &mut Graph,
    kind: &BlockStyle<'_>,
    [name, act]: [&str; 2],
    x: Argument,
) -> ArgumentResult {
    let x = graph.normed(name, kind.epsilon, x)?;
    graph.activated(act, kind.activation, x)
}

/// A block.
fn added(
    graph: &mut Graph,
    kind: &BlockStyle<'_>,
    block: &BlockSizes<'_>,
    x: Argument,
) -> ArgumentResult {
    let part = |rest: &str| format!("{}{rest}", block.name);
    let filters = block.given.saturating_mul(block.expansion);
    let mut y = x.clone();
    if block.expansion != 1 {
        y = graph.conv(&part("expand_conv"), [filters, 1, 1], "same", y)?;
        y = normed(graph, kind, [&part("expand_bn"), &part("expand_activation")], y)?;
    }
    y = graph.padded(&part("dwconv_pad"), block.kernel / 2, y)?;
    let depthwise = json!({
        "kernel_size": [block.kernel, block.kernel], "strides": [block.stride, block.stride], "padding": "valid",
        "use_bias": false,
    });
    y = graph.add("DepthwiseConv2D", &part("dwconv"), depthwise, y)?;
    y = normed(graph, kind, [&part("dwconv_bn"), &part("dwconv_activation")], y)?;
    if block.squeeze > 0.0 && block.squeeze <= 1.0 {
        y = excited(graph, kind, block, filters, y)?;
    }
    y = graph.conv(&part("project"), [block.made, 1, 1], "same", y)?;
    y = graph.normed(&part("project_bn"), kind.epsilon, y)?;
    if let Some(activation) = kind.projection {
        y = graph.activated(&part("projection_activation"), activation, y)?;
    }
    if block.stride != 1 || block.given != block.made {
        return Ok(y);
    }
    graph.sum(&part("add"), vec![y, x])
}

/// Factors for channels, by their means.
fn excited(
    graph: &mut Graph,
    kind: &BlockStyle<'_>,
    block: &BlockSizes<'_>,
    filters: i64,
    x: Argument,
) -> ArgumentResult {
    let part = |rest: &str| format!("{}{rest}", block.name);
    let squeezed = ((block.given as f64 * block.squeeze) as i64).max(1);
    let dense = |filters: i64, activation: &str| {
        json!({
            "filters": filters, "kernel_size": [1, 1], "strides": [1, 1], "padding": "same", "activation": activation,
        })
    };
    let y = graph.add("GlobalAveragePooling2D", &part("se_squeeze"), json!({}), x.clone())?;
    let shape = json!({ "target_shape": [1, 1, filters] });
    let y = graph.add("Reshape", &part("se_reshape"), shape, y)?;
    let y = graph.add("Conv2D", &part("se_reduce"), dense(squeezed, kind.activation), y)?;
    let y = graph.add("Conv2D", &part("se_expand"), dense(filters, "sigmoid"), y)?;
    graph.add("Multiply", &part("se_excite"), json!({}), Argument::List(vec![x, y]))
}
