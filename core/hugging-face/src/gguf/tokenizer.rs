//! The tokenizer of the metadata as files that runtimes read: `tokenizer.json`, `tokenizer_config.json`,
//! `generation_config.json` and the chat template.

mod splits;

use super::metadata::Metadata;
use crate::diag::{Code, Diagnostic, shown};
use serde_json::{Map, Value as Json, json};
use std::collections::{HashMap, HashSet};

/// Kinds of tokens, by the numbers of `tokenizer.ggml.token_type`.
const CONTROL: i64 = 3;
const BY_USER: i64 = 4;

/// Bytes of all tokens and merges; a file with more is left alone.
const BYTES_MAX: usize = 1 << 26;

/// Tokens, and merges.
const TOKENS_MAX: usize = 1 << 22;

/// Characters of a token that is split for merges.
const CHARACTERS_MAX: usize = 256;

/// How SentencePiece writes a space.
const SPACE: &str = "\u{2581}";

/// Files by name.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// The files, or why there are none.
pub(super) fn files(metadata: &Metadata) -> Result<(Files, Option<Diagnostic>), Diagnostic> {
    let mut files = vec![];
    let Some(kind) = metadata.text("tokenizer.ggml.model")? else { return Ok((files, None)) };
    let template = metadata.text("tokenizer.chat_template")?;
    if let Some(template) = template {
        files.push(("chat_template.jinja", template.as_bytes().to_vec()));
    }
    let found = Vocabulary::of(metadata).and_then(|vocabulary| match kind {
        "gpt2" => Ok((by_bytes(metadata, &vocabulary)?, vocabulary)),
        "llama" => Ok((by_pieces(metadata, &vocabulary)?, vocabulary)),
        _ => Err(format!("tokenizers of the kind `{}` are not known", shown(kind))),
    });
    match found {
        Ok((tokenizer, vocabulary)) => {
            let text = |json: Json| format!("{json:#}\n").into_bytes();
            files.push(("tokenizer.json", tokenizer.into_bytes()));
            files.push(("tokenizer_config.json", text(settings(metadata, &vocabulary, template))));
            files.push(("generation_config.json", text(generation(metadata).into())));
            Ok((files, None))
        }
        Err(why) => {
            let note = Diagnostic::new(
                Code::LayerParameterIgnored,
                format!("No `tokenizer.json` was written from the metadata: {why}"),
            );
            let help = "Put the tokenizer files of the original model beside the result.";
            Ok((files, Some(note.help(help))))
        }
    }
}

/// The tokens of the metadata.
struct Vocabulary<'m> {
    tokens: Vec<&'m str>,
    ids: HashMap<&'m str, usize>,
    kinds: Vec<i64>,
}

impl<'m> Vocabulary<'m> {
    fn of(metadata: &'m Metadata) -> Result<Vocabulary<'m>, String> {
        let tokens = texts(metadata, "tokenizer.ggml.tokens")?;
        let ids: HashMap<&str, usize> =
            tokens.iter().enumerate().map(|(id, token)| (*token, id)).collect();
        if ids.len() < tokens.len() || tokens.is_empty() {
            return Err("`tokenizer.ggml.tokens` has none, or one twice".to_owned());
        }
        let kinds = numbers(metadata, "tokenizer.ggml.token_type", tokens.len())?;
        let kinds = kinds.map_or_else(
            || vec![1; tokens.len()],
            |all| all.into_iter().map(|kind| kind as i64).collect(),
        );
        Ok(Vocabulary { tokens, ids, kinds })
    }

    /// The token of a key with its number.
    fn named(&self, metadata: &Metadata, key: &str) -> Option<(&'m str, usize)> {
        let id = metadata.size(&format!("tokenizer.ggml.{key}_token_id")).ok()??;
        Some((self.tokens.get(id)?, id))
    }

    /// Tokens that are found before a text is split.
    fn added(&self) -> Json {
        let added = self.tokens.iter().zip(&self.kinds).enumerate();
        let added = added.filter(|(_, (_, kind))| matches!(**kind, CONTROL | BY_USER));
        let one = |(id, (token, kind)): (usize, (&&str, &i64))| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": *kind == CONTROL,
            })
        };
        added.map(one).collect()
    }

    fn json(&self) -> Json {
        let all = self.tokens.iter().enumerate();
        all.map(|(id, token)| ((*token).to_owned(), json!(id))).collect::<Map<_, _>>().into()
    }
}

