//! The tensors of a checkpoint (TensorBundle): an index, and files of elements, which stay mapped.

use super::index::{entries, masked_crc};
use super::slices::{self, Extents};
use crate::files::{AGAIN, Files};
use crate::wire::dtype::dtype_of_number;
use crate::wire::proto::{BundleEntryProto, BundleHeaderProto, Endianness};
use crate::wire::tensor::known_dims;
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor, element_count};
use prost::Message;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Files of elements of one checkpoint.
const SHARDS_MAX: i32 = 100_000;

pub(crate) struct Bundle<'s> {
    files: &'s Files<'s>,
    prefix: String,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The files of elements, mapped when they are first read.
    shards: Vec<OnceCell<Bytes>>,
}

/// Names of the files of elements beside an index.
///
/// # Errors
/// As [`Bundle::open`].
pub(crate) fn shard_names(prefix: &str, index: &[u8]) -> Result<Vec<String>> {
    let count = shard_count(&entries(index)?)?;
    Ok((0..count).map(|i| shard_name(prefix, i, count)).collect())
}

fn shard_name(prefix: &str, i: usize, count: usize) -> String {
    format!("{prefix}.data-{i:05}-of-{count:05}")
}

fn damaged(what: impl std::fmt::Display) -> Diagnostic {
    let message = format!("The checkpoint is damaged: {what}.");
    Diagnostic::new(Code::SourceSyntax, message).help(AGAIN)
}

