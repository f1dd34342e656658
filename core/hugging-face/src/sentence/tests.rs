use super::*;
use crate::fixture;
use crate::safetensors;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::testing::{self, Dropped, run};
use serde_json::json;

const BERT: &str = r#"{"model_type": "bert", "vocab_size": 11, "hidden_size": 4, "num_attention_heads": 2,
    "num_hidden_layers": 1, "intermediate_size": 6, "max_position_embeddings": 8, "type_vocab_size": 1}"#;

/// A folder with the steps behind the model: class, and settings.
fn folder(root: &str, inside: &str, steps: &[(&str, serde_json::Value)]) -> Dropped {
    let weights = fixture::complete(BERT, &[]).0;
    let mut modules = vec![
        json!({ "path": inside.trim_end_matches('/'), "type": "sentence_transformers.models.Transformer" }),
    ];
    let mut dropped = Dropped::file(format!("{root}{inside}config.json"), BERT);
    dropped = dropped.and(format!("{root}{inside}model.safetensors"), &weights);
    for (at, (kind, settings)) in steps.iter().enumerate() {
        let kind = if kind.contains('.') {
            (*kind).to_owned()
        } else {
            format!("sentence_transformers.models.{kind}")
        };
        modules.push(json!({ "path": format!("{at}_step"), "type": kind }));
        dropped = dropped.and(format!("{root}{at}_step/config.json"), settings.to_string());
    }
    dropped.and(format!("{root}modules.json"), serde_json::Value::from(modules).to_string())
}

fn pooling(modes: &serde_json::Value) -> (&'static str, serde_json::Value) {
    ("Pooling", json!({ "embedding_dimension": 4, "pooling_mode": modes }))
}

/// Vectors of tokens and of texts, of one that is as long as the row, and of one of three words with padding.
fn outputs(dropped: &Dropped, pads_left: bool) -> [Vec<Vec<f32>>; 2] {
    let done = testing::import(&crate::HuggingFace, dropped).unwrap();
    let mask = if pads_left { [0, 0, 1, 1, 1] } else { [1, 1, 1, 0, 0] };
    let mask = Tensor::from_vec([2, 5], [[1i64; 5], mask].concat());
    let ids = Tensor::from_vec([2, 5], vec![3i64, 4, 5, 6, 7, 2, 8, 9, 1, 5]);
    let found = run(&done.model, [("input_ids", ids), ("attention_mask", mask)]).unwrap();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["token_embeddings", "sentence_embedding"]);
    [0, 1].map(|i| {
        let (_, t) = &found[i];
        let each = t.dims()[t.dims().len() - 1];
        t.as_slice::<f32>().unwrap().chunks(each).map(<[f32]>::to_vec).collect()
    })
}

fn near(found: &[f32], wanted: &[f32], what: &str) {
    let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
    let is_same = found.len() == wanted.len() && found.iter().zip(wanted).all(is_near);
    assert!(is_same, "{what}: {found:?} {wanted:?}");
}

/// By weights of tokens, which are divided by a number.
fn sum(tokens: &[Vec<f32>], weights: &[f32], divisor: f32) -> Vec<f32> {
    let of = |i: usize| tokens.iter().zip(weights).map(|(t, w)| t[i] * w).sum::<f32>() / divisor;
    (0..4).map(of).collect()
}

