//! The control socket: accepts connections, reads lines, passes requests to the event loop.
//!
//! One thread per connection, a few at most and fewer for one user, each line bounded in length and
//! time, so that no client can make the daemon grow or wait.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use onnxd_diagnostics::{Class, Code, Diagnostic};
use serde_json::Value;

use super::places::{ConnectionPermit, ConnectionPermits};
use crate::run::event::{ClientRequest, Event};
use crate::run::protocol::{ControlRequest, LINE_BYTES_MAX, parse, refused};

/// For the first request of a connection to come.
const FIRST: Duration = Duration::from_secs(10);
/// A connection that says nothing for this long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// For one answer to be taken.
const WRITE: Duration = Duration::from_secs(10);
/// For the event loop to answer; it never works for long.
const ANSWER: Duration = Duration::from_secs(30);
const SOCKET_MODE: u32 = 0o660;

/// The socket's file goes with this.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whatever is left over is replaced by the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens. The lock on the state folder is held, so a socket that exists is left over.
pub(crate) fn listen(path: &Path, events: Sender<Event>) -> Result<Server, Diagnostic> {
    let failed = |e: std::io::Error| {
        let message = format!("The control socket {}: {e}", path.display());
        Diagnostic::new(Code::ConfigBadValue, message)
            .help("Set `control.socket` to a short path in a folder that onnxd may write.")
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    match path.symlink_metadata() {
        Ok(data) if data.file_type().is_socket() => std::fs::remove_file(path).map_err(failed)?,
        // Whoever wrote that file still wants it.
        Ok(_) => return Err(failed(std::io::Error::other("there is a file that is no socket"))),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(SOCKET_MODE)).map_err(failed)?;
    let accept = move || accept_all(&listener, &events);
    std::thread::Builder::new().name("control".into()).spawn(accept).map_err(failed)?;
    Ok(Server { path: path.to_owned() })
}

fn accept_all(listener: &UnixListener, events: &Sender<Event>) {
    let places = ConnectionPermits::default();
    let owner = rustix::process::geteuid().as_raw();
    loop {
        let Ok((mut stream, _)) = listener.accept() else {
            // Most likely too many open files: others have to close theirs first.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let user = peer(&stream);
        // An unknown user shares the places of all unknown ones.
        let Some(place) = places.take(&stream, user.unwrap_or(u32::MAX), owner) else {
            let message = "All connections that this user may have are being answered";
            let why = Diagnostic::new(Code::NotRunning, message).help("Try again in a moment.");
            // Whoever does not read the refusal is refused all the same.
            let _ = stream.set_nonblocking(true);
            let _ = write_line(&mut stream, &refused(&why));
            continue;
        };
        let events = events.clone();
        let serve = move || {
            // A connection that breaks concerns its other side alone.
            let _ = serve(stream, user, &place, &events);
        };
        // Without a thread the connection is closed, which its other side notices.
        let _ = std::thread::Builder::new().name("connection".into()).spawn(serve);
    }
}

fn serve(
    stream: UnixStream,
    user: Option<u32>,
    place: &ConnectionPermit,
    events: &Sender<Event>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(FIRST))?;
    let mut actor = None;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(line) = read_line(&mut reader)? {
        place.asks();
        let parsed = line.and_then(|line| parse(&line));
        let unusable = parsed.is_err();
        let answer = match parsed {
            Ok(request) => {
                let actor = actor
                    .get_or_insert_with(|| user.map_or_else(|| "unknown user".into(), user_name));
                ask(request, actor, events)
            }
            Err(why) => refused(&why),
        };
        write_line(&mut writer, &answer)?;
        if unusable {
            break;
        }
        place.answered();
        writer.set_read_timeout(Some(IDLE))?;
    }
    Ok(())
}

/// The next line; `None` at the end, an error in words if it is no line of ours.
fn read_line(reader: &mut impl BufRead) -> std::io::Result<Option<Result<String, Diagnostic>>> {
    let mut line = Vec::new();
    reader.take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    let bad = |message: String| Ok(Some(Err(Diagnostic::new(Code::Usage, message))));
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => match String::from_utf8(line) {
            Ok(line) => Ok(Some(Ok(line))),
            Err(_) => bad("A request is UTF-8 text".into()),
        },
        Some(_) if line.len() + 1 >= LINE_BYTES_MAX => {
            bad(format!("A request has at most {LINE_BYTES_MAX} bytes"))
        }
        Some(_) => bad("A request ends with a line break".into()),
    }
}

