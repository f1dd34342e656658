//! What a quantization did: the rows of its report.

use crate::observe::Stats;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Graph, Node, verify};

/// How the quantized graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Float operators between `QuantizeLinear` and `DequantizeLinear`.
    Qdq,
    /// Operators on integers.
    QLinear,
}

/// A tensor of the quantized graph, for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantizedTensor {
    /// Name of the value.
    pub name: String,
    /// Element type: `int8`. Or what the bits say, if they are fewer than the type has: `4 bits in int8`.
    pub element_type: String,
    /// Real value of one step; one, or one for each channel.
    pub scales: Vec<f64>,
    /// Integers that mean zero, as many as scales; none if all are zero.
    pub zero_points: Vec<i64>,
    /// Smallest and largest real value that is kept.
    pub range: Option<(f64, f64)>,
    /// How the range was found: `max`, `MSE`.
    pub method: String,
    /// Smallest and largest value on calibration data.
    pub seen: Option<(f64, f64)>,
    /// Share of the values on calibration data that lie beyond the range, if it was measured.
    pub clipped: Option<f64>,
    /// How often which values were seen, if they were counted.
    pub counts: Option<Counts>,
}

/// Counts of values in intervals of equal width; a report draws them, so some dozens do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Where the first interval begins.
    pub low: f64,
    /// Where the last one ends.
    pub high: f64,
    /// Values in each.
    pub counts: Vec<u64>,
}

/// A candidate that was tried, for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempt {
    /// What is special about it.
    pub what: String,
    /// Signal-to-noise ratio of the outputs against float on calibration data.
    pub sqnr_db: f64,
    /// Whether the result was made so.
    pub chosen: bool,
}

/// The accumulator of a quantized layer, before rescaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulator {
    /// Largest magnitude that any input can lead to.
    pub max: u64,
    /// Bits that it has, the sign included.
    pub bits_held: u32,
}

impl Accumulator {
    /// Bits that the largest magnitude takes, the sign included.
    #[must_use]
    pub fn bits(&self) -> u32 {
        u64::BITS - self.max.leading_zeros() + 1
    }
}

/// A quantized layer, for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantizedLayer {
    /// Name of the node or layer.
    pub name: String,
    /// Operator of the float graph.
    pub op: String,
    /// What became of it: `QLinearConv`, or how its accumulators are rescaled:
    /// `Single-shift by 9`.
    pub rescaling: String,
    /// Signal-to-noise ratio of its output against float on calibration data, if it was measured.
    pub sqnr_db: Option<f64>,
    /// Name of the tensor that it makes.
    pub output: String,
    /// How large its accumulator can become, if it has one.
    pub accumulator: Option<Accumulator>,
}

/// A node that could have been quantized and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInFloat {
    /// Name of the node, see [`name_of`].
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What the samples that two networks are compared on were used for before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// For nothing: no range and no rounding was made of them.
    Apart,
    /// For ranges of the result. They were measured with ranges of the others (cross-validation).
    Folds,
    /// For ranges or rounding: the result knows them.
    #[default]
    Calibration,
    /// They are random numbers, because there are no data.
    Random,
}

/// How near the outputs of the quantized network are to those of the float network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// Outputs by name, with their signal-to-noise ratios in dB.
    pub outputs: Vec<(String, f64)>,
    /// By how many dB the standard error of few samples lowered that of the worst output; 0 where it
    /// is not known.
    pub error_db: f64,
    /// Samples that both networks ran on.
    pub samples: u64,
    /// What these samples were used for before.
    pub origin: Origin,
}

/// Params that would make outputs better, with what they gained on the same samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// The params, as a file of params has them: `quantization.sqnr_db_min = 20`.
    pub params: String,
    /// Gain of the worst output in dB.
    pub gain_db: f64,
    /// Bytes by which the weights grow.
    pub bytes: i64,
}

/// How much of a network was quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Weighted operators of the float network.
    pub weighted: u64,
    /// Of these, those whose weights was quantized.
    pub quantized: u64,
    /// The share of all weights that was quantized.
    pub weights: f64,
}

impl QuantizedTensor {
    /// Intervals of the counts, at most.
    const INTERVALS: usize = 64;

    /// Adds what was seen of the value.
    pub(crate) fn add_seen(&mut self, stats: &Stats) {
        let counts = stats.histogram.as_ref().and_then(|h| h.coarse(Self::INTERVALS));
        self.seen = stats.extremes.range();
        self.counts = counts.map(|(low, high, counts)| Counts { low, high, counts });
    }
}

/// What a quantization did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Values that was quantized.
    pub tensors: Vec<QuantizedTensor>,
    /// Nodes that were quantized.
    pub layers: Vec<QuantizedLayer>,
    /// Nodes that were not.
    pub left_in_float: Vec<LeftInFloat>,
    /// Where ranges come from, if not from samples.
    pub statistics: String,
    /// Candidates that were tried.
    pub tried: Vec<Attempt>,
    /// What a user should know besides.
    pub notes: Vec<Diagnostic>,
    /// Facts by key.
    pub metadata: Vec<(String, String)>,
    /// Weighted operators of signed activations whose weights are signed where unsigned ones were
    /// asked for.
    pub signed: usize,
    /// Samples that the float and the quantized graph ran side by side on, layer by layer.
    pub compared: u64,
    /// How near the outputs are to those of the float network, or why that was not measured.
    pub quality: Option<Result<Quality, String>>,
    /// How much of the network was quantized.
    pub coverage: Option<Coverage>,
    /// Percent of the samples that lose their class.
    pub top1_loss: Option<f64>,
    /// Params that would make outputs better, in the order of their price.
    pub remedies: Vec<Remedy>,
    /// The worst output with weights of few bits that are rounded to the nearest, in dB.
    pub nearest_db: Option<f64>,
}

impl Report {
    /// Adds what another one says.
    pub fn append(&mut self, other: Report) {
        self.tensors.extend(other.tensors);
        self.layers.extend(other.layers);
        self.left_in_float.extend(other.left_in_float);
        self.notes.extend(other.notes);
        self.metadata.extend(other.metadata);
        self.tried.extend(other.tried);
        self.signed += other.signed;
        self.compared = self.compared.max(other.compared);
        if !other.statistics.is_empty() {
            self.statistics = other.statistics;
        }
        self.quality = other.quality.or(self.quality.take());
        self.coverage = other.coverage.or(self.coverage);
        self.top1_loss = other.top1_loss.or(self.top1_loss);
        self.remedies.extend(other.remedies);
        self.nearest_db = other.nearest_db.or(self.nearest_db);
    }

    /// The whole report, with `notes` of what was done before in front of its own.
    #[must_use]
    pub fn finish(mut self, mut notes: Vec<Diagnostic>) -> Report {
        let mut note = |text: String| notes.push(Diagnostic::new(Code::QuantizationLoss, text));
        if self.layers.is_empty() {
            let text = "nothing was quantized: the model has no product with constant weights that \
                        the params choose";
            note(text.to_owned());
        }
        if self.signed > 0 {
            note(format!(
                "no kernel multiplies signed activations by unsigned weights: the weights of {} \
                 products are signed",
                self.signed
            ));
        }
        notes.append(&mut self.notes);
        Report { notes, ..self }
    }

    /// Adds a fact.
    pub fn fact(&mut self, key: &str, value: impl Into<String>) {
        self.metadata.push((key.to_owned(), value.into()));
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
