//! The thread of one attempt: starts the worker, passes its news on, and writes the reports.
//!
//! The event loop decides; here is everything that takes time. A second kind of thread brings the
//! result to the outbox once the loop has recorded that it may.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use onnxd_config::Settings;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_intake::MovePlan;
use onnxd_proto::onnxd as message;
use onnxd_proto::onnxd::worker_event::What as News;
use onnxd_proto::onnxd::{ConvertRequest, Job, Limits, WorkerEvent};
use onnxd_worker::confine::parent::Killer;

use crate::conversion::doing::SharedDoing;
use crate::conversion::{ConversionOrder, Outcome, Plugins, Verdict, convert, files, publish};
use crate::run::drops::{copies, prepare};
use crate::run::event::{Ending, Event};
use crate::run::layout::JobDir;
use crate::run::results::publication;
use crate::run::tools::{Tools, asked};

/// Between asking a worker to end and killing it.
const GRACE: Duration = Duration::from_millis(500);
/// Log lines of a worker up to this level are for operators.
const WARN: i32 = 2;

/// Stops an attempt from the event loop, also one whose worker is just being started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<Mutex<StopState>>);

#[derive(Default)]
struct StopState {
    asked: bool,
    killer: Option<Killer>,
}

impl std::fmt::Debug for StopState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "asked: {}, started: {}", self.asked, self.killer.is_some())
    }
}

impl Stop {
    /// Does not block: a thread waits for the worker's end.
    pub(crate) fn stop(&self) {
        let killer = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.asked = true;
            state.killer.clone()
        };
        if let Some(killer) = killer {
            kill(&killer);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_asked(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked
    }

    fn started(&self, killer: Killer) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.asked {
            kill(&killer);
        }
        state.killer = Some(killer);
    }
}

fn kill(killer: &Killer) {
    let waiting = killer.clone();
    let spawned =
        std::thread::Builder::new().name("kill".into()).spawn(move || waiting.kill_group(GRACE));
    if spawned.is_err() {
        killer.kill_group(Duration::ZERO);
    }
}

/// What the thread of an attempt needs.
pub(crate) struct Work {
    pub(crate) job: Job,
    pub(crate) dir: JobDir,
    pub(crate) limits: Limits,
    pub(crate) settings: Arc<Settings>,
    pub(crate) tools: Tools,
    pub(crate) stop: Stop,
    pub(crate) doing: SharedDoing,
    pub(crate) events: Sender<Event>,
}

