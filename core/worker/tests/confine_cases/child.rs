//! The worker's side: each case tries something from inside the confinement.

use super::{Event, MEMORY_BYTES, What, stage};
use onnxd_proto::onnxd::{
    ConvertRequest, ConvertResult, Diagnostic, Diagnostics, LogLine, Progress, StageStarted,
    WorkerEvent,
};
use onnxd_worker::confine::start;
use onnxd_worker::link::Link;
use rustix::process::{Resource, Rlimit, Signal, getpid, getppid, kill_process, setrlimit};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, hint, process, thread};

pub(crate) fn main(fd: &str, mode: &str) {
    let Ok((mut link, request, _)) = start(fd, mode) else { process::exit(1) };
    let Some(What::Convert(convert)) = request.what else { process::exit(1) };
    link.send(&stage()).unwrap();
    let what = match case(&convert, &mut link) {
        Ok(()) => Event::Converted(ConvertResult::default()),
        Err(message) => {
            let item = Diagnostic { code: "TEST".into(), message, ..Default::default() };
            Event::Failed(Diagnostics { items: vec![item] })
        }
    };
    link.send(&WorkerEvent { what: Some(what) }).unwrap();
    if convert.name == "result_then_crash" {
        fault();
    }
}

fn case(convert: &ConvertRequest, link: &mut Link) -> std::result::Result<(), String> {
    let work = Path::new(&convert.work_dir);
    match convert.name.as_str() {
        "nothing" | "result_then_crash" => Ok(()),
        "files" => files(work, Path::new(&convert.files[0].path)),
        "process_files" => process_files(),
        "network" => network(),
        "processes" => processes(),
        "signals" => signals(),
        "rights" => rights(work),
        "own_limits" => own_limits(),
        "threads" => threads(),
        "uprobe" => probe_call(UPROBE),
        "uretprobe" => probe_call(URETPROBE),
        "ten_thousand_threads" => ten_thousand_threads(),
        "many_files" => fill(work, Fill::Named),
        "files_behind_half_a_message" => {
            // The parent waits for the rest.
            std::io::Write::write_all(&mut duplicate(link)?, &[100, 0, 0, 0, 1]).map_err(said)?;
            fill(work, Fill::Named)
        }
        "nameless_files" => fill(work, Fill::Open),
        "mapped_files" => fill(work, Fill::Mapped),
        "many_folders" => many_folders(work),
        "file_size" => file_size(work),
        "memory_is_refused" => memory_is_refused(),
        "memory_bomb" => memory_bomb(),
        "busy" => loop {
            hint::spin_loop();
        },
        "slow" => {
            thread::sleep(Duration::from_millis(500));
            Ok(())
        }
        "sleeps" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        "closes_and_sleeps" => closes_and_sleeps(link),
        "nonsense" => nonsense(link),
        "message_bomb" => message_bomb(link),
        "floods" => floods(link),
        "chatter" => {
            eprintln!("{}", "x".repeat(100_000));
            eprintln!("last line");
            Ok(())
        }
        "exit_0" => process::exit(0),
        "exit_3" => process::exit(3),
        "panic" => panic!("oh"),
        "abort" => process::abort(),
        "segfault" => fault(),
        "killed" => {
            succeed("kill", kill_process(getpid(), Signal::KILL).map_err(Error::from))?;
            Err("survived".into())
        }
        "stack_overflow" => Err(deep(0).to_string()),
        other => Err(format!("unknown case {other}")),
    }
}

fn expect<T>(what: &str, result: Result<T>, errno: i32) -> std::result::Result<(), String> {
    match result {
        Ok(_) => Err(format!("{what}: was possible")),
        Err(e) if e.raw_os_error() == Some(errno) => Ok(()),
        Err(e) => Err(format!("{what}: {e}, expected errno {errno}")),
    }
}

