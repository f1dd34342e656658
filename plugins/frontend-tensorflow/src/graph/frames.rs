//! Conditions and loops of TensorFlow 1: Switch and Merge, and frames of Enter, Exit, NextIteration and LoopCond. A
//! Switch only passes on: a Merge takes what it needs of both sides, and an Exit runs its whole frame.

use super::branch::{branch, known, truth};
use super::flow::{Choice, Flow, Frame};
use super::node::Reference;
use super::repeat::{Repetition, repeat};
use super::run::{DEPTH_MAX, Item, Runner, Scope};
use super::{effects, node};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType;

/// Whether a node runs before its inputs do, because not all of them may run.
pub(crate) fn is_lazy(op: &str) -> bool {
    matches!(op, "Exit" | "RefExit" | "Merge" | "RefMerge")
}

/// What a node of this family gives that is not lazy; `None` if it is of another one.
pub(crate) fn passed(node: &NodeDef, inputs: &[Item]) -> Option<Vec<Item>> {
    let first = || inputs.first().cloned().unwrap_or(Item::Hole);
    match node.op.as_str() {
        "Enter" | "RefEnter" | "LoopCond" | "NextIteration" | "RefNextIteration" => {
            Some(vec![first()])
        }
        "Switch" | "RefSwitch" => Some(vec![first(), first()]),
        _ => None,
    }
}

/// The nodes that a lazy node needs before it runs.
///
/// # Errors
/// As [`Runner::value`].
pub(crate) fn needs<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Vec<usize>> {
    let flow = scope.body.flow();
    if let Some(frame) = flow.frame_of_exit(index) {
        return Ok(frame.enters().collect());
    }
    let Some(choice) = choice(runner, scope, index)? else { return Ok(vec![]) };
    let mut needed: Vec<usize> = scope.body.find(&choice.condition.0).into_iter().collect();
    for (at, arm) in choice.arms.iter().enumerate() {
        if flow.constant(&scope.body, &choice.condition).is_none_or(|holds| holds == (at == 1)) {
            runner.work(scope, &scope.body.nodes[index], arm.work)?;
            needed.extend(&arm.outside);
        }
    }
    Ok(needed)
}

/// The sides of a Merge that is no part of a loop.
fn choice<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Option<std::rc::Rc<Choice>>> {
    let node = &scope.body.nodes[index];
    if !matches!(node.op.as_str(), "Merge" | "RefMerge") {
        return Ok(None);
    }
    let budget = |amount| runner.work(scope, node, amount);
    scope.body.flow().choice(&scope.body, index, &budget)
}

/// Runs a lazy node.
///
/// # Errors
/// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
pub(crate) fn run<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Vec<Item>> {
    let node = &scope.body.nodes[index];
    if runner.depth.get() >= DEPTH_MAX {
        let message = format!("More than {DEPTH_MAX} loops and conditions are inside each other.");
        return Err(runner.problem(scope, node, Code::SourceLimit, message));
    }
    runner.depth.set(runner.depth.get() + 1);
    let given = runner.builder().in_layer(scope.layer(node), |_| {
        if let Some(frame) = scope.body.flow().frame_of_exit(index) {
            return looped(runner, scope, node, frame, index);
        }
        match choice(runner, scope, index)? {
            Some(choice) => merged(runner, scope, node, &choice),
            None => {
                let message = "The node is of no loop or condition as TensorFlow 1 writes them.";
                Ok(runner.refuse(scope, node, Code::LayerUnsupported, message))
            }
        }
    });
    runner.depth.set(runner.depth.get() - 1);
    given
}

