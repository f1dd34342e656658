//! Starts confined children: which program, how confined, with which limits.

use onnxd_config::Settings;
use onnxd_config::settings::Confine;
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{Limits, Request, WorkerEvent};
use onnxd_worker::confine::ConfinementMode;
use onnxd_worker::confine::outcome::Outcome;
use onnxd_worker::confine::parent::{WorkerProcess, spawn};
use std::path::PathBuf;
use std::time::Duration;

/// Memory of a child that answers one question.
const QUESTION_MEMORY_BYTES: u64 = 1 << 30;

/// Starts workers as the settings say.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    program: PathBuf,
    mode: ConfinementMode,
    threads_max: u32,
}

impl Launcher {
    /// A launcher of this very program, also where its file was replaced meanwhile.
    pub(crate) fn new(settings: &Settings) -> Launcher {
        let mode = match settings.worker.confine {
            Confine::Required => ConfinementMode::Required,
            Confine::BestEffort => ConfinementMode::BestEffort,
        };
        let threads_max = settings.worker.threads_max;
        Launcher { program: PathBuf::from("/proc/self/exe"), mode, threads_max }
    }

    /// A launcher of another program.
    #[cfg(test)]
    pub(crate) fn from_settings(settings: &Settings, program: &str) -> Launcher {
        Launcher { program: program.into(), ..Launcher::new(settings) }
    }

    /// Starts a worker.
    pub(crate) fn spawn(&self, request: &Request) -> Result<WorkerProcess, Diagnostic> {
        spawn(request, &self.program, self.mode)
    }

    /// Asks one question and waits for the answer.
    pub(crate) fn ask(&self, what: What, limit: Duration) -> Result<Event, Diagnostics> {
        self.follow(what, limit, |_| {})?.answer()
    }

    /// The same, with all that is known about the end of the child, and its news as they come. The
    /// limit is that of each candidate.
    pub(crate) fn follow(
        &self,
        what: What,
        limit: Duration,
        on_event: impl FnMut(&WorkerEvent),
    ) -> Result<Outcome, Diagnostic> {
        let candidates = match &what {
            What::Probe(probe) => probe.candidates.len().max(1) as u64,
            _ => 1,
        };
        let limits = Limits {
            memory_bytes: QUESTION_MEMORY_BYTES,
            cpu_seconds: limit.as_secs().max(1) * candidates,
            wall_ms: limit.as_millis().try_into().unwrap_or(u64::MAX),
            file_bytes: 0,
            threads: 1,
            threads_max: self.threads_max,
            disk_bytes: 0,
        };
        let request = Request { limits: Some(limits), what: Some(what) };
        Ok(self.spawn(&request)?.follow(on_event))
    }
}
