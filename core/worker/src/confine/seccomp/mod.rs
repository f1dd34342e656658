//! The system calls that a worker may make; every other one is refused, unknown numbers among them.
//!
//! A list of permissions: what the kernel learns later is refused until it is listed. The list holds
//! what the C library, threads, and libraries that compute, read and write need.

mod allowed;

use allowed::{FILTERED, GROUPS, SECCOMP, When};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, apply_filter, sock_filter,
};
use std::collections::{BTreeMap, BTreeSet};

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
    Ok(apply_filter(&filter()?)?)
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

/// The list as the kernel runs it. Of two errors, what is newer and not allowed reads `ENOSYS`.
///
/// The library compares number by number, and the kernel runs a filter once for each number that it knows when the
/// filter is installed. So what the number alone decides is decided here, by ranges, and the library's program has only
/// the calls whose arguments count. Number by number it took 3 ms of each worker.
fn filter() -> Result<BpfProgram> {
    let allowed = allowed()?;
    let newer = (NEWER..NEWER_END).filter(|number| !allowed.contains_key(number));
    let missing: BTreeSet<i64> = newer.chain([SECCOMP.1]).collect();
    let (always, sometimes): (Rules, Rules) =
        allowed.into_iter().partition(|(_, rules)| rules.is_empty());
    let mut head = answered(always.into_keys(), SeccompAction::Allow)?;
    head.extend(answered(missing, errno(libc::ENOSYS))?);
    let mut filter = program(sometimes, errno(libc::EPERM), SeccompAction::Allow)?;
    filter.splice(AFTER_NUMBER..AFTER_NUMBER, head);
    Ok(filter)
}

/// Steps that answer all these numbers in the same way. The numbers rise.
fn answered(
    numbers: impl IntoIterator<Item = i64>,
    action: SeccompAction,
) -> Result<Vec<sock_filter>> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        let number = u32::try_from(number)?;
        match ranges.last_mut() {
            Some((_, end)) if *end == number => *end += 1,
            _ => ranges.push((number, number + 1)),
        }
    }
    let answer = u32::from(action);
    let steps = ranges.into_iter().flat_map(|(first, end)| {
        let beyond = step(JUMP_IF_NOT_BELOW, end, [2, 0]);
        [beyond, step(JUMP_IF_NOT_BELOW, first, [0, 1]), step(libc::BPF_RET, answer, [0, 0])]
    });
    Ok(steps.collect())
}

const JUMP_IF_NOT_BELOW: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
/// A program of the library begins with three steps for the architecture, and one that loads the number.
const AFTER_NUMBER: usize = 4;

/// One step of a filter. A jump leaves out as many steps as the first number says if its condition
/// holds, else as many as the second one says.
fn step(code: u32, k: u32, [jt, jf]: [u8; 2]) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
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

    /// What a filter answers, as the kernel computes it, to the number, the architecture and six arguments.
    fn answer(filter: &[sock_filter], number: u32, architecture: u32, arguments: &[u64; 6]) -> u32 {
        const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
        const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        const ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
        const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
        let words = arguments.iter().flat_map(|a| [*a as u32, (*a >> 32) as u32]);
        let data: Vec<u32> = [number, architecture, 0, 0].into_iter().chain(words).collect();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = filter[at].clone();
            let branch = |holds: bool| usize::from(if holds { jt } else { jf });
            at += 1;
            match u32::from(code) {
                LOAD => loaded = data[k as usize / 4],
                AND => loaded &= k,
                JUMP => at += k as usize,
                EQUAL => at += branch(loaded == k),
                ABOVE => at += branch(loaded > k),
                JUMP_IF_NOT_BELOW => at += branch(loaded >= k),
                libc::BPF_RET => return k,
                other => panic!("step {at} has the code {other:#x}"),
            }
        }
    }

    /// What the library makes of the whole list, number by number, and of what is newer and not listed.
    fn plain() -> [BpfProgram; 2] {
        let allowed = allowed().unwrap();
        let newer = (NEWER..NEWER_END).filter(|number| !allowed.contains_key(number));
        let newer = newer.chain([SECCOMP.1]).map(|number| (number, Vec::new())).collect();
        let newer = program(newer, SeccompAction::Allow, errno(libc::ENOSYS)).unwrap();
        [program(allowed, errno(libc::EPERM), SeccompAction::Allow).unwrap(), newer]
    }

    /// Arguments on both sides of each condition.
    fn arguments() -> Vec<[u64; 6]> {
        let own = u64::from(std::process::id());
        let numbers = [0, 1, 2, 3, 4, 9, 15, 22, 38, 0x5401, 0x5413, 1030, own, own + 1, 1 << 32];
        let flags = [libc::CLONE_THREAD, libc::CLONE_THREAD | libc::CLONE_NEWPID, libc::O_ASYNC];
        let flags = flags.map(|f| f as u64);
        let values: Vec<u64> = FILTERED
            .iter()
            .flat_map(|row| match row.when {
                When::OneOf(_, values) | When::Descriptor(values) => values.to_vec(),
                _ => Vec::new(),
            })
            .chain(numbers)
            .chain(flags)
            .collect();
        let few = [0, 1, own, libc::O_ASYNC as u64];
        let with = |v: u64| few.map(|other| [[v, other, 0, v, v, v], [other, v, other, v, 0, 1]]);
        values.into_iter().flat_map(with).flatten().collect()
    }

    #[test]
    fn the_filter_answers_as_the_lists_number_by_number() {
        let (short, [first, second]) = (filter().unwrap(), plain());
        // The filter's first comparison names the architecture.
        let own = short[1].k;
        let numbers = (0..2 * NEWER_END).chain([0x4000_0000, 0x4000_0001, i64::from(u32::MAX)]);
        let arguments = arguments();
        let mut answers = BTreeSet::new();
        for number in numbers {
            let filtered = FILTERED.iter().any(|f| f.call.1 == number);
            let number = u32::try_from(number).unwrap();
            for arguments in arguments.iter().take(if filtered { arguments.len() } else { 4 }) {
                // Of two errors the later filter's counts.
                let two = [&first, &second].map(|f| answer(f, number, own, arguments));
                let expected = match two {
                    [first, libc::SECCOMP_RET_ALLOW] => first,
                    [_, second] => second,
                };
                let found = answer(&short, number, own, arguments);
                assert_eq!(found, expected, "{number} {arguments:?}");
                answers.insert((filtered, found));
            }
            let foreign = answer(&short, number, own + 1, &[0; 6]);
            assert_eq!(foreign, libc::SECCOMP_RET_KILL_PROCESS, "{number}");
        }
        // Each answer was seen, for calls whose arguments count too.
        assert_eq!(answers.len(), 5, "{answers:?}");
    }

    /// The kernel runs the filter for every number that it knows, in every worker.
    #[test]
    fn the_filter_is_short() {
        let (short, [first, second]) = (filter().unwrap(), plain());
        assert!(4 * short.len() < first.len() + second.len(), "{} steps", short.len());
    }

    /// `UPDATE_EXPECT=1 cargo test -p onnxd-worker` writes the tables anew.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_documentation_has_the_same_tables() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let (begin, end) = (
            "<!-- system calls: begin, written by core/worker -->\n", "<!-- system calls: end -->",
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
