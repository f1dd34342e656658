//! File system events as a hint that a scan is due; the only file that names `notify`.
//!
//! Events get lost (folders moved in, queue overflow, a root that was made anew, network file
//! systems), so nothing depends on them but latency. Where they cannot be had, polling takes over,
//! visibly, and events are tried again later.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use notify::event::{AccessKind, AccessMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::writers::Writers;

/// How changes are noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// By events of the operating system, with a periodic scan behind them.
    Events,
    /// By events and by frequent scans, because events from some writers do not arrive.
    EventsAndPolling {
        /// Why both.
        reason: String,
    },
    /// By frequent scans.
    Polling {
        /// Why there are no events.
        reason: String,
    },
}

impl WatchMode {
    /// Scans must be frequent.
    pub fn polls(&self) -> bool {
        *self != WatchMode::Events
    }

    /// The reason of one who wants polling.
    pub const CONFIGURED: &str = "set so in the configuration";

    /// Why scans have to be frequent, unless that is wanted.
    pub fn fallback(&self) -> Option<&str> {
        match self {
            WatchMode::Events => None,
            WatchMode::EventsAndPolling { reason } | WatchMode::Polling { reason } => {
                Some(reason.as_str()).filter(|reason| *reason != Self::CONFIGURED)
            }
        }
    }

    /// Events arrive, at least some.
    pub fn has_events(&self) -> bool {
        !matches!(self, WatchMode::Polling { .. })
    }
}

/// First and longest pause before events are tried again.
const RETRY_MIN: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// State shared with the thread that delivers events.
#[derive(Debug, Default)]
struct WatchState {
    writers: Writers,
    fault: Mutex<Option<String>>,
    overflows: AtomicU64,
}

/// The watch on one inbox.
#[derive(Debug)]
pub(crate) struct Watch {
    root: PathBuf,
    hints: Sender<()>,
    shared: Arc<WatchState>,
    watcher: Option<RecommendedWatcher>,
    /// (dev, inode) of the folder being watched.
    armed: Option<(u64, u64)>,
    mode: WatchMode,
    retry_at: Option<Instant>,
    pause: Duration,
    poll_only: bool,
}

impl Watch {
    /// A watch that is not armed yet, and the channel on which hints arrive.
    pub(crate) fn new(root: &Path, poll_only: bool) -> (Watch, Receiver<()>) {
        // One hint is enough: a full channel says already that a scan is due.
        let (hints, dirty) = bounded(1);
        let watch = Watch {
            root: root.to_owned(),
            hints,
            shared: Arc::default(),
            watcher: None,
            armed: None,
            mode: WatchMode::Polling { reason: "not started yet".to_owned() },
            retry_at: None,
            pause: RETRY_MIN,
            poll_only,
        };
        (watch, dirty)
    }

    pub(crate) fn mode(&self) -> &WatchMode {
        &self.mode
    }

    /// Files that are open for writing, by the events so far.
    pub(crate) fn writers(&self) -> Writers {
        self.shared.writers.clone()
    }

    pub(crate) fn overflows(&self) -> u64 {
        self.shared.overflows.load(Ordering::Relaxed)
    }

    /// The inbox is gone; a watch on what was there tells nothing.
    pub(crate) fn lost(&mut self) {
        self.watcher = None;
        self.armed = None;
        self.mode = WatchMode::Polling { reason: "the inbox is offline".to_owned() };
    }

    /// Arms the watch if it is not, if the folder was made anew, or if it failed a while ago.
    pub(crate) fn keep(&mut self, identity: (u64, u64), now: Instant) {
        let fault = self.shared.fault.lock().map_or(None, |mut f| f.take());
        if let Some(reason) = fault {
            return self.fall_back(reason, now, Some(identity));
        }
        let retry = self.retry_at.is_some_and(|at| now >= at);
        if self.armed != Some(identity) || retry {
            self.arm(identity, now);
        }
    }

    fn arm(&mut self, identity: (u64, u64), now: Instant) {
        self.watcher = None;
        self.shared.writers.forget();
        self.retry_at = None;
        if self.poll_only {
            self.armed = Some(identity);
            self.mode = WatchMode::Polling { reason: WatchMode::CONFIGURED.to_owned() };
            return;
        }
        let kind = file_system(&self.root);
        if let FileSystem::Remote(name) = kind {
            let reason = format!("{name} announces no changes made by other machines");
            self.armed = Some(identity);
            self.mode = WatchMode::Polling { reason };
            return;
        }
        match start(&self.root, self.hints.clone(), Arc::clone(&self.shared)) {
            Ok((watcher, gap)) => {
                self.watcher = Some(watcher);
                self.armed = Some(identity);
                self.pause = RETRY_MIN;
                self.retry_at = gap.is_some().then(|| now + RETRY_MIN);
                let layered = || "overlay file systems announce some changes only".to_owned();
                let gap = gap.or_else(|| (kind == FileSystem::Layered).then(layered));
                self.mode = match gap {
                    Some(reason) => WatchMode::EventsAndPolling { reason },
                    None => WatchMode::Events,
                };
            }
            Err(e) => self.fall_back(explain(&e), now, Some(identity)),
        }
    }

    fn fall_back(&mut self, reason: String, now: Instant, identity: Option<(u64, u64)>) {
        self.watcher = None;
        self.armed = identity;
        self.mode = WatchMode::Polling { reason };
        self.retry_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(RETRY_MAX);
    }
}

