//! Removes a folder that others have filled, whatever they made of it.
//!
//! Folders in folders are moved up before they are emptied. So two descriptors suffice for any depth,
//! and every entry is read twice at most. Only descriptors lead the way, so no link is followed.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmod, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A folder that may not be read.
const HANDLE: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// What it takes to empty a folder, and to move it.
const FULL: u32 = 0o700;

/// Removes a folder with all that is in it; it is no error if there is none. Of folders that belong
/// to the caller's user, missing rights are no obstacle. A link is removed itself.
///
/// # Errors
/// The first of the system's; what can be removed is removed nevertheless.
pub fn remove_tree(folder: &Path) -> io::Result<()> {
    let root = match open(CWD, folder) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        // A link or a file; or a file is in the way, and nothing is there.
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return match unlinkat(CWD, folder, AtFlags::empty()) {
                Err(Errno::NOTDIR) => Ok(()),
                done => gone(done),
            };
        }
        Err(e) => return Err(e.into()),
    };
    let mut names = 0;
    loop {
        let pass = empty(&root, &mut names)?;
        match (pass.removed, pass.failed) {
            (0, Some(e)) => return Err(e.into()),
            (0, None) => break,
            _ => {}
        }
    }
    gone(unlinkat(CWD, folder, AtFlags::REMOVEDIR))
}

fn gone(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// What a look through a folder achieved.
#[derive(Default)]
struct Pass {
    /// Entries that were removed, or moved up to be removed in the next pass.
    removed: u64,
    failed: Option<Errno>,
}

impl Pass {
    fn note(&mut self, done: Result<(), Errno>) {
        match done {
            Ok(()) => self.removed += 1,
            // Somebody else has removed it.
            Err(Errno::NOENT) => {}
            Err(e) => self.failed = self.failed.or(Some(e)),
        }
    }
}

/// Removes files, and folders with the files in them. Their folders become `root`'s.
fn empty(root: &OwnedFd, names: &mut u64) -> Result<Pass, Errno> {
    let mut pass = Pass::default();
    for_each(root, |name, is_folder| {
        if !is_folder {
            pass.note(unlinkat(root, name, AtFlags::empty()));
            return;
        }
        let inner = open(root, name).and_then(|folder| {
            for_each(&folder, |name, is_folder| {
                pass.note(match is_folder {
                    true => move_up(&folder, name, root, names),
                    false => unlinkat(&folder, name, AtFlags::empty()),
                });
            })
        });
        pass.note(inner.and_then(|()| unlinkat(root, name, AtFlags::REMOVEDIR)));
    })?;
    Ok(pass)
}

/// Gives a folder a name in `root` that is free; numbers that are taken are not tried again.
fn move_up(from: &OwnedFd, name: &CStr, root: &OwnedFd, names: &mut u64) -> Result<(), Errno> {
    // A folder changes its parent only if it may be written itself.
    open(from, name)?;
    loop {
        *names += 1;
        match renameat(from, name, root, names.to_string()) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            done => return done,
        }
    }
}

fn for_each(folder: &OwnedFd, mut act: impl FnMut(&CStr, bool)) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory),
            kind => kind == FileType::Directory,
        };
        act(name, is_folder);
    }
    Ok(())
}

/// Opens a folder for reading. If it is the caller's, it may be read and written from then on.
fn open(dir: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    match openat(&dir, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let handle = openat(&dir, name, HANDLE, Mode::empty())?;
            allow(&handle)?;
            openat(&handle, c".", FOLDER, Mode::empty())
        }
        done => {
            let folder = done?;
            allow(&folder)?;
            Ok(folder)
        }
    }
}

fn allow(folder: &OwnedFd) -> Result<(), Errno> {
    let found = fstat(folder)?;
    if found.st_mode & FULL == FULL || found.st_uid != geteuid().as_raw() {
        return Ok(());
    }
    // The descriptor, and not a path: it may be one that `fchmod` does not take.
    chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::from_raw_mode(FULL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn where_a_file_is_in_the_way_nothing_is_to_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        remove_tree(&dir.path().join("file/below")).unwrap();
        remove_tree(&dir.path().join("none/below")).unwrap();
        assert!(dir.path().join("file").exists());
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("tree/a/b")).unwrap();
        fs::create_dir(at("kept")).unwrap();
        fs::write(at("kept/file"), "kept").unwrap();
        for link in ["tree/l", "tree/a/l", "tree/a/b/l", "top"] {
            symlink(at("kept"), at(link)).unwrap();
        }
        // Names that the removal itself would give.
        fs::create_dir_all(at("tree/1/2/3")).unwrap();
        fs::write(at("tree/2"), "").unwrap();
        remove_tree(&at("tree")).unwrap();
        remove_tree(&at("top")).unwrap();
        remove_tree(&at("nothing")).unwrap();
        assert_eq!(fs::read(at("kept/file")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// As another user than root, whom no rights keep out.
    #[test]
    #[ignore = "started by the test below"]
    fn as_a_plain_user() {
        let root = std::path::PathBuf::from(std::env::var_os("ONNXD_REMOVE_TEST_DIR").unwrap());
        let close = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let tree = root.join("tree");
        for (n, mode) in [0o000, 0o100, 0o400, 0o500, 0o200].into_iter().enumerate() {
            let inner = tree.join(format!("{n}/x/y/z"));
            fs::create_dir_all(&inner).unwrap();
            fs::write(inner.join("file"), "").unwrap();
            for folder in inner.ancestors().take(4) {
                close(folder, mode).unwrap();
            }
        }
        close(&tree, 0o000).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn rights_of_own_folders_are_no_obstacle() {
        use std::os::unix::process::CommandExt;
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        // Another user may not reach the program where it was built.
        let program = dir.path().join("test");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let mut test = Command::new(program);
        test.args(["remove::tests::as_a_plain_user", "--exact", "--ignored"]);
        test.env("ONNXD_REMOVE_TEST_DIR", dir.path());
        if geteuid().is_root() {
            test.uid(65_534).gid(65_534);
        }
        let ended = test.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    }

    /// Deeper than any stack and any path.
    #[test]
    fn depth_has_no_limit() {
        const DEPTH: usize = 3_000;
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = openat(CWD, &tree, FOLDER, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            mkdirat(&at, c"d", Mode::from_raw_mode(0o700)).unwrap();
            at = openat(&at, c"d", FOLDER, Mode::empty()).unwrap();
        }
        drop(at);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    fn time_of_removal(folders: usize, files: usize) -> Duration {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..folders {
            let folder = dir.path().join(format!("tree/{n}/{n}"));
            fs::create_dir_all(&folder).unwrap();
            (0..files).for_each(|n| fs::write(folder.join(n.to_string()), "").unwrap());
        }
        let begin = Instant::now();
        remove_tree(&dir.path().join("tree")).unwrap();
        begin.elapsed()
    }

    #[test]
    #[ignore = "prints how times grow; a loaded machine gives other figures"]
    fn times_grow_with_the_entries() {
        for n in [1, 4, 16] {
            let wide = time_of_removal(1, 20_000 * n).as_secs_f64() * 1e3;
            let many = time_of_removal(5_000 * n, 1).as_secs_f64() * 1e3;
            println!("{n}: one folder of files {wide:.0} ms, folders of one file {many:.0} ms");
        }
    }
}
