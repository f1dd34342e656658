//! What a report says first: the verdict and the figures that a person asks for.

use crate::format::{bytes, decibels, line, seconds};
use crate::sections::outputs;
use onnxd_proto::onnxd::{FileDigest, FileRole, Quantization, Report, Verdict};

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

/// How near the written model is to what it was made of, as far as anything measured it.
fn quality(report: &Report) -> String {
    let quantized = report.quantization.as_ref().and_then(layers);
    match (quantized, reference(report)) {
        (Some(layers), Some(reference)) => format!("{layers}; {reference}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if report.quantization.is_some() => "quantized; nothing measured it".into(),
        (None, None) => "float; no reference outputs to compare with".into(),
    }
}

/// The worst output.
fn reference(report: &Report) -> Option<String> {
    let numerics = report.numerics.as_ref()?;
    let worst = numerics.outputs.iter().min_by(|a, b| a.sqnr_db.total_cmp(&b.sqnr_db))?;
    let verdict = if worst.within { "within" } else { "outside" };
    let (name, db) = (line(&worst.output), ratio(worst.sqnr_db));
    Some(format!("{db} against the reference, {verdict} the tolerance (output {name})"))
}

/// The outputs of the whole network, and the worst layer; layers are listed worst first.
fn layers(quantization: &Quantization) -> Option<String> {
    let worst = quantization.layers.iter().find_map(|l| Some((&l.name, l.sqnr_db?)));
    let worst =
        worst.map(|(name, db)| format!("worst layer {} against float ({})", ratio(db), line(name)));
    let whole = quantization.quality.as_ref().map(outputs);
    let told: Vec<String> = [whole, worst].into_iter().flatten().collect();
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
