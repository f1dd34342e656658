//! Where things lie: the folder of each job below the state folder, and the folders of results.
//!
//! Every path is a function of the job, so that a start after a crash finds things again.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use onnxd_config::Settings;
use onnxd_proto::onnxd::Job;
use rustix::fs::access;
use rustix::io::Errno;

/// The folder of a job: `claim` says what was taken, `originals/` holds it, `input/` is the daemon's
/// copy that conversions read, `work/` is the worker's, `result.<lease>` is what waits for the outbox,
/// `report.json` is the latest report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobDir(PathBuf);

impl JobDir {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn claim(&self) -> PathBuf {
        self.0.join("claim")
    }

    /// What was dropped, moved here; its owner may still write into it.
    pub(crate) fn originals(&self) -> PathBuf {
        self.0.join("originals")
    }

    /// What conversions read.
    pub(crate) fn input(&self) -> PathBuf {
        self.0.join("input")
    }

    /// A copy on its way.
    pub(crate) fn input_part(&self) -> PathBuf {
        self.0.join("input.part")
    }

    /// Where the originals are: in `input/` if they were not copied.
    pub(crate) fn kept(&self) -> PathBuf {
        let originals = self.originals();
        match originals.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.input(),
            _ => originals,
        }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// The complete result of an attempt until it is renamed into the outbox.
    pub(crate) fn result(&self, lease: u64) -> PathBuf {
        self.0.join(format!("result.{lease}"))
    }

    pub(crate) fn report(&self) -> PathBuf {
        self.0.join("report.json")
    }
}

/// Folders of the daemon.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    pub(crate) state: PathBuf,
    pub(crate) outbox: PathBuf,
    pub(crate) failed: PathBuf,
    pub(crate) done: PathBuf,
    pub(crate) unmatched: PathBuf,
}

impl Folders {
    pub(crate) fn of(settings: &Settings) -> Folders {
        Folders {
            state: settings.state.dir.clone(),
            outbox: settings.output.outbox.clone(),
            failed: settings.output.failed.clone(),
            done: settings.output.done.clone(),
            unmatched: settings.output.unmatched.clone(),
        }
    }

    /// What onnxd may not write at the moment, and why.
    pub(crate) fn unwritable(&self) -> Vec<String> {
        let all = [&self.state, &self.outbox, &self.failed, &self.done, &self.unmatched];
        let may = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        let refused = all.iter().filter_map(|folder| Some((folder, access(*folder, may).err()?)));
        refused.map(|(folder, e)| format!("{} cannot be written: {e}", folder.display())).collect()
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.state.join("jobs")
    }

    pub(crate) fn orphans(&self) -> PathBuf {
        self.state.join("orphans")
    }

    pub(crate) fn job(&self, id: &str) -> JobDir {
        JobDir(self.jobs().join(id))
    }

    /// Where a result may go, the best place first: `outbox/<folder>/<name>`, or with the job's id
    /// added where that is taken, or with a number.
    pub(crate) fn destinations(&self, job: &Job) -> impl Iterator<Item = PathBuf> {
        let plain = self.outbox.join(&job.folder).join(&job.name);
        let numbered = (2..NAMES_MAX).map(|n| format!(".{}.{n}", job.id));
        let others = [format!(".{}", job.id)].into_iter().chain(numbered);
        [plain].into_iter().chain(others.map(|suffix| named(&self.outbox, job, &suffix)))
    }

    /// The first of them that nothing has.
    pub(crate) fn free_destination(&self, job: &Job) -> io::Result<PathBuf> {
        for path in self.destinations(job) {
            if !exists(&path)? {
                return Ok(path);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// A hidden folder on the file system of the outbox, for what a job brings there.
    pub(crate) fn passage(&self, job: &Job) -> PathBuf {
        self.outbox.join(&job.folder).join(format!(".onnxd-{}.part", job.id))
    }

    /// Where the originals of a failed job go.
    pub(crate) fn failed_job(&self, job: &Job) -> PathBuf {
        below(&self.failed, job)
    }

    /// Where the originals of a finished job go.
    pub(crate) fn done_job(&self, job: &Job) -> PathBuf {
        below(&self.done, job)
    }
}

/// Longest file name of common file systems, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Names tried before giving up, should even the job's name be taken.
const NAMES_MAX: usize = 100;

/// `<root>/<folder>/<name>.<job>`.
fn below(root: &Path, job: &Job) -> PathBuf {
    named(root, job, &format!(".{}", job.id))
}

/// `<root>/<folder>/<name><suffix>`; a name too long for that is cut.
fn named(root: &Path, job: &Job, suffix: &str) -> PathBuf {
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len());
    let end = (0..=room.min(job.name.len())).rev().find(|at| job.name.is_char_boundary(*at));
    root.join(&job.folder).join(format!("{}{suffix}", &job.name[..end.unwrap_or(0)]))
}

/// Creates a folder and those above it; what is new survives a power cut.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => sync_dir(path.parent().unwrap_or(Path::new("/"))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_dir(path.parent().ok_or(e)?)?;
            make_dir(path)
        }
        Err(e) => Err(e),
    }
}

/// Nobody but the daemon gets past it, not even from a descriptor of a folder inside.
const PRIVATE: u32 = 0o700;

/// Makes a folder, and those above it, that other users cannot enter.
pub(crate) fn make_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(path)
}

/// Makes renames in a folder durable. Some file systems do not sync folders: best effort there.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
        done => done,
    }
}

/// Whether there is anything of this name, a link that leads nowhere too; an error where that cannot
/// be told.
pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether a folder exists and holds anything; an error where that cannot be told.
pub(crate) fn holds(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().transpose()?.is_some()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether a folder exists and holds anything.
pub(crate) fn is_filled(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Free bytes for this user, where the system tells.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Free MiB for this user, where the system tells.
pub(crate) fn free_mib(folder: &Path) -> Option<u64> {
    free_bytes(folder).map(|bytes| bytes >> 20)
}

#[cfg(test)]
impl Folders {
    /// All of them in one, for tests.
    pub(crate) fn below(root: &Path) -> Folders {
        Folders {
            state: root.join("state"),
            outbox: root.join("outbox"),
            failed: root.join("failed"),
            done: root.join("done"),
            unmatched: root.join("unmatched"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_never_takes_the_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let folders = Folders::below(dir.path());
        let job = Job {
            id: "01J".into(),
            name: "net".into(),
            folder: "alice/x".into(),
            ..Job::default()
        };
        assert_eq!(folders.free_destination(&job).unwrap(), at("outbox/alice/x/net"));
        make_dir(&at("outbox/alice/x/net")).unwrap();
        assert_eq!(folders.free_destination(&job).unwrap(), at("outbox/alice/x/net.01J"));
        std::os::unix::fs::symlink("nowhere", at("outbox/alice/x/net.01J")).unwrap();
        assert_eq!(folders.free_destination(&job).unwrap(), at("outbox/alice/x/net.01J.2"));
        assert_eq!(folders.failed_job(&job), at("failed/alice/x/net.01J"));
        let long = Job { name: "ü".repeat(127), ..job };
        let name = folders.done_job(&long).file_name().unwrap().to_owned();
        assert_eq!(name.to_str().unwrap(), format!("{}.01J", "ü".repeat(125)));
    }
}
