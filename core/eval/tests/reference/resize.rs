//! Resampling: every output element as the sum over all input elements of value times weight.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{Nd, indices, reals};
use crate::shape::list;
use onnxd_ir::{DataType, Tensor};

properties! {
    resize: "Resize";
    upsample: "Upsample";
    grid_sample: "GridSample";
    affine_grid: "AffineGrid";
}

use DataType::*;

/// What one axis is resampled to and how.
#[derive(Clone)]
struct ResizeAxis {
    n: usize,
    out: usize,
    scale: f64,
    roi: (f64, f64),
}

/// How Resize is to resample.
struct ResizeMode {
    kind: &'static str,
    nearest: &'static str,
    transformation: &'static str,
    a: f64,
    exclude: bool,
    antialias: bool,
}

/// The input coordinate of an output coordinate, as the standard's table has it.
fn original(x: f64, a: &ResizeAxis, transformation: &str) -> f64 {
    let (n, resized) = (a.n as f64, a.n as f64 * a.scale);
    match transformation {
        "half_pixel" => (x + 0.5) / a.scale - 0.5,
        "half_pixel_symmetric" => {
            let adjustment = a.out as f64 / resized;
            n / 2.0 * (1.0 - adjustment) + (x + 0.5) / a.scale - 0.5
        }
        "pytorch_half_pixel" if a.out > 1 => (x + 0.5) / a.scale - 0.5,
        "pytorch_half_pixel" => -0.5,
        "align_corners" if resized == 1.0 => 0.0,
        "align_corners" => x * (n - 1.0) / (resized - 1.0),
        "asymmetric" => x / a.scale,
        _ if a.out > 1 => {
            a.roi.0 * (n - 1.0) + x * (a.roi.1 - a.roi.0) * (n - 1.0) / (resized - 1.0)
        }
        _ => 0.5 * (a.roi.0 + a.roi.1) * (n - 1.0),
    }
}

/// The weight of a neighbour at a distance.
fn kernel(d: f64, mode: &ResizeMode) -> f64 {
    let (d, a) = (d.abs(), mode.a);
    match mode.kind {
        "linear" if d < 1.0 => 1.0 - d,
        "cubic" if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
        "cubic" if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
        _ => 0.0,
    }
}

/// Weights of all input coordinates for output coordinate `o`; none where the place lies outside of
/// the region to be cropped. Also whether the choice hangs on the last bit.
fn weights(o: usize, axis: &ResizeAxis, mode: &ResizeMode) -> (Option<Vec<f64>>, bool) {
    let n = axis.n as i64;
    let mut all = vec![0.0; axis.n];
    if axis.out == axis.n && axis.scale == 1.0 && axis.roi == (0.0, 1.0) {
        all[o] = 1.0;
        return (Some(all), false);
    }
    let x = original(o as f64, axis, mode.transformation);
    let near = |v: f64| (v - v.round()).abs() < 1e-4;
    let outside = x < 0.0 || x > (n - 1) as f64;
    let crop = mode.transformation == "tf_crop_and_resize";
    let edge = crop && (x.abs() < 1e-4 || (x - (n - 1) as f64).abs() < 1e-4);
    if crop && outside {
        return (None, edge);
    }
    if mode.kind == "nearest" {
        let low = x.floor();
        let up = match mode.nearest {
            "round_prefer_floor" => x - low > 0.5,
            "round_prefer_ceil" => x - low >= 0.5,
            "floor" => false,
            _ => x > low,
        };
        let unclear = match mode.nearest {
            "floor" | "ceil" => near(x) && x != x.round(),
            _ => near(x - 0.5) && x - 0.5 != (x - 0.5).round(),
        };
        let at = (low as i64 + i64::from(up)).clamp(0, n - 1);
        all[at as usize] = 1.0;
        return (Some(all), unclear || edge);
    }
    // Shrinking with antialiasing widens the kernel.
    let squeeze = if mode.antialias { axis.scale.min(1.0) } else { 1.0 };
    let reach = (2.0 / squeeze).ceil() as i64 + 1;
    let mut sum = 0.0;
    for k in x.floor() as i64 - reach..=x.floor() as i64 + reach {
        let weight = kernel((k as f64 - x) * squeeze, mode);
        if mode.exclude && !(0..n).contains(&k) {
            continue;
        }
        all[k.clamp(0, n - 1) as usize] += weight;
        sum += weight;
    }
    if mode.exclude || mode.antialias {
        all.iter_mut().for_each(|w| *w /= sum);
    }
    (Some(all), edge)
}

