//! What became of a worker, and what is said about it.
//!
//! The exit status alone is never proof of success: a plugin may call `exit(0)`. A worker succeeded
//! if it sent its answer *and* ended with status 0.

use super::watch::Excess;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_host::call::DIAGNOSTICS_MAX;
use onnxd_plugin_host::from_message;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{ConvertResult, StageStarted};
use std::time::Duration;

/// Time for a worker to end after it has closed the connection.
pub(super) const ENDING: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// How the connection came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The worker closed it or ended.
    Closed,
    /// The worker closed it and went on; it was stopped.
    Lingering,
    /// The deadline passed; the worker was stopped.
    Late,
    /// A message could not be taken; the worker was stopped.
    Refused(String),
    /// The worker took more than it may; it was stopped.
    Over(Excess),
    /// It could not be used any more; the worker was stopped.
    Broken(String),
}

/// Everything known about a worker that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How the process ended.
    pub exit: Exit,
    /// How the connection ended.
    pub end: End,
    /// The stage it was in.
    pub stage: Option<StageStarted>,
    /// The last result or failure it sent.
    pub answer: Option<Event>,
    /// The end of its standard error.
    pub stderr: String,
    /// Whether the kernel ended it because its cgroup had no memory left.
    pub lacked_memory: bool,
    /// Whether a user asked for its end.
    pub stopped: bool,
    /// The time limit it had; 0 if none.
    pub wall_ms: u64,
}

/// The result of a conversion, or why there is none.
///
/// # Errors
/// What the worker itself reported, or what its end tells.
pub fn conclude(outcome: &Outcome) -> Result<ConvertResult, Diagnostics> {
    match outcome.answer()? {
        Event::Converted(result) => Ok(result),
        _ => Err(outcome.says(Code::WorkerNoResult, "it answered another question").into()),
    }
}

impl Outcome {
    /// The worker's answer, or why there is none.
    ///
    /// # Errors
    /// What the worker itself reported, or what its end tells.
    pub fn answer(&self) -> Result<Event, Diagnostics> {
        let reported = match &self.answer {
            Some(Event::Failed(failed)) if !failed.items.is_empty() => Some(failed),
            _ => None,
        };
        if let (Some(failed), End::Closed) = (reported, &self.end) {
            let items = failed.items.iter().take(DIAGNOSTICS_MAX);
            return Err(Diagnostics(items.map(from_message).collect()));
        }
        if let Some(trouble) = self.trouble() {
            return Err(trouble.into());
        }
        match &self.answer {
            Some(Event::Failed(_)) | None => {
                let text = "it ended with status 0 but without a result";
                Err(self.says(Code::WorkerNoResult, text).into())
            }
            Some(answer) => Ok(answer.clone()),
        }
    }

    /// What went wrong with the process, if anything did.
    fn trouble(&self) -> Option<Diagnostic> {
        if self.stopped {
            return Some(self.says(Code::WorkerKilled, "it was stopped on request").help(""));
        }
        match &self.end {
            End::Late => return Some(self.hung(&format!("within {} ms", self.wall_ms))),
            End::Lingering => return Some(self.lingering()),
            End::Refused(why) => {
                let text = format!("it sent a message that onnxd does not take: {why}");
                return Some(self.broke_contract(&text));
            }
            End::Over(excess) => return Some(self.over(*excess)),
            End::Broken(why) => {
                let text = format!("the connection broke: {why}");
                return Some(self.says(Code::WorkerNoResult, &text));
            }
            End::Closed => {}
        }
        match self.exit {
            Exit::Code(0) => None,
            Exit::Signal(signal) => Some(self.killed_by(signal)),
            Exit::Code(_) if self.stderr.contains("panicked at") => Some(self.panicked()),
            Exit::Code(code) => {
                let text = format!("it ended with status {code} and without a result");
                Some(self.broke_contract(&text))
            }
        }
    }

    fn broke_contract(&self, text: &str) -> Diagnostic {
        self.says(self.blame(Code::PluginContract, Code::WorkerNoResult), text)
    }

    /// It was stopped because of that, so that the signal it ended by tells nothing.
    fn lingering(&self) -> Diagnostic {
        let when = if self.answer.is_some() { "after its answer" } else { "without an answer" };
        let waited = ENDING.as_secs();
        let text = format!("it closed its link to onnxd {when}, and did not end within {waited} s");
        self.broke_contract(&text)
    }

