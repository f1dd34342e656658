//! Parameters, buffers and constants of exported programs.
//!
//! Torch 2.2 to 2.8 put the weights of a model into one member, which `torch.save` wrote, and its constants into
//! another. Later ones have a member for each storage, and a list that says which tensor is which view.

#[cfg(test)]
mod tests;

use super::{InputKind, Meta, SymbolicSize};
use crate::archive::pickle::Pickled;
use crate::archive::storage::{StorageSource, Storages, StoredTensor, refuse_big_endian};
use crate::archive::weights::saved;
use crate::archive::zip::Archive;
use crate::archive::{damaged, unsupported};
use crate::diag::{Code, Diagnostic};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// What the program holds, by its names in the module.
#[derive(Debug)]
pub(crate) struct ProgramWeights {
    /// Parameters and buffers.
    state: HashMap<Rc<str>, Pickled>,
    /// Constants, objects, and buffers that are not persistent.
    constants: HashMap<Rc<str>, Pickled>,
    /// Places of parameters and buffers in the state dict.
    places: HashMap<Rc<str>, usize>,
}

/// What a file names, in its order.
type Items = Vec<(Rc<str>, Pickled)>;

impl ProgramWeights {
    /// What belongs to the graph in a member: `models/model.json`, `serialized_exported_program.json`.
    pub(crate) fn open(archive: &Archive, graph: &str) -> Result<ProgramWeights, Diagnostic> {
        refuse_big_endian(archive)?;
        let name = graph.strip_prefix("models/").and_then(|name| name.strip_suffix(".json"));
        let read = |kind: &str, folder: &str| match name {
            None => {
                // Torch 2.2 called them `.json`.
                let members = ["pt", "json"].map(|end| format!("serialized_{kind}.{end}"));
                pickled(archive, &members)
            }
            Some(name) => {
                let list = format!("data/{folder}/{name}_{folder}_config.json");
                if archive.has(&list) {
                    return listed(archive, &list, &format!("data/{folder}/"));
                }
                pickled(archive, &[format!("data/{folder}/{name}.pt")])
            }
        };
        let state = read("state_dict", "weights")?;
        let mut names: Vec<Rc<str>> = state.iter().map(|(name, _)| name.clone()).collect();
        by_module(&mut names, 0);
        let places = names.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
        let constants = read("constants", "constants")?.into_iter().collect();
        Ok(ProgramWeights { state: state.into_iter().collect(), constants, places })
    }

    /// The place of a parameter or buffer in the state dict; those that it lacks come last.
    pub(crate) fn place_of(&self, name: &str) -> usize {
        self.places.get(name).copied().unwrap_or(usize::MAX)
    }

    /// What an input of the graph is bound to; nothing for inputs that the caller gives.
    pub(crate) fn get(&self, kind: &InputKind) -> Result<Option<&Pickled>, Diagnostic> {
        let (name, first, second) = match kind {
            InputKind::Parameter(name) => (name, &self.state, &self.constants),
            // Torch 2.2 does not say which buffers are persistent.
            InputKind::Buffer { name, persistent: true } => (name, &self.state, &self.constants),
            InputKind::Buffer { name, persistent: false } => (name, &self.constants, &self.state),
            InputKind::Constant(name) | InputKind::Object(name) => {
                (name, &self.constants, &self.state)
            }
            InputKind::Token | InputKind::Fixed(_) | InputKind::User => return Ok(None),
        };
        let found = first.get(name).or_else(|| second.get(name));
        found.map(Some).ok_or_else(|| {
            let what = format!("the archive has no weights for `{name}`");
            Diagnostic::new(Code::WeightsMissing, what).help("Save the program again.")
        })
    }

    /// As [`ProgramWeights::get`], where it must be a tensor.
    pub(crate) fn tensor(&self, kind: &InputKind) -> Result<Option<Rc<StoredTensor>>, Diagnostic> {
        match self.get(kind)? {
            None => Ok(None),
            Some(Pickled::Tensor(tensor)) => Ok(Some(tensor.clone())),
            Some(other) => {
                Err(damaged(format!("{kind:?} is {} in place of a tensor", other.kind())))
            }
        }
    }
}

/// Modules inside each other whose tensors are put in order.
const DEPTH_MAX: usize = 64;

