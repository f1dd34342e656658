//! The files of a SavedModel: dropped, or members of an archive.

use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::{Archive, Submission};
use prost::Message;

/// The network of a SavedModel, and the same as text.
pub(crate) const NETWORK: &str = "saved_model.pb";
pub(crate) const TEXT: &str = "saved_model.pbtxt";
/// What to do about a file whose bytes make no sense.
pub(crate) const AGAIN: &str =
    "The file is damaged or was not copied whole; copy or save it again.";

/// A message of protobuf, which `what` says in a refusal.
///
/// # Errors
/// `N0201` if it is none.
pub(crate) fn decoded<M: Message + Default>(bytes: Bytes, what: &str) -> Result<M, Diagnostic> {
    M::decode(bytes).map_err(|e| {
        Diagnostic::new(Code::SourceSyntax, format!("The file is no {what}: {e}.")).help(AGAIN)
    })
}

/// What to do about an archive without a file that it should have.
const PACK: &str = "Pack the whole folder of the SavedModel again.";

/// Files by their paths below the folder that has `saved_model.pb`.
pub(crate) enum Files<'s> {
    /// Dropped ones; the folder is empty, or ends with `/`.
    Dropped(&'s Submission, String),
    /// Members of an archive; the folder is as above.
    Members(Box<Archive>, String),
    /// For tests and fuzz targets: names and contents.
    Fixed(Vec<(String, Bytes)>),
}

impl<'s> Files<'s> {
    /// The files beside a dropped one.
    pub(crate) fn beside(submission: &'s Submission, path: &str) -> Files<'s> {
        let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
        Files::Dropped(submission, folder.unwrap_or_default())
    }

    /// The files of a SavedModel in an archive, at its root or in a folder.
    ///
    /// # Errors
    /// What is wrong with the archive; `N0103` if it has no SavedModel, or several.
    pub(crate) fn inside(bytes: Bytes) -> Result<Files<'s>, Diagnostic> {
        let archive = Archive::open_any(bytes)?;
        let network = |name: &'_ str| {
            name.strip_suffix(NETWORK).or(name.strip_suffix(TEXT)).map(str::to_owned)
        };
        let folders = archive.names().filter_map(network);
        let mut folders: Vec<String> =
            folders.filter(|f| f.is_empty() || f.ends_with('/')).collect();
        folders.retain(|folder| folder.matches('/').count() <= 1);
        folders.sort_unstable();
        folders.dedup();
        let folder = match folders.as_slice() {
            [first, ..] if first.is_empty() => String::new(),
            [one] => one.clone(),
            [] => return Err(lacks(NETWORK)),
            several => {
                let folders = shown(&several.join(", "));
                let message = format!("The archive has several `{NETWORK}`, in {folders}.");
                let help = "Pack each SavedModel into an archive of its own.";
                return Err(Diagnostic::new(Code::FileMissing, message).help(help));
            }
        };
        Ok(Files::Members(Box::new(archive), folder))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Files::Dropped(submission, folder) => submission.has(&format!("{folder}{path}")),
            Files::Members(archive, folder) => archive.has(&format!("{folder}{path}")),
            Files::Fixed(all) => all.iter().any(|(name, _)| name == path),
        }
    }

    /// The content of a file, which is not copied.
    ///
    /// # Errors
    /// `N0103` if there is no such file.
    pub(crate) fn read(&self, path: &str) -> Result<Bytes, Diagnostic> {
        match self {
            Files::Dropped(submission, folder) => submission.read(&format!("{folder}{path}")),
            Files::Members(archive, folder) if self.has(path) => {
                archive.read(&format!("{folder}{path}"))
            }
            Files::Members(..) => Err(lacks(path)),
            Files::Fixed(all) => {
                let found = all.iter().find(|(name, _)| name == path);
                found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| {
                    Diagnostic::new(Code::FileMissing, format!("`{path}` was not dropped"))
                })
            }
        }
    }
}

/// An archive has no such file.
fn lacks(path: &str) -> Diagnostic {
    let message = format!("The archive has no `{}`.", shown(path));
    Diagnostic::new(Code::FileMissing, message).help(PACK)
}
