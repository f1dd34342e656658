use super::*;
use JobState::{
    Cancelled, Claimed, Claiming, Duplicate, Failed, Publishing, Quarantined, Queued, RetryWait,
    Running, Succeeded, Unknown,
};
use proptest::prelude::*;

const LEASE: u64 = 4;
const NOW_MS: u64 = 1_000;

/// A job in the middle of its life; its next attempt may be retried.
fn job(state: JobState) -> Job {
    let mut job = Job {
        id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
        lease: LEASE,
        attempts: 1,
        not_before_ms: NOW_MS,
        identity: "d1".into(),
        stage: "import".into(),
        ..Job::default()
    };
    job.set_state(state);
    job
}

fn finding(class: &str) -> Vec<Diagnostic> {
    let (code, message) = ("N0001".into(), "why".into());
    vec![Diagnostic { code, class: class.into(), message, ..Diagnostic::default() }]
}

fn staged() -> String {
    "/jobs/result".into()
}

fn failed(class: &str, crashed: bool, timed_out: bool) -> What {
    What::Failed { lease: LEASE, diagnostics: finding(class), crashed, timed_out }
}

fn actor() -> String {
    "ann".into()
}

fn after(job: &Job, what: What) -> Option<Job> {
    step(job, &what.at(NOW_MS), &Policy::default())
}

fn to(state: JobState, what: What) -> Option<JobState> {
    after(&job(state), what).map(|job| job.state())
}

const STATES: [JobState; 12] = [
    Unknown, Claiming, Claimed, Queued, Running, Publishing, Succeeded, Failed, Cancelled,
    Quarantined, Duplicate, RetryWait,
];

/// Every event with all transitions it makes; every other pair is stale.
fn table() -> Vec<(What, Vec<(JobState, JobState)>)> {
    let lease = LEASE;
    let in_attempt = |to| vec![(Running, to), (Publishing, to)];
    // What is on its way to the outbox is never converted again by itself.
    let but_publishing = |to| vec![(Running, to), (Publishing, Failed)];
    let before = |to| vec![(Claimed, to), (Queued, to), (RetryWait, to)];
    vec![
        (What::Claimed, vec![(Claiming, Claimed)]),
        (What::Hashed { files: vec![], identity: "d".into() }, vec![(Claimed, Queued)]),
        (What::DuplicateOf { job: "x".into() }, before(Duplicate)),
        (
            What::Rejected { diagnostics: finding("input") },
            [before(Failed), vec![(Claiming, Failed)]].concat(),
        ),
        (What::Started, vec![(Queued, Running), (RetryWait, Running)]),
        (What::StageEntered { lease, stage: "export".into() }, vec![(Running, Running)]),
        (
            What::ReadyToPublish { lease, staged: staged(), dest: "/out".into() },
            vec![(Running, Publishing)],
        ),
        (
            What::Copied { of: "x".into(), staged: staged(), dest: "/out".into() },
            vec![(Queued, Publishing), (RetryWait, Publishing)],
        ),
        (
            What::Redirected { lease, staged: staged(), dest: "/out.2".into() },
            vec![(Publishing, Publishing)],
        ),
        (What::Published { lease }, vec![(Publishing, Succeeded)]),
        (failed("input", false, false), in_attempt(Failed)),
        (failed("unsupported", false, false), in_attempt(Failed)),
        (failed("internal", false, false), in_attempt(Failed)),
        (failed("unheard-of", false, false), in_attempt(Failed)),
        (failed("environment", false, false), but_publishing(RetryWait)),
        (failed("internal", true, false), but_publishing(RetryWait)),
        (failed("environment", false, true), but_publishing(RetryWait)),
        (
            What::BroughtDown,
            vec![
                (Claiming, Claiming),
                (Claimed, Claimed),
                (Queued, Queued),
                (RetryWait, RetryWait),
                (Running, Queued),
                (Publishing, Publishing),
            ],
        ),
        (What::RoomAgain, vec![(RetryWait, Queued)]),
        (What::Interrupted { lease }, vec![(Running, Queued)]),
        (What::GivenBack { lease }, vec![(Running, Queued)]),
        (What::CancelAsked { actor: actor() }, [before(Cancelled), in_attempt(Cancelled)].concat()),
        (What::RetryAsked { actor: actor() }, vec![(Failed, Queued), (Cancelled, Queued)]),
        (What::Released { actor: actor() }, vec![(Quarantined, Queued)]),
    ]
}

