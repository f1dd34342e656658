//! Shape, layout and size of tensors.

use crate::row::{Row, both, down, up};
use crate::site::{Done, Site, axis};
use onnxd_ir::{Attr, Tensor};

pub(crate) const ROWS: &[Row] = &[
    both(&["Squeeze", "Unsqueeze"], 13, axes_to_input, axes_from_input),
    down(&["Squeeze", "Flatten", "Concat"], 11, axis_from_front),
    down(&["Unsqueeze"], 11, unsqueeze_11_down),
    up(&["Reshape"], 5, reshape_5),
    down(&["Reshape"], 14, reshape_14_down),
    up(&["Split"], 2, split_2),
    down(&["Split"], 11, axis_from_front),
    both(&["Split"], 13, split_13_up, split_13_down),
    both(&["Split"], 18, split_18_up, split_18_down),
    both(&["Slice"], 10, slice_10_up, slice_10_down),
    up(&["Pad"], 2, pad_2),
    both(&["Pad"], 11, pad_11_up, pad_11_down),
    down(&["Pad"], 18, pad_18_down),
    down(&["Pad"], 19, pad_19_down),
    up(&["Tile"], 6, tile_6),
    down(&["Shape"], 15, shape_15_down),
    down(&["Expand"], 8, expand_8_down),
    down(&["DepthToSpace"], 11, depth_to_space_11_down),
];

/// The attribute `axes` becomes input 1.
pub(crate) fn axes_to_input(s: &mut Site<'_>) -> Done {
    if let Some(axes) = s.ints("axes")? {
        let axes = s.vector("axes", &axes);
        s.set_input(1, Some(axes));
        s.drop("axes");
    }
    Ok(())
}

fn axes_from_input(s: &mut Site<'_>) -> Done {
    if let Some(axes) = s.fixed_ints(1)? {
        s.set("axes", Attr::Ints(axes));
    }
    s.set_inputs(vec![Some(s.input(0)?)]);
    Ok(())
}

/// Before opset 11 axes are counted from the front.
pub(crate) fn axis_from_front(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    if let Some(one) = s.int("axis")?.filter(|a| *a < 0) {
        s.set("axis", Attr::Int(axis(one, s.rank(x)?)?));
    }
    if let Some(list) = s.ints("axes")?.filter(|list| list.iter().any(|a| *a < 0)) {
        let rank = s.rank(x)?;
        let list: Vec<i64> = list.iter().map(|a| axis(*a, rank)).collect::<Result<_, _>>()?;
        s.set("axes", Attr::Ints(list));
    }
    Ok(())
}

/// The axes of `Unsqueeze` count those that it adds.
fn unsqueeze_11_down(s: &mut Site<'_>) -> Done {
    let Some(list) = s.ints("axes")?.filter(|list| list.iter().any(|a| *a < 0)) else {
        return Ok(());
    };
    let rank = s.rank(s.input(0)?)? + list.len();
    let list: Vec<i64> = list.iter().map(|a| axis(*a, rank)).collect::<Result<_, _>>()?;
    s.set("axes", Attr::Ints(list));
    Ok(())
}

fn reshape_5(s: &mut Site<'_>) -> Done {
    let shape = s.ints("shape")?.ok_or("it has no attribute `shape`")?;
    let shape = s.vector("shape", &shape);
    s.set_input(1, Some(shape));
    s.drop("shape");
    s.drop("consumed_inputs");
    Ok(())
}

/// Without `allowzero` a 0 stands for the size that was there.
fn reshape_14_down(s: &mut Site<'_>) -> Done {
    if s.int("allowzero")?.unwrap_or(0) != 0 {
        let shape = s.fixed_ints(1)?.unwrap_or_default();
        if shape.contains(&0) {
            return Err("it makes an axis of size 0 by `allowzero`".into());
        }
        s.drop("allowzero");
    }
    Ok(())
}

fn split_2(s: &mut Site<'_>) -> Done {
    if let Some(split) = s.fixed_ints(1)? {
        s.set("split", Attr::Ints(split));
    }
    s.set_inputs(vec![Some(s.input(0)?)]);
    Ok(())
}