#[test]
fn pooling_has_all_modes() {
    let greatest = |tokens: &[Vec<f32>]| {
        (0..4).map(|i| tokens.iter().map(|t| t[i]).fold(f32::MIN, f32::max)).collect()
    };
    let one = |mode: &str, (tokens, first): (&[Vec<f32>], usize)| -> Vec<f32> {
        let n = tokens.len();
        let ones = vec![1.0; n];
        let places: Vec<f32> = (first..first + n).map(|at| 1.0 + at as f32).collect();
        match mode {
            "cls" => tokens[0].clone(),
            "lasttoken" => tokens[n - 1].clone(),
            "max" => greatest(tokens),
            "mean" => sum(tokens, &ones, n as f32),
            "mean_sqrt_len_tokens" => sum(tokens, &ones, (n as f32).sqrt()),
            _ => sum(tokens, &places, places.iter().sum()),
        }
    };
    for (switch, mode, _) in POOLS {
        for left in [false, true] {
            let old = ("Pooling", json!({ "word_embedding_dimension": 4, switch: true }));
            for step in [pooling(&json!(mode)), pooling(&json!([mode])), old] {
                let [tokens, texts] = outputs(&folder("m/", "", &[step]), left);
                near(&texts[0], &one(mode, (&tokens[..5], 0)), mode);
                let words = if left { (&tokens[7..], 2) } else { (&tokens[5..8], 0) };
                near(&texts[1], &one(mode, words), mode);
            }
        }
    }
    let [tokens, texts] = outputs(&folder("", "", &[pooling(&json!(["max", "cls"]))]), false);
    near(&texts[0], &[greatest(&tokens[..5]), tokens[0].clone()].concat(), "both, in their order");
    let none =
        ("Pooling", json!({ "word_embedding_dimension": 4, "pooling_mode_cls_token": false }));
    let [tokens, texts] = outputs(&folder("", "", &[none]), false);
    near(&texts[0], &sum(&tokens[..5], &[1.0; 5], 5.0), "the mean, where no mode is said");
}

#[test]
fn steps_follow_each_other() {
    let identity = "torch.nn.modules.linear.Identity";
    let dense = json!({ "in_features": 4, "out_features": 3, "activation_function": identity });
    let settings = [
        (
            "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
            pooling(&json!("cls")).1,
        ),
        ("Dense", dense),
        ("Dropout", json!({ "dropout": 0.5 })),
        ("Normalize", json!({})),
    ];
    let weights =
        fixture::file(&[("linear.weight".into(), vec![3, 4]), ("linear.bias".into(), vec![3])]);
    let numbers: Vec<f32> = weights[weights.len() - 60..]
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    let pickled = fixture::pickled(&safetensors::read("m", &weights).unwrap()).into();
    for (root, inside) in [("", ""), ("m/", ""), ("m/", "0_Transformer/"), ("", "0_Transformer/")] {
        // In the folder `m`, the weights of the step are a pickle.
        let (file, bytes) = match root {
            "" => ("model.safetensors", &weights),
            _ => ("pytorch_model.bin", &pickled),
        };
        let dropped = folder(root, inside, &settings).and(format!("{root}1_step/{file}"), bytes);
        let needs = testing::probe(&crate::HuggingFace, &dropped).unwrap().needs;
        let lacking: Vec<&str> =
            needs.iter().filter(|n| n.found_as.is_empty()).map(|n| n.path.as_str()).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
        let [tokens, texts] = outputs(&dropped, false);
        let of = |i: usize| {
            numbers[12 + i] + (0..4).map(|j| numbers[4 * i + j] * tokens[0][j]).sum::<f32>()
        };
        let length = (0..3).map(|i| of(i) * of(i)).sum::<f32>().sqrt();
        near(&texts[0], &[0, 1, 2].map(|i| of(i) / length), "a dense layer, to length 1");
    }
    let missing = folder("m/", "", &settings);
    let needs = testing::probe(&crate::HuggingFace, &missing).unwrap().needs;
    let lacking: Vec<&str> =
        needs.iter().filter(|n| n.found_as.is_empty()).map(|n| n.path.as_str()).collect();
    assert_eq!(lacking, ["m/1_step/model.safetensors"]);
}

