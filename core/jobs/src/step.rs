//! The step function: the job after an event, or nothing where the event is stale.
//!
//! It is the specification of the queue. It has no clock, no store and no thread, so the table of
//! (state, event) pairs is tested completely.
//!
//! ```text
//! claiming -> claimed -> queued -> running -> publishing -> succeeded, or duplicate of a copy
//!                          |  ^       |
//!                          |  +-- retry_wait, quarantined (released by hand)
//!                          +-- duplicate, cancelled, failed (retried by hand)
//! ```
//!
//! A job in `publishing` is never converted again by itself: its result may have been taken away.

use onnxd_diagnostics::{Class, Code, Severity, shown};
use onnxd_proto::onnxd::{Diagnostic, InputFile, Job, JobEvent, JobState};

/// Events kept per job: the first ones tell how it came in, the last ones what happens now.
const EVENTS_MAX: usize = 200;
const EVENTS_FIRST: usize = 20;
/// Findings kept with a job; the report has all of them.
const DIAGNOSTICS_MAX: usize = 100;
const MESSAGE_CHARS_MAX: usize = 2_000;

const DAEMON: &str = "daemon";
const WORKER: &str = "worker";

/// How often a job is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Starts after which a failure is final.
    pub attempts_max: u32,
    /// Crashes and time-outs of a worker, and crashes of the daemon over the job, after which it is
    /// quarantined.
    pub crashes_max: u32,
    /// Starts after which a job that was running when the daemon died is quarantined. Greater than
    /// `attempts_max`, because nothing says that the daemon died of it.
    pub interrupted_max: u32,
    /// Longest wait before the second attempt; it doubles with each further one.
    pub retry_first_ms: u64,
    /// No wait is longer.
    pub retry_longest_ms: u64,
    /// Wait for room on a full disk, unless a look finds room before.
    pub room_wait_ms: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts_max: 3,
            crashes_max: 2,
            interrupted_max: 10,
            retry_first_ms: 5_000,
            retry_longest_ms: 600_000,
            room_wait_ms: 60_000,
        }
    }
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub unix_ms: u64,
    pub what: What,
}

/// What happened. News about an attempt carry the lease of that attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// All files were moved out of the inbox.
    Claimed,
    /// Digests of all files are known.
    Hashed { files: Vec<InputFile>, identity: String },
    /// An earlier job has the same identity.
    DuplicateOf { job: String },
    /// The job cannot be started at all, for instance because of bad params.
    Rejected { diagnostics: Vec<Diagnostic> },
    /// A worker is about to be started. Recorded before it is.
    Started,
    /// The worker entered a stage.
    StageEntered { lease: u64, stage: String },
    /// The result lies complete in the folder `staged`, and is about to be renamed to `dest`.
    ReadyToPublish { lease: u64, staged: String, dest: String },
    /// A copy of the result of the job `of` lies in `staged`, and is about to be renamed to `dest`.
    Copied { of: String, staged: String, dest: String },
    /// It could not be renamed from or to there. It is about to be renamed between these.
    Redirected { lease: u64, staged: String, dest: String },
    /// The result is in the outbox.
    Published { lease: u64 },
    /// The attempt ended without a result.
    Failed { lease: u64, diagnostics: Vec<Diagnostic>, crashed: bool, timed_out: bool },
    /// The daemon died during the attempt.
    Interrupted { lease: u64 },
    /// The daemon crashed while it worked for this job: a crash of the job's own.
    BroughtDown,
    /// The disk that was full has room again.
    RoomAgain,
    /// The daemon was shut down in order and gives the job back.
    GivenBack { lease: u64 },
    /// A user no longer wants the result.
    CancelAsked { actor: String },
    /// A user wants a failed or cancelled job to be tried again.
    RetryAsked { actor: String },
    /// A user trusts a quarantined job again.
    Released { actor: String },
}

impl What {
    /// The event with its time.
    pub fn at(self, unix_ms: u64) -> Event {
        Event { unix_ms, what: self }
    }

