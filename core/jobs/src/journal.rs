//! The append-only journal: the truth from which the index can be built again.
//!
//! `journal/NNNN.log` starts with an image of all jobs at hand; every change follows as one record
//! and is on the disk before it is acknowledged. Two files are kept, so the image has a second
//! source. Packed jobs are not in it: it names the packs in force.

use crate::crash;
use crate::frame::{FrameKind, JournalFrame, push, scan};
use crate::record::{RecordError, decode};
use crate::store::StoreError;
use onnxd_diagnostics::{Code, Diagnostic};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Changes after which a new file begins; an image larger than that may be followed by as much.
const CHANGES_BYTES_MAX: u64 = 4 << 20;
/// A file beyond this is not ours.
const FILE_BYTES_MAX: u64 = 1 << 30;
const FILES_KEPT: u64 = 2;

/// One change, ready to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JournalChange<'a> {
    Put {
        record: &'a [u8],
    },
    Remove {
        id: &'a str,
    },
    /// From here on these packs are in force.
    Packs {
        numbers: &'a [u64],
    },
}

/// What a file starts with: all that the files before it said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image<'a> {
    /// Jobs at hand, with the sequence numbers of their last changes.
    pub(crate) jobs: Vec<(u64, &'a [u8])>,
    /// Ids of dropped jobs that a pack still holds.
    pub(crate) gone: Vec<String>,
    pub(crate) packs: Vec<u64>,
}

impl<'a> Image<'a> {
    pub(crate) fn from_jobs(
        jobs: impl Iterator<Item = &'a JournalEntry>,
        gone: Vec<String>,
        packs: Vec<u64>,
    ) -> Image<'a> {
        let jobs = jobs.map(|e| (e.seq, e.record.as_slice())).collect();
        Image { jobs, gone, packs }
    }

    fn frames(&self, last_seq: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        // The packs are one more.
        let count = (self.jobs.len() + self.gone.len() + 1) as u64;
        push(&mut bytes, last_seq, FrameKind::ImageBegin, &count.to_le_bytes());
        for (seq, record) in &self.jobs {
            push(&mut bytes, *seq, FrameKind::ImageEntry, record);
        }
        for id in &self.gone {
            push(&mut bytes, last_seq, FrameKind::ImageGone, id.as_bytes());
        }
        push(&mut bytes, last_seq, FrameKind::Packs, &numbers_as_bytes(&self.packs));
        push(&mut bytes, last_seq, FrameKind::ImageEnd, &[]);
        bytes
    }
}

fn numbers_as_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The record of a live job and the sequence number of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalEntry {
    pub(crate) seq: u64,
    pub(crate) record: Vec<u8>,
}

pub(crate) type Entries = BTreeMap<String, JournalEntry>;

/// What the journal says.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) live: Entries,
    /// Dropped jobs that the index or a pack may still hold, with the change that dropped them.
    pub(crate) removed: BTreeMap<String, u64>,
    /// The packs in force; `None` if no file says, as in journals of an onnxd without packs.
    pub(crate) packs: Option<Vec<u64>>,
    pub(crate) last_seq: u64,
    /// Changes may be missing; the index may know them.
    pub(crate) damaged: bool,
    pub(crate) notes: Vec<String>,
    newest: Option<Newest>,
}

#[derive(Debug)]
struct Newest {
    number: u64,
    file_bytes: u64,
    readable_bytes: u64,
    image_bytes: u64,
}

/// The file that takes further changes.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    number: u64,
    file: File,
    bytes: u64,
    image_bytes: u64,
    last_seq: u64,
}

/// Reads all files and changes none.
pub(crate) fn read(dir: &Path) -> Result<Reading, Diagnostic> {
    let mut reading = Reading::default();
    for number in numbers(dir).map_err(|e| disk("read", dir, &e))? {
        let path = path_of(dir, number);
        let bytes = read_bounded(&path).map_err(|e| disk("read", &path, &e))?;
        reading.add(&path, number, &bytes)?;
    }
    Ok(reading)
}

