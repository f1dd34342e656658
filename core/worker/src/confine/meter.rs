//! What of a worker's news is passed on: a plugin may speak without end, and each message costs its parent time and
//! room in the log.

use super::LOG_TARGET;
use crate::link::MESSAGE_BYTES_MAX;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{LogLine, StageStarted, WorkerEvent};
use std::time::{Duration, Instant};

/// Log lines of one attempt that are passed on.
pub const LINES_MAX: u64 = 2000;
/// Their bytes.
pub const LINES_BYTES_MAX: u64 = 1 << 20;
/// Those of one second.
pub const LINES_PER_SECOND: u64 = 200;
/// News of progress, and stages, that are passed on in one second, each.
const NEWS_PER_SECOND: u64 = 500;
/// Messages that are read in one second; the worker waits meanwhile.
const MESSAGES_PER_SECOND: u64 = 20_000;
/// Their bytes; one message may be as long.
const BYTES_PER_SECOND: u64 = MESSAGE_BYTES_MAX as u64;
const SECOND: Duration = Duration::from_secs(1);
/// Level of the line that says what was dropped: a warning.
const WARN: i32 = 2;

/// Counts of one attempt.
#[derive(Debug, Default)]
pub(super) struct Meter {
    lines: u64,
    bytes: u64,
    dropped_lines: u64,
    dropped_bytes: u64,
    stage: Option<StageStarted>,
    lines_now: CountedSecond,
    progress_now: CountedSecond,
    stages_now: CountedSecond,
    messages_now: CountedSecond,
    bytes_now: CountedSecond,
}

impl Meter {
    /// Whether a message is passed on.
    pub(super) fn admits(&mut self, event: &WorkerEvent, now: Instant) -> bool {
        match &event.what {
            Some(Event::Log(line)) => self.admits_line(line, now),
            Some(Event::Progress(_)) => self.progress_now.take(1, NEWS_PER_SECOND, now),
            Some(Event::Stage(stage)) => {
                let new = self.stage.as_ref() != Some(stage);
                let passed = new && self.stages_now.take(1, NEWS_PER_SECOND, now);
                if passed {
                    self.stage = Some(stage.clone());
                }
                passed
            }
            _ => true,
        }
    }

    fn admits_line(&mut self, line: &LogLine, now: Instant) -> bool {
        let bytes = (line.text.len() + line.target.len()) as u64;
        let fits = self.lines < LINES_MAX && self.bytes.saturating_add(bytes) <= LINES_BYTES_MAX;
        if fits && self.lines_now.take(1, LINES_PER_SECOND, now) {
            self.lines += 1;
            self.bytes += bytes;
            return true;
        }
        self.dropped_lines += 1;
        self.dropped_bytes = self.dropped_bytes.saturating_add(bytes);
        false
    }

    /// How long to wait before the next message is read, after one of so many bytes.
    pub(super) fn pause(&mut self, bytes: u64, now: Instant) -> Duration {
        let messages = self.messages_now.pause(1, MESSAGES_PER_SECOND, now);
        messages.max(self.bytes_now.pause(bytes, BYTES_PER_SECOND, now))
    }

    /// A line that says what was dropped, if anything was.
    pub(super) fn dropped(&self) -> Option<WorkerEvent> {
        (self.dropped_lines > 0).then(|| {
            let text = format!(
                "{} lines ({} bytes) of this worker's log were dropped: an attempt may log {LINES_MAX} lines, \
                 {LINES_BYTES_MAX} bytes, and {LINES_PER_SECOND} lines in a second",
                self.dropped_lines, self.dropped_bytes
            );
            let line = LogLine { level: WARN, target: LOG_TARGET.into(), text };
            WorkerEvent { what: Some(Event::Log(line)) }
        })
    }
}

/// What was counted in the current second.
#[derive(Debug, Default)]
pub(super) struct CountedSecond {
    begin: Option<Instant>,
    count: u64,
}

impl CountedSecond {
    /// Counts if there is room in this second.
    fn take(&mut self, count: u64, max: u64, now: Instant) -> bool {
        self.renew(now);
        let fits = self.count + count <= max;
        self.count += if fits { count } else { 0 };
        fits
    }

    /// Counts always; the rest of the second once it is full.
    pub(super) fn pause(&mut self, count: u64, max: u64, now: Instant) -> Duration {
        let begin = self.renew(now);
        self.count += count;
        if self.count < max {
            Duration::ZERO
        } else {
            (begin + SECOND).saturating_duration_since(now)
        }
    }

    fn renew(&mut self, now: Instant) -> Instant {
        match self.begin {
            Some(begin) if now.saturating_duration_since(begin) < SECOND => begin,
            _ => {
                self.count = 0;
                *self.begin.insert(now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::Progress;

    fn line(bytes: usize) -> WorkerEvent {
        let line = LogLine { text: "x".repeat(bytes), ..Default::default() };
        WorkerEvent { what: Some(Event::Log(line)) }
    }

    /// Lines that pass when one comes every `step`.
    fn passed(bytes: usize, count: u64, step: Duration) -> (u64, Meter) {
        let (mut meter, begin) = (Meter::default(), Instant::now());
        let at = |i: u64| begin + step * u32::try_from(i).unwrap();
        let passed = (0..count).filter(|i| meter.admits(&line(bytes), at(*i))).count();
        (passed as u64, meter)
    }

    #[test]
    fn lines_are_bounded_in_rate_number_and_bytes() {
        let (count, meter) = passed(10, 5000, Duration::ZERO);
        assert_eq!(count, LINES_PER_SECOND);
        let Some(Event::Log(said)) = meter.dropped().unwrap().what else { panic!() };
        assert!(said.text.starts_with("4800 lines (48000 bytes)"), "{}", said.text);
        assert_eq!(passed(10, 5000, Duration::from_millis(10)).0, LINES_MAX);
        assert_eq!(passed(4096, 5000, Duration::from_millis(10)).0, LINES_BYTES_MAX / 4096);
        let (count, meter) = passed(10, 100, Duration::ZERO);
        assert_eq!((count, meter.dropped()), (100, None));
    }

    #[test]
    fn news_are_thinned_and_messages_slowed() {
        let (mut meter, now) = (Meter::default(), Instant::now());
        let stage = |stage: &str| {
            let started = StageStarted { stage: stage.into(), ..Default::default() };
            WorkerEvent { what: Some(Event::Stage(started)) }
        };
        assert!(meter.admits(&stage("import"), now));
        assert!(!meter.admits(&stage("import"), now), "nothing new");
        let changes = (0..5000).filter(|i| meter.admits(&stage(&i.to_string()), now)).count();
        assert_eq!(changes as u64, NEWS_PER_SECOND - 1);
        let progress = WorkerEvent {
            what: Some(Event::Progress(Progress { done: 1, total: 1, ..Progress::default() })),
        };
        let progress = (0..5000).filter(|_| meter.admits(&progress, now)).count();
        assert_eq!(progress as u64, NEWS_PER_SECOND);
        let pauses = (0..MESSAGES_PER_SECOND).map(|_| meter.pause(1, now)).filter(|p| !p.is_zero());
        assert_eq!(pauses.collect::<Vec<_>>(), [SECOND]);
        assert_eq!(meter.pause(BYTES_PER_SECOND - 1, now + SECOND), Duration::ZERO);
        assert_eq!(meter.pause(1, now + SECOND), SECOND);
    }
}
