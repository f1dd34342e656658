use super::*;
use crate::index::UNWRITTEN_MAX;
use crate::memory_store::MemoryStore;
use crate::print::print;
use crate::repair::QUARANTINED_MAX;
use crate::step::{Policy, What};
use crate::store::suite::{self, new_job, success};
use proptest::prelude::*;
use std::path::PathBuf;

pub(super) fn open(dir: &Path) -> (SledStore, Vec<String>) {
    SledStore::open(dir).unwrap()
}

/// A store with 60 jobs in several states, closed; what it held.
pub(super) fn filled(dir: &Path) -> Vec<Job> {
    let (mut store, notes) = open(dir);
    assert_eq!(notes, Vec::<String>::new());
    for n in 0..60 {
        store.put_new(&new_job(n)).unwrap();
        for event in success(&format!("d{}", n % 7), 1).into_iter().take(n as usize % 7) {
            store.apply(&new_job(n).id, &event, &Policy::default()).unwrap().unwrap();
        }
    }
    assert_eq!(store.remove(&[&new_job(3).id, &new_job(13).id]).unwrap(), 2);
    store.scan(None).unwrap()
}

/// Opens after damage: everything is there, the index agrees, and the next opening is quiet.
fn check(dir: &Path, expected: &[Job]) -> Vec<String> {
    let mut model = MemoryStore::default();
    expected.iter().for_each(|job| assert!(model.put_new(job).unwrap()));
    let expected = print(&model).unwrap();
    let (store, notes) = open(dir);
    assert_eq!(print(&store).unwrap(), expected, "{notes:?}");
    drop(store);
    let (mut store, _) = open(dir);
    assert_eq!(print(&store).unwrap(), expected);
    assert!(store.put_new(&new_job(999)).unwrap());
    notes
}

fn file_starting(dir: &Path, start: &str) -> PathBuf {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths
        .into_iter()
        .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(start))
        .unwrap_or_else(|| panic!("no {start} in {}", dir.display()))
}

pub(super) fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Where the zeros begin with which sled fills its last segment.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|x| *x != 0).unwrap()
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn suite_with_a_reopening_after_every_write() {
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot { dir: dir.path().to_owned(), store: Some(open(dir.path()).0) };
    suite::run(&mut slot, |slot| {
        // The store has to be closed before it can be opened again.
        slot.store = None;
        let (store, notes) = open(&slot.dir);
        assert_eq!(notes, Vec::<String>::new());
        slot.store = Some(store);
    });
}

struct Slot {
    dir: PathBuf,
    store: Option<SledStore>,
}

impl Slot {
    fn it(&mut self) -> &mut SledStore {
        self.store.as_mut().unwrap()
    }
}

impl Store for Slot {
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError> {
        self.store.as_ref().unwrap().get(id)
    }
    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError> {
        self.it().put_new(job)
    }
    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError> {
        self.it().swap(old, new)
    }
    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError> {
        self.store.as_ref().unwrap().scan(state)
    }
    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError> {
        self.store.as_ref().unwrap().find_identity(identity)
    }
    fn find_result(&self, to: &Destination<'_>) -> Result<Option<Job>, StoreError> {
        self.store.as_ref().unwrap().find_result(to)
    }
    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        self.it().remove(ids)
    }
}

#[test]
fn a_second_store_on_the_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path());
    let refused = SledStore::open(dir.path()).err().unwrap();
    assert_eq!(refused.code, "N0306");
    assert!(refused.message.contains(&std::process::id().to_string()), "{refused}");
}

