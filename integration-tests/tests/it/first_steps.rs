//! What a new user does first, and what the commands answer.

use crate::site::Site;
use onnxd_integration_tests::{command, outcome, write_small_model};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

fn run(folder: &Path, args: &[&str]) -> Output {
    command(&folder.join("home")).current_dir(folder).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn init_makes_a_place_that_works_and_changes_nothing_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["init"]);
    assert!(made.status.success() && stdout(&made).contains("onnxd run --config ./onnxd.toml"));
    let wanted = ["done", "failed", "inbox", "onnxd.toml", "outbox", "unmatched"];
    assert!(wanted.iter().all(|name| folder.path().join(name).exists()), "{made:?}");
    // The second command of the README, until nothing is left to do.
    write_small_model(&folder.path().join("inbox/net.onnx"), "dropped");
    let args = ["once", "--config", "onnxd.toml", "--set", "intake.settle_ms=100"];
    let (status, said) = outcome(&run(folder.path(), &args));
    assert_eq!(status, 0, "{said}");
    assert!(folder.path().join("outbox/net/model.onnx").is_file(), "{said}");

    fs::write(folder.path().join("onnxd.toml"), "# mine\n").unwrap();
    let (status, said) = outcome(&run(folder.path(), &["init"]));
    assert!(status == 2 && said.contains("N0705"), "{said}");
    assert_eq!(fs::read(folder.path().join("onnxd.toml")).unwrap(), b"# mine\n");
}

#[test]
fn once_names_what_it_left() {
    let site = Site::new();
    fs::write(site.inbox().join("readme.txt"), "nothing").unwrap();
    std::os::unix::fs::symlink("nowhere", site.inbox().join("link.onnx")).unwrap();
    let ini = "DefaultModel=Frame\n[sp]\nSizeX=4\nSizeY=4\n[fc]\nInput=sp\nType=Fc\nNbOutputs=2\n\
               ActivationFunction=Linear\nWeightsFiller=XavierFiller\n[fc.Target]\n";
    fs::create_dir(site.inbox().join("net")).unwrap();
    fs::write(site.inbox().join("net/net.ini"), ini).unwrap();
    write_small_model(&site.inbox().join("good.onnx"), "good");
    let (status, _, said) = site.run(&["once"]);
    assert_eq!(status, 75, "{said}");
    for left in ["left unmatched: readme.txt: ", "left refused: link.onnx: ", "left waiting: net: "]
    {
        assert!(said.contains(left), "{left}: {said}");
    }
    assert_eq!(site.names("outbox"), ["good"], "{said}");
    for name in ["readme.txt", "link.onnx", "net/net.ini"] {
        fs::remove_file(site.inbox().join(name)).unwrap();
    }
    let (status, _, said) = site.run(&["once"]);
    assert_eq!(status, 0, "{said}");
}

#[test]
fn a_failure_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.onnx"), "no model").unwrap();
    let failed = run(folder.path(), &["convert", "bad.onnx", "--out", "out"]);
    let (status, said) = outcome(&failed);
    assert_eq!((status, stdout(&failed).as_str()), (2, ""), "{said}");
    assert_eq!(said.matches("N0501").count(), 1, "{said}");
    assert!(said.contains("out/report.html`"), "{said}");
    let json = run(folder.path(), &["convert", "bad.onnx", "--out", "out", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["verdict"], "failed");
}

#[test]
fn explain_shows_what_differs_from_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    write_small_model(&folder.path().join("net.onnx"), "net");
    let text = |more: &[&str]| {
        let args = ["explain", "net.onnx", "--set", "export.opset=18"];
        stdout(&run(folder.path(), &[&args[..], more].concat()))
    };
    let short = text(&[]);
    let params = |text: &str| text.lines().filter(|line| line.starts_with("param")).count();
    assert!(short.contains("export.opset") && short.contains("`--all` shows them"), "{short}");
    assert_eq!(params(&short), 2, "{short}");
    assert!(params(&text(&["--all"])) > 50);
    assert!(short.lines().all(|line| line.chars().count() <= 100), "{short}");
}

#[test]
fn explain_tells_what_a_code_means() {
    let folder = tempfile::tempdir().unwrap();
    let explain = |args: &[&str]| run(folder.path(), &[&["explain"][..], args].concat());
    let text = stdout(&explain(&["n0203"]));
    for part in ["N0203", "unsupported", "no counterpart in ONNX", "Replace the layer"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value = serde_json::from_slice(&explain(&["N0203", "--json"]).stdout).unwrap();
    assert_eq!((&json["code"], &json["class"]), (&"N0203".into(), &"unsupported".into()));
    let (status, said) = outcome(&explain(&["N0299"]));
    assert!(status != 0 && said.contains("N0299"), "{said}");
    // A file of that name is a drop.
    fs::write(folder.path().join("N0203"), "no network").unwrap();
    assert!(!stdout(&explain(&["N0203"])).contains("no counterpart"));
}

#[test]
fn first_letters_name_a_job() {
    let site = Site::new();
    let daemon = site.start();
    write_small_model(&site.inbox().join("net.onnx"), "net");
    let id = site.wait_for("net", "succeeded")["job"].as_str().unwrap().to_owned();
    let (_, list, _) = site.run(&["jobs", "list"]);
    let row = list.lines().find(|line| line.contains("succeeded")).unwrap();
    let short = row.split_whitespace().next().unwrap();
    assert!(short.len() < id.len() && id.starts_with(short), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    for args in [&["jobs", "show", short][..], &["report", &short.to_lowercase()]] {
        let (status, text, said) = site.run(args);
        assert!(status == 0 && text.contains(&id), "{args:?}: {text}{said}");
    }
    let (_, shown, _) = site.run(&["jobs", "show", short]);
    assert!(shown.contains(" ago)") && !shown.contains("created_ms"), "{shown}");
    assert_ne!(site.run(&["jobs", "show", "01"]).0, 0);
    daemon.stop();
}
