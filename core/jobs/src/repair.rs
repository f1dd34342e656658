//! Makes the index agree with the journal when a store is opened.
//!
//! A damaged index is moved aside, never repaired by guessing: the journal can build it again.

use crate::crash;
use crate::index::{Index, RowChange, UNWRITTEN_MAX};
use crate::journal::{Entries, Reading};
use crate::layout::{IndexRows, id_of, rows_of};
use onnxd_diagnostics::{Code, Diagnostic};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An index that takes more than this and more than `SLACK` times its content is built anew.
const INDEX_BYTES_MAX: u64 = 64 << 20;
const SLACK: u64 = 20;
/// Damaged indexes kept for inspection.
pub(crate) const QUARANTINED_MAX: usize = 2;

/// Where the index lies and where damaged ones go.
pub(crate) struct IndexFolder {
    pub(crate) dir: PathBuf,
}

impl IndexFolder {
    pub(crate) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// Opens the index and reads it completely. A damaged one is repaired or replaced by an empty
    /// one; only the machine's refusal is an error.
    pub(crate) fn open_index(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<(Index, IndexRows), Diagnostic> {
        let first = match Index::open_and_read(&self.index()) {
            Ok(opened) => return Ok(opened),
            Err(why) => why.or_refuse(&self.index())?,
        };
        // A damaged snapshot is only a shortcut into the log; without it nothing is lost.
        self.quarantine_snapshots().map_err(|e| self.failed(&e))?;
        notes.push(format!("index: moved its snapshot to quarantine: {first}"));
        match Index::open_and_read(&self.index()) {
            Ok(opened) => return Ok(opened),
            Err(why) => notes.push(format!("index: {}", why.or_refuse(&self.index())?)),
        }
        self.start_empty(notes)
    }

    fn start_empty(&self, notes: &mut Vec<String>) -> Result<(Index, IndexRows), Diagnostic> {
        self.quarantine_index().map_err(|e| self.failed(&e))?;
        notes.push("index: moved to quarantine".to_owned());
        Index::open_and_read(&self.index()).map_err(|why| self.failed(&why))
    }

    /// Makes the index equal to the journal: by the last few changes if it is merely behind, by
    /// building it anew otherwise.
    pub(crate) fn agree(
        &self,
        index: Index,
        rows: &IndexRows,
        known_seq: u64,
        truth: &mut Reading,
        is_packed: impl Fn(&str) -> bool,
    ) -> Result<Index, Diagnostic> {
        let wanted = rows_of(&truth.live, truth.last_seq);
        let behind = |key: &Vec<u8>| {
            let changed = truth.changed_seq(id_of(key));
            // Packing changes no job, so it may be the change that is missing.
            key.starts_with(b"meta/")
                || key.starts_with(b"by_")
                || changed.is_some_and(|seq| seq > known_seq)
                || is_packed(id_of(key))
        };
        let change = difference(rows, &wanted);
        let only_behind =
            change.remove.iter().chain(change.insert.iter().map(|r| &r.0)).all(behind);
        let content: usize = wanted.iter().map(|(key, value)| key.len() + value.len()).sum();
        let bloated = is_bloated(index.size_bytes().map_err(|why| self.failed(&why))?, content);
        // A process that ends leaves an index without the last changes, which is no damage. More than
        // those means that the index lost what it had.
        let lossy = known_seq + UNWRITTEN_MAX < truth.last_seq;
        if only_behind && !lossy && !bloated {
            index.fill(change).map_err(|why| self.failed(&why))?;
            return Ok(index);
        }
        drop(index);
        let why = match (lossy, bloated) {
            (true, _) => format!("it ended with change {known_seq} of {}", truth.last_seq),
            (false, true) => "it took too much space".to_owned(),
            (false, false) => "it contradicted the journal".to_owned(),
        };
        truth.notes.push(format!("index: built anew for {} jobs: {why}", truth.live.len()));
        let (index, rows) = self.start_empty(&mut truth.notes)?;
        index.fill(difference(&rows, &wanted)).map_err(|why| self.failed(&why))?;
        Ok(index)
    }

    /// An index of these jobs in place of the one that is there, which must be closed.
    pub(crate) fn build(&self, live: &Entries, last_seq: u64) -> Result<Index, Diagnostic> {
        fs::remove_dir_all(self.index()).map_err(|e| self.failed(&e))?;
        crash::point("index removed");
        let (index, rows) = Index::open_and_read(&self.index()).map_err(|why| self.failed(&why))?;
        let wanted = rows_of(live, last_seq);
        index.fill(difference(&rows, &wanted)).map_err(|why| self.failed(&why))?;
        crash::point("index built");
        Ok(index)
    }

    /// Replaces the snapshots of an earlier time: one set is enough to look at.
    fn quarantine_snapshots(&self) -> io::Result<()> {
        let quarantine = self.quarantine()?;
        for earlier in snapshots(&quarantine)? {
            fs::remove_file(earlier)?;
        }
        for path in snapshots(&self.index())? {
            let name = path.file_name().unwrap_or_default();
            fs::rename(&path, quarantine.join(name))?;
        }
        Ok(())
    }

    fn quarantine_index(&self) -> io::Result<()> {
        let quarantine = self.quarantine()?;
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir(&quarantine)? {
            let name = entry?.file_name();
            numbers
                .extend(name.to_str().and_then(|n| n.strip_prefix("index.")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let next = numbers.last().map_or(1, |last| last + 1);
        fs::rename(self.index(), quarantine.join(format!("index.{next}")))?;
        for old in numbers.iter().rev().skip(QUARANTINED_MAX - 1) {
            fs::remove_dir_all(quarantine.join(format!("index.{old}")))?;
        }
        Ok(())
    }

    fn quarantine(&self) -> io::Result<PathBuf> {
        let path = self.dir.join("quarantine");
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    fn failed(&self, why: &impl std::fmt::Display) -> Diagnostic {
        let index = self.index();
        Diagnostic::new(Code::Disk, format!("Cannot use the index {}: {why}", index.display()))
    }
}

/// sled frees little space by itself; building it anew is the only compaction there is.
fn is_bloated(index_bytes: u64, content_bytes: usize) -> bool {
    index_bytes > INDEX_BYTES_MAX.max(SLACK * content_bytes as u64)
}

fn snapshots(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// What has to change to get from `rows` to `wanted`.
fn difference(rows: &IndexRows, wanted: &IndexRows) -> RowChange {
    let remove = rows.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
    let insert = wanted.iter().filter(|(key, value)| rows.get(*key) != Some(*value));
    let insert = insert.map(|(key, value)| (key.clone(), value.clone())).collect();
    RowChange { remove, insert }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_indexes_are_never_bloated() {
        assert!(!is_bloated(64 << 20, 0));
        assert!(is_bloated((64 << 20) + 1, 1 << 20));
        assert!(!is_bloated(200 << 20, 10 << 20));
        assert!(is_bloated((200 << 20) + 1, 10 << 20));
    }
}
