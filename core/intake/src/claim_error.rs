//! Why a claim moved nothing.

use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic};
use rustix::io::Errno;

/// Why nothing was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// A file is not what the scan saw. It is offered again once it has settled.
    Changed(PathBuf),
    /// Neither source nor destination exists.
    Gone(PathBuf),
    /// The system does not permit it; trying again at once is useless.
    Blocked(Diagnostic),
    /// Disk full, input or output error.
    Failed(Diagnostic),
    /// Something was touched while it was moved, and its old place is taken by a newer file: the
    /// older one stays in the destination.
    Kept(PathBuf),
}

impl ClaimError {
    /// In the words of the report.
    pub fn diagnostic(&self) -> Diagnostic {
        let input = |what: String| Diagnostic::new(Code::Unreadable, what);
        match self {
            ClaimError::Changed(path) => {
                input(format!("{} changed while it was being taken", path.display()))
                    .help("Nothing to do: it is taken once it has settled.")
            }
            ClaimError::Gone(path) => {
                input(format!("{} went away while it was being taken", path.display()))
            }
            ClaimError::Kept(path) => {
                input(format!("{} was replaced while it was being taken", path.display()))
                    .help("The older file is in the job folder; the newer one is taken by itself.")
            }
            ClaimError::Blocked(d) | ClaimError::Failed(d) => d.clone(),
        }
    }
}

pub(crate) fn to_errno(e: &std::io::Error) -> Errno {
    e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Whose problem an error of the system is.
pub(crate) fn system(path: &Path, e: Errno) -> ClaimError {
    let shown = path.display();
    match e {
        Errno::NOENT => ClaimError::Gone(path.to_owned()),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ClaimError::Blocked(
            Diagnostic::new(Code::Disk, format!("cannot move {shown}: {e}")).help(
                "onnxd needs write permission on the folder it is in, and on the folder itself if \
                 it is one; a shared inbox needs a common group and umask 002.",
            ),
        ),
        e => {
            let code = Code::of_write(&e.into());
            ClaimError::Failed(Diagnostic::new(code, format!("moving {shown} failed: {e}")))
        }
    }
}