/// Sum of the weighted elements; the extrapolation value where an axis has no weights.
fn resampled(x: &Nd, tables: &[Vec<Option<Vec<f64>>>], o: &[usize], outside: f64) -> (f64, f64) {
    let own: Option<Vec<&Vec<f64>>> = tables.iter().zip(o).map(|(t, i)| t[*i].as_ref()).collect();
    let Some(own) = own else { return (outside, outside.abs()) };
    let (mut sum, mut size) = (0.0, 0.0);
    for i in indices(&x.dims) {
        let weight: f64 = i.iter().zip(&own).map(|(k, w)| w[*k]).product();
        if weight != 0.0 {
            sum += weight * x.at(&i);
            size += (weight * x.at(&i)).abs();
        }
    }
    (sum, size)
}

/// The case's output; `None` where a place lies too near to a boundary to tell.
fn with_output(
    case: Case,
    x: &Tensor,
    axes: &[ResizeAxis],
    mode: &ResizeMode,
    outside: f64,
) -> Option<Case> {
    let mut tables = vec![];
    for axis in axes {
        let all: Vec<_> = (0..axis.out).map(|o| weights(o, axis, mode)).collect();
        if all.iter().any(|w| w.1) {
            return None;
        }
        tables.push(all.into_iter().map(|w| w.0).collect::<Vec<_>>());
    }
    let dims: Vec<usize> = axes.iter().map(|a| a.out).collect();
    let xs = reals(x);
    let (mut y, mut sums) = (vec![], vec![]);
    for o in indices(&dims) {
        let (value, size) = resampled(&xs, &tables, &o, outside);
        y.push(value);
        sums.push(size + 1e-2);
    }
    let y = Nd { dims, v: y };
    Some(if mode.kind == "nearest" {
        case.rounded(x.dtype(), y)
    } else {
        case.near(x.dtype(), y, &sums)
    })
}

/// Axes, and the scales or sizes that say what becomes of some of them.
struct Targets {
    axes: Vec<ResizeAxis>,
    scales: Option<Vec<f32>>,
    sizes: Option<Vec<i64>>,
    policy: &'static str,
}

fn targets(d: &mut Dice, dims: &[usize], named: &[usize], opset: i64) -> Targets {
    let still = |n: &usize| ResizeAxis { n: *n, out: *n, scale: 1.0, roi: (0.0, 1.0) };
    let mut axes: Vec<ResizeAxis> = dims.iter().map(still).collect();
    if d.coin() {
        let all = [1.0f32, 2.0, 0.5, 1.5, 0.75, 2.5, 3.0, 0.6];
        let scales: Vec<f32> = named.iter().map(|_| d.pick(&all)).collect();
        for (a, s) in named.iter().zip(&scales) {
            let scale = f64::from(*s);
            axes[*a].scale = scale;
            axes[*a].out = (dims[*a] as f64 * scale).floor() as usize;
        }
        return Targets { axes, scales: Some(scales), sizes: None, policy: "stretch" };
    }
    let policies = ["stretch", "not_larger", "not_smaller"];
    let policy = if opset >= 18 && !named.is_empty() { d.pick(&policies) } else { "stretch" };
    let sizes: Vec<usize> = named.iter().map(|_| 1 + d.below(7)).collect();
    let ratio = |i: usize| sizes[i] as f64 / dims[named[i]] as f64;
    let ratios = (0..named.len()).map(ratio);
    let common = if policy == "not_larger" {
        ratios.fold(f64::INFINITY, f64::min)
    } else {
        ratios.fold(0.0, f64::max)
    };
    for (i, a) in named.iter().enumerate() {
        (axes[*a].scale, axes[*a].out) = match policy {
            "stretch" => (ratio(i), sizes[i]),
            _ => (common, (common * dims[*a] as f64).round() as usize),
        };
    }
    let sizes = Some(sizes.iter().map(|n| *n as i64).collect());
    Targets { axes, scales: None, sizes, policy }
}

