//! The header of a safetensors file: names, types and places of tensors in the bytes behind it.
//!
//! The file says a length (8 bytes), JSON of that length, and then the elements of all tensors without a gap.

mod json;

use crate::diag::{Diagnostic, shown};
use crate::problem::{damaged, over_limit, pointer, truncated, unsupported};
use crate::raw::Raw;
use bytes::Bytes;
use json::Described;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// Bytes of the header, as the format limits them.
const HEADER_MAX: u64 = 100_000_000;

/// Tensors of a file. A header of the greatest length could name ten times as many.
const TENSORS_MAX: usize = 1 << 19;

/// Element types by their words: bits of an element, and the type in ONNX if it has one.
const TYPES: [(&str, usize, Option<DataType>); 20] = [
    ("BOOL", 8, Some(DataType::Bool)),
    ("U8", 8, Some(DataType::Uint8)),
    ("I8", 8, Some(DataType::Int8)),
    ("F8_E4M3", 8, Some(DataType::Float8E4M3FN)),
    ("F8_E5M2", 8, Some(DataType::Float8E5M2)),
    ("F8_E8M0", 8, Some(DataType::Float8E8M0)),
    ("U16", 16, Some(DataType::Uint16)),
    ("I16", 16, Some(DataType::Int16)),
    ("F16", 16, Some(DataType::Float16)),
    ("BF16", 16, Some(DataType::Bfloat16)),
    ("U32", 32, Some(DataType::Uint32)),
    ("I32", 32, Some(DataType::Int32)),
    ("F32", 32, Some(DataType::Float)),
    ("U64", 64, Some(DataType::Uint64)),
    ("I64", 64, Some(DataType::Int64)),
    ("F64", 64, Some(DataType::Double)),
    ("C64", 64, Some(DataType::Complex64)),
    ("F4", 4, None),
    ("F6_E2M3", 6, None),
    ("F6_E3M2", 6, None),
];

/// A tensor of a file: where its elements lie is checked.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    elements: Elements,
}

#[derive(Clone, Debug)]
enum Elements {
    /// A part of the file, with the word for its type, and the type in ONNX if it has one.
    Stored(Bytes, &'static str, Option<DataType>),
    /// A tensor that another reader made.
    Made(Tensor),
}

impl Stored {
    /// A tensor that is called so where it comes from.
    pub(crate) fn held(name: String, tensor: Tensor) -> Stored {
        Stored { name, shape: tensor.dims().to_vec(), elements: Elements::Made(tensor) }
    }

    /// Whether its elements are real numbers.
    pub(crate) fn is_real(&self) -> bool {
        use DataType::{Bfloat16, Double, Float, Float16};
        let dtype = match &self.elements {
            Elements::Stored(_, _, dtype) => *dtype,
            Elements::Made(tensor) => Some(tensor.dtype()),
        };
        matches!(dtype, Some(Float | Float16 | Bfloat16 | Double))
    }

    /// What the file says of it, with the word of safetensors for the type of its elements.
    pub(crate) fn raw(&self) -> Raw {
        let (kind, bytes) = match &self.elements {
            Elements::Stored(bytes, word, _) => ((*word).to_owned(), Some(bytes.clone())),
            Elements::Made(tensor) => {
                let dtype = tensor.dtype();
                let word = TYPES.iter().find(|(.., known)| *known == Some(dtype));
                let kind = word.map_or_else(|| dtype.to_string(), |(word, ..)| (*word).to_owned());
                (kind, tensor.derivation().is_none().then(|| tensor.bytes()))
            }
        };
        Raw { kind, dims: self.shape.clone(), bytes }
    }

