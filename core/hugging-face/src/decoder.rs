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
pub struct Decoder {
    /// How its weights are called.
    pub names: Names,
    /// Words that tokens stand for.
    pub vocabulary: usize,
    /// Elements of the vector of a token.
    pub hidden: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head: usize,
    /// Elements of the value of a head.
    pub value: usize,
    /// All norms but those of heads.
    pub norm: Norm,
    /// Where they lie.
    pub order: Order,
    /// How tokens become vectors.
    pub embedding: Embedding,
    /// How tokens see each other.
    pub attention: Attention,
    /// The rotations that layers choose from.
    pub ropes: Vec<Rope>,
    /// What each token passes through by itself.
    pub mlp: Mlp,
    /// Of layers with a state.
    pub state: Option<StateSpace>,
    /// What layers differ in.
    pub layers: Vec<DecoderLayer>,
    /// What each branch is multiplied by before it is added.
    pub residual: f64,
    /// How logits come about.
    pub head_of_words: Logits,
    /// Whether linear weights have their inputs first (Conv1D).
    pub inputs_first: bool,
}

/// Names of weights: prefixes of the model in a class with a head, then names in the model and in a layer.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// What names may have in front, the longest first.
    pub prefixes: &'static [&'static str],
    /// The table of words.
    pub embedding: &'static str,
    /// The table of positions, if there is one.
    pub positions: &'static str,
    /// The norm of what comes out of both.
    pub embedding_norm: &'static str,
    /// The list of layers.
    pub layers: &'static str,
    /// The norm before attention; in parallel order, the one of both branches.
    pub norm: &'static str,
    /// The norm before the MLP.
    pub mlp_norm: &'static str,
    /// The norm of what attention gives.
    pub after_attention: &'static str,
    /// The norm of what the MLP gives.
    pub after_mlp: &'static str,
    /// Queries.
    pub q: &'static str,
    /// Keys.
    pub k: &'static str,
    /// Values.
    pub v: &'static str,
    /// All three in one.
    pub qkv: &'static str,
    /// What comes out of attention.
    pub o: &'static str,
    /// The norm of queries.
    pub q_norm: &'static str,
    /// The norm of keys.
    pub k_norm: &'static str,
    /// Scores that lead nowhere.
    pub sinks: &'static str,
    /// The gate of the MLP.
    pub gate: &'static str,
    /// The layer beside the gate.
    pub up: &'static str,
    /// Both in one.
    pub gate_up: &'static str,
    /// The layer behind them.
    pub down: &'static str,
    /// The norm before the logits.
    pub final_norm: &'static str,
    /// The layer that gives the logits.
    pub lm_head: &'static str,
}

/// A kind of norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormKind {
    /// The root of the mean square alone.
    Rms,
    /// Mean and variance.
    Layer,
    /// As `Layer`, without weights.
    Bare,
}

/// A norm.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// What is taken out.
    pub kind: NormKind,
    /// What is added to the mean square.
    pub epsilon: f64,
    /// Whether weights say by how much they differ from 1.
    pub plus_one: bool,
}

/// Where norms lie in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
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

/// How tokens become vectors.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// What vectors of words are multiplied by.
    pub scale: f64,
    /// Rows of the table of positions, and the row of the first one.
    pub positions: Option<(usize, usize)>,
    /// Whether a norm follows.
    pub has_norm: bool,
}

/// How queries, keys and values lie in one weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fused {
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
pub enum HeadNorm {
    /// None.
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

/// How tokens see each other.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// How the weights of queries, keys and values lie.
    pub fused: Fused,
    /// What scores are multiplied by.
    pub scale: f64,
    /// Whether tokens see only those before them.
    pub is_causal: bool,
    /// Whether scores of layer `i` are divided by `i + 1`, too.
    pub by_layer: bool,
    /// Norms of queries and keys.
    pub head_norm: HeadNorm,
    /// Whether these come after heads have turned.
    pub norm_after_turn: bool,
    /// Scores are kept within this bound by a tangent.
    pub cap: Option<f64>,
    /// Queries, keys and values are cut at this bound.
    pub clip: Option<f64>,
    /// What the slopes of scores by how far keys are is multiplied by; 0 where there are none.
    pub alibi: f64,
    /// Whether each head has a further score that leads nowhere.
    pub has_sinks: bool,
    /// Where keys and values come from small vectors.
    pub latent: Option<Latent>,
}

