//! Tensors as views of storages in the mapped file.

use crate::Members;
use crate::problem::{damaged, over_limit, truncated, unsupported};
use bytes::Bytes;
use onnxd_diagnostics::{Diagnostic, refuse};
use onnxd_ir::{DataType, Derivation, Tensor, element_count};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Bytes by which all tensors of a file may be larger than the storages that they look at. Strides of 0 repeat
/// elements, so a few bytes can tell of any number.
const EXPANDED_MAX: usize = 1 << 30;
/// Axes of a tensor.
const RANK_MAX: usize = 64;

/// A tensor of an archive.
#[derive(Debug)]
pub struct StoredTensor {
    /// Its elements; not held where strides are not row-major. Quantized ones are the integers.
    pub tensor: Tensor,
    /// Which view of which storage it is; equal ones are one tensor (tied weights).
    pub place: StorageView,
    pub quantizer: Option<Quantizer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StorageView {
    /// Member of the archive that has the elements.
    pub member: Rc<str>,
    /// In elements.
    pub offset: usize,
    pub sizes: Vec<usize>,
    pub strides: Vec<usize>,
}

/// How integers of a quantized tensor stand for numbers: `(q - zero_point) * scale`.
#[derive(Clone, Debug)]
pub struct Quantizer {
    /// One, or one for each index of `axis`.
    pub scales: Vec<f64>,
    pub zero_points: Vec<i64>,
    pub axis: Option<usize>,
}

/// Elements in a member, of which tensors are views.
#[derive(Clone, Debug)]
pub struct Storage {
    pub member: Rc<str>,
    /// All elements, in one row.
    pub elements: Tensor,
}

/// The type of a storage by its name in Python. Quantized ones are their integers.
pub fn storage_type(name: &str) -> Option<DataType> {
    match name.strip_suffix("Storage")? {
        "Char" => Some(DataType::Int8),
        "Byte" | "Untyped" => Some(DataType::Uint8),
        "ComplexFloat" => Some(DataType::Complex64),
        "ComplexDouble" => Some(DataType::Complex128),
        // Others have the name of the type, with capitals.
        word => python_type(&word.to_ascii_lowercase()),
    }
}

/// The type by its name in Python (`torch.float32`).
pub fn python_type(name: &str) -> Option<DataType> {
    Some(match name {
        "float32" | "float" => DataType::Float,
        "float64" | "double" => DataType::Double,
        "float16" | "half" => DataType::Float16,
        "bfloat16" => DataType::Bfloat16,
        "int64" | "long" => DataType::Int64,
        "int32" | "int" | "qint32" => DataType::Int32,
        "int16" | "short" => DataType::Int16,
        "int8" | "qint8" => DataType::Int8,
        "uint8" | "quint8" => DataType::Uint8,
        "bool" => DataType::Bool,
        "complex64" | "cfloat" => DataType::Complex64,
        "complex128" | "cdouble" => DataType::Complex128,
        "float8_e4m3fn" => DataType::Float8E4M3FN,
        "float8_e4m3fnuz" => DataType::Float8E4M3FNUZ,
        "float8_e5m2" => DataType::Float8E5M2,
        "float8_e5m2fnuz" => DataType::Float8E5M2FNUZ,
        "float8_e8m0fnu" => DataType::Float8E8M0,
        "uint16" => DataType::Uint16,
        "uint32" => DataType::Uint32,
        "uint64" => DataType::Uint64,
        _ => return None,
    })
}

/// Where storages come from.
#[derive(Debug)]
pub enum StorageSource<'a> {
    /// Members of an archive, in a folder that is named with its last `/`.
    Archive(&'a dyn Members, &'a str),
    /// Parts of a file, by the keys of their storages.
    Parts(BTreeMap<String, Bytes>),
}

/// Makes tensors of storages. Equal views of one storage are one tensor.
#[derive(Debug)]
pub struct Storages<'a> {
    source: StorageSource<'a>,
    /// Tells members of one file apart from those of another one inside it.
    within: &'a str,
    tensors: RefCell<HashMap<(StorageView, DataType), Rc<StoredTensor>>>,
    /// Bytes of [`EXPANDED_MAX`] that are left.
    left: Cell<usize>,
}

