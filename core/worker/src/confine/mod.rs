//! What a worker gives up before it opens the first plugin, and the parent's side of a worker.
//!
//! The order matters: bound to the parent's life first, then namespaces, limits, files, and the
//! system call filter last, because it denies what the others need. All of it is for a process with
//! one thread.

mod bounds;
pub mod cgroup;
pub mod landlock;
pub mod limits;
pub mod meter;
pub mod namespaces;
pub mod outcome;
pub mod parent;
pub mod seccomp;
pub mod watch;

use crate::link::Link;
use landlock::{LandlockLevel, Paths};
use namespaces::Apart;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{
    self as message, Diagnostics, InputFile, LogLine, PluginInfo, Request, WorkerEvent,
};
use rustix::process::{Signal, getpgrp, getpid, getppid, set_parent_process_death_signal, setpgid};
use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The hidden subcommand that [`parent::spawn`] calls.
pub const SUBCOMMAND: &str = "worker";
/// Target of the log line that says which parts are in force.
pub const LOG_TARGET: &str = "onnxd.confine";
/// How the line begins that says which namespaces a worker has.
pub const NAMESPACES: &str = "namespaces ";
/// How the line begins that says whether a worker has a cgroup.
pub const CGROUP: &str = "cgroup ";
/// How the line begins that says what holds the number of threads.
pub const THREADS: &str = "threads ";
/// Level of a line that says what is in force; and of one that says what stands in for it.
pub const IN_FORCE: i32 = 4;
/// See [`IN_FORCE`].
pub const FALLBACK: i32 = 3;

/// Whether a worker runs where the system cannot confine it completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfinementMode {
    /// No: the job fails.
    Required,
    /// Yes, with what the system offers.
    BestEffort,
}

impl ConfinementMode {
    /// The word on the command line of a worker.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConfinementMode::Required => "required",
            ConfinementMode::BestEffort => "best-effort",
        }
    }

    /// The inverse of [`ConfinementMode::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<ConfinementMode> {
        [ConfinementMode::Required, ConfinementMode::BestEffort]
            .into_iter()
            .find(|m| m.as_str() == word)
    }
}

/// Which parts are in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Resource limits, or why not.
    pub limits: Result<(), String>,
    /// File rules, or why not.
    pub files: Result<LandlockLevel, String>,
    /// System call filter, or why not.
    pub calls: Result<(), String>,
    /// Namespaces of its own, or why none. They are a second line, so none is missed.
    pub namespaces: Result<Apart, String>,
}

impl Confinement {
    /// What is missing, one phrase each.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let files = match &self.files {
            Ok(LandlockLevel::Full) => None,
            Ok(LandlockLevel::Partial) => {
                Some("file rules are partial (Linux 6.2 or later has all)".into())
            }
            Ok(LandlockLevel::None) => Some("file rules: the kernel has no Landlock".into()),
            Err(e) => Some(format!("file rules: {e}")),
        };
        let limits = self.limits.as_ref().err().map(|e| format!("resource limits: {e}"));
        let calls = self.calls.as_ref().err().map(|e| format!("system call filter: {e}"));
        [limits, files, calls].into_iter().flatten().collect()
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.missing().as_slice() {
            [] => write!(f, "confined: resource limits, file rules, system call filter"),
            missing => write!(f, "not completely confined: {}", missing.join("; ")),
        }
    }
}

/// What a worker of a given request may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfinementPlan {
    limits: onnxd_proto::onnxd::Limits,
    paths: Paths,
    input_bytes: u64,
}

