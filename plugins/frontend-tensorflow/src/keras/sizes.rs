//! Bounds of the sizes and counts that layers are made with. Keras makes no layer beyond them, and some are never read
//! again: the weights say the same.

use super::layer::KerasLayer;
use super::values::problem;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use serde_json::Value as Json;

/// Axes of TensorFlow's convolutions and pools have at most as many elements.
const SIZE_MAX: i64 = i32::MAX as i64;

/// Keys of sizes and steps of windows, in layers and functions.
const WINDOWS: [&str; 4] = ["kernel_size", "pool_size", "strides", "dilation_rate"];

/// Further keys of layers for what there is at least one of.
const SIZES: [&str; 25] = [
    "units", "filters", "depth_multiplier", "groups", "input_dim", "output_dim", "num_heads",
    "num_query_heads", "num_key_value_heads", "head_dim", "key_dim", "value_dim", "projection_dim",
    "size", "n", "height", "width", "num_tokens", "num_bins", "max_tokens", "sequence_length",
    "sequence_stride", "fft_length", "num_mel_bins", "output_size",
];

/// Keys of layers for what there may be none of.
const COUNTS: [&str; 4] = ["padding", "cropping", "output_padding", "num_oov_indices"];

/// Looks at a model and all layers in it.
///
/// # Errors
/// `N0204` for each size that no layer has.
pub(super) fn check(model: &KerasLayer) -> Result<(), Diagnostics> {
    let mut found = Diagnostics(Vec::new());
    // Layers are named from the model that they are in, but for those of the whole model.
    layers(model).for_each(|layer| look(layer, "", &mut found));
    if found.0.is_empty() { Ok(()) } else { Err(found) }
}

fn look(layer: &KerasLayer, within: &str, found: &mut Diagnostics) {
    let path = super::weights::join(within, &layer.name);
    let wrong = layer.config.iter().filter_map(|(key, value)| {
        let least = least(&layer.class, key)?;
        let size = beyond(value, least)?;
        let text = format!("`{key}` is {size}, and must be from {least} to {SIZE_MAX}.");
        Some(problem(&path, &layer.class, Code::LayerParameter, text))
    });
    found.0.extend(wrong.collect::<Vec<Diagnostic>>());
    layers(layer).for_each(|inner| look(inner, &path, found));
}

/// The layers in a layer.
fn layers(layer: &KerasLayer) -> impl Iterator<Item = &KerasLayer> {
    let network = layer.network.iter().flat_map(|network| &network.layers);
    network.chain(layer.parts.iter().map(|(_, part)| part))
}

/// The smallest size that a key of a class may have, if it is one.
fn least(class: &str, key: &str) -> Option<i64> {
    let is_function = class.contains('.');
    match key {
        // One group for each channel.
        "groups" if class == "GroupNormalization" => Some(-1),
        _ if WINDOWS.contains(&key) => Some(1),
        _ if is_function => None,
        _ if SIZES.contains(&key) => Some(1),
        _ if COUNTS.contains(&key) => Some(0),
        _ => None,
    }
}

/// The first number beyond the bounds, in a list or in lists of it.
fn beyond(value: &Json, least: i64) -> Option<String> {
    match value {
        Json::Array(items) => items.iter().find_map(|item| beyond(item, least)),
        Json::Number(number) => {
            let fits = match number.as_i64() {
                Some(size) => (least..=SIZE_MAX).contains(&size),
                // A number with a point is what its row says of it, unless it is as large as no size.
                None => number.as_f64().is_some_and(|real| real.abs() <= SIZE_MAX as f64),
            };
            (!fits).then(|| number.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keras::config;

    fn found(class: &str, config: &str) -> Vec<String> {
        let text = format!(
            r#"{{"class_name": "Sequential", "config": {{"name": "m", "layers": [{{"class_name": "{class}",
                "config": {{"name": "l", {config}}}}}]}}}}"#
        );
        let model = config::read(text.as_bytes(), false).unwrap();
        check(&model).err().into_iter().flat_map(|all| all.0).map(|one| one.to_string()).collect()
    }

    #[test]
    fn sizes_that_no_layer_has_are_errors_with_its_name() {
        type Wrong = &'static [(&'static str, &'static str)];
        // Each value with what of it is told.
        let units: Wrong = &[
            ("-1", "-1"),
            ("0", "0"),
            ("4611686018427387904", "4611686018427387904"),
            ("18446744073709551615", "18446744073709551615"),
            ("1e300", "1e+300"),
        ];
        let all: [(&str, &str, Wrong); 11] = [
            ("Dense", "units", units),
            ("LSTM", "units", &[("-5", "-5")]),
            ("Conv2D", "kernel_size", &[("[3, 0]", "0")]),
            ("Conv2D", "strides", &[("[-1, 1]", "-1")]),
            ("Conv2D", "dilation_rate", &[("0", "0")]),
            ("Conv2D", "groups", &[("0", "0")]),
            ("MaxPooling2D", "pool_size", &[("[2147483648, 1]", "2147483648")]),
            ("ZeroPadding2D", "padding", &[("[[0, 1], [-1, 0]]", "-1")]),
            ("Embedding", "input_dim", &[("0", "0")]),
            ("MultiHeadAttention", "num_heads", &[("0", "0")]),
            ("RepeatVector", "n", &[("-2", "-2")]),
        ];
        let values =
            all.iter().flat_map(|(class, key, wrong)| wrong.iter().map(move |w| (class, key, w)));
        for (class, key, (value, told)) in values {
            let found = found(class, &format!(r#""{key}": {value}"#));
            assert!(found.len() == 1 && found[0].contains("N0204"), "{class} {key}: {found:?}");
            let said = [format!("`{key}` is {told}"), "l".into(), (*class).to_owned()];
            assert!(said.iter().all(|said| found[0].contains(said)), "{class} {key}: {found:?}");
        }
    }

    #[test]
    fn sizes_that_layers_have_are_taken() {
        for (class, config) in [
            ("Dense", r#""units": 3"#),
            ("GroupNormalization", r#""groups": -1"#),
            ("MaxPooling2D", r#""pool_size": [2, 2], "strides": null, "padding": "same""#),
            ("ZeroPadding2D", r#""padding": [[0, 0], [0, 0]]"#),
            ("Reshape", r#""target_shape": [-1, 2]"#),
            ("Conv2D", r#""kernel_size": [3, 3], "filters": 2, "groups": 1"#),
        ] {
            let found = found(class, config);
            assert!(found.is_empty(), "{class} {config}: {found:?}");
        }
    }

    #[test]
    fn layers_in_layers_are_looked_at() {
        let inner = r#"{"class_name": "Dense", "config": {"name": "d", "units": -1}}"#;
        let found = found("TimeDistributed", &format!(r#""layer": {inner}"#));
        assert!(found.len() == 1 && found[0].contains("l/d"), "{found:?}");
    }
}
