use crate::config::Config;
use crate::{kinds, testing};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::testing::run;

const CASES: &str = include_str!("cases.txt");

#[test]
fn each_family_has_a_case_and_is_in_the_manual() {
    testing::check_list(super::FAMILIES.iter().map(|(kind, _)| *kind), CASES);
}

#[test]
fn rows_of_sound_are_alone() {
    for case in testing::cases(CASES) {
        testing::check(case, &[("batch_size", 3), ("samples", 61)]);
    }
}

/// A convolution gives `(n - kernel) / stride + 1` vectors of n, rounded down.
#[test]
fn samples_become_so_many_vectors() {
    let line = testing::cases(CASES).find(|line| line.contains("HubertForCTC")).unwrap();
    let [model, _] = testing::models(line);
    for (samples, vectors) in [(11, 1), (16, 1), (17, 2), (61, 9)] {
        let input = Tensor::from_vec([1, samples], vec![0.5f32; samples]);
        let outputs = run(&model, [("input_values", input)]).unwrap();
        assert_eq!(outputs[0].1.dims(), [1, vectors, 32], "{samples} samples");
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    for (line, told) in [
        (r#"wav2vec2 {"architectures": ["Wav2Vec2ForPreTraining"]}"#, "`architectures`"),
        (r#"wav2vec2 {"feat_extract_norm": "batch"}"#, "`feat_extract_norm` is `batch`"),
        (r#"wav2vec2 {"conv_kernel": [3]}"#, "`conv_kernel` is [3]"),
        (
            r#"wav2vec2 {"num_conv_pos_embedding_groups": 7}"#,
            "`num_conv_pos_embedding_groups` is 7",
        ),
        (r#"hubert {"hidden_act": "mish"}"#, "`hidden_act` is `mish`"),
    ] {
        let c = Config::parse(testing::config(line).to_string().as_bytes()).unwrap();
        let described = kinds::family(&c, &kinds::named).unwrap().describe(&c, None);
        let found = described.err().unwrap_or_else(|| panic!("{line} is not refused"));
        assert!(found.message.contains(told), "{line}: {}", found.message);
    }
}
