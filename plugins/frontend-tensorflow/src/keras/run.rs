//! Runs models on the values of an ONNX graph that is built on the way: each call of a layer runs when an output needs
//! it.

use super::layer::{Argument, CallOutput, KerasLayer, KerasNetwork, LayerCall, damaged};
use super::rows;
use super::runner::{CallArgs, Called, KerasRunner};
use super::values::{self, KerasItem, problem};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, refuse, shown};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Calls of layers that a conversion may run, those of models that are called several times counted each time.
const CALLS_MAX: usize = if cfg!(test) { 5_000 } else { 200_000 };

/// The calls of a model that is run.
struct Scope<'n> {
    network: &'n KerasNetwork,
    path: &'n str,
    by_name: HashMap<&'n str, usize>,
    done: RefCell<HashMap<(usize, usize), Vec<KerasItem>>>,
}

impl KerasRunner<'_, '_> {
    /// Calls a layer or model, whose name follows `within`, the path of what holds it. Gives its outputs one after the
    /// other.
    ///
    /// # Errors
    /// What is wrong with the model beyond this layer. What is wrong with the layer is reported, and leaves a hole.
    pub(crate) fn call(
        &self,
        layer: &KerasLayer,
        within: &str,
        mut given: CallArgs,
    ) -> Result<Vec<KerasItem>> {
        let before = self.take_training(&mut given);
        let items = self.called(layer, within, given);
        self.set_training(before);
        items
    }

    fn called(&self, layer: &KerasLayer, within: &str, given: CallArgs) -> Result<Vec<KerasItem>> {
        let path = super::weights::join(within, &layer.name);
        let called = Called { runner: self, layer, path: &path };
        self.ran.set(self.ran.get() + 1);
        refuse!(self.ran.get() > CALLS_MAX =>
            called.problem(Code::SourceLimit, format!("The model calls its layers more than {CALLS_MAX} times.")));
        if let Some(network) = &layer.network {
            return self.network(network, &path, &given);
        }
        if self.is_refused(&called) || self.is_trained(&called) {
            return Ok(vec![KerasItem::Hole]);
        }
        for wrapper in rows::WRAPPERS {
            if let Some(items) = wrapper(&called, &given)? {
                return self.rounded(layer, items);
            }
        }
        self.row(&called, given)
    }

    /// Runs a model.
    ///
    /// # Errors
    /// As [`KerasRunner::call`].
    pub(crate) fn network(
        &self,
        network: &KerasNetwork,
        path: &str,
        arguments: &CallArgs,
    ) -> Result<Vec<KerasItem>> {
        if network.is_sequence {
            return self.sequence(network, path, arguments);
        }
        let scope = Scope {
            network,
            path,
            by_name: network.layers.iter().enumerate().map(|(i, l)| (l.name.as_str(), i)).collect(),
            done: RefCell::default(),
        };
        self.feed(&scope, arguments)?;
        let mut leaves = vec![];
        network.outputs.leaves(&mut leaves);
        let mut all = vec![];
        for leaf in leaves {
            let Argument::Place(place) = leaf else {
                return Err(damaged("An output of a model is no tensor of it."));
            };
            let node = self.node_of(&scope, place, true)?;
            self.evaluate(&scope, node)?;
            all.push(self.known(&scope, place, node)?);
        }
        Ok(all)
    }

    /// Runs layers one after the other.
    fn sequence(
        &self,
        network: &KerasNetwork,
        path: &str,
        given: &CallArgs,
    ) -> Result<Vec<KerasItem>> {
        let first = given.first().cloned().unwrap_or(KerasItem::Hole);
        let mut items = vec![masked(first, given.name("mask"))];
        for (i, layer) in network.layers.iter().enumerate() {
            let item = KerasItem::of(items);
            items = match layer.class.as_str() {
                "InputLayer" if i == 0 => vec![self.as_declared(layer, item)?],
                _ => self.call(layer, path, CallArgs::one(item))?,
            };
        }
        Ok(items)
    }

    /// Gives the inputs of a model what it is called with.
    fn feed(&self, scope: &Scope<'_>, arguments: &CallArgs) -> Result<()> {
        let mut leaves = vec![];
        scope.network.inputs.leaves(&mut leaves);
        let first = arguments.first().cloned().unwrap_or(KerasItem::Hole);
        let first = masked(first, arguments.name("mask"));
        let is_dict = matches!(scope.network.inputs, Argument::Dict(_));
        let feed_items: Vec<KerasItem> = match &first {
            // By the names of the inputs, where the model has a list of them.
            KerasItem::Dict(items) if !is_dict => leaves
                .iter()
                .filter_map(|leaf| {
                    let Argument::Place(place) = leaf else { return None };
                    items.iter().find(|(key, _)| *key == place.layer).map(|(_, item)| item.clone())
                })
                .collect(),
            other => other.leaves().into_iter().cloned().collect(),
        };
        if feed_items.len() != leaves.len() {
            let message = format!(
                "The model `{}` is called with {} tensors, not {}.",
                shown(scope.path),
                feed_items.len(),
                leaves.len()
            );
            return Err(damaged(message));
        }
        for (leaf, item) in leaves.into_iter().zip(feed_items) {
            let Argument::Place(place) = leaf else {
                return Err(damaged("An input of a model is no layer of it."));
            };
            let (at, call) = self.node_of(scope, place, false)?;
            let item = self.as_declared(&scope.network.layers[at], item)?;
            scope.done.borrow_mut().insert((at, call), vec![item]);
        }
        Ok(())
    }

