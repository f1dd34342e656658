//! Two files with the same bytes, so that damage to one of them costs nothing.

use crate::frame::scan;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What both files say together.
#[derive(Debug, Default)]
pub(crate) struct Both {
    pub(crate) bytes: Vec<u8>,
    /// One of the files has other bytes.
    pub(crate) differ: bool,
}

/// Reads both files; what is unreadable in one is taken from the other.
pub(crate) fn read(path: &Path, copy: &Path) -> io::Result<Both> {
    match (read_if_there(path)?, read_if_there(copy)?) {
        (Some(bytes), Some(other)) if bytes == other => Ok(Both { bytes, differ: false }),
        (Some(bytes), Some(other)) => Ok(Both { bytes: union(bytes, &other), differ: true }),
        (Some(bytes), None) | (None, Some(bytes)) => Ok(Both { bytes, differ: true }),
        (None, None) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Reads one file, and the other only where that is damaged.
pub(crate) fn read_either(path: &Path, copy: &Path) -> io::Result<Vec<u8>> {
    if let Some(bytes) = read_if_there(path)? {
        let scan = scan(&bytes);
        if scan.holes.is_empty() && scan.end == bytes.len() {
            return Ok(bytes);
        }
    }
    Ok(read(path, copy)?.bytes)
}

/// `bytes`, with what is unreadable in them from `other`. Frames have checksums, so what is still
/// wrong afterwards is noticed.
fn union(mut bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
    let (holes, end) = {
        let scan = scan(&bytes);
        (scan.holes, scan.end)
    };
    for hole in holes {
        if let Some(sound) = other.get(hole.clone()) {
            bytes[hole].copy_from_slice(sound);
        }
    }
    if let Some(rest) = other.get(end..) {
        bytes.truncate(end);
        bytes.extend_from_slice(rest);
    }
    bytes
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Writes both files, each whole or not at all, and brings them to the disk.
pub(crate) fn write(path: &Path, copy: &Path, bytes: &[u8]) -> io::Result<()> {
    for path in [copy, path] {
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let part = unfinished(path);
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        crate::crash::point("pack written");
        file.sync_all()?;
        crate::crash::point("pack synced");
        fs::rename(&part, path)?;
        crate::crash::point("pack renamed");
        File::open(folder)?.sync_all()?;
    }
    crate::crash::point("pack in place");
    Ok(())
}

/// Removes both files, and those that a crash left unfinished.
pub(crate) fn remove(path: &Path, copy: &Path) -> io::Result<()> {
    for path in [path.to_owned(), copy.to_owned(), unfinished(path), unfinished(copy)] {
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameKind, push};

    fn frames() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (seq, text) in [(1, "one"), (2, "two"), (3, "three")] {
            push(&mut bytes, seq, FrameKind::Records, text.as_bytes());
        }
        bytes
    }

    #[test]
    fn damage_to_one_file_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("a/1.pack"), dir.path().join("b/1.pack"));
        let sound = frames();
        write(&path, &copy, &sound).unwrap();
        assert!(!read(&path, &copy).unwrap().differ);
        for (damaged, other) in [(&path, &copy), (&copy, &path)] {
            for at in 0..sound.len() {
                let mut wrong = sound.clone();
                wrong[at] ^= 0x11;
                for wrong in [wrong, sound[..at].to_vec()] {
                    fs::write(damaged, wrong).unwrap();
                    let both = read(&path, &copy).unwrap();
                    assert!(both.differ && both.bytes == sound, "byte {at}");
                    let either = read_either(&path, &copy).unwrap();
                    assert!(either == sound || (at < sound.len() && either == sound[..at]));
                }
            }
            fs::remove_file(damaged).unwrap();
            assert_eq!(read(&path, &copy).unwrap().bytes, sound);
            fs::copy(other, damaged).unwrap();
        }
        remove(&path, &copy).unwrap();
        assert!(read(&path, &copy).is_err());
    }
}
