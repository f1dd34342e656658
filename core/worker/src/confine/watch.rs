//! What the parent measures of a running worker: its threads, and what it has written in all.
//!
//! The kernel's limit of written bytes is for each file, and its limit of threads is for a user. So the parent looks at
//! the worker's folder, and also at files that have no name any more but still take room.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, chmod, open, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two counts of threads.
const THREADS_EVERY: Duration = Duration::from_millis(100);
/// Between two measurements of the disk, at least.
const DISK_EVERY: Duration = Duration::from_millis(250);
/// The part of a processor that a measurement may take: one in so many.
const DISK_SHARE: u32 = 20;
/// What an entry of a folder counts at least, however short it is.
const ENTRY_BYTES: u64 = 4096;
/// Entries that are counted; a conversion has a handful.
const ENTRIES_MAX: u64 = 100_000;
/// Folders inside each other that are looked into.
const DEPTH_MAX: usize = 32;
/// Unit of the sizes that the kernel tells.
const BLOCK_BYTES: u64 = 512;

/// What a worker has too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Threads: found, and allowed.
    Threads(u64, u64),
    /// Bytes: found, and allowed.
    Disk(u64, u64),
    /// Entries in its folder, or folders inside each other, beyond what is counted.
    Entries,
}

/// The bounds of one worker, and when they are looked at next.
#[derive(Debug)]
pub(super) struct Watch {
    process: PathBuf,
    threads_max: u64,
    disk_max: u64,
    file_max: u64,
    folder: Option<PathBuf>,
    threads_due: Instant,
    disk_due: Instant,
}

impl Watch {
    pub(super) fn new(pid: u32, limits: &onnxd_proto::onnxd::Limits, folder: Option<&str>) -> Self {
        let now = Instant::now();
        Watch {
            process: PathBuf::from(format!("/proc/{pid}")),
            threads_max: limits.threads_max.into(),
            disk_max: limits.disk_bytes,
            file_max: if limits.file_bytes > 0 { limits.file_bytes } else { u64::MAX },
            folder: folder.filter(|_| limits.disk_bytes > 0).map(resolved),
            threads_due: now + THREADS_EVERY,
            disk_due: now + DISK_EVERY,
        }
    }

    /// When to look next; `None` if there is no bound.
    pub(super) fn due(&self) -> Option<Instant> {
        let threads = (self.threads_max > 0).then_some(self.threads_due);
        let disk = self.folder.is_some().then_some(self.disk_due);
        threads.into_iter().chain(disk).min()
    }

    /// What there is too much of, if it is time to look.
    pub(super) fn check(&mut self, now: Instant) -> Option<Excess> {
        if self.threads_max > 0 && now >= self.threads_due {
            self.threads_due = now + THREADS_EVERY;
            // A process that is ending has no count.
            let found = threads(&self.process).unwrap_or(0);
            if found > self.threads_max {
                return Some(Excess::Threads(found, self.threads_max));
            }
        }
        let folder = self.folder.as_deref().filter(|_| now >= self.disk_due)?;
        let sum = self.written(folder);
        let took = now.elapsed();
        self.disk_due = now + DISK_EVERY.max(took * DISK_SHARE);
        match sum {
            Err(TooMany) => Some(Excess::Entries),
            Ok(bytes) if bytes > self.disk_max => Some(Excess::Disk(bytes, self.disk_max)),
            Ok(_) => None,
        }
    }

    /// Files with names, and those without that are open or mapped.
    fn written(&self, folder: &Path) -> Result<u64, TooMany> {
        let mut named = Sum::default();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A folder that is gone holds nothing; files without names still count.
        if let Ok(root) = open(folder, flags, Mode::empty()) {
            named.add_folder(&root, DEPTH_MAX)?;
        }
        let mut nameless = BTreeSet::new();
        let open = open_bytes(&self.process, &mut nameless);
        let mapped = mapped(&self.process, folder, &nameless);
        let mapped = self.file_max.saturating_mul(mapped);
        Ok(named.bytes.saturating_add(open).saturating_add(mapped))
    }
}

/// The thread that looks, beside the one that reads the worker's messages: a worker may keep that one waiting.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<Option<Excess>>>,
}

impl Watcher {
    /// Looks until it is stopped, or until there is too much: then it calls `kill`.
    pub(super) fn start(
        mut watch: Watch,
        kill: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Watcher> {
        if watch.due().is_none() {
            return Ok(Watcher::default());
        }
        let (stop, stopped) = mpsc::channel();
        let look = move || loop {
            let left = watch.due()?.saturating_duration_since(Instant::now());
            let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(left) else {
                return None;
            };
            if let Some(excess) = watch.check(Instant::now()) {
                kill();
                return Some(excess);
            }
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(look)?;
        Ok(Watcher { stop: Some(stop), thread: Some(thread) })
    }

    /// What it found, if it found too much.
    pub(super) fn stop(&mut self) -> Option<Excess> {
        drop(self.stop.take());
        self.thread.take()?.join().ok().flatten()
    }
}

/// The kernel tells of mapped files where they lie, and not through which links they were opened.
fn resolved(folder: &str) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.into())
}

