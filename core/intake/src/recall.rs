//! Since when files have been quiet, across restarts.
//!
//! A settle time that began anew with every start would keep a daemon that is restarted again and
//! again from ever taking anything. What an earlier run saw is as good as what this one sees: an
//! entry with the same path and stamp has not changed in between. The file is an aid. One that is
//! missing, torn or of another boot only costs a settle time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::tree::{Folder, SeenTimes, Stamp};

/// How the file begins; another layout has another one.
const HEAD: &[u8] = b"onnxd quiet 1\n";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Between two writes, at least, and as a share of the time that writing takes.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_PER_WRITE: u32 = 20;
/// An entry: a digest of path and stamp, and when it changed, in milliseconds of the clock.
const ENTRY: usize = 16;

/// The file, and when it is due.
#[derive(Debug)]
pub(crate) struct Recall {
    file: Option<PathBuf>,
    boot: Vec<u8>,
    not_before: Instant,
    /// What was written last.
    written: u64,
    /// Why it could not be written.
    problem: Option<String>,
}

impl Recall {
    pub(crate) fn new(file: Option<PathBuf>, now: Instant) -> Recall {
        let boot = fs::read(BOOT_ID).unwrap_or_default();
        // Times of another boot mean nothing, and without a boot id none can be told apart.
        let file = file.filter(|_| !boot.is_empty());
        Recall { file, boot, not_before: now, written: 0, problem: None }
    }

    /// Gives everything in the first tree of this run the time that an earlier run knew. The networks
    /// that lay beside others then.
    pub(crate) fn restore(&self, tree: &mut Folder, now: Instant) -> HashMap<PathBuf, Stamp> {
        let Some(known) = self.read() else { return HashMap::new() };
        let now_ms = clock_ms();
        each_seen(tree, &mut |digest, seen| {
            let age = known.get(&digest).map(|at| now_ms.saturating_sub(*at));
            let changed = age.and_then(|ms| now.checked_sub(Duration::from_millis(ms)));
            changed.into_iter().for_each(|changed| seen.changed = seen.changed.min(changed));
        });
        let mut beside = HashMap::new();
        tree.each_file(&mut |folder, file| {
            if known.contains_key(&digest(EntryKind::Beside, &folder.path, &file.name, &file.stamp))
            {
                beside.insert(folder.path.join(&file.name), file.stamp);
            }
        });
        beside
    }

    /// Why a restart would have everything settle anew.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn read(&self) -> Option<HashMap<u64, u64>> {
        let bytes = fs::read(self.file.as_ref()?).ok()?;
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        let entries = body.strip_prefix(HEAD)?.strip_prefix(self.boot.as_slice())?;
        let whole = sum_of(body) == u64::from_le_bytes(*sum) && entries.len() % ENTRY == 0;
        let word = |of: &[u8]| of.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        whole.then(|| entries.chunks_exact(ENTRY).map(|e| (word(e), word(&e[8..]))).collect())
    }

    /// Writes what is known now, if it is another than before and the last time is long enough ago.
    pub(crate) fn keep(
        &mut self,
        tree: &mut Folder,
        beside: &HashMap<PathBuf, Stamp>,
        now: Instant,
    ) {
        let Some(file) = self.file.clone().filter(|_| now >= self.not_before) else { return };
        let begun = Instant::now();
        let now_ms = clock_ms();
        let (mut bytes, mut written) = ([HEAD, &self.boot].concat(), 0);
        let mut entry = |digest: u64, at: u64| {
            bytes.extend(digest.to_le_bytes());
            bytes.extend(at.to_le_bytes());
            // Times follow from what an entry is, so its digest tells whether it is new.
            written ^= sum_of(&digest.to_le_bytes());
        };
        for (path, stamp) in beside {
            let (above, name) = (path.parent(), path.file_name());
            let (above, name) = (above.unwrap_or(Path::new("")), name.unwrap_or_default());
            entry(digest(EntryKind::Beside, above, name, stamp), 0);
        }
        each_seen(tree, &mut |digest, seen| {
            let age = now.saturating_duration_since(seen.changed).as_millis();
            let at = now_ms.saturating_sub(u64::try_from(age).unwrap_or(u64::MAX));
            entry(digest, at);
        });
        if written != self.written {
            bytes.extend(sum_of(&bytes).to_le_bytes());
            let failed = replace(&file, &bytes).err();
            self.problem = failed.map(|e| format!("{}: {e}", file.display()));
            self.written = written;
        }
        self.not_before = now + (begun.elapsed() * PAUSE_PER_WRITE).max(PAUSE_MIN);
    }
}

