//! What a start does with each job of the earlier run: one answer per state and what is on disk.
//!
//! The table is pure, so that every crash point can be tested without crashing.

use onnxd_proto::onnxd::JobState;

use crate::run::results::publication::Staged;

/// What the disk tells about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// The saved plan of the claim can be read.
    pub(crate) plan: bool,
    /// The originals, or some of them, are in the job's folder.
    pub(crate) input: bool,
    /// The folder that the record of a publication says is to be renamed.
    pub(crate) staged: Staged,
}

/// What to do about a job at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Execute the plan of the claim, again or for the first time.
    Claim,
    /// Nothing was moved, and nothing says what should be: there never was a job.
    Vanish,
    /// Compute the digests.
    Hash,
    /// It waits for its turn, or for a user's decision.
    Nothing,
    /// The attempt ended with the daemon.
    Interrupt,
    /// The result was brought to its place; record it.
    Confirm,
    /// Rename the result.
    Publish,
    /// Move the originals out of the job's folder.
    PutAway,
    /// The originals are gone: nothing can be converted.
    Lost,
}

/// The action for a job in `state`.
pub(crate) fn action(state: JobState, disk: OnDisk) -> Action {
    use JobState::{
        Cancelled, Claimed, Claiming, Duplicate, Failed, Publishing, Quarantined, Queued,
        RetryWait, Running, Succeeded, Unknown,
    };
    match state {
        Claiming if disk.plan => Action::Claim,
        Claiming if !disk.input => Action::Vanish,
        Claiming => Action::Lost,
        Claimed if disk.plan && disk.input => Action::Hash,
        Queued | RetryWait if disk.input => Action::Nothing,
        Running if disk.input => Action::Interrupt,
        Publishing if disk.staged == Staged::Here => Action::Publish,
        // Also where the outbox holds nothing: then the result was taken away.
        Publishing if disk.staged == Staged::Moved => Action::Confirm,
        Claimed | Queued | RetryWait | Running | Publishing => Action::Lost,
        Succeeded | Failed | Cancelled | Duplicate if disk.input => Action::PutAway,
        Succeeded | Failed | Cancelled | Duplicate | Quarantined | Unknown => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobState::*;

    const WHOLE: OnDisk = OnDisk { plan: true, input: true, staged: Staged::Gone };

    #[test]
    fn every_state_has_its_action() {
        let table = [
            (Claiming, WHOLE, Action::Claim),
            (Claiming, OnDisk { input: false, ..WHOLE }, Action::Claim),
            (Claiming, OnDisk { plan: false, ..WHOLE }, Action::Lost),
            (Claiming, OnDisk { plan: false, input: false, ..WHOLE }, Action::Vanish),
            (Claimed, WHOLE, Action::Hash),
            (Claimed, OnDisk { input: false, ..WHOLE }, Action::Lost),
            (Queued, WHOLE, Action::Nothing),
            (Queued, OnDisk { input: false, ..WHOLE }, Action::Lost),
            (RetryWait, WHOLE, Action::Nothing),
            (RetryWait, OnDisk { input: false, ..WHOLE }, Action::Lost),
            (Running, WHOLE, Action::Interrupt),
            (Running, OnDisk { input: false, ..WHOLE }, Action::Lost),
            (Succeeded, WHOLE, Action::PutAway),
            (Succeeded, OnDisk { input: false, ..WHOLE }, Action::Nothing),
            (Failed, WHOLE, Action::PutAway),
            (Failed, OnDisk { input: false, ..WHOLE }, Action::Nothing),
            (Cancelled, WHOLE, Action::PutAway),
            (Duplicate, WHOLE, Action::PutAway),
            (Quarantined, WHOLE, Action::Nothing),
        ];
        for (state, disk, wanted) in table {
            assert_eq!(action(state, disk), wanted, "{state:?} {disk:?}");
        }
    }

    #[test]
    fn a_result_is_published_once() {
        let publishing = |staged, input| action(Publishing, OnDisk { staged, input, ..WHOLE });
        for input in [true, false] {
            assert_eq!(publishing(Staged::Here, input), Action::Publish);
            assert_eq!(publishing(Staged::Moved, input), Action::Confirm);
            // Never converted again: it may have been delivered.
            assert_eq!(publishing(Staged::Gone, input), Action::Lost);
        }
    }
}