fn split_13_up(s: &mut Site<'_>) -> Done {
    if let Some(split) = s.ints("split")? {
        let split = s.vector("split", &split);
        s.set_input(1, Some(split));
        s.drop("split");
    }
    Ok(())
}

fn split_13_down(s: &mut Site<'_>) -> Done {
    split_2(s)
}

fn split_18_up(s: &mut Site<'_>) -> Done {
    if !s.has(1) {
        s.set("num_outputs", Attr::Int(s.node().outputs.len() as i64));
    }
    Ok(())
}

/// Before opset 18 parts of no stated size are equal.
fn split_18_down(s: &mut Site<'_>) -> Done {
    let Some(parts) = s.int("num_outputs")? else { return Ok(()) };
    s.drop("num_outputs");
    let x = s.input(0)?;
    let shape = s.shape(x)?;
    let at = axis(s.int("axis")?.unwrap_or(0), shape.len())?;
    let Some(size) = shape[at as usize].known() else {
        return Err(format!("whether axis {at} can be split evenly is not known"));
    };
    if parts > 0 && size % parts != 0 {
        let each = size / parts + 1;
        let sizes: Vec<i64> = (0..parts).map(|i| (size - i * each).clamp(0, each)).collect();
        let split = s.vector("split", &sizes);
        s.set_input(1, Some(split));
    }
    Ok(())
}

fn slice_10_up(s: &mut Site<'_>) -> Done {
    for (i, name) in [(1, "starts"), (2, "ends"), (3, "axes")] {
        if let Some(list) = s.ints(name)? {
            let list = s.vector(name, &list);
            s.set_input(i, Some(list));
            s.drop(name);
        }
    }
    Ok(())
}

fn slice_10_down(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    if s.fixed_ints(4)?.is_some_and(|steps| steps.iter().any(|step| *step != 1)) {
        return Err("it has steps other than 1".into());
    }
    let axes = s.fixed_ints(3)?;
    let starts = s.fixed_ints(1)?.unwrap_or_default();
    let ends = s.fixed_ints(2)?.unwrap_or_default();
    s.set_inputs(vec![Some(x)]);
    s.set("starts", Attr::Ints(starts));
    s.set("ends", Attr::Ints(ends));
    if let Some(mut axes) = axes {
        if axes.iter().any(|a| *a < 0) {
            let rank = s.rank(x)?;
            axes = axes.iter().map(|a| axis(*a, rank)).collect::<Result<_, _>>()?;
        }
        s.set("axes", Attr::Ints(axes));
    }
    Ok(())
}

fn pad_2(s: &mut Site<'_>) -> Done {
    let pads = s.ints("paddings")?.ok_or("it has no attribute `paddings`")?;
    s.drop("paddings");
    s.set("pads", Attr::Ints(pads));
    Ok(())
}

fn pad_11_up(s: &mut Site<'_>) -> Done {
    let pads = s.ints("pads")?.ok_or("it has no attribute `pads`")?;
    let pads = s.vector("pads", &pads);
    let value = s.float("value")?.unwrap_or(0.0);
    s.set_input(1, Some(pads));
    if value != 0.0 {
        let value = s.scalar("value", f64::from(value), s.dtype(s.input(0)?)?)?;
        s.set_input(2, Some(value));
    }
    s.drop("pads");
    s.drop("value");
    Ok(())
}

fn pad_11_down(s: &mut Site<'_>) -> Done {
    let pads = s.fixed_ints(1)?.ok_or("it has no pads")?;
    let value = s.fixed_floats(2)?.and_then(|v| v.first().copied()).unwrap_or(0.0);
    if f64::from(value as f32) != value && !value.is_nan() {
        return Err(format!("its padding {value} is no float"));
    }
    s.set_inputs(vec![Some(s.input(0)?)]);
    s.set("pads", Attr::Ints(pads));
    if value != 0.0 {
        s.set("value", Attr::Float(value as f32));
    }
    Ok(())
}

