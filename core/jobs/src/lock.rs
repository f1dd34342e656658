//! One daemon per state folder.
//!
//! The lock is the kernel's, so it is gone with the process; the process number beside it only
//! serves the message.

use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// For the remains of a killed process to end.
const RELEASE_MAX: Duration = Duration::from_secs(1);
const RELEASE_POLL: Duration = Duration::from_millis(10);

/// Held as long as the store is open.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(crate) fn take(dir: &Path) -> Result<Lock, Diagnostic> {
        let path = dir.join("lock");
        let failed = |e| {
            Diagnostic::new(Code::Disk, format!("Cannot use the lock file {}: {e}", path.display()))
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        let given_up = Instant::now() + RELEASE_MAX;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // A killed process may leave a child that holds the lock until it has ended too.
                Err(TryLockError::WouldBlock) if Instant::now() < given_up => sleep(RELEASE_POLL),
                Err(TryLockError::WouldBlock) => return Err(locked(dir, &mut file)),
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
        }
        file.set_len(0).map_err(failed)?;
        write!(file, "process {}", std::process::id()).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

fn locked(dir: &Path, file: &mut File) -> Diagnostic {
    const OWNER_BYTES_MAX: u64 = 100;
    let mut owner = String::new();
    let read = file.take(OWNER_BYTES_MAX).read_to_string(&mut owner);
    let owner = match read {
        Ok(n) if n > 0 => shown(owner.trim()),
        _ => "another process".to_owned(),
    };
    let message = format!("The state folder {} is in use by {owner}", dir.display());
    Diagnostic::new(Code::StoreLocked, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_about_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err();
        assert_eq!(refused.code, "N0306");
        assert!(refused.message.contains(&format!("process {}", std::process::id())));
        drop(first);
        Lock::take(dir.path()).unwrap();
    }
}
