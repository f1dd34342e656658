//! The front-end for TensorFlow's files: SavedModels, frozen graphs, TFLite models and Keras models, read without
//! Python.
//!
//! Three readers (`graph`, `tflite`, `keras`) run their networks on the values of an ONNX graph that is built on the
//! way. What an operator or layer computes is said by the functions of its family (`ops`).
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod files;
mod graph;
mod kind;
mod ops;
mod params;
mod schema;
mod wire;

use files::Files;
use graph::saved::Choice;
use kind::Kind;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::lower::Fallback;
use onnxd_plugin_sdk::words::OperatorFallback;
use onnxd_plugin_sdk::{Claim, ExportOptions, Frontend, Imported, Probe, Submission};

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-tensorflow",
    summary: "Reads TensorFlow, Keras and TFLite models",
    components: [
        frontend(
            "tensorflow",
            "TensorFlow, Keras and TFLite models";
            "saved_model.pb", "*.pb", "*.tflite", "*.keras", "*.h5", "*.hdf5";
            declares ["is_source = true\n", params::Source::ROWS] => || Box::new(TensorFlow)
        ),
    ],
}

struct TensorFlow;

impl Frontend for TensorFlow {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        Ok(match kind::of(submission.network(), &bytes) {
            Some(kind) => Probe::new(Claim::ByContent, format!("the file is {}", kind.words())),
            None => Probe::new(Claim::No, "the file is none of TensorFlow's"),
        })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        let options = ExportOptions::read(submission, fallback)?;
        let params: params::Source = submission.params().section();
        match kind::of(submission.network(), &bytes) {
            Some(Kind::SavedModel) => {
                let files = Files::beside(submission, submission.network());
                graph::saved::import(&files, &Choice::of(&params), &options)
            }
            Some(Kind::Graph) => graph::frozen::import(bytes, &params, &options),
            _ => {
                Err(Diagnostic::new(Code::LayerUnsupported, "This kind of file is not read.")
                    .into())
            }
        }
    }
}

/// The domain of operators that stay as TensorFlow has them.
const DOMAIN: &str = "org.tensorflow";

/// What becomes of operators that have no row.
fn fallback(fallback: Fallback, word: OperatorFallback) -> Fallback {
    match word {
        OperatorFallback::Custom => fallback.or_domain(DOMAIN),
        OperatorFallback::Error | OperatorFallback::Aten => fallback,
    }
}
