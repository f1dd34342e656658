//! Choosing and placing elements by index, and transforms along an axis.

use crate::carry::respell;
use crate::context::{Done, LowerContext, axis, refuse};
use crate::row::{AdapterRow, both, down, restate, up};
use crate::shape::axis_from_front;
use onnxd_build::GraphBuilder;
use onnxd_ir::{Attr, Dim, Tensor};

pub(crate) const ROWS: &[AdapterRow] = &[
    down(&["Gather"], 11, gather_11_down),
    down(&["Compress"], 11, axis_from_front),
    up(&["Scatter"], 11, scatter_11_up),
    down(&["ScatterElements"], 11, scatter_11_down),
    both(&["TopK"], 10, top_k_10_up, restate),
    down(&["TopK"], 11, top_k_11_down),
    down(&["OneHot"], 11, one_hot_11_down),
    both(&["GridSample"], 20, grid_sample_20_up, grid_sample_20_down),
    both(&["DFT"], 20, dft_20_up, dft_20_down),
];

/// Before opset 11 indices are counted from the front.
fn gather_11_down(s: &mut LowerContext<'_>) -> Done {
    axis_from_front(s)?;
    let Ok(Some(indices)) = s.fixed(1) else { return Ok(()) };
    let items = indices.to_i64s().unwrap_or_default();
    if items.iter().all(|i| *i >= 0) {
        return Ok(());
    }
    let at = s.int("axis")?.unwrap_or(0);
    let size = s.shape(s.var(0)?)?.get(at as usize).and_then(Dim::known);
    let size = size.ok_or("its indices are negative, and the size of the axis is not known")?;
    let items: Vec<i64> = items.iter().map(|i| if *i < 0 { i + size } else { *i }).collect();
    let front = s.b.parameter("indices", Tensor::from_vec(indices.dims(), items));
    s.set_input(1, Some(front))
}

fn scatter_11_up(s: &mut LowerContext<'_>) -> Done {
    s.rename("ScatterElements");
    Ok(())
}

fn scatter_11_down(s: &mut LowerContext<'_>) -> Done {
    axis_from_front(s)?;
    s.rename("Scatter");
    Ok(())
}

fn top_k_10_up(s: &mut LowerContext<'_>) -> Done {
    let k = s.int("k")?.ok_or("it has no attribute `k`")?;
    s.set("k", Attr::Ints(vec![k]));
    s.restate()
}

/// The smallest are the largest of the negated.
fn top_k_11_down(s: &mut LowerContext<'_>) -> Done {
    axis_from_front(s)?;
    s.drop("sorted");
    let largest = s.flag("largest", true)?;
    s.drop("largest");
    if largest {
        return Ok(());
    }
    s.set_input(0, Some(s.b.neg(s.var(0)?)?))?;
    s.then(0, GraphBuilder::neg)
}

/// Before opset 11 only the last axis is counted from the back.
fn one_hot_11_down(s: &mut LowerContext<'_>) -> Done {
    if let Some(at) = s.int("axis")?.filter(|a| *a < -1) {
        let rank = s.rank(s.var(0)?)? + 1;
        s.set_int("axis", axis(at, rank)?);
    }
    Ok(())
}

const MODES: &[(&str, &str)] =
    &[("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")];

fn grid_sample_20_up(s: &mut LowerContext<'_>) -> Done {
    respell(s, "mode", "bilinear", MODES)
}

fn grid_sample_20_down(s: &mut LowerContext<'_>) -> Done {
    if s.rank(s.var(0)?)? != 4 {
        return refuse("only two spatial axes are possible");
    }
    let back: Vec<(&str, &str)> = MODES.iter().map(|(old, new)| (*new, *old)).collect();
    respell(s, "mode", "linear", &back)
}

fn dft_20_up(s: &mut LowerContext<'_>) -> Done {
    s.set_int("axis", s.int("axis")?.unwrap_or(1));
    s.restate()
}

fn dft_20_down(s: &mut LowerContext<'_>) -> Done {
    let at = s.fixed_ints(2)?.and_then(|a| a.first().copied()).unwrap_or(-2);
    s.set_input(2, None)?;
    let rank = s.b.rank_of(s.var(0)?);
    s.set_int("axis", rank.map_or(Ok(at), |rank| axis(at, rank))?);
    Ok(())
}
