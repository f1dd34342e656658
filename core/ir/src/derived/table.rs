//! Tables that say what codes of 8 bits or less stand for. They also unpack elements of less than a byte, and pack
//! them.

use super::Derivation;
use crate::{DataType, Tensor, TensorError};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Range;

impl Tensor {
    /// What `table` has for every 2, 4 or 8 bits of the tensor's bytes, the low bits first; the last axis has as many
    /// codes. A table of a table is one table, and one that changes nothing is left out.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if the table has not 4, 16 or 256 elements.
    pub fn looked_up(&self, table: &Tensor) -> Result<Tensor, TensorError> {
        let (bits, mut dims) = (self.dtype().bits(), self.dims().to_vec());
        let codes = width_of(table).map_or(1, |width| (bits / width).max(1));
        if let Some(last) = dims.last_mut() {
            *last = last.saturating_mul(codes);
        }
        let sources = [self.clone(), table.clone()];
        Tensor::derived(table.dtype(), dims, Derivation::Lookup { sources })
    }

    /// Every `bits` bits of the tensor's bytes as an integer of 8 bits, by [`Tensor::looked_up`].
    ///
    /// # Errors
    /// If these are not 2, 4 or 8.
    pub fn unpacked(&self, bits: usize) -> Result<Tensor, TensorError> {
        let table: Vec<u8> = (0..1u16 << bits.min(8)).map(|code| code as u8).collect();
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

/// Bits of the codes that a table has elements for.
pub(super) fn width_of(table: &Tensor) -> Option<usize> {
    match table.dims() {
        [4] => Some(2),
        [16] => Some(4),
        [256] => Some(8),
        _ => None,
    }
}

/// Codes of so many bits at these places, each in a byte.
fn codes_at(source: &Tensor, bits: usize, places: Range<usize>) -> Cow<'_, [u8]> {
    let per_byte = 8 / bits;
    let bytes = source.bytes_at(places.start / per_byte..places.end.div_ceil(per_byte));
    if bits == 8 {
        return bytes;
    }
    let (skipped, mask) = (places.start % per_byte, (1u8 << bits) - 1);
    let code = |i: usize| bytes[i / per_byte] >> (i % per_byte * bits) & mask;
    Cow::Owned((skipped..skipped + places.len()).map(code).collect())
}

/// Writes what the table has for the codes at these places.
pub(super) fn fill(codes: &Tensor, table: &Tensor, places: Range<usize>, out: &mut [u8]) {
    let width = width_of(table).expect("the sizes of the table were checked");
    // Nibbles that stay nibbles are looked up by two.
    let is_even = places.start.is_multiple_of(2) && places.end.is_multiple_of(2);
    if (width, table.dtype().bits()) == (4, 4) && is_even {
        let elements = codes_at(table, 4, 0..table.len());
        let element = |code: u8| elements[usize::from(code)];
        let pairs: Vec<u8> = (0..=255).map(|b| element(b & 15) | (element(b >> 4) << 4)).collect();
        let bytes = codes.bytes_at(places.start / 2..places.end / 2);
        bytes.iter().zip(out).for_each(|(b, out)| *out = pairs[usize::from(*b)]);
        return;
    }
    look_up(&codes_at(codes, width, places), table, out);
}

/// Elements of less than a byte are packed, the low bits first.
fn look_up(codes: &[u8], table: &Tensor, out: &mut [u8]) {
    let bits = table.dtype().bits();
    if bits < 8 {
        let elements = codes_at(table, bits, 0..table.len());
        let (codes, out) = match bits {
            4 => pack(codes, &elements, out),
            _ => (codes, out),
        };
        for (codes, out) in codes.chunks(8 / bits).zip(out) {
            let packed = |(i, code): (usize, &u8)| elements[usize::from(*code)] << (i * bits);
            *out = codes.iter().enumerate().map(packed).fold(0, |all, one| all | one);
        }
        return;
    }
    let elements = table.bytes_at(0..table.byte_len());
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

/// Packs pairs of nibbles; what is left of codes, and of the room for them.
fn pack<'c, 'o>(codes: &'c [u8], elements: &[u8], out: &'o mut [u8]) -> (&'c [u8], &'o mut [u8]) {
    let (pairs, rest) = codes.as_chunks::<2>();
    let (packed, left) = out.split_at_mut(pairs.len());
    for ([low, high], out) in pairs.iter().zip(packed) {
        *out = elements[usize::from(*low)] | (elements[usize::from(*high)] << 4);
    }
    (rest, left)
}

/// The same elements without a table of a table, and without one that changes nothing.
pub(super) fn simpler(
    codes: &Tensor,
    table: &Tensor,
    dims: &[usize],
    count: usize,
) -> Option<Result<Tensor, TensorError>> {
    let (width, bits) = (width_of(table)?, table.dtype().bits());
    if let Some(Derivation::Lookup { sources: [inner, first] }) = codes.derivation()
        && codes.dtype().bits() == width
        && codes.len() == count
    {
        return Some(composed(inner, first, table, dims));
    }
    let same = codes.derivation().is_none() && width == bits && {
        let elements = codes_at(table, bits, 0..table.len());
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
    let middle = codes_at(first, first.dtype().bits(), 0..first.len());
    let mut bytes = vec![0; (first.len() * table.dtype().bits()).div_ceil(8)];
    look_up(&middle, table, &mut bytes);
    let table = Tensor::new(table.dtype(), vec![first.len()], Bytes::from(bytes))?;
    let sources = [codes.clone(), table];
    Tensor::derived(sources[1].dtype(), dims, Derivation::Lookup { sources })
}

#[cfg(test)]
mod tests;
