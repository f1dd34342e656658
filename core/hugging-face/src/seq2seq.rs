//! Models that read a sequence and write another one, as data. An encoder reads all of it; a decoder writes token by
//! token, and looks at what the encoder gives and at what it wrote before.

mod attention;
mod embedding;
mod families;
mod graph;
mod net;
mod positions;
mod states;

pub(crate) use families::{Family, named};
pub(crate) use states::States;

use crate::layers::Activation;

/// An encoder with its decoder.
#[derive(Clone, Debug)]
pub(crate) struct EncoderDecoder {
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) hidden: usize,
    /// Elements of a head.
    pub(crate) head: usize,
    /// What scores are multiplied by.
    pub(crate) scale: f64,
    pub(crate) encoder: Stack,
    pub(crate) decoder: Stack,
    /// What the encoder reads.
    pub(crate) source: Source,
    /// Words that the decoder reads and writes.
    pub(crate) words: usize,
    pub(crate) embedding: Embedding,
    pub(crate) norm: Norm,
    pub(crate) activation: Activation,
    /// What the last state of the decoder is multiplied by.
    pub(crate) logits_scale: f64,
    /// Name of the layer that gives logits, and whether there is one.
    pub(crate) lm_head: &'static str,
    pub(crate) whose_head: Head,
}

/// What gives logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Head {
    /// The table of words.
    OfWords,
    /// A layer.
    Own,
    /// A layer if the checkpoint has it, else the table.
    OwnIfThere,
}

/// Layers that follow each other, and names of their weights behind those of the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// Name of the stack: `encoder`.
    pub(crate) name: &'static str,
    /// Name of its list of layers.
    pub(crate) list: &'static str,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) attention: AttentionNames,
    /// Attention to what the encoder gives.
    pub(crate) cross: Option<AttentionNames>,
    /// Norm of the MLP, what gates it if anything does, and its two layers.
    pub(crate) mlp_norm: &'static str,
    pub(crate) gate: Option<&'static str>,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) positions: Positions,
    /// Norm of what the stack gives.
    pub(crate) final_norm: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionNames {
    pub(crate) norm: &'static str,
    pub(crate) q: &'static str,
    pub(crate) k: &'static str,
    pub(crate) v: &'static str,
    pub(crate) o: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Words of a vocabulary of this size.
    Words(usize),
    /// The spectrum of sound: bands, and positions behind two convolutions, of which the second halves the frames.
    Sound { bands: usize, positions: usize },
}

/// How tokens know where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Positions {
    /// A table, whose row `first` is of the first position. Without it, sines and cosines.
    Table { rows: usize, first: usize, is_sinusoidal: bool },
    /// Scores change by how far a key is: a table of buckets of distances, which the first layer has.
    Relative { buckets: usize, furthest: usize },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedding {
    /// Name of the table of both stacks; without it, each has its own.
    pub(crate) shared: Option<&'static str>,
    pub(crate) scale: f64,
    /// Norm behind the positions.
    pub(crate) norm: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    /// Whether the root of the mean square is all of it.
    pub(crate) is_rms: bool,
    pub(crate) epsilon: f64,
    /// Whether branches are normed before they are computed, and not after they were added.
    pub(crate) is_first: bool,
}

#[cfg(test)]
mod tests;
