//! ONNX Runtime as an engine. Its library is looked for when it is asked for, never at build time;
//! nothing is downloaded, and without the library everything else works.

mod given;
mod library;
mod message;
mod prepared;
mod value;

pub use library::{HOW_TO_GET, OrtLibrary};

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{Engine, Prepared};
use onnxd_ir::Model;
use ort::session::builder::GraphOptimizationLevel;

/// What ONNX Runtime may do to a model before it runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimization {
    /// Nothing: every operator is computed as it stands, which is what exact comparisons need.
    #[default]
    Off,
    /// What keeps the meaning, such as folding constants.
    Basic,
    /// Also fusions, which round differently.
    Extended,
    /// Also layouts for this machine.
    All,
}

impl Optimization {
    fn level(self) -> GraphOptimizationLevel {
        match self {
            Optimization::Off => GraphOptimizationLevel::Disable,
            Optimization::Basic => GraphOptimizationLevel::Level1,
            Optimization::Extended => GraphOptimizationLevel::Level2,
            Optimization::All => GraphOptimizationLevel::All,
        }
    }
}

/// How models are run.
#[derive(Clone, Copy, Debug)]
pub struct OrtOptions {
    /// What may be done to the model.
    pub optimization: Optimization,
    /// Threads within an operator.
    pub threads: usize,
    /// Bytes that values may take which are shown to an observer in one go.
    pub watched_bytes_max: usize,
}

impl Default for OrtOptions {
    fn default() -> Self {
        OrtOptions { optimization: Optimization::Off, threads: 1, watched_bytes_max: 256 << 20 }
    }
}

/// ONNX Runtime, ready to run models.
#[derive(Clone, Debug)]
pub struct OnnxRuntime {
    library: OrtLibrary,
    options: OrtOptions,
}

impl OnnxRuntime {
    /// The engine in `library`.
    #[must_use]
    pub fn new(library: OrtLibrary, options: OrtOptions) -> OnnxRuntime {
        OnnxRuntime { library, options }
    }
}

impl Engine for OnnxRuntime {
    fn name(&self) -> &'static str {
        "onnxruntime"
    }

    fn version(&self) -> String {
        self.library.version().to_owned()
    }

    fn prepare<'m>(&self, model: &'m Model) -> Result<Box<dyn Prepared + 'm>, Diagnostics> {
        Ok(Box::new(prepared::Ready::new(self, model)?))
    }
}

/// What ONNX Runtime says about a model it does not run. Its messages name the node.
fn refused<R>(why: &ort::Error<R>) -> Diagnostic {
    let text = onnxd_diagnostics::shown(why.message().lines().next().unwrap_or_default());
    Diagnostic::new(Code::EngineRefused, format!("ONNX Runtime: {text}"))
}