#[test]
fn every_event_in_every_state() {
    for (what, transitions) in table() {
        for state in STATES {
            let expected = transitions.iter().find(|(from, _)| *from == state).map(|t| t.1);
            assert_eq!(to(state, what.clone()), expected, "{state:?} {what:?}");
        }
    }
}

#[test]
fn every_step_is_recorded() {
    for (what, transitions) in table() {
        for (from, to) in transitions {
            let next = after(&job(from), what.clone()).unwrap();
            let event = next.events.last().unwrap();
            assert_eq!((event.from(), event.to(), event.unix_ms), (from, to, NOW_MS));
            assert!(!event.actor.is_empty() && !event.reason.is_empty(), "{what:?}");
            assert_eq!(next.finished_ms, if is_finished(to) { NOW_MS } else { 0 });
        }
    }
}

#[test]
fn news_of_another_lease_changes_nothing() {
    for (what, _) in table().into_iter().filter(|(what, _)| what.lease().is_some()) {
        for state in STATES {
            for lease in [LEASE - 1, LEASE + 1] {
                let job = Job { lease, ..job(state) };
                assert_eq!(after(&job, what.clone()), None, "{state:?} {what:?}");
            }
        }
    }
}

#[test]
fn a_copy_ends_as_a_duplicate() {
    let what = What::Copied { of: "x".into(), staged: staged(), dest: "/out".into() };
    let copied = after(&job(Queued), what).unwrap();
    let there = after(&copied, What::Published { lease: LEASE }).unwrap();
    assert_eq!((there.state(), there.duplicate_of.as_str()), (Duplicate, "x"));
    let cancelled = after(&copied, What::CancelAsked { actor: actor() }).unwrap();
    let again = after(&cancelled, What::RetryAsked { actor: actor() }).unwrap();
    assert_eq!((again.duplicate_of.as_str(), again.staged.as_str()), ("", ""));
}

#[test]
fn the_same_place_again_is_no_news() {
    let ready = What::ReadyToPublish { lease: LEASE, staged: staged(), dest: "/out".into() };
    let publishing = after(&job(Running), ready).unwrap();
    let same = What::Redirected { lease: LEASE, staged: staged(), dest: "/out".into() };
    assert_eq!(after(&publishing, same), None);
}

#[test]
fn a_start_counts_before_the_work() {
    let next = after(&job(Queued), What::Started).unwrap();
    assert_eq!((next.lease, next.attempts, next.stage.as_str()), (LEASE + 1, 2, ""));
}

#[test]
fn a_retry_starts_when_it_is_due() {
    let early = What::Started.at(NOW_MS - 1);
    assert_eq!(step(&job(RetryWait), &early, &Policy::default()), None);
}

#[test]
fn the_same_stage_again_is_no_news() {
    let again = What::StageEntered { lease: LEASE, stage: "import".into() };
    assert_eq!(to(Running, again), None);
}

#[test]
fn attempts_of_the_environment_end() {
    let last = Job { attempts: Policy::default().attempts_max, ..job(Running) };
    let next = after(&last, failed("environment", false, false)).unwrap();
    assert_eq!(next.state(), Failed);
}

#[test]
fn attempts_on_a_full_disk_do_not_count() {
    let policy = Policy::default();
    let mut job = Job { attempts: policy.attempts_max, ..job(Running) };
    let mut full = finding("environment");
    full[0].code = Code::DiskFull.as_str().into();
    for _ in 0..20 {
        let lease = job.lease;
        let what =
            |diagnostics| What::Failed { lease, diagnostics, crashed: false, timed_out: false };
        job = step(&job, &what(full.clone()).at(NOW_MS), &policy).unwrap();
        assert_eq!((job.state(), job.attempts), (RetryWait, policy.attempts_max - 1));
        assert_eq!(job.not_before_ms, NOW_MS + policy.room_wait_ms);
        job = step(&job, &What::RoomAgain.at(NOW_MS), &policy).unwrap();
        job = step(&job, &What::Started.at(NOW_MS), &policy).unwrap();
        assert_eq!((job.state(), job.attempts), (Running, policy.attempts_max));
    }
    // Something else went wrong, too.
    let both = [full, finding("input")].concat();
    assert_eq!((lacks_room(&both), lacks_room(&[])), (None, None));
}