impl<'a> Storages<'a> {
    /// `within` stands before the names of members in [`StorageView`]; empty for the file itself.
    pub fn new(source: StorageSource<'a>, within: &'a str) -> Storages<'a> {
        let tensors = RefCell::default();
        Storages { source, within, tensors, left: Cell::new(EXPANDED_MAX) }
    }

    /// The storage of a key. `count` is the number of its elements; without it, the member says how many there are.
    pub fn storage(
        &self,
        key: &str,
        dtype: DataType,
        count: Option<usize>,
    ) -> Result<Storage, Diagnostic> {
        let (name, bytes) = match &self.source {
            // Storages without elements may have no member.
            StorageSource::Archive(archive, folder) => {
                let name = format!("{folder}{key}");
                let bytes = match count {
                    Some(0) if !archive.has(&name) => Ok(Bytes::new()),
                    _ => archive.read(&name),
                };
                (name, bytes)
            }
            StorageSource::Parts(parts) => {
                let bytes = parts.get(key).cloned();
                (
                    key.to_owned(),
                    bytes.ok_or_else(|| damaged(format!("there is no storage `{key}`"))),
                )
            }
        };
        let bytes = bytes?;
        let size = dtype.bits() / 8;
        let count = count.unwrap_or(bytes.len() / size);
        let needed = count.checked_mul(size).filter(|needed| *needed <= bytes.len());
        let Some(needed) = needed else {
            let (has, word) = (bytes.len(), dtype.word());
            return Err(truncated(format!(
                "`{name}` has {has} bytes for {count} elements of {word}"
            )));
        };
        let elements = Tensor::new(dtype, vec![count], bytes.slice(..needed))
            .map_err(|e| damaged(format!("`{name}`: {e}")))?;
        Ok(Storage { member: format!("{}{name}", self.within).into(), elements })
    }

    /// A view of a storage: the element at the coordinates `i` is element `offset + Σ iₐ·strides[a]`.
    pub fn view(
        &self,
        storage: &Storage,
        offset: usize,
        sizes: &[usize],
        strides: &[usize],
    ) -> Result<Rc<StoredTensor>, Diagnostic> {
        let dtype = storage.elements.dtype();
        let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
        let place = StorageView { member: storage.member.clone(), offset, sizes, strides };
        let key = (place, dtype);
        if let Some(known) = self.tensors.borrow().get(&key) {
            return Ok(known.clone());
        }
        let tensor = self.tensor(storage, &key.0)?;
        let stored = Rc::new(StoredTensor { tensor, place: key.0.clone(), quantizer: None });
        self.tensors.borrow_mut().insert(key, stored.clone());
        Ok(stored)
    }

    /// As [`Storages::view`], of integers that stand for numbers.
    pub fn quantized(
        &self,
        storage: &Storage,
        place: (usize, &[usize], &[usize]),
        quantizer: Quantizer,
    ) -> Result<Rc<StoredTensor>, Diagnostic> {
        let plain = self.view(storage, place.0, place.1, place.2)?;
        check_quantizer(&quantizer, plain.tensor.dims())?;
        let (tensor, place) = (plain.tensor.clone(), plain.place.clone());
        Ok(Rc::new(StoredTensor { tensor, place, quantizer: Some(quantizer) }))
    }

    fn tensor(&self, storage: &Storage, place: &StorageView) -> Result<Tensor, Diagnostic> {
        let (member, sizes) = (&place.member, &place.sizes);
        let wrong =
            |why: String| damaged(format!("a tensor of sizes {sizes:?} in `{member}`: {why}"));
        refuse!(sizes.len() > RANK_MAX => over_limit(format!("a tensor in `{member}` has {} axes", sizes.len())));
        let signed = |stride: &usize| isize::try_from(*stride).ok();
        let strides: Option<Vec<isize>> = place.strides.iter().map(signed).collect();
        let strides =
            strides.ok_or_else(|| wrong(format!("its strides are {:?}", place.strides)))?;
        let dtype = storage.elements.dtype();
        let source = storage.elements.clone();
        let bytes = element_count(sizes).and_then(|count| dtype.byte_len(count));
        let more = bytes.unwrap_or(usize::MAX).saturating_sub(source.byte_len());
        let from = Derivation::Strided { source, offset: place.offset, strides };
        let tensor =
            Tensor::derived(dtype, sizes.clone(), from).map_err(|e| wrong(e.to_string()))?;
        let left = self.left.get().checked_sub(more);
        let left = left.ok_or_else(|| {
            over_limit(format!(
                "a tensor of sizes {sizes:?} in `{member}` repeats too many elements"
            ))
        })?;
        self.left.set(left);
        Ok(tensor)
    }
}

/// Whether scales fit the tensor.
fn check_quantizer(quantizer: &Quantizer, sizes: &[usize]) -> Result<(), Diagnostic> {
    let (scales, zeros) = (quantizer.scales.len(), quantizer.zero_points.len());
    let expected = match quantizer.axis {
        None => Some(1),
        Some(axis) => sizes.get(axis).copied(),
    };
    match expected == Some(scales) && scales == zeros {
        true => Ok(()),
        false => Err(damaged(format!(
            "a quantized tensor of sizes {sizes:?} has {scales} scales and {zeros} zero points"
        ))),
    }
}

/// Refuses archives of processors that store numbers the other way round.
pub fn refuse_big_endian(archive: &dyn Members) -> Result<(), Diagnostic> {
    refuse!(archive.has("byteorder") && archive.read("byteorder")?.trim_ascii() == b"big" =>
        unsupported("the archive has numbers in big-endian order").help("Save it on a little-endian machine."));
    Ok(())
}

#[cfg(test)]
mod tests;
