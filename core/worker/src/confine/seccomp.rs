//! System calls that a worker may not make, each with its reason.
//!
//! A list of denials instead of permissions: plugins are foreign code whose C library calls what it
//! likes, and the aim is to keep accidents and curiosity inside, not to defeat an attacker.

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

type Calls = &'static [(&'static str, c_long)];
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The same number on all processors; `libc` does not name it on all of them.
const FCHMODAT2: c_long = 452;

/// Calls that are denied with `EPERM` whatever their arguments, by reason.
const ALWAYS: &[(&str, Calls)] = &[
    (
        "A conversion needs no network; the link to the daemon is open already.",
        &[
            ("socket", libc::SYS_socket),
            ("socketpair", libc::SYS_socketpair),
            ("connect", libc::SYS_connect),
            ("bind", libc::SYS_bind),
            ("listen", libc::SYS_listen),
            ("accept", libc::SYS_accept),
            ("accept4", libc::SYS_accept4),
        ],
    ),
    (
        "Another program would escape deadline and attribution.",
        &[("execve", libc::SYS_execve), ("execveat", libc::SYS_execveat)],
    ),
    (
        "The worker must stay in the group that the daemon kills.",
        &[("setpgid", libc::SYS_setpgid), ("setsid", libc::SYS_setsid)],
    ),
    (
        "Other processes, other workers among them, are none of its business.",
        &[
            ("ptrace", libc::SYS_ptrace),
            ("process_vm_readv", libc::SYS_process_vm_readv),
            ("process_vm_writev", libc::SYS_process_vm_writev),
            ("process_madvise", libc::SYS_process_madvise),
            ("pidfd_open", libc::SYS_pidfd_open),
            ("pidfd_getfd", libc::SYS_pidfd_getfd),
            ("pidfd_send_signal", libc::SYS_pidfd_send_signal),
            ("kcmp", libc::SYS_kcmp),
            ("tkill", libc::SYS_tkill),
        ],
    ),
    (
        "The view of the file system is the daemon's to decide.",
        &[
            ("mount", libc::SYS_mount),
            ("umount2", libc::SYS_umount2),
            ("pivot_root", libc::SYS_pivot_root),
            ("chroot", libc::SYS_chroot),
            ("move_mount", libc::SYS_move_mount),
            ("open_tree", libc::SYS_open_tree),
            ("fsopen", libc::SYS_fsopen),
            ("fsconfig", libc::SYS_fsconfig),
            ("fsmount", libc::SYS_fsmount),
            ("fspick", libc::SYS_fspick),
            ("mount_setattr", libc::SYS_mount_setattr),
            ("unshare", libc::SYS_unshare),
            ("setns", libc::SYS_setns),
            ("mknodat", libc::SYS_mknodat),
            ("name_to_handle_at", libc::SYS_name_to_handle_at),
            ("open_by_handle_at", libc::SYS_open_by_handle_at),
            ("fanotify_init", libc::SYS_fanotify_init),
            ("quotactl", libc::SYS_quotactl),
        ],
    ),
    (
        "Rights of files are not covered by the file rules of the kernel.",
        &[
            ("fchmodat", libc::SYS_fchmodat),
            ("fchmodat2", FCHMODAT2),
            ("fchown", libc::SYS_fchown),
            ("fchownat", libc::SYS_fchownat),
            ("setxattr", libc::SYS_setxattr),
            ("lsetxattr", libc::SYS_lsetxattr),
            ("removexattr", libc::SYS_removexattr),
            ("lremovexattr", libc::SYS_lremovexattr),
        ],
    ),
    (
        "Large interfaces of the kernel that bypass these rules or have a history of holes.",
        &[
            ("bpf", libc::SYS_bpf),
            ("perf_event_open", libc::SYS_perf_event_open),
            ("userfaultfd", libc::SYS_userfaultfd),
            ("io_uring_setup", libc::SYS_io_uring_setup),
            ("io_uring_enter", libc::SYS_io_uring_enter),
            ("io_uring_register", libc::SYS_io_uring_register),
            ("add_key", libc::SYS_add_key),
            ("request_key", libc::SYS_request_key),
            ("keyctl", libc::SYS_keyctl),
            ("personality", libc::SYS_personality),
        ],
    ),
    (
        "Administration of the machine.",
        &[
            ("kexec_load", libc::SYS_kexec_load),
            ("kexec_file_load", libc::SYS_kexec_file_load),
            ("init_module", libc::SYS_init_module),
            ("finit_module", libc::SYS_finit_module),
            ("delete_module", libc::SYS_delete_module),
            ("reboot", libc::SYS_reboot),
            ("swapon", libc::SYS_swapon),
            ("swapoff", libc::SYS_swapoff),
            ("acct", libc::SYS_acct),
            ("syslog", libc::SYS_syslog),
            ("settimeofday", libc::SYS_settimeofday),
            ("clock_settime", libc::SYS_clock_settime),
            ("clock_adjtime", libc::SYS_clock_adjtime),
            ("adjtimex", libc::SYS_adjtimex),
            ("sethostname", libc::SYS_sethostname),
            ("setdomainname", libc::SYS_setdomainname),
        ],
    ),
];

