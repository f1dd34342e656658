//! What a graph keeps between calls: the values of variables at each place of the run.

use super::checkpoint;
use super::item::GraphItem;
use crate::ops::RowContext;
use crate::states::{self, Asked, KeptStates};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::Layer;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The values of variables, by their names.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// The nodes of the main graph that make each variable, by what tells it from others.
    makers: HashMap<String, Vec<String>>,
    /// Those that are inputs of the model.
    asked: Asked,
    /// The value of each at present.
    values: RefCell<HashMap<String, GraphItem>>,
    /// What each change of a value took the place of, in their order.
    changes: RefCell<Vec<(String, Option<GraphItem>)>>,
    /// Those that were written, in that order, and by which node.
    written: RefCell<Vec<(String, Layer)>>,
    /// Their names.
    told: RefCell<HashSet<String>>,
    /// Those whose order of writes is not followed, and why.
    lost: RefCell<BTreeMap<String, Layer>>,
    /// Variables that were frozen, by their values; `None` if several have the same one.
    constants: RefCell<HashMap<Var, Option<String>>>,
    inputs: RefCell<HashMap<String, Var>>,
}

impl States {
    pub(crate) fn new(asked: &Asked, main: &[NodeDef]) -> States {
        let mut makers: HashMap<String, Vec<String>> = HashMap::new();
        for node in main.iter().filter(|node| checkpoint::is_variable(&node.op)) {
            makers.entry(checkpoint::identity(node, None)).or_default().push(node.name.clone());
        }
        States { makers, asked: asked.clone(), ..States::default() }
    }

    /// The nodes of the main graph that make the variable of a node; none for one that a function has to itself.
    pub(crate) fn makers(&self, function: Option<&str>, node: &NodeDef) -> &[String] {
        let found = self.makers.get(&checkpoint::identity(node, function));
        found.map_or(&[], Vec::as_slice)
    }

    /// The name of a variable: that of its node in the main graph, else what tells it from others.
    pub(crate) fn name(&self, function: Option<&str>, node: &NodeDef) -> String {
        let own = || checkpoint::identity(node, function);
        self.makers(function, node).first().cloned().unwrap_or_else(own)
    }

    /// The input that stands for a variable, if it is one that the model has as an input.
    pub(crate) fn input(
        &self,
        b: &GraphBuilder,
        name: &str,
        tensor: &Tensor,
    ) -> Result<Option<Var>> {
        if !self.asked.contains(name) {
            return Ok(None);
        }
        if let Some(known) = self.inputs.borrow().get(name) {
            return Ok(Some(*known));
        }
        let var = states::state(b, name, tensor.clone())?;
        self.inputs.borrow_mut().insert(name.to_owned(), var);
        Ok(Some(var))
    }

    /// Whether nothing is a variable.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.borrow().is_empty()
    }

    /// Says what a variable is before the first node runs.
    pub(crate) fn begin(&self, name: &str, var: Var) {
        if self.value(name).is_none() {
            self.set(name, GraphItem::Tensor(var));
        }
    }

    /// Says which constant a variable may have become.
    pub(crate) fn freeze(&self, name: &str, var: Var) {
        let own = Some(name.to_owned());
        let mut constants = self.constants.borrow_mut();
        let known = constants.entry(var).or_insert_with(|| own.clone());
        if *known != own {
            *known = None;
        }
    }

    /// The name of the variable that a constant may have been.
    pub(crate) fn constant(&self, var: Var) -> Option<String> {
        self.constants.borrow().get(&var).cloned().flatten()
    }

    /// The present value of a variable that has one.
    pub(crate) fn value(&self, name: &str) -> Option<GraphItem> {
        self.values.borrow().get(name).cloned()
    }

    pub(crate) fn set(&self, name: &str, item: GraphItem) {
        let before = self.values.borrow_mut().insert(name.to_owned(), item);
        self.changes.borrow_mut().push((name.to_owned(), before));
    }

    /// The place that values have come to, for a part of the graph that may not run.
    pub(crate) fn now(&self) -> usize {
        self.changes.borrow().len()
    }

    /// Takes back what changed since then.
    pub(crate) fn take_back(&self, since: usize) {
        let (mut values, mut changes) = (self.values.borrow_mut(), self.changes.borrow_mut());
        let from = since.min(changes.len());
        let later = changes.split_off(from);
        for (name, before) in later.into_iter().rev() {
            match before {
                Some(before) => drop(values.insert(name, before)),
                None => drop(values.remove(&name)),
            }
        }
    }

    /// Says that a variable is written or read where the order of that is not followed.
    pub(crate) fn lose(&self, name: &str, layer: Layer) {
        self.lost.borrow_mut().entry(name.to_owned()).or_insert(layer);
    }

    /// Says that a node writes a variable.
    pub(crate) fn wrote(&self, name: &str, layer: Layer) {
        if self.told.borrow_mut().insert(name.to_owned()) {
            self.written.borrow_mut().push((name.to_owned(), layer));
        }
    }

    /// What a node reads of a variable; `initial` if nothing wrote it.
    pub(crate) fn read(
        &self,
        driver: &Driver<'_, RowContext>,
        name: &str,
        initial: GraphItem,
    ) -> GraphItem {
        let lost = self.lost.borrow().get(name).cloned();
        if let Some(layer) = lost {
            driver.report(states::lost_in_frames(&written_state(name, layer)));
            return GraphItem::Hole;
        }
        self.value(name).unwrap_or(initial)
    }

    /// What was written, and the values at the end as outputs if they are asked for.
    pub(crate) fn kept(&self, b: &GraphBuilder) -> Result<KeptStates> {
        let lost = self.lost.borrow();
        let lost = lost.iter().map(|(name, layer)| written_state(name, layer.clone())).collect();
        let mut kept = KeptStates::default();
        kept.lost = lost;
        for (name, layer) in self.written.borrow().iter() {
            let value = self.value(name);
            let input = self.inputs.borrow().get(name).copied();
            if let (Some(input), Some(GraphItem::Tensor(value))) = (input, value) {
                kept.output(b, name, [input, value])?;
            }
            kept.written.push(written_state(name, layer.clone()));
        }
        Ok(kept)
    }
}

fn written_state(name: &str, layer: Layer) -> Written {
    Written { what: "variable", name: name.to_owned(), layer }
}
