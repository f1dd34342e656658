//! Constant tensors. Their bytes are shared and often lie in a memory map, or are computed on use, so a
//! tensor is cheap to clone and is never edited in place: passes derive new ones.

use crate::derived::Derived;
use crate::{DataType, Element};
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Bytes, strings, or how the bytes come about; all shared.
#[derive(Clone)]
pub(crate) enum Data {
    Raw(Bytes),
    Strings(Arc<[Bytes]>),
    Derived(Arc<Derived>),
}

/// A constant: element type, sizes, and its elements in row-major order, little-endian.
#[derive(Clone)]
pub struct Tensor {
    dtype: DataType,
    dims: Vec<usize>,
    data: Data,
}

/// Why bytes do not make a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorError {
    /// The product of the sizes does not fit the address space.
    TooLarge,
    /// The number of bytes (or strings) is not what type and sizes demand.
    Length {
        /// Bytes (or strings) demanded.
        expected: usize,
        /// Bytes (or strings) found.
        found: usize,
    },
    /// What is derived does not fit what it is derived from.
    Derivation(String),
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorError::TooLarge => f.write_str("the tensor's size overflows"),
            TensorError::Length { expected, found } => {
                write!(f, "its type and shape demand {expected} bytes, it has {found}")
            }
            TensorError::Derivation(why) => write!(f, "it cannot be derived: {why}"),
        }
    }
}

impl std::error::Error for TensorError {}

/// Number of elements of a shape; `None` on overflow. Sizes beside a zero must not overflow either,
/// so that whoever has a tensor may multiply any of its sizes.
pub fn element_count(dims: &[usize]) -> Option<usize> {
    let others = dims.iter().filter(|d| **d != 0).try_fold(1usize, |n, d| n.checked_mul(*d))?;
    Some(if dims.contains(&0) { 0 } else { others })
}

impl Tensor {
    /// A tensor over `bytes`, which are little-endian, row-major, and packed below 8 bits. Not for strings.
    pub fn new(dtype: DataType, dims: Vec<usize>, bytes: Bytes) -> Result<Tensor, TensorError> {
        let expected =
            element_count(&dims).and_then(|n| dtype.byte_len(n)).ok_or(TensorError::TooLarge)?;
        refuse!(bytes.len() != expected => TensorError::Length { expected, found: bytes.len() });
        Ok(Tensor { dtype, dims, data: Data::Raw(bytes) })
    }

    /// A tensor of strings (any bytes; the standard asks for UTF-8).
    pub fn strings(dims: Vec<usize>, strings: Vec<Bytes>) -> Result<Tensor, TensorError> {
        let expected = element_count(&dims).ok_or(TensorError::TooLarge)?;
        refuse!(strings.len() != expected => TensorError::Length { expected, found: strings.len() });
        Ok(Tensor { dtype: DataType::String, dims, data: Data::Strings(strings.into()) })
    }

    /// A tensor that owns `values`.
    ///
    /// # Panics
    /// If the number of values is not the product of `dims`.
    pub fn from_vec<T: Element>(dims: impl Into<Vec<usize>>, values: Vec<T>) -> Tensor {
        Tensor::from_vec_as(T::DTYPE, dims, values)
    }

    /// As [`Tensor::from_vec`] for types that share their memory form (`bool` over `u8`).
    ///
    /// # Panics
    /// If `T` does not fit `dtype`, or the number of values is not the product of `dims`.
    pub fn from_vec_as<T: Element>(
        dtype: DataType,
        dims: impl Into<Vec<usize>>,
        values: Vec<T>,
    ) -> Tensor {
        assert!(T::fits(dtype), "element type does not fit {dtype}");
        let dims = dims.into();
        assert_eq!(element_count(&dims), Some(values.len()), "values do not fit {dims:?}");
        Tensor { dtype, dims, data: Data::Raw(Bytes::from_owner(Owned(values))) }
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_vec(vec![], vec![value])
    }

