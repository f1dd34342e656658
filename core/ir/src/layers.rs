//! The source layers of a node: lists that are joined without being copied. Thousands of nodes may be fused into one,
//! one after the other, and each time the layers of both are those of the result.

use onnxd_diagnostics::Layer;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Lists up to this length are copied and searched, which is cheaper than to share them.
const FEW: usize = 8;

/// Layers of the source network, each once, in the order in which they were added. It is read as a slice.
///
/// To clone it, to add to it and to ask for the first layer take constant time. A slice of joined lists is made when it
/// is asked for, and kept.
#[derive(Clone)]
pub struct Layers(LayerList);

#[derive(Clone)]
enum LayerList {
    Few(Vec<Layer>),
    Joined(Arc<Joined>),
}

/// Lists one after the other.
struct Joined {
    first: Layer,
    /// Not empty; a layer may be in several.
    parts: Vec<Layers>,
    flat: OnceLock<Vec<Layer>>,
}

impl Layers {
    /// Adds a layer, unless it is there.
    pub fn push(&mut self, layer: Layer) {
        self.add(&Layers(LayerList::Few(vec![layer])));
    }

    /// Adds those of `others` that are not there.
    pub fn add(&mut self, others: &Layers) {
        if others.is_empty() {
            return;
        }
        match (&mut self.0, &others.0) {
            (LayerList::Few(own), _) if own.is_empty() => *self = others.clone(),
            (LayerList::Few(own), LayerList::Few(new)) if own.len() + new.len() <= FEW => {
                for layer in new {
                    if !own.contains(layer) {
                        own.push(layer.clone());
                    }
                }
            }
            _ => self.join(others.clone()),
        }
    }

    fn join(&mut self, others: Layers) {
        if let LayerList::Joined(own) = &mut self.0
            && let Some(own) = Arc::get_mut(own)
            && own.flat.get().is_none()
        {
            return own.parts.push(others);
        }
        let first = self.first().expect("it is not empty").clone();
        let parts = vec![std::mem::take(self), others];
        self.0 = LayerList::Joined(Arc::new(Joined { first, parts, flat: OnceLock::new() }));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// The first one.
    pub fn first(&self) -> Option<&Layer> {
        match &self.0 {
            LayerList::Few(list) => list.first(),
            LayerList::Joined(joined) => Some(&joined.first),
        }
    }

    /// Changes the list as a whole.
    pub fn edit<R>(&mut self, f: impl FnOnce(&mut Vec<Layer>) -> R) -> R {
        let mut all = std::mem::take(self).into_vec();
        let result = f(&mut all);
        *self = all.into();
        result
    }

    fn into_vec(self) -> Vec<Layer> {
        match self.0 {
            LayerList::Few(list) => list,
            LayerList::Joined(_) => self.to_vec(),
        }
    }
}

impl Joined {
    /// Each layer once. A list that is in several others is looked at once: there may be as many ways to it as
    /// nodes were fused.
    fn flatten(&self) -> Vec<Layer> {
        let (mut flat, mut known, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut add = |layers: &[Layer]| {
            flat.extend(layers.iter().filter(|layer| known.insert((*layer).clone())).cloned());
        };
        let mut pending: Vec<&Layers> = self.parts.iter().rev().collect();
        while let Some(part) = pending.pop() {
            match &part.0 {
                LayerList::Few(list) => add(list),
                LayerList::Joined(joined) if !seen.insert(Arc::as_ptr(joined)) => {}
                LayerList::Joined(joined) => match joined.flat.get() {
                    Some(list) => add(list),
                    None => pending.extend(joined.parts.iter().rev()),
                },
            }
        }
        flat
    }
}

impl Drop for Joined {
    /// Without recursion: lists may lie in each other as deep as nodes were fused.
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut self.parts);
        while let Some(part) = pending.pop() {
            if let LayerList::Joined(joined) = part.0
                && let Some(mut joined) = Arc::into_inner(joined)
            {
                pending.append(&mut joined.parts);
            }
        }
    }
}

impl Deref for Layers {
    type Target = [Layer];

    fn deref(&self) -> &[Layer] {
        match &self.0 {
            LayerList::Few(list) => list,
            LayerList::Joined(joined) => joined.flat.get_or_init(|| joined.flatten()),
        }
    }
}

impl Default for Layers {
    fn default() -> Layers {
        Layers(LayerList::Few(Vec::new()))
    }
}

impl From<Vec<Layer>> for Layers {
    fn from(list: Vec<Layer>) -> Layers {
        match list.first() {
            Some(first) if list.len() > FEW => {
                let (first, parts) = (first.clone(), Vec::new());
                Layers(LayerList::Joined(Arc::new(Joined {
                    first,
                    parts,
                    flat: OnceLock::from(list),
                })))
            }
            _ => Layers(LayerList::Few(list)),
        }
    }
}

impl From<Layer> for Layers {
    fn from(layer: Layer) -> Layers {
        Layers(LayerList::Few(vec![layer]))
    }
}

impl FromIterator<Layer> for Layers {
    fn from_iter<I: IntoIterator<Item = Layer>>(layers: I) -> Layers {
        layers.into_iter().collect::<Vec<_>>().into()
    }
}

impl FromIterator<Layers> for Layers {
    fn from_iter<I: IntoIterator<Item = Layers>>(lists: I) -> Layers {
        let mut all = Layers::default();
        lists.into_iter().for_each(|list| all.add(&list));
        all
    }
}

impl IntoIterator for Layers {
    type Item = Layer;
    type IntoIter = std::vec::IntoIter<Layer>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a Layers {
    type Item = &'a Layer;
    type IntoIter = std::slice::Iter<'a, Layer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Layers {
    fn eq(&self, other: &Layers) -> bool {
        self[..] == other[..]
    }
}

impl<const N: usize> PartialEq<[Layer; N]> for Layers {
    fn eq(&self, other: &[Layer; N]) -> bool {
        self[..] == other[..]
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(i: usize) -> Layer {
        Layer::new(format!("layer{i}"), "Add")
    }

    fn list(range: std::ops::Range<usize>) -> Vec<Layer> {
        range.map(layer).collect()
    }

    #[test]
    fn layers_are_added_once_each() {
        for count in [1, FEW, FEW + 1, 40] {
            let mut layers = Layers::default();
            for first in (0..40).step_by(count) {
                let mut added = Layers::from(list(first..40.min(first + count)));
                added.push(layer(first));
                added.push(layer(0));
                layers.add(&added);
            }
            assert_eq!(layers[..], list(0..40), "{count} at a time");
            assert_eq!(layers.first(), Some(&layer(0)));
        }
    }

    #[test]
    fn a_copy_keeps_what_it_has() {
        let mut layers = Layers::from(list(0..20));
        let copy = layers.clone();
        layers.push(layer(20));
        let other = layers.clone();
        layers.push(layer(21));
        layers.edit(|all| all.retain(|layer| layer.name != "layer3"));
        assert_eq!((copy.len(), other.len(), layers.len()), (20, 21, 21));
        assert_eq!(layers[3], layer(4));
    }

    /// Each list has the one before it twice: 2^100,000 ways lead to the first layer.
    #[test]
    fn lists_deep_in_each_other_are_read_and_dropped() {
        let mut layers = Layers::from(list(0..FEW));
        for i in 0..100_000 {
            let before = layers.clone();
            layers.add(&before);
            layers.push(layer(i));
        }
        assert_eq!(layers.clone()[..], list(0..100_000));
    }
}
