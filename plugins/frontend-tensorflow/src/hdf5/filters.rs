//! Filters that chunks went through when they were written.

use super::source::{Fields, Result, damaged, unknown};
use super::sum::fletcher32;
use flate2::{Decompress, FlushDecompress, Status};
use onnxd_plugin_sdk::diagnostics::refuse;
use std::borrow::Cow;

/// Filters of a dataset, as the HDF5 library bounds them.
const FILTERS_MAX: u8 = 32;
/// Bytes that a checksum takes.
const SUM_BYTES: usize = 4;

#[derive(Clone, Copy)]
enum Filter {
    Deflate,
    /// The first bytes of all elements of this size lie together, then the second ones, and so on.
    Shuffle(usize),
    Fletcher32,
}

/// The filters of a dataset in the order in which its chunks were written.
#[derive(Default)]
pub(super) struct Filters(Vec<Filter>);

impl Filters {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Filters> {
        let version = fields.version("filters", &[1, 2])?;
        let count = fields.u8()?;
        refuse!(count > FILTERS_MAX => damaged(format!("a tensor has {count} filters")));
        fields.skip(if version == 1 { 6 } else { 0 })?;
        let mut all = vec![];
        for _ in 0..count {
            let id = fields.u16()?;
            let name = if version == 1 || id >= 256 { usize::from(fields.u16()?) } else { 0 };
            fields.skip(2)?;
            let values = usize::from(fields.u16()?);
            fields.skip(if version == 1 { name.next_multiple_of(8) } else { name })?;
            let mut parts = fields.source.fields(fields.take(4 * values)?);
            fields.skip(if version == 1 { values % 2 * 4 } else { 0 })?;
            all.push(match id {
                1 => Filter::Deflate,
                2 => Filter::Shuffle(parts.u32()? as usize),
                3 => Filter::Fletcher32,
                id => return Err(unknown(format!("the filter {id} of chunks"))),
            });
        }
        Ok(Filters(all))
    }

    /// How many times a chunk is unpacked.
    pub(super) fn passes(&self) -> u64 {
        let count = self.0.iter().filter(|filter| matches!(filter, Filter::Deflate)).count();
        count.max(1) as u64
    }

    /// A chunk of at most `size` bytes as it was before. Bits of `skipped` are filters that it did not go through.
    pub(super) fn undo<'a>(
        &self,
        chunk: &'a [u8],
        skipped: u32,
        size: usize,
    ) -> Result<Cow<'a, [u8]>> {
        let mut chunk = Cow::Borrowed(chunk);
        for (i, filter) in self.0.iter().enumerate().rev() {
            if skipped >> i & 1 != 0 {
                continue;
            }
            chunk = match filter {
                Filter::Deflate => inflated(&chunk, size + SUM_BYTES * self.0.len())?.into(),
                Filter::Shuffle(width) => unshuffled(&chunk, *width).into(),
                Filter::Fletcher32 => summed(chunk)?,
            };
        }
        Ok(chunk)
    }
}

fn inflated(chunk: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut found = Vec::with_capacity(most);
    let status = Decompress::new(true).decompress_vec(chunk, &mut found, FlushDecompress::Finish);
    match status {
        Ok(Status::StreamEnd) => Ok(found),
        _ => Err(damaged("a chunk cannot be unpacked")),
    }
}

fn unshuffled(chunk: &[u8], width: usize) -> Vec<u8> {
    let mut found = chunk.to_vec();
    let Some(count) = chunk.len().checked_div(width) else { return found };
    for (i, plane) in chunk.chunks_exact(count.max(1)).take(width).enumerate() {
        for (element, byte) in found.chunks_exact_mut(width).zip(plane) {
            element[i] = *byte;
        }
    }
    found
}

fn summed(chunk: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>> {
    let end = chunk.len().checked_sub(SUM_BYTES);
    let end = end.ok_or_else(|| damaged("a chunk has no checksum"))?;
    refuse!(chunk[end..] != fletcher32(&chunk[..end]).to_le_bytes() => damaged("a chunk does not have its checksum"));
    Ok(match chunk {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..end]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(end);
            Cow::Owned(bytes)
        }
    })
}
