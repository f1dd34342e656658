//! Finished jobs at rest are packed: their folders go, and all that people ask about them stays.

use crate::site::{Site, drop_model, names, wait};
use serde_json::Value;
use std::fs;

/// Waits until no job has a folder.
fn wait_until_packed(site: &Site) {
    wait("finished jobs to be packed", || {
        names(&site.state().join("jobs")).is_empty().then_some(())
    });
}

fn list(site: &Site, args: &[&str]) -> Value {
    let (status, stdout, stderr) = site.run(&[&["jobs", "list", "--json"], args].concat());
    assert_eq!(status, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn packed_jobs_are_shown_reported_and_tried_again() {
    let site = Site::new();
    let daemon = site.start();
    for name in ["a", "b", "c"] {
        drop_model(&site, &format!("{name}.onnx"), name);
        site.wait_for(name, "succeeded");
    }
    fs::write(site.inbox().join("bad.onnx"), "no model").unwrap();
    let bad = site.wait_for("bad", "failed")["job"].as_str().unwrap().to_owned();
    let shown = |job: &str| site.ask(&format!(r#"{{"do":"jobs.show","job":"{job}"}}"#));
    let before: Vec<Value> =
        site.jobs().iter().map(|job| shown(job["job"].as_str().unwrap())).collect();
    let (_, report, _) = site.run(&["report", &bad, "--json"]);
    wait_until_packed(&site);
    fs::remove_dir_all(site.outbox().join("a")).unwrap();

    // Another start reads the packs; a kill leaves nothing but them.
    daemon.kill();
    let daemon = site.start();
    let after: Vec<Value> =
        site.jobs().iter().map(|job| shown(job["job"].as_str().unwrap())).collect();
    assert_eq!(after, before);
    let a = site.jobs_named("a")[0]["job"].as_str().unwrap().to_owned();
    for job in [&a, &a[..12]] {
        let (status, text, stderr) = site.run(&["report", job]);
        assert!(status == 0 && text.contains(&a), "{status} {stderr}");
    }
    // The result of a packed job answers its copy.
    drop_model(&site, "team/b.onnx", "b");
    wait("the copy to be a duplicate", || {
        site.jobs_named("team").iter().any(|job| job["state"] == "duplicate").then_some(())
    });

    let (status, _, stderr) = site.run(&["jobs", "retry", &bad]);
    assert_eq!(status, 0, "{stderr}");
    wait("the failed job to fail again", || {
        let job = shown(&bad);
        let events = job["job"]["events"].as_array()?;
        let asked = events.iter().position(|e| e["reason"] == "retry asked")?;
        events[asked..].iter().any(|e| e["to"] == "failed").then_some(())
    });
    wait_until_packed(&site);
    let failed = site.at("failed").join(format!("bad.{bad}"));
    assert!(failed.join("bad.onnx").is_file(), "{:?}", names(&failed));
    let (_, again, _) = site.run(&["report", &bad, "--json"]);
    let verdict = |text: &str| serde_json::from_str::<Value>(text).unwrap()["diagnostics"].clone();
    assert_eq!(verdict(&again), verdict(&report));
    daemon.stop();
}

#[test]
fn lists_of_any_length_come_in_pages() {
    let site = Site::new();
    let daemon = site.start();
    for name in ["a", "b", "c", "d", "e"] {
        drop_model(&site, &format!("{name}.onnx"), name);
    }
    wait("five results", || {
        let done = site.jobs().iter().filter(|job| job["state"] == "succeeded").count();
        (done == 5).then_some(())
    });
    wait_until_packed(&site);
    let all = list(&site, &["--all"]);
    assert_eq!(all["total"], 5);
    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = site.ask(&format!(r#"{{"do":"jobs.list","limit":2{after}}}"#));
        assert_eq!(page["total"], 5);
        paged.extend(page["jobs"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!(r#","after":"{next}""#);
    }
    assert_eq!(Value::from(paged), all["jobs"]);
    assert_eq!(list(&site, &["--limit", "2"])["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(list(&site, &["--state", "failed"])["jobs"], Value::Array(Vec::new()));
    let (_, text, _) = site.run(&["jobs", "list", "--limit", "2"]);
    assert!(text.ends_with("2 of 5 jobs\n"), "{text}");
    daemon.stop();
}