fn succeed<T>(what: &str, result: Result<T>) -> std::result::Result<(), String> {
    result.map(drop).map_err(|e| format!("{what}: {e}"))
}

fn files(work: &Path, input: &Path) -> std::result::Result<(), String> {
    let beside = input.with_file_name("secret.txt");
    expect("read /etc/passwd", fs::read("/etc/passwd"), libc::EACCES)?;
    expect("read beside the input", fs::read(&beside), libc::EACCES)?;
    expect("list the folder", fs::read_dir(input.with_file_name("")), libc::EACCES)?;
    expect("write the input", fs::write(input, b""), libc::EACCES)?;
    expect("write outside", fs::write(input.with_file_name("new"), b""), libc::EACCES)?;
    expect("remove outside", fs::remove_file(&beside), libc::EACCES)?;
    let link = work.join("link");
    succeed("make a symbolic link", std::os::unix::fs::symlink(&beside, &link))?;
    expect("read through it", fs::read(&link), libc::EACCES)?;
    succeed("read the input", fs::read(input))?;
    succeed("make a folder", fs::create_dir(work.join("out")))?;
    succeed("write there", fs::write(work.join("out/a"), b"a"))?;
    succeed("rename there", fs::rename(work.join("out/a"), work.join("b")))?;
    succeed("remove there", fs::remove_file(work.join("b")))?;
    succeed("libraries", fs::read_dir("/usr/lib"))?;
    succeed("random numbers", fs::File::open("/dev/urandom"))
}

/// The machine's interfaces, sockets and mounts are not for a worker, on whichever path.
fn process_files() -> std::result::Result<(), String> {
    let own = "/proc/thread-self/net";
    for folder in ["/proc/self/net", "/proc/net", own] {
        for name in ["dev", "unix", "tcp", "route"] {
            let path = format!("{folder}/{name}");
            expect(&path, fs::read(&path), libc::EACCES)?;
        }
        expect(folder, fs::read_dir(folder), libc::EACCES)?;
    }
    for name in ["mountinfo", "environ", "cgroup", "task", "fd", "root"] {
        let path = format!("/proc/self/{name}");
        expect(&path, fs::File::open(&path), libc::EACCES)?;
    }
    let parent = format!("/proc/{}/status", getppid().map_or(1, rustix::process::Pid::as_raw_pid));
    expect("of the parent", fs::read(parent), libc::EACCES)?;
    for name in ["maps", "smaps", "stat", "statm", "status"] {
        succeed(name, fs::read(format!("/proc/self/{name}")))?;
    }
    Ok(())
}

fn network() -> std::result::Result<(), String> {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};
    expect("connect", TcpStream::connect("127.0.0.1:1"), libc::EPERM)?;
    expect("listen", TcpListener::bind("127.0.0.1:0"), libc::EPERM)?;
    expect("UDP", UdpSocket::bind("127.0.0.1:0"), libc::EPERM)?;
    expect("Unix socket", UnixListener::bind("s"), libc::EPERM)?;
    expect("socket pair", UnixStream::pair(), libc::EPERM)
}

fn processes() -> std::result::Result<(), String> {
    expect("start a program", process::Command::new("/bin/true").status(), libc::EPERM)?;
    // SAFETY: a child, if there is one, ends at once: it allocates nothing, and takes no lock that another
    // thread may have held.
    let forked = match unsafe { libc::fork() } {
        // SAFETY: `_exit` ends the child without running anything of the parent's.
        0 => unsafe { libc::_exit(0) },
        -1 => Err(Error::last_os_error()),
        pid => Ok(pid),
    };
    expect("fork", forked, libc::EPERM)
}

fn signals() -> std::result::Result<(), String> {
    let parent = getppid().ok_or("no parent")?;
    expect("signal the parent", kill_process(parent, Signal::CONT).map_err(Error::from), EPERM)?;
    let ask = rustix::process::test_kill_process(getpid());
    succeed("signal itself", ask.map_err(Error::from))
}

