//! What single architectures say otherwise, or leave to whoever reads them.

use super::Facts;
use crate::diag::Diagnostic;
use serde_json::json;

impl Facts<'_> {
    /// Scores are scaled by the length of keys, but in the largest model, which so many layers tell, by the share of a
    /// head in the rest.
    pub(in super::super) fn gemma(&mut self, layers_of_largest: usize) -> Result<(), Diagnostic> {
        let [hidden, heads, head] = ["hidden_size", "num_attention_heads", "head_dim"]
            .map(|field| self.fields[field].as_f64().unwrap_or(1.0));
        let is_largest = self.needed("block_count")? == layers_of_largest;
        self.set("query_pre_attn_scalar", json!(if is_largest { hidden / heads } else { head }));
        for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
            // None, where the family would have one.
            self.fields.entry(field).or_insert(json!(null));
        }
        Ok(())
    }

    /// Mixtral calls itself Llama.
    pub(in super::super) fn mixtral(&mut self) -> Result<(), Diagnostic> {
        if self.size("expert_count")?.unwrap_or(0) == 0 {
            return Ok(());
        }
        self.model_type = "mixtral";
        self.experts()
    }

    /// How many experts there are, and to how many a token goes.
    pub(in super::super) fn experts(&mut self) -> Result<(), Diagnostic> {
        self.copy("expert_count", "num_local_experts")?;
        self.needed("expert_count")?;
        self.needed("expert_used_count")?;
        self.copy("expert_used_count", "num_experts_per_tok")?;
        self.inner_of_experts("intermediate_size")
    }

    /// The inner size of experts, which may have a key of its own. Their shares must be those that the family has.
    fn inner_of_experts(&mut self, field: &str) -> Result<(), Diagnostic> {
        for (key, known) in
            [("expert_weights_scale", [0.0, 1.0]), ("expert_gating_func", [0.0, 1.0])]
        {
            if self.number(key)?.is_some_and(|found| !known.contains(&found)) {
                return Err(self.unknown(key, "and such shares of experts are not known"));
            }
        }
        self.copy("expert_feed_forward_length", field)
    }

    pub(in super::super) fn qwen_experts(&mut self, is_divided: bool) -> Result<(), Diagnostic> {
        self.copy("expert_count", "num_experts")?;
        self.needed("expert_used_count")?;
        self.copy("expert_used_count", "num_experts_per_tok")?;
        self.set("norm_topk_prob", json!(is_divided));
        self.copy("expert_weights_norm", "norm_topk_prob")?;
        let inner = self.fields.get("intermediate_size").cloned();
        if let Some(inner) = inner {
            // A size of layers without experts, of which these files have none.
            self.set("moe_intermediate_size", inner);
        }
        self.inner_of_experts("moe_intermediate_size")?;
        let inner = self.fields.get("moe_intermediate_size").cloned();
        self.fields.entry("intermediate_size").or_insert(inner.unwrap_or_default());
        self.shared_inner()
    }

    /// The inner size of the expert for all, which older files say by its weights alone.
    fn shared_inner(&mut self) -> Result<(), Diagnostic> {
        const FIELD: &str = "shared_expert_intermediate_size";
        let gate = self.tensor("blk.0.ffn_gate_shexp.weight").and_then(|gate| gate.dims.first());
        if let Some(rows) = gate.copied()
            && !self.fields.contains_key(FIELD)
        {
            self.set(FIELD, json!(rows));
        }
        Ok(())
    }

    pub(in super::super) fn olmoe(&mut self) -> Result<(), Diagnostic> {
        self.copy("expert_count", "num_experts")?;
        self.needed("expert_used_count")?;
        self.copy("expert_used_count", "num_experts_per_tok")?;
        self.copy("expert_weights_norm", "norm_topk_prob")?;
        self.inner_of_experts("intermediate_size")?;
        self.copy("attention.clamp_kqv", "clip_qkv")
    }

    /// Whether all heads have one key.
    pub(in super::super) fn shared_key(&mut self) -> Result<(), Diagnostic> {
        let heads = self.needed("attention.head_count")?;
        let is_shared = self.even("attention.head_count_kv")? == Some(1) && heads > 1;
        self.set("multi_query", json!(is_shared));
        Ok(())
    }

    pub(in super::super) fn mpt(&mut self) -> Result<(), Diagnostic> {
        let hidden = self.needed("embedding_length")?;
        let inner = self.needed("feed_forward_length")?;
        if inner != hidden.saturating_mul(4) {
            let why = format!("and four times {hidden} is the only size that is known");
            return Err(self.unknown("feed_forward_length", &why));
        }
        let slope = self.number("attention.max_alibi_bias")?.unwrap_or(0.0);
        if slope == 0.0 {
            return Err(
                self.unknown("attention.max_alibi_bias", "and other positions are not known")
            );
        }
        let mut attention = json!({ "alibi": true, "alibi_bias_max": slope });
        if let Some(bound) = self.number("attention.clamp_kqv")?.filter(|bound| *bound > 0.0) {
            attention["clip_qkv"] = json!(bound);
        }
        self.set("attn_config", attention);
        self.keys
            .insert("attn_config.alibi_bias_max".to_owned(), self.key("attention.max_alibi_bias"));
        Ok(())
    }

    /// The form of 7B, and that of later models, which has a norm for each branch or one key for several heads.
    pub(in super::super) fn falcon(&mut self) -> Result<(), Diagnostic> {
        let norms = 1 + usize::from(self.tensor("blk.0.attn_norm_2.weight").is_some());
        let is_new = norms == 2 || self.even("attention.head_count_kv")?.unwrap_or(1) > 1;
        self.set("new_decoder_architecture", json!(is_new));
        self.set("multi_query", json!(true));
        if is_new {
            self.set("num_ln_in_parallel_attn", json!(norms));
        }
        Ok(())
    }

    pub(in super::super) fn gpt_oss(&mut self) -> Result<(), Diagnostic> {
        self.experts()?;
        // The bounds of the ramp between frequencies are not rounded.
        let scaling =
            self.fields.entry("rope_scaling").or_insert(json!({ "rope_type": "default" }));
        if scaling["rope_type"] == "yarn" {
            scaling["truncate"] = json!(false);
        }
        Ok(())
    }

    /// Layers without keys are convolutions.
    pub(in super::super) fn lfm2(&mut self) -> Result<(), Diagnostic> {
        self.copy("shortconv.l_cache", "conv_L_cache")?;
        let count = self.layer_count()?;
        let heads = self.layers("attention.head_count_kv")?;
        let heads = heads.unwrap_or_else(|| vec![1; count]);
        let kind = |heads| if heads == 0 { "conv" } else { "full_attention" };
        self.set("layer_types", heads.into_iter().map(kind).collect());
        Ok(())
    }
}
