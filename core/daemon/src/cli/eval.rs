//! `onnxd eval`: runs an ONNX file on arrays.

use super::{Ended, out};
use onnxd_diagnostics::{Code, Diagnostic};
use serde_json::json;
use std::path::PathBuf;

/// Runs an ONNX file on the arrays of an .npz file.
#[derive(clap::Args)]
pub(crate) struct Eval {
    /// The model.
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Arrays under the names of the model's inputs.
    #[arg(long, value_name = "IN.npz")]
    inputs: PathBuf,
    /// File for the outputs, under their names.
    #[arg(long, value_name = "OUT.npz")]
    out: PathBuf,
    /// What runs the model.
    #[arg(long, value_enum, default_value = "builtin")]
    engine: Engine,
    /// Writes every intermediate value too.
    #[arg(long)]
    all_tensors: bool,
    /// Prints what was written as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Engine {
    /// onnxd's own executor: exact, not fast.
    Builtin,
    /// ONNX Runtime.
    Onnxruntime,
}

impl Eval {
    pub(crate) fn run(&self) -> Ended {
        if self.engine == Engine::Onnxruntime {
            let text = "this onnxd is built without the engine `onnxruntime`";
            let found = Diagnostic::new(Code::FeatureUnsupported, text);
            return Err(found.help("Leave out `--engine`, or use `--engine builtin`.").into());
        }
        let evaluated = onnxd_worker::tools::evaluate(&self.model, &self.inputs, self.all_tensors)?;
        let mut arrays = evaluated.outputs;
        for (name, tensor) in evaluated.all {
            if !arrays.iter().any(|(n, _)| *n == name) {
                arrays.push((name, tensor));
            }
        }
        onnxd_worker::tools::arrays::write(&self.out, &arrays)?;
        let shapes = arrays.iter().map(|(name, t)| (name, t.dtype().to_string(), t.dims()));
        if self.json {
            let shapes = shapes.map(|(n, t, d)| json!({ "name": n, "type": t, "shape": d }));
            out::json(&json!({ "out": self.out, "arrays": shapes.collect::<Vec<_>>() }));
        } else {
            let rows = shapes.map(|(n, t, d)| vec![n.clone(), t, format!("{d:?}")]);
            out::print(&out::table(&rows.collect::<Vec<_>>()));
        }
        Ok(0)
    }
}
