//! From a complete drop to a queued job: record, move, read, recognise.
//!
//! ```text
//! plan saved -> `claiming` recorded -> files renamed -> `claimed` -> digests -> `queued`
//! ```
//! Every arrow may be the last one before a crash; `restart.rs` goes on from there.

use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics};
use onnxd_intake::{ClaimError, Control, Plan, Submission};
use onnxd_jobs::What;
use onnxd_proto::onnxd::{self as message, Job, JobFile, JobState, Recognized};
use prost::Message;

use super::daemon::{Daemon, Halt, Turn, now_ms};
use super::event::Event;
use super::housekeeping::{Kept, Order};
use super::layout::make_dir;
use super::originals::is_result_of;
use super::prepare::{Prepared, prepare};
use crate::conversion::files::remove_folder;

impl Daemon {
    /// Records a drop and begins to move it.
    pub(crate) fn take(&mut self, submission: &Submission) -> Turn {
        let id = self.queue.ids.next_id();
        let dir = self.folders.job(&id);
        let plan = submission.plan(&dir.input());
        if let Err(e) = make_dir(dir.path()).and_then(|()| plan.save(&dir.claim())) {
            let why = Diagnostic::new(Code::of_write(&e), format!("{}: {e}", dir.path().display()));
            self.leave(&submission.id, &why);
            return Ok(());
        }
        let job = new_job(&id, submission);
        match self.queue.store.put_new(&job) {
            Ok(_) => {}
            // Recorded or not: the next start, or the round, finds out.
            Err(e) if e.fatal => return Err(e.into()),
            Err(e) => {
                // What is left over holds no user's files.
                let _ = remove_folder(dir.path());
                if e.may_pass() {
                    return Err(e.into());
                }
                self.leave(&submission.id, &e.diagnostic);
                return Ok(());
            }
        }
        self.was_recorded();
        self.queue.book.note(None, &job);
        let (name, drop) = (&job.name, submission.id.display());
        tracing::info!(job = %id, %name, to = "claiming", %drop, "job claiming");
        self.drops.taking.insert(id, Some(submission.id.clone()));
        self.spawn_taking(job, plan, true);
        Ok(())
    }

    /// The drop stays in the inbox, with the reason.
    fn leave(&mut self, drop: &Path, why: &Diagnostic) {
        tracing::warn!(drop = %drop.display(), reason = %why, "not taken");
        self.queue.timers.blocked = true;
        self.attempts.room.blocks(why);
        self.around.intake.post(Control::Block(drop.to_owned(), why.to_string()));
    }

    /// Begins to read the files of a claimed job.
    pub(crate) fn hash(&mut self, id: &str) -> Turn {
        self.drops.unread.remove(id);
        let Some(job) = self.queue.store.get(id)? else { return Ok(()) };
        match Plan::load(&self.folders.job(id).claim()) {
            Ok(plan) => {
                self.drops.taking.insert(id.to_owned(), None);
                self.spawn_taking(job, plan, false);
                Ok(())
            }
            Err(why) => self.reject(id, &why.into()),
        }
    }

    pub(crate) fn spawn_taking(&mut self, job: Job, plan: Plan, claim: bool) {
        let dir = self.folders.job(&job.id);
        let plugins = self.tools.get().plugins;
        let events = self.around.events.clone();
        let id = job.id.clone();
        let work = move || {
            // Without a receiver the daemon has ended; the next one goes on from the plan.
            if claim {
                let done = plan.execute();
                let moved = done.is_ok();
                let _ = events.send(Event::Claimed { job: job.id.clone(), done });
                if !moved {
                    return;
                }
            }
            let done = prepare(&job, &plan, &dir, &plugins).map(Box::new);
            let _ = events.send(Event::Prepared { job: job.id, done });
        };
        self.spawn(&id, "take", work);
    }

