//! Which job runs now, and what becomes of an attempt.

use std::sync::Arc;

use onnxd_jobs::What;
use onnxd_proto::onnxd::JobState;

use super::{Daemon, Turn};
use crate::conversion::attempt::limits;
use crate::run::attempts::Next;
use crate::run::attempts::attempt::Work;
use crate::run::drops::prepare::{identity, own, params, submission};
use crate::run::event::Ending;
use crate::run::queue::now_ms;
use crate::run::tools::Tools;

impl Daemon {
    /// Starts jobs as long as there is room.
    pub(crate) fn schedule(&mut self) -> Turn {
        while self.may_start() && self.attempts.count() < self.settings.worker.parallel_max as usize
        {
            let held = |id: &str| self.results.is_busy(id) || self.attempts.has(id);
            let Some(id) = self.queue.book().next(now_ms(), held) else { break };
            self.start(&id)?;
        }
        Ok(())
    }

    /// The attempt is counted before the worker starts: a crash cannot hide it.
    fn start(&mut self, id: &str) -> Turn {
        let Some(mut job) = self.queue.job(id)? else { return Ok(()) };
        let dir = self.folders.job(id);
        let tools = self.tools.get();
        // The plugins may be others than when the job was queued.
        let params = params(&job);
        let recorded = job.clone();
        job.identity = identity(&submission(&job, &dir), &params, &tools.plugins);
        if job.identity != recorded.identity && self.is_in_hand(&job) {
            return Ok(self.queue.identify_anew(&recorded, &job)?);
        }
        if let Some(there) = self.result_there(&job)? {
            return self.end_as_duplicate(job, &there);
        }
        if let Some(earlier) = self.earlier(&job)? {
            return self.copy(job, earlier);
        }
        let identity = job.identity;
        let started = self.apply_with(id, What::Started, |j| j.identity = identity)?;
        let Some(job) = started else { return Ok(()) };
        let running = self.attempts.begin(&job);
        let work = Work {
            stop: running.stop.clone(),
            doing: running.doing.clone(),
            job,
            dir,
            limits: limits(&self.settings, &own(&params)),
            settings: Arc::clone(&self.settings),
            tools: Tools { plugins: self.around.set_aside.rest_of(&tools.plugins), ..tools },
            events: self.around.events.clone(),
        };
        self.spawn(id, "job", work.into_thread());
        Ok(())
    }

    pub(crate) fn on_ended(&mut self, id: &str, lease: u64, ending: &Ending) -> Turn {
        if self.attempts.lease(id) != Some(lease) {
            return Ok(());
        }
        let state = self.queue.job(id)?.map_or(JobState::Unknown, |job| job.state());
        match self.attempts.after(id, lease, state, ending) {
            Next::End => self.end_attempt(id),
            Next::Publish(staged) => self.publish(id, lease, staged),
            Next::GiveBack => {
                self.apply(id, What::GivenBack { lease })?;
                self.attempts.end(id);
                Ok(())
            }
            Next::Fail { what, no_room } => {
                let next = self.apply(id, what)?;
                let waits = next.is_some_and(|job| job.state() == JobState::RetryWait);
                let why = no_room.filter(|_| waits);
                why.into_iter().for_each(|why| self.attempts.room.lacks(id, why));
                self.end_attempt(id)
            }
        }
    }

    pub(crate) fn end_attempt(&mut self, id: &str) -> Turn {
        self.attempts.end_for_good(id);
        if let Some(job) = self.queue.job(id)? {
            self.settle(job);
        }
        Ok(())
    }
}