    /// The layer and the call of it that a place names. Keras counts the making of a model as a call of it: in
    /// version 2 everywhere, in version 3 only in the outputs of the model around it.
    fn node_of(
        &self,
        scope: &Scope<'_>,
        place: &CallOutput,
        is_output: bool,
    ) -> Result<(usize, usize)> {
        let unknown = || {
            let name = shown(&place.layer);
            damaged(format!(
                "The model reads `{name}`, call {}, which it does not have.",
                place.call
            ))
        };
        let at = *scope.by_name.get(place.layer.as_str()).ok_or_else(unknown)?;
        let layer = &scope.network.layers[at];
        let counts = layer.network.as_ref().is_some_and(|network| network.counts_making);
        let call = match counts && (is_output || self.is_keras2) {
            true => place.call.checked_sub(1).ok_or_else(unknown)?,
            false => place.call,
        };
        let is_there = call < layer.calls.len() || (layer.class == "InputLayer" && call == 0);
        if is_there { Ok((at, call)) } else { Err(unknown()) }
    }

    fn known(
        &self,
        scope: &Scope<'_>,
        place: &CallOutput,
        node: (usize, usize),
    ) -> Result<KerasItem> {
        let done = scope.done.borrow();
        let items = done.get(&node).map(Vec::as_slice);
        match items {
            Some([KerasItem::Hole]) => Ok(KerasItem::Hole),
            Some(items) if place.output < items.len() => Ok(items[place.output].clone()),
            _ => {
                let message = format!(
                    "The model reads output {} of `{}`, which has no such.",
                    place.output,
                    shown(&place.layer)
                );
                Err(damaged(message))
            }
        }
    }

    /// Runs a call and all that it needs, without recursion along the model.
    fn evaluate(&self, scope: &Scope<'_>, node: (usize, usize)) -> Result<()> {
        let mut open = HashSet::new();
        let mut stack = vec![node];
        while let Some(node) = stack.last().copied() {
            if scope.done.borrow().contains_key(&node) {
                stack.pop();
                continue;
            }
            let layer = &scope.network.layers[node.0];
            let Some(call) = layer.calls.get(node.1) else {
                let name = shown(&layer.name);
                return Err(damaged(format!("`{name}` is an input that the model does not list.")));
            };
            let mut waiting = vec![];
            for place in places(call) {
                let needed = self.node_of(scope, place, false)?;
                if !scope.done.borrow().contains_key(&needed) {
                    waiting.push(needed);
                }
            }
            if waiting.is_empty() {
                let given = self.given(scope, call)?;
                let items = self.call(layer, scope.path, given)?;
                scope.done.borrow_mut().insert(node, items);
            } else if open.insert(node) {
                // The first one is on top.
                stack.extend(waiting.into_iter().rev());
            } else {
                let message = "The layer depends on its own result.";
                return Err(problem(&layer.name, &layer.class, Code::LayerCycle, message));
            }
        }
        Ok(())
    }

    fn given(&self, scope: &Scope<'_>, call: &LayerCall) -> Result<CallArgs> {
        let positional =
            call.positional.iter().map(|a| self.item(scope, a)).collect::<Result<_>>()?;
        let named = call.named.iter().map(|(name, a)| Ok((name.clone(), self.item(scope, a)?)));
        Ok(CallArgs { positional, named: named.collect::<Result<_>>()? })
    }

    /// What an argument stands for, once all calls that it needs have run.
    fn item(&self, scope: &Scope<'_>, argument: &Argument) -> Result<KerasItem> {
        Ok(match argument {
            Argument::Place(place) => {
                let node = self.node_of(scope, place, false)?;
                self.known(scope, place, node)?
            }
            Argument::List(items) => {
                KerasItem::List(items.iter().map(|a| self.item(scope, a)).collect::<Result<_>>()?)
            }
            Argument::Dict(items) => {
                let items = items.iter().map(|(key, a)| Ok((key.clone(), self.item(scope, a)?)));
                KerasItem::Dict(items.collect::<Result<_>>()?)
            }
            Argument::Constant(json, word) => values::constant(self.builder(), json, word)?.into(),
            Argument::Plain(json) => KerasItem::Plain(values::value(json)),
            Argument::Nothing => KerasItem::nothing(),
        })
    }
}

/// The places that a call reads.
fn places(call: &LayerCall) -> impl Iterator<Item = &CallOutput> {
    let mut leaves = vec![];
    let all = call.positional.iter().chain(call.named.iter().map(|(_, argument)| argument));
    all.for_each(|argument| argument.leaves(&mut leaves));
    leaves.into_iter().filter_map(|leaf| match leaf {
        Argument::Place(place) => Some(place),
        _ => None,
    })
}

/// Tensors with the masks that a model is called with.
fn masked(item: KerasItem, mask: Option<&KerasItem>) -> KerasItem {
    let Some(mask) = mask else { return item };
    let mut masks = mask.leaves().into_iter();
    let put = |leaf: KerasItem| {
        let mask = masks.next().and_then(KerasItem::tensor);
        Ok(match (leaf, mask) {
            (KerasItem::Tensor(var, _), Some(mask)) => KerasItem::Tensor(var, Some(mask)),
            (leaf, _) => leaf,
        })
    };
    item.map(&mut { put }).unwrap_or(KerasItem::Hole)
}
