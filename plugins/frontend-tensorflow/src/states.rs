//! What a network of any reader keeps between calls: found by a run in which it is constant, and an input and an output
//! in the next one.

use onnxd_plugin_sdk::State;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer};
use onnxd_plugin_sdk::ir::{Dim, Tensor, ValueType};
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Names of what a network keeps between calls and what is to be an input and an output.
pub(crate) type Asked = HashSet<String>;

/// What a network writes and what outlives a call, and what of it is an input and an output.
#[derive(Debug, Default)]
pub(crate) struct KeptStates {
    pub(crate) written: Vec<Written>,
    /// States of layers that may begin anew in each call.
    pub(crate) anew: Vec<Written>,
    /// What is written where that is not followed, and nothing reads afterwards.
    pub(crate) lost: Vec<Written>,
    states: Vec<State>,
    /// Which of them each name is.
    places: HashMap<String, usize>,
}

impl KeptStates {
    /// Lists the value at the end of a call as an output, for what is an input.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn output(
        &mut self,
        b: &GraphBuilder,
        name: &str,
        [input, value]: [Var; 2],
    ) -> Result<()> {
        let mut state = State::new(&b.name_of(input));
        let value = match b.dtype_of(input) {
            Some(dtype) => b.cast(value, dtype)?,
            None => value,
        };
        b.output(value, &state.output)?;
        let graph = b.graph();
        if let Some(output) = graph.outputs().last() {
            state.output.clone_from(&graph[*output].name);
        }
        self.places.entry(name.to_owned()).or_insert(self.states.len());
        self.states.push(state);
        Ok(())
    }

    /// What stands for something that is written.
    pub(crate) fn state(&self, written: &Written) -> Option<&State> {
        self.places.get(&written.name).and_then(|at| self.states.get(*at))
    }

    /// Notes for layers that begin anew in each call.
    pub(crate) fn begun(&self) -> Vec<Diagnostic> {
        let mut seen = HashSet::new();
        let layers = self.anew.iter().map(|written| &written.layer);
        let layers: Vec<&Layer> =
            layers.filter(|layer| seen.insert((&layer.name, &layer.kind))).collect();
        let note = |layer: &Layer| {
            let message = "The kernel of this layer goes on from its state of the call before; the model begins \
                each call with zeros.";
            let help =
                "Set `export.mutations = \"outputs\"` to have the state as an input and an output.";
            Diagnostic::new(Code::LayerParameterIgnored, message).at(layer.clone()).help(help)
        };
        layers.into_iter().map(note).collect()
    }

    /// All inputs and outputs.
    pub(crate) fn states(&self) -> Vec<State> {
        self.states.clone()
    }
}

/// The finding for a write whose order among others is not followed.
pub(crate) fn lost_in_frames(written: &Written) -> Diagnostic {
    let why = "is in a loop or condition of TensorFlow 1, where it cannot be followed";
    let help = "Write the variable before or behind it, or save the network with `tf.function`: loops and conditions \
        of TensorFlow 2 are followed.";
    written.impossible(why).help(help)
}

/// Keeps the names of outputs free that have values for the next call.
pub(crate) fn reserve(b: &GraphBuilder, asked: &Asked) {
    b.reserve(asked.iter().map(|name| State::new(name).output));
}

/// An input whose value for the first call is known.
///
/// # Errors
/// Those of the builder.
pub(crate) fn state(b: &GraphBuilder, name: &str, tensor: Tensor) -> Result<Var> {
    let sizes: Vec<Dim> = tensor.dims().iter().map(|n| Dim::Known(*n as i64)).collect();
    let var = b.input(name, ValueType::tensor(tensor.dtype(), sizes));
    let id = b.id(var)?;
    b.graph_mut().set_initializer(id, Some(tensor));
    Ok(var)
}

/// A name that nothing else has. `taken` counts how often each was asked for.
pub(crate) fn fresh(name: &str, taken: &mut HashMap<String, usize>) -> String {
    let mut found = name.to_owned();
    while taken.contains_key(&found) {
        let count = taken.entry(name.to_owned()).or_insert(1);
        *count += 1;
        found = format!("{name}_{count}");
    }
    taken.insert(found.clone(), 1);
    found
}

/// The states of a network whose layers run one after the other.
#[derive(Debug, Default)]
pub(crate) struct States {
    asked: Asked,
    /// The value of each at present.
    values: RefCell<HashMap<String, Var>>,
    inputs: RefCell<HashMap<String, Var>>,
    written: RefCell<Vec<Written>>,
    anew: RefCell<Vec<Written>>,
    /// The names of both.
    told: RefCell<[HashSet<String>; 2]>,
    /// Names that are given, by what tells a state from others, and how often each was asked for.
    names: RefCell<HashMap<(usize, usize, bool), String>>,
    taken: RefCell<HashMap<String, usize>>,
}

impl States {
    pub(crate) fn new(asked: &Asked) -> States {
        States { asked: asked.clone(), ..States::default() }
    }

    /// Whether the model has any of them as an input.
    pub(crate) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The name of the state with a key: `name`, or one that begins with it if another state has it.
    pub(crate) fn named(&self, key: (usize, usize, bool), name: &str) -> String {
        if let Some(known) = self.names.borrow().get(&key) {
            return known.clone();
        }
        let name = fresh(name, &mut self.taken.borrow_mut());
        self.names.borrow_mut().insert(key, name.clone());
        name
    }

    /// Whether a layer with this state ran before.
    pub(crate) fn has_begun(&self, name: &str) -> bool {
        self.told.borrow()[1].contains(name)
    }

    /// Says that a layer has a state, which may begin anew in each call.
    pub(crate) fn begin(&self, name: &str, layer: Layer) {
        self.told.borrow_mut()[1].insert(name.to_owned());
        self.anew.borrow_mut().push(Written { what: "state", name: name.to_owned(), layer });
    }

    /// The present value of a state; `first` is the one for the first call.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn value(&self, b: &GraphBuilder, name: &str, first: Tensor) -> Result<Var> {
        if let Some(known) = self.values.borrow().get(name) {
            return Ok(*known);
        }
        let var = match self.asked.contains(name) {
            true => state(b, name, first)?,
            false if first.len() > 1 => b.parameter(name, first),
            false => b.constant(first),
        };
        if self.asked.contains(name) {
            self.inputs.borrow_mut().insert(name.to_owned(), var);
        }
        self.values.borrow_mut().insert(name.to_owned(), var);
        Ok(var)
    }

    /// Says what a state is from now on, by the layer that writes it.
    pub(crate) fn write(&self, what: &'static str, name: &str, layer: Layer, var: Var) {
        self.values.borrow_mut().insert(name.to_owned(), var);
        self.wrote(Written { what, name: name.to_owned(), layer });
    }

    /// Says that a state is written.
    pub(crate) fn wrote(&self, written: Written) {
        if self.told.borrow_mut()[0].insert(written.name.clone()) {
            self.written.borrow_mut().push(written);
        }
    }

    /// What was written, and the values at the end as outputs if they are asked for.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn kept(&self, b: &GraphBuilder) -> Result<KeptStates> {
        let (written, anew) = (self.written.borrow().clone(), self.anew.borrow().clone());
        let mut kept = KeptStates { written, anew, ..KeptStates::default() };
        for written in self.written.borrow().iter() {
            let (inputs, values) = (self.inputs.borrow(), self.values.borrow());
            if let (Some(input), Some(value)) =
                (inputs.get(&written.name), values.get(&written.name))
            {
                kept.output(b, &written.name, [*input, *value])?;
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
pub(crate) mod tests;