    /// A one-dimensional tensor.
    pub fn vector<T: Element>(values: Vec<T>) -> Tensor {
        Tensor::from_vec(vec![values.len()], values)
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Sizes, outermost axis first; empty for a scalar.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn with_data(dtype: DataType, dims: Vec<usize>, data: Data) -> Tensor {
        Tensor { dtype, dims, data }
    }

    /// The elements' bytes (not for strings, where it is empty). May start at any address. Those of a derived tensor
    /// are computed each time: whoever needs them more than once keeps them.
    pub fn bytes(&self) -> Bytes {
        match self.derived_data() {
            None => self.held_bytes().clone(),
            Some(_) => {
                let mut bytes = vec![0; self.byte_len()];
                self.copy_into(&mut bytes);
                bytes.into()
            }
        }
    }

    /// The bytes of a tensor that is not derived.
    pub(crate) fn held_bytes(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        match &self.data {
            Data::Raw(bytes) => bytes,
            Data::Strings(_) | Data::Derived(_) => &NONE,
        }
    }

    pub(crate) fn derived_data(&self) -> Option<&Derived> {
        match &self.data {
            Data::Derived(derived) => Some(derived),
            Data::Raw(_) | Data::Strings(_) => None,
        }
    }

    /// What tells whether two tensors share their elements: where these lie or what derives them, and their length.
    pub fn identity(&self) -> (usize, usize) {
        let address = match &self.data {
            Data::Raw(bytes) => bytes.as_ptr() as usize,
            Data::Strings(strings) => strings.as_ptr() as usize,
            Data::Derived(derived) => Arc::as_ptr(derived) as usize,
        };
        (address, self.byte_len())
    }

    /// The strings of a string tensor.
    pub fn as_strings(&self) -> Option<&[Bytes]> {
        match &self.data {
            Data::Strings(strings) => Some(strings),
            Data::Raw(_) | Data::Derived(_) => None,
        }
    }

    /// The elements as a slice: borrowed where the bytes are held and aligned, copied or computed otherwise. `None` if
    /// `T` is another type.
    pub fn as_slice<T: Element>(&self) -> Option<Cow<'_, [T]>> {
        if !T::fits(self.dtype) {
            return None;
        }
        Some(self.as_pods())
    }

    /// The elements' bytes as numbers of their width: borrowed where they are held and aligned, copied or computed
    /// otherwise.
    ///
    /// # Panics
    /// If the bytes make no whole number of `T`.
    pub fn as_pods<T: bytemuck::Pod>(&self) -> Cow<'_, [T]> {
        if self.derived_data().is_some() {
            let mut elements = vec![T::zeroed(); self.byte_len() / size_of::<T>()];
            self.copy_into(bytemuck::cast_slice_mut(&mut elements));
            return Cow::Owned(elements);
        }
        let bytes = self.held_bytes();
        match bytemuck::try_cast_slice::<u8, T>(bytes) {
            Ok(slice) => Cow::Borrowed(slice),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec::<u8, T>(bytes)),
        }
    }

    /// All elements as `i64`; `None` for non-integers (bool counts as 0 and 1) and for values above `i64::MAX`.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        macro_rules! widen {
            ($($name:ident => $rust:ty),*) => {
                match self.dtype {
                    $(DataType::$name => {
                        self.as_slice::<$rust>()?.iter().map(|x| i64::try_from(*x).ok()).collect()
                    })*
                    DataType::Int4 | DataType::Uint4 | DataType::Int2 | DataType::Uint2 => {
                        let bytes = self.bytes();
                        Some((0..self.len()).map(|i| self.packed(&bytes, i)).collect())
                    }
                    _ => None,
                }
            };
        }
        widen!(Int64 => i64, Int32 => i32, Int16 => i16, Int8 => i8, Uint8 => u8, Bool => u8,
            Uint16 => u16, Uint32 => u32, Uint64 => u64)
    }

    /// Element `i` of a tensor whose elements take less than a byte (low bits first), in its bytes.
    fn packed(&self, bytes: &[u8], i: usize) -> i64 {
        let bits = self.dtype.bits();
        let per_byte = 8 / bits;
        let byte = bytes[i / per_byte];
        let raw = (byte >> (bits * (i % per_byte))) & ((1 << bits) - 1);
        let signed = matches!(self.dtype, DataType::Int4 | DataType::Int2);
        if signed && raw >> (bits - 1) == 1 { i64::from(raw) - (1 << bits) } else { i64::from(raw) }
    }

    /// The same elements under other sizes.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshaped(&self, dims: impl Into<Vec<usize>>) -> Result<Tensor, TensorError> {
        let dims = dims.into();
        let expected = element_count(&dims).ok_or(TensorError::TooLarge)?;
        refuse!(expected != self.len() => TensorError::Length { expected, found: self.len() });
        Ok(Tensor { dtype: self.dtype, dims, data: self.data.clone() })
    }

    /// The same bytes as elements of type `dtype` under other sizes; derived elements keep their type.
    ///
    /// # Errors
    /// If type and sizes demand another number of bytes.
    pub fn viewed_as(&self, dtype: DataType, dims: &[usize]) -> Result<Tensor, TensorError> {
        match &self.data {
            _ if self.dtype == dtype => self.reshaped(dims),
            Data::Raw(bytes) => Tensor::new(dtype, dims.to_vec(), bytes.clone()),
            Data::Strings(_) | Data::Derived(_) => {
                Err(TensorError::Derivation(format!("elements of {} as {dtype}", self.dtype)))
            }
        }
    }

    /// Bytes the elements would take in memory.
    pub fn byte_len(&self) -> usize {
        match &self.data {
            Data::Raw(bytes) => bytes.len(),
            Data::Strings(strings) => strings.iter().map(Bytes::len).sum(),
            Data::Derived(_) => (self.len() * self.dtype.bits()).div_ceil(8),
        }
    }
}

