//! Tests of what becomes a submission.

use super::*;
use onnxd_proto::onnxd::{PluginComponent, PluginInfo};
use std::os::unix::fs::symlink;

fn plugins() -> Plugins {
    let frontend = PluginComponent {
        kind: "frontend".into(),
        id: "any".into(),
        globs: vec!["*.ini".into(), "*.onnx".into()],
        ..Default::default()
    };
    let used = vec![PluginInfo { components: vec![frontend], ..Default::default() }];
    Plugins { used, ..Plugins::default() }
}

fn folder(files: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"").unwrap();
    }
    root
}

fn unasked(s: &Submission) -> Result<ChosenFrontend, Diagnostics> {
    panic!("{} is the only candidate", s.network)
}

/// A front-end that takes what begins with a letter up to `m`; what begins with `a` uses
/// everything called `b` and more.
fn asked(s: &Submission) -> Result<ChosenFrontend, Diagnostics> {
    let first = s.network.chars().next().unwrap();
    if first > 'm' {
        let text = format!("no front-end takes `{}`", s.network);
        return Err(Diagnostic::new(Code::NoFrontend, text).into());
    }
    let uses = |name: &&String| first == 'a' && name.starts_with('b');
    let found_as: Vec<String> = s.files.iter().map(|f| &f.name).filter(uses).cloned().collect();
    let needs = vec![Need { found: true, found_as, ..Need::default() }];
    Ok(ChosenFrontend { needs, ..ChosenFrontend::default() })
}

#[test]
fn several_candidates_are_asked_about_as_in_the_inbox() {
    let network = |files: &[&str]| {
        let root = folder(files);
        let found = Submission::from_paths(
            &[root.path().to_owned()],
            &plugins(),
            &NameRules::default(),
            &|_| false,
            &asked,
        );
        found.map(|s| s.network).map_err(|found| found.0[0].message.clone())
    };
    assert_eq!(network(&["a.ini", "b.onnx"]).unwrap(), "a.ini", "one uses the other");
    assert_eq!(network(&["a.ini", "x.ini"]).unwrap(), "a.ini", "one is no network");
    assert!(network(&["x.ini", "y.ini"]).unwrap_err().contains("takes `x.ini`"));
    let two = network(&["a.ini", "b.onnx", "c.onnx"]).unwrap_err();
    assert_eq!(two, "the front-ends take 2 files for networks: `a.ini`, `c.onnx`");
    let root = folder(&["x.ini", "c.onnx", "a.ini"]);
    let paths = ["x.ini", "c.onnx", "a.ini"].map(|p| root.path().join(p));
    let s = Submission::from_paths(&paths, &plugins(), &NameRules::default(), &|_| false, &asked)
        .unwrap();
    assert_eq!(s.network, "c.onnx", "the first that is taken");
}

fn names(s: &Submission) -> Vec<&str> {
    s.files.iter().map(|f| f.name.as_str()).collect()
}

#[test]
fn one_folder_is_the_root() {
    let root = folder(&["lenet/net.ini", "lenet/params.ini", "lenet/weights/a.ini", "lenet/.x"]);
    let s = Submission::from_paths(
        &[root.path().join("lenet")],
        &plugins(),
        &NameRules::default(),
        &|_| false,
        &unasked,
    )
    .unwrap();
    assert_eq!((s.name.as_str(), s.network.as_str()), ("lenet", "net.ini"));
    assert_eq!(names(&s), ["net.ini", "params.ini", "weights/a.ini"]);
    assert_eq!(s.params_files()[0].name, "params.ini");
}

#[test]
fn several_paths_lie_side_by_side() {
    let root = folder(&["n/net.ini", "w/weights/a.syntxt", "block.ini.tpl"]);
    let paths = ["block.ini.tpl", "n/net.ini", "w/weights"].map(|p| root.path().join(p));
    let s = Submission::from_paths(&paths, &plugins(), &NameRules::default(), &|_| false, &unasked)
        .unwrap();
    assert_eq!((s.name.as_str(), s.network.as_str()), ("net", "net.ini"));
    assert_eq!(names(&s), ["block.ini.tpl", "net.ini", "weights/a.syntxt"]);
}

#[test]
fn a_single_file_is_the_network_whatever_its_name() {
    let root = folder(&["x.bin"]);
    let s = Submission::from_paths(
        &[root.path().join("x.bin")],
        &plugins(),
        &NameRules::default(),
        &|_| false,
        &unasked,
    )
    .unwrap();
    assert_eq!(s.network, "x.bin");
}