/// Where sizes round away what the scales say, several definitions differ.
fn is_odd(a: &ResizeAxis, transformation: &str) -> bool {
    let exact = a.n as f64 * a.scale;
    let by_ends = matches!(transformation, "align_corners" | "tf_crop_and_resize");
    let single = exact <= 1.0 || a.out == 1;
    a.out == 0
        || (by_ends && exact != exact.round())
        || (single && (a.out != 1 || exact != 1.0) && transformation != "half_pixel")
}

fn random_mode(d: &mut Dice, opset: i64) -> ResizeMode {
    let mut transformations = vec![
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize",
    ];
    if opset >= 19 {
        transformations.push("half_pixel_symmetric");
    }
    let kind = d.pick(&["nearest", "linear", "cubic"]);
    ResizeMode {
        kind,
        nearest: d.pick(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
        transformation: d.pick(&transformations),
        a: if kind == "cubic" { d.pick(&[-0.75, -0.5]) } else { -0.75 },
        exclude: kind == "cubic" && d.coin(),
        antialias: opset >= 18 && kind != "nearest" && d.coin(),
    }
}

fn resize(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(5)).collect();
    let opset = d.pick(&[19, 11, 13, 18]);
    let some = opset >= 18 && d.coin();
    let (named, spelt) = if some { d.axes(rank) } else { ((0..rank).collect(), vec![]) };
    let Targets { mut axes, scales, sizes, policy } = targets(d, &dims, &named, opset);
    let mode = random_mode(d, opset);
    let crop = mode.transformation == "tf_crop_and_resize";
    let mut roi = vec![0f32; 2 * named.len()];
    for (i, a) in named.iter().enumerate().filter(|_| crop) {
        let (low, high) = (d.pick(&[0.0f32, 0.25, -0.25]), d.pick(&[1.0f32, 0.75, 1.25]));
        (roi[i], roi[i + named.len()]) = (low, high);
        axes[*a].roi = (f64::from(low), f64::from(high));
    }
    if named.is_empty() || axes.iter().any(|a| is_odd(a, mode.transformation)) {
        return None;
    }
    let dtype = match mode.kind {
        "nearest" => d.pick(&[Float, Int32, Uint8, Float16, Int64]),
        _ => d.pick(&[Float, Double, Float16]),
    };
    let x = d.tensor(dtype, &dims);
    let outside = if crop && dtype.is_float() && d.coin() { 1.5f32 } else { 0.0 };
    let roi = (crop || opset < 13 || d.coin()).then(|| Tensor::vector(roi));
    let scales = scales.or_else(|| (opset < 13).then(Vec::new)).map(Tensor::vector);
    let sizes = sizes.map(Tensor::vector);
    let case = case(op, opset)
        .attr_if(mode.kind != "nearest" || d.coin(), "mode", mode.kind)
        .attr("nearest_mode", mode.nearest)
        .attr("coordinate_transformation_mode", mode.transformation)
        .attr_if(mode.a != -0.75, "cubic_coeff_a", mode.a as f32)
        .attr_if(mode.exclude, "exclude_outside", true)
        .attr_if(mode.antialias, "antialias", true)
        .attr_if(policy != "stretch", "keep_aspect_ratio_policy", policy)
        .attr_if(outside != 0.0, "extrapolation_value", outside)
        .attr_if(some, "axes", &spelt);
    let case = case.input(&x).maybe(roi.as_ref()).maybe(scales.as_ref()).maybe(sizes.as_ref());
    with_output(case, &x, &axes, &mode, f64::from(outside))
}

