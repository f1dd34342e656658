//! The store on disk: sled as an index over the journal.
//!
//! sled's `flush` does not reach the disk on Linux and a damaged database may open without its
//! jobs, so the journal is the truth: append and sync, then sled, then acknowledge. On opening both
//! are compared row by row.

use crate::journal::{self, Change, Entries, Journal};
use crate::layout::{
    JOBS, LAST_SEQ, Rows, id_of, identity_prefix, index_keys, job_key, parse_rows, parse_value,
    state_prefix, value_of,
};
use crate::lock::Lock;
use crate::record::{RecordError, decode};
use crate::repair::Place;
use crate::store::{Store, StoreError, admit};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::{Job, JobState};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CACHE_BYTES: u64 = 32 << 20;
/// Rows written at once when the index is built.
const ROWS_PER_BATCH: usize = 1_000;
const RELEASE_MAX: Duration = Duration::from_secs(5);
const RELEASE_POLL: Duration = Duration::from_millis(2);

/// Jobs in a state folder. One process at a time.
pub struct SledStore {
    dir: PathBuf,
    /// None while `mend` fails.
    files: Option<Files>,
    /// Set by a failure after which the content of the files is unknown.
    broken: Option<Diagnostic>,
    _lock: Lock,
}

struct Files {
    index: Index,
    journal: Journal,
}

impl SledStore {
    /// Opens or creates the store in `dir`, and says what had to be repaired.
    pub fn open(dir: &Path) -> Result<(SledStore, Vec<String>), Diagnostic> {
        let folder = |e: io::Error| {
            Diagnostic::new(Code::Disk, format!("Cannot use {}: {e}", dir.display()))
        };
        fs::create_dir_all(dir).map_err(folder)?;
        let lock = Lock::take(dir)?;
        let (files, notes) = Files::open(dir, false)?;
        let store =
            SledStore { dir: dir.to_owned(), files: Some(files), broken: None, _lock: lock };
        Ok((store, notes))
    }

    fn files(&self) -> Result<&Files, StoreError> {
        match (&self.broken, &self.files) {
            (None, Some(files)) => Ok(files),
            (why, _) => Err(StoreError::fatal(why.clone().unwrap_or_else(closed))),
        }
    }

