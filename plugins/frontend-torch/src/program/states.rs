//! Tensors of a program that outlive a call: which inputs and outputs of the graph they are. A tensor may have several
//! names.

use super::weights::ProgramWeights;
use super::{Input, Program};
use crate::archive::pickle::Pickled;
use crate::archive::storage::StorageView;
use crate::diag::{Code, Diagnostic, Diagnostics, shown};
use crate::machine::{Item, Result};
use crate::outputs::INPUT;
use onnxd_plugin_sdk::State;
use onnxd_plugin_sdk::ir::{Graph, ValueId};
use onnxd_plugin_sdk::states::Written;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// States by their names in the source, and the inputs of the graph that they became.
pub(super) type StateInputs = Vec<(Rc<str>, String)>;

/// Tensors by where they are in the archive, so that those of several names are one.
pub(super) struct Tied {
    /// The name of the state that a tensor is.
    pub(super) states: HashMap<StorageView, Rc<str>>,
    /// What stands for a tensor.
    pub(super) items: HashMap<StorageView, Item>,
}

impl Tied {
    /// Those of a program with these states.
    ///
    /// # Errors
    /// `N0203` if two states are one tensor: one input cannot go on from two outputs.
    pub(super) fn new(
        program: &Program,
        weights: &ProgramWeights,
        states: &BTreeSet<Rc<str>>,
    ) -> Result<Tied> {
        let mut places: HashMap<StorageView, Rc<str>> = HashMap::new();
        for Input { kind, .. } in &program.inputs {
            let name = kind.weight_name();
            let Some(name) = states.get(name).filter(|_| !name.is_empty()) else { continue };
            if matches!(weights.get(kind)?, Some(Pickled::Object(_))) {
                continue;
            }
            let Some(stored) = weights.tensor(kind)? else { continue };
            let known = places.entry(stored.place.clone()).or_insert(name.clone());
            if known != name {
                let (one, other) = (shown(known), shown(name));
                let message =
                    format!("The program writes `{one}` and `{other}`, which are one tensor.");
                let help = "Let the module have one buffer in place of both.";
                return Err(Diagnostic::new(Code::LayerUnsupported, message).help(help));
            }
        }
        Ok(Tied { states: places, items: HashMap::new() })
    }
}

/// The states of a graph whose last outputs are what was written, by the names of the inputs that they became.
pub(super) fn kept(graph: &Graph, written: &[Written], inputs: &StateInputs) -> Vec<State> {
    let new = graph.outputs().iter().rev().take(written.len()).rev();
    let inputs: HashMap<&str, &String> =
        inputs.iter().map(|(name, input)| (&**name, input)).collect();
    let state = |(written, new): (&Written, &ValueId)| {
        let input = (*inputs.get(written.name.as_str())?).clone();
        Some(State { input, output: graph[*new].name.clone() })
    };
    written.iter().zip(new).filter_map(state).collect()
}

/// Demands that all that was written and outlives a call is a state.
///
/// # Errors
/// `N0203` for each one that is none: what has no value in the file, or stands for several tensors.
pub(super) fn complete(
    written: &[Written],
    states: &[State],
) -> std::result::Result<(), Diagnostics> {
    let count = written.iter().filter(|written| written.what != INPUT).count();
    if count == states.len() {
        return Ok(());
    }
    let known: BTreeSet<&str> = states.iter().map(|state| state.output.as_str()).collect();
    let lost = written.iter().filter(|w| w.what != INPUT);
    let lost = lost.filter(|w| !known.contains(State::new(&w.name).output.as_str()));
    let lost = lost.map(|written| written.impossible("is no single tensor of the file"));
    Diagnostics(lost.collect()).or_ok(())
}
