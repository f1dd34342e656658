//! Tables that say what codes of 8 bits or less stand for. They also pack elements of less than a byte, and unpack them.

use super::Derivation;
use crate::{DataType, Tensor, TensorError};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Range;

/// Codes at these places, each in a byte.
pub(super) fn codes_at(codes: &Tensor, places: Range<usize>) -> Cow<'_, [u8]> {
    let bits = codes.dtype().bits();
    if bits == 8 {
        return codes.part(places);
    }
    let (bytes, per_byte, mask) = (codes.held_bytes(), 8 / bits, (1u8 << bits) - 1);
    Cow::Owned(places.map(|i| bytes[i / per_byte] >> (i % per_byte * bits) & mask).collect())
}

/// Writes what the table has for each code. Elements of less than a byte are packed, the low bits first.
pub(super) fn look_up(codes: &[u8], table: &Tensor, out: &mut [u8]) {
    let bits = table.dtype().bits();
    if bits < 8 {
        let elements = codes_at(table, 0..table.len());
        for (codes, out) in codes.chunks(8 / bits).zip(out) {
            let packed = |(i, code): (usize, &u8)| elements[usize::from(*code)] << (i * bits);
            *out = codes.iter().enumerate().map(packed).fold(0, |all, one| all | one);
        }
        return;
    }
    let elements = table.part(0..table.len());
    if bits == 8 {
        for (code, out) in codes.iter().zip(out) {
            *out = elements[usize::from(*code)];
        }
        return;
    }
    let size = bits / 8;
    for (code, out) in codes.iter().zip(out.chunks_exact_mut(size)) {
        out.copy_from_slice(&elements[usize::from(*code) * size..][..size]);
    }
}

/// The same elements without a table of a table, and without one that changes nothing.
pub(super) fn simpler(
    codes: &Tensor,
    table: &Tensor,
    dims: &[usize],
) -> Option<Result<Tensor, TensorError>> {
    if let Some(Derivation::Lookup { sources: [inner, first] }) = codes.derivation() {
        return Some(composed(inner, first, table, dims));
    }
    let held = codes.derivation().is_none() && codes.dtype().bits() == table.dtype().bits();
    let same = held && {
        let elements = codes_at(table, 0..table.len());
        elements.iter().enumerate().all(|(code, element)| code == usize::from(*element))
    };
    same.then(|| codes.viewed_as(table.dtype(), dims))
}

/// The elements of `table` at what `first` has for each code.
fn composed(
    codes: &Tensor,
    first: &Tensor,
    table: &Tensor,
    dims: &[usize],
) -> Result<Tensor, TensorError> {
    let middle = codes_at(first, 0..first.len());
    let mut bytes = vec![0; (first.len() * table.dtype().bits()).div_ceil(8)];
    look_up(&middle, table, &mut bytes);
    let table = Tensor::new(table.dtype(), vec![first.len()], Bytes::from(bytes))?;
    codes.looked_up(&table)?.reshaped(dims)
}

impl Tensor {
    /// The elements of a tensor of integers of 8 bits or less as `uint8`, by their bits.
    ///
    /// # Errors
    /// As [`Tensor::looked_up`].
    pub fn unpacked(&self) -> Result<Tensor, TensorError> {
        let bits = self.dtype().bits().min(8) as u32;
        let table: Vec<u8> = (0..1u16 << bits).map(|code| code as u8).collect();
        self.looked_up(&Tensor::vector(table))
    }

    /// The low bits of elements of a byte as elements of `dtype`, which has 4 of them.
    ///
    /// # Errors
    /// As [`Tensor::looked_up`].
    pub fn packed_as(&self, dtype: DataType) -> Result<Tensor, TensorError> {
        let bytes: Vec<u8> = (0..128u8).map(|i| (i % 8 * 2) | ((i % 8 * 2 + 1) << 4)).collect();
        self.looked_up(&Tensor::new(dtype, vec![256], bytes.into())?)
    }
}

#[cfg(test)]
mod tests;
