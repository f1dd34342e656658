//! Metadata as the fields of `config.json` that the family reads.

use super::metadata::{Metadata, Value};
use super::rows::Rows;
use super::tensors::Stored;
use crate::config::{Config, Origin};
use crate::diag::{Diagnostic, shown};
use crate::problem::{damaged, over_limit, unsupported};
use architectures::{Architecture, Windows, named};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Layers that are told apart here; the family refuses more.
const LAYERS_MAX: usize = 1 << 13;

const ARCHITECTURE: &str = "general.architecture";

/// Keys below the name of an architecture that say what it computes. One that nothing reads is refused, unless it says
/// that something is not done.
const COMPUTED: [&str; 17] = [
    "attention.", "attn_", "clamp", "embedding_scale", "expert_", "final_logit_softcapping",
    "interleave_moe", "leading_dense", "logit_scale", "moe_", "nextn_", "pooling_type",
    "residual_scale", "rope.", "router_", "ssm.", "swiglu_",
];

/// Of these, one that changes nothing.
const INERT: &str = "rope.scaling.finetuned";

/// What a file says, on the way to fields.
pub(super) struct Facts<'a> {
    pub(super) metadata: &'a Metadata,
    pub(super) architecture: &'static Architecture,
    tensors: &'a [Stored],
    model_type: &'static str,
    fields: Map<String, Json>,
    keys: BTreeMap<String, String>,
}

/// The architecture of a file.
pub(super) fn architecture(metadata: &Metadata) -> Result<&'static Architecture, Diagnostic> {
    let Some(name) = metadata.text(ARCHITECTURE)? else {
        return Err(metadata.wrong(ARCHITECTURE, "the name of an architecture"));
    };
    named(name)
        .ok_or_else(|| metadata.unknown(ARCHITECTURE, "which is no architecture that is known"))
}

/// The fields of `config.json` that the metadata come to.
pub(super) fn config(
    place: String,
    metadata: &Metadata,
    tensors: &[Stored],
) -> Result<Config, Diagnostic> {
    let architecture = architecture(metadata)?;
    let fixed = serde_json::from_str(architecture.fixed).expect("fields of the table are JSON");
    let mut facts = Facts {
        metadata,
        architecture,
        tensors,
        model_type: architecture.model_type,
        fields: fixed,
        keys: BTreeMap::new(),
    };
    facts.sizes()?;
    facts.embedding()?;
    if architecture.turns {
        facts.rotation()?;
    }
    facts.windows()?;
    for (key, field) in architecture.keys {
        facts.copy(key, field)?;
    }
    (architecture.more)(&mut facts)?;
    facts.complete()?;
    let Facts { mut fields, keys, model_type, .. } = facts;
    fields.insert("model_type".to_owned(), json!(model_type));
    Ok(Config::made(fields, Origin { place, keys }))
}

