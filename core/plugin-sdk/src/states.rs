//! What a network keeps between calls. An ONNX model keeps nothing, so each such value is an input and an output.
//!
//! With `export.mutations = "error"`, front-ends follow these rules:
//!
//! - What a call writes and a result of this or a later call depends on is refused, with its place. A front-end may
//!   refuse more: that of PyTorch refuses each write of a buffer or parameter, which training alone has to do.
//! - What else is written, such as an input in place, is left out, with a note.
//! - A layer whose kernel may begin anew in each call, as those of TFLite, does so, with a note.
//!
//! With `export.mutations = "outputs"`, each of these becomes a [`State`]. What cannot be one is refused.

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic, Layer, shown};
use crate::host_params::Export;
use crate::ir::{Graph, Node, ValueId};
use crate::words::Mutations;
use onnxd_proto::onnxd as message;
use std::collections::{BTreeSet, HashMap};

/// A value that outlives a call: the output of one call is the input of the next one.
///
/// The initializer of the input is the value for the first call, so that a large one stays where it lies. The host
/// writes it beside the model, and takes it away: passes and quantizers see an input like others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Name of the model's input.
    pub input: String,
    /// Name of the model's output.
    pub output: String,
}

impl State {
    /// A state that the source calls `name`: the output is `name_out`.
    pub fn new(name: &str) -> State {
        State { input: name.to_owned(), output: format!("{name}_out") }
    }

    pub(crate) fn message(self) -> message::State {
        message::State { input: self.input, output: self.output }
    }
}

impl Submission {
    /// Whether what outlives a call becomes inputs and outputs (`export.mutations`). Ask only where something does.
    pub fn wants_states(&self) -> bool {
        self.params().section::<Export>().mutations() == Mutations::Outputs
    }
}

/// Something that a network writes and that outlives the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What it is in the source: `buffer`, `variable`.
    pub what: &'static str,
    /// Its name in the source.
    pub name: String,
    /// Where it is written, as far as it is known.
    pub layer: Layer,
}

impl Written {
    /// The finding for a write where nobody asked for states.
    pub fn refused(&self) -> Diagnostic {
        let (what, name) = (self.what, shown(&self.name));
        let message = format!(
            "The network writes the {what} `{name}`, and an ONNX model keeps nothing between calls."
        );
        let help = "Set `export.mutations = \"outputs\"` to get it as an input and an output of the model, or export \
            the network in evaluation mode.";
        Diagnostic::new(Code::LayerUnsupported, message).at(self.layer.clone()).help(help)
    }

    /// The finding for a write that cannot be a state.
    pub fn impossible(&self, why: &str) -> Diagnostic {
        let (what, name) = (self.what, shown(&self.name));
        let message = format!("The network writes the {what} `{name}`, which {why}.");
        let help = "An input and an output of a model is a tensor or a number; change what the network keeps.";
        Diagnostic::new(Code::LayerUnsupported, message).at(self.layer.clone()).help(help)
    }

    /// The note for a write that the model leaves out, because no output depends on it, or because it is one into an
    /// input: the model leaves what it is given as it is.
    pub fn left_out(&self) -> Diagnostic {
        let (what, name) = (self.what, shown(&self.name));
        let message = format!(
            "The network writes the {what} `{name}`; the outputs do not need it, and the model leaves it as it is."
        );
        let help = "Set `export.mutations = \"outputs\"` to get the new value as an output.";
        Diagnostic::new(Code::LayerParameterIgnored, message).at(self.layer.clone()).help(help)
    }
}

/// The states that results depend on, in this call or in a later one. All outputs of the graph that belong to no state
/// are results.
pub fn needed<'s>(graph: &Graph, states: &'s [State]) -> Vec<&'s State> {
    let outputs: HashMap<&str, ValueId> =
        graph.outputs().iter().map(|v| (graph[*v].name.as_str(), *v)).collect();
    let named = |name: &str| outputs.get(name).copied();
    let own: BTreeSet<ValueId> = states.iter().filter_map(|s| named(&s.output)).collect();
    // What each state was before comes from its output of the call before.
    let mut before: HashMap<&str, Vec<ValueId>> = HashMap::new();
    for state in states {
        before.entry(&state.input).or_default().extend(named(&state.output));
    }
    let mut open: Vec<ValueId> =
        graph.outputs().iter().copied().filter(|v| !own.contains(v)).collect();
    let mut seen: BTreeSet<ValueId> = open.iter().copied().collect();
    while let Some(value) = open.pop() {
        let read = graph.producer(value).and_then(|id| graph.node(id));
        let read = read.into_iter().flat_map(Node::reads);
        let before = before.get(graph[value].name.as_str()).into_iter().flatten().copied();
        for next in read.chain(before) {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    let input = |s: &State| graph.value_named(&s.input);
    states.iter().filter(|s| input(s).is_some_and(|v| seen.contains(&v))).collect()
}

/// Whether any of `results` is computed of `value`.
pub fn depend_on(graph: &Graph, results: &[ValueId], value: ValueId) -> bool {
    let mut open = results.to_vec();
    let mut seen: BTreeSet<ValueId> = open.iter().copied().collect();
    while let Some(next) = open.pop() {
        if next == value {
            return true;
        }
        let read = graph.producer(next).and_then(|id| graph.node(id));
        open.extend(read.into_iter().flat_map(Node::reads).filter(|v| seen.insert(*v)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse_graph;

    #[test]
    fn a_state_counts_if_a_result_follows_from_it_at_last() {
        let text = "g (float[2] x, float[2] a, float[2] b, float[2] c) \
            => (float[2] y, float[2] a_out, float[2] b_out, float[2] c_out) {
                y = Add(x, a)
                a_out = Add(a, b)
                b_out = Add(b, x)
                c_out = Add(c, x)
            }";
        let graph = parse_graph(text).unwrap();
        let states = ["a", "b", "c"].map(State::new);
        let found: Vec<&str> = needed(&graph, &states).iter().map(|s| s.input.as_str()).collect();
        assert_eq!(found, ["a", "b"]);
        let value = |name: &str| graph.value_named(name).unwrap();
        assert!(depend_on(&graph, &[value("y")], value("a")));
        assert!(!depend_on(&graph, &[value("y")], value("a_out")));
    }
}