    fn lease(&self) -> Option<u64> {
        match self {
            What::StageEntered { lease, .. }
            | What::ReadyToPublish { lease, .. }
            | What::Redirected { lease, .. }
            | What::Published { lease }
            | What::Failed { lease, .. }
            | What::Interrupted { lease }
            | What::GivenBack { lease } => Some(*lease),
            _ => None,
        }
    }

    fn actor(&self) -> &str {
        match self {
            What::CancelAsked { actor } | What::RetryAsked { actor } | What::Released { actor } => {
                actor
            }
            What::StageEntered { .. } | What::ReadyToPublish { .. } => WORKER,
            What::Failed { crashed, timed_out, .. } if !crashed && !timed_out => WORKER,
            _ => DAEMON,
        }
    }

    fn reason(&self) -> String {
        match self {
            What::Claimed => "files moved out of the inbox".into(),
            What::Hashed { .. } => "digests computed".into(),
            What::DuplicateOf { job } => format!("same as job {}", shown(job)),
            What::Rejected { diagnostics } => first_message(diagnostics),
            What::Started => "started".into(),
            What::StageEntered { stage, .. } => format!("stage {}", shown(stage)),
            What::ReadyToPublish { .. } => "result complete".into(),
            What::Copied { of, .. } => format!("result of job {} copied", shown(of)),
            What::Redirected { dest, .. } => format!("the result goes to {}", shown(dest)),
            What::Published { .. } => "result published".into(),
            What::Failed { diagnostics, crashed, timed_out, .. } => {
                let how = match (crashed, timed_out) {
                    (_, true) => "timed out: ",
                    (true, false) => "crashed: ",
                    (false, false) => "",
                };
                format!("{how}{}", first_message(diagnostics))
            }
            What::Interrupted { .. } => "the daemon ended during the attempt".into(),
            What::BroughtDown => "the daemon crashed while it worked for the job".into(),
            What::RoomAgain => "there is room on the disk again".into(),
            What::GivenBack { .. } => "the daemon was shut down; the attempt does not count".into(),
            What::CancelAsked { .. } => "cancel asked".into(),
            What::RetryAsked { .. } => "retry asked".into(),
            What::Released { .. } => "released from quarantine".into(),
        }
    }
}

/// The job after `event`, or `None` where the event is stale and changes nothing.
pub fn step(job: &Job, event: &Event, policy: &Policy) -> Option<Job> {
    if event.what.lease().is_some_and(|lease| lease != job.lease) {
        return None;
    }
    let from = job.state();
    let mut next = job.clone();
    let to = if event.what.lease().is_some() {
        during_attempt(&mut next, event, policy)?
    } else {
        outside_attempt(&mut next, event, policy)?
    };
    next.set_state(to);
    next.finished_ms = if is_finished(to) { event.unix_ms } else { 0 };
    next.events.push(JobEvent {
        unix_ms: event.unix_ms,
        from: from.into(),
        to: to.into(),
        actor: shown(event.what.actor()),
        reason: event.what.reason(),
    });
    if next.events.len() > EVENTS_MAX {
        next.events.remove(EVENTS_FIRST);
    }
    Some(next)
}

/// Whether the job stays in `state` unless a user asks for more.
pub fn is_finished(state: JobState) -> bool {
    use JobState::{Cancelled, Duplicate, Failed, Quarantined, Succeeded};
    matches!(state, Succeeded | Failed | Cancelled | Quarantined | Duplicate)
}

/// The state as users read it.
pub fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Unknown => "unknown",
        JobState::Claiming => "claiming",
        JobState::Claimed => "claimed",
        JobState::Queued => "queued",
        JobState::Running => "running",
        JobState::Publishing => "publishing",
        JobState::Succeeded => "succeeded",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
        JobState::Quarantined => "quarantined",
        JobState::Duplicate => "duplicate",
        JobState::RetryWait => "retry_wait",
    }
}

