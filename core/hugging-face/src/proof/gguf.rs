//! The same formulas for files of GGUF, as llama.cpp's converter writes them: other names, norms that have their 1, and
//! in some architectures pairs that turn side by side.

use super::families;
use super::fields::Fields;
use super::formulas::{ExpertWeights, Experts, Formulas, Fused, HeadNorm, Mlp, Names, Weighted};
use super::source::{Matrix, Plain};
use crate::raw::Find;
use serde_json::{Map, Value, json};

/// Architectures with the family that each is, and whether pairs of queries and keys lie side by side.
const ARCHITECTURES: [(&str, &str, bool); 30] = [
    ("llama", "llama", true),
    ("arcee", "arcee", true),
    ("granite", "granite", true),
    ("olmo", "olmo", true),
    ("smollm3", "smollm3", true),
    ("granitemoe", "granitemoe", true),
    ("bloom", "bloom", false),
    ("cohere2", "cohere2", false),
    ("command-r", "cohere", false),
    ("ernie4_5", "ernie4_5", false),
    ("exaone4", "exaone4", false),
    ("gemma", "gemma", false),
    ("gemma2", "gemma2", false),
    ("gemma3", "gemma3_text", false),
    ("glm4", "glm4", false),
    ("gpt2", "gpt2", false),
    ("gptneox", "gpt_neox", false),
    ("hunyuan-dense", "hunyuan_v1_dense", false),
    ("nemotron", "nemotron", false),
    ("olmo2", "olmo2", false),
    ("olmoe", "olmoe", false),
    ("phi2", "phi", false),
    ("phi3", "phi3", false),
    ("qwen2", "qwen2", false),
    ("qwen3", "qwen3", false),
    ("qwen2moe", "qwen2_moe", false),
    ("qwen3moe", "qwen3_moe", false),
    ("seed_oss", "seed_oss", false),
    ("stablelm", "stablelm", false),
    ("starcoder2", "starcoder2", false),
];

