//! Conditions and loops of TensorFlow 1: Switch and Merge, and frames of Enter, Exit, NextIteration and LoopCond. A
//! Switch only passes on: a Merge takes what it needs of both sides, and an Exit runs its whole frame.

use super::branch::{branch, chosen};
use super::control::WEIGHT;
use super::flow::{Arm, Flow, Frame, MergeChoice};
use super::item::GraphItem;
use super::list::single;
use super::node;
use super::repeat::{Repetition, repeat};
use super::scope::{DEPTH_MAX, GraphRunner, Scope};
use super::siblings::MergeGroup;
use super::truth::{known, truth};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType;
use std::rc::Rc;

/// Branches of one condition.
const BRANCHES_MAX: usize = 1 << 16;

/// Whether a node runs before its inputs do, because not all of them may run.
pub(crate) fn is_lazy(op: &str) -> bool {
    matches!(op, "Exit" | "RefExit" | "Merge" | "RefMerge")
}

/// What a node of this family gives that is not lazy; `None` if it is of another one.
pub(crate) fn passed(node: &NodeDef, inputs: &[GraphItem]) -> Option<Vec<GraphItem>> {
    let first = || inputs.first().cloned().unwrap_or(GraphItem::Hole);
    match node.op.as_str() {
        "Enter" | "RefEnter" | "LoopCond" | "NextIteration" | "RefNextIteration" => {
            Some(vec![first()])
        }
        "Switch" | "RefSwitch" => Some(vec![first(), first()]),
        "_SwitchN" => {
            let n = node::int(node, "num_outs").and_then(|n| usize::try_from(n).ok());
            Some(vec![first(); n.unwrap_or(0).min(BRANCHES_MAX)])
        }
        _ => None,
    }
}

/// The nodes that a lazy node needs before it runs.
///
/// # Errors
/// As [`GraphRunner::value`].
pub(crate) fn needs<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Vec<usize>> {
    let flow = scope.body.flow();
    if let Some(frame) = flow.frame_of_exit(index) {
        return Ok(frame.enters().collect());
    }
    let Some(choice) = choice(runner, scope, index)? else { return Ok(vec![]) };
    let mut needed: Vec<usize> = scope.body.find(&choice.condition.0).into_iter().collect();
    let known = flow.constant(&scope.body, &choice.condition).map(|known| choice.side(known));
    for (_, choice) in group(runner, scope, index, choice)? {
        for arm in &choice.arms {
            if known.is_none_or(|known| known == arm.side) {
                runner.work(scope, &scope.body.nodes[index], arm.work)?;
                needed.extend(&arm.outside);
            }
        }
    }
    Ok(needed)
}

/// A Merge, and the others that choose as it does and have not run yet, if the condition is not known beforehand.
fn group<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
    choice: Rc<MergeChoice>,
) -> Result<MergeGroup> {
    let (body, node) = (&scope.body, &scope.body.nodes[index]);
    let flow = body.flow();
    let mut all = vec![];
    if let Some(needed) = body.needed.get()
        && flow.constant(body, &choice.condition).is_none()
    {
        let budget = |amount| runner.work(scope, node, amount);
        all.extend(body.siblings(index, &choice, needed, &budget)?.iter().cloned());
        all.retain(|(at, _)| !scope.has_run(*at));
    }
    all.insert(0, (index, choice));
    Ok(all)
}

