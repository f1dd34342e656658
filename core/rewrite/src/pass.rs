//! Passes and the list of them that one conversion runs.

use crate::types::Inferred;
use crate::{Fuel, Skip};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{Facts, Model, infer_facts};
use std::sync::Arc;

/// How many reasons per pass are kept for the report.
const SKIPS_MAX: usize = 1_000;

/// A change of a whole model.
pub trait Pass: Send + Sync {
    /// Its id, in kebab-case (`fold-constants`).
    fn name(&self) -> &'static str;

    /// Changes `model` and leaves it valid. Every change is counted in `cx`: a model without rewrites is not kept.
    ///
    /// # Errors
    /// What keeps the whole conversion from going on; a place that is left alone is a [`PassContext::skip`].
    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics>;
}

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassReport {
    /// The pass.
    pub name: String,
    /// How many places it changed.
    pub rewrites: u64,
    /// Places it looked at and left alone: value name and reason.
    pub skipped: Vec<(String, Skip)>,
    /// Anything else a user should know.
    pub notes: Vec<String>,
    /// What a user should do something about.
    pub warnings: Vec<Diagnostic>,
}

/// A pass's budget and its report.
#[derive(Debug)]
pub struct PassContext {
    /// How many more rewrites may be made.
    pub fuel: Fuel,
    /// What this pass did so far.
    pub report: PassReport,
    facts: Option<Arc<Facts>>,
}

impl PassContext {
    /// The context of one pass.
    pub fn new(name: &str, fuel: Fuel) -> PassContext {
        let report = PassReport { name: name.to_owned(), ..PassReport::default() };
        PassContext { fuel, report, facts: None }
    }

    /// What inference knew of the values of `model` as the pass began.
    pub fn facts(&mut self, model: &mut Model) -> Arc<Facts> {
        self.facts.get_or_insert_with(|| Arc::new(infer_facts(model).0)).clone()
    }

    /// Counts one rewrite.
    pub fn rewrote(&mut self) {
        self.report.rewrites += 1;
        self.fuel.spend(1);
    }

    /// Records why the place that computes `at` was left alone.
    pub fn skip(&mut self, at: &str, reason: Skip) {
        if self.report.skipped.len() < SKIPS_MAX {
            self.report.skipped.push((at.to_owned(), reason));
        }
    }
}

/// Runs `passes` in order, each on a model with inferred types. After every pass that changed something the graph's
/// invariants are checked, and types inferred anew. What the model declared stays declared, and no more. `done` hears
/// of every pass as it ends, to take times, to report progress, or to stop early by an error.
///
/// # Errors
/// What a pass or `done` failed with; N0901 if a pass broke the graph, N0406 if it left types that contradict each
/// other.
pub fn run_passes(
    model: &mut Model,
    passes: &[&dyn Pass],
    mut fuel: Fuel,
    done: &mut dyn FnMut(&PassReport, &Model) -> Result<(), Diagnostic>,
) -> Result<Vec<PassReport>, Diagnostics> {
    let mut reports = Vec::with_capacity(passes.len());
    let mut types = Inferred::default();
    // What contradicts itself before any pass is the host's to report.
    let (mut facts, _) = types.infer(model);
    for pass in passes {
        let mut cx =
            PassContext { facts: Some(facts.clone()), ..PassContext::new(pass.name(), fuel) };
        pass.run(model, &mut cx)?;
        // Tests look for changes that are not counted, too.
        if cx.report.rewrites > 0 || cfg!(debug_assertions) {
            check_invariants(pass.name(), model)?;
        }
        if cx.report.rewrites > 0 {
            let (known, found) = types.infer(model);
            facts = known;
            if let Some(first) = found.0.into_iter().next() {
                let message = format!("pass {}: {}", pass.name(), first.message);
                return Err(Diagnostic::new(Code::PluginContract, message).at_same(&first).into());
            }
        }
        fuel = cx.fuel;
        done(&cx.report, model)?;
        reports.push(cx.report);
    }
    types.take_back(model);
    Ok(reports)
}

fn check_invariants(pass: &str, model: &Model) -> Result<(), Diagnostic> {
    let graphs = std::iter::once(&model.graph).chain(model.functions.iter().map(|f| &f.graph));
    for graph in graphs {
        if let Some(broken) = onnxd_ir::verify::verify_structure(graph).0.first() {
            let message = format!("pass {pass}: {}", broken.message);
            return Err(Diagnostic::new(Code::InvariantBroken, message));
        }
    }
    Ok(())
}
