//! The bytes of a file, and reading fields of them within bounds. Reads are counted: parts of a file that name each
//! other cannot be read for ever.

use super::sum;
use bytes::Bytes;
use std::cell::Cell;
use std::fmt;

/// Pieces that may be read of a file. A record in a piece counts as one, too.
const READS_MAX: u64 = 10_000_000;
/// How many times over a file may be looked through, beyond what is always allowed.
const READ_RATIO_MAX: u64 = 64;
const READ_FREE: u64 = 1 << 30;

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum Error {
    /// It contradicts the format.
    Damaged(String),
    /// It is sound and has something that is not read here.
    Unknown(String),
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Damaged(what) | Error::Unknown(what)) = self;
        f.write_str(what)
    }
}

pub(super) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}

pub(super) fn unknown(what: impl Into<String>) -> Error {
    Error::Unknown(what.into())
}

/// A file from its signature on, where addresses begin to count.
pub(super) struct Hdf5Source {
    pub(super) bytes: Bytes,
    /// Bytes that an address takes, and a size.
    pub(super) address_width: usize,
    pub(super) size_width: usize,
    /// Whether checksums count. Tests that change files leave them wrong.
    pub(super) has_sums: bool,
    reads_left: Cell<u64>,
    bytes_left: Cell<u64>,
}

impl Hdf5Source {
    pub(super) fn new(bytes: Bytes) -> Hdf5Source {
        let size = bytes.len() as u64;
        let bytes_left = size.saturating_mul(READ_RATIO_MAX).saturating_add(READ_FREE);
        Hdf5Source {
            bytes,
            address_width: 8,
            size_width: 8,
            has_sums: true,
            reads_left: READS_MAX.into(),
            bytes_left: bytes_left.into(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Fields of known bytes.
    pub(super) fn fields<'a>(&'a self, bytes: &'a [u8]) -> Fields<'a> {
        Fields { source: self, bytes, at: 0 }
    }

    /// Fields from an address to the end of the file.
    pub(super) fn from(&self, address: u64) -> Result<Fields<'_>> {
        self.count(1)?;
        let begin = usize::try_from(address).ok();
        let bytes = begin.and_then(|begin| self.bytes.get(begin..));
        let bytes = bytes.ok_or_else(|| damaged(format!("it has no byte {address}")))?;
        Ok(self.fields(bytes))
    }

    /// Fields behind a signature.
    pub(super) fn signed(&self, address: u64, signature: &[u8; 4]) -> Result<Fields<'_>> {
        let mut fields = self.from(address)?;
        if fields.take(4)? != signature {
            let name = String::from_utf8_lossy(signature);
            return Err(damaged(format!("there is no `{name}` at {address}")));
        }
        Ok(fields)
    }

    /// The bytes between two places.
    pub(super) fn at(&self, address: u64, size: u64) -> Result<&[u8]> {
        self.from(address)?.take_of(size)
    }

    /// Counts reads.
    pub(super) fn count(&self, reads: u64) -> Result<()> {
        take(&self.reads_left, reads)
    }

    /// Counts bytes that are looked at one by one.
    pub(super) fn spend(&self, bytes: usize) -> Result<()> {
        take(&self.bytes_left, bytes as u64)
    }
}

fn take(left: &Cell<u64>, count: u64) -> Result<()> {
    let rest = left.get().checked_sub(count);
    left.set(rest.unwrap_or(0));
    rest.map(|_| ()).ok_or_else(|| damaged("its parts name each other too often"))
}

/// Bytes that are read from the first to the last.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) source: &'a Hdf5Source,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        let Some(found) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(damaged(format!("{count} bytes are missing where it ends")));
        };
        self.at += count;
        Ok(found)
    }

    /// As [`Fields::take`], of a count in the file.
    pub(super) fn take_of(&mut self, count: u64) -> Result<&'a [u8]> {
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The fields that follow, of which a checksum may be asked apart.
    pub(super) fn rest(&self) -> Fields<'a> {
        self.source.fields(&self.bytes[self.at..])
    }

    pub(super) fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(|_| ())
    }

    /// Goes on at a multiple of `step`, counted from the first field. The last one may end before it.
    pub(super) fn align(&mut self, step: usize) {
        self.at = self.at.next_multiple_of(step).min(self.bytes.len());
    }

    /// A number of up to eight bytes.
    pub(super) fn number(&mut self, width: usize) -> Result<u64> {
        let found = self.take(width)?;
        let mut all = [0; 8];
        let low = all.get_mut(..width);
        let low = low.ok_or_else(|| damaged(format!("it has a number of {width} bytes")))?;
        low.copy_from_slice(found);
        Ok(u64::from_le_bytes(all))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.number(1)? as u8)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(self.number(2)? as u16)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(self.number(4)? as u32)
    }

    pub(super) fn size(&mut self) -> Result<u64> {
        self.number(self.source.size_width)
    }

    /// An address; none if all its bits are set.
    pub(super) fn address(&mut self) -> Result<Option<u64>> {
        let width = self.source.address_width;
        let found = self.number(width)?;
        Ok((found != u64::MAX >> (64 - 8 * width)).then_some(found))
    }

    /// An address that must be there.
    pub(super) fn some_address(&mut self) -> Result<u64> {
        self.address()?.ok_or_else(|| damaged("an address is missing"))
    }

    pub(super) fn version(&mut self, what: &str, versions: &[u8]) -> Result<u8> {
        let found = self.u8()?;
        match versions.contains(&found) {
            true => Ok(found),
            false => Err(unknown(format!("{what} of version {found}"))),
        }
    }

    /// The checksum of all fields before it.
    pub(super) fn checksum(&mut self) -> Result<()> {
        let before = &self.bytes[..self.at];
        self.source.spend(before.len())?;
        let is_right = sum::lookup3(before) == self.u32()? || !self.source.has_sums;
        is_right.then_some(()).ok_or_else(|| damaged("a part does not have its checksum"))
    }
}
