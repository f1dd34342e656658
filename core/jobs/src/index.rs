//! The index: a sled database over the journal, with the records of the jobs at hand.
//!
//! sled's `flush` does not reach the disk on Linux, it panics on some damage, and it frees little
//! space: so nothing is kept in it alone, and it is built anew whenever it is in doubt. It completes
//! a damaged journal.

use crate::layout::{IndexRows, LAST_SEQ};
use onnxd_diagnostics::{Code, Diagnostic};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The index holds the jobs at hand: some hundred, rarely some thousand.
const CACHE_BYTES: u64 = 8 << 20;
/// Changes that the index may be behind. To write each at once takes as long as all else about it,
/// and most are overtaken by the next change of the job; the journal has them all.
pub(crate) const UNWRITTEN_MAX: u64 = 64;
/// Rows written at once when the index is built.
const ROWS_PER_BATCH: usize = 1_000;
const RELEASE_MAX: Duration = Duration::from_secs(5);
const RELEASE_POLL: Duration = Duration::from_millis(2);

/// Key and value.
type IndexEntry = (Vec<u8>, Vec<u8>);

/// Rows to be removed and inserted.
#[derive(Debug, Default)]
pub(crate) struct RowChange {
    pub(crate) remove: Vec<Vec<u8>>,
    pub(crate) insert: Vec<IndexEntry>,
}

/// Why the index did not open.
#[derive(Debug)]
pub(crate) struct OpenError {
    why: String,
    /// The files are at fault, not the machine.
    damaged: bool,
}

impl OpenError {
    pub(crate) fn or_refuse(self, path: &Path) -> Result<String, Diagnostic> {
        if self.damaged {
            return Ok(self.why);
        }
        let message = format!("Cannot open the index {}: {}", path.display(), self.why);
        Err(Diagnostic::new(Code::Disk, message))
    }
}

impl From<SledError> for OpenError {
    fn from(error: SledError) -> OpenError {
        let damaged = match &error {
            SledError::Returned(sled::Error::Io(e)) => {
                matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
            }
            SledError::Returned(_) | SledError::Panicked => true,
        };
        OpenError { why: error.to_string(), damaged }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// The database.
pub(crate) struct Index {
    db: sled::Db,
}

impl Index {
    pub(crate) fn open_and_read(path: &Path) -> Result<(Index, IndexRows), OpenError> {
        let config = sled::Config::new()
            .path(path)
            .flush_every_ms(None)
            .cache_capacity(CACHE_BYTES)
            .mode(sled::Mode::LowSpace)
            .use_compression(false);
        let open = || {
            let index = Index { db: config.open()? };
            let rows = index.read(b"")?;
            Ok((index, rows.into_iter().collect()))
        };
        let given_up = Instant::now() + RELEASE_MAX;
        loop {
            match guarded(open) {
                // Threads of a database closed in this process hold its lock a little longer; no
                // other process can, because the folder's own lock is ours.
                Err(e) if e.is_locked() && Instant::now() < given_up => sleep(RELEASE_POLL),
                opened => return opened.map_err(OpenError::from),
            }
        }
    }

    fn read(&self, prefix: &[u8]) -> sled::Result<Vec<IndexEntry>> {
        let rows = self.db.scan_prefix(prefix);
        rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
    }

    pub(crate) fn size_bytes(&self) -> Result<u64, String> {
        guarded(|| self.db.size_on_disk()).map_err(|e| e.to_string())
    }

    /// One atomic batch, out of this process when the call returns.
    pub(crate) fn write(&self, rows: &RowChange) -> Result<(), String> {
        let mut batch = sled::Batch::default();
        for key in &rows.remove {
            batch.remove(key.as_slice());
        }
        for (key, value) in &rows.insert {
            batch.insert(key.as_slice(), value.as_slice());
        }
        let write = || {
            self.db.apply_batch(batch)?;
            self.db.flush().map(|_| ())
        };
        guarded(write).map_err(|e| e.to_string())
    }

    /// Many rows. The number of the last change comes last: an interrupted filling is noticed.
    pub(crate) fn fill(&self, mut change: RowChange) -> Result<(), String> {
        let is_last = |(key, _): &IndexEntry| key == LAST_SEQ;
        let last = change.insert.iter().position(is_last).map(|at| change.insert.swap_remove(at));
        for remove in change.remove.chunks(ROWS_PER_BATCH) {
            let change = RowChange { remove: remove.to_vec(), ..RowChange::default() };
            self.write(&change)?;
        }
        for insert in change.insert.chunks(ROWS_PER_BATCH) {
            let change = RowChange { insert: insert.to_vec(), ..RowChange::default() };
            self.write(&change)?;
        }
        let insert = last.into_iter().collect();
        self.write(&RowChange { insert, ..RowChange::default() })
    }
}

#[derive(Debug)]
enum SledError {
    Returned(sled::Error),
    Panicked,
}

impl SledError {
    /// sled wraps the system's refusal into a text.
    fn is_locked(&self) -> bool {
        matches!(self, SledError::Returned(sled::Error::Io(e))
            if e.to_string().contains("could not acquire lock"))
    }
}

impl std::fmt::Display for SledError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SledError::Returned(e) => e.fmt(f),
            SledError::Panicked => f.write_str("sled panicked"),
        }
    }
}

/// sled panics on some damage; the daemon must not.
fn guarded<T>(call: impl FnOnce() -> sled::Result<T>) -> Result<T, SledError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(returned) => returned.map_err(SledError::Returned),
        Err(_) => Err(SledError::Panicked),
    }
}
