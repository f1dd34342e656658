//! How texts are split before bytes are merged, by `tokenizer.ggml.pre`.

use serde_json::{Value as Json, json};

pub(super) struct Split {
    names: &'static [&'static str],
    /// What parts of a text are; empty where that is GPT-2's own way.
    pattern: &'static str,
    /// Whether each digit is a part.
    single_digits: bool,
    /// Whether equal characters are made one (NFC).
    composes: bool,
    /// Whether a part that is a token is taken as it is.
    pub(super) whole_words: bool,
    /// Whether a text begins with a token of its own, where the metadata do not say.
    pub(super) begins: bool,
}

const GPT2: Split = Split {
    names: &["gpt-2"],
    pattern: "",
    single_digits: false,
    composes: false,
    whole_words: false,
    begins: false,
};

const SPLITS: [Split; 6] = [
    GPT2,
    Split { names: &["starcoder", "smollm", "refact"], single_digits: true, ..GPT2 },
    Split {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"],
        pattern: concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        whole_words: true,
        begins: true,
        ..GPT2
    },
    Split {
        names: &["qwen2"],
        pattern: concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        composes: true,
        ..GPT2
    },
    Split {
        names: &["gpt-4o"],
        pattern: concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        ..GPT2
    },
    Split {
        names: &["tekken"],
        pattern: concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        whole_words: true,
        begins: true,
        ..GPT2
    },
];

/// The split of this name.
pub(super) fn named(name: &str) -> Option<&'static Split> {
    SPLITS.iter().find(|split| split.names.contains(&name))
}

impl Split {
    pub(super) fn normalizer(&self) -> Json {
        if self.composes { json!({ "type": "NFC" }) } else { Json::Null }
    }

    pub(super) fn pre_tokenizer(&self) -> Json {
        let bytes = |own: bool| {
            json!({
                "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                "use_regex": own,
            })
        };
        let before = match (self.pattern, self.single_digits) {
            ("", false) => return bytes(true),
            ("", true) => json!({ "type": "Digits", "individual_digits": true }),
            (pattern, _) => json!({
                "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated",
                "invert": false,
            }),
        };
        let bytes = bytes(self.pattern.is_empty());
        json!({ "type": "Sequence", "pretokenizers": [before, bytes] })
    }
}
