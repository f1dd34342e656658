//! Messages between the daemon and a worker over a Unix socket: length (u32, little-endian), bytes.
//!
//! The other side may be a process in which foreign code ran, so lengths are bounded, memory grows
//! with what really arrives, what a message takes once it is decoded is known before, and reading
//! can have a deadline.

use onnxd_proto::footprint::{Measured, decode_within};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Read at once, at most. A worker's news are short and come many at a time.
const READ_BYTES: usize = 16 * 1024;

/// Largest encoded message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    deadline: Option<Instant>,
    received_bytes: u64,
    /// What was read beyond the latest message.
    ahead: VecDeque<u8>,
}

impl Link {
    /// A link over a connected socket.
    #[must_use]
    pub fn new(stream: UnixStream) -> Link {
        Link { stream, deadline: None, received_bytes: 0, ahead: VecDeque::new() }
    }

    /// Receiving fails with [`ErrorKind::TimedOut`] from then on.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// How many bytes were received through this handle.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Whether a part of a message is here already: nothing says so on the socket any more.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Sends one message.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is too large; else the system's.
    pub fn send<M: Message>(&mut self, message: &M) -> Result<()> {
        let len = message.encoded_len();
        let prefix = u32::try_from(len).ok().filter(|_| len <= MESSAGE_BYTES_MAX);
        let Some(prefix) = prefix else {
            let text = format!("a message of {len} bytes, limit {MESSAGE_BYTES_MAX}");
            return Err(Error::new(ErrorKind::InvalidInput, text));
        };
        let mut frame = Vec::with_capacity(4 + len);
        frame.extend_from_slice(&prefix.to_le_bytes());
        message.encode(&mut frame).map_err(Error::other)?;
        self.stream.write_all(&frame)
    }

    /// Receives one message that takes at most `budget` bytes once it is decoded; `None` if the
    /// other side has closed the connection between messages.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if it is too large or malformed, [`ErrorKind::UnexpectedEof`] if
    /// it ends early, [`ErrorKind::TimedOut`] after the deadline; else the system's.
    pub fn receive<M: Measured>(&mut self, budget: usize) -> Result<Option<M>> {
        let mut prefix = Vec::new();
        self.read(&mut prefix, 4)?;
        let Ok(prefix) = <[u8; 4]>::try_from(prefix.as_slice()) else {
            return if prefix.is_empty() { Ok(None) } else { Err(ended()) };
        };
        let len = u32::from_le_bytes(prefix) as usize;
        if len > MESSAGE_BYTES_MAX {
            let text = format!("a message of {len} bytes was announced, limit {MESSAGE_BYTES_MAX}");
            return Err(Error::new(ErrorKind::InvalidData, text));
        }
        let mut body = Vec::new();
        self.read(&mut body, len)?;
        if body.len() < len {
            return Err(ended());
        }
        let message = decode_within(bytes::Bytes::from(body), budget);
        message.map(Some).map_err(|e| Error::new(ErrorKind::InvalidData, e))
    }

    /// Reads until `target` has `len` bytes or the stream ends.
    fn read(&mut self, target: &mut Vec<u8>, len: usize) -> Result<()> {
        let mut buffer = [0; READ_BYTES];
        loop {
            // Also where there is something to read: a sender must not stretch the deadline.
            let left = self.left()?;
            let ready = self.ahead.len().min(len - target.len());
            target.extend(self.ahead.drain(..ready));
            if target.len() == len {
                return Ok(());
            }
            match recv(&self.stream, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Ok(()),
                Ok((_, read)) => {
                    let (own, more) = buffer[..read].split_at(read.min(len - target.len()));
                    target.extend_from_slice(own);
                    self.ahead.extend(more);
                    self.received_bytes += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(left)?,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Time until the deadline, if there is one and it has not passed.
    fn left(&self) -> Result<Option<Duration>> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) { Err(late()) } else { Ok(left) }
    }

    /// Waits until there is something to read, or so long.
    fn wait(&self, left: Option<Duration>) -> Result<()> {
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "the connection ended within a message")
}

fn late() -> Error {
    Error::new(ErrorKind::TimedOut, "no message before the deadline")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{Diagnostic, Diagnostics, LogLine, Progress};

    const BUDGET: usize = 8 << 20;

    fn pair() -> (Link, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        (Link::new(a), b)
    }

    #[test]
    fn messages_arrive_in_order_and_the_end_is_seen() {
        let (mut here, there) = pair();
        let mut there = Link::new(there);
        let long = LogLine { text: "x".repeat(3 << 20), ..Default::default() };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                there.send(&Progress { done: 1, total: 2, about: "a".into() }).unwrap();
                there.send(&long).unwrap();
                there.send(&Progress::default()).unwrap();
            });
            let first = Progress { done: 1, total: 2, about: "a".into() };
            assert_eq!(here.receive(BUDGET).unwrap(), Some(first));
            assert_eq!(here.receive::<LogLine>(BUDGET).unwrap().unwrap().text.len(), 3 << 20);
            assert_eq!(here.receive(BUDGET).unwrap(), Some(Progress::default()));
            assert_eq!(here.receive::<Progress>(BUDGET).unwrap(), None);
        });
    }

    #[test]
    fn nonsense_is_an_error() {
        for (sent, kind) in [
            (&b"\x01"[..], ErrorKind::UnexpectedEof),
            (b"\x05\0\0\0abc", ErrorKind::UnexpectedEof),
            (b"\xff\xff\xff\xff", ErrorKind::InvalidData),
            (b"\x03\0\0\0\xff\xff\xff", ErrorKind::InvalidData),
        ] {
            let (mut here, mut there) = pair();
            there.write_all(sent).unwrap();
            drop(there);
            assert_eq!(here.receive::<Progress>(BUDGET).unwrap_err().kind(), kind, "{sent:?}");
        }
        let (mut here, _there) = pair();
        let huge = LogLine { text: "x".repeat(MESSAGE_BYTES_MAX), ..Default::default() };
        assert_eq!(here.send(&huge).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn what_grows_in_memory_is_refused() {
        let (here, there) = pair();
        let (mut here, mut there) = (here, Link::new(there));
        // 200 KiB on the way, and more than 16 MiB in memory.
        let many = Diagnostics { items: vec![Diagnostic::default(); 100_000] };
        assert!(many.encoded_len() < BUDGET / 32);
        std::thread::scope(|scope| {
            scope.spawn(move || there.send(&many).unwrap());
            let error = here.receive::<Diagnostics>(BUDGET).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            let text = format!("decoded it would take more than {BUDGET} bytes of memory");
            assert_eq!(error.to_string(), text);
        });
    }

    #[test]
    fn a_slow_sender_cannot_stretch_the_deadline() {
        let (mut here, mut there) = pair();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                there.write_all(b"\x7f\0\0\0").unwrap();
                for _ in 0..20 {
                    // The reader may be gone already.
                    let _ = there.write_all(b"\0");
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            here.set_deadline(Some(Instant::now() + Duration::from_millis(100)));
            let begin = Instant::now();
            let error = here.receive::<Progress>(BUDGET).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(begin.elapsed() < Duration::from_millis(350));
        });
    }
}