impl Work {
    /// What the thread of the attempt does. Its last event is [`Event::Ended`].
    pub(crate) fn into_thread(self) -> impl FnOnce() + Send + 'static {
        move || {
            let ending = Box::new(self.run());
            let ended = Event::Ended { job: self.job.id.clone(), lease: self.job.lease, ending };
            // Without a receiver the daemon has ended; the next one begins again.
            let _ = self.events.send(ended);
        }
    }

    fn run(&self) -> Ending {
        let outcome = self.convert().and_then(|outcome| self.of_what_was_taken(outcome));
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(found) => {
                let out = self.dir.work().join("out");
                Outcome::failed(&self.job.id, &self.job.name, &found, out)
            }
        };
        outcome.report.attempt = self.job.attempts;
        let prepared = match outcome.verdict {
            Verdict::Failed { .. } => Ok(()),
            _ => publish::prepare(&mut outcome, Some(self.settings.output.mode.0)),
        };
        // The copy beside the job is for `onnxd report`; the one in the result is what counts.
        let copied = match (&prepared, outcome.verdict) {
            (Ok(()), Verdict::Succeeded | Verdict::SucceededWithFindings) => {
                fs::copy(outcome.out_dir.join(publish::REPORT), self.dir.report()).map(drop)
            }
            _ => fs::write(self.dir.report(), onnxd_report::json(&outcome.report)),
        };
        if let Err(e) = copied {
            tracing::warn!(job = self.job.id, reason = %e, "no copy of the report");
        }
        match (prepared, outcome.verdict) {
            (Err(disk), _) => failed(vec![message::Diagnostic::from(&disk)]),
            (Ok(()), Verdict::Failed { crashed, timed_out, stopped, .. }) => {
                let diagnostics = outcome.report.diagnostics;
                Ending::Failed { diagnostics, crashed, timed_out, stopped }
            }
            (Ok(()), _) => self.staged(&outcome),
        }
    }

    fn staged(&self, outcome: &Outcome) -> Ending {
        let staged = self.dir.result(self.job.lease);
        match publication::stage(&outcome.out_dir, &staged) {
            Ok(()) => Ending::Ready { staged },
            Err(e) => {
                let text = format!("`{}` could not be staged: {e}", staged.display());
                let disk = Diagnostic::new(Code::of_write(&e), text);
                failed(vec![message::Diagnostic::from(&disk)])
            }
        }
    }

    fn convert(&self) -> Result<Outcome, Diagnostics> {
        copies::ensure(&self.job, &self.dir)?;
        let work_dir = self.dir.work();
        let disk = |e: std::io::Error| {
            Diagnostic::new(Code::of_write(&e), format!("`{}`: {e}", work_dir.display()))
        };
        files::remove_folder(&work_dir).map_err(disk)?;
        fs::create_dir(&work_dir).map_err(disk)?;
        #[cfg(test)]
        if let Some(simulated) = crate::run::crash_world::outcome(self) {
            return Ok(simulated);
        }
        let order = self.order();
        let on_start = |killer| self.stop.started(killer);
        let on_event = |event: &WorkerEvent| self.pass_on(event);
        Ok(convert(&self.tools.launcher, order, on_start, on_event)?)
    }

    fn order(&self) -> ConversionOrder {
        let Work { job, dir, tools, .. } = self;
        let known = recognized(job, &tools.plugins);
        let told = known.into_iter().flat_map(|known| known.notes.iter().cloned());
        let request = ConvertRequest {
            job: job.id.clone(),
            name: job.name.clone(),
            attempt: job.attempts,
            plugins: tools.plugins.used.clone(),
            files: prepare::submission(job, dir).files,
            network: job.network.clone(),
            params_json: job.params_json.clone(),
            params: job.params.clone(),
            recognition: known.and_then(|known| known.recognition.clone()),
            work_dir: dir.work().to_string_lossy().into_owned(),
            rewrites_max: 0,
            // Results of the daemon have folders of their own.
            taken: Vec::new(),
        };
        let notes = job.notes.iter().cloned().chain(told).collect();
        ConversionOrder { request, limits: self.limits, notes }
    }

    /// What goes to `done/` has to be what the report tells of.
    fn of_what_was_taken(&self, outcome: Outcome) -> Result<Outcome, Diagnostics> {
        if !matches!(outcome.verdict, Verdict::Failed { .. }) {
            copies::unchanged(&MovePlan::load(&self.dir.claim())?, &self.dir)?;
        }
        Ok(outcome)
    }

    fn pass_on(&self, event: &WorkerEvent) {
        let job = &self.job.id;
        if let Some(what) = &event.what {
            self.doing.take(what);
        }
        match &event.what {
            Some(News::Stage(started)) => {
                let stage = started.stage.clone();
                let event = Event::Stage { job: job.clone(), lease: self.job.lease, stage };
                // Without a receiver the daemon has ended, and the worker with it.
                let _ = self.events.send(event);
            }
            Some(News::Log(line)) => {
                let text = onnxd_diagnostics::shown(&line.text);
                if line.level <= WARN {
                    tracing::warn!(job, target = line.target, text, "worker");
                } else {
                    tracing::debug!(job, target = line.target, text, "worker");
                }
            }
            _ => {}
        }
    }
}

fn failed(diagnostics: Vec<message::Diagnostic>) -> Ending {
    Ending::Failed { diagnostics, crashed: false, timed_out: false, stopped: false }
}

/// What the front-ends said when the drop was found, if they would still be asked the same.
fn recognized<'a>(job: &'a Job, plugins: &Plugins) -> Option<&'a message::Recognized> {
    job.recognized.as_ref().filter(|known| known.asked == asked(plugins, &job.params_json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{PluginInfo, Recognized};

    #[test]
    fn an_answer_holds_for_the_same_plugins_and_params() {
        let plugins = |sha256: &str| {
            let plugin = PluginInfo { sha256: sha256.into(), ..PluginInfo::default() };
            Plugins { used: vec![plugin], ..Plugins::default() }
        };
        let asked = asked(&plugins("1"), "{}");
        let recognized = Some(Recognized { asked, ..Recognized::default() });
        let job = Job { params_json: "{}".into(), recognized, ..Job::default() };
        let known = |job: &Job, sha256| super::recognized(job, &plugins(sha256)).is_some();
        assert!(known(&job, "1"));
        assert!(!known(&job, "2"), "another library");
        let other = Job { params_json: r#"{"job":{}}"#.into(), ..job.clone() };
        assert!(!known(&other, "1"), "other params");
        assert!(!known(&Job { recognized: None, ..job }, "1"), "a job of an older onnxd");
    }
}
