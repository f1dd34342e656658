//! The other side of the control socket: `onnxd jobs` and `onnxd ctl` ask through it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use onnxd_diagnostics::{Code, Diagnostic};
use serde_json::Value;

use crate::run::protocol::ControlRequest;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Longer than the daemon takes for any answer.
const PATIENCE: Duration = Duration::from_secs(90);
/// Connections that are tried where the daemon closes them without an answer.
const TRIES_MAX: u32 = 10;
const AGAIN: Duration = Duration::from_millis(50);

/// Asks the daemon behind the socket; a refusal comes back as it was given.
pub(crate) fn ask(socket: &Path, request: &ControlRequest) -> Result<Value, Diagnostic> {
    let mut tries = 1;
    loop {
        match exchange(connect(socket)?, request) {
            Ok(answer) => return Ok(answer),
            // Idle connections give way to newer ones, in a crush also before they could ask.
            Err(e) if is_closed(&e) && tries < TRIES_MAX => {
                tries += 1;
                std::thread::sleep(AGAIN);
            }
            Err(e) => {
                let message = format!("The daemon on {} gave no answer: {e}", socket.display());
                return Err(Diagnostic::new(Code::NotRunning, message)
                    .help("Look at the daemon's log, and try again."));
            }
        }
    }
}

fn is_closed(e: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn connect(socket: &Path) -> Result<UnixStream, Diagnostic> {
    UnixStream::connect(socket).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            let message = format!("No daemon listens on {}", socket.display());
            Diagnostic::new(Code::NotRunning, message)
        }
        _ => Diagnostic::new(Code::NotRunning, format!("{}: {e}", socket.display()))
            .help("The socket is for the daemon's user and group; join the group, or use sudo."),
    })
}

fn exchange(mut stream: UnixStream, request: &ControlRequest) -> std::io::Result<Value> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    if BufReader::new(stream).take(ANSWER_BYTES_MAX).read_line(&mut answer)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}
