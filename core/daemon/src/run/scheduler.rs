//! Which job runs now, and what becomes of an attempt.

use std::time::Instant;

use onnxd_jobs::{What, is_finished, lacks_room};
use onnxd_proto::onnxd::JobState;
use serde_json::Value;

use super::attempt::{self, Stop, Work};
use super::daemon::{Daemon, Phase, Running, Turn, now_ms};
use super::event::Ending;
use super::outbox::PUBLISHING;
use super::prepare::identity;
use super::tools::Tools;
use crate::conversion::doing::Shared;

impl Daemon {
    pub(crate) fn may_start(&self) -> bool {
        self.course.phase == Phase::Working
            && self.course.paused_by.is_none()
            && self.attempts.disk_low.is_none()
            && self.queue.refused.why().is_none()
    }

    /// Starts jobs as long as there is room.
    pub(crate) fn schedule(&mut self) -> Turn {
        while self.may_start()
            && self.attempts.running.len() < self.settings.worker.parallel_max as usize
        {
            let held =
                |id: &str| self.results.busy.contains(id) || self.attempts.running.contains_key(id);
            let Some(id) = self.queue.book.next(now_ms(), held) else { break };
            self.start(&id)?;
        }
        Ok(())
    }

    /// The attempt is counted before the worker starts: a crash cannot hide it.
    fn start(&mut self, id: &str) -> Turn {
        let Some(mut job) = self.queue.store.get(id)? else { return Ok(()) };
        let dir = self.folders.job(id);
        let tools = self.tools.get();
        // The plugins may be others than when the job was queued.
        let params: Value = serde_json::from_str(&job.params_json).unwrap_or_default();
        let recorded = job.clone();
        job.identity = identity(&attempt::submission(&job, &dir), &params, &tools.plugins);
        if job.identity != recorded.identity && self.is_in_hand(&job) {
            // It waits like one that had this identity from the beginning.
            self.queue.store.swap(&recorded, &job)?;
            self.queue.book.note(Some(&recorded), &job);
            return Ok(());
        }
        if let Some(there) = self.result_there(&job)? {
            return self.is_duplicate(job, &there);
        }
        if let Some(earlier) = self.earlier(&job)? {
            return self.copy(job, &earlier);
        }
        let identity = job.identity;
        let started = self.apply_with(id, What::Started, |j| j.identity = identity)?;
        let Some(job) = started else { return Ok(()) };
        self.attempts.room.forget(id);
        let running = Running {
            lease: job.lease,
            name: job.name.clone(),
            stage: "start".into(),
            since: Instant::now(),
            stop: Stop::default(),
            doing: Shared::default(),
            given_back: false,
        };
        let plugins = self.around.set_aside.rest_of(&tools.plugins);
        let tools = Tools { plugins, ..tools };
        let (stop, events) = (running.stop.clone(), self.around.events.clone());
        let doing = running.doing.clone();
        self.attempts.running.insert(id.to_owned(), running);
        let settings = std::sync::Arc::clone(&self.settings);
        self.spawn(
            id,
            "job",
            Work { job, dir, settings, tools, stop, doing, events }.into_thread(),
        );
        Ok(())
    }

    /// A stage is shown, not recorded: a crash during the attempt begins it again anyway.
    pub(crate) fn on_stage(&mut self, id: &str, lease: u64, stage: &str) {
        if let Some(running) = self.attempts.running.get_mut(id).filter(|r| r.lease == lease) {
            stage.clone_into(&mut running.stage);
            tracing::debug!(job = id, stage, "stage");
        }
    }

    pub(crate) fn on_ended(&mut self, id: &str, lease: u64, ending: &Ending) -> Turn {
        let Some(running) = self.attempts.running.get(id).filter(|r| r.lease == lease) else {
            return Ok(());
        };
        let given_back = running.given_back;
        let state = self.queue.store.get(id)?.map_or(JobState::Unknown, |job| job.state());
        match ending {
            _ if is_finished(state) => self.end_attempt(id),
            Ending::Ready { staged } => self.publish(id, lease, staged),
            Ending::Failed { stopped: true, .. } if given_back => {
                self.apply(id, What::GivenBack { lease })?;
                self.attempts.running.remove(id);
                Ok(())
            }
            Ending::Failed { diagnostics, crashed, timed_out, .. } => {
                let (diagnostics, crashed, timed_out) = (diagnostics.clone(), *crashed, *timed_out);
                let why = lacks_room(&diagnostics).map(|d| d.message.clone());
                let what = What::Failed { lease, diagnostics, crashed, timed_out };
                let next = self.apply(id, what)?;
                let waits = next.is_some_and(|job| job.state() == JobState::RetryWait);
                why.filter(|_| waits).into_iter().for_each(|why| self.attempts.room.lacks(id, why));
                self.end_attempt(id)
            }
        }
    }

    pub(crate) fn end_attempt(&mut self, id: &str) -> Turn {
        self.attempts.running.remove(id);
        self.attempts.no_copy.remove(id);
        if let Some(job) = self.queue.store.get(id)? {
            self.settle(job);
        }
        Ok(())
    }

    /// The drain time is over: running jobs go back to the queue, and the attempt does not count.
    pub(crate) fn give_back_running(&mut self) {
        for (id, running) in &mut self.attempts.running {
            if !running.given_back && running.stage != PUBLISHING {
                tracing::info!(job = %id, "stopped, to be converted after the next start");
                running.given_back = true;
                running.stop.stop();
            }
        }
    }
}
