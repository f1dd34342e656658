//! The front-end for ONNX files: decodes them and finds their external data.

mod load;

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::ops;
use onnxd_plugin_sdk::{
    Claim, External, Frontend, Imported, Need, Probe, QUANTIZED, Submission, onnx,
};

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-onnx",
    summary: "Reads ONNX models, with external data",
    components: [
        frontend("onnx", "ONNX models"; "*.onnx"; declares ["is_source = true"] => || Box::new(Onnx)),
    ],
}

struct Onnx;

impl Frontend for Onnx {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        let by_name = || Probe::new(Claim::ByExtension, "the file's name ends in .onnx");
        // A damaged file is still ours: the import says what is wrong with it.
        let Ok(outline) = onnx::outline(bytes) else { return Ok(by_name()) };
        let needs = outline.external_files.iter().map(|location| need(submission, location));
        let needs = needs.collect();
        let quantized = outline.op_types.iter().any(|op| ops::is_quantization(op));
        let facts = quantized.then(|| QUANTIZED.to_owned()).into_iter().collect();
        let reason = "the file is an ONNX model".to_owned();
        Ok(Probe { needs, facts, ..Probe::new(Claim::ByContent, reason) })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        load::load(submission)
    }
}

fn need(submission: &Submission, location: &str) -> Need {
    let path = External::path(submission.network(), location);
    let found_as = if submission.has(&path) { vec![path.clone()] } else { vec![] };
    Need { what: "external data".into(), path, found_as, optional: false }
}
