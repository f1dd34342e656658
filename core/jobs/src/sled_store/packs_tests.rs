//! Packed jobs: the same answers as those of a store in memory, whatever is damaged and wherever
//! the process ends.

use super::tests::{copy, damage, filled, open};
use super::*;
use crate::crash;
use crate::memory_store::MemoryStore;
use crate::print::print;
use crate::step::{Policy, What};
use crate::store::suite::{new_job, success};

fn kept(id: &str) -> Kept {
    Kept { claim: format!("claim of {id}").into(), report: format!("report of {id}").into() }
}

fn at_hand(store: &dyn Store) -> Vec<Job> {
    store.at_hand().unwrap().iter().map(|id| store.get(id).unwrap().unwrap()).collect()
}

/// Packs all finished jobs whose numbers `wanted` takes.
fn pack(store: &mut SledStore, wanted: impl Fn(usize) -> bool) -> usize {
    let finished = at_hand(store).into_iter().filter(|job| is_finished(job.state()));
    let ids = finished.map(|job| job.id).enumerate().filter(|(n, _)| wanted(*n));
    let jobs: Vec<(String, Kept)> = ids.map(|(_, id)| (id.clone(), kept(&id))).collect();
    store.pack(&jobs).unwrap()
}

fn model_of(jobs: &[Job]) -> MemoryStore {
    let mut model = MemoryStore::default();
    jobs.iter().for_each(|job| assert!(model.put_new(job).unwrap()));
    model
}

/// The store answers everything as if nothing were packed.
fn check(store: &SledStore, jobs: &[Job], why: &str) {
    let model = model_of(jobs);
    assert_eq!(print(store).unwrap(), print(&model).unwrap(), "{why}");
    assert_eq!(store.briefs(), model.briefs(), "{why}");
    assert_eq!(store.newest(), model.newest(), "{why}");
    for state in [None, Some(JobState::Succeeded), Some(JobState::Queued)] {
        let mut below: Option<String> = None;
        let mut listed = Vec::new();
        loop {
            let page = store.page(state, below.as_deref(), 7).unwrap();
            assert_eq!(page, model.page(state, below.as_deref(), 7).unwrap(), "{why}");
            let Some(last) = page.last() else { break };
            below = Some(last.id.clone());
            listed.extend(page);
        }
        assert_eq!(listed, model.page(state, None, usize::MAX).unwrap(), "{why}");
    }
    for letters in ["0000000000000000000000", "00000000000000000000000001", "7", "Z", "no id"] {
        let ids = store.ids_beginning_with(letters).unwrap();
        assert_eq!(ids, model.ids_beginning_with(letters).unwrap(), "{why}");
    }
    let mut counts = store.packed_counts();
    for job in at_hand(store) {
        assert!(!store.is_packed(&job.id), "{why}");
        *counts.entry(job.state()).or_default() += 1;
    }
    let model_counts = at_hand(&model).iter().fold(BTreeMap::new(), |mut counts, job| {
        *counts.entry(job.state()).or_default() += 1;
        counts
    });
    assert_eq!(counts, model_counts, "{why}");
}

/// A store with 60 jobs in several states, those that are finished packed in several packs.
fn packed(dir: &Path) -> Vec<Job> {
    let jobs = filled(dir);
    let (mut store, _) = open(dir);
    assert!(pack(&mut store, |n| n % 2 == 0) > 2);
    assert!(pack(&mut store, |_| true) > 2);
    assert_eq!(pack(&mut store, |_| true), 0);
    // Until then the journal has what was packed.
    store.rotate(Journal::shrink).unwrap();
    check(&store, &jobs, "packed");
    jobs
}

#[test]
fn packed_jobs_answer_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = packed(dir.path());
    let (store, notes) = open(dir.path());
    assert_eq!(notes, Vec::<String>::new());
    check(&store, &jobs, "reopened");
    for job in jobs.iter().filter(|job| is_finished(job.state())) {
        assert_eq!(store.kept(&job.id).unwrap(), Some(kept(&job.id)));
        let (id, found) = kept_in_packs(dir.path(), &job.id).unwrap().swap_remove(0);
        assert_eq!((id, found), (job.id.clone(), kept(&job.id)));
    }
    let at_hand = at_hand(&store);
    assert!(at_hand.iter().all(|job| !is_finished(job.state())));
    assert_eq!(store.kept(&at_hand[0].id).unwrap(), None);
}

/// kept_in_packs for the command line; the same crate function.
fn kept_in_packs(dir: &Path, id: &str) -> Result<Vec<(String, Kept)>, Diagnostic> {
    crate::finished::kept_in_packs(dir, id)
}

#[test]
fn unfinished_jobs_are_not_packed() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = filled(dir.path());
    let (mut store, _) = open(dir.path());
    let all: Vec<(String, Kept)> = jobs.iter().map(|job| (job.id.clone(), kept(&job.id))).collect();
    let finished = jobs.iter().filter(|job| is_finished(job.state())).count();
    assert_eq!(store.pack(&all).unwrap(), finished);
    assert_eq!(store.pack(&[("nobody".into(), kept(""))]).unwrap(), 0);
    check(&store, &jobs, "packed");
}

