use crate::config::Config;
use crate::{kinds, testing};

const CASES: &str = include_str!("cases.txt");

#[test]
fn each_family_has_a_case_and_is_in_the_manual() {
    testing::check_list(super::FAMILIES.iter().map(|(kind, _)| *kind), CASES);
}

#[test]
fn rows_of_pictures_are_alone() {
    for case in testing::cases(CASES) {
        testing::check(case, &[("batch_size", 3), ("height", 20), ("width", 16)]);
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    for (line, told) in [
        (
            r#"vit {"architectures": ["ViTForMaskedImageModeling"]}"#,
            "[\"ViTForMaskedImageModeling\"]",
        ),
        (r#"vit {"hidden_act": "laplace"}"#, "`hidden_act` is `laplace`"),
        (r#"vit {"pooler_act": "relu"}"#, "`pooler_act` is `relu`"),
        (r#"vit {"num_attention_heads": 7}"#, "`num_attention_heads` is 7"),
        (r#"vit {"image_size": 15}"#, "`image_size` is 15"),
        (r#"vit {"image_size": [32, 32, 32]}"#, "`image_size` is [32,32,32]"),
        (r#"vit {"image_size": 1000000}"#, "`image_size` is 1000000"),
        (r#"beit {"image_size": [224, 448]}"#, "`image_size`"),
        (r#"beit {"image_size": 8000, "use_relative_position_bias": true}"#, "4096 patches"),
        (r#"dinov2 {"architectures": ["Dinov2Backbone"]}"#, "`architectures`"),
        (r#"dinov2 {"mlp_ratio": 1e300}"#, "`mlp_ratio`"),
        (r#"swin {"use_absolute_embeddings": true}"#, "`use_absolute_embeddings` is true"),
        (r#"swin {"window_size": 100}"#, "`window_size` is 100"),
        (r#"swin {"image_size": 96}"#, "7 tokens on a side"),
        (r#"swin {"image_size": 16384}"#, "4194304 patches"),
        (r#"resnet {"layer_type": "wide"}"#, "`layer_type` is `wide`"),
        (r#"resnet {"depths": [1]}"#, "`depths` is [1]"),
        (r#"convnext {"num_stages": 2}"#, "`num_stages` is 2"),
        (r#"convnext {"id2label": 3}"#, "`id2label` is 3"),
    ] {
        let mut config = testing::config(line);
        if line.starts_with("convnext {\"id") {
            config["architectures"] = serde_json::json!(["ConvNextForImageClassification"]);
        }
        let c = Config::parse(config.to_string().as_bytes()).unwrap();
        let described = kinds::family(&c, &kinds::named).unwrap().describe(&c, None);
        let found = described.err().unwrap_or_else(|| panic!("{line} is not refused"));
        assert!(found.message.contains(told), "{line}: {}", found.message);
    }
}
