//! Which job the daemon worked for when it crashed.
//!
//! A daemon that is killed from outside, or loses power, says nothing about its jobs. One that ends by
//! a fault, an abort or a panic was working for one of them, and the next start counts that as a crash
//! of the job. The thread that works for a job has its line ready; the handler of the signal only
//! appends it to a file.

use std::cell::Cell;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Write};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals by which a process ends through its own doing.
const SIGNALS: [c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];
/// Those of them that come again by themselves, if nothing but an instruction is their cause.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// Room for an id, a space, a lease and the end of the line.
const LINE_BYTES_MAX: usize = 64;

/// The file, once it is open.
static FILE: AtomicI32 = AtomicI32::new(-1);

thread_local! {
    /// Without a destructor, so that a signal handler may read it.
    static LINE: Cell<[u8; LINE_BYTES_MAX]> = const { Cell::new([0; LINE_BYTES_MAX]) };
    /// How much of it holds; 0 while the thread works for no job.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// This thread works for a job as long as this lives.
pub(crate) struct Work;

impl Work {
    pub(crate) fn on(job: &str, lease: u64) -> Work {
        let text = format!("{job} {lease}\n");
        let bytes = text.len().min(LINE_BYTES_MAX);
        let mut line = [0; LINE_BYTES_MAX];
        line[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
        // In this order a signal in between finds no line, never half a one.
        BYTES.set(0);
        LINE.set(line);
        BYTES.set(bytes);
        Work
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if std::thread::panicking() {
            append_line();
        }
        BYTES.set(0);
    }
}

/// Appends the line of this thread. Called by signal handlers, so it only reads and writes.
fn append_line() {
    let (line, bytes, file) = (LINE.get(), BYTES.get(), FILE.load(Ordering::Relaxed));
    if file >= 0 && bytes > 0 {
        // SAFETY: the bytes are on this stack, and `write` is allowed in signal handlers.
        unsafe { libc::write(file, line.as_ptr().cast(), bytes) };
    }
}

/// What the signals did before: the runtime of Rust tells of an overflow of the stack.
static mut BEFORE: MaybeUninit<[libc::sigaction; SIGNALS.len()]> = MaybeUninit::uninit();

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    append_line();
    let Some(at) = SIGNALS.iter().position(|s| *s == signal) else { return };
    // SAFETY: `BEFORE` was filled before this handler was installed and is only read since. Both
    // functions are allowed in signal handlers. The kernel passes a valid `info`.
    unsafe {
        let before = (&raw const BEFORE).cast::<libc::sigaction>().add(at);
        libc::sigaction(signal, before, null_mut());
        // The instruction of a fault is run again; it is not after a trap or a refused system call, nor
        // where a process has sent the signal.
        if !FAULTS.contains(&signal) || (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// The file of a state folder.
fn path(state: &Path) -> PathBuf {
    state.join("crashed")
}

/// Has crashes of this process noted from now on.
pub(crate) fn note_crashes(state: &Path) -> io::Result<()> {
    let file = File::options().append(true).create(true).open(path(state))?;
    FILE.store(file.into_raw_fd(), Ordering::Relaxed);
    for (at, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: the action is zeroed and filled as the manual says, the handler has the signature
        // that `SA_SIGINFO` wants, and no other thread runs this.
        let done = unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            let before = (&raw mut BEFORE).cast::<libc::sigaction>().add(at);
            libc::sigaction(signal, null_mut(), before);
            libc::sigaction(signal, &raw const action, null_mut())
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Jobs, with their leases, that earlier daemons crashed over.
pub(crate) fn noted(state: &Path) -> io::Result<Vec<(String, u64)>> {
    let text = match fs::read_to_string(path(state)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let line = |line: &str| {
        let (job, lease) = line.split_once(' ')?;
        Some((job.to_owned(), lease.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// They were counted.
pub(crate) fn forget(state: &Path) -> io::Result<()> {
    match File::options().write(true).truncate(true).open(path(state)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        file => file?.flush(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::ptr::with_exposed_provenance_mut;

    const DIR: &str = "ONNXD_OWN_CRASH_TEST_DIR";
    const HOW: &str = "ONNXD_OWN_CRASH_TEST_HOW";

    fn overflow(n: u64) -> u64 {
        let room = std::hint::black_box([n; 512]);
        if n == u64::MAX { 0 } else { overflow(n + 1) + room[3] }
    }

    #[test]
    #[ignore = "started by the test below"]
    fn crashes() {
        note_crashes(Path::new(&std::env::var(DIR).unwrap())).unwrap();
        let _other = Work::on("OTHER", 1);
        let how = std::env::var(HOW).unwrap();
        let crash = move || {
            drop(Work::on("DONE", 1));
            let _work = Work::on("THIS", 7);
            match how.as_str() {
                "abort" => std::process::abort(),
                "stack" => drop(std::hint::black_box(overflow(0))),
                // SAFETY: there is none; that it faults is the test.
                "fault" => unsafe { with_exposed_provenance_mut::<u8>(8).write_volatile(1) },
                "panic" => panic!("on purpose"),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the instruction only has the kernel send a signal.
                "trap" => unsafe { std::arch::asm!("int3") },
                // From outside, and nothing of any job.
                _ => rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                )
                .unwrap(),
            }
        };
        let _ = std::thread::spawn(crash).join();
    }

    #[test]
    fn a_crash_names_the_job_and_is_still_a_crash() {
        let trap = cfg!(target_arch = "x86_64").then_some("trap");
        for how in ["abort", "stack", "fault", "panic", "killed"].into_iter().chain(trap) {
            let dir = tempfile::tempdir().unwrap();
            let ended = Command::new(std::env::current_exe().unwrap())
                .args(["run::own_crash::tests::crashes", "--exact", "--ignored", "--nocapture"])
                .env(DIR, dir.path())
                .env(HOW, how)
                .output()
                .unwrap();
            assert_eq!(ended.status.success(), how == "panic", "{how}: {ended:?}");
            let expected = match how {
                "killed" => vec![],
                _ => vec![("THIS".to_owned(), 7)],
            };
            let mut found = noted(dir.path()).unwrap();
            // An overflow ends by two signals.
            found.dedup();
            assert_eq!(found, expected, "{how}: {ended:?}");
            forget(dir.path()).unwrap();
            assert!(noted(dir.path()).unwrap().is_empty());
        }
    }
}