#[test]
fn a_packed_job_comes_back_when_it_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let mut job = new_job(1);
    job.set_state(JobState::Failed);
    store.put_new(&job).unwrap();
    store.put_new(&new_job(2)).unwrap();
    for round in 0..3 {
        assert_eq!(pack(&mut store, |_| true), 1);
        assert!(!store.put_new(&job).unwrap(), "the id is taken");
        let retry = What::RetryAsked { actor: "ann".into() }.at(round);
        let next = store.apply(&job.id, &retry, &Policy::default()).unwrap().unwrap();
        assert_eq!(store.get(&job.id).unwrap(), Some(next.clone()));
        drop(store);
        store = open(dir.path()).0;
        check(&store, &[next.clone(), new_job(2)], "tried again");
        assert_eq!(store.kept(&job.id).unwrap(), None, "it is at hand");
        let rejected = What::Rejected { diagnostics: Vec::new() }.at(round);
        job = store.apply(&job.id, &rejected, &Policy::default()).unwrap().unwrap();
    }
    assert_eq!(pack(&mut store, |_| true), 1);
    assert_eq!(store.remove(&[&job.id]).unwrap(), 1);
    check(&store, &[new_job(2)], "removed");
    // What was dropped stays so over further files of the journal.
    for _ in 0..3 {
        store.rotate(Journal::shrink).unwrap();
        drop(store);
        store = open(dir.path()).0;
        check(&store, &[new_job(2)], "removed");
    }
}

#[test]
fn packs_of_dropped_jobs_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut jobs = packed(dir.path());
    let (mut store, _) = open(dir.path());
    while let Some(at) = jobs.iter().rposition(|job| is_finished(job.state())) {
        let job = jobs.remove(at);
        assert_eq!(store.remove(&[&job.id]).unwrap(), 1);
        check(&store, &jobs, "removed");
        if at % 3 == 0 {
            drop(store);
            store = open(dir.path()).0;
            check(&store, &jobs, "reopened");
        }
    }
    for folder in ["finished", "copies"] {
        assert_eq!(fs::read_dir(dir.path().join(folder)).unwrap().count(), 0, "{folder}");
    }
}

/// Thousands of jobs lie in a handful of packs, and are not packed again each time.
#[test]
fn packs_are_few_and_jobs_small() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let (rounds, per_round) = (40, 32);
    let mut written = 0;
    for round in 0..rounds {
        for n in 0..per_round {
            let mut job = new_job(round * per_round + n);
            job.params_json = format!("{{\"export.opset\":{n},{}}}", "\"a.key\":17,".repeat(100));
            job.set_state(JobState::Succeeded);
            store.put_new(&job).unwrap();
        }
        assert_eq!(pack(&mut store, |_| true), per_round as usize);
        let packs = fs::read_dir(dir.path().join("finished")).unwrap();
        let sizes: Vec<u64> = packs.map(|e| e.unwrap().metadata().unwrap().len()).collect();
        assert!(sizes.len() <= 7, "{sizes:?}");
        written += sizes.last().unwrap();
    }
    let bytes = |folder: &str| -> u64 {
        let files = fs::read_dir(dir.path().join(folder)).unwrap();
        files.map(|e| e.unwrap().metadata().unwrap().len()).sum()
    };
    let jobs = u64::from(rounds * per_round);
    assert!(bytes("finished") / jobs < 200, "{} bytes per job", bytes("finished") / jobs);
    assert!(bytes("journal") < 100_000, "{} bytes of journal", bytes("journal"));
    assert!(bytes("index") < 4 << 20, "{} bytes of index", bytes("index"));
    assert!(written > 0);
}

#[test]
fn damage_to_a_pack_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    let jobs = packed(&sound);
    let packs: Vec<PathBuf> =
        fs::read_dir(sound.join("finished")).unwrap().map(|e| e.unwrap().path()).collect();
    type Damage = (&'static str, fn(&mut Vec<u8>, usize));
    let damages: [Damage; 4] = [
        ("flipped", |bytes, part| {
            let at = bytes.len() * part / 8;
            bytes[at] ^= 0x55;
        }),
        ("cut", |bytes, part| bytes.truncate(bytes.len() * part / 8)),
        ("zeroed from", |bytes, part| {
            let at = bytes.len() * part / 8;
            bytes[at..].fill(0);
        }),
        ("longer", |bytes, part| bytes.extend_from_within(..bytes.len() * part / 8)),
    ];
    for (name, change) in damages {
        for (part, folder) in (1..8).flat_map(|part| [(part, "finished"), (part, "copies")]) {
            let dir = dir.path().join(format!("{name} {part} {folder}"));
            copy(&sound, &dir);
            for pack in &packs {
                damage(&dir.join(folder).join(pack.file_name().unwrap()), |b| change(b, part));
            }
            let (store, notes) = open(&dir);
            assert!(notes.iter().any(|n| n.contains("made equal")), "{name} {part}: {notes:?}");
            check(&store, &jobs, &format!("{name} {part} {folder}"));
            drop(store);
            let (store, notes) = open(&dir);
            assert_eq!(notes, Vec::<String>::new(), "{name} {part} {folder}");
            check(&store, &jobs, name);
        }
    }
}

