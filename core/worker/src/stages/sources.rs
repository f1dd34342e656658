//! Sizes and digests of the dropped files. Large files are digested beside the first stages.

use super::session::Session;
use crate::recognition::role;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_host::mapped_digest;
use onnxd_proto::onnxd::{FileDigest, InputFile};
use std::thread::Builder;

/// Bytes of files that are digested at once, because a thread would cost as much.
const AT_ONCE_BYTES: u64 = 1 << 20;

/// Begins to digest the files of the request.
pub(super) fn begin(session: &mut Session) -> Result<(), Diagnostics> {
    let (files, network) = (session.request.files.clone(), session.request.network.clone());
    let bytes: u64 = files.iter().filter(|f| f.sha256.is_empty()).map(|f| f.bytes).sum();
    let digests = move || files.into_iter().map(|file| digest(file, &network)).collect();
    if bytes <= AT_ONCE_BYTES {
        session.report.source = digests()?;
        return Ok(());
    }
    let thread = Builder::new().name("digest".into()).spawn(digests);
    session.digests =
        Some(thread.map_err(|e| {
            Diagnostic::new(Code::OutOfMemory, format!("no thread for digests: {e}"))
        })?);
    Ok(())
}

/// Waits for the digests, and puts them into the report.
pub(super) fn take(session: &mut Session) -> Result<(), Diagnostics> {
    if let Some(pending) = session.digests.take() {
        session.report.source =
            pending.join().unwrap_or_else(|why| std::panic::resume_unwind(why))?;
    }
    Ok(())
}

/// Of one file, unless the parent knows it already.
fn digest(file: InputFile, network: &str) -> Result<FileDigest, Diagnostic> {
    let unreadable = |e: std::io::Error| {
        Diagnostic::new(Code::Unreadable, format!("`{}`: {e}", shown(&file.name)))
    };
    let (bytes, sha256) = match file.sha256.is_empty() {
        true => mapped_digest(file.path.as_ref()).map_err(unreadable)?,
        false => (file.bytes, file.sha256),
    };
    let role = role(&file.name, network).into();
    Ok(FileDigest { path: file.name, bytes, sha256, role })
}
