//! DenseNet: convolutions behind norms, each of which reads what all before it in the stack have made.

use super::{Graph, LAYERS_MAX, Settings};
use crate::keras::dtype;
use crate::keras::layer::{Argument, Network};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::ir::DataType;
use serde_json::json;

type Found = Result<Argument, Diagnostic>;

/// Filters of the first convolution.
const FILTERS: i64 = 64;

pub(super) fn densenet(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    s.only(&["stackwise_num_repeats", "image_shape", "compression_ratio", "growth_rate"])?;
    // Its layers have the type of the session, whatever that of the model is.
    if dtype::computed(s.config) != DataType::Float {
        return Err(s.wrong("dtype", "only `float32` is converted"));
    }
    let repeats = s.sizes("stackwise_num_repeats")?;
    if repeats.iter().sum::<i64>() > LAYERS_MAX {
        let must = format!("it must be {LAYERS_MAX} blocks at most");
        return Err(s.wrong("stackwise_num_repeats", &must));
    }
    let (growth, ratio) = (s.size("growth_rate")?, s.number("compression_ratio", 0.5)?);
    if growth > super::SIZE_MAX / (4 * LAYERS_MAX) {
        return Err(s.wrong("growth_rate", "it is too large"));
    }
    let mut graph = Graph::new(s);
    let input = graph.unnamed_input("float32", &s.image_shape()?);
    let x = conv(&mut graph, "conv1_conv", [FILTERS, 7, 2], input.clone())?;
    let x = normed(&mut graph, ["conv1_bn", "conv1_relu"], x)?;
    let pool = json!({ "pool_size": [3, 3], "strides": [2, 2], "padding": "same" });
    let mut x = graph.add("MaxPooling2D", "pool1", pool, x)?;
    let mut filters = FILTERS;
    for (stack, count) in (1..).zip(&repeats) {
        for i in 1..=*count {
            x = block(&mut graph, &format!("stack{stack}_block{i}"), growth, x)?;
        }
        filters += count * growth;
        if stack < repeats.len() {
            // As Python rounds it.
            filters = (filters as f64 * ratio) as i64;
            if filters < 1 {
                return Err(s.wrong("compression_ratio", "it leaves no channels"));
            }
            x = transition(&mut graph, &format!("transition{stack}"), filters, x)?;
        }
    }
    let x = normed(&mut graph, ["bn", "relu"], x)?;
    Ok(graph.network(input, x))
}

fn conv(graph: &mut Graph, name: &str, [filters, kernel, stride]: [i64; 3], x: Argument) -> Found {
    let config = json!({
        "filters": filters, "kernel_size": [kernel, kernel], "strides": [stride, stride], "padding": "same",
        "use_bias": false,
    });
    graph.add("Conv2D", name, config, x)
}

/// A norm, and what is above zero.
fn normed(graph: &mut Graph, [norm, relu]: [&str; 2], x: Argument) -> Found {
    let x = graph.add("BatchNormalization", norm, json!({ "axis": -1, "epsilon": 1e-5 }), x)?;
    graph.add("Activation", relu, json!({ "activation": "relu" }), x)
}

/// Further channels, made of all.
fn block(graph: &mut Graph, name: &str, growth: i64, x: Argument) -> Found {
    let part = |rest: &str| format!("{name}_{rest}");
    let y = normed(graph, [&part("1_bn"), &part("1_relu")], x.clone())?;
    let y = conv(graph, &part("1_conv"), [4 * growth, 1, 1], y)?;
    let y = normed(graph, [&part("2_bn"), &part("2_relu")], y)?;
    let y = conv(graph, &part("2_conv"), [growth, 3, 1], y)?;
    graph.add("Concatenate", &part("concat"), json!({ "axis": -1 }), Argument::List(vec![x, y]))
}

/// Fewer channels, and half of the height and width.
fn transition(graph: &mut Graph, name: &str, filters: i64, x: Argument) -> Found {
    let part = |rest: &str| format!("{name}_{rest}");
    let x = normed(graph, [&part("bn"), &part("relu")], x)?;
    let x = conv(graph, &part("conv"), [filters, 1, 1], x)?;
    let pool = json!({ "pool_size": [2, 2], "strides": [2, 2], "padding": "valid" });
    graph.add("AveragePooling2D", &part("pool"), pool, x)
}
