//! The cheapest way to divide a network in two: a minimum cut, found by Dinic's algorithm.
//!
//! Its time may grow with the square of a network. So each part that hangs together is cut by itself, in a bounded
//! number of steps for each arc. A part that takes more stays on one side.

use std::collections::VecDeque;

/// A capacity that no cut pays.
pub(crate) const UNBOUNDED: u32 = 1 << 30;

/// The side of layouts as they are.
pub(crate) const SOURCE: usize = 0;
/// The side of layouts that change.
pub(crate) const SINK: usize = 1;

/// Steps for each arc and point: enough for ways of so many lengths from the source to the sink.
const STEPS_MAX: usize = 256;

/// How a network is divided.
pub(crate) struct Cut {
    pub(crate) cost: u32,
    /// Which points are on the side of the sink: the fewest where it costs least.
    pub(crate) changes: Vec<bool>,
    /// A member of each part that takes too many steps; all its members are on the side of the source.
    pub(crate) held: Vec<usize>,
}

/// Points and arcs between them. An arc and the way back along it are neighbours in the list.
pub(crate) struct FlowNetwork {
    arcs: Vec<Arc>,
    leaving: Vec<Vec<usize>>,
    /// How many points it began with; they are what is divided.
    members: usize,
}

struct Arc {
    to: usize,
    left: u32,
}

impl FlowNetwork {
    /// A network of the source, the sink, and `points` more, which have the numbers from 2 on.
    pub(crate) fn new(points: usize) -> FlowNetwork {
        FlowNetwork { arcs: vec![], leaving: vec![vec![]; points + 2], members: points + 2 }
    }

    pub(crate) fn add_point(&mut self) -> usize {
        self.leaving.push(vec![]);
        self.leaving.len() - 1
    }

    /// An arc that costs `capacity` where `from` is on the side of the source and `to` is not.
    pub(crate) fn add_arc(&mut self, from: usize, to: usize, capacity: u32) {
        for (from, to, left) in [(from, to, capacity), (to, from, 0)] {
            self.leaving[from].push(self.arcs.len());
            self.arcs.push(Arc { to, left });
        }
    }

    /// The cheapest cut.
    pub(crate) fn cut(&self) -> Cut {
        self.cut_in(STEPS_MAX)
    }

    /// The cheapest cut of each part that takes at most so many steps for each arc and point.
    fn cut_in(&self, steps: usize) -> Cut {
        let changes = vec![false; self.leaving.len()];
        let direct = self.leaving[SOURCE].iter().map(|arc| &self.arcs[*arc]);
        let cost = direct.filter(|arc| arc.to == SINK).map(|arc| arc.left).sum();
        let mut cut = Cut { cost, changes, held: vec![] };
        cut.changes[SINK] = true;
        for points in self.parts() {
            let found = self.part(&points, false).cut_within(steps);
            let (cost, changes) = found.unwrap_or_else(|| {
                cut.held.push(points[0]);
                self.part(&points, true).cut_within(usize::MAX).expect("there is no bound")
            });
            cut.cost += cost;
            points.iter().enumerate().for_each(|(i, point)| cut.changes[*point] = changes[i + 2]);
        }
        cut
    }