/// The older forms of denied calls that this processor's kernel still has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(&str, Calls)] = &[
    (
        "Another process would escape deadline and memory limit.",
        &[("fork", libc::SYS_fork), ("vfork", libc::SYS_vfork)],
    ),
    (
        "Rights of files are not covered by the file rules of the kernel.",
        &[
            ("chmod", libc::SYS_chmod),
            ("chown", libc::SYS_chown),
            ("lchown", libc::SYS_lchown),
            ("mknod", libc::SYS_mknod),
        ],
    ),
    ("Administration of the machine.", &[("iopl", libc::SYS_iopl), ("ioperm", libc::SYS_ioperm)]),
    ("Limits are the daemon's to set.", &[("setrlimit", libc::SYS_setrlimit)]),
];
/// The number is that of the kernel's common table; `libc` has no name for it here.
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(&str, Calls)] = &[("Limits are the daemon's to set.", &[("setrlimit", 164)])];

/// Calls that are denied with `EPERM` for some arguments only.
const SOMETIMES: &[(&str, c_long, When, &str)] = &[
    (
        "clone",
        libc::SYS_clone,
        When::NewProcess,
        "Threads are welcome; another process would escape deadline and memory limit.",
    ),
    (
        "kill",
        libc::SYS_kill,
        When::OtherProcess,
        "A worker may end itself, as `abort` does, but nobody else.",
    ),
    ("tgkill", libc::SYS_tgkill, When::OtherProcess, "As `kill`."),
    ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, When::OtherProcess, "As `kill`."),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, When::OtherProcess, "As `kill`."),
    (
        "prlimit64",
        libc::SYS_prlimit64,
        When::SetsLimit,
        "Limits are the daemon's to set; asking for them is allowed.",
    ),
    ("prctl", libc::SYS_prctl, When::KeepsLiving, "The worker must end with its parent."),
];

/// Answered with `ENOSYS`, so that the C library falls back to `clone`, whose flags can be seen.
const UNSEEN: (&str, c_long, &str) =
    ("clone3", libc::SYS_clone3, "Its flags are in memory, where the filter cannot look.");

/// When a call is denied.
#[derive(Clone, Copy, Debug)]
enum When {
    /// The flags (first argument) lack the one that makes a thread.
    NewProcess,
    /// The first argument is not this process.
    OtherProcess,
    /// The third argument, new limits, is not null.
    SetsLimit,
    /// The first argument is the option that changes the parent-death signal.
    KeepsLiving,
}

