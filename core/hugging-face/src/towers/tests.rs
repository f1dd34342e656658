use crate::fixture::{complete, file, model};
use crate::testing;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::testing::run;

const CASES: &str = include_str!("cases.txt");

#[test]
fn each_family_has_a_case_and_is_in_the_manual() {
    testing::check_list(super::FAMILIES.iter().map(|(kind, _)| *kind), CASES);
}

#[test]
fn texts_and_pictures_are_alone() {
    let sizes = [
        ("batch_size", 3),
        ("text_batch_size", 5),
        ("image_batch_size", 3),
        ("sequence_length", 7),
    ];
    for case in testing::cases(CASES) {
        testing::check(case, &sizes);
    }
}

/// What stands for the text of these tokens, of which the last `padding` are none.
fn pooled(line: &str, ids: &[i64], padding: usize) -> Vec<f32> {
    let [model, _] = testing::models(line);
    let mut mask = vec![1i64; ids.len()];
    mask[ids.len() - padding..].fill(0);
    let row = |values: &[i64]| Tensor::from_vec([1, values.len()], values.to_vec());
    let outputs = run(&model, [("input_ids", row(ids)), ("attention_mask", row(&mask))]).unwrap();
    let found = outputs.iter().find(|(name, _)| name == "pooler_output").unwrap();
    found.1.as_slice::<f32>().unwrap().into_owned()
}

#[test]
fn a_text_is_what_its_end_token_says() {
    let line = |end: i64| {
        let case = testing::cases(CASES).find(|line| line.starts_with("clip_text")).unwrap();
        case.replace("\"hidden_act\"", &format!("\"eos_token_id\": {end}, \"hidden_act\""))
    };
    let first = pooled(&line(5), &[1, 7, 5, 5, 5], 0);
    assert_eq!(first, pooled(&line(5), &[1, 7, 5, 9, 3], 0), "what follows the first end");
    assert_eq!(first, pooled(&line(5), &[1, 7, 5, 0, 0], 2), "padding");
    assert_ne!(first, pooled(&line(5), &[1, 8, 5, 5, 5], 0), "what is before it");
    let greatest = pooled(&line(2), &[1, 7, 9, 9, 2], 0);
    assert_eq!(greatest, pooled(&line(2), &[1, 7, 9, 3, 4], 0), "the old rule");
    assert_ne!(greatest, pooled(&line(2), &[1, 7, 5, 9, 2], 0), "the old rule");
}

#[test]
fn weights_of_a_tower_have_its_name_or_not() {
    let line = testing::cases(CASES).find(|line| line.starts_with("siglip_text")).unwrap();
    let config = testing::config(line).to_string();
    complete(&config, &[]);
    let names = |prefix: &str| {
        let weight = format!("{prefix}embeddings.token_embedding.weight");
        model(&config, &file(&[(weight, vec![16, 8])]), 21).unwrap_err()
    };
    for prefix in ["", "text_model."] {
        let told = names(prefix).message.clone();
        assert!(told.contains("`text_model.embeddings.position_embedding.weight`"), "{told}");
    }
}
