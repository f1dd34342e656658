//! What is known of a set by itself.

use crate::status::InboxState;
use crate::submission::ProbeOutcome;

/// What is known of a set before its neighbours are looked at.
pub(crate) enum SetKnowledge {
    State(InboxState),
    /// The front-ends have been asked and have not answered yet.
    Open,
    /// They are asked when it is its turn.
    Unasked,
    Answer(ProbeOutcome),
    /// A file turned out to be no network of its own: the groups have changed.
    Regroup,
}