fn upsample(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let opset = d.pick(&[9, 7]);
    let scales: Vec<f32> = dims.iter().map(|_| d.pick(&[1.0f32, 2.0, 3.0, 1.5])).collect();
    let axis = |(n, s): (&usize, &f32)| {
        let scale = f64::from(*s);
        ResizeAxis { n: *n, out: (*n as f64 * scale).floor() as usize, scale, roi: (0.0, 1.0) }
    };
    let axes: Vec<ResizeAxis> = dims.iter().zip(&scales).map(axis).collect();
    let kind = d.pick(&["nearest", "linear"]);
    let mode = ResizeMode {
        kind,
        nearest: "floor",
        transformation: "asymmetric",
        a: 0.0,
        exclude: false,
        antialias: false,
    };
    let dtype = d.pick(&[Float, Double]);
    let x = d.tensor(dtype, &dims);
    let case = case(op, opset).attr_if(kind != "nearest" || d.coin(), "mode", kind).input(&x);
    let case = match opset {
        7 => case.attr("scales", &scales),
        _ => case.input(&Tensor::vector(scales)),
    };
    with_output(case, &x, &axes, &mode, 0.0)
}

/// `v` thrown back at both borders until it lies between them.
fn reflected(mut v: f64, low: f64, high: f64) -> f64 {
    if low >= high {
        return 0.0;
    }
    while v < low || v > high {
        v = if v < low { 2.0 * low - v } else { 2.0 * high - v };
    }
    v
}

/// The sum of weighted neighbours around a place.
fn sample(
    x: &Nd,
    lead: &[usize],
    at: &[f64],
    kind: &str,
    settle: &dyn Fn(usize, f64) -> f64,
) -> f64 {
    let rank = at.len();
    let mode = ResizeMode {
        kind: if kind == "linear" { "linear" } else { "cubic" },
        nearest: "",
        transformation: "",
        a: -0.75,
        exclude: false,
        antialias: false,
    };
    if kind == "nearest" {
        let place: Vec<i64> =
            at.iter().enumerate().map(|(a, v)| settle(a, v.round_ties_even()) as i64).collect();
        let lead: Vec<i64> = lead.iter().map(|i| *i as i64).collect();
        return x.get(&[lead, place].concat()).unwrap_or(0.0);
    }
    let mut sum = 0.0;
    for corner in indices(&vec![6; rank]) {
        let place: Vec<f64> = (0..rank).map(|a| at[a].floor() - 2.0 + corner[a] as f64).collect();
        let weight: f64 = (0..rank).map(|a| kernel(place[a] - at[a], &mode)).product();
        let settled = (0..rank).map(|a| settle(a, place[a]) as i64);
        let index: Vec<i64> = lead.iter().map(|i| *i as i64).chain(settled).collect();
        sum += weight * x.get(&index).unwrap_or(0.0);
    }
    sum
}

