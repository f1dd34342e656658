use crate::keras::config;
use crate::keras::fixture::{archive, weights};
use onnxd_plugin_sdk::ExportOptions;

/// The description of a backbone with other settings.
fn described(class: &str, more: &str) -> String {
    format!(
        r#"{{"module": "keras_hub.src.models.x", "class_name": "{class}", "config": {{"name": "b",
        "vocabulary_size": 5, "num_layers": 1, "num_heads": 1, "hidden_dim": 2, "intermediate_dim": 3, "dropout": 0.1,
        "max_sequence_length": 4{more}}}, "registered_name": "keras_hub>{class}"}}"#
    )
}

fn refused(class: &str, more: &str) -> String {
    let found = config::read(described(class, more).as_bytes(), false);
    found.map_or_else(|e| format!("{e:?}"), |_| "nothing".to_owned())
}

#[test]
fn settings_that_are_not_known_are_refused_by_name() {
    let cases = [
        ("DistilBertBackbone", r#", "num_segments": 2"#, "`num_segments` is 2"),
        ("BertBackbone", "", "`num_segments` is missing"),
        ("GPT2Backbone", r#", "num_heads": 0"#, "`num_heads` is 0"),
        ("RobertaBackbone", r#", "num_layers": 0"#, "`num_layers` is 0"),
        (
            "XLMRobertaBackbone",
            r#", "dtype": {"class_name": "DTypePolicyMap", "config": {}}"#,
            "only one type",
        ),
    ];
    for (class, more, expected) in cases {
        let said = refused(class, more);
        assert!(said.contains(expected) && said.contains(class), "{class} {more}: {said}");
    }
}

#[test]
fn what_keras_computes_in_several_ways_is_refused() {
    let heads = r#", "num_query_heads": 4, "num_key_value_heads": 2, "head_dim": 2"#;
    let cases = [
        ("Qwen3Backbone", r#", "sliding_window_size": 4"#, "`sliding_window_size` is 4"),
        (
            "QwenBackbone",
            r#", "use_sliding_window_attention": true, "sliding_window_size": 4"#,
            "is 4",
        ),
        ("LlamaBackbone", r#", "rope_low_freq_factor": 1.0"#, "`rope_frequency_adjustment_factor`"),
        ("LlamaBackbone", r#", "rope_position_scaling_factor": 4.0"#, "is 4"),
    ];
    for (class, more, expected) in cases {
        let json = described(class, &format!("{heads}{more}"))
            .replace(r#""num_heads": 1, "#, "")
            .replace(r#""max_sequence_length": 4, "#, "");
        let json =
            if class == "Qwen3Backbone" { json } else { json.replace(r#", "head_dim": 2"#, "") };
        let found = config::read(json.as_bytes(), false);
        let said = found.map_or_else(|e| format!("{e:?}"), |_| "nothing".to_owned());
        assert!(said.contains(expected), "{class}: {said}");
    }
}

#[test]
fn all_blocks_of_a_file_have_one_bound() {
    let said = refused("RobertaBackbone", r#", "num_layers": 1000000"#);
    assert!(said.contains("1000000 blocks"), "{said}");
    let one = described("GPT2Backbone", r#", "num_layers": 600"#);
    assert!(config::read(one.as_bytes(), false).is_ok());
    let two = format!(
        r#"{{"class_name": "Sequential", "config": {{"name": "s", "layers": [{one}, {one}]}}}}"#
    );
    let found = config::read(two.as_bytes(), false);
    assert!(found.is_err_and(|e| format!("{e:?}").contains("1200 blocks")));
    let deep = r#", "stackwise_num_repeats": [60, 60], "stackwise_depth_coefficients": [1.0, 9.5]"#;
    let said = refused("EfficientNetBackbone", deep);
    assert!(said.contains("1201 blocks"), "{said}");
}

#[test]
fn all_that_is_converted_is_in_the_manual() {
    let manual = include_str!("../../../../../docs/manual.md");
    let families = super::FAMILIES.iter().map(|(class, _)| *class);
    for class in families.chain(super::layers::LAYERS) {
        assert!(manual.contains(&format!("`{class}`")), "{class}");
    }
}

#[test]
fn backbones_that_are_not_known_are_refused_by_name() {
    let file = archive(&described("OtherBackbone", ""), &weights(&[]));
    let found = crate::keras::import(file.into(), &ExportOptions::default());
    let said = found.map_or_else(|e| format!("{e:?}"), |_| "nothing".to_owned());
    assert!(said.contains("OtherBackbone"), "{said}");
}

#[test]
fn layers_of_others_with_names_of_the_package_are_foreign() {
    let json = r#"{"class_name": "TransformerEncoder", "config": {"name": "t", "heads": 2}}"#;
    let layer = config::read(json.as_bytes(), true).expect("a layer");
    assert!(layer.foreign.is_some() && layer.parts.is_empty());
}

#[test]
fn a_model_without_a_name_has_that_of_its_class() {
    let json = r#"{"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": [
        {"module": "keras_hub.src.models.vgg.vgg_backbone", "class_name": "VGGBackbone", "config": {
        "stackwise_num_repeats": [1], "stackwise_num_filters": [2], "image_shape": [4, 4, 1]}}]}}"#;
    let model = config::read(json.as_bytes(), false).expect("a model");
    let layer = &model.network.expect("layers").layers[0];
    assert_eq!((layer.name.as_str(), layer.is_unnamed), ("vgg_backbone", true));
}

#[test]
fn layers_of_blocks_have_the_order_of_keras() {
    let json = r#"{"module": "keras_hub.src.models.x", "class_name": "ResNetBackbone", "config": {"name": "b",
        "input_conv_filters": [8], "input_conv_kernel_sizes": [7], "stackwise_num_filters": [64, 8],
        "stackwise_num_blocks": [1, 1], "stackwise_num_strides": [1, 2], "block_type": "bottleneck_block_vd",
        "use_pre_activation": false, "image_shape": [null, null, 3]}}"#;
    let model = config::read(json.as_bytes(), false).expect("a model");
    let layers = model.network.expect("layers").layers;
    let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
    // As `model.layers` of keras_hub 0.32 has them.
    let expected = "input_layer conv1_pad conv1_conv conv1_bn conv1_relu pool1_pad pool1_pool stack0_block0_1_conv \
        stack0_block0_1_bn stack0_block0_1_relu stack0_block0_2_conv stack0_block0_2_bn stack0_block0_2_relu \
        stack0_block0_0_conv stack0_block0_3_conv stack0_block0_0_bn stack0_block0_3_bn stack0_block0_add \
        stack0_block0_out stack1_block0_1_conv stack1_block0_1_bn stack1_block0_1_relu stack1_block0_2_pad \
        stack1_block0_2_conv stack1_block0_2_bn average_pooling2d stack1_block0_2_relu stack1_block0_0_conv \
        stack1_block0_3_conv stack1_block0_0_bn stack1_block0_3_bn stack1_block0_add stack1_block0_out";
    assert_eq!(names.join(" "), expected);
}
