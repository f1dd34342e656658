use crate::config::Config;
use crate::fixture::{self, complete};
use crate::testing::{self, same_numbers};
use onnxd_plugin_sdk::ir::{Model, Tensor, VerifyLevel, verify};
use onnxd_plugin_sdk::testing::run;
use serde_json::{Value, json};

/// Each family, and each switch that changes the graph.
const CASES: &str = include_str!("cases.txt");

/// What padding is here for.
const PAD: i64 = 1;

/// The `config.json` of a line of `CASES`.
fn config(line: &str) -> Value {
    let mut config = json!({
        "vocab_size": 11, "max_position_embeddings": 16, "pad_token_id": PAD,
    });
    for (size, names) in [
        (16, ["hidden_size", "dim"]),
        (4, ["num_attention_heads", "n_heads"]),
        (2, ["num_hidden_layers", "n_layers"]),
        (12, ["intermediate_size", "hidden_dim"]),
    ] {
        names.iter().for_each(|name| config[*name] = json!(size));
    }
    if line.starts_with("albert ") {
        config["embedding_size"] = json!(8);
    }
    testing::config_over(config, line)
}

#[test]
fn each_family_has_a_case_and_is_in_the_manual() {
    testing::check_list(super::FAMILIES.iter().map(|family| family.name), CASES);
}

/// The outputs of a model for rows of words; those of `PAD` behind `lengths` are none. Types are those of places.
fn call(
    model: &Model,
    rows: &[&[i64]],
    lengths: &[usize],
    type_of: fn(usize) -> i64,
) -> Vec<(String, Tensor)> {
    let (count, length) = (rows.len(), rows[0].len());
    let matrix = |of: &dyn Fn(usize, usize) -> i64| {
        let all = (0..count).flat_map(|row| (0..length).map(move |at| (row, at)));
        Tensor::from_vec([count, length], all.map(|(row, at)| of(row, at)).collect::<Vec<i64>>())
    };
    let mut feeds = vec![
        ("input_ids", matrix(&|row, at| rows[row][at])),
        ("attention_mask", matrix(&|row, at| i64::from(at < lengths[row]))),
    ];
    if model.graph.inputs().len() == 3 {
        feeds.push(("token_type_ids", matrix(&|_, at| type_of(at))));
    }
    run(model, feeds).unwrap()
}

/// What an output has for the first tokens of the row, or all of a row that has none for tokens.
fn part(output: &Tensor, row: usize, tokens: usize, length: usize) -> Vec<f32> {
    let dims = output.dims();
    let each: usize = dims[1..].iter().product();
    let all = &output.as_slice::<f32>().unwrap()[row * each..(row + 1) * each];
    match dims.len() > 1 && dims[1] == length {
        true => all[..each / length * tokens].to_vec(),
        false => all.to_vec(),
    }
}

/// Padding and other rows change nothing, operators of newer opsets give the same, and all words count.
#[test]
fn padding_changes_nothing_and_all_words_count() {
    let words = [3, 2, 4, 2, 5, 9, 7];
    let types = |at| i64::from(at > 2);
    for case in testing::cases(CASES) {
        let text = config(case).to_string();
        let (tensors, model) = complete(&text, &[]);
        let newer = fixture::model(&text, &tensors, 24).unwrap();
        for model in [&model, &newer] {
            let found = verify(model, VerifyLevel::Full);
            assert!(found.0.is_empty(), "{text}: {found}");
        }
        let alone = call(&model, &[&words], &[7], types);
        let other = [[7, 6, 5, 4, 3, 2, 8, 9, 10], [3, 2, 4, 2, 5, 9, 7, PAD, PAD]];
        let rows: Vec<&[i64]> = other.iter().map(<[i64; 9]>::as_slice).collect();
        let both = call(&model, &rows, &[9, 7], types);
        let more = call(&newer, &rows, &[9, 7], types);
        let changed = call(&model, &[&[&[8], &words[1..]].concat()], &[7], types);
        let of_one_type = call(&model, &[&words], &[7], |_| 0);
        for (at, (name, output)) in alone.iter().enumerate() {
            let what = format!("{name} {case}");
            let alone = part(output, 0, 7, 7);
            same_numbers(&alone, &part(&both[at].1, 1, 7, 9), &format!("padding {what}"));
            same_numbers(&alone, &part(&more[at].1, 1, 7, 9), &format!("opset 24 {what}"));
            assert!(alone != part(&changed[at].1, 0, 7, 7), "the first word counts: {what}");
            let is_same = alone == part(&of_one_type[at].1, 0, 7, 7);
            assert_eq!(is_same, model.graph.inputs().len() == 2, "types count: {what}");
        }
    }
}

