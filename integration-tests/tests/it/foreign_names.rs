//! Names and texts from outside forge no line and command no terminal, whatever prints or logs them.

use crate::site::{self, Site};
use onnxd_diagnostics::is_unsafe;
use onnxd_integration_tests::{command, small_model};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A line of a log, a command that clears a terminal in both spellings, and text that runs backwards.
const EVIL: &str = "x\n2026-01-01 INFO forged\u{1b}[2J\u{9b}2J\u{202e}";

fn assert_clean(what: &str, text: &str) {
    let unsafe_char = text.chars().find(|c| is_unsafe(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(unsafe_char, None, "{what}: {text:?}");
    let forged = text.lines().any(|line| line.trim_start().starts_with("2026-01-01 INFO forged"));
    assert!(!forged, "{what}: {text}");
}

/// A model with such a name, and such names inside.
fn write_evil(path: &Path) {
    let mut model = small_model();
    let values: Vec<_> = model.graph.outputs().to_vec();
    for value in values {
        model.graph[value].name = format!("{EVIL}y");
    }
    model.doc = EVIL.to_owned();
    write_model(&model, path, &WriteOptions::default()).unwrap();
}

#[test]
fn commands_escape_what_they_print() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("{EVIL}.onnx");
    write_evil(&folder.path().join(&name));
    fs::write(folder.path().join(format!("{EVIL}.so")), "no library").unwrap();
    fs::write(folder.path().join(format!("{EVIL}.toml")), format!("a{EVIL} = [")).unwrap();
    let (library, params) = (format!("{EVIL}.so"), format!("{EVIL}.toml"));
    let (out, set) = (format!("out{EVIL}"), format!("export.o{EVIL}=1"));
    let commands: &[&[&str]] = &[
        &["convert", &name, "--out", &out],
        &["convert", &name, "--out", &out, "--json"],
        &["convert", &name, "--out", &out, "--set", &set],
        &["convert", &name, "--out", &out, "--params", &params],
        &["convert", &name, "--out", &name],
        &["convert", EVIL, "--out", "other"],
        &["report", &out],
        &["report", &out, "--format", "html"],
        &["report", &out, "--format", "receipt"],
        &["report", &out, "--json"],
        &["report", EVIL],
        &["explain", &name],
        &["explain", &name, "--json"],
        &["explain", &library],
        &["check", &name],
        &["check", &name, "--json"],
        &["check", &library],
        &["print", &name],
        &["print", &name, "--summary"],
        &["print", &name, "--types"],
        &["print", &name, "--json"],
        &["eval", &name, "--inputs", &library, "--out", "y.npz"],
        &["eval", EVIL, "--inputs", &library, "--out", &name],
        &["compare", &name, &name],
        &["compare", &name, &name, "--json"],
        &["plugins", "inspect", &library],
        &["plugins", "check", &library],
        &["plugins", "new", EVIL],
        &["jobs", "list", "--socket", EVIL],
        &["ctl", "health", "--socket", EVIL],
        &["ctl", "check-config", "--config", &params],
        &["doctor", "--config", &params],
        &["demo", "--dir", &name],
    ];
    for args in commands {
        let mut run = command(&folder.path().join("state"));
        let output = run.current_dir(folder.path()).args(*args).output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            let mut text = String::from_utf8(text.clone()).unwrap();
            if *args == ["print", &name] {
                // The standard's grammar has no other way to say the end of a line in a string.
                text = text.replace("\n2026", " 2026");
            }
            assert_clean(&format!("{args:?}"), &text);
        }
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{args:?}");
        if args.contains(&"--json") {
            let value: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(value.to_string().contains("forged"), "{args:?}: {value}");
        }
    }
    // The values themselves stay what they are.
    let report = site::report(&folder.path().join(&out).join("failed"));
    assert!(report["name"].as_str().unwrap().contains(EVIL), "{report}");
    for view in ["report.txt", "receipt.txt", "report.html"] {
        let text = fs::read_to_string(folder.path().join(&out).join(view)).unwrap();
        assert_clean(view, &text);
    }
}

#[test]
fn the_daemon_escapes_what_it_logs_and_answers() {
    for format in ["text", "json"] {
        let mut site = Site::new();
        site.set("LOG_FORMAT", format);
        site.set("LOG_LEVEL", "trace");
        site.set("INTAKE_UNMATCHED_AFTER_S", "1");
        let daemon = site.start();
        write_evil(&site.at("good.onnx"));
        fs::rename(site.at("good.onnx"), site.inbox().join(format!("{EVIL}.onnx"))).unwrap();
        let job = site.wait_for(EVIL, "succeeded")["job"].as_str().unwrap().to_owned();
        fs::write(site.inbox().join(format!("bad{EVIL}.onnx")), "no model").unwrap();
        site.wait_for(&format!("bad{EVIL}"), "failed");
        fs::create_dir(site.inbox().join(EVIL)).unwrap();
        fs::write(site.inbox().join(EVIL).join(format!("{EVIL}.txt")), "nothing").unwrap();
        site::wait("the unmatched drop", || (!site.names("unmatched").is_empty()).then_some(()));
        std::os::unix::fs::symlink("nowhere", site.inbox().join(format!("link{EVIL}"))).unwrap();
        site.wait_for_drop(&format!("link{EVIL}"), "refused");
        let commands: &[&[&str]] = &[
            &["jobs", "list"],
            &["jobs", "list", "--json"],
            &["jobs", "show", &job],
            &["jobs", "show", &job, "--json"],
            &["jobs", "show", EVIL],
            &["jobs", "retry", &job],
            &["ctl", "status"],
            &["ctl", "status", "--json"],
            &["ctl", "inbox"],
            &["ctl", "inbox", "--json"],
            &["ctl", "health"],
            &["report", &job],
        ];
        for args in commands {
            let (_, stdout, stderr) = site.run(args);
            assert_clean(&format!("{args:?}"), &stdout);
            assert_clean(&format!("{args:?}"), &stderr);
        }
        assert!(daemon.stop().success());
        let log = site.log();
        assert!(log.contains("forged"), "{log}");
        assert_clean("the log", &log);
        let done = site.at("done").join(format!("{EVIL}.{job}"));
        assert_clean("the receipt", &fs::read_to_string(done.join("receipt.txt")).unwrap());
    }
}