impl Reading {
    fn add(&mut self, path: &Path, number: u64, bytes: &[u8]) -> Result<(), Diagnostic> {
        let scan = scan(bytes);
        for hole in &scan.holes {
            let (from, count) = (hole.start, hole.len());
            self.note(path, &format!("{count} bytes from byte {from} on are unreadable"));
        }
        if !scan.frames.first().is_some_and(|f| f.kind == Some(FrameKind::ImageBegin)) {
            self.damage(path, "the image of all jobs is missing");
        }
        let mut image_bytes = 0;
        let mut in_image = false;
        for (at, frame) in scan.frames.iter().enumerate() {
            let Some(kind) = frame.kind else { return Err(newer(path)) };
            match kind {
                FrameKind::ImageBegin => self.begin_image(path, frame, &scan.frames[at + 1..]),
                FrameKind::ImageEntry => image_bytes += frame.payload.len() as u64,
                FrameKind::Packs if in_image => {}
                FrameKind::Put | FrameKind::Remove | FrameKind::Packs => {
                    self.follow(path, frame.seq);
                }
                FrameKind::ImageGone | FrameKind::ImageEnd => {}
                FrameKind::Records | FrameKind::Kept | FrameKind::Contents => {
                    return Err(newer(path));
                }
            }
            match kind {
                FrameKind::ImageEntry | FrameKind::Put => self.put(path, frame)?,
                FrameKind::ImageGone | FrameKind::Remove => self.remove(frame),
                FrameKind::Packs => self.packs = Some(numbers_of(frame.payload)),
                _ => {}
            }
            in_image = matches!(
                kind,
                FrameKind::ImageBegin | FrameKind::ImageEntry | FrameKind::ImageGone
            );
        }
        let (file_bytes, readable_bytes) = (bytes.len() as u64, scan.end as u64);
        if readable_bytes < file_bytes {
            let cut = file_bytes - readable_bytes;
            self.note(path, &format!("the last {cut} bytes are an incomplete record"));
        }
        self.newest = Some(Newest { number, file_bytes, readable_bytes, image_bytes });
        Ok(())
    }

    /// A complete image replaces everything before it.
    fn begin_image(&mut self, path: &Path, begin: &JournalFrame<'_>, rest: &[JournalFrame<'_>]) {
        let announced = <[u8; 8]>::try_from(begin.payload).map(u64::from_le_bytes).ok();
        let is_entry = |f: &&JournalFrame| {
            matches!(f.kind, Some(FrameKind::ImageEntry | FrameKind::ImageGone | FrameKind::Packs))
        };
        let entries = rest.iter().take_while(is_entry).count();
        let ended = rest.get(entries).is_some_and(|f| f.kind == Some(FrameKind::ImageEnd));
        if !ended || announced != Some(entries as u64) || begin.seq < self.last_seq {
            self.damage(path, "the image of all jobs is incomplete");
            return;
        }
        self.live.clear();
        self.removed.clear();
        self.packs = None;
        self.damaged = false;
        self.last_seq = begin.seq;
    }

    fn follow(&mut self, path: &Path, seq: u64) {
        if seq != self.last_seq + 1 {
            let last = self.last_seq;
            self.damage(path, &format!("changes between {last} and {seq} are missing"));
        }
        self.last_seq = self.last_seq.max(seq);
    }

    fn put(&mut self, path: &Path, frame: &JournalFrame<'_>) -> Result<(), Diagnostic> {
        let job = match decode(frame.payload) {
            Ok(job) => job,
            Err(RecordError::Newer(_)) => return Err(newer(path)),
            Err(RecordError::Damaged) => {
                self.damage(path, &format!("change {} is unreadable", frame.seq));
                return Ok(());
            }
        };
        if self.changed_seq(&job.id).is_none_or(|seq| seq < frame.seq) {
            self.removed.remove(&job.id);
            self.live
                .insert(job.id, JournalEntry { seq: frame.seq, record: frame.payload.to_vec() });
        }
        Ok(())
    }

    fn remove(&mut self, frame: &JournalFrame<'_>) {
        let id = String::from_utf8_lossy(frame.payload).into_owned();
        if self.changed_seq(&id).is_none_or(|seq| seq < frame.seq) {
            self.live.remove(&id);
            self.removed.insert(id, frame.seq);
        }
    }

    /// The last change of a job, its removal included.
    pub(crate) fn changed_seq(&self, id: &str) -> Option<u64> {
        self.live.get(id).map(|e| e.seq).or_else(|| self.removed.get(id).copied())
    }

    /// Takes from the index what damage took from the journal.
    pub(crate) fn merge(&mut self, index: &Entries, index_last_seq: u64) {
        for (id, entry) in index {
            if self.changed_seq(id).is_none_or(|seq| seq < entry.seq) {
                self.removed.remove(id);
                self.live.insert(id.clone(), entry.clone());
            }
        }
        self.last_seq = self.last_seq.max(index_last_seq);
        self.damaged = true;
    }

    fn note(&mut self, path: &Path, what: &str) {
        self.notes.push(format!("{}: {what}", path.display()));
    }

    fn damage(&mut self, path: &Path, what: &str) {
        self.damaged = true;
        self.note(path, what);
    }
}

impl Journal {
    /// Continues after what was read: in the same file behind its last readable record, or, after
    /// damage or if `afresh`, in a new file that starts with a sound image.
    pub(crate) fn resume(
        dir: &Path,
        reading: &Reading,
        image: &Image<'_>,
        afresh: bool,
    ) -> Result<Journal, StoreError> {
        // A file without packs is continued by nothing that an older onnxd would misread.
        let afresh = afresh || reading.damaged || reading.packs.is_none();
        let number = reading.newest.as_ref().map_or(0, |newest| newest.number);
        let Some(newest) = reading.newest.as_ref().filter(|_| !afresh) else {
            return Journal::begin(dir, number + 1, reading.last_seq, image);
        };
        let path = path_of(dir, number);
        let reopen = || -> io::Result<File> {
            let file = OpenOptions::new().append(true).open(&path)?;
            if newest.readable_bytes < newest.file_bytes {
                file.set_len(newest.readable_bytes)?;
                file.sync_all()?;
            }
            Ok(file)
        };
        let file = reopen().map_err(|e| StoreError::refused(disk("open", &path, &e)))?;
        let (bytes, image_bytes) = (newest.readable_bytes, newest.image_bytes);
        let dir = dir.to_owned();
        Ok(Journal { dir, number, file, bytes, image_bytes, last_seq: reading.last_seq })
    }