const EPERM: i32 = libc::EPERM;

fn rights(work: &Path) -> std::result::Result<(), String> {
    let all = fs::Permissions::from_mode(0o777);
    expect("chmod", fs::set_permissions(work, all), EPERM)?;
    expect("chown", std::os::unix::fs::chown(work, Some(1), None), EPERM)
}

fn own_limits() -> std::result::Result<(), String> {
    let none = Rlimit { current: None, maximum: None };
    let raised = setrlimit(Resource::As, none).map_err(Error::from);
    expect("raise a limit", raised, EPERM)?;
    let freed = rustix::process::set_parent_process_death_signal(None).map_err(Error::from);
    expect("outlive the parent", freed, EPERM)?;
    let core = rustix::process::getrlimit(Resource::Core).current;
    if core == Some(0) { Ok(()) } else { Err(format!("core files of {core:?} bytes")) }
}

fn threads() -> std::result::Result<(), String> {
    let threads: Vec<_> = (0..8u64).map(|i| thread::spawn(move || i * i)).collect();
    let sum: u64 = threads.into_iter().map(|t| t.join().unwrap_or(0)).sum();
    if sum == 140 { Ok(()) } else { Err(format!("threads computed {sum}")) }
}

/// Their numbers on x86-64; elsewhere there are no such calls, and the numbers are those of others.
const URETPROBE: libc::c_long = 335;
const UPROBE: libc::c_long = 336;

/// An error of the kernel's, or of the filter's where it is asked.
fn probe_call(number: libc::c_long) -> std::result::Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    // SAFETY: the call takes no arguments; where it is not refused, it ends the process.
    match unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) } {
        -1 => Ok(()),
        answer => Err(format!("call {number} answered {answer}")),
    }
}

fn ten_thousand_threads() -> std::result::Result<(), String> {
    const COUNT: usize = 10_000;
    for count in 0..COUNT {
        let small = thread::Builder::new().stack_size(64 << 10);
        if let Err(e) = small.spawn(|| thread::sleep(Duration::from_secs(60))) {
            return Err(format!("{count} threads, then {e}"));
        }
    }
    thread::sleep(Duration::from_secs(60));
    Err(format!("{COUNT} threads were allowed"))
}

/// What becomes of a file that was written, and goes on taking room.
#[derive(Clone, Copy)]
enum Fill {
    Named,
    Open,
    Mapped,
}

/// Files of allowed size without end.
fn fill(work: &Path, how: Fill) -> std::result::Result<(), String> {
    let mut kept = Vec::new();
    for count in 0..200 {
        let path = work.join(count.to_string());
        let mut file = fs::OpenOptions::new();
        let mut file = file.read(true).write(true).create_new(true).open(&path).map_err(said)?;
        std::io::Write::write_all(&mut file, &[1; 1 << 20]).map_err(said)?;
        if !matches!(how, Fill::Named) {
            fs::remove_file(&path).map_err(said)?;
        }
        match how {
            Fill::Named => {}
            Fill::Open => kept.push(OpenInput::Open(file)),
            Fill::Mapped => {
                // SAFETY: no other process has the file.
                let map = unsafe { memmap2::Mmap::map(&file) };
                kept.push(OpenInput::Mapped(map.map_err(said)?));
            }
        }
    }
    thread::sleep(Duration::from_secs(60));
    Err(format!(
        "200 files were allowed, {} of them without a name",
        kept.iter().map(OpenInput::bytes).count()
    ))
}

enum OpenInput {
    Open(fs::File),
    Mapped(memmap2::Mmap),
}

