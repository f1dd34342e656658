//! `config.json`: fields by name, each noted when it is read, so that a field which nothing reads is told.

pub(crate) mod json;
pub(crate) mod rope;

use crate::diag::{Code, Diagnostic, shown};
use crate::problem::{damaged, over_limit, pointer, unsupported};
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::rc::Rc;

const FILE: &str = "config.json";

/// Bytes of the file.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// The greatest size that a field may say. Sizes of tensors are compared with the file besides.
const SIZE_MAX: u64 = 1 << 31;

/// Fields that say how many tokens a sequence may have.
const CONTEXT: [&str; 4] = ["max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"];

/// Layers of a decoder. Each takes some thirty nodes.
const LAYERS_MAX: usize = 4096;

/// Fields that change nothing in what a model computes: training, generation, the tokenizer, and what Transformers and
/// other tools write for themselves.
const INERT: &[&str] = &[
    "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "_num_labels",
    "activation_dropout", "attention_dropout", "attention_probs_dropout_prob",
    "attention_softmax_in_fp32", "attn_pdrop", "auto_map", "aux_loss_alpha", "bad_words_ids",
    "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "dropout", "dtype",
    "early_stopping", "embd_pdrop", "embed_dropout", "embedding_dropout",
    "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing",
    "hidden_dropout", "hidden_dropout_prob", "id2label", "init_std", "initializer_range",
    "is_llama_config", "label2id", "layerdrop", "length_penalty", "max_length",
    "max_position_embeddings", "min_length", "model_max_length", "n_ctx", "n_positions",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
    "output_attentions", "output_hidden_states", "output_router_logits", "output_scores",
    "pad_token_id", "prefix", "pretraining_tp", "problem_type", "remove_invalid_values",
    "reorder_and_upcast_attn", "repetition_penalty", "resid_dropout", "resid_pdrop",
    "residual_dropout", "return_dict", "return_dict_in_generate", "router_aux_loss_coef",
    "router_jitter_noise", "scale_attention_softmax_in_fp32", "sep_token_id", "seq_aux",
    "slow_but_exact", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tokenizer_class", "tokenizer_name", "top_k", "top_p", "torch_dtype",
    "torchscript", "transformers.js_config", "transformers_version", "typical_p", "unk_token_id",
    "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
];

/// Fields that nothing read, which are told one by one.
const TOLD_MAX: usize = 20;

/// The fields of an object of the file. A field that is null counts as absent.
#[derive(Debug)]
pub struct Config {
    /// What the name of a field is told with: `rope_scaling.`.
    path: String,
    /// What the file is told by.
    file: String,
    fields: Map<String, Value>,
    origin: Option<Rc<Origin>>,
    /// Whether the head of the class is left out.
    is_headless: Cell<bool>,
    read: RefCell<BTreeSet<String>>,
    notes: RefCell<Vec<Diagnostic>>,
    /// Absent fields with what they were taken for.
    assumed: RefCell<BTreeMap<String, String>>,
    /// Fields of objects inside that nothing read.
    inside: RefCell<Vec<Diagnostic>>,
}

/// Where fields are from that are in no `config.json`.
#[derive(Debug)]
pub(crate) struct Origin {
    /// What is told of the place.
    pub(crate) place: String,
    /// What fields are called there.
    pub(crate) keys: BTreeMap<String, String>,
}

impl Config {
    /// Fields that were made of others.
    pub(crate) fn made(fields: Map<String, Value>, origin: Origin) -> Config {
        Config { origin: Some(Rc::new(origin)), ..Config::of(String::new(), fields) }
    }

    /// All fields as a file.
    pub(crate) fn written(&self) -> Vec<u8> {
        format!("{:#}\n", Value::Object(self.fields.clone())).into_bytes()
    }

    /// The fields themselves.
    pub(crate) fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// Lets the model below the head be read, whatever class the file names.
    pub(crate) fn without_head(&self) {
        self.is_headless.set(true);
    }

    pub(crate) fn is_headless(&self) -> bool {
        self.is_headless.get()
    }

