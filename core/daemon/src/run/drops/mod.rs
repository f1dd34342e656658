//! Drops on their way in: what is being moved and read, what waits for that, and what stays in the
//! inbox and is told so.

pub(crate) mod copies;
mod in_flight;
pub(crate) mod prepare;
pub(crate) mod receipts;
pub(crate) mod taking;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::Submission;
use onnxd_proto::onnxd::Job;

use crate::run::layout::{Folders, free_bytes};
use in_flight::InFlight;
use receipts::Receipts;

/// Drops that are moved and hashed at the same time; the inbox holds the others.
const TAKING_MAX: usize = 4;
/// Drops of one top folder that are moved and read at the same time: large ones take minutes.
const TAKING_OF_ONE_MAX: usize = 2;

/// Drops on their way in.
pub(crate) struct Drops {
    /// Jobs whose files are being moved or read, with intake's name of the drop.
    taking: HashMap<String, Option<PathBuf>>,
    /// Claimed jobs that wait for their files to be read.
    to_hash: VecDeque<String>,
    /// Claimed jobs whose files could not be read for reasons of the machine, and which.
    unread: BTreeMap<String, String>,
    /// What is taken and not converted yet, by top folder.
    in_flight: InFlight,
    /// Receipts of drops that stay, as they were written last.
    receipts: Receipts,
}

/// Whether enough drops of a top folder are being taken.
fn is_busy(taken: &[String], top: &str) -> bool {
    taken.iter().filter(|t| *t == top).count() >= TAKING_OF_ONE_MAX
}

impl Drops {
    pub(crate) fn new(folders: &Folders) -> Drops {
        Drops {
            taking: HashMap::new(),
            to_hash: VecDeque::new(),
            unread: BTreeMap::new(),
            in_flight: InFlight::default(),
            receipts: receipts::left(folders),
        }
    }

    /// Whether another one may be moved or read.
    pub(crate) fn may_begin(&self) -> bool {
        self.taking.len() < TAKING_MAX
    }

    /// The files of a job are being moved, with intake's name of the drop, or read.
    pub(crate) fn begin(&mut self, id: &str, drop: Option<PathBuf>) {
        self.taking.insert(id.to_owned(), drop);
    }

    /// The thread that moved or read them has ended.
    pub(crate) fn end(&mut self, id: &str) {
        self.taking.remove(id);
    }

    pub(crate) fn is_taking(&self, id: &str) -> bool {
        self.taking.contains_key(id)
    }

    /// No files are being moved or read.
    pub(crate) fn is_idle(&self) -> bool {
        self.taking.is_empty()
    }

    /// Intake's name of a drop that is being moved.
    pub(crate) fn drop_of(&self, id: &str) -> Option<PathBuf> {
        self.taking.get(id).cloned().flatten()
    }

