//! Between the SDK's types and the messages of `proto/onnxd`.

use crate::diagnostics::{Diagnostic, Layer};
use crate::frontend::{Claim, Need, Probe};
use crate::quality::Origin;
use crate::quantizer::{Attempt, QuantizeContext, QuantizedLayer, QuantizedTensor};
use crate::rewrite::PassReport;
use onnxd_proto::onnxd as message;

pub(crate) fn diagnostic(d: &Diagnostic, severity: &str) -> message::Diagnostic {
    let Layer { name, kind, place } = d.layer.clone().unwrap_or_default();
    message::Diagnostic {
        code: d.code.to_string(),
        class: d.class.as_str().into(),
        message: d.message.clone(),
        layer: name,
        layer_kind: kind,
        place,
        help: d.help.to_string(),
        severity: severity.into(),
    }
}

pub(crate) fn probe(p: Probe) -> message::Probe {
    let level = match p.claim {
        Claim::No => message::ClaimLevel::ClaimNo,
        Claim::ByExtension => message::ClaimLevel::ClaimByExtension,
        Claim::ByContent => message::ClaimLevel::ClaimByContent,
    };
    let need = |n: Need| message::Need {
        what: n.what,
        path: n.path,
        found: n.optional || !n.found_as.is_empty(),
        found_as: n.found_as,
    };
    message::Probe {
        level: level.into(),
        reason: p.reason,
        needs: p.needs.into_iter().map(need).collect(),
        learned_ranges: p.learned_ranges,
        quantized: p.quantized,
    }
}

pub(crate) fn pass(report: &PassReport, seconds: f64) -> message::Pass {
    let skip = |(at, reason): &(String, crate::rewrite::Skip)| message::Skip {
        at: at.clone(),
        reason: reason.0.clone(),
    };
    message::Pass {
        name: report.name.clone(),
        rewrites: report.rewrites,
        seconds,
        skipped: report.skipped.iter().map(skip).collect(),
        notes: report.notes.clone(),
    }
}

pub(crate) fn quantized(cx: &QuantizeContext) -> message::QuantizeLog {
    let said = &cx.said;
    let tensor = |t: &QuantizedTensor| message::QuantizedTensor {
        name: t.name.clone(),
        r#type: t.element_type.clone(),
        scales: t.scales.clone(),
        zero_points: t.zero_points.clone(),
        min: t.range.map(|r| r.0),
        max: t.range.map(|r| r.1),
        method: t.method.clone(),
        seen_min: t.seen.map(|r| r.0),
        seen_max: t.seen.map(|r| r.1),
        clipped: t.clipped,
        counts: t.counts.as_ref().map(|c| message::Counts {
            low: c.low,
            high: c.high,
            counts: c.counts.clone(),
        }),
    };
    let layer = |l: &QuantizedLayer| message::QuantizedLayer {
        name: l.name.clone(),
        op: l.op.clone(),
        rescaling: l.rescaling.clone(),
        sqnr_db: l.sqnr_db,
        output: l.output.clone(),
        accumulator: l.accumulator.map(|a| message::Accumulator {
            max: a.max,
            bits: a.bits(),
            bits_held: a.bits_held,
        }),
    };
    let left =
        |(at, reason): &(String, String)| message::Skip { at: at.clone(), reason: reason.clone() };
    let attempt = |a: &Attempt| message::Attempt {
        what: a.what.clone(),
        sqnr_db: a.sqnr_db,
        chosen: a.chosen,
    };
    let notes = cx.calibration().notes().iter().chain(&said.notes);
    message::QuantizeLog {
        notes: notes.map(|d| diagnostic(d, "warning")).collect(),
        metadata: said.metadata.iter().cloned().collect(),
        tensors: said.tensors.iter().map(tensor).collect(),
        layers: said.layers.iter().map(layer).collect(),
        left_in_float: said.left_in_float.iter().map(left).collect(),
        samples: cx.calibration().used(),
        compared: said.compared,
        statistics: said.statistics.clone(),
        random_samples: if cx.calibration().is_random() { cx.calibration().used() } else { 0 },
        tried: said.tried.iter().map(attempt).collect(),
        params_read: Some(cx.params_read()),
        quality: Some(quality(cx)),
    }
}

/// What was measured of the whole network, and what is to be known of the samples.
fn quality(cx: &QuantizeContext) -> message::Quality {
    const DB_MAX: f64 = 300.0;
    let (whole, samples) = (&cx.said.whole, cx.calibration());
    let mut all = message::Quality {
        top1_loss: whole.top1_loss,
        not_finite: samples.not_finite(),
        not_finite_at: samples.not_finite_at().unwrap_or_default(),
        constant: samples.is_constant(),
        ..message::Quality::default()
    };
    match &whole.quality {
        None => {}
        Some(Err(_)) if all.not_finite > 0 => {
            all.unmeasured = "samples hold numbers that are not finite".into();
        }
        Some(Err(why)) => all.unmeasured.clone_from(why),
        Some(Ok(found)) => {
            let dbs: Vec<f64> =
                found.outputs.iter().map(|(_, db)| db.clamp(-DB_MAX, DB_MAX)).collect();
            let outputs = found.outputs.iter().zip(&dbs);
            let worst = outputs.min_by(|a, b| a.1.total_cmp(b.1));
            if let Some(((name, _), db)) = worst {
                (all.worst, all.worst_db) = (name.clone(), *db);
                all.sqnr_db = Some(dbs.iter().sum::<f64>() / dbs.len() as f64);
            }
            (all.outputs, all.samples) = (dbs.len() as u64, found.samples);
            let random = samples.is_random() || found.origin == Origin::Random;
            all.origin = match found.origin {
                _ if random => "random",
                Origin::Apart => "apart",
                _ => "calibration",
            }
            .into();
        }
    }
    if let Some(coverage) = whole.coverage {
        all.products = Some(coverage.products);
        (all.quantized, all.weights) = (coverage.quantized, coverage.weights);
    }
    all
}
