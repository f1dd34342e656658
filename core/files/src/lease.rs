//! Whether a file is being written, as far as the system tells.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::io::Errno;

/// Linux's `F_SETSIG`, which the crate `libc` does not name: the signal that tells of a lease's end.
const F_SETSIG: libc::c_int = 10;

/// Whether any process has the file open for writing. `None` where the system does not tell: the
/// file is another user's (without the capability `CAP_LEASE`), or its file system has no leases.
///
/// The kernel grants a lease for reading only while nothing has the file open for writing. The
/// lease is given back at once. `file` must be open for reading only.
pub fn is_open_for_writing(file: &File) -> Option<bool> {
    // A writer that comes meanwhile makes the kernel send a signal; by default this one does nothing.
    fcntl(file, F_SETSIG, libc::SIGURG).ok()?;
    let lease = fcntl(file, libc::F_SETLEASE, libc::F_RDLCK);
    match lease {
        Ok(()) => {
            // The descriptor's end would give it back as well.
            let _ = fcntl(file, libc::F_SETLEASE, libc::F_UNLCK);
            Some(false)
        }
        Err(Errno::AGAIN) => Some(true),
        Err(_) => None,
    }
}

fn fcntl(file: &File, command: libc::c_int, argument: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the descriptor is open as long as `file` lives, and both commands take one integer.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    match done {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_writer_is_seen_until_it_has_closed_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let writer = File::create_new(&path).unwrap();
        let reader = File::open(&path).unwrap();
        let Some(before) = is_open_for_writing(&reader) else { return };
        assert!(before);
        drop(writer);
        assert_eq!(is_open_for_writing(&reader), Some(false));
        // The lease was given back: writing does not wait.
        fs::write(&path, "more").unwrap();
        let other_reader = File::open(&path).unwrap();
        assert_eq!(is_open_for_writing(&other_reader), Some(false));
    }
}
