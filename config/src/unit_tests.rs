//! Checks of the systemd unit and the snippets beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Environment, load};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd")
}

fn values(key: &str) -> Vec<String> {
    let unit = std::fs::read_to_string(folder().join("onnxd.service")).unwrap();
    let of_key = |l: &str| l.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
    unit.lines().filter_map(of_key).collect()
}

fn seconds(key: &str) -> u64 {
    values(key)[0].parse().unwrap()
}

#[test]
fn the_unit_leaves_time_to_drain() {
    let settings = load(None, &Environment::default(), &[]).unwrap().settings;
    assert!(seconds("TimeoutStopSec") > settings.jobs.drain_timeout_s + 10);
    assert_eq!(seconds("WatchdogSec"), 30);
    assert_eq!(values("KillMode"), ["mixed"]);
    assert_eq!(values("Type"), ["notify"]);
}

#[test]
fn the_unit_leaves_memory_to_the_machine() {
    assert_eq!(values("MemoryMax"), ["90%"]);
    // A worker that the kernel ends is one failed attempt, not the end of the daemon.
    assert_eq!(values("OOMPolicy"), ["continue"]);
}

#[test]
fn the_unit_lets_workers_confine_themselves() {
    let filter = values("SystemCallFilter").join(" ");
    for call in
        ["seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"]
    {
        assert!(filter.split_whitespace().any(|word| word == call), "{call}");
    }
    assert!(filter.starts_with("@system-service ~@privileged @resources"), "{filter}");
}

/// Workers lower their own limits by one call, which must not be in the group that the unit denies.
#[test]
fn the_unit_lets_workers_lower_their_limits() {
    for (group, expected) in [("@default", true), ("@resources", false)] {
        let run = Command::new("systemd-analyze").args(["syscall-filter", group]).output();
        let Ok(output) = run else {
            eprintln!("not checked: systemd-analyze cannot be run");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.lines().any(|line| line.trim() == "prlimit64");
        assert_eq!(found, expected, "{group}: {text}");
    }
}

/// The daemon divides its own cgroup; all others stay read-only.
#[test]
fn the_unit_delegates_its_own_cgroup_alone() {
    assert_eq!(values("Delegate"), ["memory pids"]);
    assert_eq!(values("ProtectControlGroups"), ["yes"]);
    assert_eq!(values("ReadWritePaths"), ["-/sys/fs/cgroup/system.slice/%n"]);
    assert_eq!(values("RestrictNamespaces"), ["yes"]);
}

/// Runs where systemd's own checker is installed; elsewhere says so.
#[test]
fn systemd_rates_the_unit_as_safe() {
    let tenths_max = 4;
    let run = Command::new("systemd-analyze")
        .args(["security", "--offline=true", &format!("--threshold={tenths_max}")])
        .arg(folder().join("onnxd.service"))
        .output();
    match run {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "exposure above {tenths_max} tenths\n{text}");
        }
        Err(why) => eprintln!("not checked: systemd-analyze cannot be run: {why}"),
    }
}
