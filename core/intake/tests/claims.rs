//! Claims: all or nothing, repeatable after a crash at every point, never of a file that changed.

mod common;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Bench;
use onnxd_intake::names::NameRules;
use onnxd_intake::{ClaimError, FileSet, Inbox, InboxState, MovePlan, Submission};

/// Everything below a folder with its content, sorted.
fn listing(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            if path.is_dir() {
                lines.push(format!("{name}/"));
                folders.push(path);
            } else {
                lines.push(format!("{name}={}", fs::read_to_string(path).unwrap()));
            }
        }
    }
    lines.sort();
    lines
}

fn one(bench: &mut Bench) -> Submission {
    let mut ready = bench.settle();
    assert_eq!(ready.len(), 1);
    ready.remove(0)
}

fn side_by_side() -> (Bench, MovePlan) {
    let mut bench = Bench::new();
    bench.write("u/net.ini", "[sp]\nweights/a\nweights/b");
    bench.write("u/net.params.toml", "p");
    bench.write("u/weights/a", "1");
    bench.write("u/weights/b", "2");
    bench.write("u/other.onnx", "o");
    // With two networks shared files are ambiguous; the other one goes first.
    let first = one(&mut bench);
    assert_eq!(first.id, Path::new("u/other.onnx"));
    first.set.plan(&bench.dir.path().join("first/input")).execute(&NameRules::default()).unwrap();
    // What is left is one network in its folder: moved file by file it tests the harder way.
    let whole = one(&mut bench);
    let plan = FileSet { whole: None, ..whole.set }.plan(&bench.dir.path().join("job/input"));
    (bench, plan)
}

const MOVED: [&str; 5] = [
    "net.ini=[sp]\nweights/a\nweights/b", "net.params.toml=p", "weights/", "weights/a=1",
    "weights/b=2",
];

#[test]
fn files_are_moved_with_their_folders() {
    let (bench, plan) = side_by_side();
    plan.execute(&NameRules::default()).unwrap();
    assert_eq!(listing(&plan.dest), MOVED);
    assert_eq!(listing(&bench.at("")), ["u/"]);
    plan.execute(&NameRules::default()).unwrap();
    assert_eq!(listing(&plan.dest), MOVED);
}

#[test]
fn a_crash_after_any_rename_is_repaired_by_the_saved_plan() {
    for crash_after in 0..=4 {
        let (bench, plan) = side_by_side();
        let saved = bench.dir.path().join("plan");
        plan.save(&saved).unwrap();
        for file in &plan.set.files[..crash_after] {
            let dest = plan.dest.join(&file.name);
            fs::create_dir_all(dest.parent().unwrap()).unwrap();
            fs::rename(plan.set.inbox.join(&plan.set.root).join(&file.name), dest).unwrap();
        }
        MovePlan::load(&saved).unwrap().execute(&NameRules::default()).unwrap();
        assert_eq!(listing(&plan.dest), MOVED, "crash after {crash_after}");
        assert_eq!(listing(&bench.at("")), ["u/"]);
    }
}

#[test]
fn a_new_drop_of_the_same_name_survives_the_repair() {
    let (bench, plan) = side_by_side();
    plan.execute(&NameRules::default()).unwrap();
    bench.write("u/net.ini", "newer");
    plan.execute(&NameRules::default()).unwrap();
    assert_eq!(listing(&plan.dest), MOVED);
    assert_eq!(listing(&bench.at("")), ["u/", "u/net.ini=newer"]);
}

#[test]
fn a_file_changed_or_gone_since_the_scan_leaves_everything_in_place() {
    let (bench, plan) = side_by_side();
    bench.write("u/weights/b", "22");
    let before = listing(&bench.at(""));
    assert_eq!(
        plan.execute(&NameRules::default()),
        Err(ClaimError::Changed(bench.inbox.path().join("u/weights/b")))
    );
    assert_eq!(listing(&bench.at("")), before);
    assert!(!plan.dest.join("net.ini").exists());

    let (bench, plan) = side_by_side();
    fs::remove_file(bench.at("u/weights/b")).unwrap();
    let before = listing(&bench.at(""));
    assert_eq!(
        plan.execute(&NameRules::default()),
        Err(ClaimError::Gone(bench.inbox.path().join("u/weights/b")))
    );
    assert_eq!(listing(&bench.at("")), before);
}

fn whole() -> (Bench, MovePlan) {
    let mut bench = Bench::new();
    bench.write("u/net/net.ini", "[sp]\nweights/a");
    bench.write("u/net/weights/a", "1");
    let submission = one(&mut bench);
    assert!(submission.set.whole.is_some());
    let plan = submission.set.plan(&bench.dir.path().join("job/input"));
    (bench, plan)
}

