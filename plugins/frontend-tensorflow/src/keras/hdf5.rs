//! HDF5 files: groups, attributes that are words, and tensors. Contiguous tensors are views of the file.

use crate::wire::tensor::RANK_MAX;
use bytes::Bytes;
use hdf5_pure::{AttrValue, Datatype, DatatypeByteOrder, File, FormatError, Layout, Source};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor, element_count};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that all chunked tensors of a file may take together.
const UNPACKED_MAX: u64 = 16 << 30;
/// How many times the size of the file they may take, beyond what is always allowed.
const UNPACKED_RATIO_MAX: u64 = 64;
const UNPACKED_FREE: u64 = 256 << 20;
/// Reads of a file, and how many times over it may be read beyond what is always allowed.
const READS_MAX: u64 = 10_000_000;
const READ_RATIO_MAX: u64 = 64;
const READ_FREE: u64 = 1 << 30;
/// Parts that a list of names may be split into.
const PARTS_MAX: usize = 10_000;

pub(crate) struct Hdf5 {
    file: File,
    bytes: Bytes,
    /// Bytes that may still be unpacked.
    left: Cell<u64>,
}

fn damaged(e: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(
        Code::SourceSyntax,
        format!("The HDF5 file is damaged: {}.", shown(&e.to_string())),
    )
}

impl Hdf5 {
    /// Opens a file.
    ///
    /// # Errors
    /// `N0201` if it is none.
    pub(crate) fn open(bytes: Bytes) -> Result<Hdf5, Diagnostic> {
        let file = File::from_source(Mapped::new(bytes.clone())).map_err(damaged)?;
        let size = bytes.len() as u64;
        let left = size.saturating_mul(UNPACKED_RATIO_MAX).clamp(UNPACKED_FREE, UNPACKED_MAX);
        Ok(Hdf5 { file, bytes, left: Cell::new(left) })
    }

    fn group(&self, path: &str) -> Option<hdf5_pure::Group> {
        if path.is_empty() { Some(self.file.root()) } else { self.file.group(path).ok() }
    }

    /// Names of the groups in a group.
    pub(crate) fn groups(&self, path: &str) -> Vec<String> {
        self.group(path).and_then(|group| group.groups().ok()).unwrap_or_default()
    }

    /// Names of the tensors in a group.
    pub(crate) fn tensors(&self, path: &str) -> Vec<String> {
        self.group(path).and_then(|group| group.datasets().ok()).unwrap_or_default()
    }

    pub(crate) fn has_group(&self, path: &str) -> bool {
        self.group(path).is_some()
    }

    /// An attribute that is a text.
    pub(crate) fn text(&self, path: &str, name: &str) -> Option<String> {
        let found = self.group(path)?.attrs().ok()?.remove(name)?;
        words(found).filter(|list| list.len() == 1)?.pop()
    }

    /// An attribute that is a list of words. Long ones are split into `name0`, `name1` and so on.
    pub(crate) fn list(&self, path: &str, name: &str) -> Option<Vec<String>> {
        let mut all = self.group(path)?.attrs().ok()?;
        if let Some(found) = all.remove(name) {
            return words(found);
        }
        let mut list = words(all.remove(&format!("{name}0"))?)?;
        for part in 1..PARTS_MAX {
            let Some(found) = all.remove(&format!("{name}{part}")) else { break };
            list.extend(words(found)?);
        }
        Some(list)
    }

    /// A tensor; `None` if there is none at the path.
    ///
    /// # Errors
    /// `N0201` if it is damaged, `N0203` for types that ONNX does not have, `N0213` if it is too large.
    pub(crate) fn tensor(&self, path: &str) -> Result<Option<Tensor>, Diagnostic> {
        let Ok(dataset) = self.file.dataset(path) else { return Ok(None) };
        let at = |what: String| {
            let message = format!("The tensor `{}` of the HDF5 file {what}.", shown(path));
            Diagnostic::new(Code::SourceSyntax, message)
        };
        let datatype = dataset.datatype().map_err(damaged)?;
        let named = dataset.attrs().ok().and_then(|mut all| words(all.remove("dtype")?));
        let is_short = named.is_some_and(|named| named == ["bfloat16"]);
        let found = match &datatype {
            // NumPy has no such numbers: their bits are written.
            Datatype::Opaque { size: 2, .. } if is_short => Some((DataType::Bfloat16, false)),
            datatype => dtype_of(datatype).map(|(dtype, is_turned)| {
                let is_short = is_short && dtype.bits() == 16;
                (if is_short { DataType::Bfloat16 } else { dtype }, is_turned)
            }),
        };
        let Some((dtype, is_turned)) = found else {
            let message = format!(
                "The tensor `{}` of the HDF5 file has the type {}, which ONNX does not have.",
                shown(path),
                shown(&format!("{datatype:?}"))
            );
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        };
        let shape = dataset.shape().map_err(damaged)?;
        if shape.len() > RANK_MAX {
            let message = format!("The tensor `{}` has {} axes.", shown(path), shape.len());
            return Err(Diagnostic::new(Code::SourceLimit, message));
        }
        let dims: Option<Vec<usize>> = shape.iter().map(|n| usize::try_from(*n).ok()).collect();
        let sized = dims
            .and_then(|dims| Some((element_count(&dims)?.checked_mul(dtype.bits() / 8)?, dims)));
        let Some((size, dims)) = sized else { return Err(at("has sizes that overflow".into())) };
        let content = match dataset.layout().map_err(damaged)? {
            Layout::Contiguous { address: Some(begin), size: found } if found == size as u64 => {
                let end = begin.checked_add(found).filter(|end| *end <= self.bytes.len() as u64);
                let Some(end) = end else { return Err(at("reaches beyond the file".into())) };
                self.bytes.slice(begin as usize..end as usize)
            }
            layout => {
                // A chunk is unpacked as a whole.
                let chunk = match layout {
                    Layout::Chunked { chunk_shape, .. } => {
                        let count = chunk_shape.iter().try_fold(1u64, |n, m| n.checked_mul(*m));
                        count
                            .and_then(|n| n.checked_mul(dtype.bits() as u64 / 8))
                            .unwrap_or(u64::MAX)
                    }
                    _ => 0,
                };
                let Some(left) = self.left.get().checked_sub(chunk.max(size as u64)) else {
                    let message = format!(
                        "Tensors of the HDF5 file unpack to too many bytes, as `{}`.",
                        shown(path)
                    );
                    return Err(Diagnostic::new(Code::SourceLimit, message));
                };
                self.left.set(left);
                dataset.read_raw().map_err(damaged)?.into()
            }
        };
        let content = if is_turned { swapped(&content, dtype) } else { content };
        Tensor::new(dtype, dims, content).map(Some).map_err(|e| at(format!("is damaged: {e}")))
    }
}