    /// Whether the files of a job are being moved or read, or wait for that.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.is_taking(id) || self.to_hash.iter().any(|waiting| waiting == id)
    }

    /// The files of a claimed job are to be read.
    pub(crate) fn hash_later(&mut self, id: &str) {
        self.to_hash.push_back(id.to_owned());
    }

    /// A claimed job whose files have to be read, and whose top folder may have another one read.
    pub(crate) fn next_to_hash(&mut self) -> Option<String> {
        let tops = self.tops_taken();
        let may = |id: &String| !is_busy(&tops, self.in_flight.top_of(id));
        let at = self.to_hash.iter().position(may)?;
        self.to_hash.remove(at)
    }

    /// The files of a job cannot be read now, for a reason of the machine.
    pub(crate) fn note_unread(&mut self, id: &str, why: String) {
        self.unread.insert(id.to_owned(), why);
    }

    /// Nothing is known any more that keeps the files of a job from being read.
    pub(crate) fn forget_unread(&mut self, id: &str) {
        self.unread.remove(id);
    }

    /// Why files of jobs cannot be read.
    pub(crate) fn whys_unread(&self) -> impl ExactSizeIterator<Item = &String> {
        self.unread.values()
    }

    /// A user has cancelled the job: its files need not be read.
    pub(crate) fn cancelled(&mut self, id: &str) {
        self.to_hash.retain(|waiting| waiting != id);
        self.unread.remove(id);
    }

    /// Follows a change of a job.
    pub(crate) fn note(&mut self, job: &Job) {
        self.in_flight.note(job);
    }

    /// There never was this job.
    pub(crate) fn forget(&mut self, id: &str) {
        self.in_flight.forget(id);
    }

    /// Whether a drop waits: others of its top folder are to be converted first, so that there are
    /// at most `most` bytes of them.
    pub(crate) fn holds_back(&mut self, submission: &Submission, most: u64) -> bool {
        let tops = self.tops_taken();
        self.in_flight.holds_back(submission, most, |top| is_busy(&tops, top))
    }

    /// A drop that was held back and has its turn now.
    pub(crate) fn next_held_back(&mut self, most: u64) -> Option<Submission> {
        let tops = self.tops_taken();
        self.in_flight.next(most, |top| is_busy(&tops, top))
    }

    /// One of these that could not be taken keeps its turn.
    pub(crate) fn put_back(&mut self, submission: Submission) {
        self.in_flight.put_back(submission);
    }

    /// How many drops are held back.
    pub(crate) fn held_back(&self) -> usize {
        self.in_flight.waiting()
    }

    /// Top folders of the drops that are being moved or read.
    fn tops_taken(&self) -> Vec<String> {
        self.taking.keys().map(|id| self.in_flight.top_of(id).to_owned()).collect()
    }

    /// Whether the copy of a drop leaves `min_free_mib` on the disk of the state folder.
    pub(crate) fn has_room_for(
        &self,
        submission: &Submission,
        state: &Path,
        min_free_mib: u64,
    ) -> Result<(), Diagnostic> {
        let Some(free) = free_bytes(state) else { return Ok(()) };
        let disk = std::fs::metadata(state).map(|found| found.dev()).ok();
        // From another file system the originals are copied, too.
        let is_near = submission.set.files.iter().all(|file| Some(file.stamp.dev) == disk);
        // What is being copied already counts whole: how far it came is not known.
        let taking = self.in_flight.bytes_of(self.taking.keys());
        let copies = if is_near { 1 } else { 2 };
        let wanted = min_free_mib << 20;
        let needed = |bytes: u64| bytes.saturating_add(taking).saturating_mul(copies);
        let fits = |needed: u64| free >= needed.saturating_add(wanted);
        if fits(needed(submission.set.bytes())) {
            return Ok(());
        }
        // Copies keep holes; only what seems too large is looked at again.
        let needed = needed(submission.set.bytes_on_disk());
        if fits(needed) {
            return Ok(());
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let text = format!(
            "no room on the disk: its copy and those in the making take {} MiB, {} MiB are free, \
             and {} MiB are to stay free (jobs.min_free_mib)",
            mib(needed),
            free >> 20,
            mib(wanted)
        );
        Err(Diagnostic::new(Code::DiskFull, text)
            .help("Free space on the disk of the state folder; the drop is taken then."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_intake::tree::Stamp;
    use onnxd_intake::{DropFile, FileSet};
    use onnxd_proto::onnxd::JobState;

    fn drop_of(folder: &str, bytes: u64, dev: u64) -> Submission {
        let stamp = Stamp { size: bytes, dev, ..Stamp::default() };
        Submission {
            id: Path::new(folder).join("net.onnx"),
            folder: folder.into(),
            name: "net".into(),
            network: "net.onnx".into(),
            set: FileSet {
                files: vec![DropFile { name: "net.onnx".into(), stamp }],
                ..FileSet::default()
            },
            ..Submission::default()
        }
    }

    fn job(id: &str, folder: &str) -> Job {
        let mut job = Job { id: id.into(), folder: folder.into(), ..Job::default() };
        job.set_state(JobState::Claimed);
        job
    }

    #[test]
    fn two_drops_of_one_top_folder_are_read_at_the_same_time() {
        let root = tempfile::tempdir().unwrap();
        let mut drops = Drops::new(&Folders::below(root.path()));
        for (id, folder) in [("1", "a"), ("2", "a/x"), ("3", "a"), ("4", "b"), ("5", "c")] {
            drops.note(&job(id, folder));
            drops.hash_later(id);
        }
        let mut read = Vec::new();
        while drops.may_begin()
            && let Some(id) = drops.next_to_hash()
        {
            drops.begin(&id, None);
            read.push(id);
        }
        assert_eq!(read, ["1", "2", "4", "5"]);
        assert!(drops.has("3") && !drops.is_taking("3") && !drops.may_begin());
        assert!(drops.holds_back(&drop_of("a", 1, 0), 100), "its top folder is busy");
        assert!(!drops.holds_back(&drop_of("d", 1, 0), 100));
        drops.end("2");
        assert_eq!(drops.next_to_hash().unwrap(), "3");
        assert_eq!(drops.next_held_back(100).unwrap().folder, Path::new("a"));
    }

    #[test]
    fn a_cancelled_job_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let mut drops = Drops::new(&Folders::below(root.path()));
        drops.hash_later("1");
        drops.note_unread("1", "no such device".into());
        drops.cancelled("1");
        assert!(!drops.has("1") && drops.next_to_hash().is_none());
        assert_eq!(drops.whys_unread().len(), 0);
    }

    #[test]
    fn a_drop_is_taken_if_its_copies_fit() {
        let root = tempfile::tempdir().unwrap();
        let drops = Drops::new(&Folders::below(root.path()));
        let free = free_bytes(root.path()).unwrap();
        let here = std::fs::metadata(root.path()).unwrap().dev();
        let fits = |bytes, dev, min_free_mib| {
            let submission = drop_of("a", bytes, dev);
            drops.has_room_for(&submission, root.path(), min_free_mib).is_ok()
        };
        let large = free / 3 * 2;
        assert!(fits(large, here, 0), "one copy");
        assert!(!fits(large, here + 1, 0), "two: it comes from another disk");
        assert!(!fits(large, here, (free / 2) >> 20), "half of it is to stay free");
        // No larger than a file may be.
        let size = large.min(1 << 40);
        let min_free_mib = (free - size / 2) >> 20;
        let mut holes = drop_of("a", size, here);
        holes.set.inbox = root.path().into();
        assert!(drops.has_room_for(&holes, root.path(), min_free_mib).is_err());
        let file = std::fs::File::create(root.path().join("net.onnx")).unwrap();
        file.set_len(size).unwrap();
        let found = drops.has_room_for(&holes, root.path(), min_free_mib);
        assert!(found.is_ok(), "copies keep holes");
    }
}
