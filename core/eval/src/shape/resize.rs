//! Resampling. Every axis is resampled on its own, as sums of weighted neighbours.

use crate::call::{KernelCall, integers, one};
use crate::cells::{OUTSIDE, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, numeric, slice};
use onnxd_ir::{Tensor, resize};

/// Weighted neighbours that one output coordinate needs at most.
const NEIGHBOURS_MAX: f64 = 1e6;

/// How coordinates are mapped and neighbours are weighed.
struct ResizeMode<'a> {
    kind: &'a str,
    nearest: &'a str,
    transformation: &'a str,
    cubic_a: f64,
    exclude_outside: bool,
    antialias: bool,
    extrapolation: f64,
}

/// One axis: input and output size, scale, and the region of interest as shares of the input.
#[derive(Clone, Copy)]
struct ResizeAxis {
    from: usize,
    to: usize,
    scale: f64,
    roi: (f64, f64),
}

/// Neighbours and their weights; `None` where extrapolated.
type Taps = Option<Vec<(usize, f64)>>;

/// Upsample (opset 7 to 9): scales only, coordinates divided by the scale.
pub(super) fn upsample(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let scales: Vec<f64> = match (call.floats("scales")?, call.opt(1)) {
        (Some(scales), _) => scales.iter().map(|s| f64::from(*s)).collect(),
        (None, Some(scales)) => reals(scales)?,
        (None, None) => {
            let [h, w] = ["height_scale", "width_scale"].map(|n| call.float(n, 0.0));
            vec![1.0, 1.0, f64::from(h?), f64::from(w?)]
        }
    };
    let default =
        ResizeMode { nearest: "floor", transformation: "asymmetric", ..mode(call, "nearest")? };
    resampled(call, x, &default, &scaled_axes(x, &scales)?)
}

/// Resize of opset 10 is Upsample that can also shrink.
pub(super) fn resize_10(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    upsample(call)
}

/// Resize since opset 11.
pub(super) fn resize_11(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let mode = mode(call, "nearest")?;
    let named = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|a| dims::axis(*a, x.rank())).collect::<Outcome<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    let given = |i: usize| call.opt(i).filter(|t| !t.is_empty());
    let mut axes: Vec<ResizeAxis> = x.dims().iter().map(|d| kept(*d)).collect();
    let fits = |n: usize| match n == named.len() {
        true => Ok(()),
        false => Err(Fault::invalid(format!("{n} sizes or scales for {} axes", named.len()))),
    };
    if let Some(scales) = given(2) {
        let scales = reals(scales)?;
        fits(scales.len())?;
        let mut all = vec![1.0; x.rank()];
        named.iter().zip(&scales).for_each(|(a, s)| all[*a] = *s);
        axes = scaled_axes(x, &all)?;
    } else if let Some(sizes) = given(3) {
        let sizes = dims::sizes(&integers(sizes)?)?;
        fits(sizes.len())?;
        sized_axes(call, &named, &sizes, &mut axes)?;
    } else {
        return Err(Fault::invalid("neither scales nor sizes are given"));
    }
    if let (Some(roi), "tf_crop_and_resize") = (given(1), mode.transformation) {
        let roi = reals(roi)?;
        fits(roi.len() / 2)?;
        named.iter().enumerate().for_each(|(i, a)| axes[*a].roi = (roi[i], roi[i + named.len()]));
    }
    resampled(call, x, &mode, &axes)
}

fn reals(x: &Tensor) -> Outcome<Vec<f64>> {
    let found = x.to_reals().ok_or_else(|| Fault::invalid(format!("{x:?} holds no numbers")))?;
    Ok(found.values)
}

fn kept(size: usize) -> ResizeAxis {
    ResizeAxis { from: size, to: size, scale: 1.0, roi: (0.0, 1.0) }
}

fn mode<'a>(call: &KernelCall<'a>, default: &'a str) -> Outcome<ResizeMode<'a>> {
    let kind = call.string("mode", default)?;
    Ok(ResizeMode {
        kind: if matches!(kind, "bilinear" | "trilinear") { "linear" } else { kind },
        nearest: call.string("nearest_mode", "round_prefer_floor")?,
        transformation: call.string("coordinate_transformation_mode", "half_pixel")?,
        cubic_a: f64::from(call.float("cubic_coeff_a", -0.75)?),
        exclude_outside: call.flag("exclude_outside", false)?,
        antialias: call.flag("antialias", false)?,
        extrapolation: f64::from(call.float("extrapolation_value", 0.0)?),
    })
}