fn start(
    root: &Path,
    hints: Sender<()>,
    shared: Arc<WatchState>,
) -> notify::Result<(RecommendedWatcher, Option<String>)> {
    let handler = move |event: notify::Result<Event>| {
        match event {
            Ok(event) => {
                shared.writers.note(&event, Instant::now());
                if event.need_rescan() {
                    shared.overflows.fetch_add(1, Ordering::Relaxed);
                } else if !says_change(&event.kind) {
                    return;
                }
            }
            // A folder that vanished or may not be read is no fault of the watch; the scan tells.
            Err(e) if concerns_one_folder(&e) => {}
            Err(e) => {
                if let Ok(mut fault) = shared.fault.lock() {
                    *fault = Some(explain(&e));
                }
            }
        }
        // Full means that a scan is due already.
        let _ = hints.try_send(());
    };
    let config = Config::default().with_follow_symlinks(false);
    let mut watcher = RecommendedWatcher::new(handler, config)?;
    match watcher.watch(root, RecursiveMode::Recursive) {
        Ok(()) => Ok((watcher, None)),
        // Folders before the one in question are watched, those behind it are not.
        Err(e) if concerns_one_folder(&e) => Ok((watcher, Some(explain(&e)))),
        Err(e) => Err(e),
    }
}

/// Reading (also our own scans) changes nothing.
fn says_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

fn concerns_one_folder(e: &notify::Error) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    match &e.kind {
        notify::ErrorKind::PathNotFound | notify::ErrorKind::WatchNotFound => true,
        notify::ErrorKind::Io(io) => matches!(io.kind(), NotFound | PermissionDenied),
        _ => false,
    }
}

fn explain(e: &notify::Error) -> String {
    const MANY: Option<i32> = Some(rustix::io::Errno::MFILE.raw_os_error());
    match &e.kind {
        notify::ErrorKind::Io(io) if io.raw_os_error() == MANY => {
            "the limit fs.inotify.max_user_instances, or that of open files, is reached".to_owned()
        }
        notify::ErrorKind::MaxFilesWatch => {
            "the limit fs.inotify.max_user_watches is reached".to_owned()
        }
        _ => format!("watching failed: {e}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    Local,
    Layered,
    Remote(&'static str),
}

/// Where the folder lies, by the magic numbers of statfs(2).
fn file_system(root: &Path) -> FileSystem {
    let Ok(stat) = rustix::fs::statfs(root) else { return FileSystem::Local };
    // The field's type differs between architectures; the magic numbers have 32 bits.
    #[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation)]
    let magic = stat.f_type as u32;
    by_magic(magic)
}

fn by_magic(magic: u32) -> FileSystem {
    match magic {
        0x0000_6969 => FileSystem::Remote("NFS"),
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => FileSystem::Remote("SMB"),
        0x6573_5546 => FileSystem::Remote("FUSE"),
        0x0102_1997 => FileSystem::Remote("9p"),
        0x5346_414f | 0x6b41_4653 => FileSystem::Remote("AFS"),
        0x00c3_6400 => FileSystem::Remote("Ceph"),
        0x0bd0_0bd0 => FileSystem::Remote("Lustre"),
        0x4750_4653 => FileSystem::Remote("GPFS"),
        0x786f_4256 => FileSystem::Remote("the VirtualBox shared folder"),
        0x794c_7630 => FileSystem::Layered,
        _ => FileSystem::Local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, ModifyKind};
    use std::fs;

    #[test]
    fn reading_is_no_hint() {
        assert!(!says_change(&EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!says_change(&EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(says_change(&EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(says_change(&EventKind::Create(CreateKind::File)));
        assert!(says_change(&EventKind::Modify(ModifyKind::Any)));
        assert!(says_change(&EventKind::Other));
    }

    #[test]
    fn hints_come_from_writes_and_not_from_scans() {
        let dir = tempfile::tempdir().unwrap();
        let (mut watch, dirty) = Watch::new(dir.path(), false);
        watch.keep((1, 1), Instant::now());
        assert!(watch.mode().has_events(), "{:?}", watch.mode());
        crate::scan::scan(
            dir.path(),
            &crate::names::NameRules::default(),
            crate::scan::Limits::default(),
        )
        .unwrap();
        assert!(dirty.recv_timeout(Duration::from_millis(100)).is_err());
        fs::write(dir.path().join("a"), "x").unwrap();
        dirty.recv_timeout(Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn events_tell_of_a_writer_until_it_closes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (mut watch, _dirty) = Watch::new(dir.path(), false);
        watch.keep((1, 1), Instant::now());
        let path = dir.path().join("a");
        let is_open = |wanted: bool| {
            let until = Instant::now() + Duration::from_secs(5);
            while watch.writers().has(&path, Instant::now()) != wanted {
                assert!(Instant::now() < until, "never {wanted}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let mut file = fs::File::create(&path).unwrap();
        std::io::Write::write_all(&mut file, b"half").unwrap();
        is_open(true);
        drop(file);
        is_open(false);
    }

    #[test]
    fn a_fault_falls_back_to_polling_and_heals() {
        let dir = tempfile::tempdir().unwrap();
        let (mut watch, _dirty) = Watch::new(dir.path(), false);
        let t0 = Instant::now();
        watch.keep((1, 1), t0);
        *watch.shared.fault.lock().unwrap() = Some("no more watches".to_owned());
        watch.keep((1, 1), t0);
        assert_eq!(*watch.mode(), WatchMode::Polling { reason: "no more watches".to_owned() });
        watch.keep((1, 1), t0 + RETRY_MIN - Duration::from_millis(1));
        assert!(!watch.mode().has_events());
        watch.keep((1, 1), t0 + RETRY_MIN);
        assert!(watch.mode().has_events());
    }

    #[test]
    fn network_file_systems_are_polled() {
        assert_eq!(by_magic(0x6969), FileSystem::Remote("NFS"));
        assert_eq!(by_magic(0x794c_7630), FileSystem::Layered);
        assert_eq!(by_magic(0xef53), FileSystem::Local);
    }
}
