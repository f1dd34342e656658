//! Copies a file and computes its digest in one read: a reflink where the file system can, else
//! data alone, so that holes stay holes.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, ioctl_ficlone, seek};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Size of the copy.
    pub bytes: u64,
    /// SHA-256 of the copy, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// Copies `from` to the empty file `to`. The digest is of the bytes that were written; what is
/// added to `from` meanwhile is not copied.
///
/// # Errors
/// The system's; [`io::ErrorKind::UnexpectedEof`] if `from` is cut short meanwhile.
pub fn copy(from: &File, to: &File) -> io::Result<Copied> {
    if ioctl_ficlone(to, from).is_ok() {
        return digest(to);
    }
    let bytes = from.metadata()?.len();
    // At once, because a hole at the end is never written.
    to.set_len(bytes)?;
    let mut hasher = Sha256::new();
    each_run(from, bytes, |run| {
        hasher.update(run.bytes);
        match run.is_hole {
            true => Ok(()),
            false => to.write_all_at(run.bytes, run.at),
        }
    })?;
    Ok(Copied { bytes, sha256: hexadecimal(&hasher.finalize()) })
}

/// Size and SHA-256 of a file.
///
/// # Errors
/// As [`copy`].
pub fn digest(file: &File) -> io::Result<Copied> {
    let bytes = file.metadata()?.len();
    let mut hasher = Sha256::new();
    each_run(file, bytes, |run| {
        hasher.update(run.bytes);
        Ok(())
    })?;
    Ok(Copied { bytes, sha256: hexadecimal(&hasher.finalize()) })
}

/// Some bytes of a file.
struct FileExtent<'a> {
    at: u64,
    bytes: &'a [u8],
    /// All zero, and without a place on the disk.
    is_hole: bool,
}

/// Calls `visit` with the first `bytes` of a file, in order.
fn each_run(
    file: &File,
    bytes: u64,
    mut visit: impl FnMut(FileExtent<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK.min(usize::try_from(bytes).unwrap_or(BLOCK))];
    let mut zeros = Vec::new();
    let mut at = 0;
    while at < bytes {
        let data = data_from(file, at)?.unwrap_or(bytes).min(bytes);
        while at < data {
            let len = length(data - at);
            zeros.resize(len.max(zeros.len()), 0);
            visit(FileExtent { at, bytes: &zeros[..len], is_hole: true })?;
            at += len as u64;
        }
        if at == bytes {
            break;
        }
        let hole = hole_from(file, at)?.clamp(at + 1, bytes);
        while at < hole {
            let part = &mut block[..length(hole - at)];
            file.read_exact_at(part, at)?;
            visit(FileExtent { at, bytes: part, is_hole: false })?;
            at += part.len() as u64;
        }
    }
    // What was cut off looks like a hole.
    match file.metadata()?.len() < bytes {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(()),
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(BLOCK).min(BLOCK)
}

/// Where data begins, at `at` or behind it; `None` if there is none.
fn data_from(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // A file system that does not tell: all is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(e) => Err(e.into()),
    }
}

/// Where the data at `at` ends.
fn hole_from(file: &File, at: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Hole(at)) {
        Ok(hole) => Ok(hole),
        Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => Ok(u64::MAX),
        Err(e) => Err(e.into()),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    fn copied(from: &Path, to: &Path) -> Copied {
        copy(&File::open(from).unwrap(), &File::create_new(to).unwrap()).unwrap()
    }

    fn sha256(bytes: &[u8]) -> String {
        hexadecimal(&Sha256::digest(bytes))
    }

    #[test]
    fn a_copy_has_the_bytes_and_their_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let bytes: Vec<u8> = (0..BLOCK * 2 + 3).map(|i| (i % 251) as u8).collect();
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, bytes.len()] {
            fs::write(&from, &bytes[..size]).unwrap();
            let told = copied(&from, &to);
            let wanted = Copied { bytes: size as u64, sha256: sha256(&bytes[..size]) };
            assert_eq!(told, wanted);
            assert!(fs::read(&to).unwrap() == bytes[..size], "{size} bytes");
            fs::remove_file(&to).unwrap();
        }
    }

    /// Holes at the beginning, between data, and at the end.
    #[test]
    fn holes_stay_holes() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let file = File::create_new(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"one", 10 << 20).unwrap();
        file.write_all_at(b"two", 40 << 20).unwrap();
        let told = copied(&from, &to);
        assert_eq!(told.sha256, sha256(&fs::read(&from).unwrap()));
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
        let (wanted, blocks) = (fs::metadata(&from).unwrap(), fs::metadata(&to).unwrap().blocks());
        assert!(blocks <= wanted.blocks() + 64, "{blocks} blocks for {}", wanted.blocks());
        fs::remove_file(&to).unwrap();
        file.set_len(0).unwrap();
        file.set_len(3 << 20).unwrap();
        assert_eq!(copied(&from, &to).sha256, sha256(&vec![0; 3 << 20]), "nothing but a hole");
    }

    #[test]
    fn a_file_that_shrinks_is_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(dir.path().join("a")).unwrap();
        file.write_all_at(b"12345", 0).unwrap();
        let file = File::open(dir.path().join("a")).unwrap();
        let cut = each_run(&file, 6, |_| Ok(()));
        assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
