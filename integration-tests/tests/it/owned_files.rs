//! No command deletes or overwrites a file that is not its own earlier result: the built program on folders that hold
//! what a person wrote.

use onnxd_integration_tests::{command, outcome, write_small_model};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Case(TempDir);

/// Contents by the paths below a folder.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

impl Case {
    /// A folder `proj` with a network and a report of a person's.
    fn new() -> Case {
        let case = Case(tempfile::tempdir().unwrap());
        fs::create_dir(case.at("proj")).unwrap();
        write_small_model(&case.at("proj/model.onnx"), "mine");
        fs::write(case.at("proj/report.txt"), "mine").unwrap();
        case
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs in the folder `proj`: exit status and standard error.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let mut run = command(&self.at("state"));
        outcome(&run.current_dir(self.at("proj")).args(args).output().unwrap())
    }

    fn tree(&self, folder: &str) -> Tree {
        fn add(folder: &Path, tree: &mut Tree) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with("state") {
                    continue;
                }
                match path.is_dir() && !path.is_symlink() {
                    true => add(&path, tree),
                    false => drop(tree.insert(path.clone(), fs::read(&path).unwrap_or_default())),
                }
            }
        }
        let mut tree = Tree::new();
        add(&self.at(folder), &mut tree);
        tree
    }
}

#[test]
fn a_conversion_that_would_replace_its_source_is_refused_whatever_the_folder_is_called() {
    let case = Case::new();
    fs::create_dir(case.at("other")).unwrap();
    symlink(case.at("proj"), case.at("link")).unwrap();
    fs::hard_link(case.at("proj/model.onnx"), case.at("other/net.onnx")).unwrap();
    let before = case.tree("");
    for (source, out) in [
        ("model.onnx", "."),
        (".", "."),
        ("../proj", "../proj"),
        ("../link/model.onnx", "../other/../proj"),
        ("model.onnx", "../link"),
        ("../other/net.onnx", "."),
    ] {
        let (status, said) = case.run(&["convert", source, "--out", out]);
        assert_eq!(status, 2, "{source} {out}: {said}");
        assert!(said.contains("N0705") && said.contains("`model.onnx` (an input"), "{said}");
        assert!(said.contains("`report.txt`"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(case.tree("") == before, "{source} {out}");
    }
}

#[test]
fn a_conversion_that_fails_deletes_nothing() {
    let case = Case::new();
    let before = case.tree("proj");
    // A typing error in a param.
    let (status, said) =
        case.run(&["convert", "model.onnx", "--set", "export.opst=17", "--out", "."]);
    assert_eq!(status, 2, "{said}");
    let after = case.tree("proj");
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)));
    assert!(case.at("proj/failed/report.json").is_file());
}

#[test]
fn a_result_is_replaced_by_the_next_and_outlives_a_failure() {
    let case = Case::new();
    let run = |set: &str| case.run(&["convert", "model.onnx", "--set", set, "--out", "../out"]);
    assert_eq!(run("export.opset=17").0, 0);
    assert_eq!(run("export.opset=18").0, 0);
    fs::write(case.at("out/mine.txt"), "mine").unwrap();
    let before = case.tree("out");
    assert_eq!(run("export.opst=17").0, 2);
    let after = case.tree("out");
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)));
    assert!(case.at("out/failed/receipt.txt").is_file());
    assert_eq!(run("export.opset=19").0, 0);
    assert!(!case.at("out/failed").exists());
    assert_eq!(fs::read(case.at("out/mine.txt")).unwrap(), b"mine");
    fs::write(case.at("out/report.html"), "mine").unwrap();
    let (status, said) = run("export.opset=20");
    assert!(status == 2 && said.contains("`report.html` (changed since"), "{said}");
}

#[test]
fn a_result_in_the_folder_of_its_source_is_no_part_of_the_source() {
    let case = Case::new();
    for out in ["result", "."] {
        fs::remove_file(case.at("proj/report.txt")).unwrap_or_default();
        fs::rename(case.at("proj/model.onnx"), case.at("proj/net.onnx")).unwrap_or_default();
        for turn in ["first", "second"] {
            let (status, said) = case.run(&["convert", ".", "--out", out]);
            assert_eq!(status, 0, "{out}, {turn}: {said}");
        }
        fs::remove_dir_all(case.at("proj/result")).unwrap();
        fs::create_dir(case.at("proj/result")).unwrap();
    }
    let source = fs::read_to_string(case.at("proj/report.json")).unwrap();
    let source: serde_json::Value = serde_json::from_str(&source).unwrap();
    assert_eq!(source["source"].as_array().unwrap().len(), 1, "{source}");
}

#[test]
fn eval_replaces_only_what_it_wrote() {
    let case = Case::new();
    let from_numpy = include_bytes!("../../../core/daemon/demo/inputs.npz");
    fs::write(case.at("proj/calib.npz"), from_numpy).unwrap();
    fs::write(case.at("proj/x.npy"), npy(4)).unwrap();
    symlink("calib.npz", case.at("proj/link.npz")).unwrap();
    symlink("nowhere.npz", case.at("proj/dangling.npz")).unwrap();
    for flag in ["--out", "--observe"] {
        let before = case.tree("proj");
        for out in ["model.onnx", "x.npy", "calib.npz", "report.txt", "link.npz", "dangling.npz"] {
            let (status, said) = case.run(&["eval", "model.onnx", "--inputs", "x.npy", flag, out]);
            assert!(status == 2 && said.contains("N0705"), "{flag} {out}: {said}");
            assert!(case.tree("proj") == before, "{flag} {out}");
        }
        for turn in ["first", "second"] {
            let out = format!("own{flag}");
            let (status, said) = case.run(&["eval", "model.onnx", "--inputs", "x.npy", flag, &out]);
            assert_eq!(status, 0, "{flag}, {turn}: {said}");
        }
    }
}

/// One row of floats as NumPy writes it.
fn npy(columns: usize) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (1, {columns}), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &vec![0; 4 * columns]].concat()
}

#[test]
fn folders_that_exist_are_not_begun_anew() {
    let case = Case::new();
    let before = case.tree("proj");
    assert_ne!(case.run(&["demo", "--dir", "../proj"]).0, 0);
    fs::create_dir(case.at("proj/mine")).unwrap();
    fs::write(case.at("proj/mine/Cargo.toml"), "mine").unwrap();
    assert_ne!(case.run(&["plugins", "new", "org.example.mine"]).0, 0);
    assert_eq!(fs::read(case.at("proj/mine/Cargo.toml")).unwrap(), b"mine");
    let after = case.tree("proj");
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)));
}
