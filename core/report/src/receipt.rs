//! `receipt.txt`: at most ten plain lines that answer whoever dropped the network.
//!
//! What was recognised, the result or the reason in one sentence, what to do next, the job's id.

use crate::format::{bytes, line, made_by, real};
use crate::head::verdict;
use crate::sections::outputs;
use onnxd_diagnostics::Severity;
use onnxd_proto::onnxd::{Diagnostic, FileRole, Quality, Report, Verdict};

/// Most lines of a receipt.
pub const LINES_MAX: usize = 10;

/// The receipt, one `key: value` per line.
#[must_use]
pub fn receipt(report: &Report) -> String {
    let failed = report.verdict() == Verdict::Failed;
    let mut lines = vec![format!("onnxd {}: {}", made_by(report), line(&report.name))];
    lines.push(format!("recognised: {}", recognised(report)));
    lines.push(format!("result: {}", verdict(report)));
    let findings = || report.diagnostics.iter().filter(is_finding);
    match findings().next() {
        Some(first) => {
            lines.push(format!("reason: {}", sentence(first)));
            let more = findings().count() - 1;
            if more > 0 {
                lines.push(format!("further findings: {more}, see report.txt"));
            }
        }
        None if !report.summary.is_empty() => {
            lines.push(format!("summary: {}", line(&report.summary)));
        }
        None => {}
    }
    if !failed {
        lines.extend(report.outputs.iter().find(|f| f.role() == FileRole::Model).map(|f| {
            let digest = f.sha256.get(..16).unwrap_or(&f.sha256);
            let meant = quality(report).map_or("", |q| q.meant_for.as_str());
            let meant =
                if meant.is_empty() { String::new() } else { format!(", for {}", line(meant)) };
            let states = states(report);
            let opset = report.model.as_ref().and_then(|model| model.opset.get(""));
            let opset = opset.map(|opset| format!(", opset {opset}")).unwrap_or_default();
            let from = report.model.as_ref().map_or(0, |model| model.lowered_from);
            let opset = if from > 0 { format!("{opset} (lowered from {from})") } else { opset };
            let (path, size) = (line(&f.path), bytes(f.bytes));
            let more = report.outputs.iter().filter(|f| f.role() == FileRole::Model).skip(1);
            let more: String = more.map(|f| format!(", and {}", line(&f.path))).collect();
            format!("model: {path}, {size}{opset}, sha256 {digest}{meant}{states}{more}")
        }));
        lines.extend(worst_output(report));
        lines.extend(quantized(report));
    }
    lines.push(format!("next: {}", next(report, findings().next())));
    lines.push(format!("job: {}", line(&report.job)));
    debug_assert!(lines.len() <= LINES_MAX);
    lines.join("\n") + "\n"
}

/// Errors and warnings; notes stop nothing.
fn is_finding(diagnostic: &&Diagnostic) -> bool {
    diagnostic.severity() == Severity::Error
}

fn recognised(report: &Report) -> String {
    match &report.recognition {
        Some(r) if !r.frontend.is_empty() => {
            let why = if r.reason.is_empty() { "" } else { ": " };
            format!("{} by {}{why}{}", line(&r.frontend), line(&r.plugin), line(&r.reason))
        }
        _ => "nothing".to_owned(),
    }
}

fn sentence(found: &Diagnostic) -> String {
    let at = match (found.layer.as_str(), found.place.as_str()) {
        ("", "") => String::new(),
        ("", place) => format!(" [{}]", line(place)),
        (layer, "") => format!(" [layer {}]", line(layer)),
        (layer, place) => format!(" [layer {} at {}]", line(layer), line(place)),
    };
    format!("{} {}: {}{at}", line(&found.code), line(&found.class), line(&found.message))
}

fn worst_output(report: &Report) -> Option<String> {
    let numerics = report.numerics.as_ref()?;
    let worst = numerics.outputs.iter().max_by(|a, b| a.max_abs.total_cmp(&b.max_abs))?;
    let (name, max_abs, db) = (line(&worst.output), real(worst.max_abs), real(worst.sqnr_db));
    let on = if numerics.inputs.is_empty() { "" } else { " on " };
    let on = format!("{on}{}", line(&numerics.inputs));
    Some(format!("against the reference{on}: {name} differs by at most {max_abs}, SQNR {db} dB"))
}

/// What the model keeps between calls, and where the values for the first one are.
fn states(report: &Report) -> String {
    let count = report.model.as_ref().map_or(0, |model| model.states.len());
    let file = report.outputs.iter().find(|f| f.role() == FileRole::State);
    let file = file.map(|f| format!(" (first values: {})", line(&f.path))).unwrap_or_default();
    match count {
        0 => String::new(),
        1 => format!(", one state from call to call{file}"),
        n => format!(", {n} states from call to call{file}"),
    }
}

fn quality(report: &Report) -> Option<&Quality> {
    report.quantization.as_ref()?.quality.as_ref()
}

/// How good the whole network is, and its worst layer; layers are listed worst first.
fn quantized(report: &Report) -> Option<String> {
    let quantization = report.quantization.as_ref()?;
    let format = line(&quantization.format);
    let none = |q: &Quality| q.products.is_some() && q.quantized == 0;
    if quantization.layers.is_empty() && quality(report).is_some_and(none) {
        return Some(format!("quantized to {format}: nothing"));
    }
    let worst = quantization.layers.iter().find(|l| l.sqnr_db.is_some());
    let worst = worst
        .and_then(|l| Some(format!("worst layer {}, SQNR {} dB", line(&l.name), real(l.sqnr_db?))));
    let all = [quality(report).map(outputs), worst].into_iter().flatten();
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| format!("quantized to {format}: {}", all.join("; ")))
}

fn next(report: &Report, first: Option<&Diagnostic>) -> String {
    match first {
        Some(found) if !found.help.is_empty() => line(&found.help),
        Some(_) => "see report.html".to_owned(),
        None if report.verdict() == Verdict::SucceededWithFindings => "see report.html".to_owned(),
        None => match quality(report).map(|q| line(&q.next)) {
            Some(next) if !next.is_empty() => next,
            _ => "nothing; details are in report.html".to_owned(),
        },
    }
}
