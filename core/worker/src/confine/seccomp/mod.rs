//! The system calls that a worker may make; every other one is refused, unknown numbers among them.
//!
//! A list of permissions: what the kernel learns later is refused until it is listed. The list holds
//! what the C library, threads, and libraries that compute, read and write need.

mod allowed;

use allowed::{FILTERED, GROUPS, SECCOMP, When};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Numbers that are the same on all processors begin here, with Linux 5.1. C libraries try what has one, and fall back
/// when they read `ENOSYS`; so these answer as an older kernel would. `clone3` is one of them: its flags lie in memory,
/// where no filter can look.
const NEWER: i64 = 424;
/// Beyond, there are no calls for a long time.
const NEWER_END: i64 = 1024;

/// Flags of `clone` that a new thread may not have: name spaces of its own, and a tracer.
const CLONE_MORE: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_PTRACE;

impl When {
    /// Any of the rules allows the call.
    fn rules(self) -> Result<Vec<SeccompRule>> {
        let own = u64::from(std::process::id());
        let one = |condition| Ok(vec![SeccompRule::new(vec![condition])?]);
        match self {
            When::NewThread => {
                let mask = (libc::CLONE_THREAD | CLONE_MORE) as u64;
                let thread = libc::CLONE_THREAD as u64;
                one(Condition::new(0, Length::Qword, Compare::MaskedEq(mask), thread)?)
            }
            When::Own => one(is(0, own)?),
            When::OwnOrZero => any([own, 0].map(|pid| Ok(vec![is(0, pid)?]))),
            When::OwnPriority => {
                let process = u64::from(libc::PRIO_PROCESS);
                any([own, 0].map(|pid| Ok(vec![is(0, process)?, is(1, pid)?])))
            }
            When::OwnLimits => any([own, 0].map(|pid| {
                Ok(vec![is(0, pid)?, Condition::new(2, Length::Qword, Compare::Eq, 0)?])
            })),
            When::OneOf(place, values) => any(values.iter().map(|v| Ok(vec![is(place, *v)?]))),
            When::Descriptor(commands) => {
                let signals = libc::O_ASYNC as u64;
                let quiet = Condition::new(2, Length::Dword, Compare::MaskedEq(signals), 0)?;
                let flags = Ok(vec![is(1, libc::F_SETFL as u64)?, quiet]);
                any(commands.iter().map(|c| Ok(vec![is(1, *c)?])).chain([flags]))
            }
        }
    }
}

/// The kernel reads these arguments as 32 bits.
fn is(place: u8, value: u64) -> Result<Condition> {
    Ok(Condition::new(place, Length::Dword, Compare::Eq, value)?)
}

fn any(all: impl IntoIterator<Item = Result<Vec<Condition>>>) -> Result<Vec<SeccompRule>> {
    all.into_iter().map(|conditions| Ok(SeccompRule::new(conditions?)?)).collect()
}

/// Puts the list in force for this thread and all it will start; no new privileges from then on.
///
/// # Errors
/// If the kernel has no such filters.
pub fn restrict() -> Result<()> {
    let allowed = allowed()?;
    let newer = newer(&allowed);
    let mut with_one_more = allowed;
    with_one_more.insert(SECCOMP.1, Vec::new());
    apply_filter(&program(with_one_more, errno(libc::EPERM), SeccompAction::Allow)?)?;
    // Of two errors the later filter's counts.
    apply_filter(&program(newer, SeccompAction::Allow, errno(libc::ENOSYS))?)?;
    Ok(())
}

fn allowed() -> Result<Rules> {
    let mut rules = Rules::new();
    for group in GROUPS {
        let calls = group.calls.iter().chain(group.older);
        rules.extend(calls.map(|(_, number)| (*number, Vec::new())));
    }
    for row in FILTERED {
        rules.insert(row.call.1, row.when.rules()?);
    }
    Ok(rules)
}

/// What is answered as if the kernel did not have it.
fn newer(allowed: &Rules) -> Rules {
    let numbers = (NEWER..NEWER_END).filter(|number| !allowed.contains_key(number));
    numbers.chain([SECCOMP.1]).map(|number| (number, Vec::new())).collect()
}

fn errno(errno: i32) -> SeccompAction {
    SeccompAction::Errno(errno.unsigned_abs())
}

fn program(rules: Rules, others: SeccompAction, listed: SeccompAction) -> Result<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, others, listed, architecture)?.try_into()?)
}

/// The list as docs/security.md shows it: two tables.
#[must_use]
pub fn tables() -> String {
    let shown = |name: &str| format!("`{}`", name.strip_prefix("SYS_").unwrap_or(name));
    let mut out = String::from("| allowed | reason |\n| --- | --- |\n");
    for group in GROUPS {
        let calls = group.calls.iter().chain(group.older);
        let names: Vec<_> = calls.map(|(name, _)| shown(name)).collect();
        out += &format!("| {} | {} |\n", names.join(", "), group.reason);
    }
    out += "\n| allowed in part | for what |\n| --- | --- |\n";
    for row in FILTERED {
        out += &format!("| {} | {} |\n", shown(row.call.0), row.reason);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    #[test]
    fn every_call_is_listed_once_and_with_a_reason() {
        let grouped = GROUPS.iter().flat_map(|g| g.calls.iter().chain(g.older));
        let all: Vec<_> = grouped.chain(FILTERED.iter().map(|f| &f.call)).collect();
        let names: BTreeSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len(), "a name is listed twice");
        assert_eq!(allowed().unwrap().len(), all.len(), "two calls have the same number");
        let reasons = GROUPS.iter().map(|g| g.reason).chain(FILTERED.iter().map(|f| f.reason));
        assert!(reasons.into_iter().all(|reason| reason.ends_with('.')));
    }

    #[test]
    fn the_filters_fit_into_the_kernels_limit() {
        const INSTRUCTIONS_MAX: usize = 4096;
        let rules = allowed().unwrap();
        let newer = program(newer(&rules), SeccompAction::Allow, errno(libc::ENOSYS)).unwrap();
        let first = program(rules, errno(libc::EPERM), SeccompAction::Allow).unwrap();
        for length in [first.len(), newer.len()] {
            assert!((100..INSTRUCTIONS_MAX).contains(&length), "{length}");
        }
    }

    /// `UPDATE_EXPECT=1 cargo test -p onnxd-worker` writes the tables anew.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_documentation_has_the_same_tables() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let (begin, end) = (
            "<!-- system calls: begin, written by core/worker -->\n",
            "<!-- system calls: end -->",
        );
        let (head, rest) = text.split_once(begin).expect("the mark of the begin");
        let (found, tail) = rest.split_once(end).expect("the mark of the end");
        let wanted = tables();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, format!("{head}{begin}{wanted}{end}{tail}")).unwrap();
        } else {
            assert_eq!(found, wanted, "UPDATE_EXPECT=1 writes docs/security.md anew");
        }
    }
}