#[test]
fn a_folder_is_moved_by_one_rename_and_twice_is_once() {
    let (bench, plan) = whole();
    for _ in 0..2 {
        plan.execute(&NameRules::default()).unwrap();
        assert_eq!(listing(&plan.dest), ["net.ini=[sp]\nweights/a", "weights/", "weights/a=1"]);
        assert_eq!(listing(&bench.at("")), ["u/"]);
    }
    bench.write("u/net/net.ini", "a new drop");
    plan.execute(&NameRules::default()).unwrap();
    assert_eq!(listing(&bench.at("u/net")), ["net.ini=a new drop"]);
}

#[test]
fn a_folder_with_a_changed_new_or_missing_file_stays() {
    type Change = fn(&Bench);
    let changes: [(&str, Change); 4] = [
        ("changed", |b| b.write("u/net/weights/a", "11")),
        ("new", |b| b.write("u/net/late", "1")),
        ("missing", |b| fs::remove_file(b.at("u/net/weights/a")).unwrap()),
        ("link", |b| symlink("/etc/passwd", b.at("u/net/link")).unwrap()),
    ];
    for (what, change) in changes {
        let (bench, plan) = whole();
        change(&bench);
        assert!(
            matches!(plan.execute(&NameRules::default()), Err(ClaimError::Changed(_))),
            "{what}"
        );
        assert!(bench.at("u/net/net.ini").exists(), "{what}");
        assert!(!plan.dest.exists(), "{what}");
    }
}

#[test]
fn a_folder_replaced_by_a_link_is_not_followed() {
    let (bench, plan) = side_by_side();
    let secret = bench.dir.path().join("secret");
    fs::rename(bench.at("u"), &secret).unwrap();
    symlink(&secret, bench.at("u")).unwrap();
    let before = listing(&secret);
    assert!(matches!(plan.execute(&NameRules::default()), Err(ClaimError::Gone(_))));
    assert_eq!(listing(&secret), before);
}

/// Nothing is forbidden to root: the test runs again as another user.
fn as_nobody(test: &str) {
    let mut again = Command::new(std::env::current_exe().unwrap());
    match again.args(["--exact", test]).uid(65_534).gid(65_534).current_dir("/").output() {
        // The build folder may be closed to others.
        Err(e) => assert_eq!(e.kind(), ErrorKind::PermissionDenied),
        Ok(run) => assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout)),
    }
}

#[test]
fn what_may_not_be_moved_is_blocked() {
    if rustix::process::geteuid().is_root() {
        return as_nobody("what_may_not_be_moved_is_blocked");
    }
    let (bench, plan) = side_by_side();
    fs::set_permissions(bench.at("u"), fs::Permissions::from_mode(0o555)).unwrap();
    let result = plan.execute(&NameRules::default());
    fs::set_permissions(bench.at("u"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(result, Err(ClaimError::Blocked(_))), "{result:?}");

    let bench = Bench::new();
    fs::set_permissions(bench.at(""), fs::Permissions::from_mode(0o555)).unwrap();
    let refused = Inbox::open(common::config(bench.dir.path())).map(|_| ());
    fs::set_permissions(bench.at(""), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(refused.unwrap_err().code, "N0703");
}

#[test]
fn a_folder_that_may_not_be_read_is_refused_and_the_rest_goes_on() {
    if rustix::process::geteuid().is_root() {
        return as_nobody("a_folder_that_may_not_be_read_is_refused_and_the_rest_goes_on");
    }
    let mut bench = Bench::new();
    bench.write("closed/net.ini", "[sp]");
    fs::set_permissions(bench.at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    bench.poll();
    assert!(bench.inbox.status().watch_mode.has_events());
    bench.write("a.onnx", "1");
    assert_eq!(one(&mut bench).id, Path::new("a.onnx"));
    let closed = bench.state("closed");
    fs::set_permissions(bench.at("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    let Some(InboxState::Refused { reason }) = closed else { panic!("{closed:?}") };
    assert_eq!(reason.code, "N0107");
    assert_eq!(one(&mut bench).id, Path::new("closed"));
}

#[test]
fn a_claim_onto_another_file_system_copies_and_removes() {
    let shm = Path::new("/dev/shm");
    let (bench, plan) = side_by_side();
    let device = |p: &Path| rustix::fs::stat(p).map(|s| s.st_dev).ok();
    if device(shm).is_none() || device(shm) == device(bench.dir.path()) {
        return; // only one file system is at hand
    }
    let other = tempfile::tempdir_in(shm).unwrap();
    let plan = MovePlan { dest: other.path().join("job/input"), ..plan };
    plan.execute(&NameRules::default()).unwrap();
    plan.execute(&NameRules::default()).unwrap();
    assert_eq!(listing(&plan.dest), MOVED);
    assert_eq!(listing(&bench.at("")), ["u/"]);

    let (bench, plan) = whole();
    let dest: PathBuf = other.path().join("job2/input");
    let plan = MovePlan { dest, ..plan };
    plan.execute(&NameRules::default()).unwrap();
    plan.execute(&NameRules::default()).unwrap();
    assert_eq!(listing(&plan.dest), ["net.ini=[sp]\nweights/a", "weights/", "weights/a=1"]);
    assert_eq!(listing(&bench.at("")), ["u/"]);
}
