//! Where the loops and conditions of a graph of TensorFlow 1 are. Nothing says it but how the nodes are connected.

use super::node::{self, place};
use super::nodes::Nodes;
use crate::wire::proto::{Attr, NodeDef};
use onnxd_plugin_sdk::build::Result;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Conditions that must hold for a node to run.
const LITERALS_MAX: usize = 64;

/// Nodes that only pass a condition on, one behind the other.
const PASSES_MAX: usize = 64;

/// A tensor: the name of a node or argument, and the number of the output.
pub(crate) type TensorName = (String, usize);

/// A condition or the number of a branch, and what it must be; true is 1.
pub(super) type Literal = (TensorName, usize);
pub(super) type Literals = Rc<BTreeSet<Literal>>;

/// A value that a loop carries.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) enter: usize,
    pub(crate) merge: usize,
    pub(crate) switch: Option<usize>,
    pub(crate) next: usize,
    pub(crate) exits: Vec<usize>,
}

/// A loop.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) variables: Vec<Variable>,
    /// Where values enter that are the same in each turn.
    pub(crate) constants: Vec<usize>,
    pub(crate) condition: Option<usize>,
}

impl Frame {
    /// Where values enter.
    pub(crate) fn enters(&self) -> impl Iterator<Item = usize> + '_ {
        self.variables.iter().map(|v| v.enter).chain(self.constants.iter().copied())
    }
}

/// One side of a condition.
#[derive(Debug)]
pub(crate) struct Arm {
    /// The number of the Merge's input.
    pub(crate) input: usize,
    /// What the condition is then.
    pub(crate) side: usize,
    /// Nodes that this side reads and that run on either side.
    pub(crate) outside: Vec<usize>,
    /// How many nodes were looked at.
    pub(crate) work: usize,
}

/// What a Merge chooses from.
#[derive(Debug)]
pub(crate) struct MergeChoice {
    pub(crate) condition: TensorName,
    /// Whether the condition is the number of a branch.
    pub(crate) is_number: bool,
    /// By what the condition is: 0 or false first.
    pub(crate) arms: Vec<Arm>,
}

#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) frames: Vec<Frame>,
    /// The frames of Exit nodes, and of the Merge nodes of loops.
    pub(crate) exits: HashMap<usize, usize>,
    merges: HashMap<usize, usize>,
    /// Switch nodes of loops.
    switches: HashSet<usize>,
    /// Nodes without inputs that were given their values.
    pub(crate) sources: Vec<usize>,
    literals: RefCell<HashMap<usize, Literals>>,
    choices: RefCell<HashMap<usize, Option<Rc<MergeChoice>>>>,
}

/// Whether a node passes its first input on to one of its outputs.
fn switches(node: &NodeDef) -> bool {
    is_op(node, "Switch") || node.op == "_SwitchN"
}

fn is_op(node: &NodeDef, op: &str) -> bool {
    node.op == op || node.op.strip_prefix("Ref") == Some(op)
}

/// The node that the input of a node comes from.
fn from<'a>(body: &Nodes<'a>, node: &NodeDef, input: usize) -> Option<(usize, &'a NodeDef, usize)> {
    let text = node.input.iter().filter(|text| !text.starts_with('^')).nth(input)?;
    let (name, slot) = place(text)?;
    let index = body.find(name)?;
    Some((index, &body.nodes[index], slot))
}

