//! One watched folder: scans when something may have changed, and says when to look again.
//!
//! Every look is a full scan. Events, settle times and the periodic scan only decide when.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Receiver;
use onnxd_diagnostics::{Code, Diagnostic};
use rustix::fs::{Access, access};
use rustix::time::{ClockId, clock_gettime};

use crate::judge::{Rules, judge};
use crate::ledger::Ledger;
use crate::names::NameRules;
use crate::offers::{Offers, top_of};
use crate::place::InboxFolder;
use crate::recall::Recall;
use crate::scan::{Limits, scan};
use crate::settle::{carry_over, has_new_folder, next_settled};
use crate::status::Status;
use crate::submission::{InboxNews, Prober};
use crate::tree::Folder;
use crate::watch::Watch;

/// Settings of one inbox.
#[derive(Clone, Debug)]
pub struct Config {
    /// The watched folder; created if it does not exist.
    pub inbox: PathBuf,
    /// Folders onnxd writes to. None may hold the inbox, nor lie in it but below a hidden folder.
    pub own_folders: Vec<PathBuf>,
    /// A set is complete once none of its files changed for this long.
    pub settle: Duration,
    /// The same where changes are found by polling, because such file systems show them late.
    pub settle_polling: Duration,
    /// Time between scans without any event.
    pub rescan: Duration,
    /// Time between scans where there are no events.
    pub poll: Duration,
    /// Never rely on events.
    pub poll_only: bool,
    /// `NAME.ready` declares a set complete at once.
    pub ready_markers: bool,
    /// Without `NAME.ready` a set is never complete.
    pub ready_required: bool,
    /// What no front-end wants is reported after this long, or only shown in the status.
    pub unmatched_after: Option<Duration>,
    /// A file that remembers the mount that the inbox lies on, so that the empty folder in its place
    /// is not taken for the inbox.
    pub memory: Option<PathBuf>,
    /// Names of files that are not complete, and of what is not looked at.
    pub names: NameRules,
    /// A file that remembers since when files have been quiet, so that a restart does not have them
    /// settle anew.
    pub recall: Option<PathBuf>,
    /// Drops of a top folder that front-ends are asked about, or that wait to be handed over, at a
    /// time.
    pub ahead_max: usize,
    /// Drops of a top folder that the daemon has in hand at a time.
    pub in_hand_max: usize,
    /// Bounds of a scan.
    pub limits: Limits,
}

impl Config {
    /// The defaults for a folder.
    pub fn new(inbox: impl Into<PathBuf>) -> Config {
        Config {
            inbox: inbox.into(),
            own_folders: Vec::new(),
            settle: Duration::from_millis(2_000),
            settle_polling: Duration::from_millis(10_000),
            rescan: Duration::from_secs(30),
            poll: Duration::from_secs(2),
            poll_only: false,
            ready_markers: true,
            ready_required: false,
            unmatched_after: Some(Duration::from_secs(3_600)),
            memory: None,
            names: NameRules::default(),
            recall: None,
            ahead_max: 64,
            in_hand_max: 2,
            limits: Limits::default(),
        }
    }
}

/// While events keep coming, short looks take a quarter of a processor, so that a single drop is
/// found at once. Longer ones take a thirtieth, or as much more as it takes to look once in a second.
const GAP_PER_SHORT_LOOK: u32 = 3;
const GAP_PER_LOOK: u32 = 30;
const SHORT: Duration = Duration::from_millis(2);
const GAP_MIN: Duration = Duration::from_millis(1);
const GAP_MAX: Duration = Duration::from_secs(1);
/// The same between judgements without a look.
const JUDGE_GAP_MAX: Duration = Duration::from_millis(250);
/// Looks after a new folder appeared: files written before it was watched made no events.
const ECHOES: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(400),
];
/// Time between looks for an inbox that is offline.
const OFFLINE_RETRY: Duration = Duration::from_secs(1);

/// One watched folder.
#[derive(Debug)]
pub struct Inbox {
    config: Config,
    rules: Rules,
    place: InboxFolder,
    watch: Watch,
    dirty: Receiver<()>,
    ledger: Ledger,
    tree: Option<Folder>,
    status: Status,
    offers: Offers,
    recall: Recall,
    /// There are more sets than were prepared.
    more: bool,
    /// When to judge what the latest scan saw once more, if need be.
    judge_at: Option<Instant>,
    judge_not_before: Instant,
    /// Looks that are still due after a new folder appeared, soonest first.
    echoes: Vec<Instant>,
    next: Instant,
    not_before: Instant,
}