impl OpenInput {
    fn bytes(&self) -> u64 {
        match self {
            OpenInput::Open(file) => file.metadata().map_or(0, |data| data.len()),
            OpenInput::Mapped(map) => map.len() as u64,
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn said(e: Error) -> String {
    e.to_string()
}

fn many_folders(work: &Path) -> std::result::Result<(), String> {
    let deep = work.join("a/".repeat(100));
    fs::create_dir_all(deep).map_err(said)?;
    thread::sleep(Duration::from_secs(60));
    Err("folders inside each other without end were allowed".into())
}

fn file_size(work: &Path) -> std::result::Result<(), String> {
    let written = fs::write(work.join("big"), vec![0; 2 << 20]);
    match written {
        Err(e) if e.kind() == ErrorKind::FileTooLarge => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn memory_is_refused() -> std::result::Result<(), String> {
    let mut small: Vec<u8> = Vec::new();
    small.try_reserve(MEMORY_BYTES as usize / 2).map_err(|e| format!("half the budget: {e}"))?;
    let mut large: Vec<u8> = Vec::new();
    match large.try_reserve(MEMORY_BYTES as usize * 4) {
        Ok(()) => Err("four times the budget was granted".into()),
        Err(_) => Ok(()),
    }
}

fn memory_bomb() -> std::result::Result<(), String> {
    let mut kept = Vec::new();
    for _ in 0..64 {
        kept.push(vec![1u8; 32 << 20]);
    }
    Err(format!("{} blocks were granted", kept.len()))
}

fn closes_and_sleeps(link: &mut Link) -> std::result::Result<(), String> {
    let stream = duplicate(link)?;
    stream.shutdown(std::net::Shutdown::Both).map_err(|e| e.to_string())?;
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

fn nonsense(link: &mut Link) -> std::result::Result<(), String> {
    use std::io::Write;
    duplicate(link)?.write_all(&[0xff; 64]).map_err(|e| e.to_string())?;
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// Three MiB that would be 700 once they are decoded: a failure with empty diagnostics.
fn message_bomb(link: &mut Link) -> std::result::Result<(), String> {
    use std::io::Write;
    let mut items = [1 << 3 | 2, 0].repeat(3 << 19);
    // The length of the failure, a varint of four bytes.
    let len = items.len();
    let varint = [len | 0x80, len >> 7 | 0x80, len >> 14 | 0x80, len >> 21].map(|b| b as u8);
    let mut message = [&[7 << 3 | 2], &varint[..]].concat();
    message.append(&mut items);
    let len = u32::try_from(message.len()).map_err(|e| e.to_string())?;
    let mut stream = duplicate(link)?;
    stream.write_all(&len.to_le_bytes()).map_err(|e| e.to_string())?;
    stream.write_all(&message).map_err(|e| e.to_string())?;
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

fn floods(link: &mut Link) -> std::result::Result<(), String> {
    for i in 0..20_000 {
        let text = format!("line {i}");
        let line = LogLine { text, ..Default::default() };
        let started = StageStarted { stage: format!("stage {i}"), ..Default::default() };
        let progress = Event::Progress(Progress { done: i, total: 0, about: "x".repeat(1 << 10) });
        for what in [Event::Log(line), Event::Stage(started), progress] {
            link.send(&WorkerEvent { what: Some(what) }).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

fn duplicate(link: &Link) -> std::result::Result<std::os::unix::net::UnixStream, String> {
    use std::os::fd::AsFd;
    link.as_fd().try_clone_to_owned().map(Into::into).map_err(|e| e.to_string())
}

/// A write to an address that is not mapped. Sending the signal instead would reach the handler of
/// the standard library, which only lets real faults through.
fn fault() -> ! {
    // SAFETY: not sound, which is the purpose. The address lies in the first page, which is never mapped, so that the
    // write ends the process and changes nothing.
    unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
    process::abort()
}

/// Recursion that no compiler can turn into a loop.
fn deep(n: u64) -> u64 {
    let block = hint::black_box([n; 512]);
    if hint::black_box(n) == u64::MAX {
        return n;
    }
    deep(n + 1) + hint::black_box(block)[n as usize % 512]
}
