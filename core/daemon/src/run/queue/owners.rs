//! Who continues each job. A round of the loop finds an owner for those that have lost theirs.
//!
//! | state | owner | when the owner fails |
//! | --- | --- | --- |
//! | `claiming` | the thread that moves the files | it gives the job up, or the round executes the plan again |
//! | `claimed` | the thread that reads the files, or its queue | the round reads them again |
//! | `queued`, `retry_wait` | the scheduler, or the copy of an earlier result | it looks at them each turn |
//! | `running` | the thread of the attempt | the attempt counts as interrupted or crashed |
//! | `publishing` | the thread that renames the result | tried again later; the result and its place stay |
//! | finished, originals here | the housekeeping thread | tried again every minute |
//! | `quarantined` | a person | its files stay where they are |
//!
//! An event that the store refuses keeps its job: it waits, with all events after it, until the
//! store takes changes again. So a job without an owner is rare; it has lost a thread that could
//! not start, or its change was recorded by a store that failed right after.

use std::time::Duration;

use onnxd_jobs::is_finished;
use onnxd_proto::onnxd::JobState;

/// Between two rounds.
pub(crate) const ROUND: Duration = Duration::from_secs(5);

/// Who goes on with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A thread that moves or reads its files, or the queue for one.
    Taking,
    Scheduler,
    /// The thread of an attempt, or the one that publishes.
    Attempt,
    /// The clock: the result is published when the outbox permits.
    Outbox,
    Housekeeping,
    /// Nothing has to be done, or a person decides.
    Person,
}

/// What the loop knows about one job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InHand {
    pub(crate) taking: bool,
    pub(crate) attempt: bool,
    pub(crate) outbox: bool,
    pub(crate) housekeeping: bool,
}

/// The owner of a job in `state`; without one the job would stay as it is for ever.
pub(crate) fn owner(state: JobState, hand: InHand) -> Option<Owner> {
    use JobState::{Claimed, Claiming, Publishing, Queued, RetryWait, Running};
    match state {
        _ if hand.housekeeping => Some(Owner::Housekeeping),
        _ if hand.taking => Some(Owner::Taking),
        Running | Publishing if hand.attempt => Some(Owner::Attempt),
        Publishing if hand.outbox => Some(Owner::Outbox),
        Queued | RetryWait => Some(Owner::Scheduler),
        Claiming | Claimed | Running | Publishing => None,
        state if is_finished(state) => Some(Owner::Person),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobState::*;

    #[test]
    fn every_state_has_an_owner_or_is_found_by_the_round() {
        let states = [
            Claiming, Claimed, Queued, Running, Publishing, Succeeded, Failed, Cancelled,
            Quarantined, Duplicate, RetryWait,
        ];
        for state in states {
            let nobody = owner(state, InHand::default());
            let found = matches!(state, Claiming | Claimed | Running | Publishing);
            assert_eq!(nobody.is_none(), found, "{state:?}");
            let busy = InHand { housekeeping: true, ..InHand::default() };
            assert_eq!(owner(state, busy), Some(Owner::Housekeeping));
        }
        let taking = InHand { taking: true, ..InHand::default() };
        assert_eq!(owner(Claimed, taking), Some(Owner::Taking));
        let attempt = InHand { attempt: true, ..InHand::default() };
        assert_eq!(owner(Running, attempt), Some(Owner::Attempt));
        assert_eq!(owner(Claimed, attempt), None, "an attempt does not read files");
        let outbox = InHand { outbox: true, ..InHand::default() };
        assert_eq!(owner(Publishing, outbox), Some(Owner::Outbox));
    }
}
