//! Finished jobs at rest are packed: their records leave journal and index, and what is kept of
//! their folders goes with them. So a daemon may remember a hundred thousand jobs.
//!
//! The store packs first, then the folder goes. A folder that a crash left behind is removed by the
//! next start, because the store says that its job is packed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use onnxd_proto::onnxd::{Job, JobState, Kept};

use super::{Queue, StoreResult};
use crate::conversion::files::{remove_file, write};
use crate::run::crash;
use crate::run::layout::{Folders, JobDir, make_private_dir};
use crate::run::order::DiskOrder;

/// Jobs that are packed at once while the daemon works: more wait for no better moment.
const JOBS: usize = 64;
/// Jobs that are packed at once at a start, when nothing else waits.
const JOBS_AT_START: usize = 512;
/// A finished job is packed after at most so long.
const EVERY: Duration = Duration::from_secs(10);
/// A larger report stays in the job's folder.
const REPORT_BYTES_MAX: u64 = 1 << 20;

/// When finished jobs are packed next.
#[derive(Debug)]
pub(crate) struct Packing {
    due: Instant,
    /// After a failure, before which nothing is packed.
    not_before: Instant,
}

impl Packing {
    pub(crate) fn new(now: Instant) -> Packing {
        Packing { due: now + EVERY, not_before: now }
    }
}

impl Queue {
    /// When the loop has to turn to pack jobs.
    pub(crate) fn next_packing(&self) -> Option<Instant> {
        let waits = self.book.at_rest().next().is_some();
        waits.then_some(self.packing.due.max(self.packing.not_before))
    }

    /// Packs finished jobs that are not `at_work`, if there are enough or they have waited long enough.
    pub(crate) fn pack_due(
        &mut self,
        now: Instant,
        folders: &Folders,
        at_work: impl Fn(&str) -> bool,
    ) -> StoreResult<Option<DiskOrder>> {
        if now < self.packing.not_before {
            return Ok(None);
        }
        let is_due = now >= self.packing.due;
        let least = if is_due { 1 } else { JOBS };
        let ids = self.packable(JOBS, at_work);
        if is_due {
            self.packing.due = now + EVERY;
        }
        if ids.len() < least {
            return Ok(None);
        }
        self.pack(&ids, folders)
    }

    /// Packs some of what an earlier run left at hand; how many, and what goes then. `None` if
    /// nothing is left that can be packed.
    pub(crate) fn pack_at_start(
        &mut self,
        folders: &Folders,
        at_work: impl Fn(&str) -> bool,
    ) -> StoreResult<Option<(usize, DiskOrder)>> {
        let ids = self.packable(JOBS_AT_START, at_work);
        if ids.is_empty() {
            return Ok(None);
        }
        Ok(self.pack(&ids, folders)?.map(|order| (ids.len(), order)))
    }

    /// Finished jobs that no thread has in hand.
    fn packable(&self, most: usize, at_work: impl Fn(&str) -> bool) -> Vec<String> {
        self.book.at_rest().filter(|id| !at_work(id)).take(most).map(str::to_owned).collect()
    }

    /// Packs the jobs: what goes now that they are packed.
    fn pack(&mut self, ids: &[String], folders: &Folders) -> StoreResult<Option<DiskOrder>> {
        let now = Instant::now();
        let mut jobs = Vec::new();
        for id in ids {
            let Some(job) = self.store.get(id)? else { continue };
            match kept(&job, &folders.job(id)) {
                Ok(kept) => jobs.push((id.clone(), kept)),
                Err(e) => {
                    tracing::warn!(job = id, reason = %e, "its folder cannot be read now");
                    self.packing.not_before = now + 6 * EVERY;
                }
            }
        }
        if jobs.is_empty() {
            return Ok(None);
        }
        match self.store.pack(&jobs) {
            Ok(count) => tracing::debug!(count, "packed"),
            Err(e) if e.fatal => return Err(e),
            // They stay at hand, which costs space and nothing else.
            Err(e) => {
                tracing::warn!(reason = %e, "finished jobs could not be packed");
                self.packing.not_before = now + 6 * EVERY;
                return Ok(None);
            }
        }
        self.packing.due = now + EVERY;
        crash::point("after jobs are packed");
        jobs.retain(|(id, _)| self.store.is_packed(id));
        if jobs.is_empty() {
            self.packing.not_before = now + 6 * EVERY;
            return Ok(None);
        }
        for (id, _) in &jobs {
            self.book.packed(id);
        }
        let packed = jobs.iter().map(|(id, kept)| (folders.job(id), !kept.report.is_empty()));
        Ok(Some(DiskOrder::Packed(packed.collect())))
    }

