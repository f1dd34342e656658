//! A real inbox in a temporary folder, and front-ends as simple as a test can understand them.
#![allow(dead_code, unreachable_pub)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onnxd_intake::{
    Candidate, Config, Inbox, InboxNews, InboxState, ProbeOutcome, Prober, Submission,
};

/// `.onnx` needs nothing; `.ini` needs the files its lines name, and is no network without `[sp]`.
#[derive(Default)]
pub struct FrontEnds {
    /// Ids of the networks asked about, in order.
    pub asked: Vec<PathBuf>,
    /// Networks about which no answer comes.
    pub late: Vec<&'static str>,
    /// Given instead of the real answer.
    pub answer: Option<ProbeOutcome>,
}

impl Prober for FrontEnds {
    fn is_network(&self, name: &OsStr) -> bool {
        [".onnx", ".ini"].iter().any(|ext| name.to_string_lossy().ends_with(ext))
    }

    fn probe(&mut self, candidate: &Candidate) -> Option<ProbeOutcome> {
        if self.late.iter().any(|late| candidate.network == Path::new(late)) {
            return None;
        }
        self.asked.push(candidate.network.clone());
        if let Some(answer) = &self.answer {
            return Some(answer.clone());
        }
        let has = |name: &Path| candidate.files.iter().any(|f| f.name.starts_with(name));
        let mut used: Vec<PathBuf> =
            ["params.toml", "calib"].map(PathBuf::from).into_iter().filter(|p| has(p)).collect();
        if candidate.network.extension() == Some(OsStr::new("ini")) {
            let text = fs::read_to_string(candidate.root.join(&candidate.network)).unwrap();
            let mut lines = text.lines();
            if lines.next() != Some("[sp]") {
                return Some(ProbeOutcome::NotMine("no [sp] section".to_owned()));
            }
            used.extend(lines.map(PathBuf::from));
        }
        let missing: Vec<String> =
            used.iter().filter(|p| !has(p)).map(|p| p.display().to_string()).collect();
        Some(match missing.is_empty() {
            true => ProbeOutcome::Complete { used, answer: b"answer"[..].into() },
            false => ProbeOutcome::Waiting { missing },
        })
    }
}

pub const SETTLE: Duration = Duration::from_millis(120);

pub struct Bench {
    pub dir: tempfile::TempDir,
    pub inbox: Inbox,
    pub front_ends: FrontEnds,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        change(&mut config);
        let inbox = Inbox::open(config).unwrap();
        Bench { dir, inbox, front_ends: FrontEnds::default() }
    }

    pub fn at(&self, below: &str) -> PathBuf {
        self.dir.path().join("inbox").join(below)
    }

    pub fn write(&self, below: &str, text: &str) {
        let path = self.at(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn poll(&mut self) -> Vec<InboxNews> {
        self.look_at(Instant::now())
    }

    pub fn look_at(&mut self, now: Instant) -> Vec<InboxNews> {
        self.inbox.look(now, &mut self.front_ends);
        std::iter::from_fn(|| self.inbox.hand_over()).collect()
    }

    /// Looks as the thread would for that long, and returns what became ready.
    pub fn run(&mut self, time: Duration) -> Vec<Submission> {
        let end = Instant::now() + time;
        let mut ready = Vec::new();
        loop {
            for found in self.poll() {
                if let InboxNews::Ready(submission) = found {
                    ready.push(*submission);
                }
            }
            let now = Instant::now();
            if now >= end {
                return ready;
            }
            let until = self.inbox.next_wakeup().min(end).saturating_duration_since(now);
            if self.inbox.hints().recv_timeout(until).is_ok() {
                let gap = self.inbox.not_before().saturating_duration_since(Instant::now());
                std::thread::sleep(gap);
            }
        }
    }

    /// Enough for everything that lies there to settle.
    pub fn settle(&mut self) -> Vec<Submission> {
        self.run(SETTLE * 4)
    }

    pub fn state(&self, id: &str) -> Option<InboxState> {
        let items = &self.inbox.status().items;
        items.iter().find(|i| i.id == Path::new(id)).map(|i| i.state.clone())
    }
}

pub fn config(dir: &Path) -> Config {
    Config {
        settle: SETTLE,
        settle_polling: SETTLE,
        poll: Duration::from_millis(10),
        unmatched_after: Some(SETTLE * 3),
        in_hand_max: usize::MAX,
        ..Config::new(dir.join("inbox"))
    }
}

/// `id: files` of each submission, sorted.
pub fn shown(submissions: &[Submission]) -> Vec<String> {
    let mut lines: Vec<String> = submissions
        .iter()
        .map(|s| {
            let files: Vec<_> = s.set.files.iter().map(|f| f.name.display().to_string()).collect();
            format!("{}: {}", s.id.display(), files.join(" "))
        })
        .collect();
    lines.sort();
    lines
}
