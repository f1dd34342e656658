//! How much is taken and not converted yet, for each folder directly in the inbox.
//!
//! Copies take room on the disk. One user with many large drops must not take all of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::Path;

use onnxd_intake::{Submission, Turns};
use onnxd_jobs::is_finished;
use onnxd_proto::onnxd::Job;

/// Bytes of jobs by top folder, and drops that wait until there are fewer.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    jobs: HashMap<String, (String, u64)>,
    bytes: HashMap<String, u64>,
    waiting: BTreeMap<String, VecDeque<Submission>>,
    turns: Turns,
}

/// The folder directly in the inbox; empty for drops in the inbox itself.
fn top(folder: &Path) -> String {
    let first = folder.components().next();
    first.map(|c| c.as_os_str().to_string_lossy().into_owned()).unwrap_or_default()
}

impl InFlight {
    /// Follows a change of a job.
    pub(crate) fn note(&mut self, job: &Job) {
        if is_finished(job.state()) {
            return self.forget(&job.id);
        }
        if !self.jobs.contains_key(&job.id) {
            let bytes = job.files.iter().map(|file| file.bytes).sum();
            let top = top(Path::new(&job.folder));
            *self.bytes.entry(top.clone()).or_default() += bytes;
            self.jobs.insert(job.id.clone(), (top, bytes));
        }
    }

    /// The job is over, or gone.
    pub(crate) fn forget(&mut self, id: &str) {
        let Some((top, bytes)) = self.jobs.remove(id) else { return };
        if let Some(sum) = self.bytes.get_mut(&top) {
            *sum -= bytes;
            if *sum == 0 {
                self.bytes.remove(&top);
            }
        }
    }