fn texts<'m>(metadata: &'m Metadata, key: &str) -> Result<Vec<&'m str>, String> {
    let list = metadata.list(key).map_err(|e| e.message.clone())?;
    if list.is_some_and(|list| list.len() > TOKENS_MAX) {
        return Err(format!("`{key}` has more than {TOKENS_MAX} texts"));
    }
    let texts = list.and_then(|list| list.texts());
    let texts = texts.ok_or_else(|| format!("`{key}` is no list of texts"))?;
    let mut bytes = 0usize;
    let mut all = vec![];
    for text in texts {
        bytes += text.len();
        if bytes > BYTES_MAX {
            return Err(format!("`{key}` has more than {BYTES_MAX} bytes"));
        }
        all.push(str::from_utf8(text).map_err(|_| format!("`{key}` has a text that is no UTF-8"))?);
    }
    Ok(all)
}

fn numbers(metadata: &Metadata, key: &str, count: usize) -> Result<Option<Vec<f64>>, String> {
    let Some(list) = metadata.list(key).map_err(|e| e.message.clone())? else { return Ok(None) };
    match list.numbers().filter(|_| list.len() == count) {
        Some(numbers) => Ok(Some(numbers.collect())),
        None => Err(format!("`{key}` has not a number for each of {count} tokens")),
    }
}

/// Merges of bytes, behind a split that the metadata name.
fn by_bytes(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<String, String> {
    const PRE: &str = "tokenizer.ggml.pre";
    let pre = metadata.text(PRE).map_err(|e| e.message.clone())?;
    let pre = pre.ok_or_else(|| format!("`{PRE}`, which says how texts are split, is absent"))?;
    let split = splits::named(pre)
        .ok_or_else(|| format!("`{PRE}` is `{}`, which is no split that is known", shown(pre)))?;
    let merges = texts(metadata, "tokenizer.ggml.merges")?;
    let ids = &vocabulary.ids;
    let is_known = |merge: &&str| {
        merge.split_once(' ').is_some_and(|(first, second)| {
            let both = format!("{first}{second}");
            [first, second, &both].iter().all(|part| ids.contains_key(*part))
        })
    };
    if let Some(other) = merges.iter().find(|merge| !is_known(merge)) {
        let other = shown(other);
        return Err(format!("the merge `{other}` is of tokens that the vocabulary lacks"));
    }
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let after = around(metadata, vocabulary, split.begins)?;
    let after = match after {
        Some(around) => json!({ "type": "Sequence", "processors": [bytes, around] }),
        None => bytes.clone(),
    };
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "ignore_merges": split.whole_words, "vocab": vocabulary.json(), "merges": merges,
    });
    Ok(tokenizer(vocabulary, [split.normalizer(), split.pre_tokenizer(), after, bytes, model]))
}

/// Pieces with scores, as SentencePiece has them: a merge for each way in which a piece is two others.
fn by_pieces(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<String, String> {
    let Vocabulary { tokens, ids, kinds } = vocabulary;
    let scores = numbers(metadata, "tokenizer.ggml.scores", tokens.len())?;
    let scores = scores.ok_or("`tokenizer.ggml.scores` is absent")?;
    let mut merges: Vec<(f64, &str, &str)> = vec![];
    let plain = |id: &usize| kinds[*id] == 1;
    for (id, token) in tokens.iter().enumerate().filter(|(id, _)| plain(id)) {
        let places = token.char_indices().skip(1).map(|(at, _)| at);
        if token.chars().nth(CHARACTERS_MAX).is_some() {
            return Err(format!("a token has more than {CHARACTERS_MAX} characters"));
        }
        let parts = places.map(|at| token.split_at(at));
        let known = |part: &str| ids.get(part).is_some_and(plain);
        let parts = parts.filter(|(first, second)| known(first) && known(second));
        merges.extend(parts.map(|(first, second)| (scores[id], first, second)));
    }
    let length = |text: &str| text.chars().count();
    merges.sort_by(|a, b| {
        let by_length = || (length(b.1), length(b.2)).cmp(&(length(a.1), length(a.2)));
        b.0.total_cmp(&a.0).then_with(by_length)
    });
    let merges: Vec<String> =
        merges.into_iter().map(|(_, first, second)| format!("{first} {second}")).collect();
    let begins = flag(metadata, "add_space_prefix", true)?;
    let spaces = json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE });
    let normalizer = match begins {
        true => json!({
            "type": "Sequence",
            "normalizers": [{ "type": "Prepend", "prepend": SPACE }, spaces],
        }),
        false => spaces,
    };
    let mut decoders = vec![
        json!({ "type": "Replace", "pattern": { "String": SPACE }, "content": " " }),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    if begins {
        decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    let unknown = vocabulary.named(metadata, "unknown").map(|(token, _)| token);
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
        "ignore_merges": false, "vocab": vocabulary.json(), "merges": merges,
    });
    let after = around(metadata, vocabulary, true)?.unwrap_or(Json::Null);
    let decoder = json!({ "type": "Sequence", "decoders": decoders });
    Ok(tokenizer(vocabulary, [normalizer, Json::Null, after, decoder, model]))
}

