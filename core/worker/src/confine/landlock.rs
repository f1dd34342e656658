//! Which files a worker may touch: libraries and inputs to read, its work folder to write.
//!
//! The system call filter covers network and signals; newer kernels hold them back a second time here.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The kernel's interface that covers everything asked for: since Linux 6.2, with truncation.
const WANTED: ABI = ABI::V3;

/// What every process needs to load libraries and to ask about the machine.
const SYSTEM: [&str; 11] = [
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/dev/urandom", "/dev/null",
];

/// What a process may read about itself. The folder as a whole would grant `net` with the machine's interfaces and
/// sockets, also below `task`, and the mounts.
const SELF: [&str; 10] = [
    "/proc/self/auxv", "/proc/self/cmdline", "/proc/self/comm", "/proc/self/limits",
    "/proc/self/maps", "/proc/self/smaps", "/proc/self/smaps_rollup", "/proc/self/stat",
    "/proc/self/statm", "/proc/self/status",
];

/// Files and folders by what a worker may do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// To read: folders of libraries.
    pub read: Vec<PathBuf>,
    /// Files to read whose names others can change: what a link leads to is not granted.
    pub inputs: Vec<PathBuf>,
    /// To read and write, folders included.
    pub write: Vec<PathBuf>,
}

/// How much of what was asked for is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandlockLevel {
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
pub fn restrict(paths: &Paths) -> Result<LandlockLevel, RulesetError> {
    let (read, all) = (AccessFs::from_read(WANTED), AccessFs::from_all(WANTED));
    let status = with_what_newer_kernels_hold()
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(SELF, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_file(WANTED)))?
        .add_rules(path_beneath_rules(&paths.read, read))?
        .add_rules(paths.inputs.iter().filter_map(|path| input_rule(path)))?
        .add_rules(path_beneath_rules(&paths.write, all))?
        .restrict_self()?;
    keep(&SELF);
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => LandlockLevel::Full,
        RulesetStatus::PartiallyEnforced => LandlockLevel::Partial,
        RulesetStatus::NotEnforced => LandlockLevel::None,
    })
}

/// The rule holds for the file that was opened, whatever has its name later.
fn input_rule(path: &Path) -> Option<Result<PathBeneath<File>, RulesetError>> {
    let file = onnxd_files::regular(path).ok()?;
    Some(Ok(PathBeneath::new(file, AccessFs::ReadFile)))
}

/// Keeps files of `/proc` open for as long as this process lives. Rules hold for inodes, and under memory pressure the
/// kernel would give the same file another one.
fn keep(files: &[&str]) {
    files.iter().filter_map(|file| PathFd::new(file).ok()).for_each(std::mem::forget);
}

/// Where the kernel can, since Linux 6.12, signals and connections to abstract sockets stay inside this process, and no
/// port is reached, whichever way it is tried. Elsewhere the system call filter stands alone; the absence is not held
/// against the confinement.
fn with_what_newer_kernels_hold() -> Ruleset {
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let scoped = strict.scope(Scope::from_all(ABI::V6));
    match scoped.and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI::V4))) {
        Ok(scoped) => scoped.set_compatibility(CompatLevel::BestEffort),
        Err(_) => Ruleset::default(),
    }
}