    /// Journal, then index. Nothing is acknowledged before both have it.
    fn commit(&mut self, changes: &[(Change<'_>, RowChange)]) -> Result<(), StoreError> {
        let done = self.write(changes);
        if let Err(StoreError { fatal: true, diagnostic }) = &done {
            self.broken = Some(diagnostic.clone());
        }
        done
    }

    fn write(&mut self, changes: &[(Change<'_>, RowChange)]) -> Result<(), StoreError> {
        if self.files()?.journal.is_full() {
            let image = self.image()?;
            self.files_mut()?.journal.rotate(&image)?;
        }
        let records: Vec<Change<'_>> = changes.iter().map(|(change, _)| *change).collect();
        let files = self.files_mut()?;
        let first = files.journal.append(&records)?;
        let mut rows = RowChange::default();
        for (seq, (change, row_change)) in (first..).zip(changes) {
            rows.remove.extend_from_slice(&row_change.remove);
            rows.insert.extend_from_slice(&row_change.insert);
            if let (Change::Put { record }, Some(key)) = (change, &row_change.job) {
                rows.insert.push((key.clone(), value_of(seq, record)));
            }
        }
        let last_seq = first + changes.len() as u64 - 1;
        rows.insert.push((LAST_SEQ.to_vec(), last_seq.to_be_bytes().to_vec()));
        files.index.write(&rows).map_err(unusable)
    }

    fn files_mut(&mut self) -> Result<&mut Files, StoreError> {
        self.files()?;
        self.files.as_mut().ok_or_else(|| StoreError::fatal(closed()))
    }

    /// All live jobs; never fewer.
    fn image(&self) -> Result<Entries, StoreError> {
        let rows = self.files()?.index.rows().map_err(unusable)?;
        let jobs = rows.keys().filter(|key| key.starts_with(JOBS)).count();
        match parse_rows(&rows) {
            Ok((live, _)) if live.len() == jobs => Ok(live),
            _ => Err(unusable("a record is unreadable".to_owned())),
        }
    }

    fn load(&self, id: &str) -> Result<Option<Job>, StoreError> {
        let value = self.files()?.index.get(&job_key(id)).map_err(unusable)?;
        let Some(value) = value else { return Ok(None) };
        job_of(&value).map(Some)
    }
}

impl Store for SledStore {
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError> {
        self.load(id)
    }

    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError> {
        let record = admit(job)?;
        if self.get(&job.id)?.is_some() {
            return Ok(false);
        }
        self.commit(&[(Change::Put { record: &record }, RowChange::between(None, Some(job)))])?;
        Ok(true)
    }

    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError> {
        let record = admit(new)?;
        if old.id != new.id || self.get(&old.id)?.as_ref() != Some(old) {
            return Ok(false);
        }
        let rows = RowChange::between(Some(old), Some(new));
        self.commit(&[(Change::Put { record: &record }, rows)])?;
        Ok(true)
    }

    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError> {
        let index = &self.files()?.index;
        let Some(state) = state else {
            let rows = index.prefix(JOBS).map_err(unusable)?;
            return rows.iter().map(|(_, value)| job_of(value)).collect();
        };
        let keys = index.prefix(&state_prefix(state)).map_err(unusable)?;
        let jobs = keys.iter().map(|(key, _)| self.load(id_of(key))?.ok_or_else(dangling));
        jobs.collect()
    }

    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError> {
        let keys = self.files()?.index.prefix(&identity_prefix(identity)).map_err(unusable)?;
        let Some((key, _)) = keys.last() else { return Ok(None) };
        self.load(id_of(key))?.ok_or_else(dangling).map(Some)
    }

    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        let mut changes = Vec::new();
        for id in ids.iter().collect::<BTreeSet<_>>() {
            if let Some(job) = self.get(id)? {
                changes.push((Change::Remove { id }, RowChange::between(Some(&job), None)));
            }
        }
        if !changes.is_empty() {
            self.commit(&changes)?;
        }
        Ok(changes.len())
    }

    fn mend(&mut self) -> Result<Vec<String>, StoreError> {
        // The index holds a lock of its own until it is dropped.
        self.files = None;
        let (files, notes) = Files::open(&self.dir, true).map_err(StoreError::fatal)?;
        self.files = Some(files);
        self.broken = None;
        Ok(notes)
    }
}

impl Files {
    /// Opens both and makes them agree. `afresh` goes on in a new file of the journal: after a
    /// failed sync the memory of the system may show what the disk does not hold.
    fn open(dir: &Path, afresh: bool) -> Result<(Files, Vec<String>), Diagnostic> {
        let journal_dir = dir.join("journal");
        let mut truth = journal::read(&journal_dir)?;
        let place = Place { dir: dir.to_owned() };
        let (index, rows) = place.open_index(&mut truth.notes)?;
        let (known, known_seq) =
            parse_rows(&rows).map_err(|_: RecordError| journal::newer(&place.index()))?;
        if truth.damaged || known_seq > truth.last_seq {
            truth.notes.push(format!(
                "journal completed from the index: the journal ended with change {}, the index \
                 with {known_seq}",
                truth.last_seq
            ));
            truth.merge(&known, known_seq);
        }
        // The journal first: should the process end here, it already is the whole truth.
        let journal = Journal::resume(&journal_dir, &truth, afresh).map_err(|e| e.diagnostic)?;
        let index = place.agree(index, &rows, known_seq, &mut truth)?;
        Ok((Files { index, journal }, truth.notes))
    }
}

fn job_of(value: &[u8]) -> Result<Job, StoreError> {
    let job = parse_value(value).and_then(|(_, record)| decode(record).ok());
    job.ok_or_else(|| unusable("a record is unreadable".to_owned()))
}

fn closed() -> Diagnostic {
    Diagnostic::new(Code::Disk, "The job store could not be opened again")
}

fn dangling() -> StoreError {
    unusable("a job is listed but not there".to_owned())
}

/// What the index says after a failure is not trusted; opening builds it again.
// By value, so that it fits `map_err`.
#[allow(clippy::needless_pass_by_value)]
fn unusable(why: String) -> StoreError {
    StoreError::fatal(
        Diagnostic::new(Code::Disk, format!("The index of the job store failed: {why}"))
            .help("It is opened again and built anew from the journal once the disk permits."),
    )
}

/// Key and value.
type Row = (Vec<u8>, Vec<u8>);

/// Rows that one change of a job removes and inserts; the job's own row needs the change's number.
#[derive(Debug, Default)]
pub(crate) struct RowChange {
    pub(crate) remove: Vec<Vec<u8>>,
    pub(crate) insert: Vec<Row>,
    pub(crate) job: Option<Vec<u8>>,
}

impl RowChange {
    fn between(old: Option<&Job>, new: Option<&Job>) -> RowChange {
        let mut remove = old.map(index_keys).unwrap_or_default();
        let insert = new.map(index_keys).unwrap_or_default();
        remove.retain(|key| !insert.contains(key));
        if let (Some(old), None) = (old, new) {
            remove.push(job_key(&old.id));
        }
        let insert = insert.into_iter().map(|key| (key, Vec::new())).collect();
        RowChange { remove, insert, job: new.map(|job| job_key(&job.id)) }
    }
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
    pub(crate) fn open_and_read(path: &Path) -> Result<(Index, Rows), OpenError> {
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

    fn read(&self, prefix: &[u8]) -> sled::Result<Vec<Row>> {
        let rows = self.db.scan_prefix(prefix);
        rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
    }

    fn prefix(&self, prefix: &[u8]) -> Result<Vec<Row>, String> {
        guarded(|| self.read(prefix)).map_err(|e| e.to_string())
    }

    fn rows(&self) -> Result<Rows, String> {
        Ok(self.prefix(b"")?.into_iter().collect())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let get = || Ok(self.db.get(key)?.map(|value| value.to_vec()));
        guarded(get).map_err(|e| e.to_string())
    }

    pub(crate) fn size_bytes(&self) -> Result<u64, String> {
        guarded(|| self.db.size_on_disk()).map_err(|e| e.to_string())
    }

    /// One atomic batch, out of this process when the call returns.
    fn write(&self, rows: &RowChange) -> Result<(), String> {
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
        let is_last = |(key, _): &Row| key == LAST_SEQ;
        let last = change.insert.iter().position(is_last).map(|at| change.insert.swap_remove(at));
        for remove in change.remove.chunks(ROWS_PER_BATCH) {
            self.write(&RowChange { remove: remove.to_vec(), ..RowChange::default() })?;
        }
        for insert in change.insert.chunks(ROWS_PER_BATCH) {
            self.write(&RowChange { insert: insert.to_vec(), ..RowChange::default() })?;
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

#[cfg(test)]
mod tests;
