//! Which files a claim moves where.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::claim_error::{ClaimError, system};
use crate::file::{DropFile, Fingerprint, fingerprint};
use crate::names::NameRules;
use crate::scan::{ENTRIES_MAX, Limits, scan_opened};
use crate::tree::Stamp;

/// Files of the inbox that are moved together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// Absolute path of the inbox.
    pub inbox: PathBuf,
    /// Path below the inbox that file names are relative to.
    pub root: PathBuf,
    /// The folder `root` itself, if it is moved as a whole.
    pub whole: Option<Stamp>,
    /// The files; of a whole folder all that is in it.
    pub files: Vec<DropFile>,
    /// The marker that declared them ready, below the inbox; it is removed after the move.
    pub marker: Option<DropFile>,
}

impl FileSet {
    /// Absolute folder that file names are relative to, before the move.
    pub fn root_dir(&self) -> PathBuf {
        self.inbox.join(&self.root)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.stamp.size).sum()
    }

    /// Bytes that a copy of all files takes where holes stay holes. Files that cannot be looked at count whole.
    pub fn bytes_on_disk(&self) -> u64 {
        const BLOCK_BYTES: u64 = 512;
        let root = self.root_dir();
        let of_file = |file: &DropFile| {
            let found = fs::symlink_metadata(root.join(&file.name));
            let held = found.map_or(u64::MAX, |data| data.blocks().saturating_mul(BLOCK_BYTES));
            file.stamp.size.min(held)
        };
        self.files.iter().map(of_file).sum()
    }

    /// Equal as long as the files are unchanged.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.files)
    }

    /// How to move it to `dest`, a folder that does not exist yet.
    pub fn plan(&self, dest: &Path) -> MovePlan {
        MovePlan { set: self.clone(), dest: dest.to_owned() }
    }
}

/// What to move where. Fields are public so that a job record can show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovePlan {
    /// What is moved.
    pub set: FileSet,
    /// Absolute folder that becomes the new root; only its parents need to exist.
    pub dest: PathBuf,
}

impl MovePlan {
    /// The folder holds exactly the files of the plan, as the scan saw them.
    pub(crate) fn check_folder(
        &self,
        folder: OwnedFd,
        names: &NameRules,
        same: fn(&Stamp, &Stamp) -> bool,
    ) -> Result<(), ClaimError> {
        let source = self.set.root_dir();
        let depth_max =
            self.set.files.iter().map(|f| f.name.components().count()).max().unwrap_or(0);
        let limits = Limits { depth_max, entries_max: self.set.files.len() + ENTRIES_MAX };
        let tree = scan_opened(folder, names, limits).map_err(|e| system(&source, e))?;
        let mut count = 0;
        tree.each_file(&mut |_, _| count += 1);
        for file in &self.set.files {
            match tree.find(&file.name) {
                Some(now) if same(&now.stamp, &file.stamp) => {}
                _ => return Err(ClaimError::Changed(source.join(&file.name))),
            }
        }
        match count == self.set.files.len() && tree.first_link().is_none() {
            true => Ok(()),
            false => Err(ClaimError::Changed(source)),
        }
    }
}
