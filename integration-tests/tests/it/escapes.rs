//! What a hostile plugin tries against the daemon and against files of the same user, as that user: each is refused,
//! and nothing is changed.

use onnxd_integration_tests::{copy_program, library, outcome, write_small_model};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The service's user where the tests run as root, to whom the kernel grants more than to a service.
const NOBODY: u32 = 65534;

/// What a conversion may write in all, and the threads that it may have.
const DISK_MIB_MAX: u64 = 64;
const THREADS_MAX: usize = 80;

/// A folder with a copy of the program and two plugins, all of which belong to the user that runs them.
struct Installed {
    folder: tempfile::TempDir,
    user: Option<u32>,
}

impl Installed {
    fn new() -> Installed {
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().is_root().then_some(NOBODY);
        let installed = Installed { folder, user };
        for name in ["", "bin", "plugins"] {
            fs::create_dir_all(installed.at(name)).unwrap();
            installed.give(&installed.at(name));
        }
        copy_program(&installed.at("bin/onnxd"));
        installed.give(&installed.at("bin/onnxd"));
        for name in ["libhostile_plugins.so", "libonnxd_frontend_onnx.so"] {
            let target = installed.at("plugins").join(name);
            fs::copy(library(name), &target).unwrap();
            installed.give(&target);
        }
        write_small_model(&installed.at("model.onnx"), "");
        installed.give(&installed.at("model.onnx"));
        installed
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn give(&self, path: &Path) {
        if let Some(user) = self.user {
            chown(path, Some(user), Some(user)).unwrap();
        }
    }

    /// Exit status, standard error, and the notes of a pass.
    fn convert(&self, pass: &str) -> (i32, String, Vec<String>) {
        let mut run = Command::new(self.at("bin/onnxd"));
        run.env_clear().env("HOME", self.at("")).env("ONNXD_STATE_DIR", self.at("state"));
        run.env("ONNXD_PLUGINS_PATH", self.at("plugins")).current_dir(self.at(""));
        run.args(["convert", "model.onnx", "--out", "out", "--set", "passes.profile=none"]);
        run.args(["--set", &format!("passes.enable=[\"{pass}\"]")]);
        run.env("ONNXD_WORKER_DISK_MIB_MAX", DISK_MIB_MAX.to_string());
        run.env("ONNXD_WORKER_THREADS_MAX", THREADS_MAX.to_string());
        if let Some(user) = self.user {
            run.uid(user).gid(user);
        }
        let (status, said) = outcome(&run.output().unwrap());
        let report = fs::read(self.at("out/report.json")).unwrap_or_default();
        let report: Value = serde_json::from_slice(&report).unwrap_or_default();
        let notes = report["passes"][0]["notes"].as_array().cloned().unwrap_or_default();
        let notes = notes.iter().map(|n| n.as_str().unwrap_or_default().to_owned()).collect();
        (status, said, notes)
    }

    /// What a plugin must not change: rights, and times of contents.
    fn state(&self) -> Vec<(u32, i64, i64)> {
        let files = ["bin", "bin/onnxd", "plugins", "plugins/libhostile_plugins.so"];
        let data = files.map(|file| fs::metadata(self.at(file)).unwrap());
        data.iter().map(|d| (d.mode(), d.mtime(), d.mtime_nsec())).collect()
    }
}

#[test]
fn every_way_out_is_closed() {
    let installed = Installed::new();
    let before = installed.state();
    let (status, said, notes) = installed.convert("escapes");
    assert_eq!(status, 0, "{said}");
    let missing = said.contains("not completely confined");
    assert!(notes.len() > 50, "{} attempts: {notes:?}", notes.len());
    // `ENOENT`, `EINVAL` or `EFAULT` would mean that the kernel looked at the arguments.
    let refused = |note: &&String| {
        ["os error 1)", "os error 13)", "os error 38)", "the means"]
            .iter()
            .any(|e| note.contains(e))
    };
    let open: Vec<_> = notes.iter().filter(|note| !refused(note)).collect();
    assert!(open.is_empty() || missing, "{open:#?}");
    assert_eq!(installed.state(), before);
}

/// Where the kernel counts a worker's threads apart, more are refused; elsewhere the parent ends the worker.
#[test]
fn threads_by_the_thousand_stay_within_the_workers_share() {
    let (status, said, notes) = Installed::new().convert("start-threads");
    if status == 0 {
        let count = notes[0].split(' ').next().unwrap().parse::<usize>().unwrap();
        assert!(count < THREADS_MAX && notes[0].contains("then refused"), "{notes:?}");
    } else {
        assert!(said.contains("N0313") && said.contains("org.onnxd.hostile"), "{said}");
    }
}

#[test]
fn a_conversion_that_fills_the_disk_is_stopped() {
    let (status, said, _) = Installed::new().convert("fill-disk");
    assert_eq!(status, 75, "{said}");
    assert!(said.contains("N0312") && said.contains("org.onnxd.hostile"), "{said}");
    assert!(said.contains(&format!("may write {DISK_MIB_MAX} MiB")), "{said}");
}
