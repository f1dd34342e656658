//! Why something in the inbox is not taken as it is, in words.

use std::path::Path;

use onnxd_diagnostics::{Class, Code, Diagnostic};
use rustix::fs::{Access, access};

use crate::file::DropFile;
use crate::group::{Extent, Set};
use crate::status::InboxState;
use crate::tree::{Folder, Unread};

/// A file that onnxd may not read: neither a front-end nor a conversion could say more about it.
pub(crate) fn unreadable(root: &Path, files: &[DropFile]) -> Option<Diagnostic> {
    files.iter().map(|file| root.join(&file.name)).find_map(|path| {
        let e = access(&path, Access::READ_OK).err()?;
        (e == rustix::io::Errno::ACCESS).then(|| {
            let text = format!("{} cannot be read: {e}", path.display());
            let mut why = Diagnostic::new(Code::Unreadable, text).help(
                "Let onnxd's user or group read it (`chmod g+r`; a shared inbox needs a common \
                 group and umask 002).",
            );
            why.class = Class::Environment;
            why
        })
    })
}

pub(crate) fn refusal(set: &Set<'_>) -> Option<Diagnostic> {
    match set.extent {
        Extent::Whole => {
            let problem = set.place.first_unread().map(|(folder, why)| unread(folder, why));
            problem.or_else(|| set.place.first_link().map(|path| link_refused(&path)))
        }
        // A listing that is not complete may hide files the network needs.
        Extent::Beside { .. } => set.place.unread.as_ref().map(|why| unread(set.place, why)),
    }
}

pub(crate) fn refused_folder(folder: &Folder) -> Option<InboxState> {
    let problem = folder.first_unread().map(|(f, why)| unread(f, why));
    let reason = problem.or_else(|| folder.first_link().map(|path| link_refused(&path)))?;
    Some(InboxState::Refused { reason })
}

pub(crate) fn unread(folder: &Folder, unread: &Unread) -> Diagnostic {
    let place = match folder.path.as_os_str().is_empty() {
        true => "the inbox".to_owned(),
        false => folder.path.display().to_string(),
    };
    let message = format!("{place} was not read completely: {}", unread.why);
    let mut why = Diagnostic::new(unread.code, message)
        .help("Correct the permissions, or drop fewer files and folders at a time.");
    // What the system refuses to read is a matter of the machine: whoever runs it should hear of it.
    if unread.code == Code::Unreadable {
        why.class = Class::Environment;
    }
    why
}

pub(crate) fn link_refused(path: &Path) -> Diagnostic {
    let text = format!("{} is a symbolic link", path.display());
    Diagnostic::new(Code::SymlinkRefused, text)
        .help("Drop what links lead to, and not the links: copy with `cp -rL FROM TO`.")
}

pub(crate) fn special_refused(path: &Path) -> Diagnostic {
    let message = format!("{} is no regular file", path.display());
    Diagnostic::new(Code::Unreadable, message).help("Drop regular files and folders only.")
}
