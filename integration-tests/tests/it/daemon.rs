//! The daemon as people and scripts meet it: duplicates, failures, control, shutdown, bad plugins.

use crate::site::{self, Daemon, Site, drop_hostile, drop_model, hostile_site, report};
use onnxd_integration_tests::write_small_model;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::fs;
use std::io::Read;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

fn id(job: &serde_json::Value) -> String {
    job["job"].as_str().unwrap().to_owned()
}

fn receipt(folder: &Path) -> String {
    site::wait("the receipt", || fs::read_to_string(folder.join("receipt.txt")).ok())
}

fn stop(daemon: Daemon) {
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn the_same_drop_is_answered_at_once() {
    let site = Site::new();
    let daemon = site.start();
    drop_model(&site, "net.onnx", "one");
    let first = id(&site.wait_for("net", "succeeded"));

    // The same bytes under the same name: nothing is converted, the originals get a receipt.
    drop_model(&site, "net.onnx", "one");
    let second = site::wait("the duplicate", || {
        site.jobs_named("net").into_iter().find(|j| j["state"] == "duplicate")
    });
    assert_eq!(second["duplicate_of"], first);
    assert_eq!(second["attempts"], 0);
    let done = site.at("done").join(format!("net.{}", id(&second)));
    assert!(receipt(&done).contains(&format!("duplicate of job {first}")));
    assert_eq!(site.names("outbox"), ["net"]);

    // A folder that holds the same: the result appears under its name too.
    drop_model(&site, "bob/net.onnx", "one");
    let bob = site.at("outbox/bob");
    site::wait("the second result", || bob.is_dir().then_some(()));
    assert!(receipt(&bob).contains(&format!("duplicate of job {first}")));
    assert_eq!(report(&bob)["job"], first);
    assert!(bob.join("model.onnx").is_file());
    assert_eq!(site.wait_for("bob", "duplicate")["published"], bob.display().to_string());
    assert!(!receipt(&site.at("outbox/net")).contains("duplicate"), "the first one is as it was");

    // Another content under the same name is a new job, and replaces nothing.
    drop_model(&site, "net.onnx", "two");
    let third = site::wait("the new job", || {
        let jobs = site.jobs_named("net").into_iter();
        jobs.filter(|j| j["state"] == "succeeded").find(|j| id(j) != first)
    });
    assert_eq!(site.names("outbox"), ["bob", "net", &format!("net.{}", id(&third))]);
    stop(daemon);
}

#[test]
fn a_bad_drop_leaves_the_inbox_with_its_reason() {
    let site = Site::new();
    let daemon = site.start();
    fs::write(site.inbox().join("broken.onnx"), b"\x08\x08\x12\x7fno protobuf").unwrap();
    let job = id(&site.wait_for("broken", "failed"));
    let failed = site.at("failed").join(format!("broken.{job}"));
    let text = receipt(&failed);
    assert!(text.contains(&format!("job: {job}")) && text.contains("failed"), "{text}");
    assert!(text.lines().count() <= 10, "{text}");
    assert_eq!(report(&failed)["verdict"], "failed");
    assert_eq!(report(&failed)["job"], job);
    assert!(failed.join("broken.onnx").is_file() && failed.join("report.html").is_file());
    assert!(site.names("inbox").is_empty() && site.names("outbox").is_empty());

    // Wrong params are told in the same way.
    fs::create_dir(site.at("typo")).unwrap();
    write_small_model(&site.at("typo/net.onnx"), "typo");
    fs::write(site.at("typo/params.toml"), "[export]\nopsett = 17\n").unwrap();
    fs::rename(site.at("typo"), site.inbox().join("typo")).unwrap();
    let typo = id(&site.wait_for("typo", "failed"));
    let text = receipt(&site.at("failed").join(format!("typo.{typo}")));
    assert!(text.contains("N0104") && text.contains("opset"), "{text}");

    // Tried again, it fails again; nothing is lost on the way.
    let (status, _, stderr) = site.run(&["jobs", "retry", &job]);
    assert_eq!(status, 0, "{stderr}");
    site::wait("the second failure", || {
        let shown = site.ask(&format!(r#"{{"do":"jobs.show","job":"{job}"}}"#));
        let retried =
            shown["job"]["events"].as_array()?.iter().any(|e| e["reason"] == "retry asked");
        (retried && shown["job"]["state"] == "failed").then_some(())
    });
    receipt(&failed);
    assert!(failed.join("broken.onnx").is_file());
    stop(daemon);
}

#[test]
fn control_over_the_socket() {
    let site = Site::new();
    let (status, _, stderr) = site.run(&["ctl", "health"]);
    assert_eq!(status, 75, "{stderr}");
    assert!(stderr.contains("N0307"), "{stderr}");
    let daemon = site.start();

    let (status, stdout, _) = site.run(&["ctl", "health", "--json"]);
    assert_eq!(status, 0, "{stdout}");
    assert_eq!(site.run(&["ctl", "pause"]).0, 0);
    assert_eq!(site.run(&["ctl", "health"]).0, 1, "a paused daemon is not all well");
    drop_model(&site, "net.onnx", "one");
    let why = site.wait_for_drop("net.onnx", "blocked");
    assert!(why.contains("paused by"), "{why}");
    assert!(site.jobs().is_empty());
    assert_eq!(site.run(&["ctl", "resume"]).0, 0);
    let job = id(&site.wait_for("net", "succeeded"));

    let (_, stdout, _) = site.run(&["jobs", "list"]);
    assert!(stdout.contains(&job[..10]) && stdout.contains("succeeded"), "{stdout}");
    let (_, stdout, _) = site.run(&["jobs", "show", &job, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let states: Vec<&str> = shown["job"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["to"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["claimed", "queued", "running", "publishing", "succeeded"]);
    assert_eq!(shown["job"]["files"][0]["sha256"].as_str().unwrap().len(), 64);

    for (line, code) in [
        (format!(r#"{{"do":"jobs.retry","job":"{job}"}}"#), "N0704"),
        (format!(r#"{{"do":"jobs.cancel","job":"{job}"}}"#), "N0704"),
        (r#"{"do":"jobs.show","job":"../../etc"}"#.into(), "N0704"),
        (r#"{"do":"jobs.list","state":"tired"}"#.into(), "N0704"),
        ("nonsense".into(), "N0704"),
        ("x".repeat(100_000), "N0704"),
    ] {
        let answer = site.ask(&line);
        assert_eq!((&answer["ok"], &answer["diagnostic"]["code"]), (&false.into(), &code.into()));
    }
    let status = site.ask(r#"{"do":"status"}"#);
    assert_eq!(status["jobs"]["succeeded"], 1, "{status}");
    stop(daemon);
    assert!(!site.state().join("control.sock").exists());
}

#[test]
fn reload_changes_what_it_can_and_refuses_what_is_wrong() {
    let site = Site::new();
    let config = site.at("onnxd.toml");
    fs::write(&config, "[worker]\nparallel_max = 1\n").unwrap();
    let log = fs::File::create(site.at("log")).unwrap();
    let file = config.display().to_string();
    let mut child = site.onnxd(&["run", "--config", &file]).stderr(log).spawn().unwrap();
    site::wait("the daemon to answer", || site.try_ask(r#"{"do":"status"}"#));

    fs::write(&config, "[worker]\nparallel_max = 3\n[log]\nformat = \"json\"\n").unwrap();
    let (status, stdout, stderr) = site.run(&["ctl", "reload", "--json"]);
    assert_eq!(status, 0, "{stderr}");
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(answer["applied"].as_array().unwrap().contains(&"worker.parallel_max".into()));
    assert_eq!(answer["needs_restart"], serde_json::json!(["log.format"]));

    fs::write(&config, "[worker]\nparalel_max = 3\n").unwrap();
    let (status, _, stderr) = site.run(&["ctl", "reload", "--socket", &socket(&site)]);
    assert_eq!(status, 78, "{stderr}");
    assert!(stderr.contains("parallel_max"), "{stderr}");
    drop_model(&site, "net.onnx", "one");
    site.wait_for("net", "succeeded");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn socket(site: &Site) -> String {
    site.state().join("control.sock").display().to_string()
}

#[test]
fn two_daemons_do_not_share_a_state_folder() {
    let site = Site::new();
    let daemon = site.start();
    let (status, _, stderr) = site.run(&["run"]);
    assert_eq!(status, 75, "{stderr}");
    assert!(stderr.contains("N0306"), "{stderr}");
    // The first one is not disturbed, not even its socket.
    drop_model(&site, "net.onnx", "one");
    site.wait_for("net", "succeeded");
    stop(daemon);
}

#[test]
fn one_inbox_has_one_daemon_at_a_time() {
    let (site, mut other) = (Site::new(), Site::new());
    other.set("INTAKE_INBOX", &site.inbox().display().to_string());
    let first = site.start();
    drop_model(&site, "early.onnx", "early");
    site.wait_for("early", "succeeded");
    let second = other.start();
    site::wait("the second one to say why it waits", || {
        other.run(&["ctl", "health"]).1.contains("another onnxd").then_some(())
    });
    for n in 0..12 {
        drop_model(&site, &format!("net{n}.onnx"), &format!("{n}"));
    }
    (0..12).for_each(|n| drop(site.wait_for(&format!("net{n}"), "succeeded")));
    assert!(other.jobs().is_empty(), "no other daemon's drops");
    let mut third = Site::new();
    third.set("INTAKE_INBOX", &site.inbox().display().to_string());
    assert_eq!(
        third.run(&["once"]).0,
        75,
        "it does not wait for ever, and does not say that all is done"
    );
    stop(first);
    drop_model(&site, "late.onnx", "late");
    other.wait_for("late", "succeeded");
    assert_eq!(other.run(&["ctl", "health"]).0, 0);
    stop(second);
}

#[test]
fn once_finishes_what_lies_there() {
    let site = Site::new();
    drop_model(&site, "net.onnx", "one");
    drop_model(&site, "bob/net.onnx", "two");
    let (status, _, stderr) = site.run(&["once"]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(site.names("outbox"), ["bob", "net"]);
    assert_eq!(site.names("done").len(), 2);
    let (status, _, stderr) = site.run(&["once"]);
    assert_eq!(status, 0, "nothing to do: {stderr}");
    fs::write(site.inbox().join("bad.onnx"), "bad").unwrap();
    let (status, _, stderr) = site.run(&["once"]);
    assert_eq!(status, 1, "{stderr}");
    assert_eq!(site.names("failed").len(), 1);
}

#[test]
fn a_shutdown_gives_running_jobs_back() {
    let mut site = hostile_site();
    site.set("JOBS_DRAIN_TIMEOUT_S", "1");
    let daemon = site.start();
    drop_hostile(&site, "stuck", "hang");
    site.wait_for("stuck", "running");
    stop(daemon);

    let mut daemon = site.start();
    let job = site.wait_for("stuck", "running");
    assert_eq!(job["attempts"], 1, "the attempt that was given back does not count");
    let job = id(&job);
    let (status, _, stderr) = site.run(&["jobs", "cancel", &job]);
    assert_eq!(status, 0, "{stderr}");
    let failed = site.at("failed").join(format!("stuck.{job}"));
    assert!(receipt(&failed).contains("cancelled"), "{}", receipt(&failed));
    assert!(failed.join("model.onnx").is_file());
    assert_eq!(site.wait_for("stuck", "cancelled")["stage"], "");
    daemon.signal(Signal::INT);
    assert_eq!(daemon.ended().code(), Some(0));
}

#[test]
fn a_crashing_plugin_costs_its_own_jobs_only() {
    let mut site = hostile_site();
    site.set("WORKER_TIMEOUT_S", "2");
    let daemon = site.start();
    for (name, pass) in [("panics", "panic"), ("crashes", "segfault"), ("hangs", "hang")] {
        drop_hostile(&site, name, pass);
    }
    drop_model(&site, "good.onnx", "good");
    site.wait_for("good", "succeeded");
    for (name, pass) in [("crashes", "segfault"), ("hangs", "hang")] {
        // A crash may be an accident, so it is tried a second time.
        let job = id(&site.wait_for(name, "quarantined"));
        let shown = site.ask(&format!(r#"{{"do":"jobs.show","job":"{job}"}}"#));
        let why = shown["job"]["diagnostics"][0]["message"].as_str().unwrap();
        assert!(why.contains("hostile") && why.contains(pass), "{why}");
        assert_eq!(shown["job"]["attempts"], 2);
        assert!(site.state().join("jobs").join(&job).join("input/model.onnx").is_file());
    }
    let job = id(&site.wait_for("panics", "failed"));
    assert!(receipt(&site.at("failed").join(format!("panics.{job}"))).contains("panic"));
    drop_model(&site, "after.onnx", "after");
    site.wait_for("after", "succeeded");
    stop(daemon);
}

#[test]
fn a_front_end_that_hangs_keeps_its_own_drops_only() {
    let site = hostile_site();
    let daemon = site.start();
    fs::write(site.at("alone.hang"), "no end").unwrap();
    let (file, out) = (site.at("alone.hang"), site.at("alone"));
    let args = ["convert", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut convert = site.onnxd(&args).stderr(std::process::Stdio::piped()).spawn().unwrap();
    for name in ["one.hang", "two.hang"] {
        fs::write(site.inbox().join(name), name).unwrap();
        site.wait_for_drop(name, "asked");
    }
    drop_model(&site, "good.onnx", "good");
    site.wait_for("good", "succeeded");
    for name in ["one.hang", "two.hang"] {
        site.wait_for_drop(name, "asked");
    }
    // The truth about its own drops: which plugin, and what it did.
    for name in ["one", "two"] {
        let job = id(&site.wait_for(name, "failed"));
        let text = receipt(&site.at("failed").join(format!("{name}.{job}")));
        assert!(text.contains("N0405") && text.contains("component hang-probe"), "{text}");
        assert!(text.contains("stage `probe`"), "{text}");
    }
    // It hung twice: no probe waits for it any more.
    let (status, stdout, _) = site.run(&["ctl", "health"]);
    assert!(status == 1 && stdout.contains("`hang-probe` of org.onnxd.hostile hung"), "{stdout}");
    fs::write(site.inbox().join("three.hang"), "three").unwrap();
    let why = site.wait_for_drop("three.hang", "blocked");
    assert!(why.contains("not asked any more"), "{why}");
    let mut stderr = String::new();
    convert.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(convert.wait().unwrap().code(), Some(4), "{stderr}");
    assert!(stderr.contains("hang-probe, in stage `probe`: it did not end"), "{stderr}");
    stop(daemon);
}

/// The answer that the drop was found with holds for the conversion: the worker loads no other front-end's library.
#[test]
fn front_ends_are_asked_once() {
    let site = hostile_site();
    let daemon = site.start();
    drop_model(&site, "net.onnx", "net");
    site.wait_for("net", "succeeded");
    let report = site::report(&site.at("outbox/net"));
    assert_eq!(report["recognition"]["frontend"], "onnx");
    let declined = report["recognition"]["declined"].to_string();
    assert!(declined.contains("bad-probe") && declined.contains("panic"), "{declined}");
    let loaded = report["versions"]["plugins"].to_string();
    assert!(loaded.contains("frontend-onnx") && !loaded.contains("hostile"), "{loaded}");
    stop(daemon);
}

/// Whatever is in the way of a result: it keeps its job, its only attempt and its name.
#[test]
fn a_result_waits_for_its_place_in_the_outbox() {
    let site = Site::new();
    let daemon = site.start();
    for folder in ["team", "other"] {
        fs::write(site.outbox().join(folder), "no folder").unwrap();
        drop_model(&site, &format!("{folder}/{folder}-net/model.onnx"), folder);
        site.wait_for(&format!("{folder}-net"), "publishing");
    }
    let health = || site.run(&["ctl", "health"]).1;
    site::wait("health to say so", || {
        health().contains("2 results wait for the outbox").then_some(())
    });
    drop_model(&site, "net.onnx", "one");
    site.wait_for("net", "succeeded");
    let (status, _, stderr) = site.run(&["jobs", "cancel", &id(&site.jobs_named("other-net")[0])]);
    assert_eq!(status, 0, "{stderr}");
    fs::remove_file(site.outbox().join("team")).unwrap();
    let job = site.wait_for("team-net", "succeeded");
    assert_eq!(job["attempts"], 1);
    assert!(site.at("outbox/team/team-net/model.onnx").is_file());
    site.wait_for("other-net", "cancelled");
    let (status, said, _) = site.run(&["ctl", "health"]);
    assert_eq!(status, 0, "{said}");
    stop(daemon);
}

#[test]
fn too_little_space_pauses_visibly() {
    let mut site = Site::new();
    site.set("JOBS_MIN_FREE_MIB", "1000000000");
    let daemon = site.start();
    drop_model(&site, "net.onnx", "one");
    let why = site.wait_for_drop("net.onnx", "blocked");
    assert!(why.contains("MiB free") && why.contains("jobs.min_free_mib"), "{why}");
    assert_eq!(site.run(&["ctl", "health"]).0, 1);
    assert!(site.jobs().is_empty());
    stop(daemon);
    let (status, _, stderr) = site.run(&["once"]);
    assert_eq!(status, 75, "it does not wait for space for ever: {stderr}");
    assert!(stderr.contains("left blocked: net.onnx"), "{stderr}");
    assert_eq!(site.names("inbox"), ["net.onnx"]);
}

#[test]
fn old_jobs_are_forgotten_with_their_folders() {
    let mut site = Site::new();
    let daemon = site.start();
    for name in ["a", "b", "c"] {
        drop_model(&site, &format!("{name}.onnx"), name);
        site.wait_for(name, "succeeded");
    }
    stop(daemon);
    fs::create_dir_all(site.state().join("jobs/STRANGE/input")).unwrap();
    fs::write(site.state().join("jobs/STRANGE/input/file"), "whose?").unwrap();
    site.set("JOBS_RETAIN_MAX", "1");
    let daemon = site.start();
    site::wait("jobs to be forgotten", || (site.jobs().len() == 1).then_some(()));
    assert_eq!(site.jobs()[0]["name"], "c");
    site::wait("the folders to go", || site.names("state/jobs").is_empty().then_some(()));
    assert_eq!(site.names("outbox"), ["a", "b", "c"], "results are never touched");
    assert!(site.state().join("orphans/STRANGE/input/file").is_file(), "unknown files are kept");
    stop(daemon);
}

/// Lets this program have more files open, as far as the system permits. Tests that run at the same time share their
/// number, which is often 1024.
fn open_more_files() {
    const FILES: u64 = 4_096;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < FILES) {
        let most = limit.maximum.map_or(FILES, |most| most.min(FILES));
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).unwrap();
    }
}

#[test]
fn many_connections_shut_nobody_out() {
    let site = Site::new();
    let daemon = site.start();
    // Only now, so that the daemon has the usual number.
    open_more_files();
    let connect = || UnixStream::connect(site.state().join("control.sock")).unwrap();
    let idle: Vec<UnixStream> = (0..1_000).map(|_| connect()).collect();
    let (status, stdout, stderr) = site.run(&["ctl", "health"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(site.jobs().is_empty());
    drop(idle);
    stop(daemon);
}

/// What systemd would hear on its notification socket.
#[test]
fn systemd_is_told() {
    let mut site = Site::new();
    let path = site.at("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    site.set_variable("NOTIFY_SOCKET", &path.display().to_string());
    site.set_variable("WATCHDOG_USEC", "200000");
    let mut daemon = site.spawn();
    let heard = |wanted: &str| {
        let mut all = String::new();
        while !all.lines().any(|line| line.starts_with(wanted)) {
            let mut buffer = [0; 4096];
            let n = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{wanted}: {e}: {all}"));
            all += &format!("{}\n", String::from_utf8_lossy(&buffer[..n]));
        }
        all
    };
    assert!(heard("READY=1").contains("EXTEND_TIMEOUT_USEC="));
    heard("WATCHDOG=1");
    drop_model(&site, "net.onnx", "one");
    heard("STATUS=1 running");
    heard("STATUS=0 running, 0 waiting, 0 failed");
    daemon.signal(Signal::TERM);
    heard("STOPPING=1");
    assert_eq!(daemon.ended().code(), Some(0));
}
