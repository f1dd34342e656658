//! What outlives a killed daemon in the simulation, and the dice that decide.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use onnxd_jobs::{Destination, MemoryStore, SledStore, Store, StoreError};
use onnxd_proto::onnxd::{Job, JobState, Kept};

/// Equal seeds give equal numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % n
    }

    pub(super) fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// A store that a killed daemon leaves behind: in memory, or the real one in files.
#[derive(Clone)]
pub(super) struct Shared {
    store: Rc<RefCell<Box<dyn Store>>>,
    /// The state folder of a store in files.
    files: Option<PathBuf>,
}

impl Shared {
    pub(super) fn in_memory() -> Shared {
        Shared { store: Rc::new(RefCell::new(Box::<MemoryStore>::default())), files: None }
    }

    pub(super) fn in_files(state: &Path) -> Shared {
        fs::create_dir_all(state).unwrap();
        let store = Rc::new(RefCell::new(opened(state)));
        Shared { store, files: Some(state.to_owned()) }
    }

    /// The process ends as by a kill, and the next one opens the store.
    pub(super) fn after_a_kill(&self) {
        let Some(state) = &self.files else { return };
        // A store that is dropped writes its index; one that is killed does not.
        let (index, killed) = (state.join("index"), state.join("index.killed"));
        fs::create_dir(&killed).unwrap();
        for entry in fs::read_dir(&index).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
            }
        }
        *self.store() = Box::<MemoryStore>::default();
        fs::remove_dir_all(&index).unwrap();
        fs::rename(&killed, &index).unwrap();
        *self.store() = opened(state);
    }

    fn store(&self) -> RefMut<'_, Box<dyn Store>> {
        self.store.borrow_mut()
    }
}

/// What a kill leaves needs no repair.
fn opened(state: &Path) -> Box<dyn Store> {
    let (store, repairs) = SledStore::open(state).unwrap();
    assert_eq!(repairs, [""; 0]);
    Box::new(store)
}

impl Store for Shared {
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError> {
        self.store().get(id)
    }
    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError> {
        self.store().put_new(job)
    }
    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError> {
        self.store().swap(old, new)
    }
    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError> {
        self.store().scan(state)
    }
    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError> {
        self.store().find_identity(identity)
    }
    fn find_result(&self, to: &Destination<'_>) -> Result<Option<Job>, StoreError> {
        self.store().find_result(to)
    }
    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        self.store().remove(ids)
    }
    fn at_hand(&self) -> Result<Vec<String>, StoreError> {
        self.store().at_hand()
    }
    fn packed_counts(&self) -> BTreeMap<JobState, usize> {
        self.store().packed_counts()
    }
    fn is_packed(&self, id: &str) -> bool {
        self.store().is_packed(id)
    }
    fn pack(&mut self, jobs: &[(String, Kept)]) -> Result<usize, StoreError> {
        self.store().pack(jobs)
    }
    fn kept(&self, id: &str) -> Result<Option<Kept>, StoreError> {
        self.store().kept(id)
    }
    fn mend(&mut self) -> Result<Vec<String>, StoreError> {
        self.store().mend()
    }
}