/// Brings names into the order of a module's state dict: its own tensors, then those of each module inside. Programs
/// may list all buffers behind all parameters.
fn by_module(names: &mut [Rc<str>], depth: usize) {
    // The module at this depth that a tensor is in; none for tensors of the module around it.
    let inner = |name: &Rc<str>| {
        let mut parts = name.split('.').skip(depth);
        parts.next().filter(|_| parts.next().is_some()).map(str::to_owned)
    };
    let mut modules: HashMap<Option<String>, usize> = HashMap::from([(None, 0)]);
    for name in names.iter() {
        let next = modules.len();
        modules.entry(inner(name)).or_insert(next);
    }
    names.sort_by_cached_key(|name| modules[&inner(name)]);
    if depth < DEPTH_MAX && modules.len() > 1 {
        let parts = names.chunk_by_mut(|a, b| inner(a) == inner(b));
        parts.filter(|part| inner(&part[0]).is_some()).for_each(|part| by_module(part, depth + 1));
    }
}

/// The dict in the first member that the archive has; empty without one.
fn pickled(archive: &Archive, members: &[String]) -> Result<Items, Diagnostic> {
    let Some(member) = members.iter().find(|member| archive.has(member)) else {
        return Ok(vec![]);
    };
    let bytes = archive.read(member)?;
    // A program without constants has an empty member in place of an archive.
    if bytes.is_empty() {
        return Ok(vec![]);
    }
    let Pickled::Dict(items) = saved(&bytes, &format!("{member}/"))? else {
        return Err(damaged(format!("`{member}` has no dict of weights")));
    };
    let named = |(key, value): &(Pickled, Pickled)| match key {
        Pickled::Text(name) => Ok((name.clone(), value.clone())),
        other => Err(damaged(format!("`{member}` has {} in place of a name", other.kind()))),
    };
    items.borrow().iter().map(named).collect()
}

#[derive(Deserialize)]
struct ConfigList {
    #[serde(deserialize_with = "in_order")]
    config: Vec<(Rc<str>, WeightEntry)>,
}

/// The members of an object in the order of the file.
fn in_order<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Rc<str>, WeightEntry)>, D::Error> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(Rc<str>, WeightEntry)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = vec![];
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    from.deserialize_map(Entries)
}

#[derive(Deserialize)]
struct WeightEntry {
    path_name: String,
    #[serde(default)]
    use_pickle: bool,
    tensor_meta: Option<Meta>,
}

/// The tensors of a list, whose storages are members of a folder.
fn listed(archive: &Archive, list: &str, folder: &str) -> Result<Items, Diagnostic> {
    let text = archive.read(list)?;
    let wrong = |e| damaged(format!("`{list}`: {e}"));
    let parsed: ConfigList = serde_json::from_slice(&text).map_err(wrong)?;
    let storages = Storages::new(StorageSource::Archive(archive, folder), "");
    let mut result = Vec::with_capacity(parsed.config.len());
    for (name, entry) in parsed.config {
        let path = format!("{folder}{}", entry.path_name);
        let value = match entry.tensor_meta {
            Some(meta) if !entry.use_pickle => {
                Pickled::Tensor(tensor(&storages, &entry.path_name, &meta, &name)?)
            }
            _ => saved(&archive.read(&path)?, &format!("{path}/"))?,
        };
        result.push((name, value));
    }
    Ok(result)
}

fn tensor(
    storages: &Storages,
    key: &str,
    meta: &Meta,
    name: &str,
) -> Result<Rc<StoredTensor>, Diagnostic> {
    let Some(dtype) = meta.dtype else {
        return Err(unsupported(format!(
            "`{name}` has elements of a type that ONNX does not have"
        )));
    };
    let number = |size: &SymbolicSize| match size {
        SymbolicSize::Known(number) => usize::try_from(*number).ok(),
        SymbolicSize::Symbolic(_) => None,
    };
    let numbers =
        |sizes: &[SymbolicSize]| -> Option<Vec<usize>> { sizes.iter().map(number).collect() };
    let offset = meta.storage_offset.as_ref().map_or(Some(0), number);
    let (Some(sizes), Some(strides), Some(offset)) =
        (numbers(&meta.sizes), numbers(&meta.strides), offset)
    else {
        return Err(damaged(format!(
            "the sizes, strides or offset of `{name}` are no natural numbers"
        )));
    };
    let count = sizes.contains(&0).then_some(0);
    storages.view(&storages.storage(key, dtype, count)?, offset, &sizes, &strides)
}
