//! The index of a checkpoint: a sorted table as LevelDB writes it. Blocks of keys and values, and a block that says
//! where they are.

use crate::files::AGAIN;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse};
use std::collections::BTreeMap;

/// The last bytes of a table.
const FOOTER_BYTES: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// What follows a block: how it is compressed, and its checksum.
const TRAILER_BYTES: usize = 5;
/// Length of a key.
const KEY_BYTES_MAX: usize = 4096;
/// Bytes of all keys and values. Keys that begin alike take little space in the file.
const ENTRIES_BYTES_MAX: usize = 256 << 20;

fn damaged(what: impl std::fmt::Display) -> Diagnostic {
    let message = format!("The checkpoint's index is damaged: {what}.");
    Diagnostic::new(Code::SourceSyntax, message).help(AGAIN)
}

/// The checksum as files of TensorFlow hold it.
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    masked(crc32c::crc32c(bytes))
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// All keys with their values.
///
/// # Errors
/// `N0201` for what is damaged, `N0203` for a table that is compressed, `N0213` beyond limits.
pub(crate) fn entries(file: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let end = file.len().checked_sub(FOOTER_BYTES);
    let Some(end) = end else { return Err(damaged("it is too short")) };
    let (body, mut footer) = file.split_at(end);
    refuse!(footer[FOOTER_BYTES - 8..] != MAGIC.to_le_bytes() => damaged("it does not end as one"));
    handle(&mut footer).ok_or_else(|| damaged("its last bytes"))?;
    let index = handle(&mut footer).ok_or_else(|| damaged("its last bytes"))?;
    let mut read = IndexReader { body, at: 0, left: ENTRIES_BYTES_MAX };
    let mut blocks = vec![];
    read.block(index, |_, mut value| {
        blocks.push(handle(&mut value).ok_or_else(|| damaged("a place of a block"))?);
        Ok(())
    })?;
    read.at = 0;
    let mut found = BTreeMap::new();
    for block in blocks {
        read.block(block, |key, value| match found.insert(key.to_vec(), value.to_vec()) {
            None => Ok(()),
            Some(_) => Err(damaged("it has a key twice")),
        })?;
    }
    Ok(found)
}

struct IndexReader<'b> {
    body: &'b [u8],
    /// Where the next block may begin: blocks do not overlap.
    at: usize,
    /// Bytes of entries that may still be read.
    left: usize,
}

impl IndexReader<'_> {
    /// Hands on the entries of a block.
    fn block(
        &mut self,
        (offset, size): (u64, u64),
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let start = usize::try_from(offset).ok().filter(|start| *start >= self.at);
        let end = start.zip(usize::try_from(size).ok()).and_then(|(a, n)| a.checked_add(n));
        let trailer = end.and_then(|end| self.body.get(end..end.checked_add(TRAILER_BYTES)?));
        let (Some(start), Some(end), Some(trailer)) = (start, end, trailer) else {
            return Err(damaged("a block lies outside of the file or overlaps another"));
        };
        self.at = end + TRAILER_BYTES;
        let expected = u32::from_le_bytes([trailer[1], trailer[2], trailer[3], trailer[4]]);
        refuse!(masked_crc(&self.body[start..=end]) != expected => damaged("a block does not have its checksum"));
        refuse!(trailer[0] != 0 => Diagnostic::new(Code::LayerUnsupported, "The checkpoint's index is compressed."));
        let block = &self.body[start..end];
        let count = block.last_chunk().map(|count| u32::from_le_bytes(*count) as usize);
        let restarts = count.and_then(|n| n.checked_mul(4)?.checked_add(4));
        let entries = restarts.and_then(|n| block.get(..block.len().checked_sub(n)?));
        self.entries(entries.ok_or_else(|| damaged("the end of a block"))?, &mut each)
    }

    fn entries(
        &mut self,
        mut block: &[u8],
        each: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut key: Vec<u8> = vec![];
        while !block.is_empty() {
            let mut length = || usize::try_from(varint(&mut block)?).ok();
            let lengths = (length(), length(), length());
            let (Some(shared), Some(own), Some(value)) = lengths else {
                return Err(damaged("the lengths of an entry"));
            };
            let fits =
                shared <= key.len() && own.checked_add(value).is_some_and(|n| n <= block.len());
            refuse!(!fits || shared + own > KEY_BYTES_MAX =>
                damaged("an entry is longer than its block, or its key too long"));
            let (suffix, rest) = block.split_at(own);
            let (value, rest) = rest.split_at(value);
            block = rest;
            key.truncate(shared);
            key.extend_from_slice(suffix);
            let left = self.left.checked_sub(key.len() + value.len());
            self.left = left.ok_or_else(|| {
                let message = "The checkpoint's index has too many entries.";
                Diagnostic::new(Code::SourceLimit, message)
            })?;
            each(&key, value)?;
        }
        Ok(())
    }
}

/// Where a block is: offset and size.
fn handle(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    Some((varint(bytes)?, varint(bytes)?))
}

/// A number of 7 bits in each byte.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut found = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        found |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests;