/// Before opset 18 all axes are padded.
fn pad_18_down(s: &mut Site<'_>) -> Done {
    let Some(axes) = s.fixed_ints(3)? else { return Ok(()) };
    let rank = s.rank(s.input(0)?)?;
    let some = s.fixed_ints(1)?.ok_or("it has no pads")?;
    if some.len() != 2 * axes.len() {
        return Err(format!("it has {} pads for {} axes", some.len(), axes.len()));
    }
    let mut pads = vec![0; 2 * rank];
    for (i, at) in axes.iter().enumerate() {
        let at = axis(*at, rank)? as usize;
        pads[at] = some[i];
        pads[at + rank] = some[i + axes.len()];
    }
    let pads = s.vector("pads", &pads);
    let inputs = vec![Some(s.input(0)?), Some(pads), s.node().input(2)];
    s.set_inputs(inputs);
    Ok(())
}

fn pad_19_down(s: &mut Site<'_>) -> Done {
    match s.word("mode", "constant")?.as_str() {
        "wrap" => Err("there is no mode \"wrap\"".into()),
        _ => Ok(()),
    }
}

/// Up to opset 5 one axis is repeated.
fn tile_6(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let one = |list: Option<Vec<i64>>| list.and_then(|l| l.first().copied());
    let tiles = one(s.fixed_ints(1)?).ok_or("it has no tiles")?;
    let rank = s.rank(x)?;
    let at = axis(one(s.fixed_ints(2)?).ok_or("it has no axis")?, rank)?;
    let mut repeats = vec![1; rank];
    *repeats.get_mut(at as usize).ok_or("a scalar has no axis")? = tiles;
    let repeats = s.vector("repeats", &repeats);
    s.set_inputs(vec![Some(x), Some(repeats)]);
    Ok(())
}

/// `start` and `end` cut what `Shape` gives.
fn shape_15_down(s: &mut Site<'_>) -> Done {
    let start = s.int("start")?.unwrap_or(0);
    let end = s.int("end")?;
    s.drop("start");
    s.drop("end");
    if start == 0 && end.is_none() {
        return Ok(());
    }
    let (all, out) = s.detach(0, "all")?;
    let start = s.vector("start", &[start]);
    let end = s.vector("end", &[end.unwrap_or(i64::MAX)]);
    s.add_to(out, "Slice", &[all, start, end], &[]);
    Ok(())
}

/// Elements of ones that stand for an `Expand`.
const ONES_MAX: i64 = 1 << 16;

/// A product with ones broadcasts.
fn expand_8_down(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let shape = s.fixed_ints(1)?.ok_or("it has no shape")?;
    let count = shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d).filter(|n| *n >= 0));
    let Some(count) = count.filter(|n| *n <= ONES_MAX) else {
        return Err(format!("it expands to more than {ONES_MAX} elements"));
    };
    let one = crate::site::number(1.0, s.dtype(x)?).ok_or("its type has no 1")?;
    let bytes = one.bytes().repeat(count as usize);
    let dims = shape.iter().map(|d| *d as usize).collect();
    let ones = Tensor::new(one.dtype(), dims, bytes.into()).map_err(|e| e.to_string())?;
    let ones = s.tensor("ones", ones);
    s.become_node("Mul", &[x, ones], &[]);
    Ok(())
}

/// The mode CRD by hand: the depth is [channels, block, block].
fn depth_to_space_11_down(s: &mut Site<'_>) -> Done {
    if s.word("mode", "DCR")? != "CRD" {
        return Ok(());
    }
    let x = s.input(0)?;
    let dims = s.dims(x)?;
    let block = s.int("blocksize")?.ok_or("it has no blocksize")?;
    let [n, c, h, w] = dims[..] else { return Err("its input is not of rank 4".into()) };
    let deep = c.checked_div(block).and_then(|c| c.checked_div(block));
    let deep = deep.ok_or("its blocksize is 0")?;
    let split = s.reshape("split", x, &[n, deep, block, block, h, w]);
    let moved = s.transpose("moved", split, &[0, 1, 4, 2, 5, 3]);
    let wide = |a: i64| a.checked_mul(block).ok_or("its size overflows");
    let shape = s.vector("shape", &[n, deep, wide(h)?, wide(w)?]);
    s.become_node("Reshape", &[moved, shape], &[]);
    Ok(())
}
