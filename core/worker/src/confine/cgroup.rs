//! A cgroup for each worker, where a service manager delegates its own to the daemon (`Delegate=`).
//!
//! The kernel then counts memory as it is used, pages of files included, and threads, whatever user or
//! namespace a worker has. The daemon's cgroup is divided: the daemon in `daemon`, each worker in a
//! folder of `workers`. So workers together leave the daemon some of the service's tasks.

use onnxd_proto::onnxd::Limits;
use std::fs;
use std::io::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where the second version of cgroups lies.
const ROOT: &str = "/sys/fs/cgroup";
/// Controllers that hold limits of workers.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// Tasks of the service that workers leave to the daemon.
const DAEMON_TASKS: u64 = 256;
/// Memory of a worker beyond its budget: the program itself, tables of pages, stacks in the kernel.
const OWN_BYTES: u64 = 256 << 20;

/// Where workers get cgroups, or why nowhere.
static WORKERS: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Places without a worker: to make and remove one costs more than to use one again.
static FREE: Mutex<Vec<CgroupFolder>> = Mutex::new(Vec::new());

/// Divides the cgroup of this process, if it was delegated. Called once, by the daemon, before it has children.
///
/// # Errors
/// Why workers get no cgroups of their own.
pub fn divide() -> std::result::Result<(), String> {
    let outcome = WORKERS.get_or_init(|| own_folder().and_then(|own| divided(&own)));
    outcome.as_ref().map(drop).map_err(Clone::clone)
}

/// The folder of the cgroup of this process.
fn own_folder() -> std::result::Result<PathBuf, String> {
    if !Path::new(ROOT).join("cgroup.controllers").exists() {
        return Err(format!("no cgroups of version 2 at `{ROOT}`"));
    }
    let all = fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
    let own = all.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.ok_or("this process is in no cgroup of version 2")?;
    Ok(Path::new(ROOT).join(own.trim_start_matches('/')))
}

fn divided(own: &Path) -> std::result::Result<PathBuf, String> {
    delegated(own)?;
    let said = |e: Error| format!("`{}`: {e}", own.display());
    let (daemon, workers) = (own.join("daemon"), own.join("workers"));
    make(&daemon).and_then(|()| make(&workers)).map_err(said)?;
    let tasks = fs::read_to_string(own.join("pids.max")).unwrap_or_default();
    write(&daemon, "cgroup.procs", &std::process::id().to_string()).map_err(said)?;
    let wanted = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
    let enabled = write(own, "cgroup.subtree_control", &wanted)
        .and_then(|()| write(&workers, "cgroup.subtree_control", &wanted));
    if let Err(e) = enabled {
        // As it was: a manager expects the process where it put it.
        let _ = write(own, "cgroup.procs", &std::process::id().to_string());
        let _ = fs::remove_dir(&workers).and_then(|()| fs::remove_dir(&daemon));
        return Err(said(e));
    }
    if let Ok(tasks) = tasks.trim().parse::<u64>() {
        let left = tasks.saturating_sub(DAEMON_TASKS).max(tasks / 2);
        write(&workers, "pids.max", &left.to_string()).map_err(said)?;
    }
    // Of an earlier daemon that was killed.
    for entry in fs::read_dir(&workers).into_iter().flatten().flatten() {
        let _ = fs::remove_dir(entry.path());
    }
    Ok(workers)
}

/// Whether the cgroup was given to this user, and to this process alone.
fn delegated(own: &Path) -> std::result::Result<(), String> {
    let user = rustix::process::geteuid();
    let owner = fs::metadata(own).map_err(|e| format!("`{}`: {e}", own.display()))?.uid();
    if user.is_root() || owner != user.as_raw() {
        return Err(format!("`{}` is not delegated to this user", own.display()));
    }
    let inside = fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default();
    if inside.trim() != std::process::id().to_string() {
        return Err(format!("`{}` holds other processes, too", own.display()));
    }
    let offered = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    let missing = |name: &&&str| !offered.split_whitespace().any(|word| word == **name);
    let missing: Vec<&str> = CONTROLLERS.iter().filter(missing).copied().collect();
    match missing.as_slice() {
        [] => Ok(()),
        _ => Err(format!("`{}` has no controller {}", own.display(), missing.join(", "))),
    }
}

fn make(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    fs::write(folder.join(file), text)
}

/// A folder of `workers`, with the limits that were written last.
#[derive(Debug)]
struct CgroupFolder {
    folder: PathBuf,
    threads_max: u32,
    memory_bytes: u64,
}