fn scaled_axes(x: &Tensor, scales: &[f64]) -> Outcome<Vec<ResizeAxis>> {
    let usable = scales.iter().all(|s| s.is_finite() && *s > 0.0);
    if scales.len() != x.rank() || !usable {
        return Err(Fault::invalid(format!("scales {scales:?} do not fit {x:?}")));
    }
    let axis = |(from, scale): (&usize, &f64)| {
        let to = resize::scaled(*from as i64, *scale)?.try_into().ok()?;
        Some(ResizeAxis { to, scale: *scale, ..kept(*from) })
    };
    let axes = x.dims().iter().zip(scales).map(axis).collect::<Option<_>>();
    axes.ok_or_else(|| Fault::invalid(format!("{x:?} becomes too large by scales {scales:?}")))
}

/// Axes from wanted sizes; the policy may keep the aspect ratio.
fn sized_axes(
    call: &KernelCall,
    named: &[usize],
    sizes: &[usize],
    axes: &mut [ResizeAxis],
) -> Outcome<()> {
    let policy = call.string("keep_aspect_ratio_policy", "stretch")?;
    let from: Vec<i64> = named.iter().map(|a| axes[*a].from as i64).collect();
    let sizes: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
    let fitted = resize::fitted(policy, &from, &sizes).map_err(Fault::invalid)?;
    for (a, (to, scale)) in named.iter().zip(fitted) {
        axes[*a] = ResizeAxis { to: to as usize, scale, ..kept(axes[*a].from) };
    }
    Ok(())
}

fn resampled(
    call: &KernelCall,
    x: &Tensor,
    mode: &ResizeMode,
    axes: &[ResizeAxis],
) -> Outcome<Vec<Tensor>> {
    let sizes: Vec<usize> = axes.iter().map(|a| a.to).collect();
    call.room_like(x, &sizes)?;
    if axes.iter().any(|a| a.from == 0 && a.to > 0) {
        return Err(Fault::invalid(format!("{x:?} has nothing to sample")));
    }
    if mode.kind == "nearest" {
        let tables = axes.iter().map(|a| nearest_table(a, mode)).collect::<Outcome<Vec<_>>>()?;
        let fill = super::cast(&Tensor::scalar(mode.extrapolation), x.dtype())?;
        return one(take(x, &tables, Some(&fill))?);
    }
    let taps = axes.iter().map(|a| axis_taps(a, mode)).collect::<Outcome<Vec<_>>>()?;
    numeric!(x.dtype(), T => {
        let mut values: Vec<f64> = slice::<T>(x)?.iter().map(|v| v.to_f64()).collect();
        let mut current = x.dims().to_vec();
        for (axis, taps) in taps.iter().enumerate().rev() {
            if let Some(taps) = taps {
                let inner: usize = current[axis + 1..].iter().product();
                let size = current[axis];
                current[axis] = taps.len();
                call.room(onnxd_ir::DataType::Double, &current)?;
                values = mixed(&values, size, inner, taps, mode.extrapolation);
            }
        }
        one(Tensor::from_vec(sizes, values.into_iter().map(T::from_f64).collect()))
    })
}

/// Replaces an axis of `size` elements by weighted sums.
fn mixed(values: &[f64], size: usize, inner: usize, taps: &[Taps], outside: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(values.len() / size.max(1) * taps.len());
    for block in values.chunks((size * inner).max(1)) {
        for taps in taps {
            let start = out.len();
            let Some(taps) = taps else {
                out.resize(start + inner, outside);
                continue;
            };
            out.resize(start + inner, 0.0);
            for (at, weight) in taps {
                let line = &block[at * inner..(at + 1) * inner];
                out[start..].iter_mut().zip(line).for_each(|(y, x)| *y += weight * x);
            }
        }
    }
    out
}