fn grid_sample(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = d.pick(&[20, 16, 22]);
    let rank = if opset >= 20 { 1 + d.below(3) } else { 2 };
    let spatial: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let most = if rank == 3 { 2 } else { 4 };
    let places = d.dims(rank, most);
    let (batch, channels) = (d.size(2), d.size(2));
    let kind =
        d.pick(if rank < 3 { &["linear", "nearest", "cubic"] } else { &["linear", "nearest"] });
    let padding = d.pick(&["zeros", "border", "reflection"]);
    let corners = d.coin();
    let dtype = d.pick(&[Float, Double]);
    let x = d.tensor(dtype, &[&[batch, channels], &spatial[..]].concat());
    // Odd fractions, so that no place lies on an edge; beyond the image only for what agrees there.
    let wide = kind != "cubic" || padding == "zeros";
    let range = if wide { 1.5 } else { 0.7 };
    let dims = [&[batch], &places[..], &[rank]].concat();
    let count: usize = dims.iter().product();
    let v =
        (0..count).map(|_| range * ((d.noise() % 2003) as f64 / 1001.0 - 1.0) + 0.000_37).collect();
    let grid = crate::nd::from_reals(dtype, &dims, v);
    let (xs, gs) = (reals(&x), reals(&grid));
    let real = |a: usize, g: f64| {
        let n = spatial[a] as f64;
        if corners { (g + 1.0) / 2.0 * (n - 1.0) } else { ((g + 1.0) * n - 1.0) / 2.0 }
    };
    let settle = |a: usize, v: f64| {
        let n = spatial[a] as f64;
        match padding {
            "zeros" => v,
            "border" => v.clamp(0.0, n - 1.0),
            _ if corners => reflected(v, 0.0, n - 1.0),
            _ => reflected(v, -0.5, n - 0.5).clamp(0.0, n - 1.0),
        }
    };
    let mut unclear = false;
    let y = Nd::fill(&[&[batch, channels], &places[..]].concat(), |o| {
        let at: Vec<f64> = (0..rank)
            .map(|a| {
                // The grid's coordinates count from the innermost axis.
                let index = [&[o[0]], &o[2..], &[rank - 1 - a]].concat();
                real(a, gs.at(&index))
            })
            .collect();
        unclear |=
            at.iter().any(|v| (v - v.floor() - 0.5).abs() < 1e-3 || (v - v.round()).abs() < 1e-3);
        if kind == "linear" && padding != "zeros" {
            let settled: Vec<f64> = at.iter().enumerate().map(|(a, v)| settle(a, *v)).collect();
            let inner = |a: usize, v: f64| v.clamp(0.0, spatial[a] as f64 - 1.0);
            return sample(&xs, &o[..2], &settled, kind, &inner);
        }
        sample(&xs, &o[..2], &at, kind, &settle)
    });
    if unclear && kind == "nearest" {
        return None;
    }
    let word = match (kind, opset) {
        ("linear", 16) => "bilinear",
        ("cubic", 16) => "bicubic",
        _ => kind,
    };
    let case = case(op, opset)
        .attr_if(kind != "linear" || d.coin(), "mode", word)
        .attr_if(padding != "zeros" || d.coin(), "padding_mode", padding)
        .attr_if(corners || d.coin(), "align_corners", corners);
    let sums = vec![40.0; y.v.len()];
    Some(case.input(&x).input(&grid).near(dtype, y, &sums))
}

fn affine_grid(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(2);
    let size: Vec<usize> = (0..rank + 2).map(|_| 1 + d.below(4)).collect();
    let corners = d.coin();
    let dtype = d.pick(&[Float, Double, Float16]);
    let theta = d.tensor(dtype, &[size[0], rank, rank + 1]);
    let ts = reals(&theta);
    let place = |i: usize, n: usize| match (corners, n) {
        (true, 1) => 0.0,
        (true, _) => -1.0 + 2.0 * i as f64 / (n - 1) as f64,
        _ => -1.0 + (2 * i + 1) as f64 / n as f64,
    };
    let dims = [&size[..1], &size[2..], &[rank]].concat();
    let y = Nd::fill(&dims, |o| {
        let (own, row) = (&o[1..=rank], o[rank + 1]);
        // The map's coordinates count from the innermost axis.
        let at = |k: usize| match k {
            k if k == rank => 1.0,
            k => place(own[rank - 1 - k], size[2 + rank - 1 - k]),
        };
        (0..=rank).map(|k| ts.at(&[o[0], row, k]) * at(k)).sum()
    });
    let sums = vec![16.0; y.v.len()];
    let case = case(op, 20).attr_if(corners || d.coin(), "align_corners", corners);
    Some(case.input(&theta).input(&list(&size)).near(dtype, y, &sums))
}