impl ConfinementPlan {
    /// The least that the request needs.
    #[must_use]
    pub fn for_request(request: &Request) -> ConfinementPlan {
        let mut plan = ConfinementPlan {
            limits: request.limits.unwrap_or_default(),
            ..ConfinementPlan::default()
        };
        if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
            plan.paths.read.push(folder.to_owned());
        }
        match &request.what {
            Some(What::Probe(probe)) => plan.allow(&probe.plugins, &probe.files),
            Some(What::Inspect(inspect)) => plan.allow_library(&inspect.path),
            Some(What::Convert(convert)) => {
                plan.allow(&convert.plugins, &convert.files);
                plan.paths.write.push(PathBuf::from(&convert.work_dir));
            }
            None => {}
        }
        plan
    }

    fn allow(&mut self, plugins: &[PluginInfo], files: &[InputFile]) {
        for plugin in plugins {
            self.allow_library(&plugin.path);
        }
        for file in files {
            // A file that cannot be looked at is reported by whoever opens it.
            let size = std::fs::symlink_metadata(&file.path).map_or(0, |data| data.len());
            self.input_bytes = self.input_bytes.saturating_add(size);
            self.paths.inputs.push(PathBuf::from(&file.path));
        }
    }

    /// A library and what lies beside it, where its own libraries may be.
    fn allow_library(&mut self, path: &str) {
        if let Some(folder) = Path::new(path).parent() {
            self.paths.read.push(folder.to_owned());
        }
    }
}

/// First thing in a worker: ties its life to the parent's, takes the request from the link, and
/// confines the process. `fd` and `mode` are the arguments of the subcommand.
///
/// What is in force is sent to the parent as a log line; why it cannot go on, as a failure.
///
/// # Errors
/// What was sent, or why nothing could be.
pub fn start(fd: &str, mode: &str) -> Result<(Link, Request, Confinement), Diagnostic> {
    let cannot = |why: String| Diagnostic::new(Code::WorkerStart, why);
    let mode =
        ConfinementMode::parse(mode).ok_or_else(|| cannot(format!("unknown mode `{mode}`")))?;
    if fd != "0" {
        return Err(cannot(format!("the link is descriptor `{fd}`, expected 0")));
    }
    let mut link = link_from_stdin().map_err(|e| cannot(format!("the link: {e}")))?;
    let begun = begin(&mut link, mode);
    if let Err(why) = &begun {
        let failed = Event::Failed(Diagnostics { items: vec![message::Diagnostic::from(why)] });
        // If the parent is gone, no reader is left.
        let _ = link.send(&WorkerEvent { what: Some(failed) });
    }
    begun.map(|(request, confinement)| (link, request, confinement))
}

fn begin(link: &mut Link, mode: ConfinementMode) -> Result<(Request, Confinement), Diagnostic> {
    let cannot = |why: String| Diagnostic::new(Code::WorkerStart, why);
    die_with_parent(link).map_err(|e| cannot(format!("the parent: {e}")))?;
    // The parent is trusted; its message is bounded.
    let request: Option<Request> =
        link.receive(usize::MAX).map_err(|e| cannot(format!("the request: {e}")))?;
    let request = request.ok_or_else(|| cannot("the parent sent no request".into()))?;
    let plan = ConfinementPlan::for_request(&request);
    let confinement = confine(&plan).map_err(cannot)?;
    let missing = confinement.missing();
    if mode == ConfinementMode::Required && !missing.is_empty() {
        let help = "Use a system that offers it, or set `worker.confine = \"best-effort\"`.";
        return Err(cannot(confinement.to_string()).help(help));
    }
    let level = if missing.is_empty() { IN_FORCE } else { WARNING };
    let apart = match &confinement.namespaces {
        Ok(apart) => line(IN_FORCE, format!("{NAMESPACES}{apart}")),
        Err(why) => line(FALLBACK, format!("{NAMESPACES}none: {why}")),
    };
    let bounds = plan.limits.threads_max;
    let threads = match &confinement.namespaces {
        Ok(apart) if apart.counts_threads => {
            line(IN_FORCE, format!("{THREADS}at most {bounds}, held by the kernel"))
        }
        // What the parent says of a cgroup comes before.
        _ => {
            let by = "counted by the parent unless a cgroup holds them";
            line(FALLBACK, format!("{THREADS}at most {bounds}, {by}"))
        }
    };
    for event in [line(level, confinement.to_string()), apart, threads] {
        link.send(&event).map_err(|e| cannot(format!("the link: {e}")))?;
    }
    Ok((request, confinement))
}

