//! The store on disk: a journal, sled as an index over it, and packs of finished jobs.
//!
//! sled's `flush` does not reach the disk on Linux and a damaged database may open without its
//! jobs, so the journal is the truth: append and sync, then memory, then acknowledge. sled follows
//! after some changes. On opening it is compared with the journal row by row.
//!
//! Finished jobs leave both for packs: a pack is written and synced, then the journal says that it
//! is in force, then the index forgets the jobs. A job that is changed again comes back.

use crate::at_hand::AtHand;
use crate::digests;
use crate::finished::Finished;
use crate::id::beginning_with;
use crate::index::{Index, RowChange, UNWRITTEN_MAX};
use crate::journal::{Image, Journal, JournalChange, JournalEntry};
use crate::layout::{LAST_SEQ, job_key, value_of};
use crate::lock::Lock;
use crate::pack::{PackRow, PackedJob};
use crate::record::{decode, encode};
use crate::repair::IndexFolder;
use crate::step::is_finished;
use crate::store::{Brief, Destination, Store, StoreError, admit};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::{Job, JobState, Kept};
use prost::Message;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use ulid::Ulid;

/// What the journal may hold beside its image after packing.
const JOURNAL_SLACK_BYTES: u64 = 64 << 10;
/// What the index may take after packing, and how many times its content.
const INDEX_SLACK_BYTES: u64 = 2 << 20;
const INDEX_SLACK: u64 = 8;

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
    journal: Journal,
    finished: Finished,
    at_hand: AtHand,
    index: Index,
    /// Jobs whose rows the index has to follow, and changes since it did.
    changed: BTreeSet<String>,
    behind: u64,
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

    /// The journal, then memory, and now and then the index. Nothing is acknowledged before.
    /// `follow` gets the number of the first change.
    fn commit(
        &mut self,
        changes: &[JournalChange<'_>],
        follow: impl FnOnce(&mut Files, u64),
    ) -> Result<(), StoreError> {
        let done = self.write(changes, follow);
        if let Err(StoreError { fatal: true, diagnostic }) = &done {
            self.broken = Some(diagnostic.clone());
        }
        done
    }

    fn write(
        &mut self,
        changes: &[JournalChange<'_>],
        follow: impl FnOnce(&mut Files, u64),
    ) -> Result<(), StoreError> {
        if self.files()?.journal.is_full() {
            self.rotate(Journal::rotate)?;
        }
        let files = self.files_mut()?;
        let first = files.journal.append(changes)?;
        follow(files, first);
        files.behind += changes.len() as u64;
        if files.behind >= UNWRITTEN_MAX { files.write_index() } else { Ok(()) }
    }

    fn put(&mut self, job: &Job, record: Vec<u8>) -> Result<(), StoreError> {
        // Two of the same: one goes to the disk and one stays.
        self.commit(&[JournalChange::Put { record: &record.clone() }], |files, seq| {
            files.at_hand.put(job, JournalEntry { seq, record });
            files.changed.insert(job.id.clone());
        })
    }

    fn files_mut(&mut self) -> Result<&mut Files, StoreError> {
        self.files()?;
        self.files.as_mut().ok_or_else(|| StoreError::fatal(closed()))
    }

    /// Goes on in a new file of the journal.
    fn rotate(
        &mut self,
        how: fn(&mut Journal, &Image<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Files { journal, finished, at_hand, .. } = self.files_mut()?;
        how(journal, &finished.image(at_hand.entries()))
    }

    /// A job at hand.
    fn load(&self, id: &str) -> Result<Option<Job>, StoreError> {
        self.files()?.at_hand.entry(id).map(job_of).transpose()
    }

    /// Whether the job is stored as it is here. Equal bytes save decoding them.
    fn holds(&self, job: &Job) -> Result<bool, StoreError> {
        match self.files()?.at_hand.entry(&job.id) {
            Some(entry) if entry.record == encode(job) => Ok(true),
            _ => Ok(self.get(&job.id)?.as_ref() == Some(job)),
        }
    }

    fn load_packed(&self, row: &PackRow) -> Result<Job, StoreError> {
        self.files()?.finished.job(row).map_err(StoreError::refused)
    }

    fn packed_row(&self, id: &str) -> Option<&PackRow> {
        self.files.as_ref()?.finished.row(id)
    }

    /// The newest job with this digest that is `wanted`.
    fn find(&self, digest: u64, wanted: impl Fn(&Job) -> bool) -> Result<Option<Job>, StoreError> {
        let files = self.files()?;
        let mut newest = None;
        for id in files.at_hand.with_digest(digest).filter(|_| digest != 0) {
            newest = self.load(id)?.filter(&wanted);
            if newest.is_some() {
                break;
            }
        }
        let packed = files.finished.find(digest, wanted).map_err(StoreError::refused)?;
        Ok(packed.into_iter().chain(newest).max_by(|a, b| a.id.cmp(&b.id)))
    }

    /// Those of `jobs` that may be packed.
    fn items(&self, jobs: &[(String, Kept)]) -> Result<Vec<PackedJob>, StoreError> {
        let mut items = BTreeMap::new();
        for (id, kept) in jobs {
            let Some(entry) = self.files()?.at_hand.entry(id) else { continue };
            let job = job_of(entry)?;
            if is_finished(job.state()) {
                let kept = kept.encode_to_vec();
                items.insert(id, PackedJob::new(entry.seq, &job, entry.record.clone(), kept));
            }
        }
        Ok(items.into_values().flatten().collect())
    }

    /// Frees the space that packed and dropped jobs have taken.
    fn shrink(&mut self) -> Result<(), StoreError> {
        let files = self.files()?;
        let content = files.at_hand.bytes() as u64;
        if files.journal.file_bytes() > JOURNAL_SLACK_BYTES.max(2 * content) {
            self.rotate(Journal::shrink)?;
        }
        let index_bytes = self.files()?.index.size_bytes().map_err(unusable)?;
        if index_bytes > INDEX_SLACK_BYTES.max(INDEX_SLACK * content) {
            self.rebuild_index()?;
        }
        Ok(())
    }

    fn rebuild_index(&mut self) -> Result<(), StoreError> {
        let place = IndexFolder { dir: self.dir.clone() };
        let Files { journal, finished, at_hand, index, .. } =
            self.files.take().ok_or_else(|| StoreError::fatal(closed()))?;
        // The index holds a lock of its own until it is dropped.
        drop(index);
        let entries = at_hand.entries().map(|(id, entry)| (id.to_owned(), entry.clone()));
        match place.build(&entries.collect(), journal.last_seq()) {
            Ok(index) => {
                let (changed, behind) = (BTreeSet::new(), 0);
                self.files = Some(Files { journal, finished, at_hand, index, changed, behind });
                Ok(())
            }
            Err(why) => {
                self.broken = Some(why.clone());
                Err(StoreError::fatal(why))
            }
        }
    }

    fn remove_dead_packs(&mut self) -> Result<(), StoreError> {
        let finished = &self.files()?.finished;
        let dead = finished.dead();
        if dead.is_empty() {
            return Ok(());
        }
        let left = finished.numbers().into_iter().filter(|number| !dead.contains(number));
        let numbers: Vec<u64> = left.collect();
        self.commit(&[JournalChange::Packs { numbers: &numbers }], |files, _| {
            files.finished.remove_packs(&dead);
        })
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        if let (None, Some(files)) = (&self.broken, &mut self.files) {
            // What the index lacks, the next start adds from the journal.
            let _ = files.write_index();
        }
    }
}

impl Store for SledStore {
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError> {
        match self.load(id)? {
            None => self.packed_row(id).map(|row| self.load_packed(row)).transpose(),
            at_hand => Ok(at_hand),
        }
    }

    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError> {
        let record = admit(job)?;
        if self.files()?.at_hand.entry(&job.id).is_some() || self.is_packed(&job.id) {
            return Ok(false);
        }
        self.put(job, record)?;
        Ok(true)
    }

    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError> {
        let record = admit(new)?;
        if old.id != new.id || !self.holds(old)? {
            return Ok(false);
        }
        self.put(new, record)?;
        self.files_mut()?.finished.forget(&new.id);
        Ok(true)
    }

    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError> {
        let files = self.files()?;
        let packed = files.finished.rows().filter(|row| state.is_none_or(|s| row.state() == s));
        let packed = packed.map(|row| self.load_packed(row));
        let ids = match state {
            Some(state) => files.at_hand.in_turn(state),
            None => files.at_hand.entries().map(|(id, _)| id).collect(),
        };
        let at_hand = ids.into_iter().map(|id| self.load(id)?.ok_or_else(dangling));
        let mut jobs = at_hand.chain(packed).collect::<Result<Vec<Job>, StoreError>>()?;
        let rank = |job: &Job| state.map(|_| Reverse(job.priority));
        jobs.sort_by(|a, b| (rank(a), &a.id).cmp(&(rank(b), &b.id)));
        Ok(jobs)
    }

    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError> {
        let same = |job: &Job| job.state() == JobState::Succeeded && job.identity == identity;
        self.find(digests::of_identity(identity), same)
    }

    fn find_result(&self, to: &Destination<'_>) -> Result<Option<Job>, StoreError> {
        let fills = |job: &Job| Destination::filled_by(job).as_ref() == Some(to);
        self.find(digests::of_result(to), fills)
    }

    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        let files = self.files()?;
        let there = |id: &&str| files.at_hand.entry(id).is_some() || self.is_packed(id);
        let ids: BTreeSet<&str> = ids.iter().copied().filter(there).collect();
        if ids.is_empty() {
            return Ok(0);
        }
        let changes: Vec<JournalChange<'_>> =
            ids.iter().map(|id| JournalChange::Remove { id }).collect();
        self.commit(&changes, |files, _| {
            for id in &ids {
                files.at_hand.remove(id);
                files.finished.forget(id);
                files.changed.insert((*id).to_owned());
            }
        })?;
        self.remove_dead_packs()?;
        Ok(ids.len())
    }

    fn briefs(&self) -> Result<Vec<Brief>, StoreError> {
        let packed = self.files()?.finished.rows().map(|row| Brief {
            id: Ulid(row.id).to_string(),
            state: row.state(),
            finished_ms: row.finished_ms,
        });
        let mut briefs: Vec<Brief> = packed.collect();
        for (_, entry) in self.files()?.at_hand.entries() {
            briefs.push(Brief::of(&job_of(entry)?));
        }
        briefs.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(briefs)
    }

    fn at_hand(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.files()?.at_hand.entries().map(|(id, _)| id.to_owned()).collect())
    }

    fn packed_counts(&self) -> BTreeMap<JobState, usize> {
        let mut counts = BTreeMap::new();
        let rows = self.files.iter().flat_map(|files| files.finished.rows());
        rows.for_each(|row| *counts.entry(row.state()).or_default() += 1);
        counts
    }

    fn is_packed(&self, id: &str) -> bool {
        self.packed_row(id).is_some()
    }

    fn page(
        &self,
        state: Option<JobState>,
        below: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let files = self.files()?;
        let at_hand = files.at_hand.ids_below(state, below).take(limit);
        let mut ids: Vec<String> = at_hand.map(str::to_owned).collect();
        let end = below.and_then(|id| Ulid::from_string(id).ok()).map_or(u128::MAX, |id| id.0);
        let packed = files.finished.rows_below(end);
        let packed = packed.filter(|row| state.is_none_or(|state| row.state() == state));
        ids.extend(packed.take(limit).map(|row| Ulid(row.id).to_string()));
        ids.sort_by(|a, b| b.cmp(a));
        ids.truncate(limit);
        ids.iter().map(|id| self.get(id)?.ok_or_else(dangling)).collect()
    }

    fn ids_beginning_with(&self, letters: &str) -> Result<Vec<String>, StoreError> {
        let letters = letters.to_ascii_uppercase();
        let at_hand = self.files()?.at_hand.entries().map(|(id, _)| id.to_owned());
        let mut ids: Vec<String> = at_hand.filter(|id| id.starts_with(&letters)).collect();
        if let Some(range) = beginning_with(&letters) {
            let rows = self.files()?.finished.rows_within(range);
            ids.extend(rows.map(|row| Ulid(row.id).to_string()));
        }
        ids.sort();
        Ok(ids)
    }

    fn newest(&self) -> Result<Option<String>, StoreError> {
        let files = self.files()?;
        let at_hand = files.at_hand.ids_below(None, None).next().map(str::to_owned);
        let packed = files.finished.rows().next_back().map(|row| Ulid(row.id).to_string());
        Ok(at_hand.max(packed))
    }

    fn pack(&mut self, jobs: &[(String, Kept)]) -> Result<usize, StoreError> {
        let items = self.items(jobs)?;
        if items.is_empty() {
            return Ok(0);
        }
        let made = self.files()?.finished.make(&items).map_err(StoreError::refused)?;
        let numbers = made.numbers(&self.files()?.finished);
        let ids: Vec<String> = items.iter().map(|item| Ulid(item.row.id).to_string()).collect();
        let mut made = Some(made);
        let follow = |files: &mut Files, _| {
            for id in ids {
                files.at_hand.remove(&id);
                files.changed.insert(id);
            }
            made.take().into_iter().for_each(|made| files.finished.adopt(made));
        };
        if let Err(e) = self.commit(&[JournalChange::Packs { numbers: &numbers }], follow) {
            // After a fatal failure the journal tells whether it is in force.
            if let (false, Some(files), Some(made)) = (e.fatal, &self.files, &made) {
                files.finished.discard(made);
            }
            return Err(e);
        }
        match self.shrink() {
            Err(e) if e.fatal => Err(e),
            // Packed they are, and the next packing frees the space.
            _ => Ok(items.len()),
        }
    }

    fn kept(&self, id: &str) -> Result<Option<Kept>, StoreError> {
        let kept = self
            .packed_row(id)
            .map(|row| self.files()?.finished.kept(row).map_err(StoreError::refused));
        kept.transpose()
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
    /// Makes the index follow all changes.
    fn write_index(&mut self) -> Result<(), StoreError> {
        let mut rows = RowChange::default();
        for id in std::mem::take(&mut self.changed) {
            match self.at_hand.entry(&id) {
                Some(entry) => rows.insert.push((job_key(&id), value_of(entry.seq, &entry.record))),
                None => rows.remove.push(job_key(&id)),
            }
        }
        let last_seq = self.journal.last_seq().to_be_bytes();
        rows.insert.push((LAST_SEQ.to_vec(), last_seq.to_vec()));
        self.behind = 0;
        self.index.write(&rows).map_err(unusable)
    }
}

fn job_of(entry: &JournalEntry) -> Result<Job, StoreError> {
    decode(&entry.record).map_err(|_| unusable("a record is unreadable".to_owned()))
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

mod opening;
#[cfg(test)]
mod packs_tests;
#[cfg(test)]
mod tests;
