//! The cheapest way to divide a network in two: a minimum cut, found by Dinic's algorithm.

use std::collections::VecDeque;

/// A capacity that no cut pays.
pub(crate) const UNBOUNDED: u32 = 1 << 30;

/// The side of layouts as they are.
pub(crate) const SOURCE: usize = 0;
/// The side of layouts that change.
pub(crate) const SINK: usize = 1;

/// Points and arcs between them. An arc and the way back along it are neighbours in the list.
pub(crate) struct Network {
    arcs: Vec<Arc>,
    leaving: Vec<Vec<usize>>,
}

struct Arc {
    to: usize,
    left: u32,
}

impl Network {
    /// A network of the source, the sink, and `points` more, which have the numbers from 2 on.
    pub(crate) fn new(points: usize) -> Network {
        Network { arcs: vec![], leaving: vec![vec![]; points + 2] }
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

    /// The cost of the cheapest cut, and which points are on the sink's side of the one that has the fewest there.
    pub(crate) fn cut(mut self) -> (u32, Vec<bool>) {
        let mut cost = 0;
        loop {
            let levels = self.levels();
            if levels[SINK] == usize::MAX {
                return (cost, self.reaching_the_sink());
            }
            cost += self.augment(levels);
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

    /// Sends as much as shortest ways to the sink take.
    fn augment(&mut self, mut levels: Vec<usize>) -> u32 {
        let mut next = vec![0; self.leaving.len()];
        let (mut way, mut point, mut sent) = (Vec::<usize>::new(), SOURCE, 0);
        loop {
            if point == SINK {
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
            let Some(back) = way.pop() else { return sent };
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
        let mut network = Network::new(3);
        for (from, to, capacity) in
            [(SOURCE, 2, 3), (SOURCE, 3, 2), (2, 4, 1), (3, 4, 1), (2, 3, 5), (4, SINK, UNBOUNDED)]
        {
            network.add_arc(from, to, capacity);
        }
        assert_eq!(network.cut(), (2, vec![false, true, false, false, true]));
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
            let mut network = Network::new(points as usize - 2);
            arcs.iter().for_each(|(from, to, capacity)| network.add_arc(*from, *to, *capacity));
            let (found, sides) = network.cut();
            assert_eq!((found, cost(&|point| sides[point])), (best, best), "{arcs:?}");
        }
    }
}