impl Facts<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    fn set(&mut self, field: &str, value: Json) {
        self.fields.insert(field.to_owned(), value);
    }

    fn size(&self, key: &str) -> Result<Option<usize>, Diagnostic> {
        self.metadata.size(&self.key(key))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Diagnostic> {
        self.metadata.number(&self.key(key))
    }

    fn unknown(&self, key: &str, why: &str) -> Diagnostic {
        self.metadata.unknown(&self.key(key), why)
    }

    /// A size that must be there, as a number, or as a list in which all layers have the same.
    fn even(&self, key: &str) -> Result<Option<usize>, Diagnostic> {
        let key = self.key(key);
        let Some(Value::List(list)) = self.metadata.get(&key) else {
            return self.metadata.size(&key);
        };
        let mut sizes = list.numbers().into_iter().flatten();
        match sizes.next().filter(|size| *size >= 0.0 && size.fract() == 0.0) {
            Some(first) if sizes.all(|size| size == first) => Ok(Some(first as usize)),
            _ => Err(self.metadata.unknown(&key, "and layers that differ in it are not known")),
        }
    }

    fn needed(&self, key: &str) -> Result<usize, Diagnostic> {
        let found = self.even(key)?.filter(|size| *size > 0);
        found.ok_or_else(|| self.metadata.wrong(&self.key(key), "a whole number above 0"))
    }

    /// How many layers there are.
    fn layer_count(&self) -> Result<usize, Diagnostic> {
        let count = self.needed("block_count")?;
        if count > LAYERS_MAX {
            let told = self.metadata.said(&self.key("block_count"));
            return Err(over_limit(format!("{told}, of {LAYERS_MAX} layers at most")));
        }
        Ok(count)
    }

    /// Takes a value over as it is.
    fn copy(&mut self, key: &str, field: &str) -> Result<(), Diagnostic> {
        let key = self.key(key);
        let Some(value) = self.metadata.get(&key) else { return Ok(()) };
        let value = value.json();
        let value = value.ok_or_else(|| self.metadata.wrong(&key, "a number"))?;
        self.set(field, value);
        self.keys.insert(field.to_owned(), key);
        Ok(())
    }

    fn tensor(&self, name: &str) -> Option<&Stored> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// A flag that is whether a tensor is there.
    pub(super) fn says(&mut self, field: &str, tensor: &str) -> Result<(), Diagnostic> {
        let flag = self.tensor(tensor).is_some();
        self.set(field, json!(flag));
        Ok(())
    }

    fn sizes(&mut self) -> Result<(), Diagnostic> {
        let sizes = self.architecture.sizes;
        let hidden = self.needed("embedding_length")?;
        let heads = self.needed("attention.head_count")?;
        let given = self.size("attention.key_length")?;
        let head = given.unwrap_or(hidden / heads);
        if let Some(value) = self.size("attention.value_length")?
            && value != head
        {
            return Err(self.unknown("attention.value_length", "and keys have another length"));
        }
        let inner = self.even("feed_forward_length")?.filter(|inner| *inner > 0);
        let kv_heads = self.kv_heads()?.unwrap_or(heads);
        let may_share = !sizes.kv_heads.is_empty() || self.architecture.name == "starcoder";
        if !may_share && kv_heads != heads {
            return Err(self.unknown("attention.head_count_kv", "and there are more heads"));
        }
        let all = [
            (sizes.hidden, "embedding_length", Some(hidden)),
            (sizes.heads, "attention.head_count", Some(heads)),
            (sizes.kv_heads, "attention.head_count_kv", Some(kv_heads)),
            (sizes.layers, "block_count", Some(self.layer_count()?)),
            (sizes.inner, "feed_forward_length", inner),
            (sizes.context, "context_length", self.size("context_length")?),
            ("head_dim", "attention.key_length", Some(head)),
        ];
        for (field, key, size) in all {
            if let (false, Some(size)) = (field.is_empty(), size) {
                self.set(field, json!(size));
                self.keys.insert(field.to_owned(), self.key(key));
            }
        }
        let field = self.architecture.epsilon;
        // Norms by the mean square and others have a key each.
        let keys = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"];
        if !field.is_empty() {
            keys.iter().try_for_each(|key| self.copy(key, field))?;
            if !self.fields.contains_key(field) {
                let must = format!("a number, or `{}` be there", self.key(keys[1]));
                return Err(self.metadata.wrong(&self.key(keys[0]), &must));
            }
        } else {
            // The family has no say in it.
            for key in keys {
                self.number(key)?;
            }
        }
        Ok(())
    }

    /// Heads of keys. Layers without attention have none.
    fn kv_heads(&self) -> Result<Option<usize>, Diagnostic> {
        const KEY: &str = "attention.head_count_kv";
        if self.architecture.model_type != "lfm2" {
            return self.even(KEY);
        }
        let Some(list) = self.layers(KEY)? else { return self.even(KEY) };
        let attentive: Vec<usize> = list.into_iter().filter(|count| *count > 0).collect();
        match attentive.first() {
            Some(first) if attentive.iter().all(|count| count == first) => Ok(Some(*first)),
            _ => Err(self.unknown(KEY, "and layers that differ in it are not known")),
        }
    }

    /// A list with a number for each layer.
    fn layers(&self, key: &str) -> Result<Option<Vec<usize>>, Diagnostic> {
        let key = self.key(key);
        let Some(Value::List(list)) = self.metadata.get(&key) else { return Ok(None) };
        let count = self.layer_count()?;
        let numbers = list.numbers().filter(|_| list.len() == count);
        let size =
            |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as usize);
        let sizes = numbers.and_then(|numbers| numbers.map(size).collect());
        let must = || format!("a list of {count} whole numbers");
        sizes.map(Some).ok_or_else(|| self.metadata.wrong(&key, &must()))
    }

    /// Rows of the table of words, and whether it gives logits, too.
    fn embedding(&mut self) -> Result<(), Diagnostic> {
        let rows = match self.tensor("token_embd.weight") {
            Some(Stored { dims, .. }) if dims.len() == 2 => dims[0],
            Some(Stored { dims, .. }) => {
                let why = format!("tensor `token_embd.weight` has the shape {dims:?}, and no rows");
                return Err(damaged(why));
            }
            None => return Err(damaged("tensor `token_embd.weight` is missing")),
        };
        let words = self.size("vocab_size")?.unwrap_or(rows);
        self.set("vocab_size", json!(words));
        self.keys.insert("vocab_size".to_owned(), self.key("vocab_size"));
        let is_tied = self.tensor("output.weight").is_none();
        self.set("tie_word_embeddings", json!(is_tied));
        Ok(())
    }

    fn windows(&mut self) -> Result<(), Diagnostic> {
        const KEY: &str = "attention.sliding_window";
        let window = self.size(KEY)?.filter(|window| *window > 0);
        let pattern = self.near()?;
        match (self.architecture.windows, window) {
            (Windows::None, None) | (Windows::Mistral, None) => return Ok(()),
            (Windows::None, Some(_)) => {
                return Err(self.unknown(KEY, "and windows of this architecture are not known"));
            }
            // Layers without one see all, whatever the family would say.
            (Windows::Some, None) => self.set("sliding_window", Json::Null),
            (Windows::Default, None) => {}
            (Windows::Needed, None) => {
                return Err(self.metadata.wrong(&self.key(KEY), "a whole number above 0"));
            }
            (kind, Some(window)) => {
                if kind == Windows::Mistral {
                    self.model_type = "mistral";
                }
                self.set("sliding_window", json!(window));
                self.keys.insert("sliding_window".to_owned(), self.key(KEY));
            }
        }
        if let Some(near) = pattern {
            let kind = |near| if near { "sliding_attention" } else { "full_attention" };
            self.set("layer_types", near.into_iter().map(kind).collect());
        }
        Ok(())
    }

    /// Which layers have a window, if the metadata say it: a flag for each, or every how many see all.
    fn near(&self) -> Result<Option<Vec<bool>>, Diagnostic> {
        const KEY: &str = "attention.sliding_window_pattern";
        if let Some(flags) = self.layers(KEY)? {
            return Ok(Some(flags.into_iter().map(|flag| flag != 0).collect()));
        }
        let Some(every) = self.size(KEY)? else { return Ok(None) };
        let count = self.layer_count()?;
        let is_near = |i: usize| every == 0 || !(i + 1).is_multiple_of(every);
        Ok(Some((0..count).map(is_near).collect()))
    }

    /// That nothing is left which says what is computed.
    fn complete(&self) -> Result<(), Diagnostic> {
        let prefix = self.key("");
        let causal = self.key("attention.causal");
        if self.metadata.flag(&causal)? == Some(false) {
            return Err(self.metadata.unknown(&causal, "and only models that continue a text are"));
        }
        let is_base = |key: &str| {
            key == "rope.freq_base_swa"
                && self.number(key).ok().flatten() == self.number("rope.freq_base").ok().flatten()
        };
        for key in self.metadata.unread_keys(&prefix) {
            let below = &key[prefix.len()..];
            let turns = self.architecture.turns || !below.starts_with("rope.");
            let computes = turns && COMPUTED.iter().any(|start| below.starts_with(start));
            let is_inert = below == INERT || is_base(below) || self.metadata.says_nothing(key);
            if !turns || (computes && is_inert) {
                self.metadata.get(key);
            } else if computes {
                let why = "and what it says is not known of this architecture";
                return Err(self.metadata.unknown(key, why));
            }
        }
        Ok(())
    }

    /// The numbers of a tensor of facts.
    pub(super) fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, Diagnostic> {
        numbers(self.tensors, name)
    }
}

/// The numbers of a small tensor.
pub(super) fn numbers(tensors: &[Stored], name: &str) -> Result<Option<Vec<f64>>, Diagnostic> {
    /// Pairs of a head.
    const MOST: usize = 1 << 16;
    let Some(stored) = tensors.iter().find(|tensor| tensor.name == name) else { return Ok(None) };
    let refused = |why: &str| unsupported(format!("tensor `{}` {why}", shown(name)));
    if stored.dims.len() != 1 || stored.dims[0] > MOST {
        return Err(refused("is no list of numbers for the pairs of a head"));
    }
    let reals = Rows::of(stored).and_then(|rows| rows.tensor()).ok();
    let reals = reals.and_then(|tensor| tensor.to_reals()).map(|reals| reals.values);
    let finite = reals.filter(|reals| reals.iter().all(|real| real.is_finite()));
    finite.map(Some).ok_or_else(|| refused("has elements that are no finite numbers"))
}

pub(super) mod architectures;
mod families;
mod rotation;
