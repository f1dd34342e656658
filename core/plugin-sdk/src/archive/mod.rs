//! Archives that are dropped: zip and tar. Members are read where they lie, as slices of the mapped file.

mod tar;
#[cfg(test)]
mod tests;
mod zip;

use crate::diagnostics::{Code, Diagnostic};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// Members of an archive.
const MEMBERS_MAX: usize = 100_000;
/// Bytes to which all members together may be inflated, whatever the size of the file.
const INFLATED_FREE: u64 = 256 << 20;
/// How many times its own size a larger file may be inflated to. Code in large files is small, weights do not shrink.
const INFLATED_RATIO_MAX: u64 = 4;

const AGAIN: &str = "The file is damaged or was changed; save or copy it again.";

/// The file contradicts its format.
fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what).help(AGAIN)
}

/// The file ends before what it announces.
fn truncated(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceTruncated, what)
}

/// The file asks for more than the machine should give.
fn over_limit(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceLimit, what)
}

/// The file is sound and has something that no reader here understands.
fn unsupported(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::FeatureUnsupported, what)
}

/// A kind of archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveKind {
    /// A zip archive.
    Zip,
    /// A tar archive.
    Tar,
    /// A tar archive, or anything else, that gzip compressed.
    Gzip,
}

impl ArchiveKind {
    /// The kind of a file by its bytes.
    pub fn of(bytes: &[u8]) -> Option<ArchiveKind> {
        match bytes {
            _ if bytes.starts_with(zip::MAGIC) => Some(ArchiveKind::Zip),
            [0x1f, 0x8b, 8, ..] => Some(ArchiveKind::Gzip),
            _ => tar::is(bytes).then_some(ArchiveKind::Tar),
        }
    }
}

/// An open archive. Names have lost the one folder that all members are in.
#[derive(Debug)]
pub struct Archive(Container);

#[derive(Debug)]
enum Container {
    Zip(Box<zip::Zip>),
    Tar(Bytes, BTreeMap<String, Range<usize>>),
}

impl Archive {
    /// Opens a zip archive: reads its directory, and nothing else. Members need no checksums, which some writers leave
    /// out; [`Archive::wrong_checksums`] tells which have another one.
    ///
    /// # Errors
    /// `N0201`, `N0202` for a damaged one, `N0213` beyond limits.
    pub fn open(bytes: Bytes) -> Result<Archive, Diagnostic> {
        Ok(Archive(Container::Zip(Box::new(zip::Zip::open(bytes, false)?))))
    }

    /// Opens an archive of any kind, whose members have their checksums. One that gzip compressed is inflated as a
    /// whole.
    ///
    /// # Errors
    /// `N0201`, `N0202` for a damaged one, `N0213` beyond limits, `N0214` for what is not read.
    pub fn open_any(bytes: Bytes) -> Result<Archive, Diagnostic> {
        let bytes = match ArchiveKind::of(&bytes) {
            Some(ArchiveKind::Zip) => {
                return Ok(Archive(Container::Zip(Box::new(zip::Zip::open(bytes, true)?))));
            }
            Some(ArchiveKind::Gzip) => tar::inflated(&bytes)?,
            _ => bytes,
        };
        let members = tar::members(&bytes)?;
        Ok(Archive(Container::Tar(bytes, members)))
    }

    /// The members' names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.within("")
    }

    /// Whether there is a member of this name.
    pub fn has(&self, name: &str) -> bool {
        match &self.0 {
            Container::Zip(zip) => zip.members.contains_key(name),
            Container::Tar(_, members) => members.contains_key(name),
        }
    }

    /// Whether a member lies in a folder, which is named with its last `/`.
    pub fn has_folder(&self, folder: &str) -> bool {
        self.within(folder).next().is_some()
    }

    /// The members of a folder by their whole names.
    pub fn within<'a>(&'a self, folder: &'a str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        fn from<'a, M>(
            members: &'a BTreeMap<String, M>,
            folder: &'a str,
        ) -> impl Iterator<Item = &'a str> {
            let from = members.range::<str, _>((Bound::Included(folder), Bound::Unbounded));
            from.map(|(name, _)| name.as_str()).take_while(move |name| name.starts_with(folder))
        }
        match &self.0 {
            Container::Zip(zip) => Box::new(from(&zip.members, folder)),
            Container::Tar(_, members) => Box::new(from(members, folder)),
        }
    }

    /// The members that were read so far and do not have the checksum that the archive says.
    pub fn wrong_checksums(&self) -> Vec<String> {
        match &self.0 {
            Container::Zip(zip) => zip.wrong.borrow().iter().cloned().collect(),
            Container::Tar(..) => Vec::new(),
        }
    }

    /// The bytes of a member: a slice of the file if it is stored, else inflated and kept.
    ///
    /// # Errors
    /// `N0201` if there is none or if it is damaged, `N0213` beyond limits, `N0214` for what is not read.
    pub fn read(&self, name: &str) -> Result<Bytes, Diagnostic> {
        match &self.0 {
            Container::Zip(zip) => zip.read(name),
            Container::Tar(bytes, members) => match members.get(name) {
                Some(place) => Ok(bytes.slice(place.clone())),
                None => Err(damaged(format!("the archive has no `{name}`"))),
            },
        }
    }
}

fn refuse_name(name: &str) -> Result<(), Diagnostic> {
    let foreign = name.starts_with('/') || name.contains(['\\', '\0']);
    if name.is_empty() || foreign || name.split('/').any(|part| part == "..") {
        return Err(damaged(format!("the archive has a member of name `{name}`")));
    }
    Ok(())
}

/// Takes the folder away that all members are in.
fn without_folder<M>(members: BTreeMap<String, M>) -> BTreeMap<String, M> {
    let first = members.keys().next().and_then(|name| name.find('/').map(|at| &name[..=at]));
    let Some(folder) = first.map(str::to_owned) else { return members };
    if !members.keys().all(|name| name.starts_with(&folder)) {
        return members;
    }
    let short = |(name, member): (String, M)| (name[folder.len()..].to_owned(), member);
    members.into_iter().map(short).collect()
}

#[cfg(feature = "pickle")]
impl onnxd_pickle::Members for Archive {
    fn has(&self, name: &str) -> bool {
        Archive::has(self, name)
    }

    fn read(&self, name: &str) -> Result<Bytes, Diagnostic> {
        Archive::read(self, name)
    }
}
