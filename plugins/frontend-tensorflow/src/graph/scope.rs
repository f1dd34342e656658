//! What runs: a graph or the call of a function, with the values of its nodes, and what all of them share.
//! `dispatch` runs the nodes themselves.

use super::body::GraphBody;
use super::item::GraphItem;
use super::node::{self, FunctionLibrary};
use super::sequence::Sequences;
use super::states::States;
use super::variables::{Variables, type_of};
use crate::ops::{RowContext, complex};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Driver, Lower, Lowering, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Calls inside each other.
pub(crate) const DEPTH_MAX: usize = 64;

/// Nodes that a conversion may run, those of inlined calls counted each time.
const NODES_MAX: usize = 2_000_000;

/// The parameters of functions that they write to, by position.
pub(crate) type Writes = BTreeSet<usize>;

/// A graph that runs, or one call of a function.
pub(crate) struct Scope<'a> {
    pub(crate) body: Rc<GraphBody<'a>>,
    /// Arguments of the function by name. A list has several items.
    pub(crate) args: HashMap<&'a str, Vec<GraphItem>>,
    done: RefCell<HashMap<usize, Rc<[GraphItem]>>>,
    /// What names of its nodes start with: empty, or ends with `/`.
    pub(crate) path: String,
    /// The function whose body it is; `None` for the main graph.
    pub(crate) function: Option<&'a str>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(
        body: Rc<GraphBody<'a>>,
        args: HashMap<&'a str, Vec<GraphItem>>,
        path: String,
    ) -> Scope<'a> {
        Scope { body, args, done: RefCell::default(), path, function: None }
    }

    pub(crate) fn has_run(&self, node: usize) -> bool {
        self.done.borrow().contains_key(&node)
    }

    /// An output of a node that has run.
    pub(crate) fn output(&self, node: usize, slot: usize) -> Option<GraphItem> {
        self.done.borrow().get(&node).and_then(|items| items.get(slot).cloned())
    }

    /// Gives what a node computes beforehand: an input, or a part of a loop.
    pub(crate) fn settle(&self, node: usize, items: Vec<GraphItem>) {
        self.done.borrow_mut().insert(node, items.into());
    }

    /// A scope for a part of the same nodes, in which none of them has run.
    pub(crate) fn part(&self) -> Scope<'a> {
        let scope = Scope::new(self.body.clone(), self.args.clone(), self.path.clone());
        Scope { function: self.function, ..scope }
    }

    /// Takes what a node gave in another scope of the same nodes, if it has run there.
    pub(crate) fn inherit(&self, from: &Scope<'a>, node: usize) {
        if let Some(items) = from.done.borrow().get(&node) {
            self.done.borrow_mut().insert(node, items.clone());
        }
    }

    pub(crate) fn layer(&self, node: &NodeDef) -> Layer {
        Layer::new(format!("{}{}", self.path, node.name), node.op.clone())
    }
}

