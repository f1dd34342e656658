//! ResNet: convolutions with norms, in blocks whose inputs are added to their outputs.

use super::{ArgumentResult, Graph, Settings, pool};
use crate::keras::layer::{Argument, KerasNetwork, LayerCall};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::{Value as Json, json};

const SETTINGS: [&str; 8] = [
    "input_conv_filters", "input_conv_kernel_sizes", "stackwise_num_filters",
    "stackwise_num_blocks", "stackwise_num_strides", "block_type", "use_pre_activation",
    "image_shape",
];

/// What all blocks have in common.
struct BlockStyle {
    /// Three convolutions, the last of which makes four times as many channels; otherwise two.
    is_bottleneck: bool,
    /// Strides on the way around are those of a mean.
    is_vd: bool,
    /// Norms come before convolutions.
    is_pre: bool,
}

/// The place and sizes of a block.
struct Block<'n> {
    name: &'n str,
    filters: i64,
    stride: i64,
    /// Whether the way around has a convolution.
    has_shortcut: bool,
}

/// What all norms add to the variance.
const EPSILON: f64 = 1e-5;

pub(super) fn resnet(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&SETTINGS)?;
    let (is_bottleneck, is_vd) = match s.word("block_type")? {
        "basic_block" => (false, false),
        "bottleneck_block" => (true, false),
        "basic_block_vd" => (false, true),
        "bottleneck_block_vd" => (true, true),
        _ => return Err(s.wrong("block_type", "it is no type that is known")),
    };
    let kind = BlockStyle { is_bottleneck, is_vd, is_pre: s.flag("use_pre_activation", false)? };
    let mut graph = Graph::new(s);
    let shape = s.image_shape()?;
    let input = graph.unnamed_input("float32", &shape);
    let x = stem(&mut graph, s, &kind, input.clone())?;
    let mut x = stacks(&mut graph, s, &kind, x)?;
    if kind.is_pre {
        x = graph.normed("post_bn", EPSILON, x)?;
        x = graph.activated("post_relu", "relu", x)?;
    }
    Ok(graph.network(input, x))
}

/// The convolutions before the blocks, and a pool.
fn stem(graph: &mut Graph, s: &Settings<'_>, kind: &BlockStyle, x: Argument) -> ArgumentResult {
    let filters = s.sizes("input_conv_filters")?;
    let kernels = s.sizes("input_conv_kernel_sizes")?;
    refuse!(filters.len() != kernels.len() || filters.is_empty() =>
        s.wrong("input_conv_kernel_sizes", "it must be as long as `input_conv_filters`"));
    let mut x = graph.padded("conv1_pad", (kernels[0] - 1) / 2, x)?;
    for (i, (filters, kernel)) in (1..).zip(filters.iter().zip(&kernels)) {
        let (stride, padding) = if i == 1 { (2, "valid") } else { (1, "same") };
        x = graph.conv(&format!("conv{i}_conv"), [*filters, *kernel, stride], padding, x)?;
        if i < kernels.len() || !kind.is_pre {
            x = graph.normed(&format!("conv{i}_bn"), EPSILON, x)?;
            x = graph.activated(&format!("conv{i}_relu"), "relu", x)?;
        }
    }
    let x = if kind.is_pre {
        let config = json!({ "pad_width": [[0, 0], [1, 1], [1, 1], [0, 0]] });
        let least = Argument::Plain(Json::from("-Infinity"));
        graph.call("ops.Pad", "pad", config, LayerCall::of(x).with("constant_values", &least))?
    } else {
        graph.padded("pool1_pad", 1, x)?
    };
    graph.add("MaxPooling2D", "pool1_pool", pool([3, 2], "valid"), x)
}

/// All blocks.
fn stacks(
    graph: &mut Graph,
    s: &Settings<'_>,
    kind: &BlockStyle,
    mut x: Argument,
) -> ArgumentResult {
    let filters = s.sizes("stackwise_num_filters")?;
    let blocks = s.stacks("stackwise_num_blocks", "blocks")?;
    let strides = s.sizes("stackwise_num_strides")?;
    for (key, list) in [("stackwise_num_blocks", &blocks), ("stackwise_num_strides", &strides)] {
        refuse!(list.len() != filters.len() => s.wrong(key, "it must be as long as `stackwise_num_filters`"));
    }
    for (stack, ((filters, blocks), stride)) in filters.iter().zip(blocks).zip(strides).enumerate()
    {
        for i in 0..blocks {
            let is_basic = !kind.is_bottleneck && !kind.is_vd;
            let block = Block {
                name: &format!("stack{stack}_block{i}"),
                filters: *filters,
                stride: if i == 0 { stride } else { 1 },
                has_shortcut: i == 0 && (!is_basic || stack > 0),
            };
            x = added(graph, kind, &block, x)?;
        }
    }
    Ok(x)
}

/// What is added to the result of a block.
fn shortcut(
    graph: &mut Graph,
    kind: &BlockStyle,
    block: &Block<'_>,
    x: Argument,
) -> ArgumentResult {
    let Block { name, filters, stride, .. } = *block;
    let filters = if kind.is_bottleneck { 4 * filters } else { filters };
    let mut x = x;
    if kind.is_vd && !kind.is_pre && stride > 1 {
        x = graph.unnamed("AveragePooling2D", "average_pooling2d", pool([2, stride], "same"), x)?;
    }
    let stride = if kind.is_vd { 1 } else { stride };
    let x = graph.conv(&format!("{name}_0_conv"), [filters, 1, stride], "valid", x)?;
    if kind.is_pre { Ok(x) } else { graph.normed(&format!("{name}_0_bn"), EPSILON, x) }
}

/// A block.
fn added(graph: &mut Graph, kind: &BlockStyle, block: &Block<'_>, x: Argument) -> ArgumentResult {
    let Block { name, filters, stride, has_shortcut } = *block;
    let mut y = x.clone();
    if kind.is_pre {
        y = graph.normed(&format!("{name}_pre_activation_bn"), EPSILON, y)?;
        y = graph.activated(&format!("{name}_pre_activation_relu"), "relu", y)?;
    }
    let around = if has_shortcut { shortcut(graph, kind, block, y.clone())? } else { x };
    let convs = match kind.is_bottleneck {
        true => vec![[filters, 1, 1], [filters, 3, stride], [4 * filters, 1, 1]],
        false => vec![[filters, 3, stride], [filters, 3, 1]],
    };
    for (i, sizes) in (1..).zip(&convs) {
        let [_, kernel, stride] = *sizes;
        let padding = if stride > 1 { "valid" } else { "same" };
        if stride > 1 {
            y = graph.padded(&format!("{name}_{i}_pad"), (kernel - 1) / 2, y)?;
        }
        y = graph.conv(&format!("{name}_{i}_conv"), *sizes, padding, y)?;
        let is_last = i == convs.len();
        if !is_last || !kind.is_pre {
            y = graph.normed(&format!("{name}_{i}_bn"), EPSILON, y)?;
        }
        if !is_last {
            y = graph.activated(&format!("{name}_{i}_relu"), "relu", y)?;
        }
    }
    if kind.is_pre {
        return graph.sum(&format!("{name}_out"), vec![around, y]);
    }
    let sum = graph.sum(&format!("{name}_add"), vec![around, y])?;
    graph.activated(&format!("{name}_out"), "relu", sum)
}
