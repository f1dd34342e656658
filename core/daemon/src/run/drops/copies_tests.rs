//! What a dropper can do to his drop after it was taken, and what the daemon makes of it.

use std::os::unix::fs::{PermissionsExt, symlink};

use onnxd_intake::FileSet;
use onnxd_intake::names::NameRules;
use onnxd_proto::onnxd::InputFile;
use sha2::{Digest, Sha256};

use super::*;
use crate::run::layout::Folders;

/// A job whose drop `net/{net.onnx,w/a}` has been claimed.
fn claimed() -> (tempfile::TempDir, JobDir, MovePlan) {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let dir = Folders::below(root.path()).job("01J");
    make_private_dir(dir.path()).unwrap();
    fs::create_dir_all(at("inbox/net/w")).unwrap();
    fs::write(at("inbox/net/net.onnx"), "model").unwrap();
    fs::write(at("inbox/net/w/a"), "1 2 3").unwrap();
    let stamp = |name: &str| (&rustix::fs::lstat(at("inbox").join(name)).unwrap()).into();
    let taken = |name: &str| Taken { name: name.into(), stamp: stamp(&format!("net/{name}")) };
    let set = FileSet {
        inbox: at("inbox"),
        root: "net".into(),
        whole: Some(stamp("net")),
        files: ["net.onnx", "w/a"].map(taken).into(),
        marker: None,
    };
    let plan = set.plan(&dir.originals());
    plan.save(&dir.claim()).unwrap();
    plan.execute(&NameRules::default()).unwrap();
    (root, dir, plan)
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect()
}

fn code(done: Result<Vec<Copied>, Diagnostic>) -> String {
    done.unwrap_err().code.to_string()
}

#[test]
fn what_is_hashed_is_a_copy_that_nobody_writes() {
    let (_root, dir, plan) = claimed();
    let known = take(&plan, &dir, Take::Copy).unwrap();
    assert_eq!(known[0], Copied { bytes: 5, sha256: sha256("model") });
    fs::write(dir.originals().join("net.onnx"), "other").unwrap();
    assert_eq!(fs::read(dir.input().join("net.onnx")).unwrap(), b"model");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.input().join("w/a")), 0o400);
    assert_eq!((mode(&dir.input()), mode(dir.path())), (0o700, 0o700));
    assert!(!dir.input_part().exists());
    assert_eq!(unchanged(&plan, &dir).unwrap_err().code, "N0113");
}

#[test]
fn a_link_in_place_of_a_file_or_a_folder_is_not_followed() {
    let (root, dir, plan) = claimed();
    let secret = root.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("a"), "1 2 3").unwrap();
    let folder = dir.originals().join("w");
    fs::remove_file(folder.join("a")).unwrap();
    symlink(secret.join("a"), folder.join("a")).unwrap();
    assert_eq!(code(take(&plan, &dir, Take::Copy)), "N0108");
    fs::remove_dir_all(&folder).unwrap();
    symlink(&secret, &folder).unwrap();
    assert_eq!(code(take(&plan, &dir, Take::Copy)), "N0108");
    assert_eq!(code(take(&plan, &dir, Take::Move)), "N0108");
    assert!(!dir.input().exists());
}

#[test]
fn what_changed_since_the_claim_is_not_taken() {
    type Change = fn(&Path);
    let changes: [Change; 4] = [
        |file| fs::write(file, "1 2 4").unwrap(),
        |file| fs::write(file, "1 2 3 4").unwrap(),
        |file| fs::remove_file(file).unwrap(),
        |file| {
            // Same size and time, another inode.
            let time = fs::metadata(file).unwrap().modified().unwrap();
            fs::write(file.with_file_name("b"), "4 5 6").unwrap();
            let other = File::options().write(true).open(file.with_file_name("b")).unwrap();
            other.set_modified(time).unwrap();
            fs::rename(file.with_file_name("b"), file).unwrap();
        },
    ];
    for change in changes {
        let (_root, dir, plan) = claimed();
        assert!(unchanged(&plan, &dir).is_ok());
        change(&dir.originals().join("w/a"));
        assert_eq!(code(take(&plan, &dir, Take::Copy)), "N0113");
        assert_eq!(unchanged(&plan, &dir).unwrap_err().code, "N0113");
    }
}