/// The input coordinate of output coordinate `i`.
fn source(axis: &ResizeAxis, mode: &ResizeMode, i: usize) -> Outcome<f64> {
    let ResizeAxis { from, to, scale, roi } = *axis;
    let (x, n, full) = (i as f64, from as f64, scale * from as f64);
    Ok(match mode.transformation {
        "half_pixel" => (x + 0.5) / scale - 0.5,
        "asymmetric" => x / scale,
        "pytorch_half_pixel" if full <= 1.0 || to == 1 => -0.5,
        "pytorch_half_pixel" => (x + 0.5) / scale - 0.5,
        "align_corners" if full == 1.0 => 0.0,
        "align_corners" => x * (n - 1.0) / (full - 1.0),
        "half_pixel_symmetric" => {
            let offset = n / 2.0 * (1.0 - to as f64 / full);
            offset + (x + 0.5) / scale - 0.5
        }
        "tf_half_pixel_for_nn" => (x + 0.5) / scale,
        "tf_crop_and_resize" => {
            let span = (roi.1 - roi.0) * (n - 1.0);
            roi.0 * (n - 1.0) + if full == 1.0 { span / 2.0 } else { x * span / (full - 1.0) }
        }
        other => return Err(Fault::invalid(format!("coordinate transformation `{other}`"))),
    })
}

fn is_extrapolated(axis: &ResizeAxis, mode: &ResizeMode, x: f64) -> bool {
    mode.transformation == "tf_crop_and_resize" && !(0.0..=(axis.from as f64 - 1.0)).contains(&x)
}

fn clamped(x: f64, size: usize) -> usize {
    x.clamp(0.0, size as f64 - 1.0) as usize
}

fn nearest_table(axis: &ResizeAxis, mode: &ResizeMode) -> Outcome<Vec<usize>> {
    if axis.from == axis.to && axis.scale == 1.0 && axis.roi == (0.0, 1.0) {
        return Ok((0..axis.to).collect());
    }
    let pick = |i: usize| {
        let x = source(axis, mode, i)?;
        if is_extrapolated(axis, mode, x) {
            return Ok(OUTSIDE);
        }
        let low = x.floor();
        let up = match mode.nearest {
            "round_prefer_floor" => x - low > 0.5,
            "round_prefer_ceil" => x - low >= 0.5,
            "floor" => false,
            "ceil" => x > low,
            other => return Err(Fault::invalid(format!("nearest_mode `{other}`"))),
        };
        Ok(clamped(if up { low + 1.0 } else { low }, axis.from))
    };
    (0..axis.to).map(pick).collect()
}

/// Weighted neighbours of every output coordinate; `None` if the axis stays as it is.
fn axis_taps(axis: &ResizeAxis, mode: &ResizeMode) -> Outcome<Option<Vec<Taps>>> {
    if axis.from == axis.to && axis.scale == 1.0 && axis.roi == (0.0, 1.0) {
        return Ok(None);
    }
    let (radius, a) = match mode.kind {
        "linear" => (1.0, None),
        "cubic" => (2.0, Some(mode.cubic_a)),
        other => return Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    };
    let weight = |d: f64| match (d.abs(), a) {
        (d, None) => (1.0 - d).max(0.0),
        (d, Some(a)) if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
        (d, Some(a)) if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
        _ => 0.0,
    };
    // Shrinking with antialiasing widens the kernel.
    let squeeze = if mode.antialias { axis.scale.min(1.0) } else { 1.0 };
    let first = (-radius / squeeze).floor() + 1.0;
    if first.is_nan() || first < -NEIGHBOURS_MAX {
        return Err(Fault::invalid(format!("the scale {} is too small", axis.scale)));
    }
    let taps = |i: usize| -> Outcome<Taps> {
        let x = source(axis, mode, i)?;
        if is_extrapolated(axis, mode, x) {
            return Ok(None);
        }
        let (low, part) = (x.floor(), x - x.floor());
        let reach = first as i64..=-(first as i64) + 1;
        let inside = |at: f64| at >= 0.0 && at < axis.from as f64;
        let taps: Vec<(f64, f64)> = reach
            .map(|k| (low + k as f64, weight((k as f64 - part) * squeeze)))
            .filter(|(at, _)| !mode.exclude_outside || inside(*at))
            .collect();
        let sum: f64 = taps.iter().map(|t| t.1).sum();
        let whole = if mode.exclude_outside || mode.antialias { sum } else { 1.0 };
        Ok(Some(taps.iter().map(|(at, w)| (clamped(*at, axis.from), w / whole)).collect()))
    };
    Ok(Some((0..axis.to).map(taps).collect::<Outcome<_>>()?))
}
