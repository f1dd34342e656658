//! What a pickle gave, and whether functions that recurse may walk it.

use super::Pickled;
use crate::problem::{damaged, over_limit};
use onnxd_diagnostics::{Diagnostic, refuse};
use std::collections::HashMap;
use std::rc::Rc;

/// Containers inside each other.
const NESTING_MAX: usize = 500;
/// Values, when each shared one is counted wherever it is.
const UNFOLDED_MAX: u64 = 1 << 24;

/// A value and all containers that were made with it. Dropped without recursion, even if it is deep or has cycles.
#[derive(Debug)]
pub struct PickledTree {
    root: Pickled,
    _made: Containers,
}

/// Lists, dicts and objects, which can be filled after they were put somewhere.
#[derive(Debug, Default)]
pub(super) struct Containers(pub(super) Vec<Pickled>);

/// Empties all containers while each of them is still held, so none frees another.
impl Drop for Containers {
    fn drop(&mut self) {
        for container in &self.0 {
            match container {
                Pickled::List(items) => drop(items.take()),
                Pickled::Dict(items) => drop(items.take()),
                Pickled::Object(object) => drop(object.state.take()),
                _ => {}
            }
        }
    }
}

impl PickledTree {
    pub(super) fn new(root: Pickled, made: Containers) -> PickledTree {
        PickledTree { root, _made: made }
    }

    /// The value. Its containers are empty once the tree is dropped.
    pub fn root(&self) -> &Pickled {
        &self.root
    }

    /// The value for functions that recurse: no container is in itself, nor very deep, nor shared without measure.
    pub fn checked(self) -> Result<Pickled, Diagnostic> {
        let known = check(&self.root)?;
        let PickledTree { root, _made: mut made } = self;
        // What the value does not reach may be deep, and is emptied.
        made.0.retain(|container| address(container).is_none_or(|at| !known.contains_key(&at)));
        Ok(root)
    }
}

/// What identifies a container.
pub(crate) fn address(value: &Pickled) -> Option<usize> {
    match value {
        Pickled::Tuple(items) => Some(Rc::as_ptr(items).cast::<()>() as usize),
        Pickled::List(items) => Some(Rc::as_ptr(items) as usize),
        Pickled::Dict(items) => Some(Rc::as_ptr(items) as usize),
        Pickled::Object(object) => Some(Rc::as_ptr(object) as usize),
        _ => None,
    }
}

/// The values in a container, keys too.
fn children(value: &Pickled) -> Vec<Pickled> {
    match value {
        Pickled::Tuple(items) => items.to_vec(),
        Pickled::List(items) => items.borrow().clone(),
        Pickled::Dict(items) => {
            items.borrow().iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect()
        }
        Pickled::Object(object) => {
            object.arguments.iter().cloned().chain(object.state.borrow().clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Depth and unfolded size of a container.
#[derive(Clone, Copy)]
struct Extent {
    depth: usize,
    size: u64,
}

/// A container on the way to the one that is looked at.
struct ContainerLevel {
    address: usize,
    rest: std::vec::IntoIter<Pickled>,
    extent: Extent,
}

impl ContainerLevel {
    fn new(address: usize, value: &Pickled) -> ContainerLevel {
        let rest = children(value).into_iter();
        ContainerLevel { address, rest, extent: Extent { depth: 1, size: 1 } }
    }

    fn add(&mut self, inner: Extent) {
        self.extent.depth = self.extent.depth.max(inner.depth + 1);
        self.extent.size = self.extent.size.saturating_add(inner.size);
    }
}

fn too_much() -> Diagnostic {
    over_limit(format!(
        "the pickle has more than {NESTING_MAX} objects inside each other, or too many"
    ))
}

/// All containers that a value reaches; the extent is `None` while a container is open.
type KnownExtents = HashMap<usize, Option<Extent>>;

fn check(root: &Pickled) -> Result<KnownExtents, Diagnostic> {
    let Some(first) = address(root) else { return Ok(KnownExtents::new()) };
    let mut known_extents = KnownExtents::from([(first, None)]);
    let mut path = vec![ContainerLevel::new(first, root)];
    while let Some(level) = path.last_mut() {
        let Some(child) = level.rest.next() else {
            let (done, extent) = (level.address, level.extent);
            refuse!(extent.depth > NESTING_MAX || extent.size > UNFOLDED_MAX => too_much());
            known_extents.insert(done, Some(extent));
            path.pop();
            if let Some(outer) = path.last_mut() {
                outer.add(extent);
            }
            continue;
        };
        match address(&child) {
            None => level.add(Extent { depth: 0, size: 1 }),
            Some(at) => match known_extents.get(&at) {
                Some(Some(extent)) => level.add(*extent),
                Some(None) => return Err(damaged("an object of the file contains itself")),
                None if path.len() == NESTING_MAX => return Err(too_much()),
                None => {
                    known_extents.insert(at, None);
                    path.push(ContainerLevel::new(at, &child));
                }
            },
        }
    }
    Ok(known_extents)
}
