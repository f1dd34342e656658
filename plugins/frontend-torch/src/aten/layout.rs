//! The order of axes and elements: transposing, flipping, rolling, shuffling.

use super::shape::{
    INDICES_MAX, TargetSize, Tensors, expanded, reshaped, unsupported, without_axes,
};
use super::sizes::{self as of, axes, axis, known, known_size, over, rank, size, times};
use super::slicing::{self, Range};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::complex;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::permute" => |b, input: Var, dims: Vec<i64>| permuted(b, input, &axes(b, input, &dims)?);
        "aten::permute_copy" => |b, input: Var, dims: Vec<i64>| {
            permuted(b, input, &axes(b, input, &dims)?)
        };
        "aten::transpose" | "aten::transpose_copy" | "aten::swapdims" => |b, input: Var, dim0: i64, dim1: i64| {
            swapped(b, input, dim0, dim1)
        };
        "aten::swapaxes" => |b, input: Var, axis0: i64, axis1: i64| swapped(b, input, axis0, axis1);
        "aten::t" | "aten::t_copy" | "aten::mT" => |b, input: Var| last_two_swapped(b, input);
        "aten::numpy_T" => reversed(input);
        "aten::mH" | "aten::adjoint" | "aten::matrix_H" => conjugate_transposed(input);
        "aten::movedim" | "aten::moveaxis" => movedim(input, source, destination);
        "aten::flip" => |b, input: Var, dims: Vec<i64>| flipped(b, input, axes(b, input, &dims)?);
        "aten::fliplr" => |b, input: Var| flipped(b, input, vec![1]);
        "aten::flipud" => |b, input: Var| flipped(b, input, vec![0]);
        "aten::roll" => roll(input, shifts, dims);
        "aten::rot90" => rot90(input, k, dims);
        "aten::pixel_shuffle" => pixel_shuffle(input, upscale_factor);
        "aten::pixel_unshuffle" => pixel_unshuffle(input, downscale_factor);
        "aten::channel_shuffle" | "aten::native_channel_shuffle" => channel_shuffle(input, groups);
        "aten::meshgrid" => meshgrid(tensors, indexing);
        "aten::unfold" | "aten::unfold_copy" => unfold;
    }
}

arguments! {
    struct Unfold { input: Var, dimension: i64, size: i64, step: i64 }
}

/// `x` with its axes in the order `perm`.
///
/// # Errors
/// `N0204` if `perm` does not name each axis once.
pub(crate) fn permuted(b: &Lower, x: Var, perm: &[usize]) -> Lowered<Var> {
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    let all: Vec<usize> = (0..rank(b, x)?).collect();
    if sorted != all {
        let message = format!("The axes {perm:?} are not all axes of the tensor.");
        return Err(b.diagnostic(onnxd_plugin_sdk::diagnostics::Code::LayerParameter, message));
    }
    if perm == all {
        return Ok(x);
    }
    b.transpose(x).perm(perm.iter().map(|axis| *axis as i64).collect::<Vec<_>>()).one()
}

fn swapped(b: &Lower, x: Var, dim0: i64, dim1: i64) -> Lowered<Var> {
    let rank = rank(b, x)?;
    let (one, other) = (of::wrapped(b, dim0, rank)?, of::wrapped(b, dim1, rank)?);
    let mut perm: Vec<usize> = (0..rank).collect();
    if rank > 0 {
        perm.swap(one, other);
    }
    permuted(b, x, &perm)
}

fn last_two_swapped(b: &Lower, x: Var) -> Lowered<Var> {
    if rank(b, x)? < 2 { Ok(x) } else { swapped(b, x, -2, -1) }
}

fn reversed(b: &Lower, input: Var) -> Lowered<Var> {
    permuted(b, input, &(0..rank(b, input)?).rev().collect::<Vec<_>>())
}

fn conjugate_transposed(b: &Lower, input: Var) -> Lowered<Var> {
    if complex::is(b, input) {
        return Err(unsupported(b, "ONNX has no conjugate of a complex tensor."));
    }
    last_two_swapped(b, input)
}

fn movedim(b: &Lower, input: Var, source: Value, destination: Value) -> Lowered<Var> {
    let rank = rank(b, input)?;
    let list = |value: &Value| -> Lowered<Vec<usize>> {
        let items = match value {
            Value::List(items) => items.clone(),
            other => vec![other.clone()],
        };
        let dims = of::all_known(b, &items)
            .ok_or_else(|| unsupported(b, "movedim needs axes that are known."))?;
        dims.iter().map(|dim| of::wrapped(b, *dim, rank)).collect()
    };
    let (from, to) = (list(&source)?, list(&destination)?);
    let mut rest = (0..rank).filter(|axis| !from.contains(axis));
    let moved = |axis| to.iter().position(|t| *t == axis).and_then(|i| from.get(i).copied());
    let perm = (0..rank).filter_map(|axis| moved(axis).or_else(|| rest.next()));
    permuted(b, input, &perm.collect::<Vec<_>>())
}

