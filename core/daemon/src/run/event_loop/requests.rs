//! What people ask of the running daemon, and its answers.

use std::time::Instant;

use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_intake::Control;
use onnxd_jobs::{What, is_finished, one_id, state_word};
use onnxd_proto::onnxd::{Job, JobState};
use serde_json::{Value, json};

use super::{Daemon, Halt, Turn};
use crate::run::attempts::RunningAttempt;
use crate::run::control::{Now, inbox_json, job_json, summary_json};
use crate::run::event::ClientRequest;
use crate::run::layout::free_mib;
use crate::run::order::DiskOrder;
use crate::run::protocol::{ControlRequest, JOBS_MAX, granted, refused};
use crate::run::results::publication::{Staged, look, staged_folder};

impl Daemon {
    pub(crate) fn on_client_request(&mut self, client: &ClientRequest) -> Turn {
        let done = self.answer(client);
        if let Err(Halt::Store(e)) = &done {
            // Whoever does not wait for the answer does not get it.
            let _ = client.answer.try_send(refused(&e.diagnostic));
        }
        done
    }

    fn answer(&mut self, client: &ClientRequest) -> Turn {
        let actor = &client.actor;
        let request = match self.full_id(&client.request)? {
            Ok(request) => request,
            Err(why) => {
                // Whoever does not wait for the answer does not get it.
                let _ = client.answer.try_send(refused(&why));
                return Ok(());
            }
        };
        let answer = match &request {
            ControlRequest::List { state, limit, after } => {
                self.list(state.as_deref(), *limit, after.as_deref())?
            }
            ControlRequest::Show { job } => self.show(job)?,
            ControlRequest::Cancel { job } => self.cancel(job, actor)?,
            ControlRequest::Release { job } => self.release(job, actor)?,
            ControlRequest::Retry { job } => match self.retry(job, client)? {
                Some(answer) => answer,
                // The answer follows when the originals are back.
                None => return Ok(()),
            },
            ControlRequest::Pause {} => self.pause(actor),
            ControlRequest::Resume {} => self.resume(actor),
            ControlRequest::Reload {} => {
                tracing::info!(%actor, "reload asked");
                self.reload(Some(client.answer.clone()));
                return Ok(());
            }
            ControlRequest::Health {} => self.health(),
            ControlRequest::Status {} => self.status(),
            ControlRequest::Inbox {} => granted(self.inbox()),
        };
        // Whoever does not wait for the answer does not get it.
        let _ = client.answer.try_send(answer);
        Ok(())
    }

    /// The request with the whole id of its job in place of the first letters.
    fn full_id(&self, request: &ControlRequest) -> Turn<Result<ControlRequest, Diagnostic>> {
        let mut request = request.clone();
        let (ControlRequest::Show { job }
        | ControlRequest::Cancel { job }
        | ControlRequest::Release { job }
        | ControlRequest::Retry { job }) = &mut request
        else {
            return Ok(Ok(request));
        };
        if self.queue.job(job)?.is_some() {
            return Ok(Ok(request));
        }
        let all = self.queue.store().ids_beginning_with(job)?;
        match one_id(job, all.iter().map(String::as_str)) {
            Ok(Some(id)) => *job = id.to_owned(),
            Ok(None) => {}
            Err(why) => return Ok(Err(why)),
        }
        Ok(Ok(request))
    }

    fn list(&self, state: Option<&str>, limit: Option<usize>, after: Option<&str>) -> Turn<Value> {
        let named = state.map(|word| {
            let states = (0..).map_while(|n| JobState::try_from(n).ok());
            states.into_iter().find(|s| state_word(*s) == word).ok_or(word)
        });
        let state = match named.transpose() {
            Ok(state) => state,
            Err(word) => {
                let message = format!("`{}` is no state of a job", shown(word));
                return Ok(refused(&Diagnostic::new(Code::Usage, message)));
            }
        };
        let limit = limit.unwrap_or(JOBS_MAX).min(JOBS_MAX);
        // One more than is shown tells whether there is a next page.
        let mut jobs = self.queue.store().page(state, after, limit + 1)?;
        let is_last = jobs.len() <= limit;
        jobs.truncate(limit);
        let total = match state {
            Some(state) => self.queue.book().count(state),
            None => self.queue.book().counts().values().sum(),
        };
        let next = jobs.last().filter(|_| !is_last).map(|job| job.id.clone());
        let jobs: Vec<Value> =
            jobs.iter().map(|j| summary_json(j, self.now_doing(j).as_ref())).collect();
        Ok(granted(json!({"total": total, "jobs": jobs, "next": next})))
    }

