//! Choosing and placing elements by index, and transforms along an axis.

use crate::carry::respell;
use crate::row::{Row, both, down, up};
use crate::shape::axis_from_front;
use crate::site::{Done, Site, axis};
use onnxd_ir::{Attr, Tensor};

pub(crate) const ROWS: &[Row] = &[
    down(&["Gather"], 11, gather_11_down),
    down(&["Compress"], 11, axis_from_front),
    up(&["Scatter"], 11, scatter_11_up),
    down(&["ScatterElements"], 11, scatter_11_down),
    both(&["TopK"], 10, top_k_10_up, top_k_10_down),
    down(&["TopK"], 11, top_k_11_down),
    down(&["OneHot"], 11, one_hot_11_down),
    both(&["GridSample"], 20, grid_sample_20_up, grid_sample_20_down),
    both(&["DFT"], 20, dft_20_up, dft_20_down),
];

/// Before opset 11 indices are counted from the front.
fn gather_11_down(s: &mut Site<'_>) -> Done {
    axis_from_front(s)?;
    let Ok(Some(indices)) = s.fixed(1) else { return Ok(()) };
    let items = indices.to_i64s().unwrap_or_default();
    if items.iter().all(|i| *i >= 0) {
        return Ok(());
    }
    let at = s.int("axis")?.unwrap_or(0);
    let size = s.shape(s.input(0)?)?.get(at as usize).and_then(onnxd_ir::Dim::known);
    let size = size.ok_or("its indices are negative, and the size of the axis is not known")?;
    let items: Vec<i64> = items.iter().map(|i| if *i < 0 { i + size } else { *i }).collect();
    let front = s.tensor("indices", Tensor::from_vec(indices.dims(), items));
    s.set_input(1, Some(front));
    Ok(())
}

fn scatter_11_up(s: &mut Site<'_>) -> Done {
    s.rename("ScatterElements");
    Ok(())
}

fn scatter_11_down(s: &mut Site<'_>) -> Done {
    axis_from_front(s)?;
    s.rename("Scatter");
    Ok(())
}

fn top_k_10_up(s: &mut Site<'_>) -> Done {
    let k = s.int("k")?.ok_or("it has no attribute `k`")?;
    let k = s.vector("k", &[k]);
    s.set_input(1, Some(k));
    s.drop("k");
    Ok(())
}

fn top_k_10_down(s: &mut Site<'_>) -> Done {
    let k = s.fixed_ints(1)?.and_then(|k| k.first().copied()).ok_or("it has no `K`")?;
    s.set_inputs(vec![Some(s.input(0)?)]);
    s.set("k", Attr::Int(k));
    Ok(())
}

/// The smallest are the largest of the negated.
fn top_k_11_down(s: &mut Site<'_>) -> Done {
    axis_from_front(s)?;
    s.drop("sorted");
    let smallest = s.int("largest")?.unwrap_or(1) == 0;
    s.drop("largest");
    if smallest {
        let x = s.input(0)?;
        let negated = s.add("Neg", "negated", &[x], &[]);
        s.set_input(0, Some(negated));
        let (values, out) = s.detach(0, "negated")?;
        s.add_to(out, "Neg", &[values], &[]);
    }
    Ok(())
}

/// Before opset 11 only the last axis is counted from the back.
fn one_hot_11_down(s: &mut Site<'_>) -> Done {
    if let Some(at) = s.int("axis")?.filter(|a| *a < -1) {
        let rank = s.rank(s.input(0)?)? + 1;
        s.set("axis", Attr::Int(axis(at, rank)?));
    }
    Ok(())
}

const MODES: &[(&str, &str)] =
    &[("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")];

fn grid_sample_20_up(s: &mut Site<'_>) -> Done {
    respell(s, "mode", "bilinear", MODES)
}

fn grid_sample_20_down(s: &mut Site<'_>) -> Done {
    if s.rank(s.input(0)?)? != 4 {
        return Err("only two spatial axes are possible".into());
    }
    let back: Vec<(&str, &str)> = MODES.iter().map(|(old, new)| (*new, *old)).collect();
    respell(s, "mode", "linear", &back)
}

fn dft_20_up(s: &mut Site<'_>) -> Done {
    let at = s.int("axis")?.unwrap_or(1);
    let at = s.tensor("axis", Tensor::scalar(at));
    s.set_input(2, Some(at));
    s.drop("axis");
    Ok(())
}

fn dft_20_down(s: &mut Site<'_>) -> Done {
    let at = s.fixed_ints(2)?.and_then(|a| a.first().copied()).unwrap_or(-2);
    s.set_input(2, None);
    let at = s.rank(s.input(0)?).map_or(Ok(at), |rank| axis(at, rank))?;
    s.set("axis", Attr::Int(at));
    Ok(())
}