/// `x` with one of its axes at another place.
///
/// # Errors
/// Those of [`permuted`].
pub(crate) fn moved(b: &Lower, x: Var, from: usize, to: usize) -> Lowered<Var> {
    let mut perm: Vec<usize> = (0..rank(b, x)?).filter(|axis| *axis != from).collect();
    perm.insert(to.min(perm.len()), from);
    permuted(b, x, &perm)
}

/// `x` with the elements along some axes in reverse.
///
/// # Errors
/// Those of the builder.
pub(crate) fn flipped(b: &Lower, x: Var, axes: Vec<usize>) -> Lowered<Var> {
    let axes: Vec<i64> = axes
        .into_iter()
        .filter(|axis| !matches!(known_size(b, x, *axis), Some(0 | 1)))
        .map(|axis| axis as i64)
        .collect();
    let n = axes.len();
    if n == 0 || b.rank_of(x) == Some(0) {
        return Ok(x);
    }
    b.slice(x, vec![-1; n], vec![i64::MIN; n]).axes(axes).steps(vec![-1; n]).one()
}

fn roll(b: &Lower, input: Var, shifts: Vec<Value>, dims: Vec<i64>) -> Lowered<Var> {
    if !dims.is_empty() {
        let axes = axes(b, input, &dims)?;
        return axes
            .into_iter()
            .zip(&shifts)
            .try_fold(input, |x, (axis, by)| rolled(b, x, axis, by));
    }
    let (Some(by), Some(rank)) = (shifts.first(), b.rank_of(input)) else { return Ok(input) };
    let flat = reshaped(b, input, vec![(-1).into()])?;
    let rolled = rolled(b, flat, 0, by)?;
    let whole: Lowered<Vec<Value>> = (0..rank).map(|axis| size(b, input, axis)).collect();
    reshaped(b, rolled, whole?.into_iter().map(TargetSize::Value).collect())
}

/// `x` with its elements moved along an axis; those that leave it come in at the other end.
pub(crate) fn rolled(b: &Lower, x: Var, axis: usize, by: &Value) -> Lowered<Var> {
    if let (Some(n), Some(by)) = (known_size(b, x, axis), known(b, by)) {
        let first = if n > 0 { (n - by.rem_euclid(n)) % n } else { 0 };
        if first == 0 {
            return Ok(x);
        }
        if n <= INDICES_MAX {
            let indices = (first..n).chain(0..first).collect::<Vec<_>>();
            return b.gather(x, indices).axis(axis as i64).one();
        }
    }
    let cut = match known(b, by) {
        // No axis is shorter than this.
        Some(by @ (-1 | 1)) => Value::Int(-by),
        _ => {
            let n = size(b, x, axis)?;
            let by = b.mod_(of::scalar(b, by)?, of::scalar(b, &n)?).one()?;
            of::minus(b, &n, &Value::Var(by))?
        }
    };
    let end = slicing::ranged(b, x, axis, &Range::from(cut.clone()))?;
    let start = slicing::ranged(b, x, axis, &Range::to(cut))?;
    b.concat([end, start]).axis(axis as i64).one()
}

fn rot90(b: &Lower, input: Var, k: i64, dims: Vec<i64>) -> Lowered<Var> {
    let axes = axes(b, input, &dims)?;
    let &[first, second] = axes.as_slice() else {
        return Err(unsupported(b, "rot90 needs two axes."));
    };
    let turned = match k.rem_euclid(4) {
        0 => return Ok(input),
        2 => return flipped(b, input, axes),
        1 => flipped(b, input, vec![second])?,
        _ => flipped(b, input, vec![first])?,
    };
    swapped(b, turned, first as i64, second as i64)
}

/// Lets `f` work on `x` of rank 4: axes before the last three are one.
fn on_images(b: &Lower, x: Var, f: impl FnOnce(Var) -> Lowered<Var>) -> Lowered<Var> {
    let rank = rank(b, x)?;
    match rank {
        4 => f(x),
        3 => without_axes(b, f(b.unsqueeze(x, [0])?)?, vec![0]),
        0..3 => Err(unsupported(b, "Pixels are shuffled in tensors of at least three axes.")),
        _ => {
            let front: Vec<Value> = (0..rank - 3).map(|i| size(b, x, i)).collect::<Lowered<_>>()?;
            let last = (rank - 3..rank).map(TargetSize::Same);
            let flat = reshaped(b, x, [TargetSize::from(-1)].into_iter().chain(last).collect())?;
            let done = f(flat)?;
            let sizes = front.into_iter().map(TargetSize::Value);
            reshaped(b, done, sizes.chain((1..4).map(TargetSize::Same)).collect())
        }
    }
}

fn pixel_shuffle(b: &Lower, input: Var, upscale_factor: i64) -> Lowered<Var> {
    if upscale_factor == 1 {
        return Ok(input);
    }
    on_images(b, input, |x| b.depth_to_space(x).blocksize(upscale_factor).mode("CRD").one())
}