impl When {
    fn condition(self) -> Result<SeccompCondition> {
        let thread = libc::CLONE_THREAD as u64;
        let me = u64::from(std::process::id());
        let death_signal = libc::PR_SET_PDEATHSIG as u64;
        Ok(match self {
            When::NewProcess => {
                SeccompCondition::new(0, Length::Qword, Compare::MaskedEq(thread), 0)?
            }
            When::OtherProcess => SeccompCondition::new(0, Length::Dword, Compare::Ne, me)?,
            When::SetsLimit => SeccompCondition::new(2, Length::Qword, Compare::Ne, 0)?,
            When::KeepsLiving => {
                SeccompCondition::new(0, Length::Dword, Compare::Eq, death_signal)?
            }
        })
    }
}

/// Names of the calls that are denied always or for some arguments, each with its reason.
pub fn denied() -> impl Iterator<Item = (&'static str, &'static str)> {
    let always = ALWAYS.iter().chain(OLDER);
    let always = always.flat_map(|(reason, calls)| calls.iter().map(|(name, _)| (*name, *reason)));
    let sometimes = SOMETIMES.iter().map(|(name, _, _, reason)| (*name, *reason));
    always.chain(sometimes).chain([(UNSEEN.0, UNSEEN.2)])
}

/// Puts the denials in force for this thread and all it will start; no new privileges from then on.
///
/// # Errors
/// If the kernel has no such filters.
pub fn restrict() -> Result<()> {
    let unseen = BTreeMap::from([(UNSEEN.1, Vec::new())]);
    apply_filter(&program(unseen, libc::ENOSYS)?)?;
    apply_filter(&program(rules()?, libc::EPERM)?)?;
    Ok(())
}

fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules = BTreeMap::new();
    for (_, calls) in ALWAYS.iter().chain(OLDER) {
        rules.extend(calls.iter().map(|(_, number)| (*number, Vec::new())));
    }
    for (_, number, when, _) in SOMETIMES {
        rules.insert(*number, vec![SeccompRule::new(vec![when.condition()?])?]);
    }
    Ok(rules)
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram> {
    let rules = with_second_table(rules);
    let architecture = std::env::consts::ARCH.try_into()?;
    let deny = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, deny, architecture)?;
    Ok(filter.try_into()?)
}

/// x86-64 kernels may offer every call a second time, with this bit set.
#[cfg(target_arch = "x86_64")]
fn with_second_table(rules: BTreeMap<i64, Vec<SeccompRule>>) -> BTreeMap<i64, Vec<SeccompRule>> {
    const X32: i64 = 0x4000_0000;
    /// Calls that have a number of their own there: execve, ptrace, process_vm_readv, _writev,
    /// kexec_load, execveat, rt_sigqueueinfo, rt_tgsigqueueinfo.
    const OWN: [i64; 8] = [520, 521, 539, 540, 528, 545, 524, 536];
    let twins = rules.iter().map(|(number, rule)| (number | X32, rule.clone()));
    let own = OWN.iter().map(|number| (number | X32, Vec::new()));
    let mut all: BTreeMap<_, _> = twins.chain(own).collect();
    all.extend(rules);
    all
}

#[cfg(not(target_arch = "x86_64"))]
fn with_second_table(rules: BTreeMap<i64, Vec<SeccompRule>>) -> BTreeMap<i64, Vec<SeccompRule>> {
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_call_is_listed_once_and_with_a_reason() {
        let names: Vec<_> = denied().collect();
        let unique: BTreeSet<_> = names.iter().map(|(name, _)| name).collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.iter().all(|(_, reason)| reason.ends_with('.')));
        assert_eq!(rules().unwrap().len() + 1, names.len(), "two calls have the same number");
    }

    #[test]
    fn the_filter_fits_into_the_kernels_limit() {
        const INSTRUCTIONS_MAX: usize = 4096;
        let length = program(rules().unwrap(), libc::EPERM).unwrap().len();
        assert!((100..INSTRUCTIONS_MAX).contains(&length), "{length}");
    }
}