    /// What the job's worker is about; a cancelled job is only cancelled once that has ended.
    fn now_doing(&self, job: &Job) -> Option<Now<'_>> {
        if let Some(stage) = self.results.why_unpublished(&job.id) {
            return Some(Now { stage, progress: String::new() });
        }
        let running = self.attempts.get(&job.id)?;
        let stage = if is_finished(job.state()) { "cancelling" } else { &running.stage };
        Some(Now { stage, progress: running.doing.progress_in(stage) })
    }

    fn show(&self, id: &str) -> Turn<Value> {
        Ok(match self.queue.job(id)? {
            Some(job) => granted(json!({"job": job_json(&job, self.now_doing(&job).as_ref())})),
            None => no_such(id),
        })
    }

    fn cancel(&mut self, id: &str, actor: &str) -> Turn<Value> {
        let is_moved = self.attempts.get(id).is_some_and(RunningAttempt::is_publishing);
        if self.results.is_busy(id) || is_moved {
            return Ok(refused(&in_hand(id)));
        }
        if let Some(job) = self.queue.publishing(id)?
            && look(&staged_folder(&job, &self.folders)).is_ok_and(|found| found == Staged::Moved)
        {
            let text = format!("The result of job {id} is in the outbox already");
            return Ok(refused(&Diagnostic::new(Code::Usage, text).help("")));
        }
        let actor = actor.to_owned();
        let Some(job) = self.apply(id, What::CancelAsked { actor })? else {
            return self.not_possible(id, "cancelled");
        };
        self.drops.cancelled(id);
        self.results.forget_unpublished(id);
        self.attempts.room.forget(id);
        match self.attempts.get(id) {
            Some(running) => running.stop.stop(),
            // Files that are being read are moved afterwards.
            None if self.drops.is_taking(id) => {}
            None => self.settle(job),
        }
        Ok(granted(json!({"job": id, "state": "cancelled"})))
    }

    fn release(&mut self, id: &str, actor: &str) -> Turn<Value> {
        let actor = actor.to_owned();
        let Some(job) = self.apply_with(id, What::Released { actor }, forget_findings)? else {
            return self.not_possible(id, "released");
        };
        Ok(self.begun_again(&job))
    }

    fn retry(&mut self, id: &str, client: &ClientRequest) -> Turn<Option<Value>> {
        if self.results.is_busy(id) || self.attempts.has(id) || self.drops.is_taking(id) {
            return Ok(Some(refused(&in_hand(id))));
        }
        let job = self.queue.job(id)?;
        match job.filter(|j| matches!(j.state(), JobState::Failed | JobState::Cancelled)) {
            None => self.not_possible(id, "tried again").map(Some),
            Some(job) => {
                let (actor, answer) = (client.actor.clone(), client.answer.clone());
                self.results.ask_for_originals(id, actor, answer);
                let kept = self.queue.store().kept(id)?;
                self.order([DiskOrder::Fetch { job: Box::new(job), kept }]);
                Ok(None)
            }
        }
    }

    /// The originals of a job to be tried again are back, or lost.
    pub(crate) fn on_fetched(&mut self, id: &str, done: &Result<(), Diagnostic>) -> Turn {
        let Some((actor, answer)) = self.results.asker(id) else { return Ok(()) };
        let said = match done {
            Err(why) => {
                self.tidy_packed(id)?;
                refused(why)
            }
            Ok(()) => match self.apply_with(id, What::RetryAsked { actor }, forget_findings)? {
                Some(job) => self.begun_again(&job),
                None => self.not_possible(id, "tried again")?,
            },
        };
        self.results.end_fetch(id);
        // Whoever does not wait for the answer does not get it.
        let _ = answer.try_send(said);
        Ok(())
    }

    fn begun_again(&mut self, job: &Job) -> Value {
        if job.state() == JobState::Claimed {
            self.drops.hash_later(&job.id);
        }
        granted(json!({"job": job.id, "state": state_word(job.state())}))
    }

    fn not_possible(&self, id: &str, what: &str) -> Turn<Value> {
        Ok(match self.queue.job(id)? {
            None => no_such(id),
            Some(job) => {
                let state = state_word(job.state());
                let message = format!("Job {id} is {state}; it cannot be {what}");
                refused(&Diagnostic::new(Code::Usage, message).help(""))
            }
        })
    }

    fn pause(&mut self, actor: &str) -> Value {
        tracing::info!(%actor, "paused");
        let reason = format!("paused by {actor}; `onnxd ctl resume` goes on");
        self.around.intake.post(Control::Pause(reason));
        self.course.paused_by = Some(actor.to_owned());
        granted(json!({"paused": true, "running": self.attempts.count()}))
    }

    fn resume(&mut self, actor: &str) -> Value {
        tracing::info!(%actor, "resumed");
        self.course.paused_by = None;
        if self.attempts.disk_low().is_none() {
            self.around.intake.post(Control::Resume);
        }
        granted(json!({"paused": false}))
    }

    fn status(&self) -> Value {
        let running: Vec<Value> = self
            .attempts
            .all()
            .map(|(id, r)| {
                let seconds = Instant::now().duration_since(r.since).as_secs();
                json!({"job": id, "name": r.name, "stage": r.stage,
                    "progress": r.doing.progress_in(&r.stage), "seconds": seconds})
            })
            .collect();
        let plugins = self.tools.get().plugins;
        granted(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "summary": self.status_line(),
            "paused_by": self.course.paused_by,
            "disk_low": self.attempts.disk_low(),
            "held_back": self.drops.held_back(),
            "free_mib": free_mib(&self.folders.state),
            "jobs": self.queue.book().counts(),
            "running": running,
            "plugins": plugins.used.iter().map(|p| json!({"id": p.id, "version": p.version}))
                .collect::<Vec<_>>(),
            "inbox": self.inbox(),
        }))
    }

    fn inbox(&self) -> Value {
        let watched = self.around.watched.as_ref();
        watched.map_or(Value::Null, |watched| inbox_json(&watched.status.get()))
    }
}

/// Findings of an earlier try say nothing about the next one.
fn forget_findings(job: &mut Job) {
    job.diagnostics.clear();
}

fn no_such(id: &str) -> Value {
    let message = format!("There is no job `{}`", shown(id));
    refused(&Diagnostic::new(Code::Usage, message).help("`onnxd jobs list` shows all jobs."))
}

fn in_hand(id: &str) -> Diagnostic {
    let message = format!("The files of job {id} are being moved");
    Diagnostic::new(Code::NotRunning, message).help("Try again in a moment.")
}