/// What one of the two sides of a Merge gives, and the number of that input.
fn merged<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    choice: &Choice,
) -> Result<Vec<Item>> {
    let b = runner.builder();
    let numbers = [0, 1].map(|side: usize| choice.arms[side].input as i64);
    let number = |side: usize| {
        let number = crate::ops::create::scalar(numbers[side], DataType::Int32);
        Item::Tensor(b.constant(number))
    };
    let arm = |side: usize, inner: &Scope<'a>| -> Result<Vec<Item>> {
        let texts = node.input.iter().filter(|text| !text.starts_with('^'));
        match texts.clone().nth(choice.arms[side].input) {
            Some(text) => Ok(vec![runner.value(inner, text)?, number(side)]),
            None => Ok(vec![Item::Hole; 2]),
        }
    };
    let (name, slot) = &choice.condition;
    let condition = match runner.value(scope, &format!("{name}:{slot}"))? {
        Item::Tensor(v) => truth(b, v)?,
        Item::Hole => return Ok(vec![Item::Hole; 2]),
        _ => {
            let message = "The condition is no tensor.";
            return Ok(runner.refuse(scope, node, Code::LayerUnsupported, message));
        }
    };
    if let Some(holds) = known(b, condition) {
        return arm(usize::from(holds), scope);
    }
    let inner = |side: usize| {
        let inner = scope.part();
        for outside in &choice.arms[side].outside {
            inner.inherit(scope, *outside);
        }
        arm(side, &inner)
    };
    branch(runner.driver, condition, [&|| inner(1), &|| inner(0)])
}

/// Runs a frame; gives what the node `index` passes out of it.
fn looped<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    frame: &Frame,
    index: usize,
) -> Result<Vec<Item>> {
    let flow = scope.body.flow();
    let nodes = scope.body.nodes;
    let value = |scope: &Scope<'a>, at: usize| runner.value(scope, &nodes[at].name);
    let enters = frame.variables.iter().map(|v| value(scope, v.enter));
    let begins = enters.collect::<Result<Vec<Item>>>()?;
    let Some(condition) = frame.condition else {
        let message = "The loop has no condition.";
        return Err(runner.problem(scope, node, Code::SourceSyntax, message));
    };
    let written = effects::before(runner, scope, node)?;
    let inner = |items: &[Item], switched: bool| {
        let mut inner = scope.part();
        inner.written = written.clone();
        flow.sources.iter().for_each(|source| inner.inherit(scope, *source));
        frame.enters().for_each(|enter| inner.inherit(scope, enter));
        for (variable, item) in frame.variables.iter().zip(items) {
            inner.settle(variable.merge, vec![item.clone(), Item::Hole]);
            if let Some(switch) = variable.switch.filter(|_| switched) {
                inner.settle(switch, vec![Item::Hole, item.clone()]);
            }
        }
        inner
    };
    let repetition = Repetition {
        turn: &|items| {
            let inner = inner(items, true);
            frame.variables.iter().map(|v| value(&inner, v.next)).collect()
        },
        condition: &|items| value(&inner(items, false), condition),
        declared: vec![],
        constant: vec![],
    };
    let ends = repeat(runner, &begins, &repetition)?;
    let mut given = vec![Item::Hole];
    for (variable, end) in frame.variables.iter().zip(ends) {
        for exit in &variable.exits {
            match *exit == index {
                true => given = vec![end.clone()],
                false => scope.settle(*exit, vec![end.clone()]),
            }
        }
    }
    Ok(given)
}

/// What a text refers to: a name, and the number of the output.
pub(crate) fn place(text: &str) -> Option<(&str, usize)> {
    match node::reference(text)? {
        Reference::Slot(name, slot) => Some((name, slot)),
        Reference::Output(name, output, at) => {
            let second = matches!(output, "output_true" | "value_index");
            Some((name, at.saturating_add(usize::from(second))))
        }
    }
}

/// Whether a graph has nodes of this family.
pub(crate) fn is_present(nodes: &[NodeDef]) -> bool {
    nodes.iter().any(|node| is_lazy(&node.op))
}

impl Flow {
    /// The frame that an Exit leaves.
    fn frame_of_exit(&self, index: usize) -> Option<&Frame> {
        self.exits.get(&index).and_then(|frame| self.frames.get(*frame))
    }
}
