//! Shape, layout and size of tensors.

use crate::context::{Done, LowerContext, axes, axis, refuse};
use crate::data::filled;
use crate::row::{AdapterRow, both, down, moved, restate, up};
use onnxd_ir::{Attr, Dim, Tensor};

pub(crate) const ROWS: &[AdapterRow] = &[
    moved(&["Squeeze", "Unsqueeze"], 13),
    down(&["Squeeze", "Flatten", "Concat"], 11, axis_from_front),
    down(&["Unsqueeze"], 11, unsqueeze_11_down),
    up(&["Reshape"], 5, restate),
    down(&["Reshape"], 14, reshape_14_down),
    up(&["Split"], 2, restate),
    down(&["Split"], 11, axis_from_front),
    moved(&["Split"], 13),
    both(&["Split"], 18, split_18_up, split_18_down),
    both(&["Slice"], 10, restate, slice_10_down),
    up(&["Pad"], 2, restate),
    both(&["Pad"], 11, restate, pad_11_down),
    down(&["Pad"], 18, pad_18_down),
    down(&["Pad"], 19, pad_19_down),
    up(&["Tile"], 6, tile_6),
    down(&["Shape"], 15, shape_15_down),
    down(&["Expand"], 8, expand_8_down),
    down(&["DepthToSpace"], 11, depth_to_space_11_down),
];

/// Before opset 11 axes are counted from the front.
pub(crate) fn axis_from_front(s: &mut LowerContext<'_>) -> Done {
    let x = s.var(0)?;
    if let Some(one) = s.int("axis")?.filter(|a| *a < 0) {
        s.set_int("axis", axis(one, s.rank(x)?)?);
    }
    if let Some(list) = s.ints("axes")?.filter(|list| list.iter().any(|a| *a < 0)) {
        s.set("axes", Attr::Ints(axes(&list, s.rank(x)?)?));
    }
    Ok(())
}

/// The axes of `Unsqueeze` count those that it adds.
fn unsqueeze_11_down(s: &mut LowerContext<'_>) -> Done {
    if let Some(list) = s.ints("axes")?.filter(|list| list.iter().any(|a| *a < 0)) {
        let rank = s.rank(s.var(0)?)? + list.len();
        s.set("axes", Attr::Ints(axes(&list, rank)?));
    }
    Ok(())
}

/// Without `allowzero` a 0 stands for the size that was there.
fn reshape_14_down(s: &mut LowerContext<'_>) -> Done {
    if s.flag("allowzero", false)? {
        if s.fixed_ints(1)?.unwrap_or_default().contains(&0) {
            return refuse("it makes an axis of size 0 by `allowzero`");
        }
        s.drop("allowzero");
    }
    Ok(())
}

fn split_18_up(s: &mut LowerContext<'_>) -> Done {
    if !s.has(1) {
        s.set_int("num_outputs", s.output_count() as i64);
    }
    Ok(())
}

/// Before opset 18 parts of no stated size are equal.
fn split_18_down(s: &mut LowerContext<'_>) -> Done {
    let Some(parts) = s.int("num_outputs")? else { return Ok(()) };
    s.drop("num_outputs");
    let shape = s.shape(s.var(0)?)?;
    let at = axis(s.int("axis")?.unwrap_or(0), shape.len())?;
    let Some(size) = shape.get(at as usize).and_then(Dim::known) else {
        return refuse(format!("whether axis {at} can be split evenly is not known"));
    };
    if parts > 0 && size % parts != 0 {
        let each = size / parts + 1;
        let sizes = (0..parts).map(|i| (size - i * each).clamp(0, each)).collect();
        s.set_input(1, Some(s.b.parameter("split", Tensor::vector(sizes))))?;
    }
    Ok(())
}

fn slice_10_down(s: &mut LowerContext<'_>) -> Done {
    if s.fixed_ints(4)?.is_some_and(|steps| steps.iter().any(|step| *step != 1)) {
        return refuse("it has steps other than 1");
    }
    s.set_inputs(&s.inputs()[..s.inputs().len().min(4)])?;
    s.restate()?;
    axis_from_front(s)
}