/// Keys below the name of the architecture, and the field that says the same.
const KEYS: [(&str, &str); 19] = [
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.layer_norm_rms_epsilon", "epsilon"),
    ("attention.layer_norm_epsilon", "epsilon"),
    ("attention.sliding_window", "sliding_window"),
    ("attention.scale", "attention_multiplier"),
    ("attention.clamp_kqv", "clip_qkv"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("context_length", "max_position_embeddings"),
    ("residual_scale", "residual_multiplier"),
    ("rope.freq_base", "rope_theta"),
    ("rope.freq_base_swa", "rope_local_base_freq"),
    ("rope.scaling.original_context_length", "original_max_position_embeddings"),
    ("use_parallel_residual", "use_parallel_residual"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
];

/// What families call the epsilon of norms.
const EPSILONS: [&str; 5] =
    ["rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"];

const FILE: Names = Names {
    prefixes: &[""],
    layers: "blk",
    norm: "attn_norm",
    mlp_norm: "ffn_norm",
    behind: ["post_attention_norm", "post_ffw_norm"],
    qkv: ["attn_q", "attn_k", "attn_v"],
    all: "attn_qkv",
    o: "attn_output",
    head_norms: ["attn_q_norm", "attn_k_norm"],
};

/// What a file says under a key of its metadata, as JSON.
pub(crate) type Get<'a> = dyn Fn(&str) -> Option<Value> + 'a;

/// What the file calls its architecture.
fn architecture(get: &Get<'_>) -> Option<String> {
    Some(get("general.architecture")?.as_str()?.to_owned())
}

/// Tokens that a sequence may have.
pub(super) fn context(get: &Get<'_>) -> Option<usize> {
    let length = get(&format!("{}.context_length", architecture(get)?))?;
    usize::try_from(length.as_u64()?).ok()
}

/// The formulas of a file, in a sequence of so many tokens.
pub(super) fn formulas(get: &Get<'_>, find: &Find<'_>, tokens: usize) -> Plain<Formulas> {
    let name = &*architecture(get).unwrap_or_default();
    let known = ARCHITECTURES.iter().find(|(known, ..)| *known == name);
    let (_, family, is_paired) =
        known.ok_or_else(|| format!("the architecture `{name}` has no second implementation"))?;
    let fields = fields(get, find, (name, family))?;
    let f = families::of(&Fields(Some(&fields)), tokens)?;
    let mut f = as_in_file(f, name);
    if *is_paired {
        f.turns.iter_mut().for_each(|turn| turn.neighbours = true);
        f.cache_has_halves = true;
    }
    if let Some(factors) = Matrix::find(find, "rope_freqs.weight")? {
        let factors = factors.all();
        for turn in &mut f.turns {
            if turn.angles.len() != factors.len() {
                return Err("`rope_freqs.weight` has not a factor for each pair".to_owned());
            }
            turn.angles.iter_mut().zip(&factors).for_each(|(angle, factor)| *angle /= factor);
        }
    }
    Ok(f)
}

/// Names and layouts of the file.
fn as_in_file(mut f: Formulas, architecture: &str) -> Formulas {
    f.names = FILE;
    if architecture == "seed_oss" {
        f.names.mlp_norm = "post_attention_norm";
    }
    f.mlp = match f.mlp {
        Mlp::Gated { .. } => Mlp::Gated { gate: "ffn_gate", up: "ffn_up", down: "ffn_down" },
        Mlp::InOne { .. } => Mlp::InOne { gate_up: "ffn_up", down: "ffn_down" },
        Mlp::Plain { .. } => Mlp::Plain { up: "ffn_up", down: "ffn_down" },
    };
    if f.norm.weighted == Weighted::ByOneMore {
        f.norm.weighted = Weighted::By;
    }
    if f.fused != Fused::No {
        f.fused = Fused::InTurn;
    }
    if f.head_norm == HeadNorm::Listed {
        f.head_norm = HeadNorm::Own;
    }
    f.rows_are_inputs = false;
    f.experts = f.experts.map(|experts| Experts {
        router: "ffn_gate_inp",
        weights: ExpertWeights::StackedApart(["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]),
        shared: experts
            .shared
            .map(|_| ["ffn_gate_inp_shexp", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"]),
        ..experts
    });
    f
}

/// Fields of `config.json` that say what the metadata do.
fn fields(
    file: &Get<'_>,
    find: &Find<'_>,
    (name, family): (&str, &str),
) -> Plain<Map<String, Value>> {
    let get = |key: &str| file(&format!("{name}.{key}"));
    let mut fields = Map::new();
    for (key, field) in KEYS {
        fields.extend(get(key).map(|value| (field.to_owned(), value)));
    }
    let is_divided = get("expert_weights_norm").unwrap_or_else(|| json!(family == "qwen3_moe"));
    let has_experts = fields.get("num_experts").is_some_and(|count| *count != 0);
    if fields.values().any(Value::is_array) {
        return Err("the sizes of layers differ".to_owned());
    }
    let epsilon = fields.remove("epsilon").unwrap_or_default();
    fields.extend(EPSILONS.map(|field| (field.to_owned(), epsilon.clone())));
    let of = |key: &str| get(key).and_then(|value| value.as_f64());
    let size = |field: &str| fields.get(field).and_then(Value::as_f64).unwrap_or(1.0);
    let [hidden, heads, layers] =
        ["hidden_size", "num_attention_heads", "num_hidden_layers"].map(size);
    let head = fields.get("head_dim").and_then(Value::as_f64).unwrap_or((hidden / heads).floor());
    let share = of("rope.dimension_count").unwrap_or(head) / head;
    // A whole number of elements, in spite of rounding.
    let share = if share < 1.0 { share + 0.5 / head } else { share };
    let is_largest = matches!((name, layers), ("gemma2", 46.0) | ("gemma3", 62.0));
    let by = if is_largest { hidden / heads } else { head };
    let is_whole = of("attention.sliding_window").is_none_or(|window| window == 0.0);
    let has_head_norms = find("blk.0.attn_q_norm.weight").is_some();
    let window_type = if is_whole { Value::Null } else { json!(of("attention.sliding_window")) };
    let theta = of("rope.freq_base").unwrap_or(10000.0);
    let cap = of("attn_logit_softcapping").filter(|cap| *cap != 0.0);
    let scaling = scaling(file, find, name)?;
    let model_type = match name {
        "llama" if has_experts => "mixtral",
        "llama" if !is_whole => "mistral",
        _ => family,
    };
    for (field, value) in [
        ("model_type", json!(model_type)),
        ("norm_topk_prob", is_divided),
        ("num_local_experts", fields.get("num_experts").cloned().unwrap_or_default()),
        ("head_dim", json!(head as u64)),
        ("rope_theta", json!(theta)),
        ("rotary_emb_base", json!(theta)),
        ("partial_rotary_factor", json!(share)),
        ("query_pre_attn_scalar", json!(by)),
        ("attn_logit_softcapping", json!(cap)),
        ("use_qk_norm", json!(has_head_norms)),
        ("qk_layernorm", json!(has_head_norms)),
        ("no_rope_layer_interval", json!(4)),
        ("rope_scaling", scaling),
        ("layer_types", near(get("attention.sliding_window_pattern"), layers as usize)),
    ] {
        fields.insert(field.to_owned(), value);
    }
    if is_whole && name != "gemma2" {
        fields.insert("sliding_window".to_owned(), window_type);
    }
    Ok(fields)
}

/// Which layers have a window: a flag for each, or all but each of so many.
fn near(pattern: Option<Value>, layers: usize) -> Value {
    let kind = |near: bool| json!(if near { "sliding_attention" } else { "full_attention" });
    match pattern {
        Some(Value::Array(flags)) => {
            let is_near = |flag: &Value| flag.as_bool().unwrap_or(flag.as_f64() != Some(0.0));
            flags.iter().map(|flag| kind(is_near(flag))).collect()
        }
        Some(every) => {
            let every = every.as_u64().unwrap_or(0) as usize;
            let is_near = |i: usize| every == 0 || !(i + 1).is_multiple_of(every);
            (0..layers.min(1 << 12)).map(|i| kind(is_near(i))).collect()
        }
        None => Value::Null,
    }
}

/// How angles change in longer sequences.
fn scaling(file: &Get<'_>, find: &Find<'_>, name: &str) -> Plain<Value> {
    let get = |key: &str| file(&format!("{name}.rope.scaling.{key}"));
    let kind = get("type");
    let kind = kind.as_ref().and_then(Value::as_str);
    let [short, long] = ["short", "long"].map(|part| {
        let all = Matrix::find(find, &format!("rope_factors_{part}.weight"))?;
        Ok::<_, String>(all.map(|all| json!(all.all())))
    });
    if let (Some(short), Some(long)) = (short?, long?) {
        let gain = get("attn_factor");
        return Ok(json!({ "rope_type": "longrope", "short_factor": short, "long_factor": long,
            "attention_factor": gain }));
    }
    let factor = get("factor").and_then(|factor| factor.as_f64()).filter(|factor| *factor != 0.0);
    match (kind, factor) {
        (Some("none"), _) | (None | Some("linear"), None) => Ok(Value::Null),
        (None | Some("linear"), Some(factor)) => {
            Ok(json!({ "rope_type": "linear", "factor": factor }))
        }
        (Some(other), _) => {
            Err(format!("the rotation `{other}` of GGUF has no second implementation"))
        }
    }
}
