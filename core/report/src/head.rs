//! What a report says first: the verdict and the figures that a person asks for.

use crate::format::{bytes, decibels, line, seconds};
use crate::models::{ModelPart, compared_outputs, models, output_quality, worst_layer};
use onnxd_proto::onnxd::{FileDigest, FileRole, Report, Verdict};

/// How good the news is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warn,
    Bad,
}

/// The head of all views.
pub(crate) struct Head {
    /// `succeeded with findings`.
    pub(crate) verdict: String,
    pub(crate) tone: Tone,
    pub(crate) summary: String,
    /// Figures: what, and how much.
    pub(crate) facts: Vec<(&'static str, String)>,
}

/// The verdict in words.
pub(crate) fn verdict(report: &Report) -> String {
    report.verdict().as_str_name().replace('_', " ")
}

pub(crate) fn head(report: &Report) -> Head {
    let tone = match report.verdict() {
        Verdict::Succeeded => Tone::Good,
        Verdict::Failed => Tone::Bad,
        _ => Tone::Warn,
    };
    let mut facts = Vec::new();
    if tone != Tone::Bad {
        facts.push(("quality", quality(report)));
        facts.extend(size(report).map(|size| ("size", size)));
    }
    let spent: f64 = report.stages.iter().map(|s| s.seconds).sum();
    if !report.stages.is_empty() {
        facts.push(("time", seconds(spent)));
    }
    if report.attempt > 1 {
        facts.push(("attempt", report.attempt.to_string()));
    }
    Head { verdict: verdict(report), tone, summary: line(&report.summary), facts }
}

/// How near the written models are to what they were made of, as far as anything measured it: the worst of them.
fn quality(report: &Report) -> String {
    let models = models(report);
    match (quantized(&models), reference(&models)) {
        (Some(quantized), Some(reference)) => format!("{quantized}; {reference}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if models.iter().any(|model| model.quantization.is_some()) => {
            "quantized; nothing measured it".into()
        }
        (None, None) => "float; no reference outputs to compare with".into(),
    }
}

/// The worst output.
fn reference(models: &[ModelPart]) -> Option<String> {
    let outputs = compared_outputs(models);
    let (model, _, worst) = outputs.min_by(|a, b| a.2.sqnr_db.total_cmp(&b.2.sqnr_db))?;
    let verdict = if worst.within { "within" } else { "outside" };
    let (name, db) = (line(&worst.output) + &model.of_file(), ratio(worst.sqnr_db));
    Some(format!("{db} against the reference, {verdict} the tolerance (output {name})"))
}

/// The outputs of a whole model, and the worst layer.
fn quantized(models: &[ModelPart]) -> Option<String> {
    let mut told = output_quality(models);
    told.extend(worst_layer(models).map(|(model, layer, db)| {
        let name = line(&layer.name) + &model.of_file();
        format!("worst layer {} against float ({name})", ratio(db))
    }));
    (!told.is_empty()).then(|| told.join("; "))
}

/// A ratio with its unit; what is equal has no noise.
fn ratio(db: f64) -> String {
    if db == f64::INFINITY { "equal".to_owned() } else { format!("{} dB", decibels(db)) }
}

/// The network and its weights before, the model and its weights after.
fn size(report: &Report) -> Option<String> {
    let sum = |files: &[FileDigest], roles: &[FileRole]| -> u64 {
        let of = files.iter().filter(|f| roles.contains(&f.role()));
        of.map(|f| f.bytes).sum()
    };
    let before = sum(&report.source, &[FileRole::Network, FileRole::Weights, FileRole::Other]);
    let after = sum(&report.outputs, &[FileRole::Model, FileRole::ExternalData]);
    if before == 0 || after == 0 {
        return None;
    }
    let share = 100.0 * after as f64 / before as f64;
    Some(format!("{} -> {} ({share:.0} %)", bytes(before), bytes(after)))
}
