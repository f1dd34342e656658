//! A child process in a group of its own that may run for a limited time.

use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Waits for the child; `None` if it had to be stopped.
pub(super) fn wait(command: &mut Command, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // It fails only if the child has ended meanwhile.
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::KILL,
    );
    child.wait()?;
    Ok(None)
}
