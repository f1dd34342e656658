//! A decoder as data: Llama, and what families do otherwise. Functions of the modules here write what it says.

mod attention;
mod conv;
pub(crate) mod genai;
pub(crate) mod graph;
mod grouped;
mod latent;
mod mask;
mod mlp;
mod moe;
mod norm;
pub(crate) mod rotary;
mod shared;
mod state;
pub(crate) mod states;
mod tables;
mod weights;

use crate::config::rope::Rope;
use crate::layers::{Activation, OPERATORS};

/// A decoder.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    pub(crate) names: Names,
    pub(crate) vocabulary: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    /// Elements of a head.
    pub(crate) head: usize,
    /// Elements of the value of a head.
    pub(crate) value: usize,
    pub(crate) norm: Norm,
    pub(crate) order: Order,
    pub(crate) embedding: Embedding,
    pub(crate) attention: Attention,
    /// The rotations that layers choose from.
    pub(crate) ropes: Vec<Rope>,
    pub(crate) mlp: Mlp,
    /// Of layers with a state.
    pub(crate) state: Option<StateSpace>,
    /// What layers differ in.
    pub(crate) layers: Vec<DecoderLayer>,
    /// What each branch is multiplied by before it is added.
    pub(crate) residual: f64,
    pub(crate) head_of_words: Logits,
    /// Whether linear weights have their inputs first (Conv1D).
    pub(crate) inputs_first: bool,
}

/// Names of weights: prefixes of the model in a class with a head, then names in the model and in a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) embedding: &'static str,
    pub(crate) positions: &'static str,
    pub(crate) embedding_norm: &'static str,
    pub(crate) layers: &'static str,
    /// The norm before attention; in parallel order, the one of both branches.
    pub(crate) norm: &'static str,
    /// The norm before the MLP.
    pub(crate) mlp_norm: &'static str,
    /// Norms of what branches give.
    pub(crate) after_attention: &'static str,
    pub(crate) after_mlp: &'static str,
    pub(crate) q: &'static str,
    pub(crate) k: &'static str,
    pub(crate) v: &'static str,
    /// All three in one.
    pub(crate) qkv: &'static str,
    pub(crate) o: &'static str,
    pub(crate) q_norm: &'static str,
    pub(crate) k_norm: &'static str,
    pub(crate) sinks: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    /// Both in one.
    pub(crate) gate_up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) final_norm: &'static str,
    pub(crate) lm_head: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NormKind {
    /// The root of the mean square alone.
    Rms,
    /// Mean and variance.
    Layer,
    /// As `Layer`, without weights.
    Bare,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    pub(crate) kind: NormKind,
    pub(crate) epsilon: f64,
    /// Whether weights say by how much they differ from 1.
    pub(crate) plus_one: bool,
}

/// Where norms lie in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// `x += attention(norm(x)); x += mlp(norm(x))`
    Before,
    /// `x += norm(attention(x)); x += norm(mlp(x))`
    After,
    /// `x += norm(attention(norm(x))); x += norm(mlp(norm(x)))`
    Both,
    /// `x += attention(norm(x))`, without MLP.
    Alone,
    /// `x += attention(norm(x)) + mlp(norm(x))`, by one norm, or by one for each branch.
    Parallel { norms: usize },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedding {
    pub(crate) scale: f64,
    /// Rows of the table of positions, and the row of the first one.
    pub(crate) positions: Option<(usize, usize)>,
    pub(crate) has_norm: bool,
}

/// How queries, keys and values lie in one weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fused {
    /// Each has a weight.
    Apart,
    /// All queries, all keys, all values.
    InTurn,
    /// For each key head: its queries, the key, the value.
    Grouped,
    /// For each quarter of the heads: queries, values, keys.
    Quarters,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HeadNorm {
    None,
    /// Of each head, by the same weights.
    Shared,
    /// Of each head, by weights of its own.
    Own,
    /// The same, in a list of norms: `norms.3.weight`.
    Listed,
    /// Of all heads together.
    Whole,
}

