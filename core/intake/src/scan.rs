//! Reads the inbox: one `readdir` per folder and one `fstatat` per entry, never following links.
//!
//! What a scan saw is the truth; file system events only say when to scan.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use onnxd_diagnostics::Code;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use crate::downloads;
use crate::names::{NameClass, NameRules};
use crate::tree::{FileEntry, Folder, SeenTimes, Stamp, Unread};

/// Bounds of one scan. What lies beyond is reported and never taken.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Folders below the inbox.
    pub depth_max: usize,
    /// Entries of all kinds.
    pub entries_max: usize,
}

/// Deepest folder below the inbox that is read.
pub const DEPTH_MAX: usize = 16;
/// Most entries that are kept from one scan (about 250 bytes each).
pub const ENTRIES_MAX: usize = 200_000;

impl Default for Limits {
    fn default() -> Limits {
        Limits { depth_max: DEPTH_MAX, entries_max: ENTRIES_MAX }
    }
}

const OPEN_FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Reads `root` and everything below it. Fails only if `root` itself cannot be read.
pub fn scan(root: &Path, names: &NameRules, limits: Limits) -> Result<Folder, Errno> {
    scan_opened(openat(CWD, root, OPEN_FOLDER, Mode::empty())?, names, limits)
}

/// The same for a folder that is open already.
pub(crate) fn scan_opened(
    root: OwnedFd,
    names: &NameRules,
    limits: Limits,
) -> Result<Folder, Errno> {
    let mut walk = FolderWalk { names, limits, entries: 0, now: Instant::now() };
    walk.folder(root, PathBuf::new(), 0)
}

struct FolderWalk<'n> {
    names: &'n NameRules,
    limits: Limits,
    entries: usize,
    now: Instant,
}

