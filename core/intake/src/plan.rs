//! Which files a claim moves where.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::claim_error::{ClaimError, system};
use crate::file::File;
use crate::names::Names;
use crate::scan::{ENTRIES_MAX, Limits, scan_opened};
use crate::tree::Stamp;

/// What to move where. Fields are public so that a job record can show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Absolute path of the inbox.
    pub inbox: PathBuf,
    /// Path below the inbox that file names are relative to.
    pub root: PathBuf,
    /// The folder `root` itself, if it is moved as a whole.
    pub whole: Option<Stamp>,
    /// Files relative to `root`.
    pub files: Vec<File>,
    /// Marker file below the inbox, removed after the move.
    pub marker: Option<File>,
    /// Absolute folder that becomes the new root; only its parents need to exist.
    pub dest: PathBuf,
}

impl Plan {
    /// The folder holds exactly the files of the plan, as the scan saw them.
    pub(crate) fn check_folder(
        &self,
        folder: OwnedFd,
        names: &Names,
        same: fn(&Stamp, &Stamp) -> bool,
    ) -> Result<(), ClaimError> {
        let source = self.inbox.join(&self.root);
        let depth_max = self.files.iter().map(|f| f.name.components().count()).max().unwrap_or(0);
        let limits = Limits { depth_max, entries_max: self.files.len() + ENTRIES_MAX };
        let tree = scan_opened(folder, names, limits).map_err(|e| system(&source, e))?;
        let mut count = 0;
        tree.each_file(&mut |_, _| count += 1);
        for file in &self.files {
            match tree.find(&file.name) {
                Some(now) if same(&now.stamp, &file.stamp) => {}
                _ => return Err(ClaimError::Changed(source.join(&file.name))),
            }
        }
        match count == self.files.len() && tree.first_link().is_none() {
            true => Ok(()),
            false => Err(ClaimError::Changed(source)),
        }
    }
}