/// Sizes of the small vectors that queries, and keys with values, come from.
#[derive(Clone, Copy, Debug)]
pub struct Latent {
    /// Of queries; they come from the hidden vector where there is none.
    pub query: Option<usize>,
    /// Of keys and values.
    pub keys: usize,
    /// Elements of a head that turn; they are its last ones.
    pub turning: usize,
}

/// A kind of MLP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MlpKind {
    /// `down(f(gate(x)) * up(x))`
    Gated,
    /// The same with gate and up in one weight.
    GatedInOne,
    /// `down(f(up(x)))`
    Plain,
}

/// What each token passes through by itself.
#[derive(Clone, Debug)]
pub struct Mlp {
    /// How it is made of layers.
    pub kind: MlpKind,
    /// What is applied in it.
    pub activation: Activation,
    /// Elements inside.
    pub inner: usize,
    /// Experts in place of it, or beside it.
    pub experts: Option<Experts>,
    /// Whether it is added to what experts give.
    pub beside_experts: bool,
}

/// How experts get their weights from scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Router {
    /// Softmax over all, then the greatest; these are divided by their sum or not.
    SoftmaxFirst { divided: bool },
    /// The greatest, then softmax over these.
    SoftmaxLast,
    /// The greatest of the best groups, by softmax or, where there is a correction of the choice, by sigmoid.
    Grouped { groups: usize, chosen: usize, is_corrected: bool, divided: bool, scale: f64 },
}

/// How the weights of experts lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExpertWeights {
    /// Names with the number of the expert for gate, up and down.
    Each { gate: &'static str, up: &'static str, down: &'static str },
    /// One tensor for all: gate before up, and down.
    Stacked { gate_up: &'static str, down: &'static str },
    /// The same with inputs first, gate and up in turn, biases, and bounds: of gpt_oss.
    Alternating { bound: f64, alpha: f64 },
}

/// MLPs of which each token takes a few.
#[derive(Clone, Copy, Debug)]
pub struct Experts {
    /// How many there are.
    pub count: usize,
    /// How many a token takes.
    pub chosen: usize,
    /// Elements inside one.
    pub inner: usize,
    /// How they are chosen.
    pub router: Router,
    /// The name of the layer that scores them.
    pub router_name: &'static str,
    /// How their weights lie.
    pub weights: ExpertWeights,
    /// Name and inner size of an expert that all tokens go to, and the name of its gate.
    pub shared: Option<(&'static str, usize, &'static str)>,
}

/// What layers differ in.
#[derive(Clone, Copy, Debug)]
pub struct DecoderLayer {
    /// How many keys a query sees, itself included; all where there is none.
    pub window: Option<usize>,
    /// Which of the rotations queries and keys turn by.
    pub rope: Option<usize>,
    /// Whether it has experts.
    pub has_experts: bool,
    /// How it mixes tokens.
    pub mixer: Mixer,
}

/// How a layer mixes tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixer {
    /// By attention.
    Attention,
    /// A convolution over so many taps.
    Conv(usize),
    /// A state that each token changes.
    State,
}

/// A state that each token lets decay and adds to, and the convolution before it.
#[derive(Clone, Copy, Debug)]
pub struct StateSpace {
    /// What names of its weights begin with in a layer.
    pub name: &'static str,
    /// How it decays.
    pub kind: StateKind,
    /// Channels of what the state reads and gives.
    pub inner: usize,
    /// Elements of the state of a channel.
    pub size: usize,
    /// Taps of the convolution.
    pub taps: usize,
    /// What follows it.
    pub activation: Activation,
}

/// How a state decays.
#[derive(Clone, Copy, Debug)]
pub enum StateKind {
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

/// How logits come about.
#[derive(Clone, Copy, Debug)]
pub struct Logits {
    /// Whether the embedding gives the logits.
    pub is_tied: bool,
    /// What they are multiplied by.
    pub scale: f64,
    /// They are kept within this bound by a tangent.
    pub cap: Option<f64>,
    /// Whether the last norm is left out.
    pub without_norm: bool,
}
