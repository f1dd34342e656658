//! Cells between others, and reductions under windows.

use crate::ops::pad::{for_each_axis, interior_padded};
use crate::ops::{Lower, RowContext, dtype_of, rank, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{refuse, shown};
use onnxd_plugin_sdk::ir::DataType::{Bool, Int32};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Cells of a window along one axis, each of which takes a node.
const WINDOW_MAX: i64 = 1024;

/// Words of the functions of `REDUCE_WINDOW`, by their numbers.
const FUNCTIONS: [&str; 7] = ["", "ADD", "MUL", "MINIMUM", "MAXIMUM", "LOGICAL_AND", "LOGICAL_OR"];

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "DILATE" => |b, input: Var, dilations: Vec<i64>, value: Var| interior_padded(b, input, &dilations, value);
        "REDUCE_WINDOW" => |b, a: Windows| {
            let word = usize::try_from(a.reduce_function).ok().and_then(|at| FUNCTIONS.get(at));
            let how = Meeting::parse(b, word.unwrap_or(&""))?;
            let y = under_windows(b, a.input, how, [a.window_shape, a.window_strides, a.window_dilations])?;
            how.meet(b, y, a.init)
        };
        "STABLEHLO_PAD" => hlo_pad(operand, value, edge_padding_low, edge_padding_high, interior_padding);
        "STABLEHLO_REDUCE_WINDOW" => |b, a: HloWindows| {
            let how = Meeting::parse(b, &a.body)?;
            let x = interior_padded(b, a.operand, &a.base_dilations, a.init)?;
            let side = |at: usize| a.padding.iter().skip(at).step_by(2).copied().collect::<Vec<i64>>();
            let x = padded(b, x, [&side(0), &side(1)], a.init)?;
            let y = under_windows(b, x, how, [a.window_dimensions, a.window_strides, a.window_dilations])?;
            how.meet(b, y, a.init)
        };
    }
}

fn hlo_pad(
    b: &Lower,
    x: Var,
    value: Var,
    low: Vec<i64>,
    high: Vec<i64>,
    interior: Vec<i64>,
) -> Lowered<Var> {
    let dilations: Vec<i64> = interior.iter().map(|n| n.saturating_add(1)).collect();
    let x = interior_padded(b, x, &dilations, value)?;
    padded(b, x, [&low, &high], value)
}

arguments! {
    /// `REDUCE_WINDOW(input, init, window_shape, window_strides, window_dilations)`
    struct Windows {
        input: Var, init: Var, window_shape: Vec<i64>, window_strides: Vec<i64>, window_dilations: Vec<i64>,
        reduce_function: i64,
    }
    /// `STABLEHLO_REDUCE_WINDOW(operand, init)`
    struct HloWindows {
        operand: Var, init: Var, window_dimensions: Vec<i64>, window_strides: Vec<i64>,
        base_dilations: Vec<i64>, window_dilations: Vec<i64>, padding: Vec<i64>, body: String,
    }
}

/// What two elements make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    Add,
    Mul,
    Min,
    Max,
    And,
    Or,
}

impl Meeting {
    /// The only operator of a graph.
    ///
    /// # Errors
    /// `N0203` for other operators.
    pub(super) fn parse(b: &GraphBuilder, operators: &str) -> Lowered<Meeting> {
        match operators.trim_start_matches("STABLEHLO_") {
            "ADD" => Ok(Meeting::Add),
            "MUL" | "MULTIPLY" => Ok(Meeting::Mul),
            "MINIMUM" => Ok(Meeting::Min),
            "MAXIMUM" => Ok(Meeting::Max),
            "AND" | "LOGICAL_AND" => Ok(Meeting::And),
            "OR" | "LOGICAL_OR" => Ok(Meeting::Or),
            other => {
                let message =
                    format!("Elements are reduced by `{}`, which is not known.", shown(other));
                Err(b.unsupported(message))
            }
        }
    }

    /// Runtimes compare no integers of less than 32 bits.
    pub(super) fn meet(self, b: &GraphBuilder, x: Var, y: Var) -> Lowered<Var> {
        let dtype = dtype_of(b, x)?;
        let wide =
            |v: Var| if dtype.is_integer() && dtype.bits() < 32 { b.cast(v, Int32) } else { Ok(v) };
        let (x, y) = (wide(x)?, wide(y)?);
        let met = match self {
            Meeting::Add => b.add(x, y)?,
            Meeting::Mul => b.mul(x, y)?,
            Meeting::Min => b.min([x, y])?,
            Meeting::Max => b.max([x, y])?,
            Meeting::And if dtype == Bool => b.and(x, y)?,
            Meeting::Or if dtype == Bool => b.or(x, y)?,
            Meeting::And => b.bitwise_and(x, y)?,
            Meeting::Or => b.bitwise_or(x, y)?,
        };
        b.cast(met, dtype)
    }
}

/// `x` with cells of `value` before and behind each axis; negative numbers take cells away.
fn padded(b: &GraphBuilder, x: Var, [low, high]: [&[i64]; 2], value: Var) -> Lowered<Var> {
    let n = rank(b, x)?;
    let pads =
        [for_each_axis(b, n, low.to_vec(), 0)?, for_each_axis(b, n, high.to_vec(), 0)?].concat();
    if pads.iter().all(|n| *n == 0) {
        return Ok(x);
    }
    b.pad(x, pads).constant_value(value).one()
}

/// What the elements under windows make together, axis by axis.
fn under_windows(b: &GraphBuilder, x: Var, how: Meeting, lists: [Vec<i64>; 3]) -> Lowered<Var> {
    let n = rank(b, x)?;
    let [sizes, strides, dilations] = lists.map(|list| for_each_axis(b, n, list, 1));
    let windows = sizes?.into_iter().zip(strides?).zip(dilations?);
    let mut y = x;
    for (axis, ((window, stride), dilation)) in windows.enumerate() {
        // Farther steps lie behind the end of every tensor.
        let all = 1..=i64::from(i32::MAX);
        refuse!(!(1..=WINDOW_MAX).contains(&window) || !all.contains(&stride) || !all.contains(&dilation) =>
            b.unsupported(format!("A window of {window} cells is too large, or its steps are too small.")));
        let cell = |at: i64| -> Lowered<Var> {
            let behind = (window - 1 - at) * dilation;
            let end = if behind == 0 { i64::MAX } else { -behind };
            match (window, stride) {
                (1, 1) => Ok(y),
                _ => b.slice(y, [at * dilation], [end]).axes([axis as i64]).steps([stride]).one(),
            }
        };
        let mut met = cell(0)?;
        for at in 1..window {
            met = how.meet(b, met, cell(at)?)?;
        }
        y = met;
    }
    Ok(y)
}