fn outside_attempt(job: &mut Job, event: &Event, policy: &Policy) -> Option<JobState> {
    use JobState::{
        Cancelled, Claimed, Claiming, Duplicate, Failed, Publishing, Quarantined, Queued,
        RetryWait, Running,
    };
    match (job.state(), &event.what) {
        (Claiming, What::Claimed) => Some(Claimed),
        (Claimed, What::Hashed { files, identity }) => {
            job.files.clone_from(files);
            job.identity.clone_from(identity);
            Some(Queued)
        }
        (Claimed | Queued | RetryWait, What::DuplicateOf { job: of }) => {
            job.duplicate_of.clone_from(of);
            job.staged.clear();
            Some(Duplicate)
        }
        (Queued | RetryWait, What::Copied { of, staged, dest }) => {
            job.duplicate_of.clone_from(of);
            place(job, staged, dest);
            Some(Publishing)
        }
        (Claiming | Claimed | Queued | RetryWait, What::Rejected { diagnostics }) => {
            job.diagnostics = bounded(diagnostics);
            Some(Failed)
        }
        (Queued, What::Started) => Some(start(job)),
        (RetryWait, What::Started) if job.not_before_ms <= event.unix_ms => Some(start(job)),
        (Claimed | Queued | RetryWait | Running, What::CancelAsked { .. }) => Some(Cancelled),
        (Publishing, What::CancelAsked { .. }) => {
            give_up_place(job);
            Some(Cancelled)
        }
        (Claiming | Claimed | Queued | RetryWait | Running | Publishing, What::BroughtDown) => {
            Some(after_own_crash(job, policy))
        }
        (RetryWait, What::RoomAgain) => {
            job.not_before_ms = 0;
            Some(Queued)
        }
        (Failed | Cancelled, What::RetryAsked { .. }) => Some(begin_again(job)),
        (Quarantined, What::Released { .. }) => Some(begin_again(job)),
        _ => None,
    }
}

fn during_attempt(job: &mut Job, event: &Event, policy: &Policy) -> Option<JobState> {
    use JobState::{Duplicate, Failed, Publishing, Quarantined, Queued, Running, Succeeded};
    match (job.state(), &event.what) {
        (Running, What::StageEntered { stage, .. }) if *stage != job.stage => {
            job.stage.clone_from(stage);
            Some(Running)
        }
        (Running, What::ReadyToPublish { staged, dest, .. }) => {
            place(job, staged, dest);
            Some(Publishing)
        }
        (Publishing, What::Redirected { staged, dest, .. })
            if (staged, dest) != (&job.staged, &job.published) =>
        {
            place(job, staged, dest);
            Some(Publishing)
        }
        (Publishing, What::Published { .. }) => {
            Some(if job.duplicate_of.is_empty() { Succeeded } else { Duplicate })
        }
        // Whatever the reason: another attempt might deliver a second time.
        (Publishing, What::Failed { diagnostics, .. }) => {
            job.diagnostics = bounded(diagnostics);
            give_up_place(job);
            Some(Failed)
        }
        (Running, What::Failed { diagnostics, crashed, timed_out, .. }) => {
            job.diagnostics = bounded(diagnostics);
            let died = *crashed || *timed_out;
            Some(after_failure(job, died, event.unix_ms, policy))
        }
        (Running, What::Interrupted { .. }) => {
            let suspect = job.attempts >= policy.interrupted_max;
            Some(if suspect { Quarantined } else { Queued })
        }
        (Running, What::GivenBack { .. }) => {
            job.attempts = job.attempts.saturating_sub(1);
            Some(Queued)
        }
        _ => None,
    }
}

/// On record before the rename: from then on, a missing `staged` means that the result is at `dest`.
fn place(job: &mut Job, staged: &str, dest: &str) {
    staged.clone_into(&mut job.staged);
    dest.clone_into(&mut job.published);
}

fn give_up_place(job: &mut Job) {
    job.staged.clear();
    job.published.clear();
    job.duplicate_of.clear();
}

/// The attempt counts from here on, before any plugin runs: a crash cannot hide it.
fn start(job: &mut Job) -> JobState {
    job.lease += 1;
    job.attempts = job.attempts.saturating_add(1);
    job.not_before_ms = 0;
    job.stage.clear();
    job.diagnostics.clear();
    JobState::Running
}

