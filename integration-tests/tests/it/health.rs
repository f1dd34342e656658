//! What `onnxd ctl health` says where the daemon works in a lesser way.

use crate::site::{Site, drop_hostile, hostile_site, wait, wait_or};
use onnxd_integration_tests::outcome;
use std::process::{Command, Stdio};

#[test]
fn a_quarantined_job_is_a_warning() {
    let site = hostile_site();
    let daemon = site.start();
    drop_hostile(&site, "bad", "abort");
    site.wait_for("bad", "quarantined");
    let health = site.ask(r#"{"do":"health"}"#);
    assert_eq!(health["healthy"], true, "{health}");
    assert!(health["warnings"].to_string().contains("1 jobs are in quarantine"), "{health}");
    let (status, said, _) = site.run(&["ctl", "health"]);
    assert_eq!(status, 0);
    assert!(said.contains("quarantine"), "{said}");
    assert_eq!(daemon.stop().code(), Some(0));
}

/// The limits of a user namespace can be set without rights.
#[test]
fn a_daemon_without_events_warns_that_it_polls() {
    for (limit, named) in [
        ("max_inotify_instances", "max_user_instances"),
        ("max_inotify_watches", "max_user_watches"),
    ] {
        let namespace = |then: &str| {
            let mut run = Command::new("unshare");
            let limit = format!("echo 0 > /proc/sys/user/{limit} && {then}");
            run.arg("-Ur").args(["sh", "-c", &limit, "sh"]);
            run
        };
        let (status, why) = outcome(&namespace("true").output().unwrap());
        if status != 0 {
            eprintln!("SKIPPED: no limit can be set here: {why}");
            return;
        }
        let site = Site::new();
        let onnxd = site.onnxd(&["run"]);
        let mut run = namespace("exec \"$@\"");
        run.arg(onnxd.get_program()).args(onnxd.get_args());
        run.envs(onnxd.get_envs().filter_map(|(key, value)| Some((key, value?))));
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut daemon = run.spawn().unwrap();
        wait("the daemon to answer", || site.try_ask(r#"{"do":"status"}"#));
        let health = wait_or(
            "a warning",
            || site.log(),
            || {
                let health = site.try_ask(r#"{"do":"health"}"#)?;
                let warned = health["warnings"].as_array().is_some_and(|all| !all.is_empty());
                warned.then_some(health)
            },
        );
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(health["healthy"], true, "{health}");
        let warnings = health["warnings"].to_string();
        assert!(warnings.contains("polled") && warnings.contains(named), "{warnings}");
    }
}
