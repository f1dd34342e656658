//! Safetensors: the length of a header, JSON that describes tensors, and their bytes.

use super::super::storage::{StorageSource, Storages};
use super::super::{damaged, over_limit, truncated, unsupported};
use super::NamedTensors;
use crate::diag::{Diagnostic, refuse};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{DataType, row_major};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes of the header.
const HEADER_MAX: usize = 32 << 20;

/// Whether a file begins like one.
pub(crate) fn is_safetensors(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
    length.is_some_and(|length| (2..1 << 32).contains(&length)) && bytes.get(8) == Some(&b'{')
}

pub(super) fn read(bytes: &Bytes, within: &str) -> Result<NamedTensors, Diagnostic> {
    let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length)).unwrap_or(0);
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
    let end = end.filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| truncated("the header is longer than the file"))?;
    refuse!(end > HEADER_MAX => over_limit(format!("the header has more than {HEADER_MAX} bytes")));
    let header: Value =
        serde_json::from_slice(&bytes[8..end]).map_err(|e| damaged(format!("the header: {e}")))?;
    let header = header.as_object().ok_or_else(|| damaged("the header is no JSON object"))?;
    let data = bytes.slice(end..);
    let mut entries = Vec::new();
    for (name, entry) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        entries.push(TensorEntry::new(name, entry, data.len())?);
    }
    // In the order in which they were saved.
    entries.sort_by_key(|entry| (entry.begin, entry.end));
    if let Some(two) = entries.windows(2).find(|two| two[1].begin < two[0].end) {
        return Err(damaged(format!("`{}` and `{}` share bytes", two[0].name, two[1].name)));
    }
    let part = |entry: &TensorEntry| (entry.name.to_owned(), data.slice(entry.begin..entry.end));
    let parts: BTreeMap<String, Bytes> = entries.iter().map(part).collect();
    let storages = Storages::new(StorageSource::Parts(parts), within);
    let tensor = |entry: &TensorEntry| {
        let strides: Vec<usize> = row_major(&entry.sizes).iter().map(|s| *s as usize).collect();
        let storage = storages.storage(entry.name, entry.dtype, None)?;
        let tensor = storages.view(&storage, 0, &entry.sizes, &strides)?;
        match tensor.tensor.byte_len() == entry.end - entry.begin {
            true => Ok((entry.name.to_owned(), tensor)),
            false => Err(damaged(format!("`{}` has more bytes than elements", entry.name))),
        }
    };
    entries.iter().map(tensor).collect()
}

struct TensorEntry<'a> {
    name: &'a str,
    dtype: DataType,
    sizes: Vec<usize>,
    begin: usize,
    end: usize,
}

impl<'a> TensorEntry<'a> {
    fn new(name: &'a str, entry: &Value, data: usize) -> Result<TensorEntry<'a>, Diagnostic> {
        let wrong = || damaged(format!("the header describes no tensor by `{name}`"));
        let word = entry["dtype"].as_str().ok_or_else(wrong)?;
        let dtype = dtype(word)
            .ok_or_else(|| unsupported(format!("tensor `{name}` has elements of type `{word}`")))?;
        let numbers = |key: &str| {
            let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
            entry[key].as_array()?.iter().map(number).collect::<Option<Vec<usize>>>()
        };
        let sizes = numbers("shape").ok_or_else(wrong)?;
        let Some([begin, end]) = numbers("data_offsets")
            .as_deref()
            .map(|two| <[usize; 2]>::try_from(two).unwrap_or([usize::MAX, 0]))
        else {
            return Err(wrong());
        };
        match begin <= end && end <= data {
            true => Ok(TensorEntry { name, dtype, sizes, begin, end }),
            false => Err(truncated(format!("tensor `{name}` lies beyond the end of the file"))),
        }
    }
}

fn dtype(word: &str) -> Option<DataType> {
    Some(match word {
        "F64" => DataType::Double,
        "F32" => DataType::Float,
        "F16" => DataType::Float16,
        "BF16" => DataType::Bfloat16,
        "I64" => DataType::Int64,
        "I32" => DataType::Int32,
        "I16" => DataType::Int16,
        "I8" => DataType::Int8,
        "U64" => DataType::Uint64,
        "U32" => DataType::Uint32,
        "U16" => DataType::Uint16,
        "U8" => DataType::Uint8,
        "BOOL" => DataType::Bool,
        "C64" => DataType::Complex64,
        "F8_E4M3" => DataType::Float8E4M3FN,
        "F8_E5M2" => DataType::Float8E5M2,
        "F8_E8M0" => DataType::Float8E8M0,
        _ => return None,
    })
}
