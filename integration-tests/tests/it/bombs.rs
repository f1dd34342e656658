//! Plugins whose short messages take much memory: each costs an attempt, the daemon stays small, no other job waits.

use crate::site::{drop_hostile, drop_model, hostile_site};
use onnxd_proto::footprint::DECODED_BYTES_MAX;

/// What the daemon may take while it refuses messages: its own few MiB, and the messages as they came.
const REFUSING_BYTES_MAX: u64 = 128 << 20;
/// While it takes the largest message: what that takes decoded, for its report, and for the texts of it.
const TAKING_BYTES_MAX: u64 = 5 * DECODED_BYTES_MAX as u64;
/// Jobs that come while a bomb goes off.
const JOBS: usize = 3;

/// Lets passes send their messages, with other jobs between; the most memory that the daemon took.
fn peak_beside(passes: &[(&str, &str, &str)]) -> u64 {
    let mut site = hostile_site();
    site.set("WORKER_PARALLEL_MAX", "2");
    let daemon = site.start();
    for (pass, state, code) in passes {
        drop_hostile(&site, pass, pass);
        for n in 0..JOBS {
            let name = format!("{pass}-{n}");
            drop_model(&site, &format!("{name}.onnx"), &name);
            site.wait_for(&name, "succeeded");
        }
        let job = site.wait_for(pass, state);
        if !code.is_empty() {
            let text = site.run(&["jobs", "show", job["job"].as_str().unwrap()]).1;
            assert!(text.contains(code), "{pass}: {text}");
            assert!(text.contains("plugin org.onnxd.hostile"), "{pass}: {text}");
        }
    }
    let peak = daemon.peak_bytes();
    eprintln!("{} MiB at most", peak >> 20);
    assert!(daemon.stop().success());
    peak
}

#[test]
fn a_message_that_grows_in_memory_costs_one_job() {
    let peak = peak_beside(&[
        ("bomb-failure", "quarantined", "N0406"),
        ("bomb-result", "quarantined", "N0406"),
    ]);
    assert!(peak < REFUSING_BYTES_MAX, "{peak} bytes");
}

#[test]
fn the_largest_messages_that_are_taken_cost_little() {
    let peak = peak_beside(&[
        ("full-result", "failed", ""),
        ("full-text", "failed", ""),
        ("bomb-stage", "quarantined", ""),
    ]);
    assert!(peak < TAKING_BYTES_MAX, "{peak} bytes");
}

#[test]
fn a_closed_link_is_called_so() {
    let site = hostile_site();
    let daemon = site.start();
    drop_hostile(&site, "closes", "close-link");
    site.wait_for("closes", "quarantined");
    let job = site.jobs_named("closes").remove(0);
    let text = site.run(&["jobs", "show", job["job"].as_str().unwrap()]).1;
    assert!(text.contains("N0406"), "{text}");
    assert!(text.contains("it closed its link to onnxd without an answer"), "{text}");
    assert!(!text.contains("memory"), "{text}");
    assert!(daemon.stop().success());
}