/// A decision made by hand starts the counts afresh. A job without digests has to get them first.
fn begin_again(job: &mut Job) -> JobState {
    job.attempts = 0;
    job.crashes = 0;
    job.not_before_ms = 0;
    job.stage.clear();
    if job.identity.is_empty() { JobState::Claimed } else { JobState::Queued }
}

/// As strict as for a worker's crash. A job that does not have its files yet, or whose result is on
/// its way, stays where it is meanwhile.
fn after_own_crash(job: &mut Job, policy: &Policy) -> JobState {
    let state = job.state();
    job.crashes = job.crashes.saturating_add(1);
    if job.crashes < policy.crashes_max {
        return if state == JobState::Running { JobState::Queued } else { state };
    }
    if state == JobState::Claiming {
        // A person could not release it without its files; the next crash counts.
        job.crashes = policy.crashes_max.saturating_sub(1);
        return state;
    }
    if state == JobState::Publishing {
        give_up_place(job);
    }
    JobState::Quarantined
}

/// Failures of the environment may pass, a dead worker gets one more chance, the rest is final.
fn after_failure(job: &mut Job, died: bool, unix_ms: u64, policy: &Policy) -> JobState {
    if !died && lacks_room(&job.diagnostics).is_some() {
        // Says nothing about the job: it waits, and the attempt does not count.
        job.attempts = job.attempts.saturating_sub(1);
        job.not_before_ms = unix_ms.saturating_add(policy.room_wait_ms);
        return JobState::RetryWait;
    }
    job.crashes += u32::from(died);
    if died && job.crashes >= policy.crashes_max {
        return JobState::Quarantined;
    }
    let may_pass = died || class(&job.diagnostics) == Class::Environment;
    if !may_pass || job.attempts >= policy.attempts_max {
        return JobState::Failed;
    }
    job.not_before_ms = unix_ms.saturating_add(retry_wait_ms(job, policy));
    JobState::RetryWait
}

/// Exponential, between half the wait and all of it. The jitter comes from id and attempt, so that
/// many jobs that failed together do not come back together and the function stays pure.
fn retry_wait_ms(job: &Job, policy: &Policy) -> u64 {
    let doublings = job.attempts.saturating_sub(1).min(63);
    let longest_ms =
        policy.retry_first_ms.saturating_mul(1 << doublings).min(policy.retry_longest_ms);
    let half_ms = longest_ms / 2;
    let jitter = crc32c::crc32c_append(job.attempts, job.id.as_bytes());
    half_ms + u64::from(jitter) % (longest_ms - half_ms + 1)
}

/// The first error, if nothing but a full disk is to blame.
pub fn lacks_room(diagnostics: &[Diagnostic]) -> Option<&Diagnostic> {
    let errors = || diagnostics.iter().filter(|d| is_error(d));
    errors().next().filter(|_| errors().all(|d| d.code == Code::DiskFull.as_str()))
}

/// The gravest class among the errors; a failure that names none is a defect of ours.
fn class(diagnostics: &[Diagnostic]) -> Class {
    diagnostics
        .iter()
        .filter(|d| is_error(d))
        .map(onnxd_proto::onnxd::Diagnostic::class)
        .max()
        .unwrap_or(Class::Internal)
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity() == Severity::Error
}

fn first_message(diagnostics: &[Diagnostic]) -> String {
    match diagnostics.iter().find(|d| is_error(d)) {
        Some(d) => format!("{} {}", shown(&d.code), shown(&d.message)),
        None => "no reason given".into(),
    }
}

fn bounded(diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let cut = |text: &String| text.chars().take(MESSAGE_CHARS_MAX).collect();
    diagnostics
        .iter()
        .take(DIAGNOSTICS_MAX)
        .map(|d| Diagnostic { message: cut(&d.message), help: cut(&d.help), ..d.clone() })
        .collect()
}

#[cfg(test)]
mod tests;
