//! Runs graphs on the values of an ONNX graph that is built on the way: each node is computed when an output needs it.
//! Calls are inlined, variables have the values that were written last, and what functions carry besides tensors stays
//! here.

use super::body::Body;
use super::effects::Writes;
use super::node::{self, Library, Reference};
use super::states::States;
use super::{calls, control, effects, frames, idioms, lists, narrow, resources};
use crate::ops::Source;
use crate::ops::activation::GELU;
use crate::wire::proto::{Attr, NodeDef};
use crate::wire::tensor::{REPEATED_BYTES_MAX, repeated_bytes, tensor_of};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer, shown};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Driver, Lower, Lowering, Value};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Calls inside each other.
pub(crate) const DEPTH_MAX: usize = 64;

/// Nodes that a conversion may run, those of inlined calls counted each time.
const NODES_MAX: usize = 2_000_000;

/// Operators that give what they get.
const PASSES: [&str; 8] = [
    "Identity",
    "IdentityN",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "CheckNumericsV2",
    "Snapshot",
    "PlaceholderWithDefault",
];

/// What stands for a tensor of TensorFlow's graph.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Tensor(Var),
    /// A handle of a variable or table.
    Resource(Rc<resources::Variable>),
    /// A list of tensors (`variant`).
    List(Rc<lists::List>),
    /// What could not be converted; it was reported.
    Hole,
}