/// Level of a line for operators.
const WARNING: i32 = 2;

/// A line about what confines a worker.
fn line(level: i32, text: String) -> WorkerEvent {
    let line = LogLine { level, target: LOG_TARGET.to_owned(), text };
    WorkerEvent { what: Some(Event::Log(line)) }
}

/// Gives up everything that `plan` does not name.
///
/// # Errors
/// If the process has more than one thread: the others would keep their rights.
pub fn confine(plan: &ConfinementPlan) -> Result<Confinement, String> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|e| e.to_string())?.count();
    if threads != 1 {
        return Err(format!("a process with {threads} threads cannot be confined"));
    }
    let namespaces = namespaces::enter().map_err(|e| e.to_string());
    let counted = namespaces.as_ref().is_ok_and(|apart| apart.counts_threads);
    let limits = limits::apply(&plan.limits, plan.input_bytes)
        .and_then(|()| if counted { limits::hold_threads(&plan.limits) } else { Ok(()) });
    Ok(Confinement {
        namespaces,
        limits: limits.map_err(|e| e.to_string()),
        files: landlock::restrict(&plan.paths).map_err(|e| e.to_string()),
        calls: seccomp::restrict().map_err(|e| e.to_string()),
    })
}

/// Has the kernel kill this process when its parent dies, and makes it the leader of a group.
fn die_with_parent(link: &Link) -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that call; then another process is the parent already.
    let maker = rustix::net::sockopt::socket_peercred(link)?.pid;
    if getppid() != Some(maker) {
        return Err(std::io::Error::other("it has ended already"));
    }
    if getpgrp() != getpid() {
        setpgid(None, None)?;
    }
    Ok(())
}

/// The link that the parent passed as standard input, which is then empty for all other code.
fn link_from_stdin() -> std::io::Result<Link> {
    let own = std::io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: `null` is open. `dup2` closes the old standard input and puts an empty one in its place, in
    // one step, so that no other file can come to have its number. Nothing in this process owns number 0;
    // the link is a descriptor of its own.
    let replaced =
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), libc::STDIN_FILENO) };
    if replaced < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(Link::new(UnixStream::from(own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::ConvertRequest;

    #[test]
    fn a_plan_names_inputs_plugins_and_the_work_folder() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("net.onnx");
        std::fs::write(&input, [0; 10]).unwrap();
        let convert = ConvertRequest {
            plugins: vec![PluginInfo { path: "/opt/p/a.so".into(), ..Default::default() }],
            files: vec![InputFile { path: input.to_str().unwrap().into(), ..Default::default() }],
            work_dir: "/var/work".into(),
            ..Default::default()
        };
        let plan = ConfinementPlan::for_request(&Request {
            limits: None,
            what: Some(What::Convert(convert)),
        });
        assert_eq!(plan.input_bytes, 10);
        assert_eq!(plan.paths.write, [Path::new("/var/work")]);
        assert!(plan.paths.read.contains(&PathBuf::from("/opt/p")));
        assert_eq!(plan.paths.inputs, [input]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let (limits, calls, namespaces) = (Ok(()), Ok(()), Err("not here".into()));
        let full = Confinement { limits, files: Ok(LandlockLevel::Full), calls, namespaces };
        assert_eq!(full.missing(), [""; 0]);
        let some = Confinement { files: Ok(LandlockLevel::None), calls: Err("no".into()), ..full };
        let expected = "not completely confined: file rules: the kernel has no Landlock; \
                        system call filter: no";
        assert_eq!(some.to_string(), expected);
        assert_eq!(ConfinementMode::parse("required"), Some(ConfinementMode::Required));
        assert_eq!(ConfinementMode::parse(""), None);
    }

    #[test]
    fn a_process_with_threads_is_not_confined() {
        // The test runner's own thread is one more.
        assert!(
            confine(&ConfinementPlan::default())
                .unwrap_err()
                .contains("threads cannot be confined")
        );
    }
}