    /// Bytes of these jobs.
    pub(crate) fn bytes_of<'a>(&self, ids: impl Iterator<Item = &'a String>) -> u64 {
        ids.filter_map(|id| self.jobs.get(id)).map(|(_, bytes)| bytes).sum()
    }

    /// The top folder of a job that is not over; empty for one that is not known.
    pub(crate) fn top_of(&self, id: &str) -> &str {
        self.jobs.get(id).map_or("", |(top, _)| top)
    }

    /// Keeps a drop back whose top folder is `busy`, that would be more than `most` with what is in
    /// flight, or would overtake another one of its top folder. A drop that is larger than that
    /// goes alone.
    pub(crate) fn holds_back(
        &mut self,
        submission: &Submission,
        most: u64,
        busy: impl Fn(&str) -> bool,
    ) -> bool {
        let top = top(&submission.folder);
        // What is offered again has changed meanwhile.
        if let Some(waiting) = self.waiting.get_mut(&top) {
            waiting.retain(|other| other.id != submission.id);
        }
        let others = self.waiting.get(&top).is_some_and(|waiting| !waiting.is_empty());
        let held = busy(&top) || others || !self.fits(&top, submission.set.bytes(), most);
        if held {
            self.waiting.entry(top).or_default().push_back(submission.clone());
        }
        held
    }

    fn fits(&self, top: &str, bytes: u64, most: u64) -> bool {
        let now = self.bytes.get(top).copied().unwrap_or_default();
        now == 0 || now.saturating_add(bytes) <= most
    }

    /// A drop that was kept back and has its turn now.
    pub(crate) fn next(&mut self, most: u64, busy: impl Fn(&str) -> bool) -> Option<Submission> {
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        let may = |(top, waiting): (&'_ String, &VecDeque<Submission>)| {
            let first = waiting.front().map_or(0, |next| next.set.bytes());
            !busy(top) && self.fits(top, first, most)
        };
        let tops = self.waiting.iter().filter(|(top, waiting)| may((top, waiting)));
        let top = self.turns.next(tops.map(|(top, _)| OsStr::new(top)))?.to_owned();
        self.turns.served(&top);
        let top = top.to_string_lossy().into_owned();
        self.waiting.get_mut(&top)?.pop_front()
    }

    /// A drop from [`InFlight::next`] that could not be taken is the next one again.
    pub(crate) fn put_back(&mut self, submission: Submission) {
        self.waiting.entry(top(&submission.folder)).or_default().push_front(submission);
    }

    /// How many drops are kept back.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_intake::tree::Stamp;
    use onnxd_intake::{DropFile, FileSet};
    use onnxd_proto::onnxd::{InputFile, JobState};
    use std::path::PathBuf;

    fn free(_: &str) -> bool {
        false
    }

    fn drop_of(id: &str, bytes: u64) -> Submission {
        let stamp = Stamp { size: bytes, ..Stamp::default() };
        let folder = Path::new(id).parent().unwrap().to_owned();
        Submission {
            id: id.into(),
            folder,
            name: "net".into(),
            network: "net.onnx".into(),
            set: FileSet {
                files: vec![DropFile { name: "net.onnx".into(), stamp }],
                ..FileSet::default()
            },
            ..Submission::default()
        }
    }

    fn job(id: &str, folder: &str, bytes: u64, state: JobState) -> Job {
        let files = vec![InputFile { bytes, ..InputFile::default() }];
        let mut job = Job { id: id.into(), folder: folder.into(), files, ..Job::default() };
        job.set_state(state);
        job
    }

    #[test]
    fn one_folder_does_not_fill_the_disk() {
        let mut flight = InFlight::default();
        assert!(!flight.holds_back(&drop_of("a/large", 500), 100, free), "alone");
        flight.note(&job("1", "a", 500, JobState::Queued));
        assert!(flight.holds_back(&drop_of("a/x/small", 1), 100, free));
        assert!(flight.holds_back(&drop_of("a/second", 90), 100, free));
        assert!(!flight.holds_back(&drop_of("b/net", 60), 100, free), "another folder");
        assert_eq!((flight.waiting(), flight.next(100, free).is_none()), (2, true));
        flight.note(&job("1", "a", 500, JobState::Running));
        flight.note(&job("1", "a", 500, JobState::Succeeded));
        let turn = |flight: &mut InFlight, id: &str| {
            let next = flight.next(100, free).unwrap();
            flight.note(&job(id, "a", next.set.bytes(), JobState::Claiming));
            next.id
        };
        assert_eq!(turn(&mut flight, "2"), Path::new("a/x/small"));
        assert_eq!(turn(&mut flight, "3"), Path::new("a/second"));
        assert!(flight.next(100, free).is_none() && flight.waiting() == 0);
        flight.forget("3");
        flight.forget("2");
        assert!(flight.bytes.is_empty() && flight.jobs.is_empty());
    }

    #[test]
    fn a_busy_top_folder_waits_and_others_take_turns() {
        let mut flight = InFlight::default();
        let a_is_busy = |top: &str| top == "a";
        assert!(flight.holds_back(&drop_of("a/1", 1), 100, a_is_busy));
        assert!(!flight.holds_back(&drop_of("b/1", 1), 100, a_is_busy));
        assert!(flight.next(100, a_is_busy).is_none());
        assert!(flight.holds_back(&drop_of("a/2", 1), 100, free), "no drop overtakes another");
        for id in ["b/1", "b/2"] {
            assert!(flight.holds_back(&drop_of(id, 1), 100, |_| true));
        }
        let order: Vec<_> = std::iter::from_fn(|| flight.next(100, free)).map(|s| s.id).collect();
        assert_eq!(order, ["a/1", "b/1", "a/2", "b/2"].map(PathBuf::from));
    }

    #[test]
    fn a_drop_that_changed_waits_once() {
        let mut flight = InFlight::default();
        flight.note(&job("1", "", 100, JobState::Queued));
        assert!(flight.holds_back(&drop_of("net.onnx", 1), 100, free));
        assert!(flight.holds_back(&drop_of("net.onnx", 2), 100, free));
        assert_eq!(flight.waiting(), 1);
        flight.forget("1");
        assert_eq!(flight.next(100, free).unwrap().set.bytes(), 2);
    }
}