    /// What is left of the folder of a packed job goes; nothing to do for others.
    pub(crate) fn tidy_packed(
        &self,
        id: &str,
        folders: &Folders,
    ) -> StoreResult<Option<DiskOrder>> {
        let kept = self.store.kept(id)?;
        Ok(kept.map(|kept| DiskOrder::Packed(vec![(folders.job(id), !kept.report.is_empty())])))
    }

    /// Whatever may be packed is.
    #[cfg(test)]
    pub(crate) fn pack_soon(&mut self, now: Instant) {
        self.packing = Packing { due: now, not_before: now };
    }
}

/// What a pack keeps of the folder of a finished job. Who cannot be tried again needs no claim.
fn kept(job: &Job, dir: &JobDir) -> io::Result<Kept> {
    let again = matches!(job.state(), JobState::Failed | JobState::Cancelled);
    let claim = if again { read(&dir.claim())? } else { Vec::new() };
    let report = match fs::metadata(dir.report()) {
        Ok(found) if found.len() <= REPORT_BYTES_MAX => read(&dir.report())?,
        Ok(_) => Vec::new(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e),
    };
    Ok(Kept { claim: claim.into(), report: report.into() })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Removes what was kept of a folder, and the folder if nothing else is in it.
pub(crate) fn remove_kept(dir: &JobDir, report: bool) -> io::Result<()> {
    remove_file(&dir.claim())?;
    if report {
        remove_file(&dir.report())?;
    }
    match fs::remove_dir(dir.path()) {
        // A large report, or the work folder that `output.keep_work` keeps.
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Brings back what was kept of a folder, so that its job can be tried again.
pub(crate) fn restore(dir: &JobDir, kept: &Kept) -> io::Result<()> {
    make_private_dir(dir.path())?;
    write(&dir.claim(), &kept.claim)?;
    if !kept.report.is_empty() {
        write(&dir.report(), &kept.report)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::layout::Folders;

    #[test]
    fn a_folder_goes_and_comes_back() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let folders = Folders {
            state: at("state"),
            outbox: at("outbox"),
            failed: at("failed"),
            done: at("done"),
            unmatched: at("unmatched"),
        };
        let mut job = Job { id: "01J".into(), ..Job::default() };
        let dir = folders.job(&job.id);
        let fill = || {
            make_private_dir(dir.path()).unwrap();
            write(&dir.claim(), b"claim").unwrap();
            write(&dir.report(), b"report").unwrap();
        };
        fill();
        job.set_state(JobState::Succeeded);
        assert_eq!(kept(&job, &dir).unwrap().claim, "");
        job.set_state(JobState::Failed);
        let failed = kept(&job, &dir).unwrap();
        assert_eq!((&*failed.claim, &*failed.report), (&b"claim"[..], &b"report"[..]));
        remove_kept(&dir, true).unwrap();
        assert!(!dir.path().exists());
        remove_kept(&dir, true).unwrap();
        restore(&dir, &failed).unwrap();
        assert_eq!(kept(&job, &dir).unwrap(), failed);
        // What was not packed stays.
        write(&dir.report(), &vec![b' '; REPORT_BYTES_MAX as usize + 1]).unwrap();
        assert_eq!(kept(&job, &dir).unwrap().report, "");
        remove_kept(&dir, false).unwrap();
        assert!(dir.report().exists() && !dir.claim().exists());
    }
}
