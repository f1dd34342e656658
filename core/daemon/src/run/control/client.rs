//! The other side of the control socket: `onnxd jobs` and `onnxd ctl` ask through it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use onnxd_diagnostics::{Code, Diagnostic};
use serde_json::Value;

use super::protocol::Request;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Longer than the daemon takes for any answer.
const PATIENCE: Duration = Duration::from_secs(90);

/// Asks the daemon behind the socket; a refusal comes back as it was given.
pub(crate) fn ask(socket: &Path, request: &Request) -> Result<Value, Diagnostic> {
    let stream = UnixStream::connect(socket).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            let message = format!("No daemon listens on {}", socket.display());
            Diagnostic::new(Code::NotRunning, message)
        }
        _ => Diagnostic::new(Code::NotRunning, format!("{}: {e}", socket.display()))
            .help("The socket is for the daemon's user and group; join the group, or use sudo."),
    })?;
    exchange(stream, request).map_err(|e| {
        let message = format!("The daemon on {} gave no answer: {e}", socket.display());
        Diagnostic::new(Code::NotRunning, message).help("Look at the daemon's log, and try again.")
    })
}

fn exchange(mut stream: UnixStream, request: &Request) -> std::io::Result<Value> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