fn shard_count(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<usize> {
    let header = entries.get(&[][..]).ok_or_else(|| damaged("its index has no head"))?;
    let header = BundleHeaderProto::decode(header.as_slice())
        .map_err(|e| damaged(format!("the head of its index: {e}")))?;
    if header.endianness == Endianness::Big as i32 {
        let message = "The checkpoint has numbers in big-endian order.";
        let help = "Save it on a little-endian machine.";
        return Err(Diagnostic::new(Code::LayerUnsupported, message).help(help));
    }
    match header.num_shards {
        n @ 0..=SHARDS_MAX => Ok(n.unsigned_abs() as usize),
        n => Err(damaged(format!("it has {n} files"))),
    }
}

impl<'s> Bundle<'s> {
    /// Reads the index `PREFIX.index`.
    ///
    /// # Errors
    /// `N0103` if it is missing, `N0201` if it is damaged, `N0203` for what is not read, `N0213` beyond limits.
    pub(crate) fn open(files: &'s Files<'s>, prefix: &str) -> Result<Bundle<'s>> {
        let entries = entries(&files.read(&format!("{prefix}.index"))?)?;
        let shards = vec![OnceCell::new(); shard_count(&entries)?];
        let bundle = Bundle { files, prefix: prefix.to_owned(), entries, shards };
        bundle.check_places()?;
        Ok(bundle)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        !key.is_empty() && self.entries.contains_key(key.as_bytes())
    }

    /// Names of its tensors.
    pub(crate) fn keys(&self) -> impl Iterator<Item = String> + '_ {
        let named = self.entries.keys().filter_map(|key| str::from_utf8(key).ok());
        named.filter(|key| !key.is_empty()).map(str::to_owned)
    }

    fn entry(&self, key: &[u8]) -> Result<BundleEntryProto> {
        let name = || shown(&String::from_utf8_lossy(key));
        let bytes = self.entries.get(key).ok_or_else(|| {
            let message = format!("The checkpoint has no value for `{}`.", name());
            Diagnostic::new(Code::WeightsMissing, message)
        })?;
        BundleEntryProto::decode(bytes.as_slice())
            .map_err(|e| damaged(format!("the entry of `{}`: {e}", name())))
    }

    /// Two tensors in the same bytes would let a small file tell of any number of elements.
    fn check_places(&self) -> Result<()> {
        let mut places = vec![];
        for key in self.entries.keys().filter(|key| !key.is_empty()) {
            let entry = self.entry(key)?;
            refuse!(entry.size < 0 || entry.offset < 0 => damaged("an entry has a negative size"));
            if entry.size > 0 && entry.slices.is_empty() {
                places.push((entry.shard_id, entry.offset, entry.size));
            }
        }
        places.sort_unstable();
        let overlap = |pair: &[(i32, i64, i64)]| {
            pair[0].0 == pair[1].0 && pair[0].1.saturating_add(pair[0].2) > pair[1].1
        };
        match places.windows(2).any(overlap) {
            true => Err(damaged("two of its tensors overlap")),
            false => Ok(()),
        }
    }

    fn shard(&self, id: i32) -> Result<&Bytes> {
        let at = usize::try_from(id).ok();
        let Some((i, cell)) = at.and_then(|i| Some((i, self.shards.get(i)?))) else {
            return Err(damaged(format!("an entry is in file {id} of {}", self.shards.len())));
        };
        if let Some(bytes) = cell.get() {
            return Ok(bytes);
        }
        let bytes = self.files.read(&shard_name(&self.prefix, i, self.shards.len()))?;
        Ok(cell.get_or_init(|| bytes))
    }

    /// The tensor of a key; `slice` says which part of it, as `RestoreV2` writes it, and is empty for all.
    ///
    /// # Errors
    /// `N0201` if it is damaged, `N0202` if its file is too short, `N0203` for types that ONNX does not have, `N0209`
    /// if there is none.
    pub(crate) fn tensor(&self, key: &str, slice: &str) -> Result<Tensor> {
        let entry = self.entry(key.as_bytes())?;
        if entry.slices.is_empty() && slice.is_empty() {
            return self.stored(key, &entry);
        }
        let dims = known_dims(entry.shape.as_ref())?;
        let wanted = slices::parse(slice, &dims)
            .ok_or_else(|| damaged(format!("`{}` is no part of `{}`", shown(slice), shown(key))))?;
        if entry.slices.is_empty() {
            let whole = slices::whole(&dims);
            return slices::joined(&wanted, &[(whole, self.stored(key, &entry)?)]);
        }
        if entry.slices.len() > slices::PARTS_MAX {
            let message = format!("`{}` has more than {} parts.", shown(key), slices::PARTS_MAX);
            return Err(Diagnostic::new(Code::SourceLimit, message));
        }
        let mut parts: Vec<(Extents, Tensor)> = vec![];
        for part in &entry.slices {
            let at = slices::of_proto(part, &dims)
                .ok_or_else(|| damaged(format!("a part of `{}`", shown(key))))?;
            let stored = self.entry(&slices::key(key, part))?;
            let tensor = self.stored(key, &stored)?;
            let sizes = at.iter().map(|(_, length)| *length);
            refuse!(!sizes.eq(tensor.dims().iter().copied()) =>
                damaged(format!("a part of `{}` has another size", shown(key))));
            parts.push((at, tensor));
        }
        slices::joined(&wanted, &parts)
    }

    /// The tensor of an entry, whose elements stay in the mapped file.
    fn stored(&self, key: &str, entry: &BundleEntryProto) -> Result<Tensor> {
        let key = shown(key);
        let dims = known_dims(entry.shape.as_ref())?;
        let dtype = match dtype_of_number(entry.dtype) {
            Some(dtype) if dtype != DataType::String => dtype,
            _ => {
                let message = format!("The variable `{key}` has a type that ONNX does not have.");
                return Err(Diagnostic::new(Code::LayerUnsupported, message));
            }
        };
        let bytes = element_count(&dims).and_then(|count| dtype.byte_len(count));
        let (Some(start), Some(size)) =
            (usize::try_from(entry.offset).ok(), usize::try_from(entry.size).ok())
        else {
            return Err(damaged(format!("the place of `{key}`")));
        };
        refuse!(bytes != Some(size) => damaged(format!("`{key}` has {size} bytes for {dtype}{dims:?}")));
        let shard = self.shard(entry.shard_id)?;
        let end = start.checked_add(size).filter(|end| *end <= shard.len());
        let Some(end) = end else {
            let name = shard_name(&self.prefix, entry.shard_id.max(0) as usize, self.shards.len());
            let message = format!("`{}` ends before the elements of `{key}`.", shown(&name));
            return Err(Diagnostic::new(Code::SourceTruncated, message));
        };
        let elements = shard.slice(start..end);
        refuse!(masked_crc(&elements) != entry.crc32c => damaged(format!("`{key}` does not have its checksum")));
        Tensor::new(dtype, dims, elements).map_err(|e| damaged(format!("`{key}`: {e}")))
    }
}

#[cfg(test)]
pub(crate) mod tests;
