//! Drops that an earlier job has answered: the result that is there, or a copy of it.
//!
//! Where a job or a copy of the same identity has brought a result to the same place, nothing has to
//! be done. Else a copy is published like a result. Of jobs with one identity only one is converted,
//! copied or published at a time (`book.rs`), so the next one finds what it has left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use onnxd_files::{copy, own_folder, regular_beneath};
use onnxd_jobs::{Destination, What};
use onnxd_proto::onnxd::Job;

use super::attempt::Stop;
use super::daemon::{Daemon, Running, Turn};
use super::event::{Copy, Event};
use super::layout::Folders;
use super::originals::is_result_of;
use super::outbox::PUBLISHING;
use super::publication::{through, write_receipt};
use crate::conversion::doing::Shared;
use crate::conversion::files::{inner, sync};
use crate::conversion::publish;

/// Copies made at the same time before their jobs' turn.
const COPIES_MAX: usize = 4;

impl Daemon {
    /// The job, or copy, that has brought a result of this identity to this job's place, if that is
    /// still there.
    pub(crate) fn result_there(&self, job: &Job) -> Turn<Option<Job>> {
        let there = self.queue.store.find_result(&Destination::of(job))?;
        Ok(there.filter(|there| there.id != job.id && is_there(there)))
    }

    /// The job whose result a copy may be made of, if that is still there.
    pub(crate) fn earlier(&self, job: &Job) -> Turn<Option<Job>> {
        if self.attempts.no_copy.contains(&job.id) {
            return Ok(None);
        }
        let earlier = self.queue.store.find_identity(&job.identity)?;
        Ok(earlier.filter(|earlier| earlier.id != job.id && is_there(earlier)))
    }

    /// The result is there already, under this name.
    pub(crate) fn is_duplicate(&mut self, mut job: Job, there: &Job) -> Turn {
        job.published.clone_from(&there.published);
        let of = if there.duplicate_of.is_empty() { &there.id } else { &there.duplicate_of };
        let (id, of) = (job.id.clone(), of.clone());
        if let Some(job) = self.apply_with(&id, What::DuplicateOf { job: of }, |j| *j = job)? {
            self.settle(job);
        }
        Ok(())
    }

    /// Copies an earlier result before the job's turn, unless enough is being copied.
    pub(crate) fn copy_at_once(&mut self, id: &str) -> Turn {
        let moving = self.attempts.running.values().filter(|r| r.stage == PUBLISHING).count();
        let Some(job) = self.queue.store.get(id)? else { return Ok(()) };
        if moving >= COPIES_MAX || !self.may_start() || self.is_in_hand(&job) {
            return Ok(());
        }
        match self.earlier(&job)? {
            Some(earlier) => self.copy(job, &earlier),
            None => Ok(()),
        }
    }

    /// Whether a job of the same identity is being converted, copied or published.
    pub(crate) fn is_in_hand(&self, job: &Job) -> bool {
        let running = |id: &str| self.attempts.running.contains_key(id);
        self.queue.book.is_in_hand(&job.identity, running)
    }

    /// Copies an earlier result in a thread of its own; the job waits for it as for an attempt.
    pub(crate) fn copy(&mut self, mut job: Job, earlier: &Job) -> Turn {
        job.duplicate_of.clone_from(&earlier.id);
        let id = job.id.clone();
        // Of a packed job the report lies in the store, unless it is large.
        let kept = self.queue.store.kept(&earlier.id)?;
        let report = kept.map(|kept| kept.report).filter(|report| !report.is_empty());
        let running = Running {
            lease: job.lease,
            name: job.name.clone(),
            stage: PUBLISHING.into(),
            since: Instant::now(),
            stop: Stop::default(),
            doing: Shared::default(),
            given_back: false,
        };
        self.attempts.running.insert(id.clone(), running);
        let (events, folders) = (self.around.events.clone(), self.folders.clone());
        let (from, mode) = (PathBuf::from(&earlier.published), self.settings.output.mode.0);
        let answer_for = id.clone();
        let of = folders.job(&earlier.id).report();
        let work = move || {
            let report = report.map_or_else(|| fs::read(&of).map(Into::into), Ok);
            let done = report.and_then(|report| copied(job, &report, &from, &folders, mode));
            let done = done.map_err(|e| e.to_string());
            // Without a receiver the daemon has ended; the next one begins again.
            let _ = events.send(Event::Copied { job: answer_for, done: Box::new(done) });
        };
        self.spawn(&id, "copy", work);
        Ok(())
    }

    /// A copy is complete, or there is none: then the job is converted.
    pub(crate) fn on_copied(&mut self, id: &str, done: &Result<Copy, String>) -> Turn {
        match done {
            Ok(copy) => {
                let Copy { identity, of, staged, dest } = copy.clone();
                let text = |path: PathBuf| path.to_string_lossy().into_owned();
                let what = What::Copied { of, staged: text(staged), dest: text(dest) };
                let copied = self.apply_with(id, what, |j| j.identity = identity)?;
                match copied.or(self.publishing(id)?) {
                    Some(job) => self.bring_out(&job),
                    None => self.end_attempt(id)?,
                }
            }
            Err(reason) => {
                tracing::warn!(job = id, reason, "converted instead of copied");
                self.convert_instead(id);
            }
        }
        Ok(())
    }

    /// No copy is tried of an earlier result again.
    pub(crate) fn convert_instead(&mut self, id: &str) {
        self.attempts.no_copy.insert(id.to_owned());
        self.attempts.running.remove(id);
    }
}

fn is_there(job: &Job) -> bool {
    is_result_of(job.published.as_ref(), &job.id)
}

/// Copies the outputs of an earlier result, each compared with the digest that the daemon kept:
/// whoever takes results away can also change them.
fn copied(
    mut job: Job,
    report: &[u8],
    earlier: &Path,
    folders: &Folders,
    mode: u32,
) -> io::Result<Copy> {
    let other = io::Error::other;
    let text = str::from_utf8(report).map_err(|why| other(why.to_string()))?;
    let report = onnxd_report::from_json(text).map_err(|why| other(why.to_string()))?;
    let from = own_folder(earlier)?;
    let dest = folders.free_destination(&job)?;
    job.published = dest.to_string_lossy().into_owned();
    let name = folders.job(&job.id).result(job.lease);
    let name = Path::new(name.file_name().unwrap_or_default());
    let staged = through(&folders.passage(&job), name, |part| {
        fs::create_dir(part)?;
        for file in &report.outputs {
            let path = inner(&file.path).ok_or_else(|| other(file.path.clone()))?;
            let to = part.join(&path);
            fs::create_dir_all(to.parent().unwrap_or(part))?;
            let copied = copy(&regular_beneath(&from, &path)?, &new_file(&to)?)?;
            if copied.sha256 != file.sha256 {
                return Err(other(format!("`{}` changed since it was published", file.path)));
            }
        }
        publish::write_views(&report, part)?;
        write_receipt(part, &job)?;
        sync(part, Some(mode))
    })?;
    Ok(Copy { identity: job.identity, of: job.duplicate_of, staged, dest })
}

fn new_file(path: &Path) -> io::Result<fs::File> {
    fs::File::options().read(true).write(true).create_new(true).open(path)
}
