//! Files of submissions, and digests that tell whether files are unchanged.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::tree::{FileEntry, Stamp};

/// A file of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropFile {
    /// Path relative to the submission's root, as the file system spells it.
    pub name: PathBuf,
    /// The inode as the scan saw it.
    pub stamp: Stamp,
}

/// Digest of names, inodes, sizes and times of files: equal as long as they are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of files in the given order.
    pub fn of<'f>(files: impl IntoIterator<Item = (&'f Path, &'f Stamp)>) -> Fingerprint {
        let mut hash = Sha256::new();
        for (name, stamp) in files {
            let name = name.as_os_str().as_bytes();
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            for word in [stamp.dev, stamp.ino, stamp.size] {
                hash.update(word.to_le_bytes());
            }
            hash.update(stamp.mtime_ns.to_le_bytes());
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hash.finalize()[..16]);
        Fingerprint(short)
    }

    /// The fingerprint of two groups of files together.
    pub(crate) fn and(self, other: Fingerprint) -> Fingerprint {
        let mut both = self.0;
        let turned = u128::from_le_bytes(other.0).rotate_left(1).to_le_bytes();
        both.iter_mut().zip(turned).for_each(|(a, b)| *a ^= b);
        Fingerprint(both)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

pub(crate) fn fingerprint(files: &[DropFile]) -> Fingerprint {
    Fingerprint::of(files.iter().map(|f| (f.name.as_path(), &f.stamp)))
}

/// Of presets, each with the path of its folder.
pub(crate) fn presets_fingerprint(presets: &[(&Path, &FileEntry)]) -> Fingerprint {
    Fingerprint::of(presets.iter().map(|(folder, file)| (*folder, &file.stamp)))
}
