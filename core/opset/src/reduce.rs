//! Reductions.

use crate::context::{Done, LowerContext, refuse};
use crate::row::{AdapterRow, both, down, restate};
use crate::shape::axis_from_front;
use onnxd_ir::DataType;

const OTHERS: &[&str] = &[
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSumSquare",
];

pub(crate) const ROWS: &[AdapterRow] = &[
    both(&["ReduceSum"], 13, restate, axes_from_input),
    both(OTHERS, 18, restate, axes_from_input),
    down(OTHERS, 11, axis_from_front),
    down(&["ReduceSum", "ArgMax", "ArgMin"], 11, axis_from_front),
    down(&["ReduceMax", "ReduceMin"], 20, bool_as_uint8),
];

/// What a reduction of nothing leaves as it is.
const PLAIN: &[&str] = &["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"];

fn axes_from_input(s: &mut LowerContext<'_>) -> Done {
    let noop = s.flag("noop_with_empty_axes", false)?;
    if s.fixed_ints(1)?.is_some_and(|axes| !axes.is_empty()) {
        s.drop("noop_with_empty_axes");
        return s.restate();
    }
    if noop && !PLAIN.contains(&s.op().as_str()) {
        return refuse("it has no axes and `noop_with_empty_axes`");
    }
    let x = s.var(0)?;
    if noop {
        return s.becomes(x);
    }
    s.drop("noop_with_empty_axes");
    s.set_inputs(&[Some(x)])
}

/// Of truth values the largest and smallest are those of 0 and 1.
fn bool_as_uint8(s: &mut LowerContext<'_>) -> Done {
    match s.b.dtype_of(s.var(0)?) {
        Some(DataType::Bool) => s.through(DataType::Uint8, &[0], &[0]),
        _ => Ok(()),
    }
}
