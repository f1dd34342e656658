//! Who reads a value: a list in which a read is forgotten in constant time even where a million
//! nodes share one constant.

use crate::NodeId;
use std::collections::{BTreeSet, HashMap};

/// Lists longer than this get an index; shorter ones are searched faster than hashed.
const INDEXED_FROM: usize = 64;

/// Nodes that read one value, once per read, in no particular order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    list: Vec<NodeId>,
    /// Positions of each node in the list; made by the first removal from a long list.
    // Boxed: few values have so many readers, and every value pays for the field.
    #[allow(clippy::box_collection)]
    places: Option<Box<HashMap<NodeId, BTreeSet<usize>>>>,
}

impl Readers {
    pub(crate) fn as_slice(&self) -> &[NodeId] {
        &self.list
    }

    pub(crate) fn push(&mut self, id: NodeId) {
        if let Some(places) = &mut self.places {
            places.entry(id).or_default().insert(self.list.len());
        }
        self.list.push(id);
    }

    /// Forgets one read by `id`, if there is one.
    pub(crate) fn remove(&mut self, id: NodeId) {
        if self.places.is_none() && self.list.len() < INDEXED_FROM {
            if let Some(at) = self.list.iter().rposition(|r| *r == id) {
                self.list.swap_remove(at);
            }
            return;
        }
        let places = self.places.get_or_insert_with(|| Box::new(places_of(&self.list)));
        let Some(mine) = places.get_mut(&id) else { return };
        let Some(at) = mine.pop_last() else { return };
        if mine.is_empty() {
            places.remove(&id);
        }
        self.list.swap_remove(at);
        if let Some(moved) = self.list.get(at) {
            let theirs = places.entry(*moved).or_default();
            theirs.remove(&self.list.len());
            theirs.insert(at);
        }
    }

    /// Takes the list and leaves none.
    pub(crate) fn take(&mut self) -> Vec<NodeId> {
        std::mem::take(self).list
    }
}

fn places_of(list: &[NodeId]) -> HashMap<NodeId, BTreeSet<usize>> {
    let mut places: HashMap<NodeId, BTreeSet<usize>> = HashMap::new();
    for (at, id) in list.iter().enumerate() {
        places.entry(*id).or_default().insert(at);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_forgets_as_a_short_one_does() {
        let mut readers = Readers::default();
        let mut left: Vec<u32> = Vec::new();
        for i in 0..3 * INDEXED_FROM as u32 {
            for _ in 0..=i % 3 {
                readers.push(NodeId(i));
                left.push(i);
            }
        }
        for i in (0..200).map(|i| i * 7 % 192) {
            readers.remove(NodeId(i));
            if let Some(at) = left.iter().position(|x| *x == i) {
                left.remove(at);
            }
            if i % 5 == 0 {
                readers.push(NodeId(i));
                left.push(i);
            }
            let mut got: Vec<u32> = readers.as_slice().iter().map(|r| r.0).collect();
            got.sort_unstable();
            left.sort_unstable();
            assert_eq!(got, left);
        }
        assert_eq!(readers.take().len(), left.len());
        readers.remove(NodeId(1));
        assert!(readers.as_slice().is_empty());
    }
}
