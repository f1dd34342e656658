//! What a quantization did, for the report.

use crate::observe::Stats;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::{DataType, Graph, Node, verify};
use std::collections::BTreeMap;

/// How the quantized graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Float operators between `QuantizeLinear` and `DequantizeLinear`.
    Qdq,
    /// Operators on integers.
    QLinear,
}

/// A value that became integers.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedTensor {
    /// Name of the float value.
    pub name: String,
    /// Element type of the integers.
    pub dtype: DataType,
    /// Real value of one step; one, or one for each channel. None where each block or run has its
    /// own.
    pub scales: Vec<f64>,
    /// Integers that mean zero, as many as scales; none if all are zero.
    pub zero_points: Vec<i64>,
    /// Smallest and largest real value that is kept.
    pub range: Option<(f64, f64)>,
    /// How scales were found: `min-max`, `MSE`.
    pub method: String,
}

/// A node that computes with integers, or with weights that are.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedLayer {
    /// Name of the node, see [`name_of`].
    pub name: String,
    /// Operator of the float graph.
    pub op: String,
    /// What became of it.
    pub written_as: String,
    /// Signal-to-noise ratio of its output against float, if it was measured.
    pub sqnr_db: Option<f64>,
}

/// A node that could have been quantized and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInFloat {
    /// Name of the node, see [`name_of`].
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A way to quantize that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// What is special about it.
    pub what: String,
    /// Signal-to-noise ratio of the outputs against float.
    pub sqnr_db: f64,
    /// Whether the result was made so.
    pub chosen: bool,
}

/// What was seen of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Smallest and largest value.
    pub range: Option<(f64, f64)>,
    /// Where counts begin and end, and the counts, in intervals of equal width.
    pub counts: Option<(f64, f64, Vec<u64>)>,
}

impl Seen {
    /// Intervals of the counts, at most.
    const INTERVALS: usize = 64;

    /// The part of statistics that a report shows.
    #[must_use]
    pub fn of(stats: &Stats) -> Seen {
        let counts = stats.histogram.as_ref().and_then(|h| h.coarse(Seen::INTERVALS));
        Seen { range: stats.extremes.range(), counts }
    }
}

/// What a quantization did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// Values that became integers.
    pub tensors: Vec<QuantizedTensor>,
    /// Nodes that were quantized.
    pub layers: Vec<QuantizedLayer>,
    /// Nodes that were not.
    pub left_in_float: Vec<LeftInFloat>,
    /// What was seen of the values that became integers, by name.
    pub seen: BTreeMap<String, Seen>,
    /// Where ranges come from, if not from samples.
    pub statistics: String,
    /// Ways that were tried.
    pub tried: Vec<Attempt>,
    /// What a user should know besides.
    pub notes: Vec<Diagnostic>,
    /// Products of signed activations whose weights are signed where unsigned ones were asked for.
    pub signed: usize,
}

impl Done {
    /// Adds what was done to another graph.
    pub fn append(&mut self, other: Done) {
        self.tensors.extend(other.tensors);
        self.layers.extend(other.layers);
        self.left_in_float.extend(other.left_in_float);
        self.notes.extend(other.notes);
        self.signed += other.signed;
    }

    /// Adds a node that stays as it is.
    pub fn leave(&mut self, name: &str, reason: impl Into<String>) {
        self.left_in_float.push(LeftInFloat { name: name.to_owned(), reason: reason.into() });
    }
}

/// What params and reports call a node: its name, or what it computes.
#[must_use]
pub fn name_of(graph: &Graph, node: &Node) -> String {
    verify::layer(graph, node).name
}
