//! Messages between the daemon and a worker over a Unix socket: length (u32, little-endian), bytes.
//!
//! The other side may be a process in which foreign code ran, so lengths are bounded, memory grows
//! with what really arrives, and reading can have a deadline.

use prost::Message;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Largest encoded message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    deadline: Option<Instant>,
}

impl Link {
    /// A link over a connected socket.
    #[must_use]
    pub fn new(stream: UnixStream) -> Link {
        Link { stream, deadline: None }
    }

    /// Receiving fails with [`ErrorKind::TimedOut`] from then on.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// A second handle of the same connection.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> Result<Link> {
        Ok(Link { stream: self.stream.try_clone()?, deadline: self.deadline })
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

    /// Receives one message; `None` if the other side has closed the connection between messages.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if it is too large or malformed, [`ErrorKind::UnexpectedEof`] if
    /// it ends early, [`ErrorKind::TimedOut`] after the deadline; else the system's.
    pub fn receive<M: Message + Default>(&mut self) -> Result<Option<M>> {
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
        let message = M::decode(bytes::Bytes::from(body));
        message.map(Some).map_err(|e| Error::new(ErrorKind::InvalidData, e))
    }

    /// Reads until `target` has `len` bytes or the stream ends.
    fn read(&mut self, target: &mut Vec<u8>, len: usize) -> Result<()> {
        let mut buffer = [0; 16 * 1024];
        while target.len() < len {
            self.arm()?;
            let want = buffer.len().min(len - target.len());
            match self.stream.read(&mut buffer[..want]) {
                Ok(0) => break,
                Ok(n) => target.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(late()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Bounds the next read by the deadline.
    fn arm(&self) -> Result<()> {
        let Some(deadline) = self.deadline else { return self.stream.set_read_timeout(None) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        // Shorter times may be rounded to zero, which would mean no limit.
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))
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
    use onnxd_proto::onnxd::{LogLine, Progress};

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
            assert_eq!(
                here.receive().unwrap(),
                Some(Progress { done: 1, total: 2, about: "a".into() })
            );
            assert_eq!(here.receive::<LogLine>().unwrap().unwrap().text.len(), 3 << 20);
            assert_eq!(here.receive().unwrap(), Some(Progress::default()));
            assert_eq!(here.receive::<Progress>().unwrap(), None);
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
            assert_eq!(here.receive::<Progress>().unwrap_err().kind(), kind, "{sent:?}");
        }
        let (mut here, _there) = pair();
        let huge = LogLine { text: "x".repeat(MESSAGE_BYTES_MAX), ..Default::default() };
        assert_eq!(here.send(&huge).unwrap_err().kind(), ErrorKind::InvalidInput);
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
            let error = here.receive::<Progress>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(begin.elapsed() < Duration::from_millis(350));
        });
    }
}
