//! A row of the table of adapters: what a change of an operator means for its nodes.

use crate::context::{Done, LowerContext};

/// Changes a node from one version to the next, or back.
pub(crate) type Adapter = fn(&mut LowerContext<'_>) -> Done;

/// Operators that the standard changed in the same way in version `since`.
pub(crate) struct AdapterRow {
    pub(crate) ops: &'static [&'static str],
    pub(crate) since: i64,
    pub(crate) up: Option<Adapter>,
    pub(crate) down: Option<Adapter>,
}

/// A change that needs an adapter towards newer versions only.
pub(crate) const fn up(ops: &'static [&'static str], since: i64, up: Adapter) -> AdapterRow {
    AdapterRow { ops, since, up: Some(up), down: None }
}

/// A change that needs an adapter towards older versions only.
pub(crate) const fn down(ops: &'static [&'static str], since: i64, down: Adapter) -> AdapterRow {
    AdapterRow { ops, since, up: None, down: Some(down) }
}

/// A change that needs adapters both ways.
pub(crate) const fn both(
    ops: &'static [&'static str],
    since: i64,
    up: Adapter,
    down: Adapter,
) -> AdapterRow {
    AdapterRow { ops, since, up: Some(up), down: Some(down) }
}

/// Attributes became inputs, or the other way round, and nothing else changed.
pub(crate) const fn moved(ops: &'static [&'static str], since: i64) -> AdapterRow {
    both(ops, since, restate, restate)
}

/// What the node reads and is told goes where the new version takes it.
pub(crate) fn restate(s: &mut LowerContext<'_>) -> Done {
    s.restate()
}