/// The encoder of a line, for a task.
fn described(
    line: &str,
    task: Option<&str>,
) -> Result<crate::encoder::Encoder, crate::diag::Diagnostic> {
    let config = config(line);
    let c = Config::parse(config.to_string().as_bytes()).unwrap();
    super::named(config["model_type"].as_str().unwrap()).unwrap().describe(&c, task)
}

#[test]
fn what_is_not_known_is_told() {
    for (line, task, told) in [
        (
            r#"bert {"position_embedding_type": "alibi"}"#, None,
            "`position_embedding_type` is `alibi`",
        ),
        (r#"bert {"is_decoder": true}"#, None, "`is_decoder` is true"),
        (r#"bert {"hidden_act": "odd"}"#, None, "`hidden_act` is `odd`"),
        (r#"bert {"num_attention_heads": 3}"#, None, "`num_attention_heads` is 3"),
        (r#"bert {"architectures": ["BertForMultipleChoice"]}"#, None, "BertForMultipleChoice"),
        (r#"bert {"architectures": ["BertLMHeadModel"]}"#, None, "BertLMHeadModel"),
        (r#"bert {"architectures": ["JinaBertModel"]}"#, None, "JinaBertModel"),
        (r#"roberta {"architectures": ["RobertaForPreTraining"]}"#, None, "RobertaForPreTraining"),
        (
            r#"bert {"architectures": ["BertForQuestionAnswering"], "num_labels": 3}"#,
            None,
            "`id2label`",
        ),
        (r#"roberta {}"#, Some("pretraining"), "`source.task` is `pretraining`"),
        (r#"bert {}"#, Some("dance"), "`source.task` is `dance`"),
        (r#"deberta {"pos_att_type": "p2p"}"#, None, "`pos_att_type` is `p2p`"),
        (r#"deberta {"talking_head": true}"#, None, "`talking_head` is true"),
        (r#"deberta-v2 {"norm_rel_ebd": "odd"}"#, None, "`norm_rel_ebd` is `odd`"),
        (r#"deberta-v2 {"conv_kernel_size": 2}"#, None, "`conv_kernel_size` is 2"),
        (
            r#"deberta-v2 {"relative_attention": true, "position_buckets": 64}"#,
            None,
            "`position_buckets` is 64",
        ),
        (r#"modernbert {"classifier_pooling": "max"}"#, None, "`classifier_pooling` is `max`"),
        (r#"modernbert {"layer_types": ["full_attention"]}"#, None, "`layer_types` is"),
        (r#"modernbert {"rope_scaling": {"type": "linear"}}"#, None, "`rope_scaling` is"),
        (r#"albert {"num_hidden_groups": 3}"#, None, "`num_hidden_groups` is 3"),
        (
            r#"mpnet {"relative_attention_num_buckets": 8}"#, None,
            "`relative_attention_num_buckets` is 8",
        ),
        (r#"ernie {"use_task_id": true}"#, None, "`use_task_id` is true"),
    ] {
        let found = described(line, task).unwrap_err();
        assert!(found.message.contains(told), "{line}: {}", found.message);
    }
    let another =
        described(r#"bert {"architectures": ["BertForMaskedLM"]}"#, Some("feature-extraction"));
    assert_eq!(another.unwrap().task, crate::encoder::Task::Features);
}

#[test]
fn absent_fields_are_those_of_the_family() {
    for family in super::FAMILIES {
        let c = Config::parse(b"{}").unwrap();
        let e = family.describe(&c, None).unwrap();
        assert!(e.tasks.is_tied && e.tasks.labels == 2, "{}", family.name);
        assert!(c.unread().is_empty(), "{}: {:?}", family.name, c.unread());
    }
    let sizes = |kind: &str| {
        let e = super::named(kind).unwrap().describe(&Config::parse(b"{}").unwrap(), None).unwrap();
        (
            e.vocabulary,
            e.hidden,
            e.layers.len(),
            e.heads,
            e.mlp.inner,
            e.embedding.size,
            e.embedding.types,
        )
    };
    assert_eq!(sizes("bert"), (30522, 768, 12, 12, 3072, 768, 2));
    assert_eq!(sizes("albert"), (30000, 4096, 12, 64, 16384, 128, 2));
    assert_eq!(sizes("electra"), (30522, 256, 12, 4, 1024, 128, 2));
    assert_eq!(sizes("distilbert"), (30522, 768, 6, 12, 3072, 768, 0));
    assert_eq!(sizes("deberta-v2"), (128100, 1536, 24, 24, 6144, 1536, 0));
    assert_eq!(sizes("modernbert"), (50368, 768, 22, 12, 1152, 768, 0));
}

/// The outputs of each task, and how many numbers each has for two rows of five words.
#[test]
fn tasks_have_the_outputs_of_their_classes() {
    let outputs = |line: &str, more: &[(&str, &[usize])]| {
        let (_, model) = complete(&config(line).to_string(), more);
        let found = call(&model, &[&[3, 4, 5, 6, 7], &[3, 4, 5, 6, 8]], &[5, 5], |_| 0);
        found
            .into_iter()
            .map(|(name, t)| format!("{name} {:?}", t.dims()))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let class = |kind: &str, class: &str| {
        outputs(&format!(r#"{kind} {{"architectures": ["{class}"]}}"#), &[])
    };
    assert_eq!(class("bert", "BertModel"), "last_hidden_state [2, 5, 16]");
    let pooler: [(&str, &[usize]); 1] = [("bert.pooler.dense.weight", &[16, 16])];
    assert_eq!(outputs("bert {}", &pooler), "last_hidden_state [2, 5, 16], pooler_output [2, 16]");
    assert_eq!(class("bert", "BertForMaskedLM"), "logits [2, 5, 11]");
    assert_eq!(class("bert", "BertForSequenceClassification"), "logits [2, 2]");
    assert_eq!(class("bert", "BertForTokenClassification"), "logits [2, 5, 2]");
    assert_eq!(class("bert", "BertForQuestionAnswering"), "start_logits [2, 5], end_logits [2, 5]");
    let both = "prediction_logits [2, 5, 11], seq_relationship_logits [2, 2]";
    assert_eq!(class("bert", "BertForPreTraining"), both);
    assert_eq!(
        class("albert", "AlbertForPreTraining"),
        "prediction_logits [2, 5, 11], sop_logits [2, 2]"
    );
    assert_eq!(class("bert", "BertForNextSentencePrediction"), "logits [2, 2]");
    assert_eq!(class("electra", "ElectraForPreTraining"), "logits [2, 5]");
    assert_eq!(class("modernbert", "ModernBertForSequenceClassification"), "logits [2, 2]");
}

/// A table of words that gives scores, too, and layers that share weights, are one constant each.
#[test]
fn weights_that_are_used_twice_are_there_once() {
    let line = r#"albert {"num_hidden_layers": 4, "architectures": ["AlbertForMaskedLM"]}"#;
    let (tensors, model) = complete(&config(line).to_string(), &[]);
    let elements = |t: &Tensor| t.dims().iter().product::<usize>();
    let graph = &model.graph;
    let constants = graph.value_ids().filter_map(|v| graph[v].initializer());
    let held: usize = constants.map(elements).filter(|n| *n >= 16).sum();
    let stored: usize = crate::safetensors::read("m", &tensors)
        .unwrap()
        .iter()
        .map(|t| t.shape.iter().product::<usize>())
        .sum();
    assert!(held <= stored, "{held} of {stored}");
}