#[test]
fn a_drop_of_our_own_user_can_be_read_in_place() {
    let (_root, dir, plan) = claimed();
    let known = take(&plan, &dir, Take::Move).unwrap();
    assert_eq!(known[1].sha256, sha256("1 2 3"));
    assert!(!dir.originals().exists() && dir.kept() == dir.input());
    assert!(unchanged(&plan, &dir).is_ok());
    // After a crash before the digests were recorded.
    assert_eq!(take(&plan, &dir, Take::Copy).unwrap(), known);
    fs::write(dir.input().join("net.onnx"), "other").unwrap();
    assert_eq!(code(take(&plan, &dir, Take::Move)), "N0113");
}

/// Only root can give files away.
#[test]
fn a_drop_of_another_user_is_copied_whatever_the_setting_says() {
    let (_root, dir, plan) = claimed();
    let folder = dir.originals().join("w");
    if std::os::unix::fs::chown(&folder, Some(65534), None).is_err() {
        return;
    }
    take(&plan, &dir, Take::Move).unwrap();
    assert!(dir.originals().exists() && dir.input().exists());
}

#[test]
fn a_hard_link_to_a_file_of_another_user_is_refused() {
    let (root, dir, plan) = claimed();
    let file = dir.originals().join("net.onnx");
    fs::hard_link(&file, root.path().join("second")).unwrap();
    assert!(take(&plan, &dir, Take::Copy).is_ok(), "of the folder's own user");
    if std::os::unix::fs::chown(&file, Some(65534), None).is_ok() {
        assert_eq!(code(take(&plan, &dir, Take::Copy)), "N0108");
    }
}

/// A drop of single files: they lie in a folder of the daemon's own once they are taken.
#[test]
fn a_hard_link_that_was_dropped_alone_belongs_to_its_folder_in_the_inbox() {
    let (root, dir, plan) = claimed();
    let (inbox, file) = (root.path().join("inbox"), dir.originals().join("net.onnx"));
    fs::hard_link(&file, root.path().join("second")).unwrap();
    let set = FileSet { root: PathBuf::new(), whole: None, ..plan.set };
    let plan = MovePlan { set, ..plan };
    assert!(take(&plan, &dir, Take::Copy).is_ok(), "of the folder's own user");
    if std::os::unix::fs::chown(&inbox, Some(65534), None).is_err() {
        return;
    }
    assert_eq!(code(take(&plan, &dir, Take::Copy)), "N0108", "of the daemon's user");
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    assert!(take(&plan, &dir, Take::Copy).is_ok(), "of whoever owns the folder");
}

#[test]
fn a_copy_that_is_missing_is_made_again_and_compared() {
    let (_root, dir, plan) = claimed();
    let known = take(&plan, &dir, Take::Copy).unwrap();
    let file = |(planned, copied): (&Taken, &Copied)| InputFile {
        name: planned.name.to_string_lossy().into(),
        sha256: copied.sha256.clone(),
        ..InputFile::default()
    };
    let files = plan.set.files.iter().zip(&known).map(file).collect();
    let mut job = Job { id: "01J".into(), files, ..Job::default() };
    fs::create_dir(dir.input_part()).unwrap();
    forget(&dir, false).unwrap();
    assert!(dir.input().exists() && !dir.input_part().exists());
    forget(&dir, true).unwrap();
    assert!(!dir.input().exists());
    ensure(&job, &dir).unwrap();
    assert_eq!(fs::read(dir.input().join("w/a")).unwrap(), b"1 2 3");
    forget(&dir, true).unwrap();
    job.files[1].sha256 = sha256("another");
    assert_eq!(ensure(&job, &dir).unwrap_err().code, "N0113");
    assert!(!dir.input().exists());
}

#[test]
fn copies_are_of_one_start_of_the_machine() {
    let state = tempfile::tempdir().unwrap();
    assert!(may_be_lost(state.path()));
    remember_boot(state.path());
    assert!(!may_be_lost(state.path()));
    fs::write(boot_file(state.path()), "another").unwrap();
    assert!(may_be_lost(state.path()));
}