#[test]
fn damaged_index_files_cost_nothing() {
    type Damage = (&'static str, &'static str, fn(&mut Vec<u8>));
    let damages: [Damage; 8] = [
        ("snapshot cut", "snap.", |b| b.truncate(b.len() / 2)),
        ("snapshot emptied", "snap.", Vec::clear),
        ("snapshot flipped", "snap.", |b| *b.last_mut().unwrap() ^= 0x55),
        ("db cut by 4 KiB", "db", |b| b.truncate(used(b).saturating_sub(4 << 10))),
        ("db cut by 100 KiB", "db", |b| b.truncate(used(b).saturating_sub(100 << 10))),
        ("db flipped at a quarter", "db", |b| {
            let at = used(b) / 4;
            b[at] ^= 0x55;
        }),
        ("db flipped in the middle", "db", |b| {
            let at = used(b) / 2;
            b[at] ^= 0x55;
        }),
        ("db emptied", "db", Vec::clear),
    ];
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    let expected = filled(&sound);
    // The second opening writes the snapshot.
    assert_eq!(open(&sound).1, Vec::<String>::new());
    for (name, file, change) in damages {
        let dir = dir.path().join(name);
        copy(&sound, &dir);
        damage(&file_starting(&dir.join("index"), file), change);
        let notes = check(&dir, &expected);
        assert!(!notes.is_empty(), "{name} was not noticed");
    }
}

#[test]
fn an_unclean_index_is_caught_up_or_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (live, dead) = (dir.path().join("live"), dir.path().join("dead"));
    let expected = filled(&live);
    let (store, _) = open(&live);
    // A copy taken while the store is open is what a dead process leaves.
    copy(&live, &dead);
    drop(store);
    check(&dead, &expected);
    for percent in (5..100).step_by(10) {
        let damaged = dir.path().join(format!("{percent}"));
        copy(&dead, &damaged);
        damage(&damaged.join("index/db"), |bytes| {
            let at = used(bytes) * percent / 100;
            bytes[at] ^= 0x55;
        });
        let before = open(&dead).0.scan(None).unwrap();
        assert_eq!(before.len(), expected.len() + 1);
        let (store, notes) = open(&damaged);
        assert_eq!(store.scan(None).unwrap(), before, "{percent}: {notes:?}");
    }
}

/// Opens with the index as it was before `changes`.
fn with_an_old_index(changes: impl FnOnce(&mut SledStore)) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let (index, old) = (dir.path().join("index"), dir.path().join("old"));
    copy(&index, &old);
    let (mut store, _) = open(dir.path());
    changes(&mut store);
    let expected = store.scan(None).unwrap();
    drop(store);
    fs::remove_dir_all(&index).unwrap();
    fs::rename(&old, &index).unwrap();
    check(dir.path(), &expected)
}

#[test]
fn an_index_that_missed_the_last_change_is_brought_on() {
    let changes: [fn(&mut SledStore); 3] = [
        |store| assert!(store.put_new(&new_job(500)).unwrap()),
        |store| assert_eq!(store.remove(&[&new_job(6).id]), Ok(1)),
        |store| {
            let claimed = What::Claimed.at(1);
            assert!(store.apply(&new_job(7).id, &claimed, &Policy::default()).unwrap().is_some());
        },
    ];
    for change in changes {
        assert_eq!(with_an_old_index(change), [""; 0]);
    }
}

#[test]
fn an_index_that_missed_more_is_built_anew() {
    let changes = |count: u64| {
        with_an_old_index(|store| {
            for n in 0..u32::try_from(count).unwrap() {
                assert!(store.put_new(&new_job(500 + n)).unwrap());
            }
            assert_eq!(store.remove(&[&new_job(5).id, &new_job(6).id]), Ok(2));
        })
    };
    let notes = changes(UNWRITTEN_MAX);
    assert!(notes.iter().any(|n| n.contains("built anew")), "{notes:?}");
    assert_eq!(changes(UNWRITTEN_MAX - 2), [""; 0]);
}

#[test]
fn a_lost_journal_is_completed_from_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let expected = filled(dir.path());
    fs::remove_dir_all(dir.path().join("journal")).unwrap();
    let notes = check(dir.path(), &expected);
    assert!(notes.iter().any(|n| n.contains("completed from the index")), "{notes:?}");
    // And now the journal alone is enough again.
    let (store, _) = open(dir.path());
    let all = store.scan(None).unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    assert_eq!(open(dir.path()).0.scan(None).unwrap(), all);
}

#[test]
fn a_damaged_journal_is_completed_from_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    let expected = filled(&sound);
    for part in 0..20 {
        let dir = dir.path().join(part.to_string());
        copy(&sound, &dir);
        damage(&dir.join("journal/0001.log"), |bytes| {
            let at = bytes.len() * part / 20;
            bytes[at] ^= 0x10;
        });
        let notes = check(&dir, &expected);
        assert!(!notes.is_empty(), "{part}");
    }
}

