//! What a quantization did: the rows of its report.

use crate::observe::Stats;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Graph, Node, verify};
use onnxd_proto::onnxd::{
    Attempt, Counts, Quality, Quantization, QuantizedLayer, QuantizedTensor, Skip,
};

/// How the quantized graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Float operators between `QuantizeLinear` and `DequantizeLinear`.
    Qdq,
    /// Operators on integers.
    QLinear,
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
    /// They are prompts of random tokens, without and with a cache, because there are no data.
    Prompts,
}

/// How near the outputs of the quantized network are to those of the float network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nearness {
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

impl Nearness {
    /// Ratios in the report lie between minus and plus this.
    const DB_MAX: f64 = 300.0;

    /// Puts it into what the report says of the outputs.
    pub fn tell(&self, report: &mut Quality) {
        let limited =
            |(name, db): &(String, f64)| (name.clone(), db.clamp(-Self::DB_MAX, Self::DB_MAX));
        let outputs: Vec<(String, f64)> = self.outputs.iter().map(limited).collect();
        let sum: f64 = outputs.iter().map(|(_, db)| db).sum();
        report.unmeasured.clear();
        (report.outputs, report.samples) = (outputs.len() as u64, self.samples);
        (report.origin, report.error_db) = (self.origin.word().to_owned(), self.error_db);
        if let Some((worst, db)) = outputs.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
            (report.worst, report.worst_db) = (worst, db);
            report.sqnr_db = Some(sum / report.outputs as f64);
        }
    }
}

impl Origin {
    /// As the report says it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Origin::Apart => "apart",
            Origin::Folds => "folds",
            Origin::Calibration => "calibration",
            Origin::Random => "random",
            Origin::Prompts => "prompts",
        }
    }
}

/// Adds to the row of a tensor what was seen of its values.
pub(crate) fn add_seen(row: &mut QuantizedTensor, stats: &Stats) {
    /// Intervals of the counts, at most.
    const INTERVALS: usize = 64;
    let counts = stats.histogram.as_ref().and_then(|h| h.coarse(INTERVALS));
    (row.seen_min, row.seen_max) = stats.extremes.range().unzip();
    row.counts = counts.map(|(low, high, counts)| Counts { low, high, counts });
}

/// What a quantization did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Values that were quantized.
    pub tensors: Vec<QuantizedTensor>,
    /// Nodes that were quantized.
    pub layers: Vec<QuantizedLayer>,
    /// Nodes that were not.
    pub left_in_float: Vec<Skip>,
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
    /// How near the outputs are to those of the float network, and how much was quantized.
    pub quality: Quality,
}

/// What `later` says of outputs, of how much was quantized and of the rest, each as far as it says it; else `own`.
fn joined(own: Quality, later: Quality) -> Quality {
    let says = later.sqnr_db.is_some() || !later.unmeasured.is_empty();
    let (top1_loss, nearest_db) =
        (later.top1_loss.or(own.top1_loss), later.nearest_db.or(own.nearest_db));
    let remedies = [&own.remedies[..], &later.remedies].concat();
    let covered = if later.products.is_some() { &later } else { &own };
    let (products, quantized, weights) = (covered.products, covered.quantized, covered.weights);
    let outputs = if says { later } else { own };
    Quality { products, quantized, weights, top1_loss, nearest_db, remedies, ..outputs }
}

/// Says why the outputs were not compared, in place of what was said of them.
pub fn unmeasured(report: &mut Quality, why: String) {
    *report = Quality {
        sqnr_db: None,
        worst: String::new(),
        worst_db: 0.0,
        outputs: 0,
        samples: 0,
        origin: String::new(),
        error_db: 0.0,
        unmeasured: why,
        ..std::mem::take(report)
    };
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
        self.quality = joined(std::mem::take(&mut self.quality), other.quality);
    }

    /// What the report of a conversion shows of it.
    #[must_use]
    pub fn shown(&self) -> Quantization {
        Quantization {
            compared: self.compared,
            tensors: self.tensors.clone(),
            layers: self.layers.clone(),
            left_in_float: self.left_in_float.clone(),
            statistics: self.statistics.clone(),
            tried: self.tried.clone(),
            quality: Some(self.quality.clone()),
            ..Quantization::default()
        }
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
        self.left_in_float.push(Skip { at: name.to_owned(), reason: reason.into() });
    }
}

/// What params and reports call a node: its name, or what it computes.
#[must_use]
pub fn name_of(graph: &Graph, node: &Node) -> String {
    verify::layer(graph, node).name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(db: f64) -> Nearness {
        Nearness { outputs: vec![("y".into(), db)], samples: 4, ..Nearness::default() }
    }

    #[test]
    fn reports_are_joined_as_far_as_each_says_something() {
        let mut first = Report::default();
        (first.quality.products, first.quality.quantized) = (Some(3), 2);
        first.quality.top1_loss = Some(1.5);
        let mut second = Report::default();
        near(20.0).tell(&mut second.quality);
        first.append(second);
        let Quality { products, quantized, top1_loss, sqnr_db, .. } = first.quality;
        assert_eq!((products, quantized, top1_loss), (Some(3), 2, Some(1.5)));
        assert_eq!(sqnr_db, Some(20.0));
        first.append(Report::default());
        assert_eq!((first.quality.sqnr_db, first.quality.products), (Some(20.0), Some(3)));
    }

    #[test]
    fn outputs_are_measured_or_not() {
        let mut quality = Quality { top1_loss: Some(1.0), ..Quality::default() };
        unmeasured(&mut quality, "no samples".into());
        near(20.0).tell(&mut quality);
        assert!(quality.unmeasured.is_empty() && quality.sqnr_db == Some(20.0));
        unmeasured(&mut quality, "no samples".into());
        let wanted = Quality { unmeasured: "no samples".into(), ..Quality::default() };
        assert_eq!(quality, Quality { top1_loss: Some(1.0), ..wanted });
    }
}
