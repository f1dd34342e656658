//! Zip archives. Stored members are slices of the mapped file; deflated ones are inflated on use.

use super::{
    INFLATED_FREE, INFLATED_RATIO_MAX, MEMBERS_MAX, damaged, over_limit, refuse_name, truncated,
    unsupported, without_folder,
};
use crate::diagnostics::Diagnostic;
use bytes::Bytes;
use flate2::Crc;
use onnxd_diagnostics::refuse;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive, ZipReadOptions};

/// First bytes of a zip file with members.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";
const DIRECTORY_END: &[u8] = b"PK\x05\x06";

/// An open archive.
#[derive(Debug)]
pub(super) struct Zip {
    bytes: Bytes,
    zip: RefCell<ZipArchive<Cursor<Bytes>>>,
    pub(super) members: BTreeMap<String, Member>,
    /// Bytes that may still be inflated.
    left: Cell<u64>,
    /// Whether members must have their checksums.
    is_checked: bool,
    /// Members that were read and have another checksum, where they need none.
    pub(super) wrong: RefCell<BTreeSet<String>>,
}

#[derive(Debug)]
pub(super) struct Member {
    index: usize,
    /// Where the next member begins: a member that reaches further overlaps it.
    end: u64,
    /// What it holds, once it was inflated or checked.
    content: OnceCell<Bytes>,
}

impl Zip {
    /// Reads the central directory, and nothing else.
    pub(super) fn open(bytes: Bytes, is_checked: bool) -> Result<Zip, Diagnostic> {
        refuse!(announced(&bytes) > MEMBERS_MAX as u64 =>
            over_limit(format!("the archive has more than {MEMBERS_MAX} members")));
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let zip = ZipArchive::with_config(config, Cursor::new(bytes.clone()))
            .map_err(|e| truncated(format!("the archive has no sound directory: {e}")))?;
        refuse!(zip.len() > MEMBERS_MAX => over_limit(format!("the archive has more than {MEMBERS_MAX} members")));
        refuse!(zip.has_duplicate_names() => damaged("the archive has two members of one name"));
        let members = members(&zip)?;
        let left = (bytes.len() as u64).saturating_mul(INFLATED_RATIO_MAX).max(INFLATED_FREE);
        let (zip, left) = (RefCell::new(zip), Cell::new(left));
        Ok(Zip { bytes, zip, members, left, is_checked, wrong: RefCell::default() })
    }

    /// The bytes of a member: a slice of the file if it is stored, else inflated and kept.
    pub(super) fn read(&self, name: &str) -> Result<Bytes, Diagnostic> {
        let member = self.members.get(name);
        let member = member.ok_or_else(|| damaged(format!("the archive has no `{name}`")))?;
        if let Some(content) = member.content.get() {
            return Ok(content.clone());
        }
        let content = self.content(member, name)?;
        Ok(member.content.get_or_init(|| content).clone())
    }

    fn content(&self, member: &Member, name: &str) -> Result<Bytes, Diagnostic> {
        let broken = |e| damaged(format!("member `{name}`: {e}"));
        let mut zip = self.zip.borrow_mut();
        let raw = zip.by_index_raw(member.index).map_err(broken)?;
        let (packed, size, method) = (raw.compressed_size(), raw.size(), raw.compression());
        refuse!(raw.encrypted() => unsupported(format!("member `{name}` is encrypted")));
        let (start, sum) = (raw.data_start().unwrap_or(u64::MAX), raw.crc32());
        drop(raw);
        let end = start.checked_add(packed).filter(|end| *end <= member.end);
        let Some(end) = end else {
            let what = format!("member `{name}` reaches into the next one or beyond the file");
            return Err(damaged(what));
        };
        let content = match method {
            // Both fit: the end lies in the file.
            CompressionMethod::Stored if packed == size => {
                self.bytes.slice(start as usize..end as usize)
            }
            CompressionMethod::Stored => {
                return Err(damaged(format!(
                    "member `{name}` is stored and yet has two sizes, {packed} and {size}"
                )));
            }
            CompressionMethod::Deflated => self.inflate(&mut zip, member.index, (name, size))?,
            other => return Err(unsupported(format!("member `{name}` is packed by {other}"))),
        };
        // Some writers leave them out.
        let is_left_out = sum == 0 && !self.is_checked;
        if !is_left_out && checksum(&content) != sum {
            refuse!(self.is_checked => damaged(format!("member `{name}` does not have its checksum")));
            self.wrong.borrow_mut().insert(name.to_owned());
        }
        Ok(content)
    }

    fn inflate(
        &self,
        zip: &mut ZipArchive<Cursor<Bytes>>,
        index: usize,
        (name, size): (&str, u64),
    ) -> Result<Bytes, Diagnostic> {
        let Some(left) = self.left.get().checked_sub(size) else {
            let what = format!("member `{name}` inflates to {size} bytes, which is too much");
            return Err(over_limit(what));
        };
        self.left.set(left);
        // The checksum is looked at as that of a stored member is.
        let options = ZipReadOptions::new().ignore_crc32(true);
        let broken = |e: &dyn std::fmt::Display| damaged(format!("member `{name}`: {e}"));
        let file = zip.by_index_with_options(index, options).map_err(|e| broken(&e))?;
        // Growing would take up to twice as much. Memory that a lie reserves is never touched.
        let mut bytes = Vec::new();
        refuse!(bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX)).is_err() =>
            over_limit(format!("member `{name}` inflates to {size} bytes")));
        file.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| broken(&e))?;
        match bytes.len() as u64 == size {
            true => Ok(bytes.into()),
            false => Err(damaged(format!("member `{name}` does not inflate to {size} bytes"))),
        }
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// How many members the end of the directory announces; the most, where it is found more than once.
fn announced(bytes: &[u8]) -> u64 {
    let number = |at: usize, len: usize| {
        let field = bytes.get(at..at.checked_add(len)?)?;
        Some(field.iter().rev().fold(0u64, |n, byte| (n << 8) | u64::from(*byte)))
    };
    let tail = bytes.len().saturating_sub(22 + usize::from(u16::MAX));
    let ends = bytes[tail..].windows(4).enumerate().filter(|(_, four)| *four == DIRECTORY_END);
    ends.filter_map(|(at, _)| {
        let end = tail + at;
        match number(end + 10, 2)? {
            0xffff => {
                // The locator before it says where the record with 64 bits is.
                let locator = end.checked_sub(20)?;
                number(usize::try_from(number(locator + 8, 8)?).ok()?.checked_add(32)?, 8)
            }
            count => Some(count),
        }
    })
    .max()
    .unwrap_or(0)
}

fn members(zip: &ZipArchive<Cursor<Bytes>>) -> Result<BTreeMap<String, Member>, Diagnostic> {
    let mut found = Vec::with_capacity(zip.len());
    for index in 0..zip.len() {
        let broken = |e| damaged(format!("the archive's directory: {e}"));
        let entry = zip.by_index_data(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        refuse_name(&name)?;
        found.push((entry.header_start(), name, index));
    }
    found.sort_unstable();
    let ends: Vec<u64> = found.iter().skip(1).map(|(start, ..)| *start).collect();
    let ends = ends.into_iter().chain([zip.central_directory_start()]);
    let mut members = BTreeMap::new();
    for ((start, name, index), end) in found.into_iter().zip(ends) {
        refuse!(end <= start => damaged(format!("member `{name}` overlaps another or the directory")));
        // Folders have entries of their own if other tools packed the file.
        if !name.ends_with('/') {
            members.insert(name, Member { index, end, content: OnceCell::new() });
        }
    }
    Ok(without_folder(members))
}
