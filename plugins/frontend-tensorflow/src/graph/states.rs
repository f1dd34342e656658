//! What a graph keeps between calls: the values of variables at each place of the run, and what operators that write
//! variables make of them.

use super::node;
use super::run::{Item, Runner, Scope};
use super::{checkpoint, effects};
use crate::states::{self, Asked, Kept};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Groups of numbers that a generator passes over for each number that is drawn.
const SKIPPED: i64 = 256;

/// The values of variables, by their names.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// The nodes of the main graph that make each variable, by what tells it from others.
    makers: HashMap<String, Vec<String>>,
    /// Those that are inputs of the model.
    asked: Asked,
    /// The value of each at present.
    values: RefCell<HashMap<String, Item>>,
    /// What each change of a value took the place of, in their order.
    changes: RefCell<Vec<(String, Option<Item>)>>,
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
    pub(crate) fn makers(&self, scope: &Scope<'_>, node: &NodeDef) -> &[String] {
        let found = self.makers.get(&checkpoint::identity(node, scope.function));
        found.map_or(&[], Vec::as_slice)
    }

    /// The name of a variable: that of its node in the main graph, else what tells it from others.
    pub(crate) fn name(&self, scope: &Scope<'_>, node: &NodeDef) -> String {
        let own = || checkpoint::identity(node, scope.function);
        self.makers(scope, node).first().cloned().unwrap_or_else(own)
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
            self.set(name, Item::Tensor(var));
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
    pub(crate) fn value(&self, name: &str) -> Option<Item> {
        self.values.borrow().get(name).cloned()
    }

    pub(crate) fn set(&self, name: &str, item: Item) {
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

    /// What a node reads of a variable; `initial` if nothing wrote it.
    pub(crate) fn read<'a>(&self, runner: &Runner<'a, '_>, name: &str, initial: Item) -> Item {
        let lost = self.lost.borrow().get(name).cloned();
        if let Some(layer) = lost {
            runner.driver.report(lost_in_frames(&of(name, layer)));
            return Item::Hole;
        }
        self.value(name).unwrap_or(initial)
    }

    /// What was written, and the values at the end as outputs if they are asked for.
    pub(crate) fn kept(&self, b: &GraphBuilder) -> Result<Kept> {
        let lost = self.lost.borrow();
        let lost = lost.iter().map(|(name, layer)| of(name, layer.clone())).collect();
        let mut kept = Kept::default();
        kept.lost = lost;
        for (name, layer) in self.written.borrow().iter() {
            let value = self.value(name);
            let input = self.inputs.borrow().get(name).copied();
            if let (Some(input), Some(Item::Tensor(value))) = (input, value) {
                kept.output(b, name, [input, value])?;
            }
            kept.written.push(of(name, layer.clone()));
        }
        Ok(kept)
    }
}

/// The finding for a write whose order among others is not followed.
pub(crate) fn lost_in_frames(written: &Written) -> Diagnostic {
    let why = "is in a loop or condition of TensorFlow 1, where it cannot be followed";
    let help = "Write the variable before or behind it, or save the network with `tf.function`: loops and conditions \
        of TensorFlow 2 are followed.";
    written.impossible(why).help(help)
}

fn of(name: &str, layer: Layer) -> Written {
    Written { what: "variable", name: name.to_owned(), layer }
}

/// Runs an operator that writes the variable that is its first input.
///
/// # Errors
/// Those of the builder.
pub(crate) fn write<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[Item],
) -> Result<Vec<Item>> {
    let count = node::output_count(node, None);
    let Some(name) = effects::variable(runner, scope, node, 0)? else {
        // Why there is no handle was reported.
        if matches!(inputs.first(), Some(Item::Hole)) {
            return Ok(vec![Item::Hole; count]);
        }
        let message = "The node writes something that is no variable of this graph.";
        return Ok(runner.refuse(scope, node, Code::LayerUnsupported, message));
    };
    let first = inputs.first().filter(|item| matches!(item, Item::Tensor(_)));
    let before = runner.states.value(&name).or_else(|| first.cloned()).unwrap_or(Item::Hole);
    let (known, layer) = (&runner.states, scope.layer(node));
    if known.told.borrow_mut().insert(name.clone()) {
        known.written.borrow_mut().push((name.clone(), layer));
    }
    let (after, given) = match drawn(runner, scope, node, (&before, inputs))? {
        Some(both) => both,
        None => {
            let after = updated(runner, scope, node, &before, inputs);
            (after.clone(), vec![after; count])
        }
    };
    known.set(&name, after);
    Ok(given)
}

fn value(item: Option<&Item>) -> Value {
    match item {
        Some(Item::Tensor(var)) => Value::Var(*var),
        _ => Value::Hole,
    }
}