fn pixel_unshuffle(b: &Lower, input: Var, downscale_factor: i64) -> Lowered<Var> {
    let r = downscale_factor;
    if r == 1 {
        return Ok(input);
    }
    let places = r.saturating_mul(r);
    on_images(b, input, |x| {
        let Some(channels) =
            known_size(b, x, 1).filter(|n| n.saturating_mul(places) <= INDICES_MAX)
        else {
            let (h, w) = (size(b, x, 2)?, size(b, x, 3)?);
            let (r2, c) = (Value::Int(r), size(b, x, 1)?);
            let (h, w) = (over(b, &h, &r2)?, over(b, &w, &r2)?);
            let parts = [h.clone(), r2.clone(), w.clone(), r2].map(TargetSize::Value);
            let front = [TargetSize::Same(0), TargetSize::Same(1)].into_iter();
            let apart = reshaped(b, x, front.chain(parts).collect())?;
            let turned = permuted(b, apart, &[0, 1, 3, 5, 2, 4])?;
            let c = times(b, &c, &Value::Int(places))?;
            return reshaped(b, turned, vec![TargetSize::Same(0), c.into(), h.into(), w.into()]);
        };
        // ONNX puts the channels of a block's place next to each other, torch the places of a channel.
        let moved = b.space_to_depth(x).blocksize(r).one()?;
        let order = (0..channels).flat_map(|c| (0..places).map(move |place| place * channels + c));
        if channels == 1 {
            return Ok(moved);
        }
        b.gather(moved, order.collect::<Vec<_>>()).axis(1).one()
    })
}

fn channel_shuffle(b: &Lower, input: Var, groups: i64) -> Lowered<Var> {
    let fits = |n: &i64| groups > 0 && n % groups == 0 && *n <= INDICES_MAX;
    let Some(channels) = known_size(b, input, 1).filter(fits) else {
        return Err(unsupported(b, "channel_shuffle needs a number of channels that is known."));
    };
    if groups == 1 || groups == channels {
        return Ok(input);
    }
    let each = channels / groups;
    let order = (0..each).flat_map(|i| (0..groups).map(move |group| group * each + i));
    b.gather(input, order.collect::<Vec<_>>()).axis(1).one()
}

fn meshgrid(b: &Lower, tensors: Vec<Var>, indexing: Option<String>) -> Lowered<Value> {
    let mut tensors = tensors;
    let swap = indexing.as_deref() == Some("xy") && tensors.len() > 1;
    if swap {
        tensors.swap(0, 1);
    }
    let mut grids = grids(b, &Tensors { tensors })?;
    if swap {
        grids.swap(0, 1);
    }
    Ok(grids.into())
}

/// Each tensor along an axis of its own, broadcast to all of them.
pub(crate) fn grids(b: &Lower, a: &Tensors) -> Lowered<Vec<Var>> {
    let n = a.tensors.len();
    let length = |x: &Var| match rank(b, *x)? {
        0 => Ok(Value::Int(1)),
        _ => size(b, *x, 0),
    };
    let whole: Vec<Value> = a.tensors.iter().map(length).collect::<Lowered<_>>()?;
    let grid = |(i, x): (usize, &Var)| {
        let mut apart: Vec<TargetSize> = vec![1.into(); n];
        apart[i] = (-1).into();
        expanded(b, reshaped(b, *x, apart)?, &whole)
    };
    a.tensors.iter().enumerate().map(grid).collect()
}

fn unfold(b: &Lower, a: Unfold) -> Lowered<Var> {
    let (x, length, step) = (a.input, a.size, a.step);
    if step < 1 || !(0..=INDICES_MAX).contains(&length) {
        return Err(unsupported(b, "unfold needs a step of at least 1 and a size that fits."));
    }
    if rank(b, x)? == 0 {
        // A number is one window of its own size, or has one without elements.
        return match length {
            0 => b.slice(b.unsqueeze(x, [0])?, [0], [0]).one(),
            1 => b.unsqueeze(x, [0]),
            _ => Err(unsupported(b, "unfold of a number has windows of at most one element.")),
        };
    }
    let at = axis(b, x, a.dimension)?;
    let known = known_size(b, x, at).filter(|n| *n <= INDICES_MAX && *n >= length);
    let indices = match known.map(|n| (n - length) / step + 1) {
        Some(count) if count.saturating_mul(length) <= INDICES_MAX => {
            let all = (0..count).flat_map(|i| (0..length).map(move |j| i * step + j));
            let dims = [count as usize, length as usize];
            b.constant(onnxd_plugin_sdk::ir::Tensor::from_vec(dims, all.collect::<Vec<i64>>()))
        }
        _ => {
            let limit = of::minus(b, &size(b, x, at)?, &Value::Int(length - 1))?;
            let starts = b.range(0, of::scalar(b, &limit)?, step).one()?;
            b.add(b.unsqueeze(starts, [1])?, (0..length).collect::<Vec<_>>())?
        }
    };
    let windows = b.gather(x, indices).axis(at as i64).one()?;
    moved(b, windows, at + 1, rank(b, x)?)
}