impl FolderWalk<'_> {
    fn folder(&mut self, fd: OwnedFd, path: PathBuf, depth: usize) -> Result<Folder, Errno> {
        let stamp = Stamp::from(&fstat(&fd)?);
        let mut folder = Folder::new(path, stamp, self.now);
        let mut dir = Dir::new(fd)?;
        let mut subfolders = Vec::new();
        while let Some(entry) = dir.read() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    folder.unread = Some(failed(e));
                    break;
                }
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.entries == self.limits.entries_max {
                let most = self.limits.entries_max;
                folder.unread = Some(limit(format!("the inbox holds more than {most} entries")));
                break;
            }
            self.entries += 1;
            let name = OsString::from_vec(name.to_vec());
            self.entry(&dir, name, entry.file_type(), &mut folder, &mut subfolders)?;
        }
        for name in subfolders {
            let below = self.subfolder(&dir, &name, folder.path.join(&name), depth + 1);
            folder.folders.extend(below);
        }
        sort(&mut folder);
        Ok(folder)
    }

    fn entry(
        &mut self,
        dir: &Dir,
        name: OsString,
        kind: FileType,
        folder: &mut Folder,
        subfolders: &mut Vec<OsString>,
    ) -> Result<(), Errno> {
        let class = self.names.classify(&name);
        if class == NameClass::Litter {
            if name == downloads::HIDDEN {
                self.downloads(dir, folder)?;
            }
            return Ok(());
        }
        if kind == FileType::Directory && class == NameClass::Plain {
            subfolders.push(name);
            return Ok(());
        }
        let stat = match statat(dir.fd()?, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()), // gone since it was listed
            Err(e) => {
                let why = format!("{}: {e}", name.to_string_lossy());
                folder.unread = Some(Unread { code: Code::Unreadable, why });
                return Ok(());
            }
        };
        let file = |name| FileEntry { name, stamp: (&stat).into(), seen: SeenTimes::new(self.now) };
        match FileType::from_raw_mode(stat.st_mode) {
            _ if class == NameClass::Preset => folder.preset = Some(file(name)),
            FileType::RegularFile => {
                let file = file(name);
                match class {
                    NameClass::Transient => folder.transient.push(file),
                    _ => folder.files.push(file),
                }
            }
            // File systems without types in their listings end up here.
            FileType::Directory if class == NameClass::Plain => subfolders.push(name),
            // What is being unpacked or copied there is still to come.
            FileType::Directory if class == NameClass::Transient => {
                folder.transient.push(file(name));
            }
            FileType::Directory => {}
            FileType::Symlink => folder.links.push(name),
            _ => folder.specials.push(name),
        }
        Ok(())
    }

    /// What is being fetched into a folder; each is one of its files under a temporary name.
    fn downloads(&mut self, dir: &Dir, folder: &mut Folder) -> Result<(), Errno> {
        let seen = SeenTimes::new(self.now);
        for (path, stamp) in downloads::hidden(dir.fd()?) {
            if self.entries < self.limits.entries_max {
                self.entries += 1;
                folder.transient.push(FileEntry { name: path.into_os_string(), stamp, seen });
            }
        }
        Ok(())
    }

    fn subfolder(
        &mut self,
        dir: &Dir,
        name: &OsStr,
        path: PathBuf,
        depth: usize,
    ) -> Option<Folder> {
        let unread = |why: Unread| {
            let stat = statat(dir.fd().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let mut folder = Folder::new(path.clone(), (&stat).into(), self.now);
            folder.unread = Some(why);
            Some(folder)
        };
        if depth > self.limits.depth_max {
            let most = self.limits.depth_max;
            return unread(limit(format!("it is nested deeper than {most} folders")));
        }
        let opened = dir.fd().and_then(|fd| openat(fd, name, OPEN_FOLDER, Mode::empty()));
        match opened {
            Ok(fd) => match self.folder(fd, path.clone(), depth) {
                Ok(folder) => Some(folder),
                Err(e) => {
                    let stat = statat(dir.fd().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                    let mut folder = Folder::new(path, (&stat).into(), self.now);
                    folder.unread = Some(failed(e));
                    Some(folder)
                }
            },
            // Gone, or replaced by something else, since it was listed: the next scan tells.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(e) => unread(failed(e)),
        }
    }
}

fn limit(why: String) -> Unread {
    Unread { code: Code::SubmissionTooLarge, why }
}

fn failed(e: Errno) -> Unread {
    Unread { code: Code::Unreadable, why: format!("reading it failed: {e}") }
}

fn sort(folder: &mut Folder) {
    folder.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    folder.transient.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    folder.folders.sort_unstable_by(|a, b| a.name().as_bytes().cmp(b.name().as_bytes()));
    folder.links.sort_unstable();
    folder.specials.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn sorts_entries_into_their_kinds() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("net/weights")).unwrap();
        fs::create_dir(at(".git")).unwrap();
        fs::create_dir(at("@eaDir")).unwrap();
        fs::write(at("net/net.ini"), "x").unwrap();
        fs::write(at("net/.net.ini.aB3dE9"), "x").unwrap();
        fs::write(at("net/weights/a.syntxt"), "1 2").unwrap();
        fs::write(at("b.onnx"), "xyz").unwrap();
        fs::write(at("a.onnx"), "x").unwrap();
        symlink("/etc", at("etc")).unwrap();
        symlink("a.onnx", at("link.onnx")).unwrap();
        let fifo = at("pipe");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();

        let tree = scan(dir.path(), &NameRules::default(), Limits::default()).unwrap();
        let names: Vec<_> = tree.files.iter().map(|f| f.name.to_str().unwrap()).collect();
        assert_eq!(names, ["a.onnx", "b.onnx"]);
        assert_eq!(tree.file(OsStr::new("b.onnx")).unwrap().stamp.size, 3);
        assert_eq!(tree.links, ["etc", "link.onnx"]);
        assert_eq!(tree.specials, ["pipe"]);
        assert_eq!(tree.folders.len(), 1);
        let net = tree.folder(OsStr::new("net")).unwrap();
        assert_eq!(net.transient.len(), 1);
        assert!(net.find(Path::new("weights/a.syntxt")).is_some());
        assert!(net.find(Path::new("weights/b.syntxt")).is_none());
    }

    #[test]
    fn limits_are_reported_not_exceeded() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        let tree =
            scan(dir.path(), &NameRules::default(), Limits { depth_max: 2, entries_max: 100 })
                .unwrap();
        let (folder, why) = tree.first_unread().unwrap();
        assert_eq!(folder.path, Path::new("a/b/c"));
        assert!(why.why.contains("deeper than 2"), "{why:?}");

        for i in 0..20 {
            fs::write(dir.path().join(format!("{i}.onnx")), "").unwrap();
        }
        let tree =
            scan(dir.path(), &NameRules::default(), Limits { depth_max: 9, entries_max: 10 })
                .unwrap();
        assert!(tree.files.len() <= 10);
        assert!(tree.unread.unwrap().why.contains("more than 10"));
    }

    #[test]
    fn a_symbolic_link_is_no_inbox() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        assert!(scan(&dir.path().join("link"), &NameRules::default(), Limits::default()).is_err());
        assert!(scan(&dir.path().join("real"), &NameRules::default(), Limits::default()).is_ok());
    }
}