    pub(crate) fn on_claimed(&mut self, id: &str, done: &Result<(), ClaimError>) -> Turn {
        let drop = self.drops.taking.get(id).cloned().flatten();
        match done {
            Ok(()) => {
                self.apply(id, What::Claimed)?;
            }
            // The older of two files stayed in the job's folder: the log has to say so.
            Err(e @ ClaimError::Kept(_)) => {
                self.reject(id, &e.diagnostic().into())?;
                self.drops.taking.remove(id);
            }
            Err(e) => {
                self.give_up(id, e)?;
                self.drops.taking.remove(id);
                if let (Some(drop), ClaimError::Blocked(_) | ClaimError::Failed(_)) = (&drop, e) {
                    self.leave(drop, &e.diagnostic());
                    return Ok(());
                }
            }
        }
        if let Some(drop) = drop {
            self.around.intake.post(Control::Release(drop));
        }
        Ok(())
    }

    /// Nothing was moved, so there never was a job: the drop is in the inbox as before, or another
    /// else has taken it.
    pub(crate) fn give_up(&mut self, id: &str, why: &ClaimError) -> Turn {
        if let Some(job) = self.queue.store.get(id)? {
            self.queue.store.remove(&[id])?;
            self.queue.book.forget(&job);
            let reason = why.diagnostic().into_finding().message;
            tracing::info!(job = id, name = job.name, reason, "not taken");
        }
        let dir = self.folders.job(id);
        self.order(Order::Remove(vec![dir.path().to_owned()]));
        Ok(())
    }

    /// The job cannot be converted as it is.
    pub(crate) fn reject(&mut self, id: &str, found: &Diagnostics) -> Turn {
        let diagnostics = found.0.iter().map(message::Diagnostic::from).collect();
        if let Some(job) = self.apply(id, What::Rejected { diagnostics })? {
            self.settle(job);
        }
        Ok(())
    }

    pub(crate) fn on_prepared(
        &mut self,
        id: &str,
        done: &Result<Box<Prepared>, Diagnostics>,
    ) -> Turn {
        let Some(job) = self.queue.store.get(id)? else {
            self.drops.taking.remove(id);
            return Ok(());
        };
        if job.state() != JobState::Claimed {
            // Cancelled meanwhile: its files are free to be moved only now.
            self.drops.taking.remove(id);
            self.settle(job);
            return Ok(());
        }
        match done {
            // Says nothing about the files: they are read again in the next round.
            Err(found) if found.class() == Class::Environment => {
                tracing::warn!(job = id, reason = %found, "its files cannot be read now");
                self.drops.unread.insert(id.to_owned(), found.to_string());
            }
            Err(found) => self.reject(id, found)?,
            Ok(prepared) => match self.identify(&job, prepared) {
                // A record that is too large will not be accepted later either.
                Err(Halt::Store(e)) if !e.fatal && !e.may_pass() => {
                    self.reject(id, &e.diagnostic.into())?;
                }
                done => done?,
            },
        }
        self.drops.taking.remove(id);
        Ok(())
    }

    fn identify(&mut self, job: &Job, prepared: &Prepared) -> Turn {
        let known = with(job, prepared);
        // Intake already knew that the conversion is bound to fail.
        if !job.diagnostics.is_empty() {
            let diagnostics = job.diagnostics.clone();
            let what = What::Rejected { diagnostics };
            if let Some(job) = self.apply_with(&job.id, what, |j| *j = known)? {
                self.settle(job);
            }
            return Ok(());
        }
        if let Some(earlier) = self.earlier(&known)? {
            return self.answer_at_once(known, &earlier);
        }
        let Prepared { files, identity, .. } = prepared.clone();
        self.apply_with(&job.id, What::Hashed { files, identity }, |j| *j = known)?;
        Ok(())
    }

    /// The job that has answered this one already, if its result still exists.
    pub(crate) fn earlier(&self, job: &Job) -> Turn<Option<Job>> {
        if self.attempts.no_copy.contains(&job.id) {
            return Ok(None);
        }
        let earlier = self.queue.store.find_identity(&job.identity)?;
        let there = |e: &Job| e.id != job.id && is_result_of(e.published.as_ref(), &e.id);
        Ok(earlier.filter(there))
    }

