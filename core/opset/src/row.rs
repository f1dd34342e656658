//! The table of adapters: what a change of an operator means for its nodes.

use crate::context::{Done, LowerContext};
use crate::{
    activation, control, data, index, linear, logic, math, norm, pool, quant, recurrent, reduce,
    resize, shape,
};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Changes a node from one version to the next, or back.
pub(crate) type Adapter = fn(&mut LowerContext<'_>) -> Done;

/// Operators that the standard changed in the same way in version `since`.
pub(crate) struct Row {
    pub(crate) ops: &'static [&'static str],
    pub(crate) since: i64,
    pub(crate) up: Option<Adapter>,
    pub(crate) down: Option<Adapter>,
}

/// A change that needs an adapter towards newer versions only.
pub(crate) const fn up(ops: &'static [&'static str], since: i64, up: Adapter) -> Row {
    Row { ops, since, up: Some(up), down: None }
}

/// A change that needs an adapter towards older versions only.
pub(crate) const fn down(ops: &'static [&'static str], since: i64, down: Adapter) -> Row {
    Row { ops, since, up: None, down: Some(down) }
}

/// A change that needs adapters both ways.
pub(crate) const fn both(
    ops: &'static [&'static str],
    since: i64,
    up: Adapter,
    down: Adapter,
) -> Row {
    Row { ops, since, up: Some(up), down: Some(down) }
}

/// Attributes became inputs, or the other way round, and nothing else changed.
pub(crate) const fn moved(ops: &'static [&'static str], since: i64) -> Row {
    both(ops, since, restate, restate)
}

/// What the node reads and is told goes where the new version takes it.
pub(crate) fn restate(s: &mut LowerContext<'_>) -> Done {
    s.restate()
}

const FAMILIES: &[&[Row]] = &[
    activation::ROWS,
    control::ROWS,
    data::ROWS,
    index::ROWS,
    linear::ROWS,
    logic::ROWS,
    math::ROWS,
    norm::ROWS,
    pool::ROWS,
    quant::ROWS,
    recurrent::ROWS,
    reduce::ROWS,
    resize::ROWS,
    shape::ROWS,
];

/// All rows.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().copied().flatten()
}

/// The adapters of `op` for the change in version `since`.
pub(crate) fn find(op: &str, since: i64) -> Option<&'static Row> {
    static ROWS: OnceLock<HashMap<(&'static str, i64), &'static Row>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        rows().flat_map(|r| r.ops.iter().map(move |o| ((*o, r.since), r))).collect()
    });
    rows.get(&(op, since)).copied()
}