/// A graph that runs, or one call of a function.
pub(crate) struct Scope<'a> {
    pub(crate) body: Rc<Body<'a>>,
    /// Arguments of the function by name. A list has several items.
    pub(crate) args: HashMap<&'a str, Vec<Item>>,
    done: RefCell<HashMap<usize, Rc<[Item]>>>,
    /// What names of its nodes start with: empty, or ends with `/`.
    pub(crate) path: String,
    /// The function whose body it is; `None` for the main graph.
    pub(crate) function: Option<&'a str>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(
        body: Rc<Body<'a>>,
        args: HashMap<&'a str, Vec<Item>>,
        path: String,
    ) -> Scope<'a> {
        Scope { body, args, done: RefCell::default(), path, function: None }
    }

    pub(crate) fn has_run(&self, node: usize) -> bool {
        self.done.borrow().contains_key(&node)
    }

    /// Gives what a node computes beforehand: an input, or a part of a loop.
    pub(crate) fn settle(&self, node: usize, items: Vec<Item>) {
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

pub(crate) struct Runner<'a, 's> {
    pub(crate) driver: &'a Driver<'s, Source>,
    pub(crate) library: Library<'a>,
    bodies: RefCell<HashMap<&'a str, Rc<Body<'a>>>>,
    pub(crate) variables: &'a resources::Variables<'a>,
    /// The lists that are sequences of ONNX.
    pub(crate) sequences: &'a lists::Sequences,
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
    repeated: Cell<usize>,
}

impl<'a, 's> Runner<'a, 's> {
    pub(crate) fn new(
        driver: &'a Driver<'s, Source>,
        library: Library<'a>,
        variables: &'a resources::Variables<'a>,
        weights: Option<Vec<Var>>,
        (sequences, states): (&'a lists::Sequences, States),
    ) -> Runner<'a, 's> {
        let (bodies, writes, depth, paths, in_order, ran, repeated) = Default::default();
        let weights = RefCell::new(weights);
        Runner {
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

    pub(crate) fn builder(&self) -> &'a Lower<'s, Source> {
        self.driver.builder()
    }

    /// The body of a function of the library.
    pub(crate) fn body(&self, function: &'a str) -> Option<Rc<Body<'a>>> {
        if let Some(body) = self.bodies.borrow().get(function) {
            return Some(body.clone());
        }
        let body = Rc::new(Body::new(&self.library.get(function)?.node_def));
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
        let path = calls::path_of(&caller.path, &node.name);
        if !self.paths.borrow_mut().insert((path.clone(), function)) {
            return format!("{}{}/", caller.path, node.name);
        }
        self.in_order.borrow_mut().push((path.clone(), function));
        path
    }

    /// Gives a tensor of the main graph that an input of the model stands for.
    ///
    /// # Errors
    /// `N0201` if the graph does not have it, `N0203` if the node gives several.
    pub(crate) fn feed(&self, scope: &Scope<'a>, place: &str, item: Item) -> Result<()> {
        let Some(index) = self.node_of(scope, place)? else { return Ok(()) };
        let node = &scope.body.nodes[index];
        let count = node::output_count(node, self.library.get(node.op.as_str()).copied());
        if count != 1 {
            let message = format!("The input `{}` is one of several results.", shown(place));
            return Err(self.problem(scope, node, Code::LayerUnsupported, message));
        }
        scope.settle(index, vec![item]);
        Ok(())
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
    ) -> Vec<Item> {
        self.driver.report(self.problem(scope, node, code, what));
        vec![Item::Hole; node::output_count(node, self.library.get(node.op.as_str()).copied())]
    }

    /// The tensor that a text refers to.
    ///
    /// # Errors
    /// `N0201` if there is none, `N0206` if it depends on itself, `N0213` beyond limits.
    pub(crate) fn value(&self, scope: &Scope<'a>, text: &str) -> Result<Item> {
        if let Some(index) = self.node_of(scope, text)? {
            self.evaluate(scope, index)?;
        }
        self.known(scope, text)
    }

    /// The node that a text refers to; `None` for an argument of the function, and for control inputs.
    pub(crate) fn node_of(&self, scope: &Scope<'a>, text: &str) -> Result<Option<usize>> {
        let name = match node::reference(text) {
            None => return Ok(None),
            Some(Reference::Slot(name, _) | Reference::Output(name, ..)) => name,
        };
        if scope.args.contains_key(name) {
            return Ok(None);
        }
        scope.body.find(name).map(Some).ok_or_else(|| {
            let message = format!("A node reads `{}`, which the graph does not have.", shown(text));
            Diagnostic::new(Code::SourceSyntax, message)
        })
    }

    /// What a text refers to, once its node has run.
    fn known(&self, scope: &Scope<'a>, text: &str) -> Result<Item> {
        let none = || {
            let message = format!("A node reads `{}`, and there is no such output.", shown(text));
            Diagnostic::new(Code::SourceSyntax, message)
        };
        let reference = node::reference(text).ok_or_else(none)?;
        let (Reference::Slot(name, _) | Reference::Output(name, ..)) = reference;
        if let Some(items) = scope.args.get(name) {
            let at = match reference {
                Reference::Slot(_, at) | Reference::Output(_, _, at) => at,
            };
            return items.get(at).cloned().ok_or_else(none);
        }
        let index = scope.body.find(name).ok_or_else(none)?;
        let node = &scope.body.nodes[index];
        let slot = match reference {
            Reference::Slot(_, slot) => slot,
            Reference::Output(_, output, at) => {
                node::slot(node, self.library.get(node.op.as_str()).copied(), output, at)
            }
        };
        scope.done.borrow().get(&index).and_then(|items| items.get(slot).cloned()).ok_or_else(none)
    }

    /// Runs a node and all that it needs, without recursion along the graph.
    ///
    /// # Errors
    /// As [`Runner::value`].
    pub(crate) fn evaluate(&self, scope: &Scope<'a>, index: usize) -> Result<()> {
        let mut open = HashMap::new();
        let mut stack = vec![index];
        while let Some(index) = stack.last().copied() {
            if scope.done.borrow().contains_key(&index) {
                stack.pop();
                continue;
            }
            let node = &scope.body.nodes[index];
            let mut waiting = vec![];
            if frames::is_lazy(&node.op) {
                waiting = frames::needs(self, scope, index)?;
                waiting.retain(|i| !scope.done.borrow().contains_key(i));
            } else {
                for text in &node.input {
                    let needed = self.node_of(scope, text).map_err(|e| e.at(scope.layer(node)))?;
                    waiting.extend(needed.filter(|i| !scope.done.borrow().contains_key(i)));
                }
            }
            if waiting.is_empty() {
                let items = self.node(scope, index)?;
                scope.settle(index, items);
            } else if open.insert(index, ()).is_some() {
                let message = "The node depends on its own result.";
                return Err(self.problem(scope, node, Code::LayerCycle, message));
            } else {
                // The first one is on top.
                stack.extend(waiting.into_iter().rev());
            }
        }
        Ok(())
    }

    /// Runs one node whose inputs are known.
    fn node(&self, scope: &Scope<'a>, index: usize) -> Result<Vec<Item>> {
        let node = &scope.body.nodes[index];
        self.work(scope, node, 1)?;
        if frames::is_lazy(&node.op) {
            return frames::run(self, scope, index);
        }
        if let Some(x) = idioms::gelu(&scope.body, node)
            && let Item::Tensor(x) = self.known(scope, x)?
        {
            let named = vec![("x".to_owned(), Value::Var(x))];
            return Ok(self.lower(scope, node, GELU, vec![], named));
        }
        let data = node.input.iter().filter(|text| !text.starts_with('^'));
        let inputs = data.map(|text| self.known(scope, text)).collect::<Result<Vec<Item>>>()?;
        let inputs = effects::present(self, scope, node, inputs);
        if node.op == "Const" {
            return self.constant(scope, node);
        }
        if PASSES.contains(&node.op.as_str()) {
            return Ok(inputs);
        }
        if let Some(items) = frames::passed(node, &inputs) {
            return Ok(items);
        }
        for special in [calls::run, resources::run, lists::run, control::run] {
            if let Some(items) = special(self, scope, node, &inputs)? {
                return Ok(items);
            }
        }
        Ok(self.operator(scope, node, inputs))
    }

    fn constant(&self, scope: &Scope<'a>, node: &NodeDef) -> Result<Vec<Item>> {
        let Some(Attr::Tensor(proto)) = node.attr.get("value").and_then(|attr| attr.value.as_ref())
        else {
            let message = "The constant has no value.";
            return Err(self.problem(scope, node, Code::SourceSyntax, message));
        };
        let repeated = self.repeated.get().saturating_add(repeated_bytes(proto));
        self.repeated.set(repeated);
        if repeated > REPEATED_BYTES_MAX {
            let message = "Constants of the graph repeat their values to too many bytes.";
            return Err(self.problem(scope, node, Code::SourceLimit, message));
        }
        let tensor = tensor_of(proto).map_err(|e| e.at(scope.layer(node)))?;
        let b = self.builder();
        let small = tensor.len() <= 1 && tensor.as_strings().is_none();
        let name = format!("{}{}", scope.path, node.name);
        let var = match (self.states.input(b, &name, &tensor)?, small) {
            (Some(input), _) => input,
            (None, true) => b.constant(tensor),
            (None, false) => b.parameter(&name, tensor),
        };
        self.states.freeze(&name, var);
        Ok(vec![Item::Tensor(var)])
    }

    /// Hands an operator to the table.
    fn operator(&self, scope: &Scope<'a>, node: &NodeDef, inputs: Vec<Item>) -> Vec<Item> {
        let mut values = vec![];
        for item in inputs {
            values.push(match item {
                Item::Tensor(var) => Value::Var(var),
                Item::Hole => Value::Hole,
                Item::Resource(_) | Item::List(_) => {
                    let message = "The operator reads a variable or a list as a whole.";
                    return self.refuse(scope, node, Code::LayerUnsupported, message);
                }
            });
        }
        let (arguments, mut named) = node::named_inputs(node, values);
        if let Some((name, _)) = node::generic(node) {
            let message = format!("The attribute `{}` is left open.", shown(name));
            return self.refuse(scope, node, Code::LayerUnsupported, message);
        }
        named.extend(node::attributes(node));
        let run = |arguments, named| self.lower(scope, node, &node.op, arguments, named);
        match narrow::is_short(node) {
            true => narrow::widened(self.driver, scope.layer(node), node, (arguments, named), run),
            false => run(arguments, named),
        }
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
    ) -> Vec<Item> {
        let layer = scope.layer(node);
        let name = |i: usize| match i {
            0 => layer.name.clone(),
            _ => format!("{}:{i}", layer.name),
        };
        let results = (0..node::output_count(node, None)).map(name).collect();
        let op = op.to_owned();
        let given = crate::ops::complex::lower(
            self.driver,
            Lowering { op, layer, arguments, named, results, ..Lowering::default() },
        );
        let item = |value| match value {
            Value::Var(var) => Item::Tensor(var),
            _ => Item::Hole,
        };
        given.into_iter().map(item).collect()
    }

    /// A weight of the network: a constant, or an input if weights are not written.
    pub(crate) fn weight(&self, name: &str, tensor: Tensor) -> Var {
        let b = self.builder();
        let mut weights = self.weights.borrow_mut();
        let Some(weights) = weights.as_mut() else { return b.parameter(name, tensor) };
        let var = b.input(name, resources::type_of(&tensor));
        weights.push(var);
        var
    }
}
