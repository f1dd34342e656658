//! Which results of TensorFlow 1 are of one condition, so that one `If` gives all of them.

use super::flow::{Flow, Frame, MergeChoice, TensorName};
use super::nodes::Nodes;
use onnxd_plugin_sdk::build::Result;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Where a node is.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// The most Merge nodes on the ways to it.
    depth: usize,
    /// The loop that it is in, counted from 1.
    frame: usize,
}

/// Positions of all nodes, and the Merge nodes of each condition.
#[derive(Debug, Default)]
struct Positions {
    of_nodes: Vec<Position>,
    merges: HashMap<TensorName, Vec<usize>>,
}

/// Merge nodes of one `If` at most.
const GROUP_MAX: usize = 256;

/// Merge nodes with what they choose from.
pub(crate) type MergeGroup = Vec<(usize, Rc<MergeChoice>)>;

/// What other Merge nodes choose as one does, as far as it was asked.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    positions: OnceCell<Positions>,
    groups: RefCell<HashMap<usize, Rc<MergeGroup>>>,
}

/// Where siblings are looked for.
pub(crate) struct SiblingSearch<'f, 'a> {
    pub(crate) flow: &'f Flow,
    pub(crate) body: &'f Nodes<'a>,
    /// Counts the nodes that are looked at.
    pub(crate) work: &'f dyn Fn(usize) -> Result<()>,
}

impl Siblings {
    /// The other Merge nodes that choose as the Merge `index` does, among those that are `needed`, and what they choose
    /// from. None of them reads what another one gives.
    ///
    /// # Errors
    /// Those of counting work.
    pub(crate) fn group(
        &self,
        search: &SiblingSearch<'_, '_>,
        index: usize,
        choice: &MergeChoice,
        needed: &HashSet<usize>,
    ) -> Result<Rc<MergeGroup>> {
        if let Some(known) = self.groups.borrow().get(&index) {
            return Ok(known.clone());
        }
        let all = match self.positions.get() {
            Some(all) => all,
            None => {
                let positions = search.positioned(needed)?;
                self.positions.get_or_init(|| positions)
            }
        };
        let SiblingSearch { flow, body, work } = search;
        let mut positions = MergeGroup::new();
        let same = all.merges.get(&choice.condition).map(Vec::as_slice).unwrap_or_default();
        for &other in same.iter().filter(|other| **other != index) {
            work(1)?;
            let position = |at: usize| all.of_nodes.get(at).copied().unwrap_or_default();
            if position(other).frame != position(index).frame || positions.len() >= GROUP_MAX {
                continue;
            }
            // One that is in an arm of another condition runs there.
            if flow.literals(body, other, work)? != flow.literals(body, index, work)? {
                continue;
            }
            let Some(choice_of) = flow.choice(body, other, work)? else { continue };
            let alike = choice_of.condition == choice.condition
                && choice_of.arms.len() == choice.arms.len();
            let group = || positions.iter().map(|(at, _)| *at).chain([index]);
            let mut apart = alike;
            for member in group() {
                apart = apart
                    && !search.reaches(all, other, member)?
                    && !search.reaches(all, member, other)?;
            }
            if apart {
                positions.push((other, choice_of));
            }
        }
        let positions = Rc::new(positions);
        self.groups.borrow_mut().insert(index, positions.clone());
        Ok(positions)
    }
}

impl SiblingSearch<'_, '_> {
    /// The nodes that a node waits for. What leaves a loop waits for all that enters it.
    fn sources_of(&self, at: usize) -> Vec<usize> {
        let frame = self.flow.exits.get(&at).and_then(|frame| self.flow.frames.get(*frame));
        let enters = frame.into_iter().flat_map(Frame::enters);
        self.flow.inputs(self.body, at).into_iter().map(|(input, _)| input).chain(enters).collect()
    }

    /// Whether a node reads what another one gives, directly or not.
    fn reaches(&self, all: &Positions, from: usize, to: usize) -> Result<bool> {
        let depth = |at: usize| all.of_nodes.get(at).map_or(0, |position| position.depth);
        let (mut open, mut seen) = (vec![from], HashSet::new());
        // What has fewer Merge nodes before it cannot read the one that is looked for.
        while let Some(at) = open.pop().filter(|_| depth(from) > depth(to)) {
            if at == to {
                return Ok(true);
            }
            (self.work)(1)?;
            let inputs = self.sources_of(at).into_iter();
            open.extend(inputs.filter(|input| depth(*input) >= depth(to) && seen.insert(*input)));
        }
        Ok(false)
    }

    fn positioned(&self, needed: &HashSet<usize>) -> Result<Positions> {
        let (flow, body) = (self.flow, self.body);
        let mut frames: HashMap<usize, usize> = HashMap::new();
        for (number, frame) in self.flow.frames.iter().enumerate() {
            frames.extend(frame.enters().map(|enter| (enter, number + 1)));
        }
        let mut all = Positions {
            of_nodes: vec![Position::default(); body.nodes.len()],
            ..Positions::default()
        };
        let (mut done, mut open) = (HashSet::new(), HashSet::new());
        let mut stack: Vec<(usize, bool)> = needed.iter().map(|at| (*at, false)).collect();
        while let Some((at, ready)) = stack.pop() {
            if done.contains(&at) {
                continue;
            }
            let inputs = self.sources_of(at);
            if !ready && open.insert(at) {
                (self.work)(1 + inputs.len())?;
                stack.push((at, true));
                stack.extend(inputs.iter().map(|input| (*input, false)));
                continue;
            }
            done.insert(at);
            let before = inputs.iter().map(|input| all.of_nodes[*input]);
            let is_choice = matches!(body.nodes[at].op.as_str(), "Merge" | "RefMerge");
            let depth = before.clone().map(|p| p.depth).max().unwrap_or(0) + usize::from(is_choice);
            let inside = before.map(|p| p.frame).find(|frame| *frame > 0).unwrap_or(0);
            let frame = match (frames.get(&at), self.flow.exits.get(&at)) {
                (Some(frame), _) => *frame,
                (None, Some(frame)) => self.around(*frame, &all),
                (None, None) => inside,
            };
            all.of_nodes[at] = Position { depth, frame };
        }
        let mut merges: Vec<usize> = needed.iter().copied().collect();
        merges.retain(|at| matches!(body.nodes[*at].op.as_str(), "Merge" | "RefMerge"));
        merges.sort_unstable();
        for at in merges {
            if let Some(choice) = flow.choice(body, at, self.work)? {
                all.merges.entry(choice.condition.clone()).or_default().push(at);
            }
        }
        Ok(all)
    }

    /// The loop around a loop.
    fn around(&self, frame: usize, all: &Positions) -> usize {
        let enter = self.flow.frames.get(frame).and_then(|frame| frame.enters().next());
        let inputs = enter.map(|enter| self.flow.inputs(self.body, enter)).unwrap_or_default();
        inputs.first().map_or(0, |(input, _)| all.of_nodes[*input].frame)
    }
}