#[test]
fn weights_of_steps_are_looked_at() {
    let dense = |more: serde_json::Value| {
        let mut settings = json!({ "in_features": 4, "out_features": 3 });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        folder("m/", "", &[pooling(&json!("mean")), ("Dense", settings)])
    };
    let weights = |names: &[(&str, &[usize])]| {
        let tensors: Vec<_> = names.iter().map(|(n, dims)| ((*n).into(), dims.to_vec())).collect();
        fixture::file(&tensors)
    };
    let matrix: (&str, &[usize]) = ("linear.weight", &[3, 4]);
    let bias: (&str, &[usize]) = ("linear.bias", &[3]);
    let mut odd = weights(&[matrix, bias, ("spare", &[2])]).to_vec();
    let at = odd.len() - 8;
    odd[at - 12..at - 8].copy_from_slice(&f32::NAN.to_le_bytes());
    let dropped = dense(json!({})).and("m/1_step/model.safetensors", &odd);
    let notes = testing::import(&crate::HuggingFace, &dropped).unwrap().log.notes;
    for told in ["`1_step`: The model uses no tensor `spare`", "of tensor `linear.bias` is NaN"] {
        assert!(notes.iter().any(|note| note.message.contains(told)), "{told}: {notes:?}");
    }
    let strict = dropped.param("source.strict", true);
    assert!(testing::import(&crate::HuggingFace, &strict).is_err());
    for (has_bias, names) in [(true, &[matrix][..]), (false, &[matrix, bias])] {
        let dropped = dense(json!({ "bias": has_bias }));
        let dropped = dropped.and("m/1_step/model.safetensors", weights(names));
        let found = testing::import(&crate::HuggingFace, &dropped).unwrap_err().to_string();
        assert!(found.contains(&format!("`bias` is {has_bias}")), "{found}");
    }
}

#[test]
fn what_is_not_known_is_told() {
    let told = |steps: &[(&str, serde_json::Value)], words: &str| {
        let found =
            testing::import(&crate::HuggingFace, &folder("m/", "", steps)).unwrap_err().to_string();
        assert!(found.contains(words), "{words}: {found}");
    };
    told(&[("custom.Pooling", json!({}))], "`type` is `custom.Pooling` in `modules.json`");
    told(&[("LSTM", json!({}))], "`type` is `sentence_transformers.models.LSTM`");
    told(&[("Normalize", json!({}))], "does not have the pooling behind the model");
    told(&[pooling(&json!(["max", "cls", "max"]))], "a list of different ones");
    told(&[pooling(&json!("odd"))], "`pooling_mode` is `odd` in `0_step/config.json`");
    told(
        &[("Pooling", json!({ "embedding_dimension": 5 }))],
        "`0_step` is for 5 elements, and gets 4",
    );
    told(
        &[("Pooling", json!({ "embedding_dimension": 4, "magic": 1 }))],
        "`magic` is 1 in `0_step/config.json`",
    );
    let dense = |settings| [pooling(&json!("mean")), ("Dense", settings)];
    told(
        &dense(json!({ "in_features": 4, "out_features": 3 })),
        "`m/1_step/model.safetensors` was not dropped",
    );
    told(
        &dense(json!({ "in_features": 4, "out_features": 3, "use_residual": true })),
        "`use_residual` is true",
    );
    let odd = json!({ "in_features": 4, "out_features": 3, "activation_function": "torch.nn.modules.activation.Odd" });
    told(&dense(odd), "`activation_function` is `torch.nn.modules.activation.Odd`");
    for (list, words) in [
        ("{}", "is no JSON list of modules"),
        ("[]", "lists no modules"),
        (
            r#"[{"path": "../x", "type": "sentence_transformers.models.Transformer"}]"#,
            "`../x`, which is no folder",
        ),
        (
            r#"[{"path": "x", "type": "sentence_transformers.models.Transformer"}]"#,
            "the model is in `x`",
        ),
    ] {
        let dropped = folder("", "", &[]).and("modules.json", list);
        let found = testing::import(&crate::HuggingFace, &dropped).unwrap_err().to_string();
        assert!(found.contains(words), "{words}: {found}");
    }
    for (settings, words) in [
        (
            json!({ "transformer_task": "fill-mask" }),
            "`transformer_task` is `fill-mask` in `sentence_bert_config.json`",
        ),
        (json!({ "module_output_name": "scores" }), "`module_output_name` is `scores`"),
        (
            json!({ "modality_config": { "text": { "method_output_name": "pooler_output" } } }),
            "`modality_config.text.method_output_name` is `pooler_output`",
        ),
    ] {
        let dropped = folder("", "", &[pooling(&json!("mean"))]);
        let dropped = dropped.and("sentence_bert_config.json", settings.to_string());
        let found = testing::import(&crate::HuggingFace, &dropped).unwrap_err().to_string();
        assert!(found.contains(words), "{words}: {found}");
    }
    let alone = testing::import(&crate::HuggingFace, &folder("", "", &[])).unwrap().model;
    assert_eq!(alone.graph.outputs().len(), 1, "a model without steps is as without the list");
}
