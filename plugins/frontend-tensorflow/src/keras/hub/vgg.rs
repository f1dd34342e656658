//! VGG: stacks of convolutions with a pool behind each.

use super::{Graph, LAYERS_MAX, Settings, pool};
use crate::keras::layer::KerasNetwork;
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::json;

pub(super) fn vgg(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const SETTINGS: [&str; 3] = ["stackwise_num_repeats", "stackwise_num_filters", "image_shape"];
    s.only(&SETTINGS)?;
    s.only_float32()?;
    let (repeats, filters) = (s.sizes("stackwise_num_repeats")?, s.sizes("stackwise_num_filters")?);
    refuse!(repeats.len() != filters.len() =>
        s.wrong("stackwise_num_filters", "it must be as long as `stackwise_num_repeats`"));
    refuse!(repeats.iter().sum::<i64>() > LAYERS_MAX =>
        s.wrong("stackwise_num_repeats", &format!("it must be {LAYERS_MAX} layers at most")));
    let mut graph = Graph::new(s);
    let input = graph.unnamed_input("float32", &s.image_shape()?);
    let mut x = input.clone();
    for (stack, (repeats, filters)) in (1..).zip(repeats.iter().zip(&filters)) {
        let conv = json!({
            "filters": filters, "kernel_size": [3, 3], "strides": [1, 1], "padding": "same", "activation": "relu",
        });
        for i in 1..=*repeats {
            x = graph.add("Conv2D", &format!("block{stack}_conv{i}"), conv.clone(), x)?;
        }
        x = graph.add("MaxPooling2D", &format!("block{stack}_pool"), pool([2, 2], "valid"), x)?;
    }
    Ok(graph.network(input, x))
}
