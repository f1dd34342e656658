//! VGG: stacks of convolutions with a pool behind each.

use super::{Graph, LAYERS_MAX, Settings};
use crate::keras::dtype;
use crate::keras::layer::Network;
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::ir::DataType;
use serde_json::json;

pub(super) fn vgg(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    const SETTINGS: [&str; 3] = ["stackwise_num_repeats", "stackwise_num_filters", "image_shape"];
    s.only(&SETTINGS)?;
    // Its layers have the type of the session, whatever that of the model is.
    if dtype::computed(s.config) != DataType::Float {
        return Err(s.wrong("dtype", "only `float32` is converted"));
    }
    let (repeats, filters) = (s.sizes("stackwise_num_repeats")?, s.sizes("stackwise_num_filters")?);
    if repeats.len() != filters.len() {
        let must = "it must be as long as `stackwise_num_repeats`";
        return Err(s.wrong("stackwise_num_filters", must));
    }
    if repeats.iter().sum::<i64>() > LAYERS_MAX {
        let must = format!("it must be {LAYERS_MAX} layers at most");
        return Err(s.wrong("stackwise_num_repeats", &must));
    }
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
        let pool = json!({ "pool_size": [2, 2], "strides": [2, 2], "padding": "valid" });
        x = graph.add("MaxPooling2D", &format!("block{stack}_pool"), pool, x)?;
    }
    Ok(graph.network(input, x))
}