/// More than is counted.
#[derive(Debug, PartialEq)]
struct TooMany;

/// What a folder holds.
#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    entries: u64,
}

impl Sum {
    /// Goes through descriptors, never through paths: the worker may exchange folders for links meanwhile.
    fn add_folder(&mut self, folder: &OwnedFd, deeper: usize) -> Result<(), TooMany> {
        let Ok(entries) = opened(folder).and_then(Dir::new) else { return Ok(()) };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX || deeper == 0 {
                return Err(TooMany);
            }
            // What is removed meanwhile takes no room.
            let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.bytes += blocks.saturating_mul(BLOCK_BYTES).max(ENTRY_BYTES);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(inner) = openat(folder, name, flags, Mode::empty()) {
                    self.add_folder(&inner, deeper - 1)?;
                }
            }
        }
        Ok(())
    }
}

/// A folder opened to be read, also if the worker made it so that it cannot be.
fn opened(folder: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(folder, ".", flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
            chmod(path, Mode::RWXU)?;
            openat(folder, ".", flags, Mode::empty())
        }
        opened => opened,
    }
}

/// Bytes of open files without a name; their inodes go into `seen`.
fn open_bytes(process: &Path, seen: &mut BTreeSet<u64>) -> u64 {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| fs::metadata(entry.path()).ok());
    let nameless = files.filter(|data| data.is_file() && data.nlink() == 0);
    nameless.filter(|data| seen.insert(data.ino())).map(|d| d.blocks() * BLOCK_BYTES).sum()
}

/// The number of files of the folder that are mapped, have no name, and are not open. Nothing tells how long they are.
fn mapped(process: &Path, folder: &Path, open: &BTreeSet<u64>) -> u64 {
    let Ok(maps) = fs::File::open(process.join("maps")) else { return 0 };
    // One after the other: a process may have many, of files with long paths.
    let lines = BufReader::new(maps).split(b'\n').map_while(Result::ok);
    let of_folder = |line: Vec<u8>| {
        let path = line.iter().position(|byte| *byte == b'/')?;
        line[path..].starts_with(folder.as_os_str().as_bytes()).then(|| inode(&line))?
    };
    let deleted = lines.filter(|line| line.ends_with(b" (deleted)"));
    let inodes: BTreeSet<u64> = deleted.filter_map(of_folder).collect();
    inodes.difference(open).count() as u64
}

/// The fifth word of a line of `maps`.
fn inode(line: &[u8]) -> Option<u64> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    std::str::from_utf8(words.nth(4)?).ok()?.parse().ok()
}

fn threads(process: &Path) -> Option<u64> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::Limits;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const MIB: usize = 1 << 20;

    fn watch(folder: &Path) -> Watch {
        let limits = Limits { disk_bytes: 1 << 40, file_bytes: 1 << 30, ..Limits::default() };
        Watch::new(std::process::id(), &limits, folder.to_str())
    }

    #[test]
    fn what_is_written_counts_with_and_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let written = || watch(folder.path()).written(folder.path()).unwrap();
        assert_eq!(written(), 0);
        fs::create_dir(at("a")).unwrap();
        fs::write(at("a/b"), vec![1; MIB]).unwrap();
        // A way out of the folder is not taken, and a file of holes takes no room.
        symlink("/usr", at("link")).unwrap();
        fs::File::create(at("holes")).unwrap().set_len(1 << 40).unwrap();
        let named = written();
        assert!((MIB as u64..2 * MIB as u64).contains(&named), "{named}");
        let options = &mut fs::OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let mut open = options.open(at("gone")).unwrap();
        open.write_all(&vec![1; 2 * MIB]).unwrap();
        fs::remove_file(at("gone")).unwrap();
        let both = written();
        assert!(both >= named + 2 * MIB as u64, "{both} after {named}");
        // SAFETY: no other process changes the file.
        let map = unsafe { memmap2::Mmap::map(&open).unwrap() };
        assert_eq!(written(), both, "open and mapped is counted once");
        drop(open);
        assert!(written() >= 1 << 30, "nothing tells how long it is");
        let link = tempfile::tempdir().unwrap();
        let link = link.path().join("link");
        symlink(folder.path(), &link).unwrap();
        let watch = watch(&link);
        let through_link = watch.written(watch.folder.as_deref().unwrap()).unwrap();
        assert_eq!(through_link, written(), "also where a link leads to the folder");
        drop(map);
        assert_eq!(written(), named);
    }

    #[test]
    fn a_folder_without_rights_is_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a"), vec![1; MIB]).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o300)).unwrap();
        assert!(watch(folder.path()).written(folder.path()).unwrap() >= MIB as u64);
    }

    #[test]
    fn more_than_is_counted_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/".repeat(DEPTH_MAX + 1));
        fs::create_dir_all(deep).unwrap();
        assert_eq!(watch(folder.path()).written(folder.path()), Err(TooMany));
    }

    #[test]
    fn threads_are_counted() {
        let found = threads(Path::new("/proc/self")).unwrap();
        assert!((1..1000).contains(&found), "{found}");
    }
}