#[test]
fn the_second_crash_quarantines() {
    let once = after(&job(Running), failed("internal", true, false)).unwrap();
    assert_eq!((once.state(), once.crashes), (RetryWait, 1));
    let again = Job { crashes: 1, ..job(Running) };
    let twice = after(&again, failed("internal", false, true)).unwrap();
    assert_eq!((twice.state(), twice.crashes), (Quarantined, 2));
    let released = after(&twice, What::Released { actor: actor() }).unwrap();
    assert_eq!((released.crashes, released.attempts), (0, 0));
}

#[test]
fn the_second_crash_of_the_daemon_over_a_job_quarantines() {
    for state in [Claimed, Queued, RetryWait, Running, Publishing] {
        let mut job = job(state);
        (job.staged, job.published) = (staged(), "/out".into());
        let once = after(&job, What::BroughtDown).unwrap();
        assert_eq!(once.crashes, 1, "{state:?}");
        // A crash of its worker is one of the two.
        let again = Job { crashes: 1, ..job };
        let twice = after(&again, What::BroughtDown).unwrap();
        assert_eq!((twice.state(), twice.crashes), (Quarantined, 2), "{state:?}");
    }
    let claiming = Job { crashes: 1, ..job(Claiming) };
    let claiming = after(&claiming, What::BroughtDown).unwrap();
    assert_eq!((claiming.state(), claiming.crashes), (Claiming, 1), "its files are elsewhere");
}

#[test]
fn a_crash_without_attempts_left_is_a_failure() {
    let policy = Policy { attempts_max: 1, ..Policy::default() };
    let next = step(&job(Running), &failed("internal", true, false).at(NOW_MS), &policy);
    assert_eq!(next.unwrap().state(), Failed);
}

#[test]
fn a_dying_daemon_counts_and_an_orderly_one_does_not() {
    let lease = LEASE;
    assert_eq!(after(&job(Running), What::Interrupted { lease }).unwrap().attempts, 1);
    assert_eq!(after(&job(Running), What::GivenBack { lease }).unwrap().attempts, 0);
    let suspect = Job { attempts: Policy::default().interrupted_max, ..job(Running) };
    assert_eq!(after(&suspect, What::Interrupted { lease }).unwrap().state(), Quarantined);
}

#[test]
fn a_job_without_digests_gets_them_on_retry() {
    let unhashed = Job { identity: String::new(), ..job(Failed) };
    let next = after(&unhashed, What::RetryAsked { actor: actor() }).unwrap();
    assert_eq!(next.state(), Claimed);
}

#[test]
fn only_errors_decide_about_retry() {
    let mut diagnostics = finding("input");
    diagnostics.push(Diagnostic {
        severity: "warning".into(),
        class: "internal".into(),
        ..Diagnostic::default()
    });
    diagnostics[0].class = "environment".into();
    let what = What::Failed { lease: LEASE, diagnostics, crashed: false, timed_out: false };
    assert_eq!(to(Running, what), Some(RetryWait));
}

#[test]
fn waits_double_and_stay_within_bounds() {
    let policy = Policy { attempts_max: u32::MAX, ..Policy::default() };
    for attempts in 1..80 {
        let running = Job { attempts, ..job(Running) };
        let longest_ms = (policy.retry_first_ms << (attempts - 1).min(20)).min(600_000);
        let next = step(&running, &failed("environment", false, false).at(NOW_MS), &policy);
        let wait_ms = next.unwrap().not_before_ms - NOW_MS;
        assert!((longest_ms / 2..=longest_ms).contains(&wait_ms), "{attempts}: {wait_ms}");
    }
}

#[test]
fn jobs_that_failed_together_come_back_apart() {
    let waits: std::collections::BTreeSet<u64> = (0..100)
        .map(|n| Job { id: format!("{n:026}"), ..job(Running) })
        .map(|job| after(&job, failed("environment", false, false)).unwrap().not_before_ms)
        .collect();
    assert!(waits.len() > 90, "{}", waits.len());
}

