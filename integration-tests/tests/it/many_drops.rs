//! Many drops at once: nobody waits behind the drops of another top folder, a daemon that is restarted again and again
//! goes on, and what a file does to the process that looks at it is its own matter.

use crate::site::{Site, drop_model, hostile_site, wait, wait_or};
use onnxd_integration_tests::write_small_model;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// Drops in the first top folder.
const MANY: usize = 300;

fn count(jobs: &[Value], folder: &str, is: impl Fn(&Value) -> bool) -> usize {
    let of = |job: &&Value| job["folder"].as_str().is_some_and(|f| f.starts_with(folder));
    jobs.iter().filter(of).filter(|job| is(job)).count()
}

fn is_done(job: &Value) -> bool {
    job["state"] == "succeeded"
}

/// Models that differ, half of them in a folder of each of two users.
fn drop_many(site: &Site, team: &str) {
    let staged = site.at("staged");
    for n in 0..MANY {
        let folder = staged.join(if n % 2 == 0 { "ann" } else { "bob" });
        fs::create_dir_all(&folder).unwrap();
        write_small_model(&folder.join(format!("net{n}.onnx")), &n.to_string());
    }
    fs::rename(staged, site.inbox().join(team)).unwrap();
}

#[test]
fn a_drop_does_not_wait_for_those_of_another_top_folder() {
    let mut site = Site::new();
    site.set("WORKER_PARALLEL_MAX", "1");
    site.set("JOBS_DRAIN_TIMEOUT_S", "0");
    drop_many(&site, "team-a");
    let daemon = site.start();
    let jobs = || site.jobs();
    wait_or(
        "the first result",
        || site.log(),
        || (count(&jobs(), "team-a", is_done) > 0).then_some(()),
    );
    // The first results are there before the front-ends were asked about all.
    let taken = count(&jobs(), "team-a", |_| true);
    assert!(taken < MANY, "{taken} drops were taken before the first was converted");
    (0..3).for_each(|n| drop_model(&site, &format!("team-b/late{n}.onnx"), &format!("late {n}")));
    wait_or(
        "the drops of the other team",
        || site.log(),
        || (count(&jobs(), "team-b", is_done) == 3).then_some(()),
    );
    let done = count(&jobs(), "team-a", is_done);
    assert!(done < MANY / 2, "{done} of {MANY} came first");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_daemon_that_is_restarted_all_the_time_goes_on() {
    let mut site = Site::new();
    // Longer than each life, so that what an earlier one saw has to count.
    site.set("INTAKE_SETTLE_MS", "4000");
    drop_model(&site, "net.onnx", "one");
    let result = site.outbox().join("net");
    let begun = Instant::now();
    let mut lives = 0;
    while !result.is_dir() {
        let daemon = site.start();
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(daemon.stop().code(), Some(0), "{}", site.log());
        lives += 1;
        assert!(lives < 30, "no result after {:?}\n{}", begun.elapsed(), site.log());
    }
    assert!(lives > 1, "one life was long enough");
}

#[test]
fn a_stop_that_comes_early_ends_the_start_in_order() {
    let mut site = Site::new();
    site.set("LOG_LEVEL", "info");
    let jobs = site.state().join("jobs");
    for _ in 0..5 {
        let mut daemon = site.spawn();
        wait("the first folder", || jobs.is_dir().then_some(()));
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.ended().code(), Some(0), "{}", site.log());
        fs::remove_dir_all(site.state()).unwrap();
    }
    assert!(!site.log().contains("ready"), "no stop came early: {}", site.log());
}

#[test]
fn a_file_that_ends_the_process_takes_no_other_answer_with_it() {
    let site = hostile_site();
    const FILES: usize = 10;
    let staged = site.at("staged");
    fs::create_dir_all(&staged).unwrap();
    for n in 0..FILES {
        let text = if n == 3 { "abort".to_owned() } else { format!("good {n}") };
        fs::write(staged.join(format!("net{n}.crash")), text).unwrap();
    }
    fs::rename(&staged, site.inbox().join("team")).unwrap();
    let daemon = site.start();
    let jobs = wait_or(
        "all jobs to fail",
        || site.log(),
        || {
            let jobs = site.jobs();
            let failed = jobs.iter().filter(|job| job["state"] == "failed").count();
            (failed == FILES).then_some(jobs)
        },
    );
    for job in jobs {
        let name = job["name"].as_str().unwrap();
        let shown = site.ask(&format!(r#"{{"do":"jobs.show","job":{}}}"#, job["job"]));
        let said = shown["job"]["diagnostics"].to_string();
        let code = if name == "net3" { "N0401" } else { "it is only asked about" };
        assert!(said.contains(code), "{name}: {said}");
    }
    assert_eq!(daemon.stop().code(), Some(0));
}
