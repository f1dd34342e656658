//! Namespaces of a worker's own: a second line behind the system call filter, and a count of its threads.
//!
//! A network without interfaces, no objects of IPC, and no rights over the machine, also if root
//! started the worker. In a user namespace the kernel counts threads apart from those of the same
//! user. Systems may refuse all of it: containers, a service manager, the administrator.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::io::{Error, Result};
use std::{fmt, fs};

/// The first kernel that counts the threads of a user in each user namespace apart.
const COUNTS_APART: (u32, u32) = (5, 14);
/// Namespaces that need rights over the machine, or a user namespace.
const OTHERS: libc::c_int =
    libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;
/// What root keeps: its inputs may be files of any user.
const ROOT_KEEPS: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// What a worker has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// A user namespace.
    pub user: bool,
    /// Network, IPC, host name and cgroups.
    pub others: bool,
    /// The kernel holds a limit of threads for this process alone.
    pub counts_threads: bool,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.user, "user"), (self.others, "network, IPC, host name, cgroup")];
        let has: Vec<&str> = words.into_iter().filter(|(has, _)| *has).map(|(_, w)| w).collect();
        write!(f, "of its own: {}", has.join(", "))
    }
}

/// Enters namespaces of its own. For a process with one thread, before anything is given up.
///
/// # Errors
/// Why the system offers none.
pub fn enter() -> Result<Apart> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        let entered = unshare(OTHERS);
        let sets = CapabilitySets {
            effective: ROOT_KEEPS,
            permitted: ROOT_KEEPS,
            inheritable: CapabilitySet::empty(),
        };
        // In a container root may lack even these; then it keeps what it has of them.
        set_capabilities(None, held(sets)?)?;
        return entered.map(|()| Apart { user: false, others: true, counts_threads: false });
    }
    let (user, group) = (user.as_raw(), rustix::process::getegid().as_raw());
    let others = unshare(libc::CLONE_NEWUSER | OTHERS).is_ok();
    if !others {
        unshare(libc::CLONE_NEWUSER)?;
    }
    // Without the map the process is nobody to itself; what it may do stays the same.
    let _ = map(user, group);
    Ok(Apart { user: true, others, counts_threads: counts_apart() })
}

fn unshare(flags: libc::c_int) -> Result<()> {
    // SAFETY: the call takes numbers; it changes namespaces of this process, which has one thread.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// The wanted rights, as far as the process has them.
fn held(wanted: CapabilitySets) -> Result<CapabilitySets> {
    let has = rustix::thread::capabilities(None)?;
    Ok(CapabilitySets {
        effective: wanted.effective & has.permitted,
        permitted: wanted.permitted & has.permitted,
        inheritable: CapabilitySet::empty(),
    })
}

/// Lets the process be the same user inside as outside.
fn map(user: u32, group: u32) -> Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn counts_apart() -> bool {
    let name = rustix::system::uname();
    version(&name.release().to_string_lossy()).is_some_and(|found| found >= COUNTS_APART)
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_kernels_are_compared_by_number() {
        assert_eq!(version("5.14.0-362.el9.x86_64"), Some((5, 14)));
        assert_eq!(version("6.18"), Some((6, 18)));
        assert_eq!(version("linux"), None);
        assert!(version("5.9.1") < Some(COUNTS_APART));
        assert!(version("6.1.0") > Some(COUNTS_APART));
    }

    #[test]
    fn what_a_worker_has_of_its_own_is_said() {
        let all = Apart { user: true, others: true, counts_threads: true };
        let said = "of its own: user, network, IPC, host name, cgroup";
        assert_eq!(all.to_string(), said);
        assert_eq!(Apart { others: false, ..all }.to_string(), "of its own: user");
    }
}
