//! What every store promises. `reopen` closes and opens the store where there is something to open;
//! it is called after every write.

use super::*;
use crate::step::What;

/// A job that has just been recorded.
pub(crate) fn new_job(n: u32) -> Job {
    let mut job = Job {
        schema: 1,
        id: format!("{n:026}"),
        name: format!("net{n}"),
        folder: "people/ann".into(),
        created_ms: u64::from(n),
        ..Job::default()
    };
    job.set_state(JobState::Claiming);
    job
}

/// The events of a job that succeeds.
pub(crate) fn success(identity: &str, lease: u64) -> Vec<Event> {
    [
        What::Claimed,
        What::Hashed { files: Vec::new(), identity: identity.into() },
        What::Started,
        What::StageEntered { lease, stage: "import".into() },
        What::ReadyToPublish { lease, staged: "/jobs/result".into(), dest: "/out/net".into() },
        What::Published { lease },
    ]
    .into_iter()
    .zip(1..)
    .map(|(what, unix_ms)| what.at(unix_ms))
    .collect()
}

/// Runs all checks on an empty store.
pub(crate) fn run<S: Store>(store: &mut S, mut reopen: impl FnMut(&mut S)) {
    put_and_swap(store, &mut reopen);
    one_life(store, &mut reopen);
    identities(store, &mut reopen);
    results(store, &mut reopen);
    order_by_priority(store, &mut reopen);
    refusals(store);
    let all = store.scan(None).unwrap();
    let ids: Vec<&str> = all.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(store.remove(&[&ids[..], &ids[..1], &["nobody"]].concat()).unwrap(), ids.len());
    reopen(store);
    assert_eq!(store.scan(None).unwrap(), []);
}

fn put_and_swap<S: Store>(store: &mut S, reopen: &mut impl FnMut(&mut S)) {
    let job = new_job(1);
    assert_eq!(store.get(&job.id).unwrap(), None);
    assert!(store.put_new(&job).unwrap());
    reopen(store);
    assert_eq!(store.get(&job.id).unwrap().as_ref(), Some(&job));
    assert!(!store.put_new(&Job { name: "other".into(), ..job.clone() }).unwrap());

    let newer = Job { name: "newer".into(), ..job.clone() };
    assert!(store.swap(&job, &newer).unwrap());
    reopen(store);
    assert!(!store.swap(&job, &Job { name: "lost".into(), ..job.clone() }).unwrap());
    assert!(!store.swap(&newer, &new_job(2)).unwrap(), "another id");
    assert!(!store.swap(&new_job(3), &new_job(3)).unwrap(), "not there");
    assert_eq!(store.scan(None).unwrap(), [newer]);
}

fn one_life<S: Store>(store: &mut S, reopen: &mut impl FnMut(&mut S)) {
    let job = new_job(10);
    assert!(store.put_new(&job).unwrap());
    reopen(store);
    let mut expected = job.clone();
    for event in success("d10", 1) {
        expected = step(&expected, &event, &Policy::default()).unwrap();
        let applied = store.apply(&job.id, &event, &Policy::default()).unwrap();
        assert_eq!(applied.as_ref(), Some(&expected));
        reopen(store);
        assert_eq!(store.get(&job.id).unwrap().as_ref(), Some(&expected));
        for state in (0..12).filter_map(|n| JobState::try_from(n).ok()) {
            let here = store.scan(Some(state)).unwrap().contains(&expected);
            assert_eq!(here, state == expected.state(), "{state:?}");
        }
    }
    assert_eq!(expected.state(), JobState::Succeeded);
    let stale = What::Started.at(9);
    assert_eq!(store.apply(&job.id, &stale, &Policy::default()).unwrap(), None);
    assert_eq!(store.apply("nobody", &stale, &Policy::default()).unwrap(), None);
}

