//! Carries out what `recover.rs` decides for every job of the earlier run, before anything else.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::{ClaimError, MovePlan};
use onnxd_jobs::{What, is_finished, state_word};
use onnxd_proto::onnxd::{self as message, Job, JobState};

use super::recover::{Action, OnDisk, action};
use super::{Daemon, Turn, at_work};
use crate::conversion::files::remove_folder;
use crate::conversion::submission::names;
use crate::run::drops::copies;
use crate::run::layout::{Folders, holds, is_filled};
use crate::run::own_crash;
use crate::run::results::originals::{leftovers, set_aside};
use crate::run::results::publication::{Staged, look, staged_folder};
use crate::run::systemd;

/// Jobs between two signs of life to systemd.
const JOBS_PER_SIGN: usize = 50;

impl Daemon {
    /// Repairs every job. Afterwards each one is finished, waits for its turn, or is being read.
    pub(crate) fn restart(&mut self) -> Turn {
        self.count_own_crashes()?;
        self.queue.reread()?;
        let jobs = self.queue.store().at_hand()?;
        let copies_are_lost = copies::may_be_lost(&self.folders.state);
        let mut all_are_whole = true;
        for (n, id) in jobs.iter().enumerate() {
            if n % JOBS_PER_SIGN == 0 {
                systemd::still_starting(&format!("recovery: job {n} of {}", jobs.len()));
            }
            let Some(job) = self.queue.job(id)? else { continue };
            self.drops.note(&job);
            // A quarantined job may be released.
            let is_over = is_finished(job.state()) && job.state() != JobState::Quarantined;
            if !is_over && let Err(e) = copies::forget(&self.folders.job(id), copies_are_lost) {
                tracing::warn!(job = %id, reason = %e, "a stale copy stays");
                all_are_whole = false;
            }
            let _work = own_crash::Work::on(&job.id, job.lease);
            self.recover(&job)?;
        }
        if all_are_whole {
            copies::remember_boot(&self.folders.state);
        }
        let known: HashSet<&str> = jobs.iter().map(String::as_str).collect();
        self.set_orphans_aside(&known)?;
        self.pack_all()
    }

    /// Packs all that an earlier run left at hand.
    fn pack_all(&mut self) -> Turn {
        let mut packed = 0;
        loop {
            let at_work = at_work(&self.drops, &self.attempts, &self.results);
            let done = self.queue.pack_at_start(&self.folders, at_work)?;
            let Some((count, order)) = done else { return Ok(()) };
            self.order([order]);
            packed += count;
            systemd::still_starting(&format!("packing finished jobs: {packed}"));
        }
    }

