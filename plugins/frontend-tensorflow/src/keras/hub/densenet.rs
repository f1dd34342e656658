//! DenseNet: convolutions behind norms, each of which reads what all before it in the stack have made.

use super::{ArgumentResult, Graph, LAYERS_MAX, Settings, pool};
use crate::keras::layer::{Argument, KerasNetwork};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::json;

/// Filters of the first convolution.
const FILTERS: i64 = 64;

pub(super) fn densenet(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&["stackwise_num_repeats", "image_shape", "compression_ratio", "growth_rate"])?;
    s.only_float32()?;
    let repeats = s.stacks("stackwise_num_repeats", "blocks")?;
    let (growth, ratio) = (s.size("growth_rate")?, s.number("compression_ratio", 0.5)?);
    refuse!(growth > super::SIZE_MAX / (4 * LAYERS_MAX) => s.wrong("growth_rate", "it is too large"));
    let mut graph = Graph::new(s);
    let input = graph.unnamed_input("float32", &s.image_shape()?);
    let x = graph.conv("conv1_conv", [FILTERS, 7, 2], "same", input.clone())?;
    let x = normed(&mut graph, ["conv1_bn", "conv1_relu"], x)?;
    let mut x = graph.add("MaxPooling2D", "pool1", pool([3, 2], "same"), x)?;
    let mut filters = FILTERS;
    for (stack, count) in (1..).zip(&repeats) {
        for i in 1..=*count {
            x = block(&mut graph, &format!("stack{stack}_block{i}"), growth, x)?;
        }
        filters += count * growth;
        if stack < repeats.len() {
            // As Python rounds it.
            filters = (filters as f64 * ratio) as i64;
            refuse!(filters < 1 => s.wrong("compression_ratio", "it leaves no channels"));
            x = transition(&mut graph, &format!("transition{stack}"), filters, x)?;
        }
    }
    let x = normed(&mut graph, ["bn", "relu"], x)?;
    Ok(graph.network(input, x))
}

/// A norm, and what is above zero.
fn normed(graph: &mut Graph, [norm, relu]: [&str; 2], x: Argument) -> ArgumentResult {
    let x = graph.normed(norm, 1e-5, x)?;
    graph.activated(relu, "relu", x)
}

/// Further channels, made of all.
fn block(graph: &mut Graph, name: &str, growth: i64, x: Argument) -> ArgumentResult {
    let part = |rest: &str| format!("{name}_{rest}");
    let y = normed(graph, [&part("1_bn"), &part("1_relu")], x.clone())?;
    let y = graph.conv(&part("1_conv"), [4 * growth, 1, 1], "same", y)?;
    let y = normed(graph, [&part("2_bn"), &part("2_relu")], y)?;
    let y = graph.conv(&part("2_conv"), [growth, 3, 1], "same", y)?;
    graph.add("Concatenate", &part("concat"), json!({ "axis": -1 }), Argument::List(vec![x, y]))
}

/// Fewer channels, and half of the height and width.
fn transition(graph: &mut Graph, name: &str, filters: i64, x: Argument) -> ArgumentResult {
    let part = |rest: &str| format!("{name}_{rest}");
    let x = normed(graph, [&part("bn"), &part("relu")], x)?;
    let x = graph.conv(&part("conv"), [filters, 1, 1], "same", x)?;
    graph.add("AveragePooling2D", &part("pool"), pool([2, 2], "valid"), x)
}