    fn place(&self) -> String {
        let file = || format!("`{}`", shown(&self.file));
        self.origin.as_ref().map_or_else(file, |origin| origin.place.clone())
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Config, Diagnostic> {
        Config::parse_file(bytes, FILE)
    }

    /// As [`Config::parse`], of a file with another name.
    pub(crate) fn parse_file(bytes: &[u8], file: &str) -> Result<Config, Diagnostic> {
        let name = shown(file);
        if bytes.len() > BYTES_MAX {
            let found = bytes.len();
            return Err(over_limit(format!("`{name}` has {found} bytes, of {BYTES_MAX} at most")));
        }
        match json::read(bytes) {
            Ok(Value::Object(fields)) => {
                Ok(Config { file: file.to_owned(), ..Config::of(String::new(), fields) })
            }
            Ok(_) => Err(damaged(format!("`{name}` is no JSON object"))),
            Err(e) => Err(pointer(&name, bytes)
                .unwrap_or_else(|| damaged(format!("`{name}` is no JSON: {e}")))),
        }
    }

    /// An object without fields, whose name is told with `path`.
    pub(crate) fn empty(path: &str) -> Config {
        Config::of(path.to_owned(), Map::new())
    }

    fn of(path: String, fields: Map<String, Value>) -> Config {
        let (is_headless, read, notes, assumed, inside) = Default::default();
        Config {
            path,
            file: FILE.to_owned(),
            fields,
            origin: None,
            is_headless,
            read,
            notes,
            assumed,
            inside,
        }
    }

    /// The fields as they stand in the file. None is noted as read.
    pub(crate) fn raw(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The value of a field, unless it is absent or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let value = self.fields.get(key)?;
        self.read.borrow_mut().insert(key.to_owned());
        Some(value).filter(|value| !value.is_null())
    }

    /// Whether the field is there, also as null.
    pub fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// A field and its value are not known here.
    pub fn unknown(&self, key: &str, why: &str) -> Diagnostic {
        unsupported(format!("{} in {}, {why}", self.said(key), self.place()))
    }

    /// A field has a value that it cannot have.
    pub fn wrong(&self, key: &str, must: &str) -> Diagnostic {
        let message = format!("{} in {}; it must be {must}", self.said(key), self.place());
        Diagnostic::new(Code::LayerParameter, message)
    }

    fn said(&self, key: &str) -> String {
        let path = format!("{}{key}", self.path);
        let own = self.origin.as_ref().and_then(|origin| origin.keys.get(&path));
        let name = shown(own.unwrap_or(&path));
        match self.fields.get(key) {
            Some(Value::String(word)) => format!("`{name}` is `{}`", shown(word)),
            Some(value) => format!("`{name}` is {}", shown(&value.to_string())),
            None => format!("`{name}` is absent"),
        }
    }

    /// A whole number from 1 on, if the field is there.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let size = value.as_u64().filter(|size| (1..=SIZE_MAX).contains(size));
        let size = size.ok_or_else(|| self.wrong(key, "a whole number from 1 on"))?;
        Ok(Some(size as usize))
    }

    /// The same of a field that must be there.
    pub fn size(&self, key: &str) -> Result<usize, Diagnostic> {
        self.optional_size(key)?.ok_or_else(|| self.wrong(key, "a whole number from 1 on"))
    }

    /// How many layers there are.
    pub fn layers(&self, key: &str) -> Result<usize, Diagnostic> {
        let layers = self.size(key)?;
        match layers <= LAYERS_MAX {
            true => Ok(layers),
            false => Err(over_limit(format!("{}, of {LAYERS_MAX} layers at most", self.said(key)))),
        }
    }

    /// Tokens that a sequence may have, by the names that families have for it.
    pub(crate) fn context(&self) -> Option<usize> {
        let said = |key: &&str| self.fields.get(*key).and_then(Value::as_u64);
        let context = CONTEXT.iter().find_map(said)?;
        usize::try_from(context).ok().filter(|context| *context > 0)
    }

