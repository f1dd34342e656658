//! What runs models: the built-in executor, and whatever else stands behind the same trait.

use crate::executor::{Executor, RunOptions};
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Model, Tensor};
use std::collections::BTreeMap;

pub use crate::inputs::check as check_inputs;

/// Something that runs models.
pub trait Engine {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// Which one of that name it is.
    fn version(&self) -> String;

    /// Makes a model ready to run many times.
    ///
    /// # Errors
    /// Everything that keeps this engine from running the model.
    fn prepare<'m>(&self, model: &'m Model) -> Result<Box<dyn Prepared + 'm>, Diagnostics>;
}

/// A model that an engine has made ready.
pub trait Prepared {
    /// Runs the model on tensors by input name; gives the outputs in the graph's order, those that are
    /// not tensors as [`crate::parts`] says. Inputs that have an initializer may be left out.
    ///
    /// # Errors
    /// All that is wrong with the inputs at once (`N0507`), or why the run failed.
    fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        options: RunOptions,
    ) -> Result<Vec<(String, Tensor)>, Diagnostics>;

    /// How many samples are best given to [`Prepared::run_all`]. It may change with what runs took.
    fn at_once(&self) -> usize {
        1
    }

    /// Runs the model on several samples, at once where that takes less time. What is observed does
    /// not depend on it.
    ///
    /// # Errors
    /// Those of the first sample that fails; others may have run or not.
    fn run_all(
        &mut self,
        runs: Vec<(&BTreeMap<String, Tensor>, RunOptions)>,
    ) -> Result<(), Diagnostics> {
        runs.into_iter().try_for_each(|(inputs, options)| self.run(inputs, options).map(drop))
    }
}

/// The executor of this crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl Engine for Builtin {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn prepare<'m>(&self, model: &'m Model) -> Result<Box<dyn Prepared + 'm>, Diagnostics> {
        Ok(Box::new(Executor::new(model)?))
    }
}

impl Prepared for Executor<'_> {
    fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        options: RunOptions,
    ) -> Result<Vec<(String, Tensor)>, Diagnostics> {
        Executor::run(self, inputs, options)
    }

    fn at_once(&self) -> usize {
        Executor::at_once(self)
    }

    fn run_all(
        &mut self,
        runs: Vec<(&BTreeMap<String, Tensor>, RunOptions)>,
    ) -> Result<(), Diagnostics> {
        Executor::run_all(self, runs)
    }
}
