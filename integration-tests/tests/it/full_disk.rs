//! A real disk that another program fills while drops arrive: the daemon lives, says so, and every drop ends with a
//! result.
//!
//! The disk is a small `tmpfs` that is mounted in a user and mount namespace of its own, which needs no rights.

use crate::site::{Daemon, Site, wait};
use onnxd_integration_tests::outcome;
use onnxd_ir::ops::Add;
use onnxd_ir::{DataType, Graph, Model, Tensor, ValueType};
use onnxd_onnx::{WriteOptions, write_model};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that the test runs inside the namespace, and where the rest of the machine's disk is.
const INSIDE: &str = "ONNXD_TEST_OUTER_FOLDER";
const DISK_MIB: usize = 64;
/// Room for the copy of one drop, in which its result does not fit as well.
const SOME_BYTES: u64 = 6 << 20;
/// Elements of a model's weights: 4 MiB.
const ELEMENTS: usize = 1 << 20;

/// Runs `test` of this file once more, with temporary files on a disk of `mib`.
fn inside(test: &str, mib: usize) {
    let (disk, outer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = format!("mount -t tmpfs -o size={mib}m onnxd-test {:?}", disk.path());
    let namespace = |then: &str| {
        let mut run = Command::new("unshare");
        run.arg("-Urm").args(["sh", "-c", &format!("{mount} && {then}"), "sh"]);
        run
    };
    let (status, why) = outcome(&namespace("true").output().unwrap());
    if status != 0 {
        eprintln!("SKIPPED {test}: no disk can be mounted here: {why}");
        return;
    }
    let mut run = namespace("exec \"$@\"");
    let test = format!("full_disk::{test}");
    run.arg(std::env::current_exe().unwrap()).args(["--exact", &test, "--nocapture"]);
    run.env("TMPDIR", disk.path()).env(INSIDE, outer.path());
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", outcome(&output).1);
    assert!(said.contains("1 passed"), "{said}");
}

/// What another program wrote to the disk.
struct Filler(PathBuf);

impl Filler {
    fn new(site: &Site) -> Filler {
        Filler(site.at("filler"))
    }

    /// Leaves so many bytes.
    fn leave(&self, bytes: u64) {
        let mut file = File::options().create(true).append(true).open(&self.0).unwrap();
        let step = vec![1u8; 4096];
        while free(&self.0) > bytes && file.write_all(&step).is_ok() {}
        assert!(free(&self.0) <= bytes);
    }

    fn remove(&self) {
        fs::remove_file(&self.0).unwrap();
    }
}

fn free(path: &Path) -> u64 {
    let found = rustix::fs::statvfs(path).unwrap();
    found.f_bavail * found.f_frsize
}

/// A model of which every mark makes another job.
fn model(path: &Path, mark: &str) {
    let mut g = Graph::new("large");
    let vector = || Some(ValueType::tensor(DataType::Float, [ELEMENTS as i64]));
    let x = g.add_input("x", vector());
    let w = g.add_initializer("w", Tensor::vector(vec![0.5f32; ELEMENTS]));
    let y = g.add("y", Add::new(x, w));
    g[y].ty = vector();
    g.mark_output(y);
    let model = Model { doc: mark.to_owned(), ..Model::new(g, 8, 17) };
    write_model(&model, path, &WriteOptions::default()).unwrap();
}

/// Drops that lie ready on the file system of the inbox: a rename needs no room.
struct Ready {
    folder: PathBuf,
    inbox: PathBuf,
}

impl Ready {
    fn new(site: &Site, inbox: &Path, names: &[&str]) -> Ready {
        let folder = inbox.with_file_name("ready");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(inbox).unwrap();
        for name in names {
            model(
                &folder.join(name).with_extension("onnx"),
                &format!("{name} {}", site.at("").display()),
            );
        }
        Ready { folder, inbox: inbox.to_owned() }
    }

    fn drop(&self, names: &[&str]) {
        for name in names.iter().map(|name| format!("{name}.onnx")) {
            fs::rename(self.folder.join(&name), self.inbox.join(&name)).unwrap();
        }
    }
}

fn problems(site: &Site) -> String {
    site.ask(r#"{"do":"health"}"#)["problems"].to_string()
}

fn wait_for_problem(site: &Site, words: &[&str]) {
    wait(&format!("health to say one of {words:?}: {}\n{}", problems(site), site.log()), || {
        let said = problems(site);
        words.iter().any(|word| said.contains(word)).then_some(())
    });
}

fn assert_all_end(site: &Site, daemon: Daemon, names: &[&str]) {
    // A store that failed is read again from then on.
    wait("health to find nothing", || (problems(site) == "[]").then_some(()));
    for name in names {
        let job = site.wait_for(name, "succeeded");
        assert_eq!(job["attempts"], 1, "{job}");
    }
    wait("health to find nothing", || (problems(site) == "[]").then_some(()));
    assert!(site.jobs().iter().all(|job| job["state"] == "succeeded"), "{:?}", site.jobs());
    assert_eq!(site.names("outbox").len(), names.len(), "{:?}", site.names("outbox"));
    assert!(daemon.stop().success());
}

/// Another program fills the disk with `leave` left, then wholly, and frees it again.
fn jobs_wait_for_room(inbox: Option<&Path>) {
    let mut site = Site::new();
    site.set("JOBS_ATTEMPTS_MAX", "1");
    let inbox = inbox.map_or(site.inbox(), |outer| outer.join("inbox"));
    site.set("INTAKE_INBOX", &inbox.display().to_string());
    let names = ["before", "little1", "little2", "full1", "full2"];
    let ready = Ready::new(&site, &inbox, &names);
    let (daemon, filler) = (site.start(), Filler::new(&site));
    ready.drop(&["before"]);
    site.wait_for("before", "succeeded");
    filler.leave(SOME_BYTES);
    ready.drop(&["little1", "little2"]);
    wait_for_problem(&site, &["room on the disk", "No space left"]);
    filler.leave(0);
    ready.drop(&["full1", "full2"]);
    wait_for_problem(&site, &["no room on the disk", "No space left"]);
    filler.remove();
    assert_all_end(&site, daemon, &names);
    assert!(site.log().contains("what found no room on the disk is tried again"), "{}", site.log());
}

#[test]
fn jobs_wait_for_room_on_a_full_disk() {
    match std::env::var_os(INSIDE) {
        Some(_) => jobs_wait_for_room(None),
        None => inside("jobs_wait_for_room_on_a_full_disk", DISK_MIB),
    }
}

#[test]
fn drops_from_another_disk_wait_for_room() {
    match std::env::var_os(INSIDE) {
        Some(outer) => jobs_wait_for_room(Some(Path::new(&outer))),
        None => inside("drops_from_another_disk_wait_for_room", DISK_MIB),
    }
}

#[test]
fn nothing_begins_while_less_is_free_than_is_wanted() {
    const DEFAULT_MIB: usize = 256;
    if std::env::var_os(INSIDE).is_none() {
        return inside("nothing_begins_while_less_is_free_than_is_wanted", DEFAULT_MIB + DISK_MIB);
    }
    let mut site = Site::new();
    site.set("JOBS_MIN_FREE_MIB", &DEFAULT_MIB.to_string());
    let names = ["before", "full1", "full2"];
    let ready = Ready::new(&site, &site.inbox(), &names);
    let (daemon, filler) = (site.start(), Filler::new(&site));
    ready.drop(&["before"]);
    site.wait_for("before", "succeeded");
    filler.leave(0);
    wait_for_problem(&site, &["jobs.min_free_mib"]);
    ready.drop(&["full1", "full2"]);
    for name in ["full1.onnx", "full2.onnx"] {
        let why = site.wait_for_drop(name, "blocked");
        assert!(why.contains("jobs.min_free_mib"), "{why}");
    }
    assert_eq!(site.jobs().len(), 1, "{:?}", site.jobs());
    filler.remove();
    assert_all_end(&site, daemon, &names);
}