    /// Jobs that an earlier daemon crashed over. What it was killed for from outside is not theirs.
    fn count_own_crashes(&mut self) -> Turn {
        let state = self.folders.state.clone();
        let noted = own_crash::noted(&state).unwrap_or_else(|e| {
            tracing::warn!(reason = %e, "crashes of the daemon cannot be read");
            Vec::new()
        });
        let jobs: BTreeSet<(String, u64)> = noted.into_iter().collect();
        for (id, lease) in &jobs {
            let Some(job) = self.queue.job(id)? else { continue };
            let moved = || look(&staged_folder(&job, &self.folders)).ok() != Some(Staged::Here);
            match job.state() {
                // Counted before, by a start that did not get further.
                JobState::Running if job.lease != *lease => continue,
                JobState::Publishing if moved() => continue,
                _ => {}
            }
            tracing::warn!(job = id, name = job.name, "the daemon crashed while it worked for it");
            self.apply(id, What::BroughtDown)?;
        }
        if !jobs.is_empty()
            && let Err(e) = own_crash::forget(&state)
        {
            tracing::warn!(reason = %e, "crashes of the daemon may be counted again");
        }
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
                self.drops.note_unread(id, why.to_string());
                return Ok(());
            }
        };
        self.drops.forget_unread(id);
        let action = action(job.state(), disk);
        if action != Action::Nothing {
            let state = state_word(job.state());
            tracing::info!(job = %id, name = job.name, state, action = ?action, "recovery");
        }
        match action {
            Action::Nothing => {}
            Action::Claim if self.around.watched.is_none() => self.claim_again(job)?,
            Action::Claim => {
                if let Ok(plan) = MovePlan::load(&self.folders.job(id).claim()) {
                    self.drops.begin(id, None);
                    self.spawn_taking(job.clone(), plan, true);
                }
            }
            Action::Vanish => {
                let folder = self.folders.job(id).path().to_owned();
                self.give_up(id, &ClaimError::Gone(folder))?;
            }
            Action::Hash => self.drops.hash_later(id),
            Action::Interrupt => {
                self.apply(id, What::Interrupted { lease: job.lease })?;
            }
            Action::Confirm => self.confirm(job)?,
            Action::Publish => self.bring_out_again(job)?,
            Action::PutAway => self.settle(job.clone()),
            Action::Lost => self.lost(job)?,
        }
        Ok(())
    }

    fn claim_again(&mut self, job: &Job) -> Turn {
        let dir = self.folders.job(&job.id);
        let done = match MovePlan::load(&dir.claim()) {
            Ok(plan) => plan.execute(&names(&self.settings)),
            Err(why) => Err(ClaimError::Failed(why)),
        };
        match done {
            Ok(()) => {
                self.apply(&job.id, What::Claimed)?;
                self.drops.hash_later(&job.id);
                Ok(())
            }
            // All is in the inbox as before, or another daemon has it.
            Err(e) if !is_filled(&dir.kept()) => self.give_up(&job.id, &e),
            Err(e) => self.reject(&job.id, &e.diagnostic().into()),
        }
    }

    fn confirm(&mut self, job: &Job) -> Turn {
        let what = What::Published { lease: job.lease };
        self.results.forget_unpublished(&job.id);
        if let Some(job) = self.apply(&job.id, what)? {
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

    /// Folders without a job: empty ones go, others are kept for a person to look at. Those of
    /// packed jobs are what a crash left.
    fn set_orphans_aside(&mut self, known: &HashSet<&str>) -> Turn {
        let entries = fs::read_dir(self.folders.jobs()).into_iter().flatten().flatten();
        let names: Vec<OsString> = entries.map(|e| e.file_name()).collect();
        for name in names.iter().filter(|n| n.to_str().is_none_or(|n| !known.contains(n))) {
            let path = self.folders.jobs().join(name);
            let packed = name.to_str().filter(|name| self.queue.store().is_packed(name));
            if let Some(id) = packed {
                if let Some(job) = self.queue.job(id)? {
                    self.recover(&job)?;
                }
                self.tidy_packed(id)?;
                continue;
            }
            let has_originals = ["originals", "input"].iter().any(|n| is_filled(&path.join(n)));
            let done = if has_originals {
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
        Ok(())
    }
}

fn on_disk(job: &Job, folders: &Folders, keep_work: bool) -> io::Result<OnDisk> {
    let dir = folders.job(&job.id);
    let unfinished = !is_finished(job.state());
    let publishing = job.state() == JobState::Publishing;
    Ok(OnDisk {
        plan: unfinished && dir.claim().try_exists()? && MovePlan::load(&dir.claim()).is_ok(),
        // Putting away ends with what is not kept.
        input: holds(&dir.kept())? || (!unfinished && !leftovers(&dir, keep_work)?.is_empty()),
        staged: if publishing { staged(job, folders)? } else { Staged::Gone },
    })
}

/// An outbox that is not there tells nothing.
fn staged(job: &Job, folders: &Folders) -> io::Result<Staged> {
    let folder = staged_folder(job, folders);
    let found = look(&folder)?;
    if found == Staged::Gone && !folder.starts_with(folders.jobs()) {
        let text = format!(
            "{} is missing: whether the result was delivered is known only where it lay",
            folder.parent().unwrap_or(&folder).display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::simulation_tests::daemon;
    use onnxd_jobs::{MemoryStore, Store};

    #[test]
    fn after_the_machine_stopped_no_copy_is_trusted() {
        let root = tempfile::tempdir().unwrap();
        let mut store = MemoryStore::default();
        let ids = [(JobState::Queued, "1"), (JobState::Quarantined, "2")];
        let ids = ids.map(|(state, n)| (state, format!("{n:0>26}")));
        for (state, id) in &ids {
            let mut job = Job { id: id.clone(), ..Job::default() };
            job.set_state(*state);
            assert!(store.put_new(&job).unwrap());
        }
        let mut daemon = daemon(root.path(), Box::new(store));
        let dirs = ids.map(|(_, id)| daemon.folders.job(&id));
        for dir in &dirs {
            fs::create_dir_all(dir.originals()).unwrap();
            fs::create_dir_all(dir.input()).unwrap();
        }
        fs::write(root.path().join("state/boot"), "an earlier start").unwrap();
        daemon.restart().unwrap();
        assert_eq!(dirs.map(|dir| dir.input().exists()), [false, false]);
        assert!(!copies::may_be_lost(&daemon.folders.state));
    }
}