impl Inbox {
    /// Checks the configuration and creates the folder; the first [`Inbox::turn`] arms the watch.
    pub fn open(config: Config) -> Result<Inbox, Diagnostic> {
        let inbox = resolved(&config.inbox)?;
        may_move(&inbox)?;
        for own in &config.own_folders {
            check_disjoint(&inbox, &resolved(own)?)?;
        }
        let (watch, dirty) = Watch::new(&inbox, config.poll_only);
        let rules = Rules {
            writers: watch.writers(),
            names: config.names.clone(),
            inbox: inbox.clone(),
            settle: config.settle,
            unmatched_after: config.unmatched_after,
            ready_markers: config.ready_markers || config.ready_required,
            ready_required: config.ready_required,
            ahead_max: config.ahead_max,
            paused: None,
        };
        let place = InboxFolder::new(&inbox, config.memory.clone());
        let status = Status::new(&inbox, watch.mode().clone());
        let now = Instant::now();
        let recall = Recall::new(config.recall.clone(), now);
        Ok(Inbox {
            config,
            rules,
            place,
            watch,
            dirty,
            ledger: Ledger::default(),
            tree: None,
            status,
            offers: Offers::default(),
            recall,
            more: false,
            judge_at: None,
            judge_not_before: now,
            echoes: Vec::new(),
            next: now,
            not_before: now,
        })
    }

    /// Absolute path, links resolved.
    pub fn path(&self) -> &Path {
        &self.rules.inbox
    }

    /// Something may have changed. A full channel says no more than one hint.
    pub fn hints(&self) -> &Receiver<()> {
        &self.dirty
    }

    /// What the latest look saw.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// When to turn again if no hint arrives.
    pub fn next_wakeup(&self) -> Instant {
        self.judge_at.map_or(self.next, |at| at.max(self.judge_not_before).min(self.next))
    }

    /// After a hint, not to look before this: a busy writer must not cost a whole processor.
    pub fn not_before(&self) -> Instant {
        self.not_before
    }

    /// Something may have changed: looks as soon as it is permitted.
    pub fn hinted(&mut self) {
        self.next = self.next.min(self.not_before);
    }

    /// An answer of the front-ends is there.
    pub fn answered(&mut self) {
        self.judge_at = Some(Instant::now());
    }

    /// Looks if that is due, else judges again what the latest look saw.
    pub fn turn(&mut self, now: Instant, prober: &mut dyn Prober) {
        if now >= self.next {
            self.look(now, prober);
        } else if now >= self.next_wakeup() {
            self.judge_again(now, prober);
        }
    }

    /// Looks once: scans, and finds out what is complete.
    pub fn look(&mut self, now: Instant, prober: &mut dyn Prober) {
        let (started, cpu) = (Instant::now(), processor_time());
        // Taken before the scan: what changes during the scan gives another hint.
        let _ = self.dirty.try_recv();
        self.ledger.scan_begins();
        let scanned = self.scan(now);
        let duration = started.elapsed();
        self.status.scans += 1;
        self.status.last_scan = SystemTime::now();
        self.status.last_scan_duration = duration;
        self.status.watch_mode = self.watch.mode().clone();
        self.status.overflows = self.watch.overflows();
        let seen_at = now + duration;
        let mut tree = match scanned {
            Ok(tree) => tree,
            Err(why) => {
                self.not_before = seen_at + gap(processor_time() - cpu, GAP_MAX);
                return self.go_offline(why, now);
            }
        };
        carry_over(self.tree.as_ref(), &mut tree, seen_at);
        if self.tree.is_none() {
            self.ledger.beside = self.recall.restore(&mut tree, seen_at);
        }
        self.expect_echoes(&tree, seen_at);
        self.rules.settle = match self.watch.mode().has_events() {
            true => self.config.settle,
            false => self.config.settle.max(self.config.settle_polling),
        };
        let again = self.judge(&tree, now, prober);
        self.plan_next(&tree, now, again);
        let mut files = 0;
        tree.each_file(&mut |_, _| files += 1);
        self.status.offline = None;
        self.status.files = files;
        self.recall.keep(&mut tree, &self.ledger.beside, seen_at);
        self.status.forgetful = self.recall.problem().map(str::to_owned);
        self.tree = Some(tree);
        self.not_before = now + started.elapsed() + gap(processor_time() - cpu, GAP_MAX);
    }

