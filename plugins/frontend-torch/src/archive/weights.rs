//! Weights without a network: state dicts of all ages, and safetensors.

mod collect;
mod safetensors;

use super::pickle::{self, Context, Pickled, PickledTree};
use super::storage::{StorageSource, Storages, StoredTensor, refuse_big_endian};
use super::zip::{self, Archive};
use super::{damaged, truncated, unsupported};
use crate::diag::{Diagnostic, refuse};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) use safetensors::is_safetensors;

/// First bytes of what `torch.save` wrote before 1.6: a pickle of the number `0x1950a86a20f9469cfc6c`.
pub(crate) const LEGACY: &[u8] =
    &[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Tensors by name.
pub(crate) type NamedTensors = Vec<(String, Rc<StoredTensor>)>;

/// The weights of a file, by their names in the module. `within` is the name of the archive's member that the bytes
/// are, with a `/`, or empty for a file.
pub(crate) fn load(bytes: &Bytes, within: &str) -> Result<NamedTensors, Diagnostic> {
    match is_safetensors(bytes) {
        true => safetensors::read(bytes, within),
        false => collect::weights(tree(bytes, within)?.root()),
    }
}

/// The value that `torch.save` wrote.
pub(crate) fn saved(bytes: &Bytes, within: &str) -> Result<Pickled, Diagnostic> {
    tree(bytes, within)?.checked()
}

fn tree(bytes: &Bytes, within: &str) -> Result<PickledTree, Diagnostic> {
    if bytes.starts_with(LEGACY) {
        return legacy(bytes, within);
    }
    refuse!(!zip::is(bytes) => damaged("the file is neither an archive of torch nor safetensors"));
    let archive = Archive::open(bytes.clone())?;
    refuse_big_endian(&archive)?;
    let storages = Storages::new(StorageSource::Archive(&archive, "data/"), within);
    let context = Context { storages: Some(&storages), ..Context::default() };
    pickle::read(&archive.read("data.pkl")?, &context)
}

/// The object of a file before torch 1.6: some pickles after each other, then the elements of all storages.
fn legacy(bytes: &Bytes, within: &str) -> Result<PickledTree, Diagnostic> {
    let plan = Context::default();
    let mut at = 0;
    let mut next = |context: &Context| {
        let (tree, end) = pickle::read_one(&bytes[at..], context)?;
        at += end;
        Ok::<_, Diagnostic>((tree, at))
    };
    let (_magic, _) = next(&plan)?;
    let (protocol, _) = next(&plan)?;
    refuse!(!matches!(protocol.root(), Pickled::Int(1001)) =>
        unsupported("the file has another version than `torch.save` ever wrote"));
    let (system, begin) = next(&plan)?;
    if let Some(Pickled::Bool(false)) = system.root().get("little_endian") {
        return Err(unsupported("the file has numbers in big-endian order"));
    }
    // Types of storages are in the object, and where they begin follows from the types of those before.
    next(&plan)?;
    let (keys, end) = next(&plan)?;
    let parts = parts(bytes, end, keys.root(), &plan)?;
    let storages = Storages::new(StorageSource::Parts(parts), within);
    let context = Context { storages: Some(&storages), ..Context::default() };
    pickle::read(&bytes[begin..], &context)
}

/// The bytes of each storage by its key: a count of elements, and these.
fn parts(
    bytes: &Bytes,
    mut at: usize,
    keys: &Pickled,
    plan: &Context,
) -> Result<BTreeMap<String, Bytes>, Diagnostic> {
    let seen = plan.seen.borrow();
    let mut parts = BTreeMap::new();
    for key in keys.items().ok_or_else(|| damaged("the file has no list of storages"))? {
        let known = key.text().and_then(|key| Some((key, seen.get(key)?)));
        let Some((key, (dtype, count))) = known else {
            return Err(damaged("the file lists a storage that no tensor has"));
        };
        let early = || truncated(format!("storage `{key}` lies beyond the end of the file"));
        let head = at.checked_add(8).ok_or_else(early)?;
        let told = bytes.get(at..head).ok_or_else(early)?;
        refuse!(told != (*count as u64).to_le_bytes() =>
            damaged(format!("storage `{key}` has not the {count} elements announced")));
        let end = dtype.byte_len(*count).and_then(|size| head.checked_add(size));
        let end = end.filter(|end| *end <= bytes.len()).ok_or_else(early)?;
        parts.insert(key.to_owned(), bytes.slice(head..end));
        at = end;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
