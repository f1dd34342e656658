//! Has a plugin apply the quantization that the params ask for.

use super::quality;
use super::runtime_notes::quantized_before;
use super::session::{Session, findings};
use super::{compared, components, quantizer};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity, shown};
use onnxd_ir::ops::is_quantization;
use onnxd_params::host;
use onnxd_plugin_host::{call, from_message};
use onnxd_proto::onnxd::{Quantization, QuantizeLog};

pub(crate) fn quantize(session: &mut Session) -> Result<(), Diagnostics> {
    let Some((plugin, quantizer)) = quantizer::chosen(session)? else {
        refuse_quantized(session)?;
        let found = session.model().ok().and_then(quantized_before);
        found.iter().for_each(|found| session.note(found, Severity::Warning));
        return Ok(());
    };
    session.entered("quantize", &plugin.id, &quantizer);
    session.library(&plugin)?;
    let before = session.typed()?;
    let mut context = session.context(session.submission());
    context.set_graph(session.lend_graph());
    let library = session.loaded(&plugin.id);
    let quantized = call::quantize(library, &quantizer, &mut context).map_err(findings)?;
    session.replace_graph(quantized.model);
    session.keep(&mut context, quantized.log.params_read.as_ref());
    let after = components::verified(session, &plugin, &quantizer)?;
    let measured = quantized.report.quality.as_ref().is_some_and(|q| q.sqnr_db.is_some());
    let apart = if measured { None } else { compared::quantized(session, &before, &after) };
    let format = session.section::<host::Quantization>().format();
    let report = Quantization { format, quantizer, plugin: plugin.id, ..quantized.report };
    said(session, &quantized.log, report, apart);
    Ok(())
}

/// Refuses integers where floats are asked for: they no longer say what the floats were.
fn refuse_quantized(session: &Session) -> Result<(), Diagnostic> {
    if !session.section::<host::Quantization>().require_float() {
        return Ok(());
    }
    let mut found = None;
    // What cannot be read is a finding of the export.
    let Ok(model) = session.model() else { return Ok(()) };
    model.for_each_graph(|graph| {
        let first = || graph.nodes().map(|(_, node)| node).find(|n| is_quantization(&n.op));
        found = found.take().or_else(|| first().map(|n| format!("{} {}", n.op, shown(&n.name))));
    });
    let Some(node) = found else { return Ok(()) };
    let origin = session.request.params.iter().find(|p| p.key == "quantization.require_float");
    let origin = origin.map(|p| format!(" ({})", shown(&p.origin))).unwrap_or_default();
    let text =
        format!("`quantization.require_float` is true{origin}, and the model is quantized: {node}");
    let help = "Drop the float model, or leave the param out.";
    Err(Diagnostic::new(Code::FeatureUnsupported, text).help(help))
}

/// Puts what a quantizer said into the report.
fn said(
    session: &mut Session,
    log: &QuantizeLog,
    mut report: Quantization,
    apart: Option<(String, f64)>,
) {
    for note in &log.notes {
        session.note(&from_message(note), Severity::Warning);
    }
    if report.random_samples > 0 {
        let text = format!(
            "the model was calibrated on {} samples of random numbers: its ranges are guesses, \
             and what it computes on data may be far off",
            report.random_samples
        );
        // Wrong numbers are not what params ask for: that is a finding, not a remark.
        session.note(&Diagnostic::new(Code::CalibrationRandom, text), Severity::Error);
    }
    report.quality = Some(quality::judge(session, log, &report, apart));
    session.report.metadata.extend(log.metadata.iter().map(|(k, v)| format!("{k} = {v}")));
    // Worst first; what was not measured comes last.
    report.layers.sort_by(|a, b| {
        let of = |db: Option<f64>| db.unwrap_or(f64::INFINITY);
        of(a.sqnr_db).total_cmp(&of(b.sqnr_db))
    });
    session.report.quantization = Some(report);
}
