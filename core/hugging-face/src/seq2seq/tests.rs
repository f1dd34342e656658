use crate::architecture::Target;
use crate::fixture::{self, Models};
use crate::testing::{self, same_numbers};
use onnxd_plugin_sdk::ir::{DataType, Dim, Model, Tensor, VerifyLevel, verify};
use onnxd_plugin_sdk::testing::run;
use serde_json::{Value, json};

const WORDS: usize = 11;
const HIDDEN: usize = 8;

/// Each family, and each switch that changes the graphs.
const CASES: &str = include_str!("cases.txt");

/// The `config.json` of a line of `CASES`.
fn config(line: &str) -> Value {
    let config = json!({
        "vocab_size": WORDS, "d_model": HIDDEN, "encoder_layers": 1, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
        "max_position_embeddings": 12, "num_layers": 2, "num_heads": 2, "d_kv": 3, "d_ff": 12, "num_mel_bins": 5,
        "max_source_positions": 6, "max_target_positions": 12,
    });
    testing::config_over(config, line)
}

#[test]
fn each_family_has_a_case_and_is_in_the_manual() {
    testing::check_list(super::families::FAMILIES.iter().map(|(kind, _)| *kind), CASES);
}

type Values = Vec<(String, Tensor)>;

fn row(values: &[i64]) -> Tensor {
    Tensor::from_vec([1, values.len()], values.to_vec())
}

fn of<'v>(values: &'v Values, name: &str) -> &'v Tensor {
    &values.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}")).1
}

/// What the encoder gives for words of which the last `padding` are none, or for sound.
fn encoded(model: &Model, words: &[i64], padding: usize) -> Tensor {
    let graph = &model.graph;
    let name = graph[graph.inputs()[0]].name.clone();
    let outputs = match name.as_str() {
        "input_ids" => {
            let mut mask = vec![1i64; words.len()];
            mask[words.len() - padding..].fill(0);
            run(model, [("input_ids", row(words)), ("attention_mask", row(&mask))])
        }
        _ => {
            let sound = (0..5 * 12).map(|i| ((i * words[0]) as f32).sin()).collect::<Vec<f32>>();
            run(model, [("input_features", Tensor::from_vec([1, 5, 12], sound))])
        }
    };
    let outputs = outputs.unwrap();
    assert_eq!(outputs[0].0, "last_hidden_state");
    outputs[0].1.clone()
}

/// What the decoder reads beside words.
#[derive(Clone)]
struct Read {
    states: Tensor,
    mask: Vec<i64>,
    past: Values,
    /// How long a past is that there is none of.
    dummy: usize,
}

/// Logits, and the cache: keys and values of the encoder stay those of the first call.
fn call(model: &Model, words: &[i64], read: &Read) -> Values {
    let graph = &model.graph;
    let is_cached = !read.past.is_empty();
    let feed = |name: &str, dims: Option<&[Dim]>| match name {
        "input_ids" => row(words),
        "encoder_hidden_states" => read.states.clone(),
        "encoder_attention_mask" => row(&read.mask),
        "use_cache_branch" => Tensor::from_vec_as(DataType::Bool, [1], vec![u8::from(is_cached)]),
        _ if is_cached => of(&read.past, &name.replace("past_key_values", "present")).clone(),
        _ => {
            let size = |dim: &Dim| dim.known().map_or(read.dummy, |size| size as usize);
            let dims: Vec<usize> =
                [1].into_iter().chain(dims.unwrap()[1..].iter().map(size)).collect();
            let zeros = vec![0f32; dims.iter().product()];
            Tensor::from_vec(dims, zeros)
        }
    };
    let inputs = graph.inputs().iter().map(|v| &graph[*v]);
    let feeds: Values = inputs
        .map(|v| (v.name.clone(), feed(&v.name, v.ty.as_ref().and_then(|ty| ty.shape()))))
        .collect();
    let mut outputs = run(model, feeds.iter().map(|(name, x)| (name.as_str(), x.clone()))).unwrap();
    for (name, value) in &mut outputs {
        if is_cached && name.contains(".encoder.") {
            assert_eq!(value.len(), 0, "{name} is computed once");
            value.clone_from(of(&read.past, name));
        }
    }
    outputs
}

fn numbers(logits: &Tensor) -> Vec<f32> {
    logits.as_slice::<f32>().unwrap().to_vec()
}

const SOURCE: [i64; 5] = [3, 1, 4, 1, 5];
const TARGET: [i64; 5] = [2, 7, 1, 8, 2];

fn first(encoder: &Model, words: &[i64], padding: usize) -> Read {
    let states = encoded(encoder, words, padding);
    let mut mask = vec![1i64; words.len()];
    mask[words.len() - padding..].fill(0);
    Read { states, mask, past: vec![], dummy: 0 }
}