    /// Judges what the latest scan saw: answers have come, or there is room for more.
    pub fn judge_again(&mut self, now: Instant, prober: &mut dyn Prober) {
        let Some(tree) = self.tree.take() else {
            self.judge_at = None;
            return;
        };
        let again = self.judge(&tree, now, prober);
        self.next = again.map_or(self.next, |at| self.next.min(at));
        self.tree = Some(tree);
    }

    /// What is complete waits to be handed over. When to look again, if that is known.
    fn judge(&mut self, tree: &Folder, now: Instant, prober: &mut dyn Prober) -> Option<Instant> {
        let (started, cpu) = (Instant::now(), processor_time());
        self.judge_at = None;
        let offers = &self.offers;
        let waiting = |top: &OsStr| offers.count_of(top);
        let judged = judge(tree, &self.rules, &mut self.ledger, prober, &waiting, now);
        self.offers.replace(judged.found);
        self.more = judged.more;
        self.status.items = judged.items;
        let gap = gap(processor_time() - cpu, JUDGE_GAP_MAX);
        self.judge_not_before = now + started.elapsed() + gap;
        judged.again
    }

    fn may_hand_over(&self, top: &OsStr) -> bool {
        self.ledger.in_hand(top) < self.config.in_hand_max
    }

    /// Whether something can be handed over now.
    pub fn has_offer(&self) -> bool {
        self.offers.any(|top| self.may_hand_over(top))
    }

    /// The next complete set: its top folder waited longest. From now on the daemon has it.
    pub fn hand_over(&mut self) -> Option<InboxNews> {
        let (ledger, most) = (&self.ledger, self.config.in_hand_max);
        let news = self.offers.take(|top| ledger.in_hand(top) < most)?;
        self.ledger.hand_over(&news);
        if self.more && self.offers.count_of(top_of(&news)) < self.rules.ahead_max / 2 {
            self.judge_at = Some(Instant::now());
        }
        Some(news)
    }

    /// Arms the watch first, so that nothing falls between watch and scan.
    fn scan(&mut self, now: Instant) -> Result<Folder, String> {
        let inbox = &self.rules.inbox;
        let offline = |e: rustix::io::Errno| format!("{}: {e}", inbox.display());
        let stat = rustix::fs::lstat(inbox).map_err(offline)?;
        #[allow(clippy::unnecessary_cast)] // field widths differ between architectures
        let folder = (stat.st_dev as u64, stat.st_ino as u64);
        self.place.check(folder)?;
        self.watch.keep(folder, now);
        scan(inbox, &self.config.names, self.config.limits).map_err(offline)
    }

    fn go_offline(&mut self, why: String, now: Instant) {
        self.watch.lost();
        self.place.lost();
        self.tree = None;
        self.echoes.clear();
        self.status.watch_mode = self.watch.mode().clone();
        self.status.offline = Some(why);
        self.status.files = 0;
        self.status.items.clear();
        self.offers.replace(Vec::new());
        self.next = now + OFFLINE_RETRY.min(self.config.rescan);
    }

    fn expect_echoes(&mut self, tree: &Folder, now: Instant) {
        self.echoes.retain(|at| *at > now);
        if has_new_folder(self.tree.as_ref(), tree) {
            self.echoes = ECHOES.iter().map(|after| now + *after).collect();
        }
    }

    fn plan_next(&mut self, tree: &Folder, now: Instant, again: Option<Instant>) {
        let period = match self.watch.mode().polls() {
            true => self.config.poll.min(self.config.rescan),
            false => jittered(self.config.rescan, self.status.scans),
        };
        let settled = next_settled(tree, now, self.rules.settle);
        let echo = self.echoes.first().copied();
        let soonest = [settled, echo, again].into_iter().flatten().min();
        self.next = soonest.map_or(now + period, |at| at.min(now + period));
    }

    /// The daemon took the set, or gave it up: what lies there now counts as new.
    pub fn release(&mut self, id: &Path) {
        self.ledger.release(id);
        self.look_soon();
    }

