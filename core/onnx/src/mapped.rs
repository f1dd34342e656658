//! Files as shared bytes. A memory map costs address space only, so that weights are never copied
//! just to be looked at.

use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// A read-only map of a regular file.
pub struct MappedFile(Mmap);

impl MappedFile {
    /// The content of the file at `path` as bytes that keep the map alive.
    ///
    /// The file must not be truncated while the bytes are in use: reading beyond its new end would
    /// end the process. onnxd maps only files in folders of its own.
    ///
    /// # Errors
    /// Whatever opening and mapping the file says; also if it is not a regular file.
    pub fn open(path: &Path) -> io::Result<Bytes> {
        // Opening a pipe or device could block for ever, so ask first.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Bytes::new());
        }
        // SAFETY: the map is read-only, and the file is not to be written while the bytes are in use
        // (see above). Should it happen nevertheless, they change under code that has checked them, or
        // reading ends the process by SIGBUS. Only a worker or a command maps files, so that no more
        // than one conversion goes wrong.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Bytes::from_owner(MappedFile(map)))
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