impl CgroupFolder {
    fn new(workers: &Path) -> Result<CgroupFolder> {
        let folder = workers.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&folder)?;
        Ok(CgroupFolder { folder, threads_max: 0, memory_bytes: 0 })
    }

    /// Whether no process is left in it. One that is left is killed, and the place not used again.
    fn is_empty(&self) -> bool {
        let empty = |text: String| text.trim().is_empty();
        let empty = fs::read_to_string(self.folder.join("cgroup.procs")).is_ok_and(empty);
        if !empty {
            // Older kernels lack the file.
            let _ = write(&self.folder, "cgroup.kill", "1");
        }
        empty
    }

    fn limit(&mut self, limits: &Limits) -> Result<()> {
        let number = |max: u64| if max == 0 { "max".to_owned() } else { max.to_string() };
        if limits.threads_max != self.threads_max {
            write(&self.folder, "pids.max", &number(limits.threads_max.into()))?;
            self.threads_max = limits.threads_max;
        }
        if limits.memory_bytes != self.memory_bytes {
            let own = if limits.memory_bytes == 0 { 0 } else { OWN_BYTES };
            let bytes = limits.memory_bytes.saturating_add(own);
            write(&self.folder, "memory.max", &number(bytes))?;
            self.memory_bytes = limits.memory_bytes;
        }
        Ok(())
    }

    /// How often the kernel killed in it because its memory was used up.
    fn kills(&self) -> u64 {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

/// The cgroup of one worker. Dropping it, after the worker has ended, leaves it to the next one.
#[derive(Debug)]
pub(super) struct Cgroup {
    place: Option<CgroupFolder>,
    /// Of earlier workers in the same place.
    kills: u64,
}

impl Cgroup {
    /// A cgroup with these limits; or why there is none, which is no error.
    pub(super) fn make(limits: &Limits) -> Result<std::result::Result<Cgroup, String>> {
        let workers = match WORKERS.get() {
            Some(Ok(workers)) => workers,
            Some(Err(why)) => return Ok(Err(why.clone())),
            None => return Ok(Err("only the daemon makes them".into())),
        };
        let free = || FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let place = std::iter::from_fn(free).find(CgroupFolder::is_empty);
        Cgroup::limited(place.map_or_else(|| CgroupFolder::new(workers), Ok)?, limits).map(Ok)
    }

    fn limited(mut place: CgroupFolder, limits: &Limits) -> Result<Cgroup> {
        place.limit(limits)?;
        let kills = place.kills();
        Ok(Cgroup { place: Some(place), kills })
    }

    /// Puts a worker into it that has not begun.
    pub(super) fn take(&self, pid: u32) -> Result<()> {
        let folder = self.place.as_ref().map_or(Path::new(""), |place| &place.folder);
        write(folder, "cgroup.procs", &pid.to_string())
    }

    /// Whether the kernel killed the worker because its memory was used up.
    pub(super) fn lacked_memory(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.kills() > self.kills)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.place.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that the kernel would make in a delegated cgroup.
    fn place(controllers: &str, processes: &str, tasks: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("cgroup.controllers", controllers);
        put("cgroup.procs", processes);
        put("pids.max", tasks);
        folder
    }

    fn own() -> String {
        format!("{}\n", std::process::id())
    }

    #[test]
    fn what_is_not_delegated_is_left_alone() {
        let root = rustix::process::geteuid().is_root();
        let why = |place: &tempfile::TempDir| delegated(place.path()).unwrap_err();
        for (place, text) in [
            (place("cpu memory pids", "1\n2\n", "max"), "holds other processes, too"),
            (place("cpu", &own(), "max"), "has no controller memory, pids"),
        ] {
            let expected = if root { "is not delegated to this user" } else { text };
            assert!(why(&place).contains(expected), "{}", why(&place));
            assert!(divided(place.path()).is_err());
            assert!(!place.path().join("workers").exists());
        }
        if !root {
            assert_eq!(delegated(place("cpu memory pids", &own(), "max").path()), Ok(()));
        }
    }

    #[test]
    fn a_worker_gets_its_limits_and_leaves_its_place() {
        let workers = tempfile::tempdir().unwrap();
        let limits = Limits { threads_max: 70, memory_bytes: 1 << 30, ..Limits::default() };
        let cgroup = Cgroup::limited(CgroupFolder::new(workers.path()).unwrap(), &limits).unwrap();
        let folder = cgroup.place.as_ref().unwrap().folder.clone();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(read("pids.max"), "70");
        assert_eq!(read("memory.max"), ((1u64 << 30) + OWN_BYTES).to_string());
        cgroup.take(7).unwrap();
        assert_eq!(read("cgroup.procs"), "7");
        assert!(!cgroup.lacked_memory());
        fs::write(folder.join("memory.events"), "oom 1\noom_kill 1\n").unwrap();
        assert!(cgroup.lacked_memory());
        drop(cgroup);

        let mut place = FREE.lock().unwrap().pop().unwrap();
        assert!(!place.is_empty(), "a process is left");
        assert_eq!(read("cgroup.kill"), "1");
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        assert!(place.is_empty());
        place.limit(&Limits::default()).unwrap();
        assert_eq!((read("pids.max"), read("memory.max")), ("max".into(), "max".into()));
        assert!(
            !Cgroup::limited(place, &limits).unwrap().lacked_memory(),
            "that was another worker"
        );
    }
}