#[test]
fn history_and_findings_are_bounded() {
    let mut job = job(Running);
    for n in 0..500 {
        let what = What::StageEntered { lease: LEASE, stage: n.to_string() };
        job = step(&job, &what.at(n), &Policy::default()).unwrap();
    }
    let times: Vec<u64> = job.events.iter().map(|e| e.unix_ms).collect();
    let expected: Vec<u64> = (0..20).chain(320..500).collect();
    assert_eq!(times, expected);

    let mut diagnostics = finding("input");
    diagnostics[0].message = "x".repeat(1 << 20);
    let diagnostics = vec![diagnostics.remove(0); 200];
    let what = What::Failed { lease: LEASE, diagnostics, crashed: false, timed_out: false };
    let next = after(&job, what).unwrap();
    assert_eq!((next.diagnostics.len(), next.diagnostics[0].message.len()), (100, 2_000));
    assert!(next.events.last().unwrap().reason.len() < 200);
}

fn any_what() -> impl Strategy<Value = (usize, u64, u64)> {
    (0..table().len(), 0..3u64, 0..20_000u64)
}

/// The event of the table with the lease moved `behind` the job's own.
fn with_lease(what: What, lease: u64) -> What {
    match what {
        What::StageEntered { .. } => What::StageEntered { lease, stage: lease.to_string() },
        What::ReadyToPublish { staged, dest, .. } => What::ReadyToPublish { lease, staged, dest },
        What::Redirected { staged, dest, .. } => What::Redirected { lease, staged, dest },
        What::Published { .. } => What::Published { lease },
        What::Failed { diagnostics, crashed, timed_out, .. } => {
            What::Failed { lease, diagnostics, crashed, timed_out }
        }
        What::Interrupted { .. } => What::Interrupted { lease },
        What::GivenBack { .. } => What::GivenBack { lease },
        other => other,
    }
}

proptest! {
    #[test]
    fn invariants_hold_on_every_path(picks in proptest::collection::vec(any_what(), 1..200)) {
        let policy = Policy { interrupted_max: 5, ..Policy::default() };
        let limit = policy.attempts_max.max(policy.interrupted_max);
        let table = table();
        let mut job = Job { id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..Job::default() };
        job.set_state(Claiming);
        let mut now_ms = 0;
        for (row, behind, elapsed_ms) in picks {
            now_ms += elapsed_ms;
            // Most news are of this attempt; some are of an older one.
            let stale = behind == 2 && job.lease > 0;
            let what = with_lease(table[row].0.clone(), job.lease - u64::from(stale));
            let by_lease = what.lease().is_some();
            let Some(next) = step(&job, &what.clone().at(now_ms), &policy) else { continue };
            prop_assert!(!(stale && by_lease), "stale news was believed");
            let by_hand = matches!(what, What::RetryAsked { .. } | What::Released { .. });
            prop_assert!(!is_finished(job.state()) || by_hand);
            prop_assert!(!matches!(job.state(), Succeeded | Duplicate));
            if job.state() == Publishing {
                prop_assert!(!matches!(next.state(), Running | Queued | RetryWait), "twice");
            }
            prop_assert_eq!(next.lease, job.lease + u64::from(what == What::Started));
            prop_assert!(next.attempts <= limit, "{} attempts", next.attempts);
            prop_assert!(next.crashes <= policy.crashes_max);
            if next.crashes >= policy.crashes_max {
                prop_assert_eq!(next.state(), Quarantined);
            }
            if next.state() == Running {
                prop_assert!(next.attempts > 0 && next.lease > 0);
            }
            let asked = matches!(what, What::CancelAsked { .. });
            prop_assert_eq!(next.state() == Cancelled, asked);
            // No other state has a place in the outbox; a cancelled job has given it up.
            let copied = next.state() == Duplicate && job.state() == Publishing;
            let has_place = copied || matches!(next.state(), Publishing | Succeeded);
            prop_assert_eq!(!next.published.is_empty(), has_place);
            prop_assert_eq!(!next.staged.is_empty(), has_place);
            prop_assert!(next.events.len() <= EVENTS_MAX);
            prop_assert_eq!(next.events.last().unwrap().from(), job.state());
            prop_assert_eq!(next.finished_ms > 0, is_finished(next.state()) && now_ms > 0);
            job = next;
        }
    }
}
