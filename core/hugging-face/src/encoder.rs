//! An encoder as data: BERT, and what families do otherwise. Functions of the modules here write what it says.

mod attention;
mod embedding;
pub(crate) mod graph;
mod head;
mod layer;
pub(crate) mod places;
mod relative;
mod weights;

use crate::config::rope::Rope;
use crate::layers::Activation;
use places::Places;

/// An encoder: all tokens see each other, and a head gives what the task asks for.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    pub(crate) names: Names,
    pub(crate) vocabulary: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    /// Elements of a head.
    pub(crate) head: usize,
    /// Epsilon of norms.
    pub(crate) epsilon: f64,
    pub(crate) order: Order,
    pub(crate) embedding: Embedding,
    pub(crate) attention: Attention,
    pub(crate) mlp: Mlp,
    pub(crate) layers: Vec<EncoderLayer>,
    /// A convolution over the embeddings, which is added behind the first layer.
    pub(crate) conv: Option<Conv>,
    pub(crate) task: Task,
    pub(crate) tasks: Tasks,
}

/// Names of weights: prefixes of the model in a class with a head, then names in the model and in a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) words: &'static str,
    pub(crate) positions: &'static str,
    pub(crate) types: &'static str,
    pub(crate) embedding_norm: &'static str,
    pub(crate) projection: &'static str,
    pub(crate) q: &'static str,
    pub(crate) k: &'static str,
    pub(crate) v: &'static str,
    /// All three in one.
    pub(crate) qkv: &'static str,
    pub(crate) o: &'static str,
    pub(crate) attention_norm: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) mlp_norm: &'static str,
    /// The norm behind the last layer; empty where there is none.
    pub(crate) final_norm: &'static str,
}

/// Where norms lie in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// `x = norm(x + attention(x)); x = norm(x + mlp(x))`
    After,
    /// `x += attention(norm(x)); x += mlp(norm(x))`
    Before,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedding {
    /// Elements of a word.
    pub(crate) size: usize,
    pub(crate) positions: Positions,
    /// Rows of the table of token types. The graph has an input for them from two rows on.
    pub(crate) types: usize,
    pub(crate) projection: Projection,
    pub(crate) has_norm: bool,
    /// Whether padding becomes zeros.
    pub(crate) is_masked: bool,
}

/// Which row of the table of positions a token has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Positions {
    /// There is no table.
    None,
    /// By its place.
    Places { rows: usize },
    /// The word for padding has its own number, and the others count on from there.
    Words { rows: usize, padding: i64 },
}

/// Where embeddings get the size of hidden states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Projection {
    None,
    BeforeNorm,
    AfterNorm,
}

/// How queries, keys and values lie in one weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fused {
    /// Each has a weight.
    Apart,
    /// All queries, all keys, all values.
    InTurn,
    /// For each head its queries, keys and values; biases of queries and values are tensors of these names.
    Grouped { biases: [&'static str; 2] },
}

#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub(crate) fused: Fused,
    pub(crate) scale: f64,
    pub(crate) relative: Relative,
    /// The rotations that layers choose from.
    pub(crate) ropes: Vec<Rope>,
}

/// What scores have beside the products of queries and keys, by how far keys are.
#[derive(Clone, Debug)]
pub(crate) enum Relative {
    None,
    /// A number for each head, from a table `[rows, heads]` for all layers.
    Bias {
        table: &'static str,
        rows: usize,
        places: Places,
    },
    /// Products of queries, of keys, or of both with the rows of a table.
    Products(Products),
}

#[derive(Clone, Debug)]
pub(crate) struct Products {
    pub(crate) rows: usize,
    pub(crate) places: Places,
    pub(crate) vectors: Vectors,
    /// What they are multiplied by.
    pub(crate) scale: f64,
    pub(crate) of_queries: bool,
    pub(crate) of_keys: bool,
}

/// Where the vectors of distances come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Vectors {
    /// A table `[rows, size of a head]` of each layer, for all heads.
    OfLayer { table: &'static str },
    /// A table `[rows, hidden]`, and in each layer projections for the products with queries and with keys.
    Projected {
        table: &'static str,
        norm: Option<&'static str>,
        keys: &'static str,
        queries: &'static str,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mlp {
    /// Whether the first half of what `up` gives is activated and multiplied by the second.
    pub(crate) is_gated: bool,
    pub(crate) activation: Activation,
    pub(crate) inner: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct EncoderLayer {
    /// What names of its weights begin with. Layers may share weights.
    pub(crate) prefix: String,
    /// How far a key may be, on each side; anywhere where there is none.
    pub(crate) reach: Option<usize>,
    /// Which of the rotations queries and keys turn by.
    pub(crate) rope: Option<usize>,
    /// Whether attention has a norm.
    pub(crate) has_attention_norm: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv {
    pub(crate) name: &'static str,
    pub(crate) norm: &'static str,
    pub(crate) taps: usize,
    pub(crate) groups: usize,
    pub(crate) activation: Activation,
}

/// What a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Task {
    /// The hidden states.
    Features,
    FillMask,
    TextClassification,
    TokenClassification,
    QuestionAnswering,
    /// What the class `...ForPreTraining` gives.
    Pretraining,
    /// Whether the second sentence comes next.
    NextSentence,
}

/// Tasks by their names, and by what names of classes end with.
pub(crate) const TASKS: [(Task, &str, &str); 7] = [
    (Task::Features, "feature-extraction", "Model"),
    (Task::FillMask, "fill-mask", "ForMaskedLM"),
    (Task::TextClassification, "text-classification", "ForSequenceClassification"),
    (Task::TokenClassification, "token-classification", "ForTokenClassification"),
    (Task::QuestionAnswering, "question-answering", "ForQuestionAnswering"),
    (Task::Pretraining, "pretraining", "ForPreTraining"),
    (Task::NextSentence, "next-sentence-prediction", "ForNextSentencePrediction"),
];

/// A dense layer with what follows it, then a linear layer: `out(norm(f(dense(x))))`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) dense: Option<(&'static str, Activation)>,
    pub(crate) norm: Option<&'static str>,
    pub(crate) out: &'static str,
}

/// The heads of a family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks {
    /// The dense layer over the first token that belongs to the model itself.
    pub(crate) pooler: Option<(&'static str, Activation)>,
    /// Scores of words. Its bias has a name of its own.
    pub(crate) words: (Head, &'static str),
    pub(crate) is_tied: bool,
    /// Of a sequence. A head without a dense layer stands behind the pooler.
    pub(crate) sequence: Head,
    pub(crate) tokens: Head,
    pub(crate) spans: Head,
    pub(crate) pretraining: Pretraining,
    /// Whether a sequence is the mean of its tokens, and not its first one.
    pub(crate) is_mean: bool,
    pub(crate) labels: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pretraining {
    None,
    /// A number for each token.
    Discriminator(Head),
    /// Scores of words, and two numbers behind the pooler: the linear layer, and the name of what it gives. They may
    /// say whether the second sentence comes next, and have a class of their own then.
    Words {
        linear: &'static str,
        output: &'static str,
        are_next: bool,
    },
}
