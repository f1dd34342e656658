//! ResNet: convolutions with norms, in blocks whose inputs are added to their outputs.

use super::{Graph, LAYERS_MAX, Settings};
use crate::keras::layer::{Argument, Call, Network};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use serde_json::{Value as Json, json};

const SETTINGS: [&str; 8] = [
    "input_conv_filters",
    "input_conv_kernel_sizes",
    "stackwise_num_filters",
    "stackwise_num_blocks",
    "stackwise_num_strides",
    "block_type",
    "use_pre_activation",
    "image_shape",
];

/// What all blocks have in common.
struct Kind {
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

type Found = Result<Argument, Diagnostic>;

fn conv(
    graph: &mut Graph,
    name: &str,
    [filters, kernel, stride]: [i64; 3],
    padding: &str,
    x: Argument,
) -> Found {
    let config = json!({
        "filters": filters, "kernel_size": [kernel, kernel], "strides": [stride, stride], "padding": padding,
        "use_bias": false,
    });
    graph.add("Conv2D", name, config, x)
}

fn norm(graph: &mut Graph, name: &str, x: Argument) -> Found {
    let config = json!({ "axis": -1, "epsilon": 1e-5, "momentum": 0.9 });
    graph.add("BatchNormalization", name, config, x)
}

fn relu(graph: &mut Graph, name: &str, x: Argument) -> Found {
    graph.add("Activation", name, json!({ "activation": "relu" }), x)
}

fn padded(graph: &mut Graph, name: &str, kernel: i64, x: Argument) -> Found {
    let pad = (kernel - 1) / 2;
    graph.add("ZeroPadding2D", name, json!({ "padding": [[pad, pad], [pad, pad]] }), x)
}

pub(super) fn resnet(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    s.only(&SETTINGS)?;
    let (is_bottleneck, is_vd) = match s.word("block_type")? {
        "basic_block" => (false, false),
        "bottleneck_block" => (true, false),
        "basic_block_vd" => (false, true),
        "bottleneck_block_vd" => (true, true),
        _ => return Err(s.wrong("block_type", "it is no type that is known")),
    };
    let kind = Kind { is_bottleneck, is_vd, is_pre: s.flag("use_pre_activation", false)? };
    let mut graph = Graph::new(s);
    let shape = s.image_shape()?;
    let input = graph.unnamed_input("float32", &shape);
    let x = stem(&mut graph, s, &kind, input.clone())?;
    let mut x = stacks(&mut graph, s, &kind, x)?;
    if kind.is_pre {
        x = norm(&mut graph, "post_bn", x)?;
        x = relu(&mut graph, "post_relu", x)?;
    }
    Ok(graph.network(input, x))
}

/// The convolutions before the blocks, and a pool.
fn stem(graph: &mut Graph, s: &Settings<'_>, kind: &Kind, x: Argument) -> Found {
    let filters = s.sizes("input_conv_filters")?;
    let kernels = s.sizes("input_conv_kernel_sizes")?;
    if filters.len() != kernels.len() || filters.is_empty() {
        return Err(
            s.wrong("input_conv_kernel_sizes", "it must be as long as `input_conv_filters`")
        );
    }
    let mut x = padded(graph, "conv1_pad", kernels[0], x)?;
    for (i, (filters, kernel)) in (1..).zip(filters.iter().zip(&kernels)) {
        let (stride, padding) = if i == 1 { (2, "valid") } else { (1, "same") };
        x = conv(graph, &format!("conv{i}_conv"), [*filters, *kernel, stride], padding, x)?;
        if i < kernels.len() || !kind.is_pre {
            x = norm(graph, &format!("conv{i}_bn"), x)?;
            x = relu(graph, &format!("conv{i}_relu"), x)?;
        }
    }
    let x = if kind.is_pre {
        let config = json!({ "pad_width": [[0, 0], [1, 1], [1, 1], [0, 0]] });
        let least = Argument::Plain(Json::from("-Infinity"));
        let named = vec![("constant_values".to_owned(), least)];
        graph.call("ops.Pad", "pad", config, Call { positional: vec![x], named })?
    } else {
        padded(graph, "pool1_pad", 3, x)?
    };
    let pool = json!({ "pool_size": [3, 3], "strides": [2, 2], "padding": "valid" });
    graph.add("MaxPooling2D", "pool1_pool", pool, x)
}

/// All blocks.
fn stacks(graph: &mut Graph, s: &Settings<'_>, kind: &Kind, mut x: Argument) -> Found {
    let filters = s.sizes("stackwise_num_filters")?;
    let blocks = s.sizes("stackwise_num_blocks")?;
    let strides = s.sizes("stackwise_num_strides")?;
    for (key, list) in [("stackwise_num_blocks", &blocks), ("stackwise_num_strides", &strides)] {
        if list.len() != filters.len() {
            return Err(s.wrong(key, "it must be as long as `stackwise_num_filters`"));
        }
    }
    if blocks.iter().sum::<i64>() > LAYERS_MAX {
        let must = format!("it must be {LAYERS_MAX} blocks at most");
        return Err(s.wrong("stackwise_num_blocks", &must));
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
fn shortcut(graph: &mut Graph, kind: &Kind, block: &Block<'_>, x: Argument) -> Found {
    let Block { name, filters, stride, .. } = *block;
    let filters = if kind.is_bottleneck { 4 * filters } else { filters };
    let mut x = x;
    if kind.is_vd && !kind.is_pre && stride > 1 {
        let pool = json!({ "pool_size": [2, 2], "strides": [stride, stride], "padding": "same" });
        x = graph.unnamed("AveragePooling2D", "average_pooling2d", pool, x)?;
    }
    let stride = if kind.is_vd { 1 } else { stride };
    let x = conv(graph, &format!("{name}_0_conv"), [filters, 1, stride], "valid", x)?;
    if kind.is_pre { Ok(x) } else { norm(graph, &format!("{name}_0_bn"), x) }
}

/// A block.
fn added(graph: &mut Graph, kind: &Kind, block: &Block<'_>, x: Argument) -> Found {
    let Block { name, filters, stride, has_shortcut } = *block;
    let mut y = x.clone();
    if kind.is_pre {
        y = norm(graph, &format!("{name}_pre_activation_bn"), y)?;
        y = relu(graph, &format!("{name}_pre_activation_relu"), y)?;
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
            y = padded(graph, &format!("{name}_{i}_pad"), kernel, y)?;
        }
        y = conv(graph, &format!("{name}_{i}_conv"), *sizes, padding, y)?;
        let is_last = i == convs.len();
        if !is_last || !kind.is_pre {
            y = norm(graph, &format!("{name}_{i}_bn"), y)?;
        }
        if !is_last {
            y = relu(graph, &format!("{name}_{i}_relu"), y)?;
        }
    }
    let terms = Argument::List(vec![around, y]);
    if kind.is_pre {
        return graph.add("Add", &format!("{name}_out"), json!({}), terms);
    }
    let sum = graph.add("Add", &format!("{name}_add"), json!({}), terms)?;
    relu(graph, &format!("{name}_out"), sum)
}