/// The value of a variable after a write.
fn updated<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    before: &Item,
    inputs: &[Item],
) -> Item {
    let op = node.op.strip_prefix("Resource").unwrap_or(&node.op);
    let by = |op: &str, names: &[&str], values: Vec<Value>| {
        let mut named: Vec<(String, Value)> =
            names.iter().map(|name| (*name).to_owned()).zip(values).collect();
        let masks = node::attributes(node).into_iter();
        named.extend(masks.filter(|(name, _)| name.ends_with("_mask") || name.starts_with("bad_")));
        runner.lower(scope, node, op, vec![], named).pop().unwrap_or(Item::Hole)
    };
    let all = || {
        let rest = inputs.iter().skip(1).map(|item| value(Some(item)));
        [value(Some(before))].into_iter().chain(rest).collect::<Vec<Value>>()
    };
    let scatter = ["tensor", "indices", "updates"];
    match op {
        "AssignVariableOp" | "Assign" => inputs.get(1).cloned().unwrap_or(Item::Hole),
        "AssignAddVariableOp" | "AssignAdd" => by("AddV2", &["x", "y"], all()),
        "AssignSubVariableOp" | "AssignSub" => by("Sub", &["x", "y"], all()),
        "StridedSliceAssign" => {
            by("TensorStridedSliceUpdate", &["input", "begin", "end", "strides", "value"], all())
        }
        "ScatterNdUpdate" => by("TensorScatterUpdate", &scatter, all()),
        "ScatterNdAdd" => by("TensorScatterAdd", &scatter, all()),
        "ScatterNdSub" => by("TensorScatterSub", &scatter, all()),
        "ScatterNdMax" => by("TensorScatterMax", &scatter, all()),
        "ScatterNdMin" => by("TensorScatterMin", &scatter, all()),
        "ScatterUpdate" | "ScatterAdd" | "ScatterSub" | "ScatterMax" | "ScatterMin" => {
            let mut all = all();
            // Each index is one of a row.
            if let Some(Value::Var(indices)) = all.get(1) {
                match runner.builder().unsqueeze(*indices, [-1]) {
                    Ok(indices) => all[1] = Value::Var(indices),
                    Err(found) => runner.driver.report(found.at(scope.layer(node))),
                }
            }
            by(&format!("Tensor{op}"), &scatter, all)
        }
        _ => {
            let message =
                format!("`{}` changes a variable in a way that is not followed.", shown(&node.op));
            runner.driver.report(runner.problem(scope, node, Code::LayerUnsupported, message));
            Item::Hole
        }
    }
}

/// What an operator draws of a generator whose state is a variable: the state afterwards, and its results. `None` for
/// other operators. The state of Philox is its counter, in two numbers, and its key.
fn drawn<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    (before, inputs): (&Item, &[Item]),
) -> Result<Option<(Item, Vec<Item>)>> {
    let b = runner.builder();
    // By the operator without state: where the shape is, and what comes behind it.
    let (op, shape, more): (&str, usize, &[&str]) = match node.op.as_str() {
        "RngReadAndSkip" | "RngSkip" => ("", 2, &[]),
        "StatefulUniform" => ("StatelessRandomUniformV2", 2, &[]),
        "StatefulStandardNormal" => ("StatelessRandomNormalV2", 1, &[]),
        "StatefulStandardNormalV2" => ("StatelessRandomNormalV2", 2, &[]),
        "StatefulUniformFullInt" => ("StatelessRandomUniformFullIntV2", 2, &[]),
        "StatefulUniformInt" => ("StatelessRandomUniformIntV2", 2, &["minval", "maxval"]),
        _ => return Ok(None),
    };
    let count = node::output_count(node, None);
    let holes = || Ok(Some((Item::Hole, vec![Item::Hole; count])));
    let (Item::Tensor(state), Some(Item::Tensor(size))) = (before, inputs.get(shape)) else {
        return holes();
    };
    let (state, size) = (*state, *size);
    b.in_layer(scope.layer(node), |_| {
        let (count, given) = match op {
            "" => (size, vec![Item::Tensor(state); count]),
            _ => {
                let part = |from: i64, to: i64| b.slice(state, [from], [to]).axes([0]).one();
                let part = |from, to| b.cast(part(from, to)?, DataType::Uint64);
                let algorithm = if shape == 2 { value(inputs.get(1)) } else { Value::Int(1) };
                let mut named = vec![
                    ("shape".to_owned(), Value::Var(size)),
                    ("key".to_owned(), Value::Var(part(2, 3)?)),
                    ("counter".to_owned(), Value::Var(part(0, 2)?)),
                    ("alg".to_owned(), algorithm),
                ];
                let inputs = more.iter().zip(inputs.iter().skip(shape + 1));
                named.extend(inputs.map(|(name, item)| ((*name).to_owned(), value(Some(item)))));
                named
                    .extend(node::attributes(node).into_iter().filter(|(name, _)| name == "dtype"));
                let given = runner.lower(scope, node, op, vec![], named);
                (b.reduce_prod(b.cast(size, DataType::Int64)?).keepdims(0).one()?, given)
            }
        };
        let count = b.cast(count, DataType::Int64)?;
        let skipped = b.mul(count, b.constant(Tensor::vector(vec![SKIPPED, 0, 0])))?;
        Ok(Some((Item::Tensor(b.add(state, skipped)?), given)))
    })
}
