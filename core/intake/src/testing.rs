//! Hand-made trees for the tests of the pure parts.

use std::path::PathBuf;
use std::time::Instant;

use crate::tree::{FileEntry, Folder, SeenTimes, Stamp};

pub(crate) fn stamp(ino: u64, size: u64) -> Stamp {
    let mtime_ns = i128::from(size);
    Stamp { dev: 1, ino, size, mtime_ns, ctime_ns: mtime_ns, mode: 0o100_644, uid: 0, gid: 0 }
}

pub(crate) fn file(name: &str, size: u64) -> FileEntry {
    let ino = name.bytes().fold(7, |h, b| h * 31 % 1_000_003 + u64::from(b));
    FileEntry { name: name.into(), stamp: stamp(ino, size), seen: SeenTimes::new(Instant::now()) }
}

pub(crate) fn folder(path: &str, files: &[FileEntry], folders: &[Folder]) -> Folder {
    let mut folder = Folder::new(PathBuf::from(path), stamp(1, 0), Instant::now());
    folder.files = files.to_vec();
    folder.folders = folders.to_vec();
    folder
}
