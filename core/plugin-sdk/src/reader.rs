//! Dropped files that are read from the beginning to the end, a part at a time.

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic};
use crate::host::{JobHandle, Mapped};
use onnxd_diagnostics::refuse;
use std::io::{BufRead, Error, Read, Result};
use std::sync::Arc;

/// What is looked at before the file is mapped anew, so that pages which were read take up no memory.
const PART_BYTES: usize = 4 << 20;

/// A dropped file, read from its beginning to its end: however large it is, a small part takes up memory. Hosts that
/// take nothing back before the call ends (interface 1.0) keep all of it mapped.
pub struct InputReader {
    job: Arc<JobHandle>,
    name: String,
    mapped: Option<Mapped>,
    /// Where the next byte is, and where the part ends.
    at: usize,
    end: usize,
    len: usize,
}

impl Submission {
    /// A file for reading once, from its beginning to its end.
    ///
    /// # Errors
    /// As [`Submission::read`].
    pub fn open(&self, path: &str) -> std::result::Result<InputReader, Diagnostic> {
        self.dropped(path)?;
        let job = self.job().clone();
        let mapped = job.map_input(path)?;
        let len = mapped.bytes.len();
        let end = len.min(PART_BYTES);
        Ok(InputReader { job, name: path.to_owned(), mapped: Some(mapped), at: 0, end, len })
    }
}

impl InputReader {
    /// Size of the file.
    pub fn byte_len(&self) -> usize {
        self.len
    }

    /// Maps the file anew for the next part; not at all behind the last one.
    fn turn(&mut self) -> std::result::Result<(), Diagnostic> {
        self.give_back()?;
        if self.at < self.len {
            let mapped = self.job.map_input(&self.name)?;
            refuse!(mapped.bytes.len() != self.len =>
                Diagnostic::new(Code::Unreadable, format!("`{}` changed while it was read", self.name)));
            self.mapped = Some(mapped);
            self.end = self.len.min(self.at + PART_BYTES);
        }
        Ok(())
    }

    fn give_back(&mut self) -> std::result::Result<(), Diagnostic> {
        let Some(Mapped { id, bytes }) = self.mapped.take() else { return Ok(()) };
        drop(bytes);
        self.job.unmap_input(id)
    }
}

impl Drop for InputReader {
    fn drop(&mut self) {
        // It ends with the call at the latest.
        let _ = self.give_back();
    }
}

impl BufRead for InputReader {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.at == self.end && self.mapped.is_some() {
            self.turn().map_err(|problem| Error::other(problem.into_finding().message))?;
        }
        let part = self.mapped.as_ref().map(|mapped| &mapped.bytes[self.at..self.end]);
        Ok(part.unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.at = self.end.min(self.at + count);
    }
}

impl Read for InputReader {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let part = self.fill_buf()?;
        let count = part.len().min(to.len());
        to[..count].copy_from_slice(&part[..count]);
        self.consume(count);
        Ok(count)
    }
}
