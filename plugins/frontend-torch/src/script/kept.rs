//! From run to run of a method, until all that it keeps between calls is known.
//!
//! The first run takes what the module holds for constants, and finds what is written. Where that may count, states
//! are inputs of further runs. These may go other ways and write more, or give other sizes, so that states become more
//! general. The last run writes nothing but what it takes as inputs.

use super::states::{Types, WrittenStates};
use crate::diag::{Code, Diagnostic, Diagnostics, refuse};
use crate::outputs::INPUT;
use onnxd_plugin_sdk::ir::Graph;
use onnxd_plugin_sdk::states::{Written, needed};
use onnxd_plugin_sdk::{State, Submission};
use std::collections::BTreeSet;

/// Runs with states as inputs.
const RUNS_MAX: usize = 12;

/// A graph, what users should know, and what the program wrote.
pub(super) struct StatefulRun {
    pub(super) graph: Graph,
    pub(super) notes: Vec<Diagnostic>,
    pub(super) found: WrittenStates,
}

/// What is known of the states of a method so far.
pub(super) struct StateSearch<'s> {
    submission: &'s Submission,
    /// The run in which all is constant, and what it wrote, where states are inputs of the present run.
    first: Option<(StatefulRun, Vec<Written>)>,
    types: Types,
    runs: usize,
}

impl StateSearch<'_> {
    pub(super) fn new(submission: &Submission) -> StateSearch<'_> {
        StateSearch { submission, first: None, types: Types::new(), runs: 0 }
    }

    /// The states that the next run takes as inputs.
    pub(super) fn types(&self) -> Types {
        self.types.clone()
    }

    /// The run to be taken, if there is no need for another one.
    ///
    /// # Errors
    /// `N0203` for what is written and cannot be left out.
    pub(super) fn next(&mut self, run: StatefulRun) -> Result<Option<StatefulRun>, Diagnostics> {
        let found = &run.found;
        if found.written.is_empty() && found.impossible.is_empty() {
            return Ok(Some(run));
        }
        if !self.submission.wants_states() {
            return self.next_without(run);
        }
        if !found.impossible.is_empty() {
            let all = found.impossible.iter().map(|(written, why)| written.impossible(why));
            return Err(Diagnostics(all.collect()));
        }
        if !self.is_settled(&run)? {
            return Ok(None);
        }
        // What the file does not hold has no value for the first call.
        let lost =
            without_input(&run.found).map(|w| w.impossible("has no first value that is known"));
        Diagnostics(lost.collect()).or_ok(())?;
        Ok(Some(run))
    }

    /// As [`StateSearch::next`], where states are not asked for: what no output depends on is left out.
    fn next_without(&mut self, run: StatefulRun) -> Result<Option<StatefulRun>, Diagnostics> {
        let strict = |w: &&Written| matches!(w.what, "buffer" | "parameter");
        let impossible = run.found.impossible.iter().map(|(written, _)| written);
        let refused: Vec<Written> =
            run.found.written.iter().filter(strict).chain(impossible).cloned().collect();
        refuse!(!refused.is_empty() => self.refused(&refused));
        if !self.is_settled(&run)? {
            if self.first.is_none() {
                let written = run.found.written.clone();
                self.first = Some((run, written));
            }
            return Ok(None);
        }
        let refused = counting(&run);
        refuse!(!refused.is_empty() => self.refused(&refused));
        // What the module holds stays constant.
        let run = self.first.take().map_or(run, |(first, _)| first);
        Ok(Some(without_written(run)))
    }

    /// Whether a run had all states that it wrote as inputs; else the next one has them.
    fn is_settled(&mut self, run: &StatefulRun) -> Result<bool, Diagnostics> {
        let found = &run.found.types;
        if found.iter().all(|(name, ty)| self.types.get(name) == Some(ty)) {
            return Ok(true);
        }
        self.runs += 1;
        if self.runs > RUNS_MAX {
            let message = "What the network keeps between calls takes other shapes without end.";
            return Err(Diagnostic::new(Code::LayerUnsupported, message).into());
        }
        self.types.extend(found.iter().map(|(name, ty)| (name.clone(), ty.clone())));
        Ok(false)
    }

    /// All that was written, once for each name: the first run saw where.
    fn refused(&self, written: &[Written]) -> Diagnostics {
        let first = self.first.iter().flat_map(|(_, written)| written);
        let seen = |w: &Written| first.clone().find(|f| f.name == w.name).unwrap_or(w).refused();
        Diagnostics(written.iter().map(seen).collect())
    }

    /// Findings of a run that gave no graph: with states as inputs only because nobody knew whether they count, what
    /// was written is the reason.
    pub(super) fn explained(&self, found: Diagnostics) -> Diagnostics {
        match &self.first {
            Some((_, written)) => {
                let counts = written.iter().filter(|w| w.what != INPUT);
                Diagnostics(counts.map(Written::refused).collect())
            }
            None => found,
        }
    }
}

/// What was written and is no input of the run.
fn without_input(found: &WrittenStates) -> impl Iterator<Item = &Written> {
    let known: BTreeSet<&str> = found.states.iter().map(|(name, _)| name.as_str()).collect();
    let written = found.written.iter().filter(|w| w.what != INPUT);
    written.filter(move |w| !known.contains(w.name.as_str()))
}

/// What was written and an output depends on, or may depend on.
fn counting(run: &StatefulRun) -> Vec<Written> {
    let (names, states): (Vec<String>, Vec<State>) = run.found.states.iter().cloned().unzip();
    let counting = needed(&run.graph, &states);
    let counting: BTreeSet<&str> = counting.iter().map(|state| state.input.as_str()).collect();
    let both = names.iter().zip(&states);
    let names = both.filter(|(_, state)| counting.contains(state.input.as_str()));
    let mut names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
    names.extend(without_input(&run.found).map(|w| w.name.as_str()));
    let written = run.found.written.iter().filter(|w| w.what != INPUT);
    written.filter(|w| names.contains(w.name.as_str())).cloned().collect()
}

/// Takes the outputs away that were added for what was written.
fn without_written(mut run: StatefulRun) -> StatefulRun {
    let outputs = run.graph.outputs().to_vec();
    let (results, new) = outputs.split_at(outputs.len() - run.found.outputs);
    run.graph.set_outputs(results.to_vec());
    run.graph.drop_unread(new.to_vec());
    run.notes.extend(run.found.written.iter().map(Written::left_out));
    run.found.states.clear();
    run
}