fn write_line(stream: &mut UnixStream, answer: &Value) -> std::io::Result<()> {
    stream.set_write_timeout(Some(WRITE))?;
    let mut text = answer.to_string();
    text.push('\n');
    stream.write_all(text.as_bytes())
}

fn ask(request: ControlRequest, actor: &str, events: &Sender<Event>) -> Value {
    let (answer, answered) = bounded(1);
    let client = ClientRequest { request, actor: actor.to_owned(), answer };
    let stopping = || {
        let why = Diagnostic::new(Code::NotRunning, "The daemon is busy or stopping");
        refused(&why.help("Try again, or look at its log."))
    };
    match events.send_timeout(Event::ClientRequest(Box::new(client)), ANSWER) {
        Ok(()) => answered.recv_timeout(ANSWER).unwrap_or_else(|_| stopping()),
        Err(_) => stopping(),
    }
}

/// Who is at the other end, as the kernel says.
fn peer(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
}

/// `alice (user 1000)`, or only the number where the machine's list does not have it.
fn user_name(uid: u32) -> String {
    const BYTES_MAX: u64 = 1 << 20;
    let mut users = String::new();
    let read = std::fs::File::open("/etc/passwd")
        .and_then(|file| file.take(BYTES_MAX).read_to_string(&mut users));
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    });
    match (read, name) {
        (Ok(_), Some(name)) => format!("{name} (user {uid})"),
        _ => format!("user {uid}"),
    }
}

/// Whether a diagnostic of the daemon means that asking again may help.
pub(crate) fn class_of(answer: &Value) -> Class {
    let word = answer["diagnostic"]["class"].as_str().unwrap_or_default();
    Class::parse(word).unwrap_or(Class::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded() {
        let read = |bytes: &[u8]| read_line(&mut BufReader::new(bytes)).unwrap();
        assert_eq!(read(b""), None);
        assert_eq!(read(b"{}\nrest"), Some(Ok("{}".into())));
        let message = |bytes: &[u8]| read(bytes).unwrap().unwrap_err().into_finding().message;
        assert!(message(b"{}").contains("line break"));
        assert!(message(b"\xff\n").contains("UTF-8"));
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert!(message(&long).contains("at most 65536 bytes"));
        let mut fits = vec![b'x'; LINE_BYTES_MAX - 1];
        fits.push(b'\n');
        assert_eq!(read(&fits).unwrap().unwrap().len(), LINE_BYTES_MAX - 1);
    }

    #[test]
    fn a_request_reaches_the_loop_with_its_actor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let (events, received) = bounded(1);
        std::fs::write(&path, "a person's").unwrap();
        assert!(listen(&path, events.clone()).unwrap_err().message.contains("no socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"a person's");
        std::fs::remove_file(&path).unwrap();
        // The socket of a daemon that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let server = listen(&path, events).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"{\"do\":\"pause\"}\nnonsense\n").unwrap();
        let Ok(Event::ClientRequest(client)) = received.recv() else { panic!("no request") };
        assert_eq!(client.request, ControlRequest::Pause {});
        assert!(client.actor.contains("user "), "{}", client.actor);
        client.answer.send(serde_json::json!({"ok": true})).unwrap();
        let lines: Vec<String> = BufReader::new(stream).lines().map_while(Result::ok).collect();
        assert_eq!(lines[0], r#"{"ok":true}"#);
        assert!(lines[1].contains("N0704"), "{}", lines[1]);
        drop(server);
        assert!(!path.exists());
    }
}
