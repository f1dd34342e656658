//! Runs whole models: checks first what can be checked without data, then runs the graph node by
//! node.

use crate::executor::{Executor, RunOptions};
use crate::frame::ModelRunner;
use crate::parallel::alone;
use crate::plan::GraphPlan;
use crate::{inputs, support};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{Model, Tensor};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Tensors by the names of a model's inputs.
type Feeds = BTreeMap<String, Tensor>;

impl<'m> Executor<'m> {
    /// Prepares `model`.
    ///
    /// # Errors
    /// All nodes at once that no kernel computes (`N0506`), or a graph that has a cycle (`N0502`).
    pub fn new(model: &'m Model) -> Result<Executor<'m>, Diagnostics> {
        let mut executor = Executor::prepare(model);
        support::check(&executor)?;
        let mut problems = Diagnostics::default();
        model.for_each_graph(|graph| match GraphPlan::new(graph) {
            Ok(plan) => executor.add_plan(graph, plan),
            Err(problem) => problems.push(problem),
        });
        problems.or_ok(executor)
    }

    /// Runs the model on tensors by input name; gives the outputs in the graph's order, those that are
    /// not tensors as [`crate::parts`] says. Inputs that have an initializer may be left out.
    ///
    /// # Errors
    /// All that is wrong with the inputs at once (`N0507`), or the first node that fails, which is
    /// named.
    pub fn run(
        &self,
        inputs: &Feeds,
        options: RunOptions,
    ) -> Result<Vec<(String, Tensor)>, Diagnostics> {
        let graph = &self.model.graph;
        let fed = inputs::items(graph, inputs)?;
        let mut runner = ModelRunner::new(self, options);
        let outputs = runner.main(fed)?;
        self.has_run(runner.peak);
        let mut named = Vec::with_capacity(outputs.len());
        for (item, v) in outputs.into_iter().zip(graph.outputs()) {
            let name = &graph[*v].name;
            let kind = item.kind();
            named.extend(item.named(name).ok_or_else(|| {
                let text = format!("output `{}` is {kind}, which has no arrays", shown(name));
                Diagnostic::new(Code::OperatorUnsupported, text)
            })?);
        }
        Ok(named)
    }

    /// Runs the model on each sample, all at once. Where there are threads for each and more, they
    /// share the work of the samples, too.
    pub(crate) fn run_all(&self, runs: Vec<(&Feeds, RunOptions)>) -> Result<(), Diagnostics> {
        let share = runs.len() < rayon::current_num_threads();
        let run = |(inputs, options)| match share {
            true => self.run(inputs, options),
            false => alone(|| self.run(inputs, options)),
        };
        let done: Vec<_> = runs.into_par_iter().map(run).collect();
        done.into_iter().try_for_each(|done| done.map(drop))
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