#[test]
fn rotation_keeps_journal_and_index_in_step() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let mut job = Job { params_json: "x".repeat(300_000), ..new_job(1) };
    store.put_new(&job).unwrap();
    store.put_new(&new_job(2)).unwrap();
    for n in 0..40 {
        let newer = Job { created_ms: n, ..job.clone() };
        assert!(store.swap(&job, &newer).unwrap() || job == newer);
        job = newer;
    }
    let expected = store.scan(None).unwrap();
    drop(store);
    let files = fs::read_dir(dir.path().join("journal")).unwrap().count();
    assert_eq!(files, 2);
    let (store, notes) = open(dir.path());
    assert_eq!((store.scan(None).unwrap(), notes), (expected.clone(), Vec::new()));
    drop(store);
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    check(dir.path(), &expected);
}

#[test]
fn a_failed_index_ends_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.put_new(&new_job(1)).unwrap();
    store.broken = Some(unusable("test".into()).diagnostic);
    assert!(store.put_new(&new_job(2)).unwrap_err().fatal);
    assert!(store.scan(None).unwrap_err().fatal);
    drop(store);
    check(dir.path(), &[new_job(1)]);
}

#[test]
fn a_failed_store_is_mended_without_being_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.put_new(&new_job(1)).unwrap();
    // In the journal, but not in the index: the process knows nothing of this job.
    let record = admit(&new_job(2)).unwrap();
    let files = store.files.as_mut().unwrap();
    files.journal.append(&[JournalChange::Put { record: &record }]).unwrap();
    store.broken = Some(unusable("test".into()).diagnostic);
    // No place for a new file of the journal: what is there stays, and nothing answers.
    fs::create_dir(dir.path().join("journal/0002.new")).unwrap();
    assert!(store.mend().unwrap_err().fatal);
    assert!(store.get(&new_job(1).id).unwrap_err().fatal);
    fs::remove_dir(dir.path().join("journal/0002.new")).unwrap();
    store.mend().unwrap();
    assert_eq!(store.scan(None).unwrap(), [new_job(1), new_job(2)]);
    assert!(store.put_new(&new_job(3)).unwrap());
    assert!(SledStore::open(dir.path()).is_err(), "the lock was held all the time");
    drop(store);
    check(dir.path(), &[new_job(1), new_job(2), new_job(3)]);
}

#[test]
fn quarantine_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    for _ in 0..4 {
        damage(&dir.path().join("index/db"), |b| {
            b.fill(0x77);
        });
        drop(open(dir.path()));
    }
    let kept = fs::read_dir(dir.path().join("quarantine")).unwrap().map(Result::unwrap);
    let kept = kept.filter(|e| e.file_name().to_string_lossy().starts_with("index.")).count();
    assert_eq!(kept, QUARANTINED_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Any sequence of calls has the same answers as the model, also over a reopening with and without the index.
    #[test]
    fn the_same_as_in_memory(calls in proptest::collection::vec((0..7u8, 0..5u32), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path()).0;
        let mut model = MemoryStore::default();
        for (call, n) in calls {
            let id = new_job(n).id;
            let identity = format!("d{}", n % 2);
            match call {
                0 => prop_assert_eq!(store.put_new(&new_job(n)), model.put_new(&new_job(n))),
                1 => prop_assert_eq!(store.remove(&[&id]), model.remove(&[&id])),
                2 | 3 => {
                    drop(store);
                    if call == 3 {
                        fs::remove_dir_all(dir.path().join("index")).unwrap();
                    }
                    store = open(dir.path()).0;
                }
                _ => {
                    let lease = model.get(&id).unwrap().map_or(0, |job| job.lease.max(1));
                    for event in success(&identity, lease) {
                        let policy = Policy::default();
                        let stepped = store.apply(&id, &event, &policy);
                        prop_assert_eq!(stepped, model.apply(&id, &event, &policy));
                    }
                }
            }
            prop_assert_eq!(print(&store), print(&model));
        }
    }
}
