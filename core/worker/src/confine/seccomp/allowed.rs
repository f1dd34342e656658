//! The system calls that a worker may make, each with its reason; docs/security.md shows the same table.

use libc::c_long;

type SystemCall = (&'static str, c_long);

/// Calls that are allowed whatever their arguments.
pub(super) struct SystemCallGroup {
    /// Why.
    pub(super) reason: &'static str,
    /// On all processors.
    pub(super) calls: &'static [SystemCall],
    /// Older forms, which only x86-64 still has.
    pub(super) older: &'static [SystemCall],
}

/// A call that is allowed for some arguments only.
pub(super) struct Filtered {
    pub(super) call: SystemCall,
    pub(super) when: When,
    /// Why, and for which arguments.
    pub(super) reason: &'static str,
}

/// The arguments for which a call is allowed. Numbers of processes are compared with the worker's own.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// The first argument, flags, makes a thread, and nothing that threads do not need.
    NewThread,
    /// The first argument is this process.
    Own,
    /// The first argument is this process, or 0, which means the same.
    OwnOrZero,
    /// The first argument, the kind, is a process, and the second is this one or 0.
    OwnPriority,
    /// The first argument is this process or 0, and the third, new limits, is null.
    OwnLimits,
    /// The argument at this place is one of these.
    OneOf(u8, &'static [u64]),
    /// As before for the second argument; or the second sets flags, and the third has not the one for signals.
    Descriptor(&'static [u64]),
}

macro_rules! calls {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

#[cfg(target_arch = "x86_64")]
macro_rules! older {
    ($($name:ident)*) => { calls! { $($name)* } };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! older {
    ($($name:ident)*) => {
        &[]
    };
}

/// Answered as if the kernel did not have it: no worker needs another filter.
pub(super) const SECCOMP: SystemCall = ("SYS_seccomp", libc::SYS_seccomp);

pub(super) const GROUPS: &[SystemCallGroup] = &[
    SystemCallGroup {
        reason: "Its own memory, within the limit.",
        calls: calls! {
            SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mincore SYS_mlock
            SYS_mlock2 SYS_munlock SYS_membarrier SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect
        },
        older: &[],
    },
    SystemCallGroup {
        reason: "Its own threads, and the end of them.",
        calls: calls! {
            SYS_futex SYS_futex_waitv SYS_set_robust_list SYS_rseq SYS_set_tid_address SYS_gettid SYS_sched_yield
            SYS_sched_getaffinity SYS_getcpu SYS_exit SYS_exit_group SYS_restart_syscall
        },
        older: older! { SYS_arch_prctl },
    },
    SystemCallGroup {
        reason: "How it takes signals, crash handlers among them.",
        calls: calls! {
            SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend
            SYS_rt_sigtimedwait SYS_sigaltstack
        },
        older: older! { SYS_pause },
    },
    SystemCallGroup {
        reason: "Clocks, and waiting for them.",
        calls: calls! {
            SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday SYS_times
            SYS_getrusage SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
        },
        older: older! { SYS_time },
    },
    SystemCallGroup {
        reason: "Questions about itself and the machine.",
        calls: calls! {
            SYS_getpid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid
            SYS_getgroups SYS_uname SYS_sysinfo SYS_getrandom SYS_getcwd
        },
        older: older! { SYS_getpgrp SYS_getrlimit },
    },
    SystemCallGroup {
        reason: "Paths; the file rules decide which can be opened or changed.",
        calls: calls! {
            SYS_openat SYS_newfstatat SYS_statx SYS_statfs SYS_faccessat SYS_faccessat2 SYS_readlinkat SYS_chdir
            SYS_mkdirat SYS_unlinkat SYS_renameat SYS_renameat2 SYS_linkat SYS_symlinkat SYS_truncate SYS_umask
        },
        older: older! {
            SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_readlink SYS_mkdir SYS_rmdir SYS_unlink SYS_rename
            SYS_link SYS_symlink
        },
    },
    SystemCallGroup {
        reason: "Contents of files that are open.",
        calls: calls! {
            SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_preadv2 SYS_write
            SYS_writev SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_lseek SYS_fstat SYS_fstatfs SYS_getdents64 SYS_fchdir
            SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_fadvise64 SYS_readahead
            SYS_copy_file_range SYS_sendfile SYS_flock
        },
        older: older! { SYS_dup2 SYS_getdents },
    },
    SystemCallGroup {
        reason: "Waiting for several things at once, among its own threads.",
        calls: calls! {
            SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2
            SYS_signalfd4 SYS_pipe2
        },
        older: older! {
            SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_pipe
        },
    },
    SystemCallGroup {
        reason: "The link to the parent, the only socket there is.",
        calls: calls! { SYS_sendto SYS_recvfrom SYS_shutdown },
        older: &[],
    },
];

const fn filtered(call: SystemCall, when: When, reason: &'static str) -> Filtered {
    Filtered { call, when, reason }
}

pub(super) const FILTERED: &[Filtered] = &[
    filtered(
        ("SYS_clone", libc::SYS_clone),
        When::NewThread,
        "Threads only; another process would escape deadline and memory limit.",
    ),
    filtered(
        ("SYS_kill", libc::SYS_kill),
        When::Own,
        "To itself only: it may end itself, as `abort` does.",
    ),
    filtered(("SYS_tgkill", libc::SYS_tgkill), When::Own, "To its own threads only."),
    filtered(("SYS_tkill", libc::SYS_tkill), When::Own, "To its first thread only."),
    filtered(
        ("SYS_rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo),
        When::Own,
        "To itself only, as `kill`.",
    ),
    filtered(
        ("SYS_rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo),
        When::Own,
        "To its own threads only.",
    ),
    filtered(
        ("SYS_prlimit64", libc::SYS_prlimit64),
        When::OwnLimits,
        "Asking for its own limits; to set them is the daemon's.",
    ),
    filtered(("SYS_getpgid", libc::SYS_getpgid), When::OwnOrZero, "Its own group only."),
    filtered(
        ("SYS_setpriority", libc::SYS_setpriority),
        When::OwnPriority,
        "Its own priority only.",
    ),
    filtered(
        ("SYS_getpriority", libc::SYS_getpriority),
        When::OwnPriority,
        "Its own priority only.",
    ),
    filtered(
        ("SYS_sched_setaffinity", libc::SYS_sched_setaffinity),
        When::OwnOrZero,
        "A thread for itself only, as pools of threads do.",
    ),
    filtered(
        ("SYS_prctl", libc::SYS_prctl),
        When::OneOf(0, PRCTL),
        "Names of threads and of memory, huge pages, vector lengths, timer slack, and questions.",
    ),
    filtered(
        ("SYS_ioctl", libc::SYS_ioctl),
        When::OneOf(1, IOCTL),
        "Whether it is a terminal and how wide, how much can be read, without waiting, closed on exec.",
    ),
    filtered(
        ("SYS_fcntl", libc::SYS_fcntl),
        When::Descriptor(FCNTL),
        "Copies, flags but for signals (`O_ASYNC`), locks, sizes of pipes; no owner of signals.",
    ),
];

const PRCTL: &[u64] = &[
    libc::PR_GET_PDEATHSIG as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_TIMERSLACK as u64,
    libc::PR_GET_TIMERSLACK as u64,
    // It is in force: asked for once more it changes nothing.
    libc::PR_SET_NO_NEW_PRIVS as u64,
    libc::PR_GET_NO_NEW_PRIVS as u64,
    libc::PR_SET_THP_DISABLE as u64,
    libc::PR_GET_THP_DISABLE as u64,
    libc::PR_SET_VMA as u64,
    SVE_SET_VL,
    SVE_GET_VL,
    SME_SET_VL,
    SME_GET_VL,
];
/// Vector lengths on aarch64, which mathematical libraries ask for; `libc` does not name them.
const SVE_SET_VL: u64 = 50;
const SVE_GET_VL: u64 = 51;
const SME_SET_VL: u64 = 63;
const SME_GET_VL: u64 = 64;

// The numbers are unsigned 32-bit ones on some C libraries and 64-bit ones on others.
#[allow(clippy::unnecessary_cast, reason = "see above")]
const IOCTL: &[u64] = &[
    libc::TCGETS as u64,
    libc::TIOCGWINSZ as u64,
    libc::FIONREAD as u64,
    libc::FIONBIO as u64,
    libc::FIOCLEX as u64,
    libc::FIONCLEX as u64,
];

const FCNTL: &[u64] = &[
    libc::F_DUPFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_GETLK as u64,
    libc::F_SETLK as u64,
    libc::F_SETLKW as u64,
    libc::F_OFD_GETLK as u64,
    libc::F_OFD_SETLK as u64,
    libc::F_OFD_SETLKW as u64,
    libc::F_GETPIPE_SZ as u64,
];
