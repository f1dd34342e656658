//! `receipt.txt`: at most ten plain lines that answer whoever dropped the network.
//!
//! What was recognised, the result or the reason in one sentence, what to do next, the job's id.

use crate::format::{bytes, line, made_by, real};
use crate::head::verdict;
use crate::models::{ModelPart, compared_outputs, models, output_quality, worst_layer};
use onnxd_diagnostics::Severity;
use onnxd_proto::onnxd::{
    Diagnostic, FileDigest, FileRole, ModelSummary, Quality, Report, Verdict,
};

/// Most lines of a receipt.
pub const LINES_MAX: usize = 10;

/// The receipt, one `key: value` per line.
#[must_use]
pub fn receipt(report: &Report) -> String {
    let failed = report.verdict() == Verdict::Failed;
    let models = models(report);
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
        lines.extend(written(report, &models));
        lines.extend(worst_output(&models));
        lines.extend(quantized(&models));
    }
    lines.push(format!("next: {}", next(report, &models, findings().next())));
    lines.push(format!("job: {}", line(&report.job)));
    debug_assert!(lines.len() <= LINES_MAX);
    lines.join("\n") + "\n"
}

/// What the verdict counts.
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

/// The files of the models, and what is to be known of each.
fn written(report: &Report, models: &[ModelPart]) -> Option<String> {
    let files = report.outputs.iter().filter(|f| f.role() == FileRole::Model);
    let told: Vec<String> = files
        .map(|file| {
            // Params may put all files into a folder. Older reports do not say the file of the only model.
            let name = file.path.rsplit('/').next();
            let named = models.iter().find(|model| name == Some(model.file()));
            let model = named.or_else(|| models.first().filter(|_| models.len() == 1));
            written_file(report, file, model)
        })
        .collect();
    (!told.is_empty()).then(|| format!("model: {}", told.join(", and ")))
}

fn written_file(report: &Report, file: &FileDigest, model: Option<&ModelPart>) -> String {
    let digest = file.sha256.get(..16).unwrap_or(&file.sha256);
    let meant = model.and_then(ModelPart::quality).map_or("", |q| q.meant_for.as_str());
    let meant = if meant.is_empty() { String::new() } else { format!(", for {}", line(meant)) };
    let summary = model.and_then(|model| model.summary);
    let states = summary.map(|model| states(report, model)).unwrap_or_default();
    let opset = summary.and_then(|model| model.opset.get(""));
    let opset = opset.map(|opset| format!(", opset {opset}")).unwrap_or_default();
    let from = summary.map_or(0, |model| model.lowered_from);
    let opset = if from > 0 { format!("{opset} (lowered from {from})") } else { opset };
    let (path, size) = (line(&file.path), bytes(file.bytes));
    format!("{path}, {size}{opset}, sha256 {digest}{meant}{states}")
}

fn worst_output(models: &[ModelPart]) -> Option<String> {
    let outputs = compared_outputs(models);
    let (model, numerics, worst) = outputs.max_by(|a, b| a.2.max_abs.total_cmp(&b.2.max_abs))?;
    let name = line(&worst.output) + &model.of_file();
    let (max_abs, db) = (real(worst.max_abs), real(worst.sqnr_db));
    let on = if numerics.inputs.is_empty() { "" } else { " on " };
    let on = format!("{on}{}", line(&numerics.inputs));
    Some(format!("against the reference{on}: {name} differs by at most {max_abs}, SQNR {db} dB"))
}

/// What a model keeps between calls, and where the values for the first one are.
fn states(report: &Report, model: &ModelSummary) -> String {
    let file = report.outputs.iter().find(|f| f.role() == FileRole::State);
    let file = file.map(|f| format!(" (first values: {})", line(&f.path))).unwrap_or_default();
    match model.states.len() {
        0 => String::new(),
        1 => format!(", one state from call to call{file}"),
        n => format!(", {n} states from call to call{file}"),
    }
}

/// How good whole models are, and the worst layer.
fn quantized(models: &[ModelPart]) -> Option<String> {
    let format = models.iter().find_map(|model| Some(line(&model.quantization?.format)))?;
    let (nothing, some): (Vec<ModelPart>, Vec<ModelPart>) =
        models.iter().copied().partition(|model| has_nothing_quantized(model));
    if some.iter().all(|model| model.quantization.is_none()) && !nothing.is_empty() {
        return Some(format!("quantized to {format}: nothing"));
    }
    let mut told = output_quality(&some);
    told.extend(worst_layer(&some).map(|(model, layer, db)| {
        let name = line(&layer.name) + &model.of_file();
        format!("worst layer {name}, SQNR {} dB", real(db))
    }));
    told.extend(nothing.iter().map(|model| format!("nothing{}", model.of_file())));
    (!told.is_empty()).then(|| format!("quantized to {format}: {}", told.join("; ")))
}

fn has_nothing_quantized(model: &ModelPart) -> bool {
    let none = |q: &Quality| q.products.is_some() && q.quantized == 0;
    model.quantization.is_some_and(|q| q.layers.is_empty()) && model.quality().is_some_and(none)
}

fn next(report: &Report, models: &[ModelPart], first: Option<&Diagnostic>) -> String {
    match first {
        Some(found) if !found.help.is_empty() => return line(&found.help),
        Some(_) => return "see report.html".to_owned(),
        None if report.verdict() == Verdict::SucceededWithFindings => {
            return "see report.html".to_owned();
        }
        None => {}
    }
    let advised = models.iter().filter_map(|model| Some((model, model.quality()?)));
    let advised = advised.filter(|(_, quality)| !quality.next.is_empty());
    let worst = advised.min_by(|a, b| a.1.worst_db.total_cmp(&b.1.worst_db));
    worst.map_or("nothing; details are in report.html".to_owned(), |(model, quality)| {
        line(&quality.next) + &model.in_brackets()
    })
}
