//! Opens paths that others can change, without following a link anywhere on the way.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fsync, mkdirat, openat, openat2};
use rustix::io::Errno;

/// Nothing on the way may be a link, and nothing may lead out of the folder.
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// A folder that is only passed through; it need not be readable.
const PASSED: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Not blocking: a named pipe would wait for a writer for ever.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens `path`, relative to the folder `dir`, by one system call, or component by component where
/// the kernel or a container refuses that call.
///
/// # Errors
/// [`Errno::LOOP`] or [`Errno::NOTDIR`] for a link; [`Errno::INVAL`] for a path that is empty or
/// has other than plain components; else the system's.
pub fn beneath(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.as_os_str().is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_)))
    {
        return Err(Errno::INVAL);
    }
    match openat2(&dir, path, flags, Mode::empty(), INSIDE) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => stepwise(&dir, path, flags),
        done => done,
    }
}

fn stepwise(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at = None;
    let above = path.parent().unwrap_or(Path::new(""));
    for component in above.components() {
        let name = component.as_os_str();
        at = Some(match &at {
            None => openat(&dir, name, PASSED, Mode::empty())?,
            Some(at) => openat(at, name, PASSED, Mode::empty())?,
        });
    }
    let (name, flags) = (path.file_name().unwrap_or_default(), flags | OFlags::NOFOLLOW);
    match &at {
        None => openat(&dir, name, flags, Mode::empty()),
        Some(at) => openat(at, name, flags, Mode::empty()),
    }
}

/// The folder and the rest that a path is relative to: the root, or the current folder.
fn base(path: &Path) -> Result<(OwnedFd, &Path), Errno> {
    match path.strip_prefix("/") {
        Ok(below) => Ok((openat(CWD, "/", PASSED, Mode::empty())?, below)),
        Err(_) => Ok((openat(CWD, ".", PASSED, Mode::empty())?, path)),
    }
}

/// Opens a folder for reading; no component of its path may be a link.
///
/// # Errors
/// As [`beneath`].
pub fn folder(path: &Path) -> io::Result<OwnedFd> {
    let (root, below) = base(path)?;
    match below.as_os_str().is_empty() {
        true => Ok(openat(root, ".", FOLDER, Mode::empty())?),
        false => Ok(beneath(root, below, FOLDER)?),
    }
}

/// Opens a folder for reading by a path of which only the last component can be others'.
///
/// # Errors
/// The system's, also for a link.
pub fn own_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, FOLDER, Mode::empty())?)
}

/// Opens a regular file for reading by a path of which only the last component can be others'.
///
/// # Errors
/// The system's, also for a link; also if it is no regular file.
pub fn own_regular(path: &Path) -> io::Result<File> {
    checked(openat(CWD, path, READ, Mode::empty())?)
}

/// Opens a folder below another one for reading; the empty path is the folder itself.
///
/// # Errors
/// As [`beneath`].
pub fn folder_beneath(dir: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    match path.as_os_str().is_empty() {
        true => Ok(openat(dir, ".", FOLDER, Mode::empty())?),
        false => Ok(beneath(dir, path, FOLDER)?),
    }
}

/// Opens a folder as a handle for paths below it, and makes what is missing of its path, durably. No
/// component may be a link.
///
/// # Errors
/// As [`beneath`].
pub fn make_folder(path: &Path) -> io::Result<OwnedFd> {
    let (mut at, below) = base(path)?;
    for component in below.components() {
        let name = component.as_os_str();
        at = match openat(&at, name, PASSED, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(e) => return Err(e.into()),
                }
                // Some file systems do not sync folders.
                let _ = openat(&at, ".", FOLDER, Mode::empty()).and_then(fsync);
                openat(&at, name, PASSED, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(at)
}

/// Opens a regular file for reading; no component of its path may be a link.
///
/// # Errors
/// As [`beneath`]; also if it is no regular file.
pub fn regular(path: &Path) -> io::Result<File> {
    let (root, below) = base(path)?;
    regular_beneath(root, below)
}

/// Opens a regular file below a folder for reading.
///
/// # Errors
/// As [`beneath`]; also if it is no regular file.
pub fn regular_beneath(dir: impl AsFd, path: &Path) -> io::Result<File> {
    checked(beneath(dir, path, READ)?)
}

fn checked(opened: OwnedFd) -> io::Result<File> {
    let file = File::from(opened);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    type Open = fn(&OwnedFd, &Path) -> Result<OwnedFd, Errno>;

    /// Both ways of opening hold the same promises.
    #[test]
    fn no_link_is_followed_and_nothing_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("in/sub")).unwrap();
        fs::write(at("in/sub/a"), "mine").unwrap();
        fs::write(at("secret"), "not mine").unwrap();
        symlink(at("secret"), at("in/last")).unwrap();
        symlink(dir.path(), at("in/up")).unwrap();
        symlink("sub", at("in/inner")).unwrap();
        let inside = folder(&at("in")).unwrap();
        let ways: [Open; 2] =
            [|dir, path| beneath(dir, path, READ), |dir, path| stepwise(dir, path, READ)];
        for open in ways {
            let mut text = String::new();
            let file = open(&inside, Path::new("sub/a")).unwrap();
            File::from(file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "mine");
            for link in ["last", "up/secret", "inner/a"] {
                let refused = open(&inside, Path::new(link)).unwrap_err();
                assert!(matches!(refused, Errno::LOOP | Errno::NOTDIR), "{link}: {refused}");
            }
        }
        for bad in ["", "../secret", "sub/../../secret", "/etc/passwd"] {
            assert_eq!(beneath(&inside, Path::new(bad), READ).unwrap_err(), Errno::INVAL, "{bad}");
        }
    }

    #[test]
    fn paths_are_opened_only_where_they_have_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("in")).unwrap();
        fs::write(real.join("in/a"), "1").unwrap();
        symlink("in", real.join("link")).unwrap();
        assert!(regular(&real.join("in/a")).is_ok());
        assert!(regular(&real.join("link/a")).is_err());
        assert!(folder(&real.join("link")).is_err());
        assert!(folder(Path::new("/")).is_ok());
        assert!(regular(Path::new("Cargo.toml")).is_ok(), "relative to the current folder");
    }

    #[test]
    fn folders_are_made_but_not_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let made = File::from(make_folder(&real.join("a/b/c")).unwrap());
        assert!(made.metadata().unwrap().is_dir() && real.join("a/b/c").is_dir());
        assert!(make_folder(&real.join("a/b/c")).is_ok());
        symlink(real.join("a"), real.join("link")).unwrap();
        fs::write(real.join("file"), "").unwrap();
        for bad in ["link", "link/b", "link/new", "file/new"] {
            assert!(make_folder(&real.join(bad)).is_err(), "{bad}");
        }
        assert!(!real.join("a/new").exists());
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        rustix::fs::mknodat(CWD, real.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for other in [real.join("pipe"), real.clone(), "/dev/null".into()] {
            let why = regular(&other).unwrap_err();
            assert_eq!(why.to_string(), "it is no regular file");
        }
    }
}