fn pad_11_down(s: &mut LowerContext<'_>) -> Done {
    let value = s.fixed_floats(2)?.and_then(|v| v.first().copied()).unwrap_or(0.0);
    if f64::from(value as f32) != value && !value.is_nan() {
        return refuse(format!("its padding {value} is no float"));
    }
    s.restate()
}

/// Before opset 18 all axes are padded.
fn pad_18_down(s: &mut LowerContext<'_>) -> Done {
    let Some(axes) = s.fixed_ints(3)? else { return Ok(()) };
    let x = s.var(0)?;
    let rank = s.rank(x)?;
    let some = s.fixed_ints(1)?.ok_or("it has no pads")?;
    if some.len() != 2 * axes.len() {
        return refuse(format!("it has {} pads for {} axes", some.len(), axes.len()));
    }
    let mut pads = vec![0; 2 * rank];
    for (i, at) in axes.iter().enumerate() {
        let at = axis(*at, rank)? as usize;
        pads[at] = some[i];
        pads[at + rank] = some[i + axes.len()];
    }
    let pads = s.b.parameter("pads", Tensor::vector(pads));
    s.set_inputs(&[Some(x), Some(pads), s.optional(2)])
}

fn pad_19_down(s: &mut LowerContext<'_>) -> Done {
    match s.word("mode", "constant")?.as_str() {
        "wrap" => refuse("there is no mode \"wrap\""),
        _ => Ok(()),
    }
}

/// Up to opset 5 one axis is repeated.
fn tile_6(s: &mut LowerContext<'_>) -> Done {
    let x = s.var(0)?;
    let one = |list: Option<Vec<i64>>| list.and_then(|l| l.first().copied());
    let tiles = one(s.fixed_ints(1)?).ok_or("it has no tiles")?;
    let rank = s.rank(x)?;
    let at = axis(one(s.fixed_ints(2)?).ok_or("it has no axis")?, rank)?;
    let mut repeats = vec![1; rank];
    *repeats.get_mut(at as usize).ok_or("a scalar has no axis")? = tiles;
    let repeats = s.b.parameter("repeats", Tensor::vector(repeats));
    s.set_inputs(&[Some(x), Some(repeats)])
}

/// `start` and `end` cut what `Shape` gives.
fn shape_15_down(s: &mut LowerContext<'_>) -> Done {
    let (start, end) = (s.int("start")?.unwrap_or(0), s.int("end")?);
    s.drop("start");
    s.drop("end");
    if start == 0 && end.is_none() {
        return Ok(());
    }
    s.then(0, |b, all| b.slice(all, [start], [end.unwrap_or(i64::MAX)]).one())
}

/// Elements of ones that stand for an `Expand`.
const ONES_MAX: i64 = 1 << 16;

/// A product with ones broadcasts.
fn expand_8_down(s: &mut LowerContext<'_>) -> Done {
    let x = s.var(0)?;
    let shape = s.fixed_ints(1)?.ok_or("it has no shape")?;
    let count = shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d).filter(|n| *n >= 0));
    if count.is_none_or(|n| n > ONES_MAX) {
        return refuse(format!("it expands to more than {ONES_MAX} elements"));
    }
    let ones = s.b.parameter("ones", filled(1, s.dtype(x)?, &shape)?);
    s.becomes(s.b.mul(x, ones)?)
}

/// The mode CRD by hand: the depth is [channels, block, block].
fn depth_to_space_11_down(s: &mut LowerContext<'_>) -> Done {
    if s.word("mode", "DCR")? != "CRD" {
        return Ok(());
    }
    let (b, x) = (s.b, s.var(0)?);
    let dims = s.dims(x)?;
    let block = s.int("blocksize")?.ok_or("it has no blocksize")?;
    let [n, c, h, w] = dims[..] else { return refuse("its input is not of rank 4") };
    let deep = c.checked_div(block).and_then(|c| c.checked_div(block));
    let deep = deep.ok_or("its blocksize is 0")?;
    let wide = |a: i64| a.checked_mul(block).ok_or("its size overflows");
    let split = b.reshape(x, [n, deep, block, block, h, w]).one()?;
    let moved = b.transpose(split).perm([0, 1, 4, 2, 5, 3]).one()?;
    s.becomes(b.reshape(moved, [n, deep, wide(h)?, wide(w)?]).one()?)
}
