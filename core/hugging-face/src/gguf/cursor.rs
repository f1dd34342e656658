//! Reads numbers and texts one after the other, and says where a file ends too early.

use crate::diag::{Diagnostic, shown};
use crate::problem::{damaged, over_limit, truncated};
use bytes::Bytes;

/// Bytes of a name, as the format limits those of keys.
const NAME_MAX: usize = (1 << 16) - 1;

pub(crate) struct Cursor<'a> {
    /// The name of the file, as it is shown.
    pub(super) file: &'a str,
    pub(super) bytes: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a str, bytes: &'a Bytes) -> Cursor<'a> {
        Cursor { file, bytes, at: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// So many bytes, of what `what` says.
    pub(super) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], Diagnostic> {
        if count > self.left() {
            let (file, at, end) = (self.file, self.at, self.bytes.len());
            return Err(truncated(format!(
                "`{file}` ends at byte {end}, and {what} at offset {at} takes {count} bytes"
            )));
        }
        let bytes: &'a [u8] = self.bytes;
        let taken = &bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// As [`Cursor::take`], as a part of the file that lives on.
    pub(super) fn part(&mut self, count: usize, what: &str) -> Result<Bytes, Diagnostic> {
        let begin = self.at;
        self.take(count, what)?;
        Ok(self.bytes.slice(begin..self.at))
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Diagnostic> {
        let taken = self.take(N, what)?;
        Ok(*taken.first_chunk().expect("as many bytes as were taken"))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Diagnostic> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Diagnostic> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// The length of a text, which lies within the file.
    fn length(&mut self, what: &str) -> Result<usize, Diagnostic> {
        let (at, file) = (self.at, self.file);
        let length = self.u64(what)?;
        let left = self.left();
        let fits = usize::try_from(length).ok().filter(|length| *length <= left);
        fits.ok_or_else(|| {
            truncated(format!(
                "`{file}`: {what} at offset {at} has {length} bytes, and {left} bytes follow"
            ))
        })
    }

    pub(super) fn text(&mut self, what: &str) -> Result<Bytes, Diagnostic> {
        let length = self.length(what)?;
        self.part(length, what)
    }

    /// A name: UTF-8, and not long.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Diagnostic> {
        let (at, file) = (self.at, self.file);
        let length = self.length(what)?;
        if length > NAME_MAX {
            let why = format!(
                "`{file}`: {what} at offset {at} has {length} bytes, of {NAME_MAX} at most"
            );
            return Err(over_limit(why));
        }
        let name = self.take(length, what)?;
        match str::from_utf8(name) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => {
                let name = String::from_utf8_lossy(name).into_owned();
                let name = shown(&name);
                Err(damaged(format!("`{file}`: {what} at offset {at}, `{name}`, is no UTF-8")))
            }
        }
    }
}