/// The sides of a Merge that is no part of a loop.
fn choice<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Option<Rc<MergeChoice>>> {
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
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Vec<GraphItem>> {
    let node = &scope.body.nodes[index];
    if runner.depth.get() >= DEPTH_MAX {
        let message = format!("More than {DEPTH_MAX} loops and conditions are inside each other.");
        return Err(runner.problem(scope, node, Code::SourceLimit, message));
    }
    let depth = runner.depth.get();
    runner.depth.set(depth + WEIGHT);
    let given = runner.builder().in_layer(scope.layer(node), |_| {
        if let Some(frame) = scope.body.flow().frame_of_exit(index) {
            return looped(runner, scope, node, frame, index);
        }
        match choice(runner, scope, index)? {
            Some(choice) => merged(runner, scope, index, choice),
            None => {
                let message = "The node is of no loop or condition as TensorFlow 1 writes them.";
                Ok(runner.refuse(scope, node, Code::LayerUnsupported, message))
            }
        }
    });
    runner.depth.set(depth);
    given
}

/// What one of the sides of a Merge gives, and the number of that input. Others that choose as it does run with it.
fn merged<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
    choice: Rc<MergeChoice>,
) -> Result<Vec<GraphItem>> {
    let (b, nodes) = (runner.builder(), scope.body.nodes);
    let node = &nodes[index];
    let arm = |merge: usize, arm: &Arm, inner: &Scope<'a>| -> Result<Vec<GraphItem>> {
        let number = crate::ops::create::scalar(arm.input as i64, DataType::Int32);
        let mut texts = nodes[merge].input.iter().filter(|text| !text.starts_with('^'));
        match texts.nth(arm.input) {
            Some(text) => {
                Ok(vec![runner.value(inner, text)?, GraphItem::Tensor(b.constant(number))])
            }
            None => Ok(vec![GraphItem::Hole; 2]),
        }
    };
    let (name, slot) = &choice.condition;
    let condition = match runner.value(scope, &format!("{name}:{slot}"))? {
        GraphItem::Tensor(v) if choice.is_number => v,
        GraphItem::Tensor(v) => truth(b, v)?,
        GraphItem::Hole => return Ok(vec![GraphItem::Hole; 2]),
        _ => {
            let message = "The condition is no tensor.";
            return Ok(runner.refuse(scope, node, Code::LayerUnsupported, message));
        }
    };
    let value = match choice.is_number {
        true => single(b, condition),
        false => known(b, condition).map(i64::from),
    };
    if let Some(value) = value {
        return arm(index, &choice.arms[choice.side(value)], scope);
    }
    let (is_number, count) = (choice.is_number, choice.arms.len());
    let all = group(runner, scope, index, choice)?;
    let inner = |at: usize| {
        let inner = scope.part();
        for (_, choice) in &all {
            choice.arms[at].outside.iter().for_each(|outside| inner.inherit(scope, *outside));
        }
        let each = all.iter().map(|(merge, choice)| arm(*merge, &choice.arms[at], &inner));
        each.collect::<Result<Vec<_>>>().map(|items| items.concat())
    };
    let given = match is_number {
        true => chosen(runner.driver, condition, count, &inner)?,
        false => branch(runner.driver, condition, [&|| inner(1), &|| inner(0)])?,
    };
    let mut each = given.chunks(2).map(<[GraphItem]>::to_vec);
    let own = each.next().unwrap_or_default();
    for ((merge, _), items) in all.iter().skip(1).zip(each) {
        scope.settle(*merge, items);
    }
    Ok(own)
}

/// Runs a frame; gives what the node `index` passes out of it.
fn looped<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    frame: &Frame,
    index: usize,
) -> Result<Vec<GraphItem>> {
    let flow = scope.body.flow();
    let nodes = scope.body.nodes;
    let value = |scope: &Scope<'a>, at: usize| runner.value(scope, &nodes[at].name);
    let enters = frame.variables.iter().map(|v| value(scope, v.enter));
    let begins = enters.collect::<Result<Vec<GraphItem>>>()?;
    let Some(condition) = frame.condition else {
        let message = "The loop has no condition.";
        return Err(runner.problem(scope, node, Code::SourceSyntax, message));
    };
    let inner = |items: &[GraphItem], switched: bool| {
        let inner = scope.part();
        flow.sources.iter().for_each(|source| inner.inherit(scope, *source));
        frame.enters().for_each(|enter| inner.inherit(scope, enter));
        for (variable, item) in frame.variables.iter().zip(items) {
            inner.settle(variable.merge, vec![item.clone(), GraphItem::Hole]);
            if let Some(switch) = variable.switch.filter(|_| switched) {
                inner.settle(switch, vec![GraphItem::Hole, item.clone()]);
            }
        }
        inner
    };
    let paths = runner.remembered();
    let repetition = Repetition {
        name: "body",
        turn: &|items| {
            runner.remember(paths);
            let inner = inner(items, true);
            frame.variables.iter().map(|v| value(&inner, v.next)).collect()
        },
        condition: &|items| value(&inner(items, false), condition),
        declared: vec![],
        constant: vec![],
    };
    let ends = repeat(runner.driver, &begins, &repetition)?;
    let mut iteration_items = vec![GraphItem::Hole];
    for (variable, end) in frame.variables.iter().zip(ends) {
        for exit in &variable.exits {
            match *exit == index {
                true => iteration_items = vec![end.clone()],
                false => scope.settle(*exit, vec![end.clone()]),
            }
        }
    }
    Ok(iteration_items)
}

impl Flow {
    /// The frame that an Exit leaves.
    fn frame_of_exit(&self, index: usize) -> Option<&Frame> {
        self.exits.get(&index).and_then(|frame| self.frames.get(*frame))
    }
}

impl MergeChoice {
    /// The side for a value of the condition; the last one stands for numbers that none has.
    fn side(&self, value: i64) -> usize {
        let last = self.arms.len().saturating_sub(1);
        usize::try_from(value).map_or(last, |side| side.min(last))
    }
}
