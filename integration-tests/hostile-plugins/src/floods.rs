//! Messages without end, past the interface: written to the link itself, as a plugin in C can.

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};

/// Bytes of one line.
const LINE_BYTES: usize = 4000;
/// A warning, which reaches the log at every level.
const WARN: u8 = 2;

/// A field of a message that holds bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
    out
}

/// A `WorkerEvent` as it travels.
fn frame(number: u8, content: &[u8]) -> Vec<u8> {
    let message = field(number, content);
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [length.to_le_bytes().to_vec(), message].concat()
}

/// The only socket of a worker is the link to the daemon.
fn is_socket(fd: RawFd) -> bool {
    // SAFETY: the structure is plain data, and the system fills it.
    let found = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut found) == 0).then_some(found)
    };
    found.is_some_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFSOCK)
}

/// Long lines for the log, and short stages that are all new.
pub(crate) fn without_end(lines: bool) -> std::io::Result<()> {
    let link = (0..64).find(|fd| is_socket(*fd)).ok_or(std::io::ErrorKind::NotFound)?;
    // SAFETY: the descriptor is open, and stays so as long as this process.
    let mut link = ManuallyDrop::new(unsafe { File::from_raw_fd(link) });
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