/// The decoder in one call, in several, and behind an encoder that read padding gives the same.
#[test]
fn the_cache_and_padding_change_nothing() {
    for case in testing::cases(CASES) {
        let text = config(case).to_string();
        let (tensors, Models { first: encoder, further }) = fixture::complete_models(&text, &[]);
        let (name, decoder) = &further[0];
        assert_eq!((further.len(), *name), (1, "decoder_model_merged"));
        let newer = fixture::models(&text, &tensors, &Target::plain(24)).unwrap();
        for model in [&encoder, decoder, &newer.first, &newer.further[0].1] {
            let found = verify(model, VerifyLevel::Full);
            assert!(found.0.is_empty(), "{text}: {found}");
        }
        let read = first(&encoder, &SOURCE, 0);
        let whole = call(decoder, &TARGET, &read);
        let logits = numbers(of(&whole, "logits"));
        let other = first(&newer.first, &SOURCE, 0);
        let new = call(&newer.further[0].1, &TARGET, &other);
        same_numbers(&logits, &numbers(of(&new, "logits")), &format!("opset 24 {case}"));

        let begun = call(decoder, &TARGET[..2], &read);
        let chunk = call(decoder, &TARGET[2..4], &Read { past: begun.clone(), ..read.clone() });
        let step = call(decoder, &TARGET[4..], &Read { past: chunk.clone(), ..read.clone() });
        let parts = [&begun, &chunk, &step].map(|part| numbers(of(part, "logits"))).concat();
        same_numbers(&logits, &parts, &format!("cache {case}"));
        let dummy = call(decoder, &TARGET, &Read { dummy: 1, ..read.clone() });
        same_numbers(
            &logits,
            &numbers(of(&dummy, "logits")),
            &format!("a past that is none {case}"),
        );

        let otherwise = first(&encoder, &[7, 1, 4, 1, 5], 0);
        let otherwise = call(decoder, &TARGET, &otherwise);
        assert!(numbers(of(&otherwise, "logits")) != logits, "what was read counts: {case}");
        if !case.starts_with("whisper") {
            let padded = first(&encoder, &[&SOURCE[..], &[0, 0]].concat(), 2);
            let states = numbers(&read.states);
            same_numbers(
                &states,
                &numbers(&padded.states)[..states.len()],
                &format!("padding {case}"),
            );
            let padded = call(decoder, &TARGET, &padded);
            same_numbers(&logits, &numbers(of(&padded, "logits")), &format!("padding {case}"));
        }
    }
}

fn refused(line: &str) -> String {
    let text = config(line).to_string();
    let c = crate::config::Config::parse(text.as_bytes()).unwrap();
    let described =
        crate::kinds::family(&c, &crate::kinds::named).and_then(|family| family.describe(&c, None));
    described.map(|_| ()).unwrap_err().message.clone()
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    for (line, told) in [
        (r#"t5 {"feed_forward_proj": "double-gelu"}"#, "`feed_forward_proj` is `double-gelu`"),
        (r#"t5 {"feed_forward_proj": "gated-odd"}"#, "`feed_forward_proj` is `gated-odd`"),
        (r#"mt5 {"architectures": ["MT5Model"]}"#, "`tie_word_embeddings` does not let"),
        (r#"t5 {"relative_attention_num_buckets": 2}"#, "`relative_attention_num_buckets` is 2"),
        (r#"bart {"activation_function": "odd"}"#, "`activation_function` is `odd`"),
        (r#"bart {"normalize_before": true}"#, "`normalize_before` is true"),
        (r#"bart {"architectures": ["BartForCausalLM"]}"#, "`architectures` is"),
        (
            r#"bart {"architectures": ["BartForSequenceClassification"]}"#,
            "[\"BartForSequenceClassification\"]",
        ),
        (
            r#"bart {"architectures": ["BartForSequenceClassification"]}"#,
            "`ForConditionalGeneration`",
        ),
        (r#"bart {"decoder_attention_heads": 4}"#, "`decoder_attention_heads` is 4"),
        (r#"bart {"encoder_attention_heads": 3}"#, "`encoder_attention_heads` is 3"),
        (r#"marian {"max_position_embeddings": 2147483648}"#, "a table of 2147483648 positions"),
        (r#"whisper {"architectures": ["WhisperForAudioClassification"]}"#, "`architectures` is"),
    ] {
        let found = refused(line);
        assert!(found.contains(told), "{line}: {found}");
    }
}

/// The tensors of a checkpoint with others beside them: what gives logits is what Transformers takes.
#[test]
fn a_head_of_its_own_counts_where_transformers_takes_it() {
    let head: (&str, &[usize]) = ("lm_head.weight", &[WORDS, HIDDEN]);
    let of_shared = |line: &str| {
        let text = config(line).to_string();
        let (_, Models { first: encoder, further }) = fixture::complete_models(&text, &[head]);
        let read = first(&encoder, &SOURCE, 0);
        numbers(of(&call(&further[0].1, &TARGET, &read), "logits"))
    };
    let tied = of_shared("t5 {}");
    let own = of_shared(r#"t5 {"tie_word_embeddings": false}"#);
    let newer = of_shared(r#"t5 {"tie_word_embeddings": true, "scale_decoder_outputs": false}"#);
    assert!(tied != own);
    // Of mT5, with the MLP of T5.
    let mt5 = of_shared(
        r#"mt5 {"feed_forward_proj": "relu", "tie_word_embeddings": true, "transformers_version": "5.2.0"}"#,
    );
    assert_eq!(own, mt5, "version 5 calls all tied and scales nothing");
    assert_eq!(own, newer, "version 5 takes the layer that the file has");
}
