//! Plugins that speak without end, on a real daemon: its log stays small, and other jobs do not wait.

use crate::site::{drop_hostile, drop_model, hostile_site, wait};
use serde_json::Value;

/// What the daemon's log may grow by: the lines of one attempt, and its own of these few jobs.
const LOG_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Jobs that come while one floods.
const JOBS: usize = 5;

/// Others are converted while a pass floods, and the log stays bounded. The log.
fn others_go_on_beside(pass: &str) -> String {
    let mut site = hostile_site();
    site.set("WORKER_PARALLEL_MAX", "2");
    site.set("LOG_LEVEL", "info");
    let daemon = site.start();
    drop_hostile(&site, "floods", pass);
    let job = site.wait_for("floods", "running");
    wait("the flood to begin", || {
        let status = site.ask(r#"{"do":"status"}"#);
        let running = status["running"].as_array().unwrap().clone();
        let stage = |r: &Value| r["stage"].as_str().unwrap_or_default().to_owned();
        let begun =
            site.log().contains("xxxx") || running.iter().any(|r| stage(r).contains("stage "));
        begun.then_some(())
    });
    for n in 0..JOBS {
        let name = format!("next{n}");
        drop_model(&site, &format!("{name}.onnx"), &name);
        site.wait_for(&name, "succeeded");
    }
    assert_eq!(site.jobs_named("floods")[0]["state"], "running", "it floods without end");
    let id = job["job"].as_str().unwrap();
    let (status, _, stderr) = site.run(&["jobs", "cancel", id]);
    assert_eq!(status, 0, "{stderr}");
    wait("the worker to be gone", || {
        let status = site.ask(r#"{"do":"status"}"#);
        status["running"].as_array().unwrap().is_empty().then_some(())
    });
    assert!(daemon.stop().success());
    let log = site.log();
    eprintln!("{pass}: {} bytes, {} lines of log", log.len(), log.lines().count());
    assert!(log.len() < LOG_BYTES_MAX, "{} bytes of log", log.len());
    log
}

#[test]
fn a_flood_of_lines_leaves_log_and_other_jobs_alone() {
    let log = others_go_on_beside("flood-log");
    assert!(log.contains("of this worker's log were dropped"), "{log}");
}

#[test]
fn a_flood_of_stages_leaves_log_and_other_jobs_alone() {
    let log = others_go_on_beside("flood-stages");
    assert!(log.lines().count() < 200, "{log}");
}
