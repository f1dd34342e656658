//! The table of adapters: the rows of all families.

use crate::row::AdapterRow;
use crate::{
    activation, control, data, index, linear, logic, math, norm, pool, quant, recurrent, reduce,
    resize, shape,
};
use std::collections::HashMap;
use std::sync::OnceLock;

const FAMILIES: &[&[AdapterRow]] = &[
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
pub(crate) fn rows() -> impl Iterator<Item = &'static AdapterRow> {
    FAMILIES.iter().copied().flatten()
}

/// The adapters of `op` for the change in version `since`.
pub(crate) fn find(op: &str, since: i64) -> Option<&'static AdapterRow> {
    static ROWS: OnceLock<HashMap<(&'static str, i64), &'static AdapterRow>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        rows().flat_map(|r| r.ops.iter().map(move |o| ((*o, r.since), r))).collect()
    });
    rows.get(&(op, since)).copied()
}