fn flag(metadata: &Metadata, key: &str, default: bool) -> Result<bool, String> {
    let found = metadata.flag(&format!("tokenizer.ggml.{key}")).map_err(|e| e.message.clone())?;
    Ok(found.unwrap_or(default))
}

/// Tokens that are put before and behind a text.
fn around(
    metadata: &Metadata,
    vocabulary: &Vocabulary<'_>,
    begins: bool,
) -> Result<Option<Json>, String> {
    let first = flag(metadata, "add_bos_token", begins)?.then(|| vocabulary.named(metadata, "bos"));
    let last = flag(metadata, "add_eos_token", false)?.then(|| vocabulary.named(metadata, "eos"));
    let (first, last) = (first.flatten(), last.flatten());
    if first.is_none() && last.is_none() {
        return Ok(None);
    }
    let special =
        |(token, _): (&str, usize)| json!({ "SpecialToken": { "id": token, "type_id": 0 } });
    let text = |id: &str, kind: usize| json!({ "Sequence": { "id": id, "type_id": kind } });
    let wrapped = |id: &str, kind: usize| -> Vec<Json> {
        let first = first.map(special).into_iter();
        first.chain([text(id, kind)]).chain(last.map(special)).collect()
    };
    let pair = [wrapped("A", 0), wrapped("B", 1)].concat();
    let named = first.iter().chain(&last).map(|(token, id)| {
        let told = json!({ "id": token, "ids": [id], "tokens": [token] });
        ((*token).to_owned(), told)
    });
    Ok(Some(json!({
        "type": "TemplateProcessing",
        "single": wrapped("A", 0),
        "pair": pair,
        "special_tokens": named.collect::<Map<_, _>>(),
    })))
}

/// The text of `tokenizer.json`.
fn tokenizer(vocabulary: &Vocabulary<'_>, parts: [Json; 5]) -> String {
    let [normalizer, pre_tokenizer, post_processor, decoder, model] = parts;
    let whole = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": vocabulary.added(), "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder,
        "model": model,
    });
    format!("{whole}\n")
}

fn settings(metadata: &Metadata, vocabulary: &Vocabulary<'_>, template: Option<&str>) -> Json {
    let mut all = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
    });
    for (field, key) in [
        ("bos_token", "bos"),
        ("eos_token", "eos"),
        ("pad_token", "padding"),
        ("unk_token", "unknown"),
    ] {
        if let Some((token, _)) = vocabulary.named(metadata, key) {
            all[field] = json!(token);
        }
    }
    for key in ["add_bos_token", "add_eos_token"] {
        if let Ok(Some(flag)) = metadata.flag(&format!("tokenizer.ggml.{key}")) {
            all[key] = json!(flag);
        }
    }
    if let Some(template) = template {
        all["chat_template"] = json!(template);
    }
    all
}

/// The numbers of tokens that a text begins with and ends at.
pub(super) fn generation(metadata: &Metadata) -> Map<String, Json> {
    let id = |key: &str| metadata.size(&format!("tokenizer.ggml.{key}_token_id")).ok().flatten();
    let mut all = Map::new();
    for (field, key) in [("bos_token_id", "bos"), ("pad_token_id", "padding")] {
        if let Some(id) = id(key) {
            all.insert(field.to_owned(), json!(id));
        }
    }
    // A turn may end with a token of its own.
    let mut seen = HashSet::new();
    let ends: Vec<usize> =
        ["eos", "eot"].iter().filter_map(|key| id(key)).filter(|id| seen.insert(*id)).collect();
    let ends = match ends[..] {
        [] => return all,
        [end] => json!(end),
        _ => json!(ends),
    };
    all.insert("eos_token_id".to_owned(), ends);
    all
}

#[cfg(test)]
mod tests;
