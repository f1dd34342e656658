//! Reductions.

use crate::row::{Row, both, down};
use crate::shape::{axes_to_input, axis_from_front};
use crate::site::{Done, Site};
use onnxd_ir::{Attr, DataType};

const OTHERS: &[&str] = &[
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
];
const ALL: &[&str] = &[
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
    "ReduceSum",
    "ArgMax",
    "ArgMin",
];

pub(crate) const ROWS: &[Row] = &[
    both(&["ReduceSum"], 13, axes_to_input, axes_from_input),
    both(OTHERS, 18, axes_to_input, axes_from_input),
    down(ALL, 11, axis_from_front),
    down(&["ReduceMax", "ReduceMin"], 20, bool_as_uint8),
];

/// What a reduction of nothing leaves as it is.
const PLAIN: &[&str] = &["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"];

fn axes_from_input(s: &mut Site<'_>) -> Done {
    let noop = s.int("noop_with_empty_axes")?.unwrap_or(0) != 0;
    let axes = s.fixed_ints(1)?.filter(|axes| !axes.is_empty());
    let x = s.input(0)?;
    if axes.is_none() && noop {
        if !PLAIN.contains(&s.node().op.as_str()) {
            return Err("it has no axes and `noop_with_empty_axes`".into());
        }
        s.become_node("Identity", &[x], &[]);
        return Ok(());
    }
    s.set_inputs(vec![Some(x)]);
    s.drop("noop_with_empty_axes");
    if let Some(axes) = axes {
        s.set("axes", Attr::Ints(axes));
    }
    Ok(())
}

/// Of truth values the largest and smallest are those of 0 and 1.
fn bool_as_uint8(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    if s.dtype(x) != Ok(DataType::Bool) {
        return Ok(());
    }
    let bytes = s.cast("bytes", x, DataType::Uint8);
    s.set_input(0, Some(bytes));
    let (inner, out) = s.detach(0, "inner")?;
    let to = Attr::Int(i64::from(DataType::Bool.number()));
    s.add_to(out, "Cast", &[inner], &[("to", to)]);
    Ok(())
}
