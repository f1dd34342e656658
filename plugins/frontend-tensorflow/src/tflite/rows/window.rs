//! Cells between others, and reductions under windows.

use super::size_of;
use crate::ops::shape::{Size, reshaped, shape_of, size, size_by};
use crate::ops::{Source, of, rank, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{Bool, Int32};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Cells of a window along one axis, each of which takes a node.
const WINDOW_MAX: i64 = 1024;

/// Words of the functions of `REDUCE_WINDOW`, by their numbers.
const FUNCTIONS: [&str; 7] = ["", "ADD", "MUL", "MINIMUM", "MAXIMUM", "LOGICAL_AND", "LOGICAL_OR"];

pub(super) fn rows(table: Table<Source>) -> Table<Source> {
    rows! { table;
        "DILATE" => |b, a: Dilate| dilated(b, a.input, &a.dilations, a.value);
        "REDUCE_WINDOW" => |b, a: Windows| {
            let word = usize::try_from(a.reduce_function).ok().and_then(|at| FUNCTIONS.get(at));
            let how = Meeting::of(b, word.unwrap_or(&""))?;
            let y = under_windows(b, a.input, how, [a.window_shape, a.window_strides, a.window_dilations])?;
            how.meet(b, y, a.init)
        };
        "STABLEHLO_PAD" => |b, a: Pad| {
            let dilations: Vec<i64> = a.interior_padding.iter().map(|n| n.saturating_add(1)).collect();
            let x = dilated(b, a.operand, &dilations, a.value)?;
            padded(b, x, [&a.edge_padding_low, &a.edge_padding_high], a.value)
        };
        "STABLEHLO_REDUCE_WINDOW" => |b, a: HloWindows| {
            let how = Meeting::of(b, &a.body)?;
            let x = dilated(b, a.operand, &a.base_dilations, a.init)?;
            let side = |at: usize| a.padding.iter().skip(at).step_by(2).copied().collect::<Vec<i64>>();
            let x = padded(b, x, [&side(0), &side(1)], a.init)?;
            let y = under_windows(b, x, how, [a.window_dimensions, a.window_strides, a.window_dilations])?;
            how.meet(b, y, a.init)
        };
    }
}

arguments! {
    /// `DILATE(input, dilations, value)`
    struct Dilate { input: Var, dilations: Vec<i64>, value: Var }
    /// `REDUCE_WINDOW(input, init, window_shape, window_strides, window_dilations)`
    struct Windows {
        input: Var, init: Var, window_shape: Vec<i64>, window_strides: Vec<i64>, window_dilations: Vec<i64>,
        reduce_function: i64,
    }
    /// `STABLEHLO_PAD(operand, value)`
    struct Pad {
        operand: Var, value: Var, edge_padding_low: Vec<i64>, edge_padding_high: Vec<i64>,
        interior_padding: Vec<i64>,
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
    pub(super) fn of(b: &GraphBuilder, operators: &str) -> Lowered<Meeting> {
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
                Err(b.diagnostic(Code::LayerUnsupported, message))
            }
        }
    }

    /// Runtimes compare no integers of less than 32 bits.
    pub(super) fn meet(self, b: &GraphBuilder, x: Var, y: Var) -> Lowered<Var> {
        let dtype = of(b, x)?;
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

/// `x` with `dilations[i] - 1` cells of `value` between the cells of axis `i`.
pub(crate) fn dilated(b: &GraphBuilder, x: Var, dilations: &[i64], value: Var) -> Lowered<Var> {
    let n = rank(b, x)?;
    let mut y = x;
    let dilations = for_each_axis(b, n, dilations.to_vec(), 1)?;
    if let Some(bad) = dilations.iter().find(|dilation| **dilation < 1) {
        let message = format!("Cells cannot be {bad} places apart.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    for (axis, dilation) in dilations.iter().enumerate() {
        let (at, more) = (axis as i64, dilation - 1);
        if more == 0 || size_of(b, y, axis) == Some(1) {
            continue;
        }
        let mut sizes = (0..n).map(|axis| size(b, y, axis)).collect::<Lowered<Vec<Size>>>()?;
        sizes[axis] = size_by(b, sizes[axis], *dilation, i64::saturating_mul, GraphBuilder::mul)?;
        let mut pads = vec![0; 2 * n + 2];
        pads[n + 1 + axis + 1] = more;
        let apart = b.pad(b.unsqueeze(y, [at + 1])?, pads).constant_value(value).one()?;
        let beside = reshaped(b, apart, &shape_of(b, &sizes)?)?;
        y = b.slice(beside, [0], [-more]).axes([at]).one()?;
    }
    Ok(y)
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

/// A number for each of `n` axes; an empty list means `default` for all.
///
/// # Errors
/// `N0204` for a list of another length.
fn for_each_axis(b: &GraphBuilder, n: usize, list: Vec<i64>, default: i64) -> Lowered<Vec<i64>> {
    match list.len() {
        0 => Ok(vec![default; n]),
        found if found == n => Ok(list),
        found => {
            let message = format!("There are {found} numbers for {n} axes.");
            Err(b.diagnostic(Code::LayerParameter, message))
        }
    }
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
        if !(1..=WINDOW_MAX).contains(&window) || !all.contains(&stride) || !all.contains(&dilation)
        {
            let message =
                format!("A window of {window} cells is too large, or its steps are too small.");
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
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