    /// The set cannot be moved. It is offered again once files or permissions change.
    pub fn block(&mut self, id: &Path, reason: String) {
        self.ledger.block(id, reason);
        self.look_soon();
    }

    /// Offers everything again that could not be moved.
    pub fn unblock(&mut self) {
        self.ledger.unblock();
        self.look_soon();
    }

    /// The front-ends are others now.
    pub fn forget_probes(&mut self) {
        self.ledger.forget_probes();
        self.look_soon();
    }

    /// Hands nothing over while there is a reason not to.
    pub fn pause(&mut self, reason: Option<String>) {
        self.rules.paused = reason;
        self.look_soon();
    }

    fn look_soon(&mut self) {
        self.next = self.next.min(self.not_before);
    }
}

/// Time without a look after one that took so much of a processor; more than `most` only after a
/// very long one.
fn gap(took: Duration, most: Duration) -> Duration {
    let short = (took * GAP_PER_SHORT_LOOK).max(GAP_MIN);
    if took <= SHORT { short } else { (took * GAP_PER_LOOK).min(most).max(short) }
}

/// What this thread has used: a machine that is busy with other work makes no look longer.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Spreads the scans of several inboxes: the period varies by up to an eighth in both directions.
fn jittered(period: Duration, turn: u64) -> Duration {
    // Multiplicative hashing of the turn number; anything uneven will do.
    let step = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
    #[allow(clippy::cast_possible_truncation)] // three bits
    let eighths = step as u32;
    period - period / 8 + period / 32 * eighths
}

/// Creates the folder if need be and resolves links.
fn resolved(path: &Path) -> Result<PathBuf, Diagnostic> {
    let made = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
    made.map_err(|e| Diagnostic::new(Code::ConfigBadValue, format!("{}: {e}", path.display())))
}

/// Without these rights every claim would fail later.
fn may_move(inbox: &Path) -> Result<(), Diagnostic> {
    access(inbox, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|e| {
        Diagnostic::new(Code::ConfigBadValue, format!("the inbox {}: {e}", inbox.display()))
            .help("onnxd must be allowed to list the inbox and to move files out of it.")
    })
}

/// Nothing onnxd writes may be taken for a drop.
fn check_disjoint(inbox: &Path, own: &Path) -> Result<(), Diagnostic> {
    let bad = |relation: &str| {
        let message = format!("{} {relation} the inbox {}", own.display(), inbox.display());
        Err(Diagnostic::new(Code::ConfigBadValue, message)
            .help("Results would be taken for drops; use folders beside each other."))
    };
    if inbox == own {
        return bad("is");
    }
    if inbox.starts_with(own) {
        return bad("contains");
    }
    match own.strip_prefix(inbox) {
        Ok(below) if !below.components().any(|c| is_hidden(c.as_os_str())) => bad("lies in"),
        _ => Ok(()),
    }
}

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_folders_must_lie_apart_through_links_too() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("inbox/sub")).unwrap();
        std::os::unix::fs::symlink(at("inbox/sub"), at("link")).unwrap();
        let open = |own: &str| {
            let own_folders = vec![at(own)];
            Inbox::open(Config { own_folders, ..Config::new(at("inbox")) })
        };
        for own in ["inbox", "inbox/out", "link", "link/out", "."] {
            let message = open(own).expect_err("must be refused").into_finding().message;
            assert!(message.contains("the inbox"), "{own}: {message}");
        }
        for own in ["out", "inbox/.onnxd/work", "inbox2"] {
            assert!(open(own).is_ok(), "{own}");
        }
    }

    #[test]
    fn long_looks_leave_the_processor_to_others() {
        let ms = Duration::from_millis;
        for (took, wanted) in [(0, 1), (1, 3), (2, 6), (4, 120), (50, 1_000), (1_000, 3_000)] {
            assert_eq!(gap(ms(took), GAP_MAX), ms(wanted), "{took} ms");
        }
    }

    #[test]
    fn jitter_stays_within_an_eighth() {
        let period = Duration::from_secs(32);
        for turn in 0..1_000 {
            let t = jittered(period, turn);
            assert!((Duration::from_secs(28)..=Duration::from_secs(36)).contains(&t));
        }
        assert_ne!(jittered(period, 1), jittered(period, 2));
    }
}