    fn panicked(&self) -> Diagnostic {
        self.says(self.blame(Code::PluginPanicked, Code::Internal), "it panicked")
    }

    fn hung(&self, limit: &str) -> Diagnostic {
        let text = format!("it did not end {limit}");
        self.says(self.blame(Code::PluginHung, Code::WorkerTimeout), &text)
    }

    fn over(&self, excess: Excess) -> Diagnostic {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let (code, text) = match excess {
            Excess::Threads(found, max) => {
                (Code::WorkerThreads, format!("it had {found} threads, and may have {max}"))
            }
            Excess::Disk(found, max) => {
                let (found, max) = (mib(found), mib(max));
                (Code::WorkerDisk, format!("it wrote {found} MiB in all, and may write {max} MiB"))
            }
            Excess::Entries => {
                let text =
                    "it made more files, or more folders inside each other, than are counted";
                let one = self.says(Code::WorkerDisk, text);
                return one.help("Report it to the author of the plugin that is named.");
            }
        };
        self.says(code, &text)
    }

    fn killed_by(&self, signal: i32) -> Diagnostic {
        let name = signal_name(signal);
        if signal == libc::SIGKILL && self.lacked_memory {
            let text = format!("the memory of its cgroup was used up ({name})");
            return self.says(Code::OutOfMemory, &text);
        }
        if signal == libc::SIGABRT && self.could_not_allocate() {
            let text = format!("it could not allocate memory and aborted ({name})");
            return self.says(Code::OutOfMemory, &text);
        }
        match signal {
            libc::SIGXCPU => self.hung("within its processor time (SIGXCPU)"),
            libc::SIGKILL => {
                let text = "it was killed from outside (SIGKILL), most often because the machine \
                            ran out of memory";
                self.says(Code::WorkerKilled, text)
            }
            libc::SIGTERM | libc::SIGINT | libc::SIGHUP => {
                let text = format!("it was stopped from outside ({name})");
                self.says(Code::WorkerKilled, &text)
            }
            _ if self.stderr.contains("overflowed its stack") => {
                let text = format!("it crashed: stack overflow ({name})");
                self.says(self.blame(Code::PluginCrashed, Code::Internal), &text)
            }
            _ => {
                let text = format!("it crashed: signal {signal} ({name})");
                self.says(self.blame(Code::PluginCrashed, Code::Internal), &text)
            }
        }
    }

    /// What the allocators of Rust and C++ print before they abort.
    fn could_not_allocate(&self) -> bool {
        ["memory allocation of", "bad_alloc", "out of memory"]
            .iter()
            .any(|text| self.stderr.contains(text))
    }

    /// One code if a plugin was in charge, another if onnxd itself was.
    fn blame(&self, plugin: Code, host: Code) -> Code {
        if self.stage.as_ref().is_some_and(|s| !s.plugin.is_empty()) { plugin } else { host }
    }

    /// A diagnostic that names who was in charge and what was printed last.
    fn says(&self, code: Code, what: &str) -> Diagnostic {
        let who = match &self.stage {
            None => "the worker, before its first stage".to_owned(),
            Some(StageStarted { stage, plugin, component }) => match (&**plugin, &**component) {
                ("", _) => format!("the worker, in stage `{stage}`"),
                (plugin, "") => format!("plugin {plugin}, in stage `{stage}`"),
                (plugin, component) => {
                    format!("plugin {plugin}, component {component}, in stage `{stage}`")
                }
            },
        };
        let printed = self.stderr.lines().rev().find(|line| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with("note:")
        });
        let printed = printed.map(|line| format!("; last printed: {}", shown(line)));
        Diagnostic::new(code, format!("{who}: {what}{}", printed.unwrap_or_default()))
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV: memory access outside the process's own",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS: a mapped file is shorter than it was",
        libc::SIGFPE => "SIGFPE: integer division by zero",
        libc::SIGILL => "SIGILL: an instruction this processor does not have",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        libc::SIGXFSZ => "SIGXFSZ: the file size limit",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTRAP => "SIGTRAP",
        _ => "see `kill -l`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd as message;

