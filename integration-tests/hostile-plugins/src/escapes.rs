//! Ways out of a worker's confinement: what harms the daemon, other processes, and files that belong to the same user.
//!
//! Each attempt says what the system answered. Attempts that would work do no more harm than the test can take.

use libc::{c_int, c_long};
use std::fs::File;
use std::io::{Error, Result};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Numbers that are the same on all processors; `libc` does not name them everywhere.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;
const FCHMODAT2: c_long = 452;
/// A call that no kernel has.
const UNKNOWN: c_long = 1000;
/// The second numbering on x86-64.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

type Attempt = (&'static str, Result<c_long>);

/// All attempts with their outcomes, one line each: the name, then `allowed` or the error.
pub(crate) fn all() -> Vec<String> {
    let parent = std::os::unix::process::parent_id() as c_long;
    let groups = [
        signals(parent),
        files(),
        reading(parent),
        watching(),
        scheduling(parent),
        processes(parent),
    ];
    let said = |(name, outcome): Attempt| match outcome {
        Ok(_) => format!("{name}: allowed"),
        Err(e) => format!("{name}: refused ({e})"),
    };
    groups.into_iter().flatten().map(said).collect()
}

/// A system call by number; what is not given is 0.
fn call<const N: usize>(number: c_long, arguments: [c_long; N]) -> Result<c_long> {
    let at = |i: usize| arguments.get(i).copied().unwrap_or(0);
    // SAFETY: arguments are numbers, null, or addresses of variables that outlive the call and are as long as the call
    // says. What is read only comes from `pointer`; the one call that writes gets a variable to write to. What an
    // allowed call does to the process is what the test is about.
    let answer = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

fn pointer<T: ?Sized>(to: &T) -> c_long {
    std::ptr::from_ref(to).cast::<u8>() as c_long
}

fn signals(parent: c_long) -> Vec<Attempt> {
    let mut ends: [c_int; 2] = [0; 2];
    // SAFETY: the call writes two descriptors into this variable, which has room for two.
    let made = unsafe { libc::pipe(ends.as_mut_ptr()) };
    let (reader, writer) = (c_long::from(ends[0]), c_long::from(ends[1]));
    let fcntl =
        |command: c_int, value| call(libc::SYS_fcntl, [reader, c_long::from(command), value]);
    let ioctl =
        |request: c_long, value: &c_int| call(libc::SYS_ioctl, [reader, request, pointer(value)]);
    let owner: [c_int; 2] = [1, parent as c_int];
    let (pid, one) = (parent as c_int, 1);
    let none: c_long = 0;
    let folder = File::open("/usr/lib").map_or(-1, |f| c_long::from(f.into_raw()));
    let (kill, queue) = (libc::SYS_kill, libc::SYS_rt_sigqueueinfo);
    let info = [0u8; 128];
    let cont = c_long::from(libc::SIGCONT);
    let attempts = vec![
        (
            "make a pipe",
            if made == 0 { Err(Error::other("the means, not an attempt")) } else { Ok(0) },
        ),
        ("F_SETOWN", fcntl(8, parent)),
        ("F_SETOWN_EX", fcntl(15, pointer(&owner))),
        ("F_SETSIG", fcntl(10, c_long::from(libc::SIGKILL))),
        ("O_ASYNC", fcntl(libc::F_SETFL, c_long::from(libc::O_ASYNC))),
        ("FIOSETOWN", ioctl(0x8901, &pid)),
        ("SIOCSPGRP", ioctl(0x8902, &pid)),
        ("FIOASYNC", ioctl(0x5452, &one)),
        ("F_SETLEASE", call(libc::SYS_fcntl, [folder, 1024, 0])),
        ("F_NOTIFY", call(libc::SYS_fcntl, [folder, 1026, 2])),
        ("kill the parent", call(kill, [parent, none])),
        ("kill the own group", call(kill, [0, none])),
        ("kill everybody", call(kill, [-1, none])),
        ("tkill", call(libc::SYS_tkill, [parent, none])),
        ("tgkill", call(libc::SYS_tgkill, [parent, parent, none])),
        ("rt_sigqueueinfo", call(queue, [parent, cont, pointer(&info)])),
        ("pidfd_open", call(libc::SYS_pidfd_open, [parent])),
    ];
    // What makes the kernel send the signal, if all of it was allowed.
    let _ = call(libc::SYS_write, [writer, pointer(b"x"), 1]);
    attempts
}

trait IntoRaw {
    fn into_raw(self) -> c_int;
}

impl IntoRaw for File {
    /// Left open: the attempts use its number.
    fn into_raw(self) -> c_int {
        let number = self.as_raw_fd();
        std::mem::forget(self);
        number
    }
}

/// The library that holds this code.
fn own_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let line = maps.lines().find(|line| line.ends_with("hostile_plugins.so")).unwrap_or_default();
    line.find('/').map_or_else(PathBuf::new, |at| PathBuf::from(&line[at..]))
}

fn files() -> Vec<Attempt> {
    let library = own_library();
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let folder = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    let mut attempts = Vec::new();
    for (name, path) in [
        ("fchmod of the own library", library.clone()),
        ("fchmod of its folder", folder(&library)),
        ("fchmod of the program", program.clone()),
        ("fchmod of its folder", folder(&program)),
    ] {
        let file = File::open(&path).map(|f| c_long::from(f.into_raw()));
        attempts.push((name, file.and_then(|file| call(libc::SYS_fchmod, [file, 0o777]))));
    }
    let file = File::open(&library).map_or(-1, |f| c_long::from(f.into_raw()));
    let here = c_long::from(libc::AT_FDCWD);
    let text = format!("{}\0", program.display());
    let (path, name, value) = (pointer(text.as_str()), pointer("user.onnxd\0"), pointer("x"));
    let xattr: [u64; 2] = [value as u64, 1];
    let attributes = [0u8; 32];
    let (sets, size) = (pointer(&xattr), size_of::<[u64; 2]>() as c_long);
    attempts.extend([
        ("fsetxattr", call(libc::SYS_fsetxattr, [file, name, value, 1])),
        ("fremovexattr", call(libc::SYS_fremovexattr, [file, name])),
        ("futimens", call(libc::SYS_utimensat, [file, 0, 0, 0])),
        ("fchown", call(libc::SYS_fchown, [file, -1, -1])),
        ("fchmodat", call(libc::SYS_fchmodat, [here, path, 0o777])),
        ("fchmodat2", call(FCHMODAT2, [here, path, 0o777, 0])),
        ("fchownat", call(libc::SYS_fchownat, [here, path, -1, -1, 0])),
        ("utimensat", call(libc::SYS_utimensat, [here, path, 0, 0])),
        ("setxattr", call(libc::SYS_setxattr, [path, name, value, 1])),
        ("setxattrat", call(SETXATTRAT, [here, path, 0, name, sets, size])),
        ("removexattrat", call(REMOVEXATTRAT, [here, path, 0, name])),
        ("file_setattr", call(FILE_SETATTR, [here, path, pointer(&attributes), 24, 0])),
        ("FS_IOC_SETFLAGS", call(libc::SYS_ioctl, [file, 0x4008_6602, pointer(&attributes)])),
        ("name_to_handle_at", call(libc::SYS_name_to_handle_at, [here, path, 0, 0, 0])),
    ]);
    #[cfg(target_arch = "x86_64")]
    attempts.extend([
        ("chmod", call(libc::SYS_chmod, [path, 0o777])),
        ("utime", call(libc::SYS_utime, [path, 0])),
        ("utimes", call(libc::SYS_utimes, [path, 0])),
        ("futimesat", call(libc::SYS_futimesat, [here, path, 0])),
    ]);
    attempts
}

/// Files that belong to the same user, and what the kernel tells of other processes and of the machine.
fn reading(parent: c_long) -> Vec<Attempt> {
    let read = |path: &str| File::open(path).map(|_| 0);
    let of_parent = |file: &str| read(&format!("/proc/{parent}/{file}"));
    vec![
        ("the parent's memory", of_parent("mem")),
        ("the parent's maps", of_parent("maps")),
        ("the parent's environment", of_parent("environ")),
        ("the parent's descriptors", of_parent("fd")),
        ("the parent's sockets", of_parent("net/unix")),
        ("the list of processes", read("/proc")),
        ("the machine's interfaces", read("/proc/self/net/dev")),
        ("the machine's sockets", read("/proc/self/net/unix")),
        ("the machine's addresses", read("/proc/net/fib_trie")),
        ("interfaces by a thread", read("/proc/thread-self/net/dev")),
        ("the machine's mounts", read("/proc/self/mountinfo")),
        ("the folder around the work folder", read("..")),
        ("the user's folder", read(&std::env::var("HOME").unwrap_or("/root".into()))),
        ("control groups", read("/sys/fs/cgroup")),
    ]
}

fn watching() -> Vec<Attempt> {
    let mut attempts = vec![
        ("inotify_init1", call(libc::SYS_inotify_init1, [0])),
        ("inotify_add_watch", call(libc::SYS_inotify_add_watch, [-1, pointer("/etc\0"), 0x100])),
        ("fanotify_init", call(libc::SYS_fanotify_init, [0, 0])),
    ];
    #[cfg(target_arch = "x86_64")]
    attempts.push(("inotify_init", call(libc::SYS_inotify_init, [])));
    attempts.extend([
        ("memfd_create", call(libc::SYS_memfd_create, [pointer("m\0"), 0])),
        ("shmget", call(libc::SYS_shmget, [0, 4096, 0o1600])),
        ("mq_open", call(libc::SYS_mq_open, [pointer("m\0"), 0])),
    ]);
    attempts
}

fn scheduling(parent: c_long) -> Vec<Attempt> {
    let idle: c_int = 0;
    let processors = [1u64; 16];
    let (limits, mut told) = ([u64::MAX; 2], [0u64; 2]);
    let told = std::ptr::from_mut(&mut told) as c_long;
    let attributes = [48u32, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const SCHED_IDLE: c_long = 5;
    const NICE: c_long = 19;
    vec![
        ("setpriority", call(libc::SYS_setpriority, [0, parent, NICE])),
        ("setpriority of a group", call(libc::SYS_setpriority, [1, parent, NICE])),
        ("setpriority of a user", call(libc::SYS_setpriority, [2, 0, NICE])),
        (
            "sched_setaffinity",
            call(libc::SYS_sched_setaffinity, [parent, 128, pointer(&processors)]),
        ),
        (
            "sched_setscheduler",
            call(libc::SYS_sched_setscheduler, [parent, SCHED_IDLE, pointer(&idle)]),
        ),
        ("sched_setparam", call(libc::SYS_sched_setparam, [parent, pointer(&idle)])),
        ("sched_setattr", call(libc::SYS_sched_setattr, [parent, pointer(&attributes), 0])),
        ("ioprio_set", call(libc::SYS_ioprio_set, [1, parent, 3 << 13])),
        ("prlimit of the parent", call(libc::SYS_prlimit64, [parent, 7, 0, told])),
        ("prlimit of its own", call(libc::SYS_prlimit64, [0, 7, pointer(&limits), 0])),
        ("migrate_pages", call(libc::SYS_migrate_pages, [parent, 0, 0, 0])),
    ]
}

fn processes(parent: c_long) -> Vec<Attempt> {
    let thread = c_long::from(libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD);
    let spaced = thread | c_long::from(libc::CLONE_NEWNET);
    let mut attempts = vec![
        ("ptrace", call(libc::SYS_ptrace, [16, parent])),
        ("process_vm_readv", call(libc::SYS_process_vm_readv, [parent, 0, 0, 0, 0, 0])),
        ("setresuid", call(libc::SYS_setresuid, [-1, -1, -1])),
        ("setgroups", call(libc::SYS_setgroups, [0, 0])),
        ("setsid", call(libc::SYS_setsid, [])),
        ("unshare", call(libc::SYS_unshare, [0])),
        // Without a stack the kernel refuses flags of a thread that it would accept otherwise.
        ("clone with a network of its own", call(libc::SYS_clone, [spaced, 0])),
        ("clone3", call(libc::SYS_clone3, [0, 0])),
        ("outlive the parent", call(libc::SYS_prctl, [1, 0])),
        ("a user notifier", call(libc::SYS_seccomp, [1, 8, 0])),
        ("io_uring_setup", call(libc::SYS_io_uring_setup, [1, 0])),
        ("io_setup", call(libc::SYS_io_setup, [1, 0])),
        ("socket", call(libc::SYS_socket, [2, 2, 0])),
        ("socketpair", call(libc::SYS_socketpair, [1, 1, 0, 0])),
        ("an unknown call", call(UNKNOWN, [])),
    ];
    #[cfg(target_arch = "x86_64")]
    attempts.extend([
        ("socket by the second numbering", call(X32 | libc::SYS_socket, [2, 2, 0])),
        ("fcntl by the second numbering", call(X32 | libc::SYS_fcntl, [0, 8, parent])),
    ]);
    attempts
}
