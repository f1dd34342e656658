//! Formulas of families before Llama, whose heads mostly come from one weight.

use super::base::{Base, Defaults, HALVES, NEIGHBOURS, with_mean};
use super::fields::Fields;
use super::formulas::{Flow, Formulas, Fused, Mlp, NAMES, Names};
use super::rotary::{Usual, plain};
use super::source::Plain;

const GPT2: Names = Names {
    prefixes: &["transformer.", ""],
    layers: "h",
    norm: "ln_1",
    mlp_norm: "ln_2",
    all: "attn.c_attn",
    o: "attn.c_proj",
    ..NAMES
};

/// Names that several families have for fused heads and for the MLP.
const FUSED: Names = Names {
    prefixes: &["transformer.", ""],
    layers: "h",
    all: "self_attention.query_key_value",
    o: "self_attention.dense",
    ..NAMES
};
const FOURFOLD: Mlp = Mlp::Plain { up: "mlp.dense_h_to_4h", down: "mlp.dense_4h_to_h" };
const C_FC: Mlp = Mlp::Plain { up: "mlp.c_fc", down: "mlp.c_proj" };

const NEW_GELU: (&[&str], &str) = (&["activation_function"], "gelu_new");

pub(super) fn of(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Option<Plain<Formulas>> {
    Some(match kind {
        "gpt2" => gpt2(c, base),
        "gpt_bigcode" => gpt_bigcode(c, base),
        "gpt_neo" => gpt_neo(c, base),
        "bloom" => bloom(c, base),
        "mpt" => mpt(c, base),
        "opt" => opt(c, base),
        _ => return None,
    })
}

/// Scores are not scaled if the file says so.
fn scaled(c: &Fields<'_>, f: Formulas) -> Formulas {
    let is_scaled = c.flag("scale_attn_weights").unwrap_or(true);
    Formulas { scale: if is_scaled { f.scale } else { 1.0 }, mlp: C_FC, names: GPT2, ..f }
}

fn gpt2(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let f = scaled(c, with_mean(base(&Defaults::older(NEW_GELU))?));
    let by_layer = c.flag("scale_attn_by_inverse_layer_idx") == Some(true);
    Ok(Formulas { by_layer, fused: Fused::InTurn, rows_are_inputs: true, ..f })
}

fn gpt_bigcode(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let activation = (&["activation_function"][..], "gelu_pytorch_tanh");
    let f = scaled(c, with_mean(base(&Defaults::older(activation))?));
    Ok(match c.flag("multi_query").unwrap_or(true) {
        true => Formulas { kv_heads: 1, fused: Fused::InTurn, ..f },
        false => Formulas { fused: Fused::ByKey, ..f },
    })
}

fn gpt_neo(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let mut f = with_mean(base(&Defaults::older(NEW_GELU))?);
    let names = Names {
        qkv: ["attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"],
        o: "attn.attention.out_proj",
        ..GPT2
    };
    let size = c.size("window_size").unwrap_or(256);
    let kinds = c.words("attention_layers").unwrap_or_default();
    if kinds.len() != f.each.len() {
        return Err("`attention_layers` has not a word for each layer".to_owned());
    }
    for (each, kind) in f.each.iter_mut().zip(kinds) {
        each.window = Some(size).filter(|_| kind == "local");
    }
    Ok(Formulas { scale: 1.0, mlp: C_FC, names, ..f })
}

fn bloom(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    if c.flag("apply_residual_connection_post_layernorm") == Some(true) {
        return Err("branches are added to norms".to_owned());
    }
    let f = with_mean(base(&Defaults::older((&[], "gelu_pytorch_tanh")))?);
    Ok(Formulas { fused: Fused::ByKey, alibi: 1.0, mlp: FOURFOLD, names: FUSED, ..f })
}

fn mpt(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let f = with_mean(base(&Defaults::older((&[], "gelu")))?);
    let attention = c.inside("attn_config").unwrap_or_default();
    if attention.number("alibi_bias_max").is_some_and(|most| most != 8.0) {
        return Err("slopes of positions are not the usual ones".to_owned());
    }
    let names = Names {
        layers: "blocks",
        norm: "norm_1",
        mlp_norm: "norm_2",
        all: "attn.Wqkv",
        o: "attn.out_proj",
        ..GPT2
    };
    Ok(Formulas {
        fused: Fused::InTurn,
        alibi: 1.0,
        clip: attention.number("clip_qkv"),
        scale: attention.number("softmax_scale").unwrap_or(f.scale),
        mlp: Mlp::Plain { up: "ffn.up_proj", down: "ffn.down_proj" },
        names,
        ..f
    })
}

fn opt(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    if c.flag("do_layer_norm_before") == Some(false) {
        return Err("norms stand behind sums".to_owned());
    }
    // The file has no say in the epsilon.
    let d = Defaults::older((&["activation_function"], "relu")).with_epsilon(("", 1e-5));
    let names = Names {
        prefixes: &["model.decoder.", "decoder."],
        norm: "self_attn_layer_norm",
        mlp_norm: "final_layer_norm",
        o: "self_attn.out_proj",
        ..NAMES
    };
    let mlp = Mlp::Plain { up: "fc1", down: "fc2" };
    Ok(Formulas { mlp, names, ..with_mean(base(&d)?) })
}

pub(super) fn gpt_neox(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let usual = Usual {
        theta: c.number("rotary_emb_base").unwrap_or(10000.0),
        share: c.number("rotary_pct").unwrap_or(0.25),
        ..HALVES
    };
    let d = Defaults::older((&["hidden_act"], "gelu")).turning(Some(usual));
    let f = with_mean(base(&d.with_epsilon(("layer_norm_eps", 1e-5)))?);
    let is_side = c.flag("use_parallel_residual").unwrap_or(true);
    let names = Names {
        prefixes: &["gpt_neox.", ""],
        layers: "layers",
        all: "attention.query_key_value",
        o: "attention.dense",
        ..NAMES
    };
    Ok(Formulas {
        flow: if is_side { Flow::SideByTwo } else { Flow::Serial },
        fused: Fused::ByKey,
        mlp: FOURFOLD,
        names,
        ..f
    })
}

pub(super) fn gptj(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let mut f = with_mean(base(&Defaults::older(NEW_GELU))?);
    let size = match c.has("rotary_dim") {
        true => c.size("rotary_dim").unwrap_or(f.head),
        false => 64,
    };
    f.turns = vec![plain(size, NEIGHBOURS)];
    f.each.iter_mut().for_each(|each| each.turn = Some(0));
    let names = Names {
        qkv: ["attn.q_proj", "attn.k_proj", "attn.v_proj"],
        all: "attn.qkv_proj",
        o: "attn.out_proj",
        ..GPT2
    };
    Ok(Formulas {
        flow: Flow::Side,
        fused: if kind == "codegen" { Fused::ByQuarter } else { Fused::No },
        mlp: Mlp::Plain { up: "mlp.fc_in", down: "mlp.fc_out" },
        names,
        ..f
    })
}

pub(super) fn falcon(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let is_new = c.flag("new_decoder_architecture") == Some(true);
    let has_alibi = c.flag("alibi") == Some(true);
    let turns = Some(HALVES).filter(|_| !has_alibi);
    let d = Defaults::older((&["activation"], "gelu")).turning(turns);
    let mut f = with_mean(base(&d)?);
    f.kv_heads = match (is_new, c.flag("multi_query").unwrap_or(true)) {
        (true, _) => c.size("num_kv_heads").unwrap_or(f.heads),
        (false, true) => 1,
        (false, false) => f.heads,
    };
    // Slopes are scaled with scores.
    f.alibi = if has_alibi { f.scale } else { 0.0 };
    let has_two = is_new && c.size("num_ln_in_parallel_attn").unwrap_or(2) == 2;
    let names = match has_two {
        true => Names { norm: "ln_attn", mlp_norm: "ln_mlp", ..FUSED },
        false => FUSED,
    };
    let flow = match is_new || c.flag("parallel_attn").unwrap_or(true) {
        true if has_two => Flow::SideByTwo,
        true => Flow::Side,
        false => Flow::Serial,
    };
    Ok(Formulas { flow, fused: Fused::ByKey, mlp: FOURFOLD, names, ..f })
}
