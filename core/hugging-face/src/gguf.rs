//! Checkpoints in files of GGUF: metadata, tensors in blocks, and a tokenizer, in one file or in numbered parts.
//!
//! The file says a version, keys with values, and where tensors lie; then the elements of all tensors. `architectures`
//! says how metadata become the fields of `config.json`, and `names` how tensors become those of the family.

mod cursor;
mod facts;
mod import;
mod integers;
mod metadata;
mod names;
mod parts;
mod rows;
mod tensors;
mod tokenizer;

use crate::architecture::Target;
use crate::diag::{Diagnostic, shown};
use crate::problem::{damaged, over_limit, pointer, truncated, unsupported};
use crate::proof::{self, Proof};
use bytes::Bytes;
use cursor::Cursor;
use metadata::Metadata;
use onnxd_plugin_sdk::ir::{Graph, Model};

pub(crate) use import::import;
pub(crate) use parts::probe;
pub(crate) use tensors::Stored;

const MAGIC: &[u8] = b"GGUF";

/// Versions that are read.
const VERSIONS: [u32; 2] = [2, 3];

/// Keys of a file. The greatest ones have some fifty.
const KEYS_MAX: u64 = 1 << 16;

/// Tensors of a file.
const TENSORS_MAX: u64 = 1 << 19;

/// Bytes that a key and a tensor take at least.
const KEY_BYTES_MIN: u64 = 8 + 4 + 1;
const TENSOR_BYTES_MIN: u64 = 8 + 4 + 4 + 8;

/// Where elements begin, if the file does not say.
const ALIGNMENT: u64 = 32;
const ALIGNMENT_MAX: u64 = 1 << 20;

/// What a file says.
pub(crate) struct Read {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<Stored>,
}

/// Reads a file. `file` is its name, for diagnostics.
pub(crate) fn read(file: &str, bytes: &Bytes) -> Result<Read, Diagnostic> {
    let file = shown(file);
    let mut at = Cursor::new(&file, bytes);
    let version = begin(&mut at)?;
    let tensors = at.u64("the number of tensors")?;
    let keys = at.u64("the number of keys")?;
    count(&at, "tensors", (tensors, TENSORS_MAX, TENSOR_BYTES_MIN), 8)?;
    count(&at, "keys", (keys, KEYS_MAX, KEY_BYTES_MIN), 16)?;
    let metadata = Metadata::read(&mut at, keys)?;
    let alignment = alignment(&metadata)?;
    let tensors = tensors::read(&mut at, tensors, alignment)?;
    Ok(Read { version, metadata, tensors })
}

/// The graph of the model in a file, in one piece.
pub(crate) fn graph(file: &str, bytes: &Bytes, opset: i64) -> Result<Graph, Diagnostic> {
    let read = read(file, bytes)?;
    let described = import::describe(file, &read)?;
    let checkpoint = import::checkpoint(&read.tensors, &described)?;
    import::graph(&described.decoder, &checkpoint, &Target::plain(opset))
}

/// Compares layers of the model of a file with a second implementation.
pub(crate) fn proof(model: &Model, read: &Read) -> Proof {
    let get = |key: &str| read.metadata.get(key)?.json();
    let stored = |name: &str| read.tensors.iter().find(|stored| stored.name == name);
    let find = |name: &str| stored(name).map(Stored::raw);
    proof::of_gguf(model, &get, &find)
}

/// Magic and version.
fn begin(at: &mut Cursor<'_>) -> Result<u32, Diagnostic> {
    let file = at.file;
    let magic = at.take(4, "the first four bytes")?;
    if magic != MAGIC {
        if let Some(found) = pointer(file, at.bytes) {
            return Err(found);
        }
        let found = magic.escape_ascii();
        return Err(damaged(format!(
            "`{file}` begins with `{found}` at offset 0, and not with `GGUF`"
        )));
    }
    let version = at.u32("the version")?;
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    if VERSIONS.contains(&version.swap_bytes()) {
        let why = "is big-endian: its version at offset 4 is that of";
        let version = version.swap_bytes();
        let help = "Convert the model for a little-endian machine.";
        return Err(
            unsupported(format!("`{file}` {why} the other order of bytes ({version})")).help(help)
        );
    }
    let why = format!("`{file}` has version {version} at offset 4, and versions 2 and 3 are known");
    Err(if version == 1 { unsupported(why) } else { damaged(why) })
}

/// Refuses a count that the file cannot hold.
fn count(
    at: &Cursor<'_>,
    what: &str,
    (found, most, least_bytes): (u64, u64, u64),
    offset: usize,
) -> Result<(), Diagnostic> {
    let file = at.file;
    if found > most {
        let why = format!("`{file}` has {found} {what} (offset {offset}), of {most} at most");
        return Err(over_limit(why));
    }
    let left = at.left();
    if found * least_bytes > left as u64 {
        let why = format!("`{file}` has {found} {what} (offset {offset}), and {left} bytes follow");
        return Err(truncated(why));
    }
    Ok(())
}

fn alignment(metadata: &Metadata) -> Result<u64, Diagnostic> {
    const KEY: &str = "general.alignment";
    let found = metadata.size(KEY)?.map_or(ALIGNMENT, |size| size as u64);
    match found.is_power_of_two() && found <= ALIGNMENT_MAX {
        true => Ok(found),
        false => Err(metadata.wrong(KEY, &format!("a power of two, {ALIGNMENT_MAX} at most"))),
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