    /// A finite number, if the field is there.
    pub fn optional_number(&self, key: &str) -> Result<Option<f64>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(key, "a number"))
    }

    /// The same, with a default.
    pub fn number(&self, key: &str, default: f64) -> Result<f64, Diagnostic> {
        Ok(self.optional_number(key)?.unwrap_or_else(|| self.assume(key, default)))
    }

    /// A number above zero.
    pub fn above_zero(&self, key: &str, default: f64) -> Result<f64, Diagnostic> {
        let number = self.number(key, default)?;
        if number > 0.0 { Ok(number) } else { Err(self.wrong(key, "a number above zero")) }
    }

    /// The same, if the field is there.
    pub fn optional_above_zero(&self, key: &str) -> Result<Option<f64>, Diagnostic> {
        match self.optional_number(key)? {
            Some(number) if number <= 0.0 => Err(self.wrong(key, "a number above zero")),
            number => Ok(number),
        }
    }

    /// A list of numbers.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.as_array();
        let numbers = list.and_then(|list| list.iter().map(Value::as_f64).collect());
        numbers.map(Some).ok_or_else(|| self.wrong(key, "a list of numbers"))
    }

    /// A list of one number for each of so many layers.
    pub fn flags(&self, key: &str, layers: usize) -> Result<Option<Vec<bool>>, Diagnostic> {
        let Some(list) = self.numbers(key)? else { return Ok(None) };
        match list.len() == layers {
            true => Ok(Some(list.iter().map(|flag| *flag != 0.0).collect())),
            false => {
                Err(self.wrong(key, &format!("a list of {layers} numbers, one for each layer")))
            }
        }
    }

    /// A switch, with a default.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(self.assume(key, default)) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// A word, if the field is there.
    pub fn word(&self, key: &str) -> Result<Option<&str>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "a word"))
    }

    /// A list of words.
    pub fn words(&self, key: &str) -> Result<Option<Vec<&str>>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.as_array();
        let words = list.and_then(|list| list.iter().map(Value::as_str).collect());
        words.map(Some).ok_or_else(|| self.wrong(key, "a list of words"))
    }

    /// A switch that must have this value, because what another one asks for is not written.
    pub fn only(&self, key: &str, flag: bool) -> Result<(), Diagnostic> {
        match self.get(key).is_none() || self.flag(key, flag)? == flag {
            true => Ok(()),
            false => Err(self.unknown(key, "which is not supported")),
        }
    }

    /// A word that must be this one, because nothing else is written.
    pub(crate) fn only_word(&self, key: &str, word: &str) -> Result<(), Diagnostic> {
        match self.word(key)?.is_none_or(|said| said == word) {
            true => Ok(()),
            false => Err(self.unknown(key, &format!("and only `{word}` is known"))),
        }
    }

    /// Fields that are read where they count, and change nothing here.
    pub fn pass_over(&self, keys: &[&str]) {
        self.read.borrow_mut().extend(keys.iter().map(|key| (*key).to_owned()));
    }

    /// The fields of an object inside. What of them is not read is told with [`Config::close`].
    pub(crate) fn section(&self, key: &str) -> Result<Option<Config>, Diagnostic> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let fields = value.as_object().ok_or_else(|| self.wrong(key, "an object"))?;
        let inside = Config::of(format!("{}{key}.", self.path), fields.clone());
        Ok(Some(Config { origin: self.origin.clone(), file: self.file.clone(), ..inside }))
    }

    /// The fields of all objects inside, where each field is one.
    pub(crate) fn sections(&self) -> Result<Vec<Config>, Diagnostic> {
        let all = self.fields.keys().map(|key| self.section(key));
        Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Whether there are no fields.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// How many fields there are.
    pub(crate) fn count(&self) -> usize {
        self.fields.len()
    }

    /// Takes over what was noted of an object inside.
    pub(crate) fn close(&self, section: &Config) {
        self.notes.borrow_mut().extend(section.notes());
        self.assumed.borrow_mut().extend(section.assumed.take());
        self.inside.borrow_mut().extend(section.unread());
    }

    /// Tells what a user should know.
    pub fn note(&self, message: impl Into<String>) {
        let note = Diagnostic::new(Code::LayerParameterIgnored, message);
        self.notes.borrow_mut().push(note.help("Read it before you use the model."));
    }

    /// Notes what an absent field is taken for.
    fn assume<T: Display>(&self, key: &str, default: T) -> T {
        let path = format!("{}{key}", self.path);
        self.assumed.borrow_mut().insert(path, default.to_string());
        default
    }

    /// What absent fields were taken for.
    pub(crate) fn assumed(&self) -> Option<String> {
        let all = self.assumed.borrow();
        let told = all.iter().map(|(key, default)| format!("{} {default}", shown(key)));
        let told = told.collect::<Vec<_>>().join(", ");
        (!told.is_empty()).then_some(told)
    }

    /// What was noted.
    pub(crate) fn notes(&self) -> Vec<Diagnostic> {
        self.notes.borrow().clone()
    }

    /// The fields that nothing read.
    pub(crate) fn unread(&self) -> Vec<Diagnostic> {
        let read = self.read.borrow();
        let of_root = self.path.is_empty();
        let inert = |key: &str| of_root && INERT.contains(&key);
        let is_unread = |(key, value): &(&String, &Value)| {
            !value.is_null() && !read.contains(key.as_str()) && !inert(key)
        };
        let finding = |message| {
            let help = "Compare the results with those of Transformers, in case the field matters.";
            Diagnostic::new(Code::LayerParameterIgnored, message).help(help)
        };
        let unread: Vec<&String> = self.fields.iter().filter(is_unread).map(|(k, _)| k).collect();
        let told = unread.iter().take(TOLD_MAX).map(|key| {
            finding(format!("{} in {}, which nothing reads", self.said(key), self.place()))
        });
        let more = match unread.len().saturating_sub(TOLD_MAX) {
            0 => None,
            n => Some(finding(format!("Nothing reads {n} more fields in {}", self.place()))),
        };
        self.inside.borrow().iter().cloned().chain(told).chain(more).collect()
    }
}

#[cfg(test)]
mod tests;
