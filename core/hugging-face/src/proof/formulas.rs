//! What the layers of a decoder compute, as plain formulas: Llama's, and what families do otherwise.

use super::packed::Packing;
use super::rotary::Turn;

/// Where norms stand between the branches of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flow {
    /// `x += attention(norm(x)); x += mlp(norm(x))`
    Serial,
    /// The same with norms of what the branches give, too.
    Between,
    /// `x += norm(attention(x)); x += norm(mlp(x))`
    Behind,
    /// `x += attention(norm(x)) + mlp(norm(x))` by one norm.
    Side,
    /// The same by a norm each.
    SideByTwo,
}

/// The order of outputs where queries, keys and values come from one weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fused {
    No,
    /// All queries, all keys, all values.
    InTurn,
    /// By key: its queries, the key, its value.
    ByKey,
    /// By quarter of the heads: queries, values, keys.
    ByQuarter,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HeadNorm {
    No,
    /// Of each head by the same weights.
    Alike,
    /// Of each head by weights of its own, in one tensor.
    Own,
    /// The same in a tensor for each head.
    Listed,
    /// Of all heads together.
    Together,
}

/// How a norm uses its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Weighted {
    /// It has none.
    No,
    By,
    /// They say by how much they differ from 1.
    ByOneMore,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Norm {
    pub(super) subtracts_mean: bool,
    pub(super) weighted: Weighted,
    pub(super) epsilon: f64,
}

/// An MLP by the names of its weights.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mlp {
    /// `down(f(gate(x)) * up(x))`
    Gated { gate: &'static str, up: &'static str, down: &'static str },
    /// The same with gate before up in one weight.
    InOne { gate_up: &'static str, down: &'static str },
    /// `down(f(up(x)))`
    Plain { up: &'static str, down: &'static str },
}

pub(super) const GATED: Mlp =
    Mlp::Gated { gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj" };

/// Experts, of which those with the greatest shares count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Experts {
    pub(super) count: usize,
    pub(super) chosen: usize,
    /// Whether the shares of those are divided by their sum.
    pub(super) divided: bool,
    pub(super) router: &'static str,
    pub(super) weights: ExpertWeights,
    /// An expert for all tokens: what says how much it counts, and its gate, up and down.
    pub(super) shared: Option<[&'static str; 4]>,
}

/// Names of the weights of experts.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExpertWeights {
    /// What stands before the number of an expert, and gate, up and down behind it.
    Each([&'static str; 4]),
    /// All experts in one: gate before up, and down.
    Stacked([&'static str; 2]),
    /// The same with gate and up apart.
    StackedApart([&'static str; 3]),
}

/// Sizes of the small vectors that keys and values come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latent {
    /// Whether queries come from one, too.
    pub(super) of_queries: bool,
    pub(super) keys: usize,
    /// The last elements of a head, which turn.
    pub(super) turning: usize,
}

/// What layers differ in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Each {
    /// Keys that a query sees, itself included.
    pub(super) window: Option<usize>,
    /// Which of the rotations it turns by.
    pub(super) turn: Option<usize>,
    pub(super) has_experts: bool,
}

#[derive(Clone)]
pub(super) struct Formulas {
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    /// Elements of a head, and of its value.
    pub(super) head: usize,
    pub(super) value: usize,
    /// Where keys and values come from small vectors.
    pub(super) latent: Option<Latent>,
    pub(super) norm: Norm,
    pub(super) flow: Flow,
    /// What branches are multiplied by.
    pub(super) residual: f64,
    pub(super) fused: Fused,
    pub(super) head_norm: HeadNorm,
    /// Whether heads turn before their norm.
    pub(super) turns_first: bool,
    /// What scores are multiplied by.
    pub(super) scale: f64,
    /// Whether those of layer `i` are divided by `i + 1`.
    pub(super) by_layer: bool,
    pub(super) cap: Option<f64>,
    /// Bound of queries, keys and values.
    pub(super) clip: Option<f64>,
    /// What slopes of scores are multiplied by.
    pub(super) alibi: f64,
    pub(super) turns: Vec<Turn>,
    /// Whether pairs lie half a head apart in the cache of the graph, and side by side in the checkpoint.
    pub(super) cache_has_halves: bool,
    pub(super) each: Vec<Each>,
    pub(super) mlp: Mlp,
    pub(super) experts: Option<Experts>,
    pub(super) activation: fn(f64) -> f64,
    /// Whether weights have a row for each input.
    pub(super) rows_are_inputs: bool,
    pub(super) packing: Packing,
    pub(super) names: Names,
}

/// Names of the parts of a layer.
#[derive(Clone, Copy)]
pub(super) struct Names {
    /// What may stand before the layers.
    pub(super) prefixes: &'static [&'static str],
    pub(super) layers: &'static str,
    /// Norms before attention and before the MLP.
    pub(super) norm: &'static str,
    pub(super) mlp_norm: &'static str,
    /// Norms behind them.
    pub(super) behind: [&'static str; 2],
    pub(super) qkv: [&'static str; 3],
    pub(super) all: &'static str,
    pub(super) o: &'static str,
    pub(super) head_norms: [&'static str; 2],
}

pub(super) const NAMES: Names = Names {
    prefixes: &["model.", ""],
    layers: "layers",
    norm: "input_layernorm",
    mlp_norm: "post_attention_layernorm",
    behind: ["post_attention_layernorm", "post_feedforward_layernorm"],
    qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    all: "self_attn.qkv_proj",
    o: "self_attn.o_proj",
    head_norms: ["self_attn.q_norm", "self_attn.k_norm"],
};

/// The linear layers of attention by small vectors, beside queries in one step.
pub(super) const LATENT_NAMES: [&str; 4] = [
    "self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa",
    "self_attn.kv_b_proj",
];

pub(super) const RMS: Norm = Norm { subtracts_mean: false, weighted: Weighted::By, epsilon: 1e-6 };

impl Formulas {
    /// Elements of queries, and of keys or values.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.heads, self.kv_heads].map(|count| count.saturating_mul(self.head))
    }
}