impl Flow {
    pub(crate) fn new(body: &Nodes<'_>) -> Flow {
        let mut flow = Flow::default();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut frame = |flow: &mut Flow, enter: &NodeDef| {
            let name = match node::attr(enter, "frame_name") {
                Some(Attr::S(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            *by_name.entry(name).or_insert_with(|| {
                flow.frames.push(Frame::default());
                flow.frames.len() - 1
            })
        };
        let mut entered = HashSet::new();
        for (merge, node) in body.nodes.iter().enumerate() {
            if is_op(node, "Placeholder") || node.op == "PlaceholderV2" {
                flow.sources.push(merge);
            }
            if !is_op(node, "Merge") {
                continue;
            }
            let ends = [0, 1].map(|input| from(body, node, input));
            let [Some((enter, first, _)), Some((next, second, _))] = ends else { continue };
            if is_op(first, "Enter") && is_op(second, "NextIteration") {
                let at = frame(&mut flow, first);
                let (switch, exits) = (None, vec![]);
                flow.frames[at].variables.push(Variable { enter, merge, switch, next, exits });
                flow.merges.insert(merge, at);
                entered.insert(enter);
            }
        }
        for (index, node) in body.nodes.iter().enumerate() {
            if is_op(node, "Enter") && !entered.contains(&index) {
                let at = frame(&mut flow, node);
                flow.frames[at].constants.push(index);
            }
        }
        flow.find_switches(body);
        flow
    }

    fn find_switches(&mut self, body: &Nodes<'_>) {
        let variables: HashMap<usize, (usize, usize)> = self
            .frames
            .iter()
            .enumerate()
            .flat_map(|(f, frame)| {
                frame
                    .variables
                    .iter()
                    .enumerate()
                    .map(move |(v, variable)| (variable.merge, (f, v)))
            })
            .collect();
        let mut of_switch = HashMap::new();
        for (index, node) in body.nodes.iter().enumerate().filter(|(_, n)| is_op(n, "Switch")) {
            let (data, condition) = (from(body, node, 0), from(body, node, 1));
            let (Some((merge, ..)), Some((mut cond, mut by, _))) = (data, condition) else {
                continue;
            };
            for _ in 0..PASSES_MAX {
                match from(body, by, 0).filter(|_| by.op == "Identity") {
                    Some((next, node, _)) => (cond, by) = (next, node),
                    None => break,
                }
            }
            if let Some((f, v)) = variables.get(&merge).filter(|_| by.op == "LoopCond") {
                self.frames[*f].variables[*v].switch = Some(index);
                self.frames[*f].condition = Some(cond);
                self.switches.insert(index);
                of_switch.insert(index, (*f, *v));
            }
        }
        for (index, node) in body.nodes.iter().enumerate().filter(|(_, n)| is_op(n, "Exit")) {
            let found = from(body, node, 0).and_then(|(switch, ..)| of_switch.get(&switch));
            if let Some((f, v)) = found {
                self.frames[*f].variables[*v].exits.push(index);
                self.exits.insert(index, *f);
            }
        }
    }

    /// The condition that a Switch looks at, before nodes that only pass it on.
    fn condition(&self, body: &Nodes<'_>, switch: &NodeDef) -> Option<TensorName> {
        let text = switch.input.iter().filter(|text| !text.starts_with('^')).nth(1)?;
        let (mut name, mut slot) = place(text)?;
        for _ in 0..PASSES_MAX {
            let Some(index) = body.find(name) else { break };
            let node = &body.nodes[index];
            let passes = node.op == "Identity" || switches(node) && !self.switches.contains(&index);
            match node.input.first().and_then(|text| place(text)).filter(|_| passes) {
                Some(next) => (name, slot) = next,
                None => break,
            }
        }
        Some((name.to_owned(), slot))
    }

    /// The value of a condition that is a constant.
    pub(crate) fn constant(&self, body: &Nodes<'_>, (name, _): &TensorName) -> Option<i64> {
        let mut node = body.node(name)?;
        if node.op == "PlaceholderWithDefault" {
            (_, node, _) = from(body, node, 0)?;
        }
        let tensor =
            crate::wire::tensor::tensor_of(node::constant(node)?).ok().filter(|t| t.len() == 1)?;
        let flag = || tensor.bytes().first().map(|byte| i64::from(*byte != 0));
        let number = tensor.to_i64s().and_then(|n| n.first().copied());
        number.or_else(flag).filter(|_| node.op == "Const")
    }

    /// What must hold for a node to run. `work` counts the nodes that are looked at.
    pub(super) fn literals(
        &self,
        body: &Nodes<'_>,
        index: usize,
        work: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Literals> {
        let mut stack = vec![(index, false)];
        let mut open = HashSet::new();
        while let Some((at, ready)) = stack.pop() {
            if self.literals.borrow().contains_key(&at) {
                continue;
            }
            let inputs = self.inputs(body, at);
            if !ready && open.insert(at) {
                work(1 + inputs.len())?;
                stack.push((at, true));
                stack.extend(inputs.iter().map(|(input, _)| (*input, false)));
            } else if ready {
                let found = Rc::new(self.of_inputs(body, at, &inputs));
                self.literals.borrow_mut().insert(at, found);
            }
        }
        Ok(self.literals.borrow().get(&index).cloned().unwrap_or_default())
    }

    /// The nodes that a node waits for, and the numbers of their outputs; of a loop, only what enters it.
    pub(super) fn inputs(&self, body: &Nodes<'_>, at: usize) -> Vec<(usize, Option<usize>)> {
        let node = &body.nodes[at];
        let used = if self.merges.contains_key(&at) { 1 } else { node.input.len() };
        let input = |text: &String| match text.strip_prefix('^') {
            Some(name) => Some((body.find(name)?, None)),
            None => {
                let (name, slot) = place(text)?;
                Some((body.find(name)?, Some(slot)))
            }
        };
        node.input.iter().take(used).filter_map(input).collect()
    }

    /// What must hold for an input to be there.
    fn of_input(&self, body: &Nodes<'_>, input: usize, slot: Option<usize>) -> BTreeSet<Literal> {
        let mut all =
            self.literals.borrow().get(&input).map(|l| BTreeSet::clone(l)).unwrap_or_default();
        let node = &body.nodes[input];
        if switches(node)
            && !self.switches.contains(&input)
            && let (Some(slot), Some(condition)) = (slot, self.condition(body, node))
        {
            all.insert((condition, slot));
        }
        all
    }

    fn of_inputs(
        &self,
        body: &Nodes<'_>,
        at: usize,
        inputs: &[(usize, Option<usize>)],
    ) -> BTreeSet<Literal> {
        let mut each = inputs.iter().map(|(input, slot)| self.of_input(body, *input, *slot));
        let merges = is_op(&body.nodes[at], "Merge") && !self.merges.contains_key(&at);
        let mut all = each.next().unwrap_or_default();
        for one in each {
            match merges {
                true => all.retain(|literal| one.contains(literal)),
                false => all.extend(one),
            }
        }
        while all.len() > LITERALS_MAX {
            all.pop_last();
        }
        all
    }

    /// What a Merge chooses from; `None` if it is no condition of two sides.
    pub(crate) fn choice(
        &self,
        body: &Nodes<'_>,
        index: usize,
        work: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Option<Rc<MergeChoice>>> {
        if let Some(known) = self.choices.borrow().get(&index) {
            return Ok(known.clone());
        }
        let found = self.found(body, index, work)?.map(Rc::new);
        self.choices.borrow_mut().insert(index, found.clone());
        Ok(found)
    }

    fn found(
        &self,
        body: &Nodes<'_>,
        index: usize,
        work: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Option<MergeChoice>> {
        let node = &body.nodes[index];
        let count = node.input.iter().filter(|text| !text.starts_with('^')).count();
        let ends = (0..count).map(|input| from(body, node, input)).collect::<Option<Vec<_>>>();
        let Some(ends) = ends.filter(|ends| ends.len() > 1 && !self.merges.contains_key(&index))
        else {
            return Ok(None);
        };
        let mut each = vec![];
        for (input, _, slot) in &ends {
            self.literals(body, *input, work)?;
            each.push(self.of_input(body, *input, Some(*slot)));
        }
        // The condition that is another one for each input.
        let sides = |place: &TensorName| -> Option<Vec<usize>> {
            let side = |all: &BTreeSet<Literal>| all.iter().find(|(p, _)| p == place).map(|l| l.1);
            let sides: Vec<usize> = each.iter().map(side).collect::<Option<_>>()?;
            let mut sorted = sides.clone();
            sorted.sort_unstable();
            sorted.iter().copied().eq(0..sides.len()).then_some(sides)
        };
        let found = each[0].iter().find_map(|(place, _)| Some((place.clone(), sides(place)?)));
        let Some((condition, sides)) = found else { return Ok(None) };
        let mut arms = vec![];
        for (input, side) in sides.into_iter().enumerate() {
            let literal = (condition.clone(), side);
            arms.push(self.arm(body, input, ends[input].0, &literal, work)?);
        }
        arms.sort_by_key(|arm| arm.side);
        let is_number = self.is_number(body, &condition);
        Ok(Some(MergeChoice { condition, is_number, arms }))
    }

    /// Whether what some node switches by is the number of a branch.
    fn is_number(&self, body: &Nodes<'_>, condition: &TensorName) -> bool {
        let numbered = body.nodes.iter().filter(|node| node.op == "_SwitchN");
        numbered.into_iter().any(|node| self.condition(body, node).as_ref() == Some(condition))
    }

    /// The nodes that one side reads and that run on either side.
    fn arm(
        &self,
        body: &Nodes<'_>,
        input: usize,
        from: usize,
        literal: &Literal,
        work: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Arm> {
        let (mut outside, mut seen) = (vec![], HashSet::new());
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            work(1)?;
            let node = &body.nodes[at];
            // A Merge asks for the condition itself, and not for what a Switch passes on.
            let condition = self.condition(body, node).filter(|_| switches(node));
            open.extend(condition.and_then(|(name, _)| body.find(&name)));
            match self.literals(body, at, work)?.contains(literal) {
                true => {
                    // A loop is inside as a whole.
                    let data = node.input.iter().filter(|text| !text.starts_with('^'));
                    let data = data.filter_map(|text| body.find(place(text)?.0));
                    open.extend(data);
                }
                false => outside.push(at),
            }
        }
        outside.sort_unstable();
        Ok(Arm { input, side: literal.1, outside, work: seen.len() })
    }
}
