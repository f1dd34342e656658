//! What intake hands over, and what it asks the daemon about a candidate.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use onnxd_diagnostics::Diagnostic;

use crate::file::{DropFile, Fingerprint};
use crate::plan::FileSet;

/// A network that has settled, and all settled files it might want.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Absolute folder that names are relative to.
    pub root: PathBuf,
    /// Path below the inbox under which its results go (`outbox/<folder>/<name>`).
    pub folder: PathBuf,
    /// Name of the submission: the folder's, or the network's stem.
    pub name: OsString,
    /// The network, relative to `root`.
    pub network: PathBuf,
    /// User who owns the network.
    pub owner: u32,
    /// Settled files in `root` and below, sorted by name; the network is one of them. Where
    /// networks lie side by side, the files of others are not among them at first.
    pub files: Arc<[DropFile]>,
    /// Of the network's own files and those that carry no network's name: an answer holds as long
    /// as these stay the same,
    pub narrow: Fingerprint,
    /// and one that names missing files as long as all files around do, if these are given.
    pub wide: Option<Fingerprint>,
}

/// The front-ends' answer about a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// No front-end takes the file for a network; it is a plain file from now on.
    NotMine(String),
    /// Everything is there. `used` names the files and folders it needs, relative to the root;
    /// `answer` goes along with the submission as it is.
    Complete { used: Vec<PathBuf>, answer: Arc<[u8]> },
    /// Not there yet; shown to the user as it is. Asked again when the files change.
    Waiting { missing: Vec<String> },
    /// Class environment: asked again later. Else the submission is handed over with the problem.
    Failed(Diagnostic),
}

/// The part of the daemon that knows front-ends. Nothing in this crate runs plugin code.
pub trait Prober {
    /// Whether a file of this name may be a network, by the front-ends' globs.
    fn is_network(&self, name: &OsStr) -> bool;
    /// All sets are judged from the beginning: the names of networks may be others than before, and
    /// what was asked since the last [`Prober::ask`] does not count.
    fn begin(&mut self) {}
    /// What the network needs. Called for settled files only, again only if they changed. `None`
    /// while the answer is on its way: the question is asked again whenever the inbox is judged,
    /// and whoever implements this says [`crate::Control::Answered`] once the answer is there.
    /// One network whose front-end takes long must not keep the others.
    fn probe(&mut self, candidate: &Candidate) -> Option<ProbeOutcome>;
    /// All sets were judged: what was asked and has no answer is to be found out, and nothing else.
    fn ask(&mut self) {}
}

/// A complete set, ready to be claimed.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// Path below the inbox that names it: the whole folder, or the network.
    pub id: PathBuf,
    /// Path below the inbox under which its results go (`outbox/<folder>/<name>`).
    pub folder: PathBuf,
    /// The folder's name, or the network's stem.
    pub name: OsString,
    /// The network, relative to the root of `set`.
    pub network: PathBuf,
    /// All files that go along.
    pub set: FileSet,
    /// Why the conversion is bound to fail; the job still has to tell the user.
    pub problem: Option<Diagnostic>,
    /// What the front-ends said; empty if that is a problem.
    pub answer: Arc<[u8]>,
}

/// Something no front-end wants, quiet for the grace time.
#[derive(Clone, Debug)]
pub struct Unmatched {
    /// Path below the inbox: a file, or a folder with all that is in it.
    pub id: PathBuf,
    /// The files.
    pub set: FileSet,
    /// Why no front-end takes it.
    pub reason: String,
}

/// News from the inbox.
#[derive(Clone, Debug)]
pub enum InboxNews {
    /// To be claimed.
    Ready(Box<Submission>),
    /// To be put aside or left alone, as the policy says.
    Unmatched(Box<Unmatched>),
}
