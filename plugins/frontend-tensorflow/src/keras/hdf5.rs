//! HDF5 files: groups, attributes that are words, and tensors. Contiguous tensors are views of the file.

use crate::hdf5::{Bits, Class, Content, Datatype, Error, Hdf5File};
use crate::wire::tensor::RANK_MAX;
use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor, element_count};
use std::cell::Cell;

/// Bytes that all chunked tensors of a file may take together.
const UNPACKED_MAX: u64 = 16 << 30;
/// How many times the size of the file they may take, beyond what is always allowed.
const UNPACKED_RATIO_MAX: u64 = 64;
const UNPACKED_FREE: u64 = 256 << 20;
/// Parts that a list of names may be split into.
const PARTS_MAX: usize = 10_000;

pub(crate) struct Hdf5 {
    file: Hdf5File,
    /// Bytes that may still be unpacked.
    left: Cell<u64>,
}

/// What the reader says, as a finding.
fn refused(e: Error) -> Diagnostic {
    let (code, message) = match e {
        Error::Damaged(what) => {
            (Code::SourceSyntax, format!("The HDF5 file is damaged: {}.", shown(&what)))
        }
        Error::Unknown(what) => {
            let message = format!("The HDF5 file has {}, which onnxd does not read.", shown(&what));
            (Code::FeatureUnsupported, message)
        }
    };
    Diagnostic::new(code, message)
}

impl Hdf5 {
    /// Opens a file.
    ///
    /// # Errors
    /// `N0201` if it is none, `N0214` if it is of another version.
    pub(crate) fn open(bytes: Bytes) -> Result<Hdf5, Diagnostic> {
        let size = bytes.len() as u64;
        let left = size.saturating_mul(UNPACKED_RATIO_MAX).clamp(UNPACKED_FREE, UNPACKED_MAX);
        Ok(Hdf5 { file: Hdf5File::open(bytes).map_err(refused)?, left: Cell::new(left) })
    }

    /// Names of the groups in a group.
    pub(crate) fn groups(&self, path: &str) -> Vec<String> {
        self.file.groups(path).unwrap_or_default()
    }

    /// Names of the tensors in a group.
    pub(crate) fn tensors(&self, path: &str) -> Vec<String> {
        self.file.datasets(path).unwrap_or_default()
    }

    pub(crate) fn has_group(&self, path: &str) -> bool {
        self.file.has_group(path)
    }

    /// An attribute that is a text.
    pub(crate) fn text(&self, path: &str, name: &str) -> Option<String> {
        let found = self.file.attributes(path)?.words(name);
        found.filter(|list| list.len() == 1)?.pop()
    }

    /// An attribute that is a list of words. Long ones are split into `name0`, `name1` and so on.
    pub(crate) fn list(&self, path: &str, name: &str) -> Option<Vec<String>> {
        let mut all = self.file.attributes(path)?;
        if let Some(found) = all.words(name) {
            return Some(found);
        }
        let mut list = all.words(&format!("{name}0"))?;
        for part in 1..PARTS_MAX {
            let part = format!("{name}{part}");
            if !all.has(&part) {
                break;
            }
            list.extend(all.words(&part)?);
        }
        Some(list)
    }

    /// A tensor; `None` if there is none at the path.
    ///
    /// # Errors
    /// `N0201` if it is damaged, `N0203` for types that ONNX does not have, `N0213` if it is too large, `N0214` if it
    /// is stored in a way that is not read.
    pub(crate) fn tensor(&self, path: &str) -> Result<Option<Tensor>, Diagnostic> {
        let Some(dataset) = self.file.dataset(path).map_err(refused)? else { return Ok(None) };
        let at = |what: String| {
            let message = format!("The tensor `{}` of the HDF5 file {what}.", shown(path));
            Diagnostic::new(Code::SourceSyntax, message)
        };
        let named = self.file.attributes(path).and_then(|mut all| all.words("dtype"));
        let is_short = named.is_some_and(|named| named == ["bfloat16"]);
        let Some((dtype, is_turned)) = dtype_of(dataset.datatype, is_short) else {
            let message = format!(
                "The tensor `{}` of the HDF5 file has the type {}, which ONNX does not have.",
                shown(path),
                shown(&dataset.datatype.to_string())
            );
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        };
        let Some(shape) = dataset.shape() else { return Err(at("has no value".into())) };
        refuse!(shape.len() > RANK_MAX =>
            Diagnostic::new(Code::SourceLimit, format!("The tensor `{}` has {} axes.", shown(path), shape.len())));
        let dims: Option<Vec<usize>> = shape.iter().map(|n| usize::try_from(*n).ok()).collect();
        let sized = dims.filter(|dims| {
            element_count(dims).is_some_and(|n| n.checked_mul(dtype.bits() / 8).is_some())
        });
        let Some(dims) = sized else { return Err(at("has sizes that overflow".into())) };
        let content = match dataset.content().map_err(refused)? {
            Content::View(bytes) => bytes,
            Content::Outside => return Err(at("reaches beyond the file".into())),
            Content::Packed(size) => {
                let Some(left) = self.left.get().checked_sub(size) else {
                    let message = format!(
                        "Tensors of the HDF5 file unpack to too many bytes, as `{}`.",
                        shown(path)
                    );
                    return Err(Diagnostic::new(Code::SourceLimit, message));
                };
                self.left.set(left);
                dataset.read().map_err(refused)?.into()
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

/// The element type, and whether its bytes are in the other order. `is_short` says that an attribute names `bfloat16`,
/// which NumPy does not have.
fn dtype_of(datatype: Datatype, is_short: bool) -> Option<(DataType, bool)> {
    let (dtype, is_turned) = match (datatype.class, datatype.size) {
        // Their bits are written.
        (Class::Opaque, 2) if is_short => (DataType::Bfloat16, false),
        (Class::Integer { is_signed, is_turned }, size) => {
            let dtype = match (size, is_signed) {
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
            (dtype, is_turned)
        }
        (Class::Float { bits: Bits { exponent, mantissa }, is_turned }, _) => {
            let dtype = match (exponent, mantissa) {
                (5, 10) => DataType::Float16,
                (8, 7) => DataType::Bfloat16,
                (8, 23) => DataType::Float,
                (11, 52) => DataType::Double,
                _ => return None,
            };
            (dtype, is_turned)
        }
        // h5py writes truth values as an enumeration of bytes.
        (Class::Enumeration, 1) => (DataType::Bool, false),
        _ => return None,
    };
    let is_short = is_short && dtype.bits() == 16;
    Some((if is_short { DataType::Bfloat16 } else { dtype }, is_turned))
}

#[cfg(test)]
mod tests;