    /// Starts file `number` with an image; it appears complete or not at all.
    fn begin(
        dir: &Path,
        number: u64,
        last_seq: u64,
        image: &Image<'_>,
    ) -> Result<Journal, StoreError> {
        let bytes = image.frames(last_seq);
        let path = path_of(dir, number);
        let unfinished = path.with_extension("new");
        let write = || -> io::Result<File> {
            fs::create_dir_all(dir)?;
            remove_if_there(&unfinished)?;
            let mut file = OpenOptions::new().append(true).create_new(true).open(&unfinished)?;
            file.write_all(&bytes)?;
            crash::point("journal written");
            file.sync_all()?;
            crash::point("journal synced");
            Ok(file)
        };
        let file = write().map_err(|e| StoreError::refused(disk("write", &unfinished, &e)))?;
        // From the rename on there is no way back: the older file may no longer be continued.
        let publish = || -> io::Result<()> {
            fs::rename(&unfinished, &path)?;
            crash::point("journal renamed");
            File::open(dir)?.sync_all()?;
            crash::point("journal in place");
            let outdated = |n: &u64| n + FILES_KEPT <= number;
            numbers(dir)?
                .iter()
                .filter(|n| outdated(n))
                .try_for_each(|n| fs::remove_file(path_of(dir, *n)))
        };
        publish().map_err(|e| StoreError::fatal(disk("write", &path, &e)))?;
        let bytes = bytes.len() as u64;
        Ok(Journal { dir: dir.to_owned(), number, file, bytes, image_bytes: bytes, last_seq })
    }

    /// Whether the next change should go to a new file.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes - self.image_bytes.min(self.bytes) >= CHANGES_BYTES_MAX.max(self.image_bytes)
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes on in a new file that starts with `image`.
    pub(crate) fn rotate(&mut self, image: &Image<'_>) -> Result<(), StoreError> {
        *self = Journal::begin(&self.dir, self.number + 1, self.last_seq, image)?;
        Ok(())
    }

    /// Goes on in a new file, and leaves none before it that is longer than its image.
    pub(crate) fn shrink(&mut self, image: &Image<'_>) -> Result<(), StoreError> {
        (0..FILES_KEPT).try_for_each(|_| self.rotate(image))
    }

    /// Writes changes to the disk; the sequence number of the first. They are acknowledged by the
    /// return, not before.
    pub(crate) fn append(&mut self, changes: &[JournalChange<'_>]) -> Result<u64, StoreError> {
        let first = self.last_seq + 1;
        let mut bytes = Vec::new();
        for (seq, change) in (first..).zip(changes) {
            match change {
                JournalChange::Put { record } => push(&mut bytes, seq, FrameKind::Put, record),
                JournalChange::Remove { id } => {
                    push(&mut bytes, seq, FrameKind::Remove, id.as_bytes());
                }
                JournalChange::Packs { numbers } => {
                    push(&mut bytes, seq, FrameKind::Packs, &numbers_as_bytes(numbers));
                }
            }
        }
        let path = path_of(&self.dir, self.number);
        if let Err(e) = self.file.write_all(&bytes) {
            let failed = disk("write", &path, &e);
            // A full disk may pass; half a record must not stay before the next one.
            let undone = self.file.set_len(self.bytes);
            return Err(StoreError { fatal: undone.is_err(), diagnostic: failed });
        }
        crash::point("change written");
        // After a failed sync the content of the disk is unknown.
        self.file.sync_data().map_err(|e| StoreError::fatal(disk("write", &path, &e)))?;
        crash::point("change synced");
        self.bytes += bytes.len() as u64;
        self.last_seq += changes.len() as u64;
        Ok(first)
    }
}

fn numbers_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:04}.log"))
}

/// Numbers of the files, ascending.
fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|n| n.strip_suffix(".log")?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::metadata(path)?.len();
    if bytes > FILE_BYTES_MAX {
        let message = format!("{bytes} bytes, the limit is {FILE_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    fs::read(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn disk(verb: &str, path: &Path, e: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::Disk, format!("Cannot {verb} {}: {e}", path.display()))
}

/// Refuses a journal that a newer onnxd wrote.
pub(crate) fn newer(path: &Path) -> Diagnostic {
    let message = format!("{} was written by a newer onnxd", path.display());
    Diagnostic::new(Code::StoreVersion, message)
}

#[cfg(test)]
mod tests;
