//! From a complete drop to a queued job: record, move, read, recognise.
//!
//! ```text
//! plan saved -> `claiming` recorded -> files renamed -> `claimed` -> digests -> `queued`
//! ```
//! Every arrow may be the last one before a crash; `restart.rs` goes on from there.

use std::path::Path;

use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics};
use onnxd_intake::{ClaimError, Control, MovePlan, Submission};
use onnxd_jobs::What;
use onnxd_proto::onnxd::{self as message, Job, JobState};

use super::{Daemon, Halt, Turn};
use crate::conversion::files::remove_folder;
use crate::conversion::submission::names;
use crate::run::drops::taking::{Taking, new_job, prepared_job};
use crate::run::event::Prepared;
use crate::run::layout::make_private_dir;
use crate::run::order::DiskOrder;
use crate::run::queue::now_ms;

impl Daemon {
    /// Takes a drop, unless others of its top folder are to be converted first.
    pub(crate) fn admit(&mut self, submission: &Submission) -> Turn {
        match self.drops.holds_back(submission, self.in_flight_max()) {
            true => Ok(()),
            false => self.take(submission),
        }
    }

    /// Bytes of one top folder that may be taken and not converted yet.
    fn in_flight_max(&self) -> u64 {
        self.settings.intake.in_flight_mib << 20
    }

    /// Takes drops that were held back and have their turn now.
    pub(crate) fn admit_waiting(&mut self) -> Turn {
        while self.may_take() {
            let next = self.drops.next_held_back(self.in_flight_max());
            let Some(submission) = next else { break };
            if let Err(e) = self.take(&submission) {
                // The store did not record it: it keeps its turn.
                self.drops.put_back(submission);
                return Err(e);
            }
        }
        Ok(())
    }

    /// Records a drop and begins to move it.
    fn take(&mut self, submission: &Submission) -> Turn {
        let (state, min_free_mib) = (&self.folders.state, self.settings.jobs.min_free_mib);
        if let Err(why) = self.drops.has_room_for(submission, state, min_free_mib) {
            self.leave(&submission.id, &why);
            return Ok(());
        }
        let id = self.queue.next_id();
        let dir = self.folders.job(&id);
        let plan = submission.set.plan(&dir.originals());
        if let Err(e) = make_private_dir(dir.path()).and_then(|()| plan.save(&dir.claim())) {
            let why = Diagnostic::new(Code::of_write(&e), format!("{}: {e}", dir.path().display()));
            self.leave(&submission.id, &why);
            return Ok(());
        }
        let job = new_job(&id, submission, now_ms());
        match self.queue.admit(&job) {
            Ok(()) => {}
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
        self.drops.note(&job);
        let (name, drop) = (&job.name, submission.id.display());
        tracing::info!(job = %id, %name, to = "claiming", %drop, "job claiming");
        self.drops.begin(&id, Some(submission.id.clone()));
        self.spawn_taking(job, plan, true);
        Ok(())
    }

    /// The drop stays in the inbox, with the reason.
    pub(crate) fn leave(&mut self, drop: &Path, why: &Diagnostic) {
        tracing::warn!(drop = %drop.display(), reason = %why, "not taken");
        self.timers.blocked = true;
        self.attempts.room.blocks(why);
        self.around.intake.post(Control::Block(drop.to_owned(), why.to_string()));
    }

    /// Begins to read the files of a claimed job.
    pub(crate) fn hash(&mut self, id: &str) -> Turn {
        self.drops.forget_unread(id);
        let Some(job) = self.queue.job(id)? else { return Ok(()) };
        match MovePlan::load(&self.folders.job(id).claim()) {
            Ok(plan) => {
                self.drops.begin(id, None);
                self.spawn_taking(job, plan, false);
                Ok(())
            }
            Err(why) => self.reject(id, &why.into()),
        }
    }

    pub(crate) fn spawn_taking(&mut self, job: Job, plan: MovePlan, claim: bool) {
        let id = job.id.clone();
        let taking = Taking {
            dir: self.folders.job(&id),
            job,
            plan,
            claim,
            take: self.settings.intake.take,
            names: names(&self.settings),
            plugins: self.tools.get().plugins,
            events: self.around.events.clone(),
        };
        self.spawn(&id, "take", taking.into_thread());
    }

    pub(crate) fn on_claimed(&mut self, id: &str, done: &Result<(), ClaimError>) -> Turn {
        let drop = self.drops.drop_of(id);
        match done {
            Ok(()) => {
                self.apply(id, What::Claimed)?;
            }
            // The older of two files stayed in the job's folder: the log has to say so.
            Err(e @ ClaimError::Kept(_)) => {
                self.reject(id, &e.diagnostic().into())?;
                self.drops.end(id);
            }
            Err(e) => {
                self.give_up(id, e)?;
                self.drops.end(id);
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
        if let Some(job) = self.queue.job(id)? {
            self.queue.forget(&job)?;
            self.drops.forget(id);
            let reason = why.diagnostic().into_finding().message;
            tracing::info!(job = id, name = job.name, reason, "not taken");
        }
        let dir = self.folders.job(id);
        self.order([DiskOrder::Remove(vec![dir.path().to_owned()])]);
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
        let Some(job) = self.queue.job(id)? else {
            self.drops.end(id);
            return Ok(());
        };
        if job.state() != JobState::Claimed {
            // Cancelled meanwhile: its files are free to be moved only now.
            self.drops.end(id);
            self.settle(job);
            return Ok(());
        }
        match done {
            // Says nothing about the files: they are read again in the next round.
            Err(found) if found.class() == Class::Environment => {
                tracing::warn!(job = id, reason = %found, "its files cannot be read now");
                found.0.iter().for_each(|why| self.attempts.room.blocks(why));
                self.drops.note_unread(id, found.to_string());
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
        self.drops.end(id);
        Ok(())
    }

    fn identify(&mut self, job: &Job, prepared: &Prepared) -> Turn {
        let known = prepared_job(job, prepared);
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
            return self.end_as_duplicate(known, &there);
        }
        let Prepared { files, identity, .. } = prepared.clone();
        self.apply_with(&job.id, What::Hashed { files, identity }, |j| *j = known)?;
        self.copy_at_once(&job.id)
    }
}
