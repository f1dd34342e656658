//! From a complete drop to a queued job: record, move, read, recognise.
//!
//! ```text
//! plan saved -> `claiming` recorded -> files renamed -> `claimed` -> digests -> `queued`
//! ```
//! Every arrow may be the last one before a crash; `restart.rs` goes on from there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics};
use onnxd_intake::{ClaimError, Control, Plan, Submission};
use onnxd_jobs::What;
use onnxd_proto::onnxd::{self as message, Job, JobFile, JobState, Recognized};
use prost::Message;

use super::copies::make_private_dir;
use super::crash;
use super::daemon::{Daemon, Halt, Turn, now_ms};
use super::event::{Event, Kept, Prepared};
use super::order::Order;
use super::prepare::prepare;
use super::room::free_bytes;
use crate::conversion::files::remove_folder;
use crate::conversion::submission::names;

/// Drops of one top folder that are moved and read at the same time: large ones take minutes.
const TAKING_OF_ONE_MAX: usize = 2;

/// Whether enough drops of a top folder are being taken.
fn is_busy(taken: &[String], top: &str) -> bool {
    taken.iter().filter(|t| *t == top).count() >= TAKING_OF_ONE_MAX
}

impl Daemon {
    /// Takes a drop, unless others of its top folder are to be converted first.
    pub(crate) fn admit(&mut self, submission: &Submission) -> Turn {
        let most = self.settings.intake.in_flight_mib << 20;
        let tops = self.tops_taken();
        match self.drops.in_flight.holds_back(submission, most, |top| is_busy(&tops, top)) {
            true => Ok(()),
            false => self.take(submission),
        }
    }

    /// Top folders of the drops that are being moved or read.
    fn tops_taken(&self) -> Vec<String> {
        self.drops.taking.keys().map(|id| self.drops.in_flight.top_of(id).to_owned()).collect()
    }

    /// A claimed job whose files have to be read, and whose top folder may have another one read.
    pub(crate) fn next_to_hash(&mut self) -> Option<String> {
        let tops = self.tops_taken();
        let may = |id: &String| !is_busy(&tops, self.drops.in_flight.top_of(id));
        let at = self.drops.to_hash.iter().position(may)?;
        self.drops.to_hash.remove(at)
    }

    /// Takes drops that were held back and have their turn now.
    pub(crate) fn admit_waiting(&mut self) -> Turn {
        let most = self.settings.intake.in_flight_mib << 20;
        while self.may_take() {
            let tops = self.tops_taken();
            let next = self.drops.in_flight.next(most, |top| is_busy(&tops, top));
            let Some(submission) = next else { break };
            if let Err(e) = self.take(&submission) {
                // The store did not record it: it keeps its turn.
                self.drops.in_flight.put_back(submission);
                return Err(e);
            }
        }
        Ok(())
    }

    /// Records a drop and begins to move it.
    fn take(&mut self, submission: &Submission) -> Turn {
        if let Err(why) = self.has_room_for(submission) {
            self.leave(&submission.id, &why);
            return Ok(());
        }
        let id = self.queue.ids.next_id();
        let dir = self.folders.job(&id);
        let plan = submission.plan(&dir.originals());
        if let Err(e) = make_private_dir(dir.path()).and_then(|()| plan.save(&dir.claim())) {
            let why = Diagnostic::new(Code::of_write(&e), format!("{}: {e}", dir.path().display()));
            self.leave(&submission.id, &why);
            return Ok(());
        }
        let job = new_job(&id, submission);
        crash::point("before a new job");
        match self.queue.store.put_new(&job) {
            Ok(_) => crash::point("after a new job"),
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
        self.drops.in_flight.note(&job);
        let (name, drop) = (&job.name, submission.id.display());
        tracing::info!(job = %id, %name, to = "claiming", %drop, "job claiming");
        self.drops.taking.insert(id, Some(submission.id.clone()));
        self.spawn_taking(job, plan, true);
        Ok(())
    }

    /// Whether its copy leaves as much space as is wanted.
    fn has_room_for(&self, submission: &Submission) -> Result<(), Diagnostic> {
        let state = &self.folders.state;
        let Some(free) = free_bytes(state) else { return Ok(()) };
        let disk = std::fs::metadata(state).map(|found| found.dev()).ok();
        // From another file system the originals are copied, too.
        let is_near = submission.files.iter().all(|file| Some(file.stamp.dev) == disk);
        // What is being copied already counts whole: how far it came is not known.
        let taking = self.drops.in_flight.bytes_of(self.drops.taking.keys());
        let bytes = submission.bytes().saturating_add(taking);
        let needed = bytes.saturating_mul(if is_near { 1 } else { 2 });
        let wanted = self.settings.jobs.min_free_mib << 20;
        if free >= needed.saturating_add(wanted) {
            return Ok(());
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let text = format!(
            "no room on the disk: its copy and those in the making take {} MiB, {} MiB are free, \
             and {} MiB are to stay free (jobs.min_free_mib)",
            mib(needed),
            free >> 20,
            mib(wanted)
        );
        Err(Diagnostic::new(Code::DiskFull, text)
            .help("Free space on the disk of the state folder; the drop is taken then."))
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
        let (take, names) = (self.settings.intake.take, names(&self.settings));
        let events = self.around.events.clone();
        let id = job.id.clone();
        let work = move || {
            // Without a receiver the daemon has ended; the next one goes on from the plan.
            if claim {
                let done = plan.execute(&names);
                crash::point("files moved");
                let moved = done.is_ok();
                let _ = events.send(Event::Claimed { job: job.id.clone(), done });
                if !moved {
                    return;
                }
            }
            let done = prepare(&job, &plan, &dir, take, &plugins).map(Box::new);
            crash::point("files read");
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
            crash::point("before a job is forgotten");
            self.queue.store.remove(&[id])?;
            crash::point("after a job is forgotten");
            self.queue.book.forget(id, job.state());
            self.drops.in_flight.forget(id);
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
                found.0.iter().for_each(|why| self.attempts.room.blocks(why));
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
        if let Some(there) = self.result_there(&known)? {
            return self.is_duplicate(known, &there);
        }
        let Prepared { files, identity, .. } = prepared.clone();
        self.apply_with(&job.id, What::Hashed { files, identity }, |j| *j = known)?;
        self.copy_at_once(&job.id)
    }

    pub(crate) fn on_kept(&mut self, kept: &Kept) -> Turn {
        match kept {
            Kept::PutAway { job, done } => {
                self.results.busy.remove(job);
                self.tidy_packed(job)?;
                if let Err(why) = done {
                    self.attempts.room.blocks(why);
                    let reason = &why.message;
                    tracing::error!(job, reason, "the originals stay in the job's folder for now");
                    self.results.unsettled.insert(job.clone(), reason.clone());
                }
            }
            Kept::Fetched { job, done } => self.on_fetched(job, done)?,
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