#[test]
fn what_lies_beside_a_single_network_is_added_when_needed() {
    let root = folder(&["a.onnx", "a.data", "w/b.data", "c.data", "other"]);
    let mut s = Submission::from_paths(
        &[root.path().join("a.onnx")],
        &plugins(),
        &NameRules::default(),
        &|_| false,
        &unasked,
    )
    .unwrap();
    let need = |path: &str| Need { path: path.into(), ..Need::default() };
    let needs = ["a.data", "w", "far/c.data", "absent", "../etc"].map(need);
    assert!(s.complete(root.path(), &NameRules::default(), &needs).unwrap());
    assert_eq!(names(&s), ["a.data", "a.onnx", "c.data", "w/b.data"]);
    assert!(!s.complete(root.path(), &NameRules::default(), &needs[2..]).unwrap());
}

#[test]
fn params_of_the_network_come_before_those_of_the_folder() {
    let root = folder(&["net.onnx", "params.toml", "net.params.toml", "net.params.ini"]);
    let s = Submission::from_paths(
        &[root.path().to_owned()],
        &plugins(),
        &NameRules::default(),
        &|_| false,
        &unasked,
    )
    .unwrap();
    let found: Vec<&str> = s.params_files().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(found, ["net.params.ini", "net.params.toml"]);
}

#[test]
fn what_is_wrong_is_said() {
    let root = folder(&[
        "c.onnx", "b.onnx", "d/e.txt", "x/c.onnx", "y/c.onnx", "z/c.onnx", "w/a.onnx",
        "w/b.incomplete", "w/b.lock", "v/a.onnx", "v/.cache/huggingface/download/x.incomplete",
    ]);
    symlink("/etc", root.path().join("z/link")).unwrap();
    let at = |names: &[&str]| -> Diagnostic {
        let paths: Vec<PathBuf> = names.iter().map(|n| root.path().join(n)).collect();
        Submission::from_paths(&paths, &plugins(), &NameRules::default(), &|_| false, &asked)
            .unwrap_err()
            .0
            .remove(0)
    };
    for (paths, code, text) in [
        (&["missing"][..], "N0107", "No such file"),
        (&["z"], "N0108", "z/link` is a symbolic link to a folder"),
        (&["w"], "N0114", "a download is not finished: `"),
        (&["v"], "N0114", "download/x.incomplete`"),
        (&["d"], "N0101", "front-ends read *.ini, *.onnx"),
        (&["x/c.onnx", "y/c.onnx"], "N0704", "would both be `c.onnx`"),
    ] {
        let why = at(paths);
        assert_eq!(why.code, code, "{why}");
        assert!(why.message.contains(text), "{why}");
    }
    fs::remove_file(root.path().join("z/link")).unwrap();
    for folder in ["v", "w"] {
        fs::remove_dir_all(root.path().join(folder)).unwrap();
    }
    assert!(at(&["."]).message.contains("2 files for networks: `b.onnx`, `c.onnx`"));
}

/// As Hugging Face's cache has them.
#[test]
fn links_to_files_have_the_names_of_the_links() {
    let root = folder(&["blobs/1", "blobs/2", "snapshots/a/w/plain", "snapshots/a/c.onnx.lock"]);
    let snapshot = root.path().join("snapshots/a");
    symlink("../../blobs/1", snapshot.join("c.onnx")).unwrap();
    symlink("../../../blobs/2", snapshot.join("w/data")).unwrap();
    let of = |path: PathBuf| {
        Submission::from_paths(&[path], &plugins(), &NameRules::default(), &|_| false, &unasked)
    };
    let s = of(snapshot.clone()).unwrap();
    assert_eq!(names(&s), ["c.onnx", "w/data", "w/plain"]);
    assert!(s.files[0].path.ends_with("blobs/1") && s.files[1].path.ends_with("blobs/2"));
    let mut s = of(snapshot.join("c.onnx")).unwrap();
    let need = Need { path: "w/data".into(), ..Need::default() };
    assert!(s.complete(&snapshot, &NameRules::default(), &[need]).unwrap());
    assert_eq!(names(&s), ["c.onnx", "w/data"]);
}

/// Intake's own tests use its lists.
#[test]
fn the_settings_have_the_names_of_intake() {
    use onnxd_intake::names::{IGNORED, UNFINISHED};
    let environment = onnxd_config::Environment { cores: 2, ..Default::default() };
    let settings = onnxd_config::load(None, &environment, &[]).unwrap().settings;
    assert_eq!(settings.intake.unfinished, UNFINISHED);
    assert_eq!(settings.intake.ignored, IGNORED);
}
