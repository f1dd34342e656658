//! Fields of `config.json` that models without cache have in common.

use crate::config::Config;
use crate::layers::Activation;
use onnxd_plugin_sdk::build::Result;

/// Fields that change nothing in what these models compute: training, what backbones give, and defaults of
/// Transformers, of which old files have all.
const INERT: &[&str] = &[
    "_name_or_path", "add_cross_attention", "architectures", "attention_dropout",
    "attention_probs_dropout_prob", "bad_words_ids", "begin_suppress_tokens", "bos_token_id",
    "chunk_size_feed_forward", "cross_attention_hidden_size", "decoder_start_token_id",
    "diversity_penalty", "do_sample", "drop_path_rate", "dropout", "dtype", "early_stopping",
    "encoder_no_repeat_ngram_size", "encoder_stride", "eos_token_id",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
    "forced_eos_token_id", "gradient_checkpointing", "hidden_dropout_prob", "id2label",
    "initializer_factor", "initializer_range", "is_decoder", "is_encoder_decoder", "label2id",
    "length_penalty", "max_length", "min_length", "model_type", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "out_features", "out_indices",
    "output_attentions", "output_hidden_states", "output_scores", "pad_token_id", "prefix",
    "problem_type", "pruned_heads", "remove_invalid_values", "repetition_penalty",
    "reshape_hidden_states", "return_dict", "return_dict_in_generate", "sep_token_id",
    "stage_names", "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
    "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k", "top_p",
    "torch_dtype", "torchscript", "transformers_version", "typical_p", "use_bfloat16", "use_cache",
];

/// Leaves out what changes nothing: what all such models have, and `more` of a family.
pub(crate) fn pass_over(c: &Config, more: &[&str]) {
    c.pass_over(INERT);
    c.pass_over(more);
}

/// What the class of the model does, by the names of the classes of a family. The first is the model without a head,
/// which is taken where that is asked for, and where the file names no class.
pub(crate) fn class<H: Copy>(c: &Config, known: &[(&str, H)]) -> Result<H> {
    if c.is_headless() {
        return Ok(known[0].1);
    }
    let classes = c.words("architectures")?.unwrap_or_default();
    let class = classes.first().copied().unwrap_or(known[0].0);
    let found = known.iter().find(|(name, _)| *name == class);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let why = format!("which is not one of the known classes: {}", names.join(", "));
    found.map(|(_, head)| *head).ok_or_else(|| c.unknown("architectures", &why))
}

/// How many labels there are: Transformers counts their names, and takes two where there are none.
pub(crate) fn labels(c: &Config) -> Result<usize> {
    let count = c.optional_size("num_labels")?;
    let Some(named) = c.get("id2label") else { return Ok(count.unwrap_or(2)) };
    let named = named.as_object().map(serde_json::Map::len).filter(|labels| *labels > 0);
    named.ok_or_else(|| c.wrong("id2label", "an object with a name for each label"))
}

/// A size, or that of the family where the file does not say.
pub(crate) fn size(c: &Config, key: &str, default: usize) -> Result<usize> {
    Ok(c.optional_size(key)?.unwrap_or(default))
}

/// How many layers there are, or those of the family.
pub(crate) fn layers(c: &Config, default: usize) -> Result<usize> {
    match c.get("num_hidden_layers") {
        Some(_) => c.layers("num_hidden_layers"),
        None => Ok(default),
    }
}

/// Sizes in a list, or those of the family.
pub(crate) fn sizes(c: &Config, key: &str, default: &[usize]) -> Result<Vec<usize>> {
    let Some(numbers) = c.numbers(key)? else { return Ok(default.to_vec()) };
    let whole = |x: &f64| x.fract() == 0.0 && (1.0..=f64::from(1 << 24)).contains(x);
    match !numbers.is_empty() && numbers.len() <= 1024 && numbers.iter().all(whole) {
        true => Ok(numbers.into_iter().map(|x| x as usize).collect()),
        false => Err(c.wrong(key, "a list of whole numbers from 1 on")),
    }
}

/// Height and width: two numbers, or one for both.
pub(crate) fn pair(c: &Config, key: &str, default: usize) -> Result<[usize; 2]> {
    if !c.get(key).is_some_and(serde_json::Value::is_array) {
        return Ok([size(c, key, default)?; 2]);
    }
    let both = sizes(c, key, &[])?;
    both.try_into().map_err(|_| c.wrong(key, "a number, or a height and a width"))
}

/// Elements of a head, of which there are `heads` in `size` elements.
pub(crate) fn check_heads(c: &Config, key: &str, sizes: [usize; 2]) -> Result<()> {
    let [hidden, heads] = sizes;
    match hidden % heads {
        0 => Ok(()),
        _ => Err(c.wrong(key, &format!("a divisor of the {hidden} elements"))),
    }
}

/// The activation that a field names.
pub(crate) fn activation(c: &Config, key: &str, default: Activation) -> Result<Activation> {
    let named = |word| {
        let unknown = || c.unknown(key, "which is no activation that is known");
        Activation::named(word).ok_or_else(unknown)
    };
    c.word(key)?.map_or(Ok(default), named)
}