    /// The tensor, whose elements stay where they are.
    pub(crate) fn tensor(&self) -> Result<Tensor, Diagnostic> {
        let name = shown(&self.name);
        let (bytes, word, dtype) = match &self.elements {
            Elements::Stored(bytes, word, dtype) => (bytes, word, *dtype),
            Elements::Made(tensor) => return Ok(tensor.clone()),
        };
        let dtype = dtype
            .ok_or_else(|| unsupported(format!("tensor `{name}` has elements of type `{word}`")))?;
        let tensor = Tensor::new(dtype, self.shape.clone(), bytes.clone());
        tensor.map_err(|e| damaged(format!("tensor `{name}`: {e}")))
    }
}

/// All tensors of a file, in the order of their elements. `file` is its name, for diagnostics.
pub(crate) fn read(file: &str, bytes: &Bytes) -> Result<Vec<Stored>, Diagnostic> {
    let file = shown(file);
    let begin = data_begin(&file, bytes)?;
    let header = str::from_utf8(&bytes[8..begin]).map_err(|e| {
        damaged(format!("`{file}`: the header is no UTF-8 at byte {}", 8 + e.valid_up_to()))
    })?;
    if !header.starts_with('{') {
        return Err(damaged(format!("`{file}`: the header does not begin with `{{` at byte 8")));
    }
    let described = json::parse(header, TENSORS_MAX).map_err(|e| {
        damaged(format!("`{file}`: the header is no JSON that describes tensors: {e}"))
    })?;
    let mut places = Vec::with_capacity(described.len());
    for entry in described {
        places.push(TensorHeader::checked(&file, entry)?);
    }
    places.sort_by_key(|place| place.range);
    let data = bytes.slice(begin..);
    check_order(&file, &places, data.len() as u64)?;
    // All ranges end within the data, so that they are sizes of this machine.
    let stored = |place: TensorHeader| {
        let bytes = data.slice(place.range.0 as usize..place.range.1 as usize);
        let elements = Elements::Stored(bytes, place.word, place.dtype);
        Stored { name: place.name, shape: place.shape, elements }
    };
    Ok(places.into_iter().map(stored).collect())
}

/// Where the elements begin.
fn data_begin(file: &str, bytes: &[u8]) -> Result<usize, Diagnostic> {
    if let Some(found) = pointer(file, bytes) {
        return Err(found);
    }
    let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
    let length = length.ok_or_else(|| {
        truncated(format!(
            "`{file}` has {} bytes, and the length of its header takes 8",
            bytes.len()
        ))
    })?;
    if length > HEADER_MAX {
        let why =
            format!("`{file}`: the header has {length} bytes (offset 0), of {HEADER_MAX} at most");
        return Err(over_limit(why));
    }
    let end = 8 + length as usize;
    if end > bytes.len() {
        let (has, length) = (bytes.len() - 8, length);
        return Err(truncated(format!(
            "`{file}`: the header has {length} bytes (offset 0), and {has} bytes follow"
        )));
    }
    Ok(end)
}

/// A tensor as the header describes it, by itself right.
struct TensorHeader {
    name: String,
    word: &'static str,
    dtype: Option<DataType>,
    shape: Vec<usize>,
    range: (u64, u64),
}

impl TensorHeader {
    fn checked(file: &str, entry: Described) -> Result<TensorHeader, Diagnostic> {
        let name = shown(&entry.name);
        let wrong = |why: String| damaged(format!("`{file}`: tensor `{name}` {why}"));
        let known = TYPES.iter().find(|(word, ..)| *word == entry.dtype);
        let Some((word, bits, dtype)) = known else {
            return Err(wrong(format!("has the unknown dtype `{}`", shown(&entry.dtype))));
        };
        let [begin, end] = entry.offsets;
        if begin > end {
            return Err(wrong(format!("begins at offset {begin}, behind its end {end}")));
        }
        let count = entry.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        let size = count.and_then(|count| count.checked_mul(*bits as u64));
        let Some(size) = size else {
            return Err(wrong(format!("has more elements than can be counted: {:?}", entry.shape)));
        };
        if !size.is_multiple_of(8) || size / 8 != end - begin {
            let shape = &entry.shape;
            return Err(wrong(format!(
                "of type {word} and shape {shape:?} has {} bytes, from offset {begin} to {end}",
                end - begin
            )));
        }
        let shape = entry.shape.iter().map(|size| *size as usize).collect();
        Ok(TensorHeader { name: entry.name, word, dtype: *dtype, shape, range: (begin, end) })
    }
}

/// Whether the tensors lie one behind the other and fill the data.
fn check_order(file: &str, places: &[TensorHeader], data: u64) -> Result<(), Diagnostic> {
    let mut at = 0;
    for place in places {
        let (name, (begin, end)) = (shown(&place.name), place.range);
        if begin < at {
            return Err(damaged(format!(
                "`{file}`: tensor `{name}` begins at offset {begin}, within the tensor before it, which ends at {at}"
            )));
        }
        if begin > at {
            return Err(damaged(format!(
                "`{file}`: a hole from offset {at} to {begin} lies before tensor `{name}`"
            )));
        }
        if end > data {
            return Err(truncated(format!(
                "`{file}`: tensor `{name}` ends at offset {end}, and the file has {data} bytes of tensors"
            )));
        }
        at = end;
    }
    match at == data {
        true => Ok(()),
        false => Err(damaged(format!(
            "`{file}`: the last tensor ends at offset {at}, and the file has {data} bytes of tensors"
        ))),
    }
}

#[cfg(test)]
mod tests;
