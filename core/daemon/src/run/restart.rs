//! Carries out what `recover.rs` decides for every job of the earlier run, before anything else.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::{ClaimError, Plan};
use onnxd_jobs::{What, is_finished, state_word};
use onnxd_proto::onnxd::{self as message, Job, JobState};

use super::daemon::{Daemon, Turn};
use super::layout::{Folders, holds, is_filled};
use super::originals::{leftovers, set_aside};
use super::recover::{Action, OnDisk, action};
use super::systemd;
use crate::conversion::files::remove_folder;
use crate::conversion::publish;

/// Jobs between two signs of life to systemd.
const JOBS_PER_SIGN: usize = 50;

impl Daemon {
    /// Repairs every job. Afterwards each one is finished, waits for its turn, or is being read.
    pub(crate) fn restart(&mut self) -> Turn {
        let jobs = self.queue.store.scan(None)?;
        jobs.iter().for_each(|job| self.queue.book.note(None, job));
        for (n, job) in jobs.iter().enumerate() {
            if n % JOBS_PER_SIGN == 0 {
                systemd::still_starting(&format!("recovery: job {n} of {}", jobs.len()));
            }
            self.recover(job)?;
        }
        let known: HashSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        self.set_orphans_aside(&known);
        Ok(())
    }

    /// Gives a job an owner, by its state and what is on the disk: after a start, and whenever it
    /// has lost the one it had.
    pub(crate) fn recover(&mut self, job: &Job) -> Turn {
        let id = &job.id;
        let disk = match on_disk(job, &self.folders, self.settings.output.keep_work) {
            Ok(disk) => disk,
            Err(why) => {
                // Says nothing about the job: the next round looks again.
                tracing::warn!(job = %id, reason = %why, "its folder cannot be read now");
                self.drops.unread.insert(id.clone(), why.to_string());
                return Ok(());
            }
        };
        self.drops.unread.remove(id);
        let action = action(job.state(), disk);
        if action != Action::Nothing {
            let state = state_word(job.state());
            tracing::info!(job = %id, name = job.name, state, action = ?action, "recovery");
        }
        match action {
            Action::Nothing => {}
            Action::Claim if self.around.watched.is_none() => self.claim_again(job)?,
            Action::Claim => {
                if let Ok(plan) = Plan::load(&self.folders.job(id).claim()) {
                    self.drops.taking.insert(id.clone(), None);
                    self.spawn_taking(job.clone(), plan, true);
                }
            }
            Action::Vanish => {
                let folder = self.folders.job(id).path().to_owned();
                self.give_up(id, &ClaimError::Gone(folder))?;
            }
            Action::Hash => self.drops.to_hash.push_back(id.clone()),
            Action::Interrupt => {
                self.results.unpublished.remove(id);
                self.apply(id, What::Interrupted { lease: job.lease })?;
            }
            Action::Confirm => {
                let found = published(job, &self.folders);
                self.confirm(job, &found.unwrap_or_else(|| job.published.clone().into()))?;
            }
            Action::Publish => {
                let out = self.folders.job(id).work().join("out");
                self.bring_out(job, out);
            }
            Action::PutAway => self.settle(job.clone()),
            Action::Lost => self.lost(job)?,
        }
        Ok(())
    }

    fn claim_again(&mut self, job: &Job) -> Turn {
        let dir = self.folders.job(&job.id);
        let done = match Plan::load(&dir.claim()) {
            Ok(plan) => plan.execute(),
            Err(why) => Err(ClaimError::Failed(why)),
        };
        match done {
            Ok(()) => {
                self.apply(&job.id, What::Claimed)?;
                self.drops.to_hash.push_back(job.id.clone());
                Ok(())
            }
            // All is in the inbox as before, or another daemon has it.
            Err(e) if !is_filled(&dir.input()) => self.give_up(&job.id, &e),
            Err(e) => self.reject(&job.id, &e.diagnostic().into()),
        }
    }

    fn confirm(&mut self, job: &Job, path: &Path) -> Turn {
        let path = path.to_string_lossy().into_owned();
        let what = What::Published { lease: job.lease };
        self.results.unpublished.remove(&job.id);
        if let Some(job) = self.apply_with(&job.id, what, |j| j.published = path)? {
            self.settle(job);
        }
        Ok(())
    }

    /// Files that were taken are no longer there: they were removed from the state folder.
    fn lost(&mut self, job: &Job) -> Turn {
        let message = format!("The files of job {} are gone from the state folder", job.id);
        let found = Diagnostic::new(Code::Unreadable, message).help("Drop the files again.");
        match job.state() {
            JobState::Running | JobState::Publishing => {
                let (lease, diagnostics) = (job.lease, vec![message::Diagnostic::from(&found)]);
                let (crashed, timed_out) = (false, false);
                let what = What::Failed { lease, diagnostics, crashed, timed_out };
                if let Some(job) = self.apply(&job.id, what)? {
                    self.settle(job);
                }
                Ok(())
            }
            _ => self.reject(&job.id, &found.into()),
        }
    }

    /// Folders without a job: empty ones go, others are kept for a person to look at.
    fn set_orphans_aside(&self, known: &HashSet<&str>) {
        let entries = fs::read_dir(self.folders.jobs()).into_iter().flatten().flatten();
        let names: Vec<OsString> = entries.map(|e| e.file_name()).collect();
        for name in names.iter().filter(|n| n.to_str().is_none_or(|n| !known.contains(n))) {
            let path = self.folders.jobs().join(name);
            let done = if is_filled(&path.join("input")) {
                tracing::warn!(folder = %path.display(), "set aside: no job knows this folder");
                set_aside(&self.folders, Path::new(name))
            } else {
                // Recorded was nothing, so nothing was moved.
                remove_folder(&path)
            };
            if let Err(e) = done {
                tracing::warn!(folder = %path.display(), reason = %e, "it stays");
            }
        }
    }
}

fn published(job: &Job, folders: &Folders) -> Option<PathBuf> {
    publish::published(&folders.outbox.join(&job.folder), &job.name, &job.id)
}

fn on_disk(job: &Job, folders: &Folders, keep_work: bool) -> io::Result<OnDisk> {
    let dir = folders.job(&job.id);
    let unfinished = !is_finished(job.state());
    let publishing = job.state() == JobState::Publishing;
    let report = dir.work().join("out").join(publish::REPORT);
    Ok(OnDisk {
        plan: unfinished && dir.claim().try_exists()? && Plan::load(&dir.claim()).is_ok(),
        // Putting away ends with what is not kept.
        input: holds(&dir.input())? || (!unfinished && !leftovers(&dir, keep_work)?.is_empty()),
        // A name taken by another result is no obstacle: the job's id is added to it.
        published: publishing && published(job, folders).is_some(),
        staged: publishing && publish::read_report(&report).is_ok_and(|r| r.job == job.id),
    })
}