/// Equal type, sizes and bits (so `NaN` equals itself and `0.0` differs from `-0.0`). Tensors that share their elements
/// are not read.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype
            && self.dims == other.dims
            && (self.identity() == other.identity()
                || match (&self.data, &other.data) {
                    (Data::Raw(a), Data::Raw(b)) => a == b,
                    (Data::Strings(a), Data::Strings(b)) => a == b,
                    (Data::Strings(_), _) | (_, Data::Strings(_)) => false,
                    _ => self.equals(other),
                })
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

/// A vector whose memory can be shared as bytes.
struct Owned<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// A sparse constant in coordinate form.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseTensor {
    /// The non-zero elements, one-dimensional.
    pub values: Tensor,
    /// Linear indices `[n]` or coordinates `[n, rank]`, int64.
    pub indices: Tensor,
    /// Sizes of the dense tensor it stands for.
    pub dims: Vec<usize>,
}

impl SparseTensor {
    /// The dense tensor that it stands for; `None` if that takes more than `bytes_max`, or has elements that are no
    /// whole bytes.
    pub fn to_dense(&self, bytes_max: usize) -> Option<Tensor> {
        let dtype = self.values.dtype();
        if dtype == DataType::String || dtype.bits() < 8 {
            return None;
        }
        let count = self.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        let len = dtype.byte_len(count).filter(|len| *len <= bytes_max)?;
        let numbers = self.indices.as_slice::<i64>()?;
        let sizes = match self.indices.rank() {
            1 => &[count][..],
            _ => &self.dims[..],
        };
        let (size, mut bytes) = (dtype.bits() / 8, vec![0; len]);
        let places = numbers.chunks_exact(sizes.len().max(1));
        for (value, at) in self.values.bytes().chunks_exact(size).zip(places) {
            let place = at.iter().zip(sizes).try_fold(0usize, |place, (i, size)| {
                let i = usize::try_from(*i).ok().filter(|i| i < size)?;
                Some(place * size + i)
            })?;
            bytes[place * size..][..size].copy_from_slice(value);
        }
        Tensor::new(dtype, self.dims.clone(), bytes.into()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_fit() {
        let error = Tensor::new(DataType::Float, vec![2], Bytes::from_static(&[0; 7]));
        assert_eq!(error.unwrap_err(), TensorError::Length { expected: 8, found: 7 });
        let huge = Tensor::new(DataType::Float, vec![usize::MAX, 2], Bytes::new());
        assert_eq!(huge.unwrap_err(), TensorError::TooLarge);
        assert!(Tensor::new(DataType::Float, vec![0, usize::MAX], Bytes::new()).is_ok());
        let empty = Tensor::new(DataType::Float, vec![usize::MAX, 0, 2], Bytes::new());
        assert_eq!(empty.unwrap_err(), TensorError::TooLarge);
    }

    #[test]
    fn unaligned_bytes_are_copied_aligned_ones_are_not() {
        let tensor = Tensor::vector(vec![1.5f32, -2.0]);
        assert!(matches!(tensor.as_slice::<f32>(), Some(Cow::Borrowed([1.5, -2.0]))));
        let mut shifted = vec![0u8];
        shifted.extend_from_slice(&tensor.bytes());
        let shifted = Bytes::from(shifted).slice(1..);
        let shifted = Tensor::new(DataType::Float, vec![2], shifted).unwrap();
        assert_eq!(shifted.as_slice::<f32>().unwrap().as_ref(), [1.5, -2.0]);
        assert_eq!(shifted, tensor);
    }

    #[test]
    fn packed_integers() {
        let bytes = Bytes::from_static(&[0x8f, 0x07]);
        let signed = Tensor::new(DataType::Int4, vec![3], bytes.clone()).unwrap();
        assert_eq!(signed.to_i64s().unwrap(), [-1, -8, 7]);
        let unsigned = Tensor::new(DataType::Uint4, vec![3], bytes).unwrap();
        assert_eq!(unsigned.to_i64s().unwrap(), [15, 8, 7]);
    }
}
