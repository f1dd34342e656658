use super::{GroupNames, names, snake_case};
use crate::keras::layer::KerasLayer;

#[test]
fn groups_have_names_of_classes() {
    let names = [
        ("Dense", "dense"),
        ("Conv2DTranspose", "conv2d_transpose"),
        ("PReLU", "p_re_lu"),
        ("ReLU", "re_lu"),
        ("LSTM", "lstm"),
        ("RMSNormalization", "rms_normalization"),
        ("TFOpLambda", "tf_op_lambda"),
        ("MultiHeadAttention", "multi_head_attention"),
    ];
    for (class, group) in names {
        assert_eq!(snake_case(class), group);
    }
}

#[test]
fn groups_of_one_class_are_counted() {
    let mut names = GroupNames::default();
    let found = ["Dense", "ReLU", "Dense", "Dense"].map(|class| names.next(class));
    assert_eq!(found, ["dense", "re_lu", "dense_1", "dense_2"]);
}

/// A layer of a class with settings.
fn layer(class: &str, config: &str) -> KerasLayer {
    let json = format!(r#"{{"class_name": "{class}", "config": {{"name": "own", {config}}}}}"#);
    let model =
        format!(r#"{{"class_name": "Sequential", "config": {{"name": "s", "layers": [{json}]}}}}"#);
    let model = crate::keras::config::read(model.as_bytes(), false).unwrap();
    model.network.unwrap().layers.remove(0)
}

#[test]
fn numbered_weights_have_keras_names() {
    let names = |class: &str, config: &str, count: usize| -> Vec<String> {
        let layer = layer(class, config);
        (0..count).map(|i| names::role(&layer, &format!("layers/x/vars/{i}"), i, false)).collect()
    };
    assert_eq!(names("Dense", r#""use_bias": true"#, 3), ["kernel", "bias", "kernel_scale"]);
    assert_eq!(names("Conv2D", r#""use_bias": false"#, 2), ["kernel", "kernel_scale"]);
    assert_eq!(names("EinsumDense", r#""bias_axes": "d""#, 2), ["kernel", "bias"]);
    let norm = names("BatchNormalization", r#""scale": false, "center": true"#, 3);
    assert_eq!(norm, ["beta", "moving_mean", "moving_variance"]);
    assert_eq!(names("LSTM", r#""units": 2"#, 1), ["lstm_cell/kernel"]);
    let gated = names("MultiHeadAttention", r#""use_bias": false, "use_gate": true"#, 5);
    let parts = ["query", "key", "value", "gate", "attention_output"];
    assert_eq!(gated, parts.map(|part| format!("{part}/kernel")));
    assert_eq!(names("Embedding", r#""input_dim": 2"#, 5)[4], "weight_4");
}

#[test]
fn named_weights_keep_their_names() {
    let named =
        |class: &str, place: &str| names::role(&layer(class, r#""units": 1"#), place, 0, false);
    assert_eq!(named("LSTM", "model_weights/own/own/lstm_cell/bias:0"), "lstm_cell/bias");
    assert_eq!(named("Dense", "model_weights/outer/outer/own/kernel"), "kernel");
    assert_eq!(named("Dense", "model_weights/other/kernel:0"), "kernel");
    // The folder has the name of the class, which may be that of the layer.
    assert_eq!(named("Dense", "layers/own/vars/kernel_scale"), "kernel_scale");
}

#[test]
fn a_gate_comes_behind_the_value() {
    let mut layer = layer("MultiHeadAttention", r#""use_gate": true"#);
    layer.weights = ["query", "key", "gate", "value", "attention_output"]
        .map(|part| format!("own/own/{part}/kernel"))
        .to_vec();
    super::in_order(&mut layer);
    let parts: Vec<&str> =
        layer.weights.iter().map(|place| place.split('/').nth(2).unwrap()).collect();
    assert_eq!(parts, ["query", "key", "value", "gate", "attention_output"]);
}
