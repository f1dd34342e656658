//! Which results of TensorFlow 1 are of one condition, so that one `If` gives all of them.

use super::body::Body;
use super::flow::{Choice, Flow, Frame, Place};
use onnxd_plugin_sdk::build::Result;
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
pub(super) struct Siblings {
    positions: Vec<Position>,
    merges: HashMap<Place, Vec<usize>>,
}

/// Merge nodes of one `If` at most.
const GROUP_MAX: usize = 256;

/// Merge nodes with what they choose from.
pub(crate) type Group = Vec<(usize, Rc<Choice>)>;

/// Counts work.
type Work<'w> = &'w dyn Fn(usize) -> Result<()>;

impl Flow {
    /// The other Merge nodes that choose as the Merge `index` does, among those that are `needed`, and what they choose
    /// from. None of them reads what another one gives.
    pub(crate) fn siblings(
        &self,
        body: &Body<'_>,
        index: usize,
        choice: &Choice,
        needed: &HashSet<usize>,
        work: Work<'_>,
    ) -> Result<Rc<Group>> {
        if let Some(known) = self.groups.borrow().get(&index) {
            return Ok(known.clone());
        }
        let all = match self.siblings.get() {
            Some(all) => all,
            None => {
                let found = self.positioned(body, needed, work)?;
                self.siblings.get_or_init(|| found)
            }
        };
        let mut found = Group::new();
        let same = all.merges.get(&choice.condition).map(Vec::as_slice).unwrap_or_default();
        for &other in same.iter().filter(|other| **other != index) {
            work(1)?;
            let position = |at: usize| all.positions.get(at).copied().unwrap_or_default();
            if position(other).frame != position(index).frame || found.len() >= GROUP_MAX {
                continue;
            }
            // One that is in an arm of another condition runs there.
            if self.literals(body, other, work)? != self.literals(body, index, work)? {
                continue;
            }
            let Some(choice_of) = self.choice(body, other, work)? else { continue };
            let alike = choice_of.condition == choice.condition
                && choice_of.arms.len() == choice.arms.len();
            let group = || found.iter().map(|(at, _)| *at).chain([index]);
            let mut apart = alike;
            for member in group() {
                apart = apart
                    && !self.reaches(body, all, other, member, work)?
                    && !self.reaches(body, all, member, other, work)?;
            }
            if apart {
                found.push((other, choice_of));
            }
        }
        let found = Rc::new(found);
        self.groups.borrow_mut().insert(index, found.clone());
        Ok(found)
    }

    /// The nodes that a node waits for. What leaves a loop waits for all that enters it.
    fn sources_of(&self, body: &Body<'_>, at: usize) -> Vec<usize> {
        let frame = self.exits.get(&at).and_then(|frame| self.frames.get(*frame));
        let enters = frame.into_iter().flat_map(Frame::enters);
        self.inputs(body, at).into_iter().map(|(input, _)| input).chain(enters).collect()
    }

    /// Whether a node reads what another one gives, directly or not.
    fn reaches(
        &self,
        body: &Body<'_>,
        all: &Siblings,
        from: usize,
        to: usize,
        work: Work<'_>,
    ) -> Result<bool> {
        let depth = |at: usize| all.positions.get(at).map_or(0, |position| position.depth);
        let (mut open, mut seen) = (vec![from], HashSet::new());
        // What has fewer Merge nodes before it cannot read the one that is looked for.
        while let Some(at) = open.pop().filter(|_| depth(from) > depth(to)) {
            if at == to {
                return Ok(true);
            }
            work(1)?;
            let inputs = self.sources_of(body, at).into_iter();
            open.extend(inputs.filter(|input| depth(*input) >= depth(to) && seen.insert(*input)));
        }
        Ok(false)
    }

    fn positioned(
        &self,
        body: &Body<'_>,
        needed: &HashSet<usize>,
        work: Work<'_>,
    ) -> Result<Siblings> {
        let mut frames: HashMap<usize, usize> = HashMap::new();
        for (number, frame) in self.frames.iter().enumerate() {
            frames.extend(frame.enters().map(|enter| (enter, number + 1)));
        }
        let mut all = Siblings {
            positions: vec![Position::default(); body.nodes.len()],
            ..Siblings::default()
        };
        let (mut done, mut open) = (HashSet::new(), HashSet::new());
        let mut stack: Vec<(usize, bool)> = needed.iter().map(|at| (*at, false)).collect();
        while let Some((at, ready)) = stack.pop() {
            if done.contains(&at) {
                continue;
            }
            let inputs = self.sources_of(body, at);
            if !ready && open.insert(at) {
                work(1 + inputs.len())?;
                stack.push((at, true));
                stack.extend(inputs.iter().map(|input| (*input, false)));
                continue;
            }
            done.insert(at);
            let before = inputs.iter().map(|input| all.positions[*input]);
            let is_choice = matches!(body.nodes[at].op.as_str(), "Merge" | "RefMerge");
            let depth = before.clone().map(|p| p.depth).max().unwrap_or(0) + usize::from(is_choice);
            let inside = before.map(|p| p.frame).find(|frame| *frame > 0).unwrap_or(0);
            let frame = match (frames.get(&at), self.exits.get(&at)) {
                (Some(frame), _) => *frame,
                (None, Some(frame)) => self.around(body, *frame, &all),
                (None, None) => inside,
            };
            all.positions[at] = Position { depth, frame };
        }
        let mut merges: Vec<usize> = needed.iter().copied().collect();
        merges.retain(|at| matches!(body.nodes[*at].op.as_str(), "Merge" | "RefMerge"));
        merges.sort_unstable();
        for at in merges {
            if let Some(choice) = self.choice(body, at, work)? {
                all.merges.entry(choice.condition.clone()).or_default().push(at);
            }
        }
        Ok(all)
    }

    /// The loop around a loop.
    fn around(&self, body: &Body<'_>, frame: usize, all: &Siblings) -> usize {
        let enter = self.frames.get(frame).and_then(|frame| frame.enters().next());
        let inputs = enter.map(|enter| self.inputs(body, enter)).unwrap_or_default();
        inputs.first().map_or(0, |(input, _)| all.positions[*input].frame)
    }
}
