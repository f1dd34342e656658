//! Resource limits of a worker: memory, processor time, file size, open files, no core dumps.
//!
//! The kernel counts threads for each user, so their number is limited here only in a user namespace
//! of the worker's own. The system call filter denies new processes.

use onnxd_proto::onnxd::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Error, Result};

/// Files a worker may have open at once.
const OPEN_FILES_MAX: u64 = 256;
/// Address space that a thread reserves without using it: stack and allocation arena, in bytes.
const THREAD_BYTES: u64 = (8 + 64) << 20;
/// Inputs may be mapped by the front-end, by the reader of the result, and by the final check.
const MAPPINGS_PER_INPUT: u64 = 3;
/// Seconds between the signal that says the processor time is used up, and the one that kills.
const CPU_GRACE_S: u64 = 5;

/// Puts the limits in force for this process. `input_bytes` is the size of all inputs.
///
/// # Errors
/// The system's.
pub fn apply(limits: &Limits, input_bytes: u64) -> Result<()> {
    set(Resource::Core, 0, 0)?;
    set(Resource::Nofile, OPEN_FILES_MAX, OPEN_FILES_MAX)?;
    if limits.memory_bytes > 0 {
        let bytes = address_space_bytes(limits, input_bytes, own_address_space_bytes()?);
        set(Resource::As, bytes, bytes)?;
    }
    if limits.cpu_seconds > 0 {
        let hard = limits.cpu_seconds.saturating_add(CPU_GRACE_S);
        set(Resource::Cpu, limits.cpu_seconds, hard)?;
    }
    if limits.file_bytes > 0 {
        set(Resource::Fsize, limits.file_bytes, limits.file_bytes)?;
        fail_instead_of_signal()?;
    }
    Ok(())
}

/// Limits the threads of this process, which must be alone in a user namespace.
///
/// # Errors
/// The system's.
pub fn hold_threads(limits: &Limits) -> Result<()> {
    match u64::from(limits.threads_max) {
        0 => Ok(()),
        max => set(Resource::Nproc, max, max),
    }
}

/// The memory budget counts what a plugin allocates; what the process needs anyway comes on top.
fn address_space_bytes(limits: &Limits, input_bytes: u64, own_bytes: u64) -> u64 {
    let threads = u64::from(limits.threads.max(1));
    limits
        .memory_bytes
        .saturating_add(input_bytes.saturating_mul(MAPPINGS_PER_INPUT))
        .saturating_add(threads.saturating_mul(THREAD_BYTES))
        .saturating_add(own_bytes)
}

fn own_address_space_bytes() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| Error::other("/proc/self/statm is not understood"))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Lowers a limit; one that is lower already stays.
fn set(resource: Resource, soft: u64, hard: u64) -> Result<()> {
    let found = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let maximum = Some(hard.min(found));
    setrlimit(resource, Rlimit { current: Some(soft.min(found)), maximum })?;
    Ok(())
}

/// Lets a write beyond the file size limit fail with an error that can be reported.
fn fail_instead_of_signal() -> Result<()> {
    // SAFETY: to ignore a signal installs no handler, so that no code of ours runs inside others. The signal
    // number is valid.
    let previous = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if previous == libc::SIG_ERR { Err(Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_comes_on_top_of_inputs_threads_and_program() {
        let limits = Limits { memory_bytes: 1000, threads: 2, ..Default::default() };
        let expected = 1000 + 3 * 10 + 2 * THREAD_BYTES + 7;
        assert_eq!(address_space_bytes(&limits, 10, 7), expected);
        assert_eq!(address_space_bytes(&limits, u64::MAX, 7), u64::MAX);
        assert!(own_address_space_bytes().unwrap() > 1 << 20);
    }
}