/// A reader sees the old file or the new one. It need not survive the machine's end, only ours.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, file)
}

/// A clock that all processes of one boot share.
fn clock_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000 + nanos / 1_000_000
}

fn sum_of(bytes: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write(bytes);
    hash.finish()
}

/// What an entry is about.
#[derive(Clone, Copy, Hash)]
enum EntryKind {
    Folder,
    File,
    /// A network that lay beside others.
    Beside,
}

fn digest(kind: EntryKind, above: &Path, name: &OsStr, stamp: &Stamp) -> u64 {
    let mut hash = DefaultHasher::new();
    (kind, above, name, stamp).hash(&mut hash);
    hash.finish()
}

/// Everything that has to be quiet, each with a digest of what it is.
fn each_seen(folder: &mut Folder, visit: &mut dyn FnMut(u64, &mut SeenTimes)) {
    let path = &folder.path;
    visit(digest(EntryKind::Folder, path, OsStr::new(""), &folder.stamp), &mut folder.seen);
    let files = folder.files.iter_mut().chain(&mut folder.transient).chain(&mut folder.preset);
    for file in files {
        visit(digest(EntryKind::File, path, &file.name, &file.stamp), &mut file.seen);
    }
    folder.folders.iter_mut().for_each(|below| each_seen(below, visit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::carry_over;
    use crate::testing::{file, folder};

    fn ages(tree: &mut Folder, now: Instant) -> Vec<u64> {
        let mut all = Vec::new();
        each_seen(tree, &mut |_, seen| {
            let age = now.saturating_duration_since(seen.changed).as_millis();
            all.push(u64::try_from(age).unwrap() / 100);
        });
        all
    }

    #[test]
    fn what_did_not_change_stays_quiet_across_runs() {
        let dir = tempfile::tempdir().unwrap();
        let at = Some(dir.path().join("quiet"));
        let t0 = Instant::now();
        let mut tree = folder("", &[file("a", 1), file("b", 1)], &[folder("d", &[], &[])]);
        carry_over(None, &mut tree, t0);
        let later = t0 + Duration::from_secs(3);
        let beside = HashMap::from([(PathBuf::from("a"), tree.files[0].stamp)]);
        Recall::new(at.clone(), later).keep(&mut tree, &beside, later);

        let mut next = folder("", &[file("a", 1), file("b", 2)], &[folder("d", &[], &[])]);
        carry_over(None, &mut next, later);
        assert_eq!(Recall::new(at.clone(), later).restore(&mut next, later), beside);
        // The folder, `a`, `b` which is another one now, and `d`.
        let quiet = ages(&mut next, later);
        assert!(quiet[0] >= 29 && quiet[1] >= 29 && quiet[3] >= 29, "{quiet:?}");
        assert_eq!(quiet[2], 0);

        let path = at.clone().unwrap();
        let mut torn = fs::read(&path).unwrap();
        torn[HEAD.len() + 40] ^= 1;
        fs::write(&path, torn).unwrap();
        let mut next = tree.clone();
        carry_over(None, &mut next, later);
        assert!(Recall::new(at, later).restore(&mut next, later).is_empty());
        assert_eq!(ages(&mut next, later), [0; 4]);
    }

    #[test]
    fn it_is_written_when_something_is_new_and_not_too_often() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quiet");
        let now = Instant::now();
        let mut recall = Recall::new(Some(path.clone()), now);
        let mut tree = folder("", &[file("a", 1)], &[]);
        carry_over(None, &mut tree, now);
        recall.keep(&mut tree, &HashMap::new(), now);
        assert!(fs::remove_file(&path).is_ok());
        recall.keep(&mut tree, &HashMap::new(), now + Duration::from_secs(60));
        assert!(!path.exists(), "nothing is new");
        let mut tree = folder("", &[file("a", 1), file("b", 1)], &[]);
        carry_over(None, &mut tree, now);
        recall.keep(&mut tree, &HashMap::new(), now + Duration::from_secs(60));
        assert!(!path.exists(), "too soon after the last look");
        recall.keep(&mut tree, &HashMap::new(), now + Duration::from_secs(90));
        assert!(path.exists());
    }
}
