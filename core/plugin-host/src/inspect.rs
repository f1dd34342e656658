//! Whether this host would load a library, and what the library says about itself.
//!
//! A library's initialisers run as soon as it is opened, so callers do this in a confined child.

use crate::header::{check, refused};
use crate::library::Opened;
use memmap2::MmapOptions;
use onnxd_config::Descriptor;
use onnxd_diagnostics::{Diagnostic, refuse};
use onnxd_proto::onnxd::{PluginComponent, PluginInfo};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file that are mapped at a time.
const MAPPED_BYTES: u64 = 1 << 24;
/// Largest library, in bytes.
const LIBRARY_BYTES_MAX: u64 = 1 << 30;

/// Opens a library in this process, checks its header and says what it provides.
///
/// # Errors
/// N0403 with expected, found and what to do.
pub fn inspect(path: &Path) -> Result<PluginInfo, Diagnostic> {
    let sha256 = digest(path).map_err(|e| refused(path, e, "Check the file and its size."))?;
    let opened = Opened::open(path)?;
    let header = opened.header(path)?;
    let descriptor = check(path, &header)?;
    Ok(PluginInfo {
        path: path.to_string_lossy().into_owned(),
        sha256,
        id: header.id,
        version: header.version,
        abi_major: header.abi_major.into(),
        abi_minor: header.abi_minor.into(),
        components: components(&descriptor),
        descriptor: header.descriptor,
    })
}

/// The components as messages name them.
pub(crate) fn components(descriptor: &Descriptor) -> Vec<PluginComponent> {
    let component = |c: &onnxd_config::descriptor::Component| PluginComponent {
        kind: c.kind.clone(),
        id: c.id.clone(),
        summary: c.summary.clone(),
        globs: c.globs.clone(),
    };
    descriptor.components.iter().map(component).collect()
}

/// The SHA-256 of a file, in lower-case hexadecimal.
///
/// # Errors
/// The system's, or one that names the limit on a library's size.
pub fn digest(path: &Path) -> std::io::Result<String> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    refuse!(size > LIBRARY_BYTES_MAX =>
        std::io::Error::other(format!("{size} bytes, a library may have {LIBRARY_BYTES_MAX}")));
    Ok(hashed(file)?.1)
}

/// Size in bytes and SHA-256, in hexadecimal digits, of a file that is mapped piece by piece, which saves the copy of
/// its bytes. For workers alone: a file that is cut short meanwhile ends the process.
///
/// # Errors
/// The system's; also if it is not a regular file.
pub fn mapped_digest(path: &Path) -> std::io::Result<(u64, String)> {
    // Opening a pipe could block for ever, so ask first.
    refuse!(!path.metadata()?.is_file() => std::io::Error::other("not a regular file"));
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut hasher = Sha256::new();
    for first in (0..bytes).step_by(MAPPED_BYTES as usize) {
        let len = MAPPED_BYTES.min(bytes - first) as usize;
        // SAFETY: the bytes are hashed and nothing else; the map ends with this round. A file that is written
        // meanwhile gives another digest. One that is cut short ends the process, so that workers alone come here
        // (see above).
        let map = unsafe { MmapOptions::new().offset(first).len(len).populate().map(&file)? };
        hasher.update(&map[..]);
    }
    Ok((bytes, hexadecimal(hasher.finalize().as_slice())))
}

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn hashed(mut file: File) -> std::io::Result<(u64, String)> {
    let mut hasher = Sha256::new();
    // Small enough to stay in the cache of the core that hashes it.
    let mut buffer = vec![0; 1 << 17];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok((bytes, hexadecimal(hasher.finalize().as_slice())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_one_digest_however_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in [0, 3, MAPPED_BYTES, MAPPED_BYTES + 1] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, bytes).unwrap();
            let mapped = mapped_digest(&path).unwrap();
            assert_eq!((mapped.0, &mapped), (len, &hashed(File::open(&path).unwrap()).unwrap()));
        }
        assert!(mapped_digest(folder.path()).is_err());
    }
}