impl HeadNorm {
    /// Whether heads have none of their own.
    fn is_none(self) -> bool {
        matches!(self, HeadNorm::None | HeadNorm::Whole)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    pub(crate) fused: Fused,
    pub(crate) scale: f64,
    /// Whether tokens see only those before them.
    pub(crate) is_causal: bool,
    /// Whether scores of layer `i` are divided by `i + 1`, too.
    pub(crate) by_layer: bool,
    pub(crate) head_norm: HeadNorm,
    /// Whether these come after heads have turned.
    pub(crate) norm_after_turn: bool,
    /// Scores are kept within this bound by a tangent.
    pub(crate) cap: Option<f64>,
    /// Queries, keys and values are cut at this bound.
    pub(crate) clip: Option<f64>,
    /// What the slopes of scores by how far keys are is multiplied by; 0 where there are none.
    pub(crate) alibi: f64,
    /// Whether each head has a further score that leads nowhere.
    pub(crate) has_sinks: bool,
    /// Where keys and values come from small vectors.
    pub(crate) latent: Option<Latent>,
}

/// Sizes of the small vectors that queries, and keys with values, come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latent {
    pub(crate) query: Option<usize>,
    pub(crate) keys: usize,
    /// Elements of a head that turn; they are its last ones.
    pub(crate) turning: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MlpKind {
    /// `down(f(gate(x)) * up(x))`
    Gated,
    /// The same with gate and up in one weight.
    GatedInOne,
    /// `down(f(up(x)))`
    Plain,
}

#[derive(Clone, Debug)]
pub(crate) struct Mlp {
    pub(crate) kind: MlpKind,
    pub(crate) activation: Activation,
    pub(crate) inner: usize,
    pub(crate) experts: Option<Experts>,
    /// Whether it is added to what experts give.
    pub(crate) beside_experts: bool,
}

/// How experts get their weights from scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Router {
    /// Softmax over all, then the greatest; these are divided by their sum or not.
    SoftmaxFirst { divided: bool },
    /// The greatest, then softmax over these.
    SoftmaxLast,
    /// The greatest of the best groups, by softmax or, where there is a correction of the choice, by sigmoid.
    Grouped { groups: usize, chosen: usize, is_corrected: bool, divided: bool, scale: f64 },
}

/// How the weights of experts lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ExpertWeights {
    /// Names with the number of the expert for gate, up and down.
    Each { gate: &'static str, up: &'static str, down: &'static str },
    /// One tensor for all: gate before up, and down.
    Stacked { gate_up: &'static str, down: &'static str },
    /// The same with inputs first, gate and up in turn, biases, and bounds: of gpt_oss.
    Alternating { bound: f64, alpha: f64 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Experts {
    pub(crate) count: usize,
    pub(crate) chosen: usize,
    pub(crate) inner: usize,
    pub(crate) router: Router,
    pub(crate) router_name: &'static str,
    pub(crate) weights: ExpertWeights,
    /// Name and inner size of an expert that all tokens go to, and the name of its gate.
    pub(crate) shared: Option<(&'static str, usize, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DecoderLayer {
    /// How many keys a query sees, itself included; all where there is none.
    pub(crate) window: Option<usize>,
    /// Which of the rotations queries and keys turn by.
    pub(crate) rope: Option<usize>,
    pub(crate) has_experts: bool,
    pub(crate) mixer: Mixer,
}

/// How a layer mixes tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mixer {
    Attention,
    /// A convolution over so many taps.
    Conv(usize),
    /// A state that each token changes.
    State,
}

/// A state that each token lets decay and adds to, and the convolution before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateSpace {
    /// What names of its weights begin with in a layer.
    pub(crate) name: &'static str,
    pub(crate) kind: StateKind,
    /// Channels of what the state reads and gives.
    pub(crate) inner: usize,
    /// Elements of the state of a channel.
    pub(crate) size: usize,
    pub(crate) taps: usize,
    pub(crate) activation: Activation,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StateKind {
    /// Each element of the state of each channel decays by its own rate; time steps come from so few elements.
    Channels {
        rank: usize,
        /// Epsilon of norms without weights of what comes from the input, where there are any.
        norm: Option<f64>,
    },
    /// The state of a head decays by one rate; heads share what goes into it and comes out of it in groups.
    Heads {
        heads: usize,
        groups: usize,
        /// Bounds of time steps.
        bounds: [f64; 2],
        /// Epsilon of the norm of what comes out.
        epsilon: f64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Logits {
    /// Whether the embedding gives the logits.
    pub(crate) is_tied: bool,
    pub(crate) scale: f64,
    pub(crate) cap: Option<f64>,
    /// Whether the last norm is left out.
    pub(crate) without_norm: bool,
}