/// What all scopes share.
pub(crate) struct GraphRunner<'a, 's> {
    pub(crate) driver: &'a Driver<'s, RowContext>,
    pub(crate) library: FunctionLibrary<'a>,
    bodies: RefCell<HashMap<&'a str, Rc<GraphBody<'a>>>>,
    pub(crate) variables: &'a Variables<'a>,
    /// The lists that are sequences of ONNX.
    pub(crate) sequences: &'a Sequences,
    /// The values of variables as they are written.
    pub(crate) states: States,
    /// Variables that became inputs; `None` if they are constants.
    pub(crate) weights: RefCell<Option<Vec<Var>>>,
    /// What functions write to, as far as it was asked.
    pub(crate) writes: RefCell<HashMap<&'a str, Rc<Writes>>>,
    pub(crate) depth: Cell<usize>,
    /// Paths of calls, each with its function.
    paths: RefCell<HashSet<(String, &'a str)>>,
    in_order: RefCell<Vec<(String, &'a str)>>,
    ran: Cell<usize>,
    /// Bytes of constants beyond those of the file.
    pub(super) repeated: Cell<usize>,
}

impl<'a, 's> GraphRunner<'a, 's> {
    pub(crate) fn new(
        driver: &'a Driver<'s, RowContext>,
        library: FunctionLibrary<'a>,
        variables: &'a Variables<'a>,
        weights: Option<Vec<Var>>,
        (sequences, states): (&'a Sequences, States),
    ) -> GraphRunner<'a, 's> {
        let (bodies, writes, depth, paths, in_order, ran, repeated) = Default::default();
        let weights = RefCell::new(weights);
        GraphRunner {
            driver,
            library,
            bodies,
            variables,
            sequences,
            states,
            weights,
            writes,
            depth,
            paths,
            in_order,
            ran,
            repeated,
        }
    }

    pub(crate) fn builder(&self) -> &'a Lower<'s, RowContext> {
        self.driver.builder()
    }

    /// The body of a function of the library.
    pub(crate) fn body(&self, function: &'a str) -> Option<Rc<GraphBody<'a>>> {
        if let Some(body) = self.bodies.borrow().get(function) {
            return Some(body.clone());
        }
        let body = Rc::new(GraphBody::new(&self.library.get(function)?.node_def));
        self.bodies.borrow_mut().insert(function, body.clone());
        Some(body)
    }

    /// How many calls have paths so far, for a part of the graph that may be run again.
    pub(crate) fn remembered(&self) -> usize {
        self.in_order.borrow().len()
    }

    /// Forgets the paths of all calls but the first ones.
    pub(crate) fn remember(&self, count: usize) {
        let (mut paths, mut in_order) = (self.paths.borrow_mut(), self.in_order.borrow_mut());
        let from = count.min(in_order.len());
        let later = in_order.split_off(from);
        for path in later {
            paths.remove(&path);
        }
    }

    /// What names inside a call start with; the second call of a function in one place has its node's name in it.
    pub(crate) fn path(&self, caller: &Scope<'_>, node: &NodeDef, function: &'a str) -> String {
        let path = path_of(&caller.path, &node.name);
        if !self.paths.borrow_mut().insert((path.clone(), function)) {
            return format!("{}{}/", caller.path, node.name);
        }
        self.in_order.borrow_mut().push((path.clone(), function));
        path
    }

    /// Counts work, so that no graph runs for ever.
    ///
    /// # Errors
    /// `N0213` if it is too much.
    pub(crate) fn work(&self, scope: &Scope<'_>, node: &NodeDef, amount: usize) -> Result<()> {
        self.ran.set(self.ran.get().saturating_add(amount));
        if self.ran.get() > NODES_MAX {
            let message =
                format!("The graph has more than {NODES_MAX} nodes once its calls are inlined.");
            return Err(self.problem(scope, node, Code::SourceLimit, message));
        }
        Ok(())
    }

    /// What is wrong at a node.
    pub(crate) fn problem(
        &self,
        scope: &Scope<'_>,
        node: &NodeDef,
        code: Code,
        what: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(code, what).at(scope.layer(node))
    }

    /// Reports what is wrong at a node; holes stand for what it gives.
    pub(crate) fn refuse(
        &self,
        scope: &Scope<'_>,
        node: &NodeDef,
        code: Code,
        what: impl Into<String>,
    ) -> Vec<GraphItem> {
        self.driver.report(self.problem(scope, node, code, what));
        vec![GraphItem::Hole; node::output_count(node, self.library.get(node.op.as_str()).copied())]
    }

    /// Demands that no node waits for itself by control inputs.
    ///
    /// # Errors
    /// `N0206` if one does.
    pub(crate) fn ordered(&self, scope: &Scope<'_>) -> Result<()> {
        let Some(index) = scope.body.circle() else { return Ok(()) };
        let message = "The node waits for itself by control inputs.";
        Err(self.problem(scope, &scope.body.nodes[index], Code::LayerCycle, message))
    }

    /// Hands arguments to the row of an operator.
    pub(crate) fn lower(
        &self,
        scope: &Scope<'a>,
        node: &NodeDef,
        op: &str,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Vec<GraphItem> {
        let layer = scope.layer(node);
        let name = |i: usize| match i {
            0 => layer.name.clone(),
            _ => format!("{}:{i}", layer.name),
        };
        let results = (0..node::output_count(node, None)).map(name).collect();
        let op = op.to_owned();
        let given = complex::lower(
            self.driver,
            Lowering { op, layer, arguments, named, results, ..Lowering::default() },
        );
        let item = |value| match value {
            Value::Var(var) => GraphItem::Tensor(var),
            _ => GraphItem::Hole,
        };
        given.into_iter().map(item).collect()
    }

    /// A weight of the network: a constant, or an input if weights are not written.
    pub(crate) fn weight(&self, name: &str, tensor: Tensor) -> Var {
        let b = self.builder();
        let mut weights = self.weights.borrow_mut();
        let Some(weights) = weights.as_mut() else { return b.parameter(name, tensor) };
        let var = b.input(name, type_of(&tensor));
        weights.push(var);
        var
    }
}

/// What names inside a call start with: that of its node, but not the words that TensorFlow calls all of them by.
pub(crate) fn path_of(caller: &str, node: &str) -> String {
    let (folder, last) = node.rsplit_once('/').unwrap_or(("", node));
    let word = last.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    match (word, folder) {
        ("PartitionedCall" | "StatefulPartitionedCall", "") => caller.to_owned(),
        ("PartitionedCall" | "StatefulPartitionedCall", folder) => format!("{caller}{folder}/"),
        _ => format!("{caller}{node}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_no_word_for_calls() {
        assert_eq!(path_of("", "StatefulPartitionedCall_1"), "");
        assert_eq!(path_of("a/", "net/grp/PartitionedCall"), "a/net/grp/");
        assert_eq!(path_of("a/", "MyFn_2"), "a/MyFn_2/");
    }
}
