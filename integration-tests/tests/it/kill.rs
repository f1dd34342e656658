//! The daemon is killed at random moments while drops arrive: each drop ends in exactly one
//! published result, and nothing is lost or left behind.

use crate::site::{self, Daemon, Site, names, report, wait};
use onnxd_integration_tests::write_small_model;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

const KILLS: u32 = 50;
/// After so many in a row all jobs are finished, and the time to a result is taken anew: other tests
/// make the machine slower and faster. No job is started so often that it looks like one that kills daemons.
const KILLS_IN_A_ROW: u32 = 8;
/// Longest life of a daemon, in times from its start to a result: most jobs need several lives.
const LIFE_MAX: f64 = 2.5;

/// Numbers that differ from run to run; the first one is printed so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let given = std::env::var("KILL_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or(u64::from(now.subsec_nanos()));
        println!("KILL_SEED={seed}");
        Random(seed)
    }

    /// Between 0 and 1.
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((self.0 >> 33) as u32) / f64::from(u32::MAX >> 1)
    }
}

/// A drop of its own kind: a file that is moved in, a file that is written, or a folder.
fn drop_one(site: &Site, n: u32) {
    let name = format!("net{n:03}");
    let staged = site.at("staged.onnx");
    match n % 3 {
        0 => {
            write_small_model(&staged, &name);
            fs::rename(&staged, site.inbox().join(format!("{name}.onnx"))).unwrap();
        }
        1 => write_small_model(&site.inbox().join(format!("{name}.onnx")), &name),
        _ => {
            let folder = site.inbox().join("team").join(&name);
            fs::create_dir_all(&folder).unwrap();
            write_small_model(&folder.join("model.onnx"), &name);
            fs::write(folder.join("notes.txt"), &name).unwrap();
        }
    }
}

/// Time from the start of the daemon to a result.
fn time_to_result(site: &Site, n: u32) -> Duration {
    drop_one(site, n);
    let begin = Instant::now();
    let daemon = site.spawn();
    let results = ["", "team"].map(|folder| site.outbox().join(folder).join(format!("net{n:03}")));
    wait("a result", || results.iter().any(|result| result.is_dir()).then_some(()));
    let taken = begin.elapsed();
    daemon.kill();
    taken
}

/// A daemon that has finished the jobs of all drops.
fn finished(site: &Site, drops: u32) -> Daemon {
    let daemon = site.start();
    wait("all jobs to be finished", || {
        let jobs = site.jobs();
        let done = jobs.len() >= drops as usize && jobs.iter().all(|j| j["state"] == "succeeded");
        let bad = jobs.iter().find(|j| j["state"] == "failed" || j["state"] == "quarantined");
        assert!(bad.is_none(), "{bad:?}\n{}", site.log());
        done.then_some(())
    });
    daemon
}

#[test]
fn fifty_kills_lose_and_double_nothing() {
    let mut site = Site::new();
    site.set("INTAKE_SETTLE_MS", "10");
    site.set("WORKER_PARALLEL_MAX", "2");
    site.set("LOG_LEVEL", "info");
    let mut random = Random::new();
    // The first start also inspects the plugins; the second one is as the others.
    time_to_result(&site, 0);
    let mut usual = time_to_result(&site, 1);
    let mut drops = 2;
    for kill in 0..KILLS {
        if kill > 0 && kill % KILLS_IN_A_ROW == 0 {
            finished(&site, drops).kill();
            usual = time_to_result(&site, drops);
            drops += 1;
        }
        let daemon = site.spawn();
        let life = usual.mul_f64(LIFE_MAX * random.next());
        let arrival = life.mul_f64(random.next());
        std::thread::sleep(arrival);
        drop_one(&site, drops);
        drops += 1;
        std::thread::sleep(life.saturating_sub(arrival));
        daemon.kill();
    }
    assert_eq!(finished(&site, drops).stop().code(), Some(0));

    let mut results = BTreeMap::new();
    for folder in ["outbox", "outbox/team"] {
        for name in site.names(folder).into_iter().filter(|n| n != "team") {
            let report = report(&site.at(folder).join(&name));
            assert_eq!(report["verdict"], "succeeded", "{name}");
            *results.entry(report["name"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    let expected: BTreeMap<String, i32> = (0..drops).map(|n| (format!("net{n:03}"), 1)).collect();
    assert_eq!(results, expected, "{}", site.log());
    assert_eq!(site.names("inbox"), ["team"]);
    assert!(site.names("inbox/team").is_empty());
    assert!(site.names("failed").is_empty());
    assert!(site.names("state/orphans").is_empty());
    let done = site.names("done").len() - 1 + site.names("done/team").len();
    assert_eq!(done, drops as usize, "every original is in `done` once");
    // Folders are removed after their jobs were packed, also of those that a kill came between.
    let daemon = site.start();
    wait("all jobs to be packed", || names(&site.state().join("jobs")).is_empty().then_some(()));
    daemon.stop();
}

/// The preset is gone when the next daemon goes on with the job, and what it led to is still told.
#[test]
fn notes_on_params_outlive_the_daemon() {
    let site = Site::new();
    let preset = site.inbox().join("team/onnxd.params.toml");
    fs::create_dir_all(site.inbox().join("team")).unwrap();
    let text = "[quantization]\nformat = \"inc-qdq\"\nmode = \"dynamic\"\ninc.opset_version = 11\n";
    fs::write(&preset, text).unwrap();
    let daemon = site.start();
    site::drop_model(&site, "team/a.onnx", "a");
    wait("the job to be ready to start", || {
        let jobs = site.jobs();
        jobs.iter().any(|j| j["state"] != "claiming" && j["state"] != "claimed").then_some(())
    });
    daemon.kill();
    fs::remove_file(&preset).unwrap();
    let daemon = site.start();
    wait("the result", || site.outbox().join("team/a/report.json").is_file().then_some(()));
    let report = report(&site.outbox().join("team/a"));
    let told = report["diagnostics"].to_string();
    assert!(told.contains("team/onnxd.params.toml:") && told.contains("is raised to 13"), "{told}");
    assert_eq!(daemon.stop().code(), Some(0));
}
