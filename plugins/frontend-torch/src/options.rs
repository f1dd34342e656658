//! What the params of a conversion say.

use crate::diag::Diagnostic;
use crate::params;
use onnxd_plugin_sdk::ir::Dim;
use onnxd_plugin_sdk::lower::Fallback;
use onnxd_plugin_sdk::words::OperatorFallback;
use onnxd_plugin_sdk::{ExportOptions, Submission};
use std::ops::{Deref, DerefMut};

/// The params that a front-end for PyTorch reads.
#[derive(Default)]
pub(crate) struct TorchOptions {
    export: ExportOptions,
    /// Whether dropout and the like stay as the file has them.
    pub(crate) training: bool,
}

impl Deref for TorchOptions {
    type Target = ExportOptions;
    fn deref(&self) -> &ExportOptions {
        &self.export
    }
}

impl DerefMut for TorchOptions {
    fn deref_mut(&mut self) -> &mut ExportOptions {
        &mut self.export
    }
}

impl TorchOptions {
    /// Options that say the shapes of inputs, and nothing else.
    pub(crate) fn of_shapes(opset: i64, shapes: Vec<Vec<Dim>>) -> TorchOptions {
        let export = ExportOptions::of_shapes(opset, shapes);
        TorchOptions { export, ..TorchOptions::default() }
    }

    /// # Errors
    /// `N0105` for shapes and types that are none.
    pub(crate) fn read(submission: &Submission) -> Result<TorchOptions, Diagnostic> {
        let export = ExportOptions::read(submission, fallback)?;
        let source: params::Source = submission.params().section();
        let training = source.training() == "preserve";
        Ok(TorchOptions { export, training })
    }
}

/// Nodes that operators without a row become.
fn fallback(fallback: Fallback, word: OperatorFallback) -> Fallback {
    match word {
        OperatorFallback::Error => fallback,
        OperatorFallback::Custom => fallback.or_own_domain(),
        OperatorFallback::Aten => fallback.or_wrapped("aten", "org.pytorch.aten", "ATen"),
    }
}
