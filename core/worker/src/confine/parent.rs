//! The parent's side of a worker: start, follow, stop, and wait.
//!
//! Whatever runs in a worker may crash, hang, lie, or leave the connection open, so each wait here
//! has an end as soon as the request has a time limit, and memory is bounded.

use super::bounds;
use super::cgroup::Cgroup;
use super::meter::{CountedSecond, Meter};
use super::outcome::{ENDING, End, Exit, Outcome};
use super::watch::{Watch, Watcher};
use super::{CGROUP, ConfinementMode, FALLBACK, IN_FORCE, SUBCOMMAND, line};
use crate::link::Link;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::footprint::DECODED_BYTES_MAX;
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{Request, StageStarted, WorkerEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// What is kept of a worker's standard error: its end, in bytes.
pub const STDERR_BYTES_MAX: usize = 16 * 1024;
/// What is read of it in a second; the worker waits meanwhile.
const STDERR_BYTES_PER_SECOND: u64 = 16 << 20;
/// Between the polite and the final signal.
pub const GRACE: Duration = Duration::from_secs(2);
/// For one message to arrive completely, and for a request to be taken.
const MESSAGE: Duration = Duration::from_secs(60);
/// For more news to come, after some that nobody waits for.
const GATHER: Duration = Duration::from_millis(1);

/// The stage in which front-ends are asked whether a network is theirs.
pub const PROBE: &str = "probe";
/// For one front-end to say so: it looks at a network, and converts nothing.
pub const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// Environment that a worker inherits; the rest could change what a conversion gives.
const ENVIRONMENT: [&str; 3] = ["LD_LIBRARY_PATH", "RUST_BACKTRACE", "TZ"];

/// A running worker. Dropping it without [`WorkerProcess::follow`] kills it.
pub struct WorkerProcess {
    child: Child,
    /// Readable once the process has ended; `None` where the kernel has no such descriptors.
    pidfd: Option<OwnedFd>,
    link: Link,
    killer: Killer,
    stderr: Tail,
    watcher: Watcher,
    cgroup: std::result::Result<Cgroup, String>,
    deadline: Option<Instant>,
    wall_ms: u64,
    /// Networks that it is asked about, each with a time limit of its own.
    candidates: u32,
}

/// Stops a worker from any thread; does nothing once the worker has ended.
#[derive(Clone)]
pub struct Killer {
    pid: Pid,
    /// Set under the lock before the process number may be given to another process.
    reaped: Arc<Mutex<bool>>,
    asked: Arc<AtomicBool>,
}

/// Starts `program worker 0 MODE` and hands it the request. The deadline of the request's limits
/// begins now.
///
/// # Errors
/// [`Code::WorkerStart`].
pub fn spawn(
    request: &Request,
    program: &Path,
    mode: ConfinementMode,
) -> std::result::Result<WorkerProcess, Diagnostic> {
    started(request, program, mode).map_err(|e| {
        let text = format!("`{} {SUBCOMMAND}` could not be started: {e}", program.display());
        Diagnostic::new(Code::WorkerStart, text)
    })
}

fn started(request: &Request, program: &Path, mode: ConfinementMode) -> Result<WorkerProcess> {
    let (here, there) = UnixStream::pair()?;
    here.set_write_timeout(Some(MESSAGE))?;
    let mut command = Command::new(program);
    command.args([SUBCOMMAND, "0", mode.as_str()]).process_group(0);
    // As standard input, the link reaches this child and no other that is started meanwhile.
    command.stdin(OwnedFd::from(there)).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env_clear().current_dir("/");
    command.envs(ENVIRONMENT.iter().filter_map(|key| Some((key, std::env::var_os(key)?))));
    let folder = match &request.what {
        Some(What::Convert(convert)) => Some(convert.work_dir.as_str()),
        _ => None,
    };
    if let Some(folder) = folder {
        command.current_dir(folder).env("TMPDIR", folder);
    }
    let limits = request.limits.unwrap_or_default();
    let cgroup = Cgroup::make(&limits)?;
    let mut child = spawn_from_lasting_thread(command)?;
    let wall_ms = limits.wall_ms;
    let deadline = (wall_ms > 0).then(|| Instant::now() + Duration::from_millis(wall_ms));
    let stderr = Tail::collect(child.stderr.take());
    let pid = Pid::from_child(&child);
    let killer = Killer { pid, reaped: Arc::default(), asked: Arc::default() };
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
    let link = Link::new(here);
    let candidates = match &request.what {
        Some(What::Probe(probe)) => u32::try_from(probe.candidates.len()).unwrap_or(u32::MAX),
        _ => 0,
    };
    // From here on, what fails ends the child.
    let mut worker = WorkerProcess {
        child,
        pidfd,
        link,
        killer,
        stderr,
        watcher: Watcher::default(),
        cgroup,
        deadline,
        wall_ms,
        candidates,
    };
    let watched = worker.killer.clone();
    worker.watcher = Watcher::start(Watch::new(worker.pid(), &limits, folder), move || {
        // What has no bound would go on in the time between two signals.
        watched.signal(Signal::KILL);
    })?;
    // It does nothing before it has the request.
    worker.cgroup.as_ref().map_or(Ok(()), |cgroup| cgroup.take(worker.child.id()))?;
    match worker.link.send(request) {
        // It ended before it took the request; `follow` finds out why.
        Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
        sent => sent?,
    }
    Ok(worker)
}

impl WorkerProcess {
    /// Process id, which is also the id of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A handle to stop it from elsewhere.
    #[must_use]
    pub fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// Passes every event on until the worker has ended by itself or was stopped: at the deadline,
    /// by a [`Killer`], or because it sent nonsense. Blocks.
    #[must_use]
    pub fn follow(mut self, mut on_event: impl FnMut(&WorkerEvent)) -> Outcome {
        let (mut stage, mut answer, mut meter) = (None, None, Meter::default());
        let mut whole_limits = (self.deadline, self.wall_ms);
        let mut probing = None;
        on_event(&match &self.cgroup {
            Ok(_) => line(IN_FORCE, format!("{CGROUP}of its own: memory, threads")),
            Err(why) => line(FALLBACK, format!("{CGROUP}none: {why}")),
        });
        let mut end = loop {
            let before = self.link.received_bytes();
            let mut event = match self.next() {
                Ok(event) => event,
                Err(end) => break end,
            };
            bounds::bound(&mut event);
            if meter.admits(&event, Instant::now()) {
                on_event(&event);
            }
            let bytes = self.link.received_bytes() - before;
            let pause = meter.pause(bytes, Instant::now());
            self.pause(if self.may_gather(&event) { pause.max(GATHER) } else { pause });
            match &event.what {
                Some(Event::Stage(started)) => {
                    (self.deadline, self.wall_ms) = limited(whole_limits, &started.stage);
                }
                // Numbers grow and have an end, so that whoever sends them gains no more time.
                Some(Event::Probing(next))
                    if probing < Some(next.candidate) && next.candidate < self.candidates =>
                {
                    probing = Some(next.candidate);
                    whole_limits = afresh(whole_limits);
                    (self.deadline, self.wall_ms) = whole_limits;
                }
                _ => {}
            }
            note(event, &mut stage, &mut answer);
        };
        if let Some(line) = meter.dropped() {
            on_event(&line);
        }
        let exit = self.exit(&mut end);
        Outcome {
            exit,
            end,
            stage,
            answer,
            stderr: self.stderr.text(),
            lacked_memory: self.cgroup.as_ref().is_ok_and(Cgroup::lacked_memory),
            stopped: self.killer.asked.load(Ordering::SeqCst),
            wall_ms: self.wall_ms,
        }
    }

    /// The next event, or how the connection came to its end.
    fn next(&mut self) -> std::result::Result<WorkerEvent, End> {
        let broken = |e: std::io::Error| End::Broken(e.to_string());
        match self.ready().map_err(broken)? {
            Ready::Late => return Err(End::Late),
            Ready::Ended => return Err(End::Closed),
            Ready::Message => {}
        }
        let complete = Instant::now() + MESSAGE;
        self.link.set_deadline(Some(self.deadline.map_or(complete, |d| d.min(complete))));
        match self.link.receive(DECODED_BYTES_MAX) {
            Ok(Some(event)) => Ok(event),
            Ok(None) => Err(End::Closed),
            Err(e) => Err(match e.kind() {
                ErrorKind::TimedOut if self.is_late() => End::Late,
                // What a worker did not read when it ended resets the connection.
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => End::Closed,
                ErrorKind::InvalidData => End::Refused(e.to_string()),
                _ => broken(e),
            }),
        }
    }

    /// Whether more news may come before they are looked at: what tells how far it is. A worker tells the start of
    /// each pass, and to be woken for each takes more time than to read it.
    fn may_gather(&self, event: &WorkerEvent) -> bool {
        !self.link.has_more() && matches!(event.what, Some(Event::Progress(_)))
    }

    /// Lets a worker wait that sends faster than is read, until the deadline at most.
    fn pause(&self, pause: Duration) {
        let left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|d| d <= Instant::now())
    }

    /// Waits for a message, the end of the process, or the deadline. Messages come first, so none
    /// is lost when the process ends.
    fn ready(&self) -> Result<Ready> {
        if self.link.has_more() {
            return Ok(Ready::Message);
        }
        let link = self.link.as_fd();
        // Without a descriptor for the process the link stands for it: it closes at the end.
        let process = self.pidfd.as_ref().map_or(link, AsFd::as_fd);
        loop {
            let left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&link, PollFlags::IN), PollFd::new(&process, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
                Ok(0) if self.is_late() => return Ok(Ready::Late),
                Ok(0) => {}
                Ok(_) if !fds[0].revents().is_empty() => return Ok(Ready::Message),
                Ok(_) => return Ok(Ready::Ended),
            }
        }
    }

    fn exit(&mut self, end: &mut End) -> Exit {
        let patience = if *end == End::Closed { ENDING } else { Duration::ZERO };
        self.await_end(Instant::now() + patience);
        if !self.killer.has_ended() {
            if *end == End::Closed {
                *end = End::Lingering;
            }
            self.killer.stop_group(GRACE);
        }
        // Before the process number may be given to another process.
        if let Some(excess) = self.watcher.stop() {
            *end = End::Over(excess);
        }
        self.reap()
    }

    /// Waits until the process has ended, or `until`.
    fn await_end(&self, until: Instant) {
        while !self.killer.has_ended() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            match (&self.pidfd, Timespec::try_from(left)) {
                (Some(process), Ok(left)) => {
                    // Interrupted or not, the loop looks again.
                    let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left));
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn reap(&mut self) -> Exit {
        let mut reaped = self.killer.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let status = self.child.wait();
        *reaped = true;
        match status {
            Ok(status) => match status.signal() {
                Some(signal) => Exit::Signal(signal),
                None => Exit::Code(status.code().unwrap_or(-1)),
            },
            // Other code has waited for our child: nothing can be said.
            Err(_) => Exit::Code(-1),
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let reaped = *self.killer.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !reaped {
            self.killer.signal(Signal::KILL);
            self.reap();
        }
    }
}

impl Killer {
    /// Asks the worker's group to end, and kills it after `grace`. Blocks that long at most.
    pub fn kill_group(&self, grace: Duration) {
        if !self.has_ended() {
            self.asked.store(true, Ordering::SeqCst);
            self.stop_group(grace);
        }
    }

    fn stop_group(&self, grace: Duration) {
        self.signal(Signal::TERM);
        let until = Instant::now() + grace;
        while !self.has_ended() {
            if Instant::now() >= until {
                self.signal(Signal::KILL);
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // What the worker may have started is in the same group.
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // The only likely error is that no process is left in the group.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    fn has_ended(&self) -> bool {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        *reaped || !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None))
    }
}

/// The deadline in a stage, and the limit that it comes from in milliseconds.
fn limited(whole: (Option<Instant>, u64), stage: &str) -> (Option<Instant>, u64) {
    let asked = Instant::now() + PROBE_LIMIT;
    match whole.0 {
        Some(deadline) if deadline <= asked => whole,
        _ if stage != PROBE => whole,
        _ => (Some(asked), PROBE_LIMIT.as_millis().try_into().unwrap_or(u64::MAX)),
    }
}

/// The whole time again, for another candidate.
fn afresh((deadline, wall_ms): (Option<Instant>, u64)) -> (Option<Instant>, u64) {
    (deadline.map(|_| Instant::now() + Duration::from_millis(wall_ms)), wall_ms)
}

enum Ready {
    Message,
    Ended,
    Late,
}

fn note(event: WorkerEvent, stage: &mut Option<StageStarted>, answer: &mut Option<Event>) {
    match event.what {
        Some(Event::Stage(started)) => *stage = Some(started),
        Some(Event::Probing(_)) => *stage = None,
        Some(Event::Progress(_) | Event::Log(_) | Event::Answers(_)) | None => {}
        Some(last) => *answer = Some(last),
    }
}

/// The end of a child's standard error, collected in the background.
struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    done: mpsc::Receiver<()>,
}

impl Tail {
    fn collect(stream: Option<ChildStderr>) -> Tail {
        let bytes: Arc<Mutex<VecDeque<u8>>> = Arc::default();
        let (finished, done) = mpsc::channel();
        let target = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let (mut stream, mut read) = (stream, CountedSecond::default());
            while let Some(Ok(n @ 1..)) = stream.as_mut().map(|s| s.read(&mut buffer)) {
                let mut tail = target.lock().unwrap_or_else(PoisonError::into_inner);
                tail.extend(&buffer[..n]);
                let surplus = tail.len().saturating_sub(STDERR_BYTES_MAX);
                tail.drain(..surplus);
                drop(tail);
                std::thread::sleep(read.pause(n as u64, STDERR_BYTES_PER_SECOND, Instant::now()));
            }
            // No receiver is left if the worker was dropped.
            let _ = finished.send(());
        });
        Tail { bytes, done }
    }

    /// What came so far; waits briefly, because a grandchild could hold the stream open for ever.
    fn text(&self) -> String {
        let _ = self.done.recv_timeout(Duration::from_millis(500));
        let mut tail = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(tail.make_contiguous()).into_owned()
    }
}

/// Starts a child from a thread that lives as long as this process.
///
/// The kernel takes the *thread* that made a child for its parent: with the death signal set, a
/// child made by a short-lived thread would be killed when that thread ends.
fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    type StartOrder = (Command, mpsc::Sender<Result<Child>>);
    static ORDERS: OnceLock<mpsc::Sender<StartOrder>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<StartOrder>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                // If the caller is gone, the child is dropped here and its link with it.
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, child) = mpsc::channel();
    let gone = || std::io::Error::other("the thread that starts workers has ended");
    orders.send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}