    fn outcome(exit: Exit) -> Outcome {
        Outcome {
            exit,
            end: End::Closed,
            stage: Some(StageStarted {
                stage: "optimize".into(),
                plugin: "org.example.p".into(),
                component: "fuse-pad".into(),
            }),
            answer: None,
            stderr: String::new(),
            lacked_memory: false,
            stopped: false,
            wall_ms: 500,
        }
    }

    fn converted() -> Option<Event> {
        Some(Event::Converted(ConvertResult::default()))
    }

    fn only(outcome: &Outcome) -> Diagnostic {
        let mut all = conclude(outcome).unwrap_err().0;
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn success_needs_result_and_status_0() {
        let good = Outcome { answer: converted(), ..outcome(Exit::Code(0)) };
        assert!(conclude(&good).is_ok());
        assert_eq!(only(&outcome(Exit::Code(0))).code, "N0903");
        let late_crash = Outcome { answer: converted(), ..outcome(Exit::Signal(11)) };
        assert_eq!(only(&late_crash).code, "N0401");
        let other = Some(Event::Probed(message::ProbeResult::default()));
        assert_eq!(only(&Outcome { answer: other, ..good }).code, "N0903");
    }

    #[test]
    fn each_end_has_its_code() {
        let printed = |exit, stderr: &str| Outcome { stderr: stderr.into(), ..outcome(exit) };
        let ended = |end| Outcome { end, ..outcome(Exit::Signal(9)) };
        for (case, code, text) in [
            (outcome(Exit::Signal(11)), "N0401", "signal 11 (SIGSEGV"),
            (printed(Exit::Signal(6), "x has overflowed its stack"), "N0401", "stack overflow"),
            (printed(Exit::Signal(6), "memory allocation of 9 bytes failed"), "N0305", "memory"),
            (outcome(Exit::Signal(9)), "N0301", "killed from outside"),
            (outcome(Exit::Signal(15)), "N0301", "stopped from outside"),
            (outcome(Exit::Signal(24)), "N0405", "processor time"),
            (ended(End::Late), "N0405", "within 500 ms"),
            (ended(End::Broken("b".into())), "N0903", "the connection broke: b"),
            (ended(End::Refused("b".into())), "N0406", "does not take: b"),
            (ended(End::Lingering), "N0406", "closed its link to onnxd without an answer"),
            (ended(End::Over(Excess::Threads(71, 70))), "N0313", "had 71 threads, and may have 70"),
            (ended(End::Over(Excess::Disk(3 << 20, 1))), "N0312", "wrote 3 MiB in all"),
            (ended(End::Over(Excess::Entries)), "N0312", "more files"),
            (Outcome { lacked_memory: true, ..outcome(Exit::Signal(9)) }, "N0305", "its cgroup"),
            (printed(Exit::Code(101), "thread 'main' panicked at x"), "N0402", "panicked"),
            (outcome(Exit::Code(3)), "N0406", "status 3"),
        ] {
            let one = only(&case);
            assert_eq!(one.code, code, "{one}");
            assert!(one.message.contains(text), "{one}");
            let who = "plugin org.example.p, component fuse-pad, in stage `optimize`: ";
            assert!(one.message.starts_with(who), "{one}");
        }
    }

    #[test]
    fn without_a_plugin_in_charge_none_is_blamed() {
        for (exit, code) in [(Exit::Signal(11), "N0902"), (Exit::Code(1), "N0903")] {
            let one = only(&Outcome { stage: None, ..outcome(exit) });
            assert_eq!(one.code, code);
            assert!(one.message.starts_with("the worker, before its first stage: "), "{one}");
        }
        let late = Outcome { stage: None, end: End::Late, ..outcome(Exit::Signal(9)) };
        assert_eq!(only(&late).code, "N0302");
    }

    #[test]
    fn what_the_worker_reported_comes_first() {
        let item = message::Diagnostic {
            code: "N0203".into(),
            class: "unsupported".into(),
            message: "m".into(),
            ..Default::default()
        };
        let failed = Some(Event::Failed(message::Diagnostics { items: vec![item] }));
        let both = Outcome { answer: failed, ..outcome(Exit::Code(1)) };
        assert_eq!(only(&both).code, "N0203");
        assert_eq!(only(&Outcome { end: End::Late, ..both }).code, "N0405");
    }
}
