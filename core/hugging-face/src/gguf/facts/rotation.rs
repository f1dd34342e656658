//! How heads turn, by keys and by tensors of factors.

use super::Facts;
use crate::diag::Diagnostic;
use serde_json::{Value as Json, json};

/// Tensors of the factors of sequences up to the usual length, and of longer ones.
const BY_LENGTH: [(&str, &str); 2] =
    [("short_factor", "rope_factors_short.weight"), ("long_factor", "rope_factors_long.weight")];

/// The base of frequencies where the metadata have none, as llama.cpp has it; families may have another.
const BASE: f64 = 10_000.0;

const TYPE: &str = "rope.scaling.type";

impl Facts<'_> {
    pub(super) fn rotation(&mut self) -> Result<(), Diagnostic> {
        self.copy("rope.freq_base", "rope_theta")?;
        self.fields.entry("rope_theta").or_insert(json!(BASE));
        let head = self.fields["head_dim"].as_u64().unwrap_or(0) as usize;
        let turning = self.size("rope.dimension_count")?.unwrap_or(head);
        if turning > head || (self.architecture.is_permuted && turning != head) {
            let why = format!("and heads have {head} elements");
            return Err(self.unknown("rope.dimension_count", &why));
        }
        // Half more than there are, because the product with the size of a head is rounded down.
        let share = if turning == head { 1.0 } else { (turning as f64 + 0.5) / head as f64 };
        self.set("partial_rotary_factor", json!(share));
        let key = self.key("rope.dimension_count");
        self.keys.insert("partial_rotary_factor".to_owned(), key);
        let scaling = self.scaling()?;
        if !scaling.is_null() {
            self.set("rope_scaling", scaling);
        }
        Ok(())
    }

    /// How angles are changed for longer sequences; null where they are not.
    fn scaling(&mut self) -> Result<Json, Diagnostic> {
        if let Some(scaling) = self.by_length()? {
            return Ok(scaling);
        }
        let factor = match self.number("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => self.number("rope.scale_linear")?,
        };
        let factor = factor.filter(|factor| *factor != 0.0);
        let kind = self.metadata.text(&self.key(TYPE))?;
        let scaling = match (kind, factor) {
            (Some("none"), _) | (None | Some("linear"), None) => Json::Null,
            (None | Some("linear"), Some(1.0)) => Json::Null,
            (None | Some("linear"), Some(factor)) => {
                json!({ "rope_type": "linear", "factor": factor })
            }
            (Some("yarn"), Some(factor)) => self.yarn(factor)?,
            (Some("yarn"), None) => {
                return Err(self.metadata.wrong(&self.key("rope.scaling.factor"), "a number"));
            }
            _ => return Err(self.unknown(TYPE, "which is no rotation that is known")),
        };
        // They count only where angles are scaled.
        for key in ["rope.scaling.original_context_length", "rope.scaling.attn_factor"] {
            self.number(key)?;
        }
        Ok(scaling)
    }

    fn yarn(&self, factor: f64) -> Result<Json, Diagnostic> {
        let mut scaling = json!({ "rope_type": "yarn", "factor": factor });
        if let Some(original) = self.size("rope.scaling.original_context_length")? {
            scaling["original_max_position_embeddings"] = json!(original);
        }
        for (key, field) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
            if let Some(number) = self.number(&format!("rope.scaling.{key}"))? {
                scaling[field] = json!(number);
            }
        }
        const SHARE: &str = "rope.scaling.yarn_ext_factor";
        if self.number(SHARE)?.is_some_and(|share| share != 1.0 && share >= 0.0) {
            return Err(self.unknown(SHARE, "and only 1 is known"));
        }
        let mut gain = 1.0;
        for key in ["rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"] {
            gain *= self.number(key)?.unwrap_or(1.0);
        }
        if gain != 1.0 && factor > 1.0 {
            // It stands beside what the factor says.
            scaling["attention_factor"] = json!(gain * (0.1 * factor.ln() + 1.0));
        }
        Ok(scaling)
    }

    /// Factors by which angles are divided, for sequences up to a length and for longer ones.
    fn by_length(&mut self) -> Result<Option<Json>, Diagnostic> {
        let kind = self.metadata.text(&self.key(TYPE))?;
        let mut scaling = json!({ "rope_type": "longrope" });
        let mut found = 0;
        for (field, name) in BY_LENGTH {
            if let Some(numbers) = self.numbers(name)? {
                scaling[field] = json!(numbers);
                found += 1;
            }
        }
        if found == 0 && kind != Some("longrope") {
            return Ok(None);
        }
        if found < BY_LENGTH.len() || !matches!(kind, None | Some("longrope")) {
            let why = "and the factors of `rope_factors_short` and `rope_factors_long` are not";
            return Err(self.unknown(TYPE, &format!("{why} both there for it")));
        }
        let original = self.size("rope.scaling.original_context_length")?;
        let context = self.size("context_length")?;
        let (Some(original), Some(context)) = (original, context) else {
            let key = self.key("rope.scaling.original_context_length");
            return Err(self.metadata.wrong(&key, "the length that short factors are for"));
        };
        self.set("original_max_position_embeddings", json!(original));
        self.set("max_position_embeddings", json!(context));
        if let Some(gain) = self.number("rope.scaling.attn_factor")? {
            scaling["attention_factor"] = json!(gain);
        }
        // The ratio of the lengths, which the family computes itself.
        self.number("rope.scaling.factor")?;
        Ok(Some(scaling))
    }
}
