use super::*;
use std::collections::BTreeSet;

/// Folders below `dir`, and a job in `publishing` whose result is staged.
fn site(dir: &Path, outbox: &Path) -> (Folders, Job) {
    let folders = Folders { outbox: outbox.to_owned(), ..Folders::below(dir) };
    let (id, name, lease) = ("01J".to_owned(), "net".to_owned(), 3);
    let mut job = Job { id, name, lease, folder: "team".into(), ..Job::default() };
    let staged = folders.job("01J").result(3);
    fs::create_dir_all(&staged).unwrap();
    fs::write(staged.join("model.onnx"), "m").unwrap();
    job.staged = staged.to_string_lossy().into_owned();
    job.published = outbox.join("team/net").to_string_lossy().into_owned();
    (folders, job)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// As the loop does: what is to be on record is recorded, and it is tried again.
fn follow(job: &mut Job, folders: &Folders) -> usize {
    for n in 1..10 {
        match place(job, folders).unwrap() {
            Placed::There => return n,
            Placed::Elsewhere { staged, dest } => {
                job.staged = staged.to_string_lossy().into_owned();
                job.published = dest.to_string_lossy().into_owned();
            }
        }
    }
    panic!("{} does not get to {}", job.staged, job.published)
}

#[test]
fn a_result_that_was_taken_away_is_not_brought_again() {
    let dir = tempfile::tempdir().unwrap();
    let (folders, mut job) = site(dir.path(), &dir.path().join("outbox"));
    assert_eq!(look(job.staged.as_ref()).unwrap(), Staged::Here);
    assert_eq!(follow(&mut job, &folders), 1);
    assert_eq!(look(job.staged.as_ref()).unwrap(), Staged::Moved);
    fs::rename(&job.published, dir.path().join("taken")).unwrap();
    // The answer of the first try was lost.
    assert_eq!(place(&job, &folders).unwrap(), Placed::There);
    assert!(names(&folders.outbox.join("team")).is_empty());
    fs::remove_dir_all(folders.job("01J").path()).unwrap();
    assert_eq!(look(job.staged.as_ref()).unwrap(), Staged::Gone);
    assert!(place(&job, &folders).is_err());
}

#[test]
fn a_taken_name_is_recorded_before_another_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let (folders, mut job) = site(dir.path(), &dir.path().join("outbox"));
    for taken in ["net", "net.01J"] {
        fs::create_dir_all(folders.outbox.join("team").join(taken)).unwrap();
    }
    let staged = PathBuf::from(&job.staged);
    let dest = folders.outbox.join("team/net.01J.2");
    let elsewhere = Placed::Elsewhere { staged: staged.clone(), dest: dest.clone() };
    assert_eq!(place(&job, &folders).unwrap(), elsewhere);
    assert!(staged.exists() && !dest.exists(), "nothing was renamed");
    assert_eq!(follow(&mut job, &folders), 2);
    assert_eq!(names(&dest), BTreeSet::from(["model.onnx".into()]));
}

/// `/dev/shm` is a file system of its own.
#[test]
fn across_file_systems_the_copy_is_recorded_before_it_is_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let (folders, mut job) = site(dir.path(), other.path());
    // What an earlier copy left.
    let passage = folders.passage(&job);
    fs::create_dir_all(passage.join("result.3/half")).unwrap();
    let first = PathBuf::from(&job.staged);
    let Ok(Placed::Elsewhere { staged, dest }) = place(&job, &folders) else {
        assert!(dir.path().starts_with("/dev/shm"), "it is another file system");
        return;
    };
    assert!(first.exists() && staged.starts_with(&passage) && !dest.exists());
    assert_eq!(names(&staged), BTreeSet::from(["model.onnx".into()]));
    job.staged = staged.to_string_lossy().into_owned();
    assert_eq!(follow(&mut job, &folders), 1);
    // The record decides, not what is left in the job's folder.
    assert_eq!(look(&staged).unwrap(), Staged::Moved);
    assert!(first.exists() && dest.join("model.onnx").exists());
    // An outbox that is not mounted does not look like a delivery.
    fs::remove_dir_all(&passage).unwrap();
    assert_eq!(look(&staged).unwrap(), Staged::Gone);
}

#[test]
fn what_stands_in_place_of_a_passage_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (folders, job) = site(&root, &root.join("outbox"));
    let (passage, elsewhere) = (folders.passage(&job), root.join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    through(&passage, Path::new("result.3"), |part| {
        fs::rename(&passage, root.join("moved"))?;
        std::os::unix::fs::symlink(&elsewhere, &passage)?;
        fs::create_dir(part)
    })
    .unwrap();
    assert!(names(&elsewhere).is_empty());
    assert_eq!(names(&root.join("moved")), BTreeSet::from(["result.3".into()]));
}

/// Whoever takes results away may put anything in place of a folder; nothing of ours is there then.
#[test]
fn a_passage_is_removed_where_it_is_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (folders, job) = site(&root, &root.join("outbox"));
    remove_passage(&job, &folders).unwrap();
    fs::create_dir_all(folders.passage(&job).join("result.3")).unwrap();
    remove_passage(&job, &folders).unwrap();
    assert!(names(&folders.outbox.join("team")).is_empty());
    let elsewhere = root.join("elsewhere").join(folders.passage(&job).file_name().unwrap());
    fs::create_dir_all(&elsewhere).unwrap();
    fs::remove_dir(folders.outbox.join("team")).unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere"), folders.outbox.join("team")).unwrap();
    remove_passage(&job, &folders).unwrap();
    assert!(elsewhere.exists());
    fs::remove_file(folders.outbox.join("team")).unwrap();
    fs::write(folders.outbox.join("team"), "no folder").unwrap();
    remove_passage(&job, &folders).unwrap();
}
