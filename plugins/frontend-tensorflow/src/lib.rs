//! The front-end for TensorFlow's files: SavedModels, frozen graphs, TFLite models and Keras models, read without
//! Python.
//!
//! Three readers (`graph`, `tflite`, `keras`) run their networks on the values of an ONNX graph that is built on the
//! way. What an operator or layer computes is said by the functions of its family (`ops`).
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod borders;
mod files;
mod fuzz_input;
pub mod fuzzing;
mod graph;
mod hdf5;
mod keras;
mod kind;
mod model;
mod ops;
mod params;
mod probe;
mod schema;
mod states;
mod tflite;
mod wire;

use files::Files;
use graph::saved::SavedModelChoice;
use kind::FileKind;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::lower::Fallback;
use onnxd_plugin_sdk::words::OperatorFallback;
use onnxd_plugin_sdk::{ExportOptions, Frontend, Imported, Probe, Submission};
use tflite::network::Asked;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-tensorflow",
    summary: "Reads TensorFlow, Keras and TFLite models",
    components: [
        frontend(
            "tensorflow",
            "TensorFlow, Keras and TFLite models";
            "*.pb", "*.pbtxt", "*.meta", "*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.tflite", "*.keras", "*.h5", "*.hdf5";
            declares ["is_source = true\n", params::Source::ROWS] => || Box::new(TensorFlow)
        ),
    ],
}

struct TensorFlow;

impl Frontend for TensorFlow {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        Ok(probe::probe(submission)?)
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        let mut options = ExportOptions::read(submission, fallback)?;
        let params: params::Source = submission.params().section();
        let idle = |key: &str, why: &str| submission.params().without_effect(key, why);
        if submission.param("export", "operator_fallback") == "aten" {
            idle("export.operator_fallback", "has no effect: `aten` is for PyTorch files");
        }
        let kind = kind::file_kind(submission.network(), &bytes);
        if options.without_weights
            && let Some(FileKind::Graph | FileKind::GraphText | FileKind::Lite) = kind
        {
            let why =
                "has no effect: frozen graphs and TFLite models have constants, and no weights";
            idle("export.export_params", why);
        }
        let source = SourceFile { submission, kind, bytes, params: &params };
        let mut imported =
            ExportOptions::at_lowest_opset(&mut &mut options, |options| source.import(options))?;
        borders::channels_first(&mut imported.model.graph, &params)?;
        Ok(imported)
    }
}

/// A file of a known kind.
struct SourceFile<'s> {
    submission: &'s Submission,
    kind: Option<FileKind>,
    bytes: bytes::Bytes,
    params: &'s params::Source,
}

impl SourceFile<'_> {
    fn import(&self, options: &mut ExportOptions) -> Result<Imported, Diagnostics> {
        let (submission, params, bytes) = (self.submission, self.params, self.bytes.clone());
        let network = submission.network();
        match self.kind {
            Some(FileKind::SavedModel | FileKind::SavedText) => {
                let files = Files::beside(submission, network);
                graph::saved::import(&files, &SavedModelChoice::of_tagged(params), options)
            }
            Some(FileKind::Archive) => {
                let files = Files::inside(bytes)?;
                graph::saved::import(&files, &SavedModelChoice::of_tagged(params), options)
            }
            Some(FileKind::Checkpoint) => {
                let files = Files::beside(submission, network);
                let prefix = probe::checkpoint_of(network);
                graph::saved::import_checkpoint(
                    &files,
                    prefix,
                    &SavedModelChoice::from_params(params),
                    options,
                )
            }
            Some(kind @ (FileKind::Graph | FileKind::GraphText)) => {
                graph::frozen::import(bytes, kind == FileKind::GraphText, params, options)
            }
            Some(FileKind::Lite) => {
                let signature = params.signature();
                let asked = Asked {
                    signature: signature.as_deref(),
                    opset_is_set: !submission.param("export", "opset").is_null(),
                    quantized: submission.param("quantization", "format") != "none",
                };
                tflite::network::import(&bytes, asked, options)
            }
            Some(FileKind::Keras) => keras::import(bytes, options),
            Some(FileKind::Hdf5) => keras::import_hdf5(bytes, options),
            None => {
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