    /// The points that hang together by other ways than source and sink.
    fn parts(&self) -> Vec<Vec<usize>> {
        let (mut parts, mut seen) = (vec![], vec![false; self.leaving.len()]);
        (seen[SOURCE], seen[SINK]) = (true, true);
        for first in 2..self.leaving.len() {
            if std::mem::replace(&mut seen[first], true) {
                continue;
            }
            let (mut part, mut at) = (vec![first], 0);
            while let Some(point) = part.get(at) {
                for arc in &self.leaving[*point] {
                    let other = self.arcs[*arc].to;
                    if !std::mem::replace(&mut seen[other], true) {
                        part.push(other);
                    }
                }
                at += 1;
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts
    }

    /// These points as a network of their own, which has them in their order. If `held`, members are bound to the
    /// source.
    fn part(&self, points: &[usize], held: bool) -> FlowNetwork {
        let mut part = FlowNetwork::new(points.len());
        let place = |point: usize| match point {
            SOURCE | SINK => Some(point),
            _ => points.binary_search(&point).ok().map(|i| i + 2),
        };
        for (i, point) in points.iter().enumerate() {
            for arc in &self.leaving[*point] {
                let (there, back) = (&self.arcs[*arc], &self.arcs[arc ^ 1]);
                let other = place(there.to).expect("a part is closed");
                // Each arc is met at both ends, unless one of them is the source or the sink.
                if arc % 2 == 0 {
                    part.add_arc(i + 2, other, there.left);
                } else if other < 2 {
                    part.add_arc(other, i + 2, back.left);
                }
            }
            if held && *point < self.members {
                part.add_arc(SOURCE, i + 2, UNBOUNDED);
            }
        }
        part
    }

    /// As [`FlowNetwork::cut`], of the whole, if it takes at most so many steps for each arc and point.
    fn cut_within(mut self, steps: usize) -> Option<(u32, Vec<bool>)> {
        let mut left = steps.saturating_mul(self.arcs.len() + self.leaving.len());
        let mut cost = 0;
        loop {
            let levels = self.levels();
            if levels[SINK] == usize::MAX {
                return Some((cost, self.reaching_the_sink()));
            }
            left = left.checked_sub(self.arcs.len() + self.leaving.len())?;
            cost += self.augment(levels, &mut left)?;
        }
    }

    /// How many arcs each point is away from the source.
    fn levels(&self) -> Vec<usize> {
        let mut levels = vec![usize::MAX; self.leaving.len()];
        levels[SOURCE] = 0;
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(point) = queue.pop_front() {
            for arc in self.leaving[point].iter().map(|arc| &self.arcs[*arc]) {
                if arc.left > 0 && levels[arc.to] == usize::MAX {
                    levels[arc.to] = levels[point] + 1;
                    queue.push_back(arc.to);
                }
            }
        }
        levels
    }

    /// Sends as much as shortest ways to the sink take, in at most `steps`.
    fn augment(&mut self, mut levels: Vec<usize>, steps: &mut usize) -> Option<u32> {
        let mut next = vec![0; self.leaving.len()];
        let (mut way, mut point, mut sent) = (Vec::<usize>::new(), SOURCE, 0);
        loop {
            if point == SINK {
                *steps = steps.checked_sub(way.len())?;
                let most = way.iter().map(|arc| self.arcs[*arc].left).min().unwrap_or(0);
                for arc in &way {
                    self.arcs[*arc].left -= most;
                    self.arcs[arc ^ 1].left += most;
                }
                sent += most;
                let full = way.iter().position(|arc| self.arcs[*arc].left == 0).unwrap_or(0);
                point = self.arcs[way[full] ^ 1].to;
                way.truncate(full);
                continue;
            }
            *steps = steps.checked_sub(1)?;
            let open = self.leaving[point][next[point]..].iter().position(|arc| {
                let arc = &self.arcs[*arc];
                arc.left > 0 && levels[arc.to] == levels[point].saturating_add(1)
            });
            if let Some(skipped) = open {
                next[point] += skipped;
                let arc = self.leaving[point][next[point]];
                way.push(arc);
                point = self.arcs[arc].to;
                continue;
            }
            levels[point] = usize::MAX;
            let Some(back) = way.pop() else { return Some(sent) };
            point = self.arcs[back ^ 1].to;
        }
    }

    fn reaching_the_sink(&self) -> Vec<bool> {
        let mut reaches = vec![false; self.leaving.len()];
        reaches[SINK] = true;
        let mut queue = vec![SINK];
        while let Some(point) = queue.pop() {
            for arc in &self.leaving[point] {
                let before = self.arcs[*arc].to;
                if self.arcs[arc ^ 1].left > 0 && !reaches[before] {
                    reaches[before] = true;
                    queue.push(before);
                }
            }
        }
        reaches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_place() {
        let mut network = FlowNetwork::new(3);
        for (from, to, capacity) in
            [(SOURCE, 2, 3), (SOURCE, 3, 2), (2, 4, 1), (3, 4, 1), (2, 3, 5), (4, SINK, UNBOUNDED)]
        {
            network.add_arc(from, to, capacity);
        }
        let cut = network.cut();
        assert_eq!((cut.cost, cut.changes), (2, vec![false, true, false, false, true]));
    }

    /// Ways of all lengths from the source to the sink, which hang together.
    fn ladder(rungs: usize) -> FlowNetwork {
        let mut network = FlowNetwork::new(rungs * (rungs + 1) / 2);
        let mut point = 2;
        for rung in 0..rungs {
            network.add_arc(SOURCE, point, 2);
            for _ in 0..rung {
                network.add_arc(point, point + 1, 1);
                point += 1;
            }
            network.add_arc(point, SINK, 2);
            if rung > 0 {
                network.add_arc(point, point - rung - 1, UNBOUNDED);
            }
            point += 1;
        }
        network
    }

    #[test]
    fn a_part_that_takes_too_long_stays() {
        let small = ladder(20);
        let changes = &small.cut().changes[2..];
        assert!(changes.contains(&true) && changes.contains(&false));
        let large = ladder(40).cut_in(32);
        // All that is cut is where ways come to the sink.
        assert_eq!((large.cost, large.held), (2 * 40, vec![2]));
        assert!(!large.changes[2..].contains(&true));
        // What does not hang together with it is divided all the same.
        let mut both = ladder(40);
        let alone = both.add_point();
        both.members = alone + 1;
        both.add_arc(SOURCE, alone, 1);
        both.add_arc(alone, SINK, 2);
        let both = both.cut_in(32);
        assert_eq!((both.cost, both.changes[alone], both.held), (2 * 40 + 1, true, vec![2]));
    }

    /// All cuts of small networks are tried.
    #[test]
    fn as_cheap_as_the_best_of_all() {
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..200 {
            let points = 6;
            let arcs: Vec<(usize, usize, u32)> = (0..14)
                .map(|_| (random(points) as usize, random(points) as usize, random(4)))
                .filter(|(from, to, _)| from != to)
                .collect();
            let cost = |sink_side: &dyn Fn(usize) -> bool| -> u32 {
                let paid = arcs.iter().filter(|(from, to, _)| !sink_side(*from) && sink_side(*to));
                paid.map(|(_, _, capacity)| capacity).sum()
            };
            let all = (0..1u32 << points).filter(|set| set & 3 == 2);
            let best = all.map(|set| cost(&|point| set >> point & 1 == 1)).min().unwrap();
            let mut network = FlowNetwork::new(points as usize - 2);
            arcs.iter().for_each(|(from, to, capacity)| network.add_arc(*from, *to, *capacity));
            let cut = network.cut();
            let paid = cost(&|point| cut.changes[point]);
            assert_eq!((cut.cost, paid, cut.held), (best, best, vec![]), "{arcs:?}");
        }
    }
}