#[test]
fn a_lost_folder_costs_nothing_and_both_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    let jobs = packed(&sound);
    for folder in ["finished", "copies", "index", "journal"] {
        let dir = dir.path().join(folder);
        copy(&sound, &dir);
        fs::remove_dir_all(dir.join(folder)).unwrap();
        let (store, notes) = open(&dir);
        assert!(!notes.is_empty(), "{folder}");
        check(&store, &jobs, folder);
        drop(store);
        check(&open(&dir).0, &jobs, folder);
    }
    fs::remove_dir_all(sound.join("finished")).unwrap();
    fs::remove_dir_all(sound.join("copies")).unwrap();
    let (store, notes) = open(&sound);
    assert!(notes.iter().any(|n| n.contains("is missing")), "{notes:?}");
    let left: Vec<Job> = jobs.into_iter().filter(|job| !is_finished(job.state())).collect();
    check(&store, &left, "both lost");
}

#[test]
fn a_block_that_both_files_have_lost_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = packed(dir.path());
    for folder in ["finished", "copies"] {
        for pack in fs::read_dir(dir.path().join(folder)).unwrap() {
            damage(&pack.unwrap().path(), |bytes| bytes[30] ^= 1);
        }
    }
    let (store, notes) = open(dir.path());
    assert!(notes.iter().any(|n| n.contains("finished jobs are lost")), "{notes:?}");
    assert!(store.scan(None).unwrap().len() < jobs.len());
}

/// What is done to a store between two looks at it, and what it holds afterwards.
fn work(dir: &Path, jobs: &mut Vec<Vec<Job>>) {
    let (mut store, _) = open(dir);
    let look = |store: &SledStore, jobs: &mut Vec<Vec<Job>>| jobs.push(store.scan(None).unwrap());
    pack(&mut store, |n| n < 3);
    look(&store, jobs);
    for n in 100..104 {
        store.put_new(&new_job(n)).unwrap();
        look(&store, jobs);
        for event in success("late", 1) {
            store.apply(&new_job(n).id, &event, &Policy::default()).unwrap().unwrap();
            look(&store, jobs);
        }
    }
    // Absorbs the first pack.
    pack(&mut store, |_| true);
    let packed: Vec<String> = store.briefs().unwrap().into_iter().map(|b| b.id).collect();
    let packed: Vec<&str> =
        packed.iter().map(String::as_str).filter(|id| store.is_packed(id)).collect();
    store.remove(&packed[..2]).unwrap();
    look(&store, jobs);
    store.rotate(Journal::shrink).unwrap();
    store.remove(&packed[2..]).unwrap();
    look(&store, jobs);
}

/// The process ends at every write, sync, rename and removal in turn. Every acknowledged change is
/// there afterwards, and at most one that was not.
#[test]
fn every_crash_point_of_packing_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let start = dir.path().join("start");
    filled(&start);
    let before = open(&start).0.scan(None).unwrap();
    let whole = dir.path().join("whole");
    copy(&start, &whole);
    let mut all = vec![before.clone()];
    let names = crash::points(|| work(&whole, &mut all));
    for name in [
        "pack written", "pack synced", "pack renamed", "pack in place", "change written",
        "change synced", "pack to be removed", "journal written", "journal synced",
        "journal renamed", "journal in place",
    ] {
        assert!(names.contains(&name), "{name} is not passed");
    }
    for (at, name) in names.iter().enumerate() {
        let dir = dir.path().join(format!("{at}"));
        copy(&start, &dir);
        let mut seen = vec![before.clone()];
        assert!(crash::run_to(at, || work(&dir, &mut seen)), "{at} {name}");
        let (store, _) = open(&dir);
        let found = store.scan(None).unwrap();
        check(&store, &found, &format!("{at} {name}"));
        let acknowledged = seen.len() - 1;
        let next = &all[(acknowledged + 1).min(all.len() - 1)];
        assert!(found == all[acknowledged] || found == *next, "{at} {name}: neither old nor new");
        drop(store);
        let (store, notes) = open(&dir);
        assert_eq!(notes, Vec::<String>::new(), "{at} {name}");
        check(&store, &found, name);
        drop(store);
        // The work can be done again from there: nothing left over is in its way.
        let (mut store, _) = open(&dir);
        pack(&mut store, |_| true);
        check(&store, &found, name);
        fs::remove_dir_all(&dir).unwrap();
    }
}