/// Numbers of the other byte order.
fn swapped(content: &Bytes, dtype: DataType) -> Bytes {
    let mut all = content.to_vec();
    all.chunks_exact_mut(dtype.bits() / 8).for_each(<[u8]>::reverse);
    all.into()
}

fn words(value: AttrValue) -> Option<Vec<String>> {
    match value {
        AttrValue::String(text)
        | AttrValue::AsciiString(text)
        | AttrValue::VarLenString(text)
        | AttrValue::VarLenAsciiString(text)
        | AttrValue::StringSized { value: text, .. }
        | AttrValue::AsciiStringSized { value: text, .. } => Some(vec![text]),
        AttrValue::StringArray(list)
        | AttrValue::AsciiStringArray(list)
        | AttrValue::VarLenStringArray(list)
        | AttrValue::VarLenAsciiStringArray(list)
        | AttrValue::VarLenAsciiCharArray(list)
        | AttrValue::StringArraySized { values: list, .. }
        | AttrValue::AsciiStringArraySized { values: list, .. } => Some(list),
        // h5py writes lists without items as floats.
        AttrValue::F64Array(list) if list.is_empty() => Some(vec![]),
        _ => None,
    }
}

/// The element type, and whether its bytes are in the other order.
fn dtype_of(datatype: &Datatype) -> Option<(DataType, bool)> {
    let (dtype, order) = match datatype {
        Datatype::FloatingPoint { size, byte_order, .. } => (
            Some(*size)
                .and_then(|n| {
                    [(2, DataType::Float16), (4, DataType::Float), (8, DataType::Double)]
                        .into_iter()
                        .find(|(size, _)| *size == n)
                })?
                .1,
            byte_order,
        ),
        Datatype::FixedPoint { size, byte_order, layout } => {
            let dtype = match (size, layout.signed) {
                (1, true) => DataType::Int8,
                (2, true) => DataType::Int16,
                (4, true) => DataType::Int32,
                (8, true) => DataType::Int64,
                (1, false) => DataType::Uint8,
                (2, false) => DataType::Uint16,
                (4, false) => DataType::Uint32,
                (8, false) => DataType::Uint64,
                _ => return None,
            };
            (dtype, byte_order)
        }
        // h5py writes truth values as an enumeration of bytes.
        Datatype::Enumeration { size: 1, .. } => return Some((DataType::Bool, false)),
        _ => return None,
    };
    match order {
        DatatypeByteOrder::LittleEndian => Some((dtype, false)),
        DatatypeByteOrder::BigEndian => Some((dtype, true)),
        DatatypeByteOrder::Vax => None,
    }
}

/// A file that is in memory or mapped. Pages of groups that name each other cannot be read for ever: reads are counted.
struct Mapped {
    bytes: Bytes,
    reads_left: AtomicU64,
    bytes_left: AtomicU64,
}

impl Mapped {
    fn new(bytes: Bytes) -> Mapped {
        let size = bytes.len() as u64;
        let bytes_left = size.saturating_mul(READ_RATIO_MAX).saturating_add(READ_FREE);
        Mapped { bytes, reads_left: READS_MAX.into(), bytes_left: bytes_left.into() }
    }

    /// Counts a read; whether it may be done.
    fn may_read(&self, count: u64) -> bool {
        let take = |left: &AtomicU64, count: u64| {
            left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(count)).is_ok()
        };
        take(&self.reads_left, 1) && take(&self.bytes_left, count)
    }
}

impl Source for Mapped {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), FormatError> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = begin.saturating_add(buf.len());
        let eof = FormatError::UnexpectedEof { expected: end, available: self.bytes.len() };
        let found = self.bytes.get(begin..end).filter(|_| self.may_read(buf.len() as u64));
        let Some(found) = found else { return Err(eof) };
        buf.copy_from_slice(found);
        Ok(())
    }
}
