//! Messages without end, past the interface: written to the link itself, as a plugin in C can.

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};

/// Bytes of one line.
const LINE_BYTES: usize = 4000;
/// A warning, which reaches the log at every level.
const WARN: u8 = 2;

fn varint(mut number: usize, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A field of a message that holds bytes.
pub(crate) fn field(number: usize, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 16);
    varint(number << 3 | 2, &mut out);
    varint(content.len(), &mut out);
    out.extend_from_slice(content);
    out
}

/// A `WorkerEvent` as it travels.
pub(crate) fn frame(number: usize, content: &[u8]) -> Vec<u8> {
    let message = field(number, content);
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [length.to_le_bytes().to_vec(), message].concat()
}

/// The only socket of a worker is the link to the daemon.
fn is_socket(fd: RawFd) -> bool {
    // SAFETY: `stat` is numbers alone, so that all-zero is a valid one. The call writes into this variable, and
    // takes any number for a descriptor.
    let found = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut found) == 0).then_some(found)
    };
    found.is_some_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFSOCK)
}

/// The link to the daemon.
pub(crate) fn link() -> std::io::Result<ManuallyDrop<File>> {
    let link = (0..64).find(|fd| is_socket(*fd)).ok_or(std::io::ErrorKind::NotFound)?;
    // SAFETY: the descriptor is open, as `is_socket` saw. It belongs to the worker, which never closes it;
    // `ManuallyDrop` keeps this file from doing so.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(link) }))
}

/// Ends the connection, which the worker keeps open otherwise.
pub(crate) fn close() -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is a socket; no memory is involved.
    match unsafe { libc::shutdown(link()?.as_raw_fd(), libc::SHUT_RDWR) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Long lines for the log, and short stages that are all new.
pub(crate) fn without_end(lines: bool) -> std::io::Result<()> {
    let mut link = link()?;
    for count in 0u64.. {
        let sent = if lines {
            frame(3, &[vec![1 << 3, WARN], field(3, &[b'x'; LINE_BYTES])].concat())
        } else {
            frame(1, &field(1, format!("stage {count}").as_bytes()))
        };
        link.write_all(&sent)?;
    }
    Ok(())
}