    /// Under the same name nothing has to be done; under another one the result appears again.
    pub(crate) fn answer_at_once(&mut self, mut job: Job, earlier: &Job) -> Turn {
        job.duplicate_of.clone_from(&earlier.id);
        job.published.clone_from(&earlier.published);
        if (&job.folder, &job.name) == (&earlier.folder, &earlier.name) {
            return self.is_duplicate(job);
        }
        let dest = self.folders.result(&job);
        job.published = dest.to_string_lossy().into_owned();
        self.results.busy.insert(job.id.clone());
        let earlier = PathBuf::from(&earlier.published);
        self.order(Order::Republish { job: Box::new(job), earlier, dest });
        Ok(())
    }

    fn is_duplicate(&mut self, job: Job) -> Turn {
        let (id, of) = (job.id.clone(), job.duplicate_of.clone());
        if let Some(job) = self.apply_with(&id, What::DuplicateOf { job: of }, |j| *j = job)? {
            self.settle(job);
        }
        Ok(())
    }

    pub(crate) fn on_kept(&mut self, kept: &Kept) -> Turn {
        match kept {
            Kept::PutAway { job, done } => {
                self.results.busy.remove(job);
                if let Err(why) = done {
                    self.attempts.room.blocks(why);
                    let reason = &why.message;
                    tracing::error!(job, reason, "the originals stay in the job's folder for now");
                    self.results.unsettled.insert(job.clone(), reason.clone());
                }
            }
            Kept::Fetched { job, done } => self.on_fetched(job, done)?,
            Kept::Republished { job, done } => {
                match done {
                    Ok(()) => self.is_duplicate((**job).clone())?,
                    Err(reason) => {
                        tracing::warn!(job = job.id, reason, "converted instead of copied");
                        self.convert_anyway(job)?;
                    }
                }
                self.results.busy.remove(&job.id);
            }
            Kept::Unmatched { id, done } => match done {
                Ok(to) => {
                    tracing::info!(drop = %id.display(), to = %to.display(), "unmatched");
                    self.around.intake.post(Control::Release(id.clone()));
                }
                Err(e) => self.leave(id, &e.diagnostic()),
            },
            Kept::Removed => {}
        }
        Ok(())
    }

    fn convert_anyway(&mut self, job: &Job) -> Turn {
        self.attempts.no_copy.insert(job.id.clone());
        let what = What::Hashed { files: job.files.clone(), identity: job.identity.clone() };
        let known = Job { published: String::new(), duplicate_of: String::new(), ..job.clone() };
        // A queued job stays what it is: the step is stale then.
        self.apply_with(&job.id, what, |j| *j = known)?;
        Ok(())
    }
}

fn with(job: &Job, prepared: &Prepared) -> Job {
    let prepared = prepared.clone();
    Job {
        files: prepared.files,
        identity: prepared.identity,
        params_json: prepared.params_json,
        params: prepared.params,
        notes: prepared.notes,
        name: prepared.name.unwrap_or_else(|| job.name.clone()),
        priority: prepared.priority,
        ..job.clone()
    }
}

/// What the prober gave to intake.
fn recognized(answer: &[u8]) -> Option<Recognized> {
    Recognized::decode(answer).ok().filter(|known| known.recognition.is_some())
}

fn new_job(id: &str, submission: &Submission) -> Job {
    let root = submission.root_dir();
    let file = |f: &onnxd_intake::File| JobFile {
        source: root.join(&f.name).to_string_lossy().into_owned(),
        name: f.name.to_string_lossy().into_owned(),
        bytes: f.stamp.size,
        sha256: String::new(),
    };
    let name = submission.name.to_string_lossy().into_owned();
    let is_text = submission.name.to_str().is_some();
    let raw_source = if is_text { Vec::new() } else { submission.name.as_encoded_bytes().to_vec() };
    let mut job = Job {
        schema: onnxd_jobs::SCHEMA.into(),
        id: id.to_owned(),
        name,
        folder: submission.folder.to_string_lossy().into_owned(),
        inbox: submission.inbox.to_string_lossy().into_owned(),
        network: submission.network.to_string_lossy().into_owned(),
        files: submission.files.iter().map(file).collect(),
        created_ms: now_ms(),
        diagnostics: submission.problem.iter().map(message::Diagnostic::from).collect(),
        raw_source: raw_source.into(),
        recognized: recognized(&submission.answer),
        ..Job::default()
    };
    job.set_state(JobState::Claiming);
    job
}
