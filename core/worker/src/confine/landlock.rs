//! Which files a worker may touch: libraries and inputs to read, its work folder to write.
//!
//! The system call filter covers network and signals; newer kernels hold signals back a second time here.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::PathBuf;

/// The kernel's interface that covers everything asked for: since Linux 6.2, with truncation.
const WANTED: ABI = ABI::V3;

/// What every process needs to load libraries and to ask about the machine.
const SYSTEM: [&str; 12] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
    "/dev/null",
];

/// Files and folders by what a worker may do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// To read: inputs, folders of libraries.
    pub read: Vec<PathBuf>,
    /// To read and write, folders included.
    pub write: Vec<PathBuf>,
}

/// How much of what was asked for is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Everything.
    Full,
    /// What an older kernel knows.
    Partial,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    None,
}

/// Confines this thread and all it will start. Paths that do not exist are left out.
///
/// # Errors
/// The library's.
pub fn restrict(paths: &Paths) -> Result<Level, RulesetError> {
    let (read, all) = (AccessFs::from_read(WANTED), AccessFs::from_all(WANTED));
    let status = with_signals_inside()
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_file(WANTED)))?
        .add_rules(path_beneath_rules(&paths.read, read))?
        .add_rules(path_beneath_rules(&paths.write, all))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Level::Full,
        RulesetStatus::PartiallyEnforced => Level::Partial,
        RulesetStatus::NotEnforced => Level::None,
    })
}

/// Where the kernel can, since Linux 6.12, signals go to this process only, whichever way they are sent. Elsewhere the
/// system call filter stands alone; its absence is not held against the confinement.
fn with_signals_inside() -> Ruleset {
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    match strict.scope(Scope::Signal) {
        Ok(scoped) => scoped.set_compatibility(CompatLevel::BestEffort),
        Err(_) => Ruleset::default(),
    }
}
