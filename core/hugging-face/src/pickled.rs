//! Weights that `torch.save` wrote (`pytorch_model.bin`): a dict of tensors in a zip archive. The pickle in it is read
//! as data. Tensors are views of storages, which are stored members of the archive, and stay in the mapped file.

use crate::diag::{Diagnostic, shown};
use crate::problem::{damaged, pointer, unsupported};
use crate::safetensors::Stored;
use bytes::Bytes;
use onnxd_plugin_sdk::pickle::storage::{StorageSource, Storages, refuse_big_endian};
use onnxd_plugin_sdk::pickle::{self, Context, Members, Pickled};
use onnxd_plugin_sdk::{Archive, ArchiveKind};

/// How `torch.save` began its files before 1.6: a pickle of the number `0x1950a86a20f9469cfc6c`.
const LEGACY: &[u8] =
    &[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

const SAVE: &str = "Make safetensors of it: load the model in Python with `from_pretrained`, and write it \
    with `save_pretrained`.";

/// All tensors of a file, in the order of its dict. `file` is its name, for diagnostics.
pub(crate) fn read(file: &str, bytes: &Bytes) -> Result<Vec<Stored>, Diagnostic> {
    if let Some(found) = pointer(file, bytes) {
        return Err(found);
    }
    let file = shown(file);
    if bytes.starts_with(LEGACY) {
        let why = format!("`{file}` has the form of torch before 1.6, which is not read here");
        return Err(unsupported(why).help(SAVE));
    }
    if ArchiveKind::of(bytes) != Some(ArchiveKind::Zip) {
        return Err(damaged(format!("`{file}` is no archive that `torch.save` writes")));
    }
    let read = Archive::open(bytes.clone()).and_then(|archive| dict(&archive));
    read.map_err(|mut found| {
        found.message = format!("`{file}`: {}", found.message);
        found
    })
}

/// The tensors of the dict in an archive.
pub(crate) fn dict(archive: &dyn Members) -> Result<Vec<Stored>, Diagnostic> {
    refuse_big_endian(archive)?;
    let storages = Storages::new(StorageSource::Archive(archive, "data/"), "");
    let context = Context { storages: Some(&storages), ..Context::default() };
    let tree = pickle::read(&archive.read("data.pkl")?, &context)?;
    let root = tree.root();
    let Pickled::Dict(items) = root else {
        let kind = root.kind();
        return Err(unsupported(format!("it holds {kind}, and no dict of tensors")).help(SAVE));
    };
    let mut found = Vec::new();
    for (key, value) in items.borrow().iter() {
        let Some(name) = key.text() else { continue };
        let refused =
            |why: &str| Err(unsupported(format!("tensor `{}` {why}", shown(name))).help(SAVE));
        match value {
            Pickled::Tensor(stored) if stored.quantizer.is_some() => {
                return refused("is quantized in torch's own way");
            }
            Pickled::Tensor(stored) => {
                found.push(Stored::held(name.to_owned(), stored.tensor.clone()));
            }
            Pickled::Object(_) => return refused("is an object of a class, and no plain tensor"),
            // Numbers and texts beside the tensors, such as a module's extra state.
            _ => {}
        }
    }
    match found.is_empty() {
        true => Err(unsupported("its dict has no tensors by their names").help(SAVE)),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests;