fn identities<S: Store>(store: &mut S, reopen: &mut impl FnMut(&mut S)) {
    for n in [21, 20, 22] {
        assert!(store.put_new(&new_job(n)).unwrap());
        let id = new_job(n).id;
        // The last one does not get further than its start.
        for event in success("same", 1).into_iter().take(if n == 22 { 3 } else { 6 }) {
            assert!(store.apply(&id, &event, &Policy::default()).unwrap().is_some());
        }
    }
    reopen(store);
    let newest = |store: &S| store.find_identity("same").unwrap().map(|job| job.id);
    assert_eq!(newest(store), Some(new_job(21).id));
    for prefix in ["", "sam", "same/", "d"] {
        assert_eq!(store.find_identity(prefix).unwrap(), None, "{prefix}");
    }
    assert_eq!(store.remove(&[&new_job(21).id]).unwrap(), 1);
    reopen(store);
    assert_eq!(newest(store), Some(new_job(20).id));
}

/// Copies of one result under other names; what was found to be there already brings nothing.
fn results<S: Store>(store: &mut S, reopen: &mut impl FnMut(&mut S)) {
    let lives = [(50, None), (51, Some("copy")), (52, Some("copy")), (53, Some("same"))];
    for (n, copied) in lives {
        let name = if n == 50 { "net" } else { "other" };
        assert!(store.put_new(&Job { name: name.into(), ..new_job(n) }).unwrap());
        let of = new_job(50).id;
        let (staged, dest) = ("/jobs/result".into(), "/out/other".into());
        let events = match copied {
            None => success("copied", 1),
            Some("copy") => vec![
                What::Claimed.at(1),
                What::Hashed { files: Vec::new(), identity: "copied".into() }.at(2),
                What::Copied { of, staged, dest }.at(3),
                What::Published { lease: 0 }.at(4),
            ],
            Some(_) => vec![
                What::Claimed.at(1),
                What::Hashed { files: Vec::new(), identity: "copied".into() }.at(2),
                What::DuplicateOf { job: of }.at(3),
            ],
        };
        // One copy does not get to its place.
        for event in events.into_iter().take(if n == 52 { 3 } else { 9 }) {
            let id = new_job(n).id;
            assert!(store.apply(&id, &event, &Policy::default()).unwrap().is_some(), "{event:?}");
        }
    }
    reopen(store);
    let found = |store: &S, folder, name| {
        let to = Destination { identity: "copied", folder, name };
        store.find_result(&to).unwrap().map(|job| job.id)
    };
    assert_eq!(found(store, "people/ann", "net"), Some(new_job(50).id));
    assert_eq!(found(store, "people/ann", "other"), Some(new_job(51).id));
    assert_eq!(found(store, "people", "ann/other"), None);
    assert_eq!(found(store, "people/ann", "oth"), None);
    assert_eq!(store.find_identity("copied").unwrap().map(|job| job.id), Some(new_job(50).id));
}

fn order_by_priority<S: Store>(store: &mut S, reopen: &mut impl FnMut(&mut S)) {
    for (n, priority) in [(30, 0), (31, 5), (32, -7), (33, 5), (34, i32::MIN), (35, i32::MAX)] {
        let mut job = Job { priority, ..new_job(n) };
        job.set_state(JobState::RetryWait);
        assert!(store.put_new(&job).unwrap());
    }
    reopen(store);
    let found = store.scan(Some(JobState::RetryWait)).unwrap();
    let order: Vec<u64> = found.iter().map(|job| job.created_ms).collect();
    assert_eq!(order, [35, 31, 33, 30, 32, 34]);
}

fn refusals<S: Store>(store: &mut S) {
    let before = store.scan(None).unwrap();
    let wrong_id = Job { id: "../x".into(), ..new_job(40) };
    let wrong_identity = Job { identity: "a/b".into(), ..new_job(40) };
    let too_large = Job { name: "x".repeat(RECORD_BYTES_MAX), ..new_job(40) };
    for job in [wrong_id, wrong_identity, too_large] {
        let refused = store.put_new(&job).unwrap_err();
        assert!(!refused.fatal);
        let refused = store.swap(&before[0], &job).unwrap_err();
        assert!(!refused.fatal);
    }
    assert_eq!(store.scan(None).unwrap(), before);
}
