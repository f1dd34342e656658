//! Pooling: every output element from a walk over all positions of its window.

use crate::case::{Case, FLOATS, case};
use crate::conv::Window;
use crate::dice::Dice;
use crate::math::wild;
use crate::nd::{Nd, flat, from_whole, indices, int64, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    max_pool: "MaxPool";
    whole_max_pool: "MaxPool";
    real_pool: "AveragePool", "LpPool";
    global: "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool";
    max_unpool: "MaxUnpool";
    max_roi_pool: "MaxRoiPool";
    roi_align: "RoiAlign";
}

/// A window over the spatial axes of an input, and the output it makes.
struct Pool {
    window: Window,
    ceil: bool,
    x: Vec<usize>,
    y: Vec<usize>,
    begins: Vec<i64>,
    ends: Vec<i64>,
}

impl Pool {
    /// `dilated` and `ceil` say what the version knows.
    fn random(d: &mut Dice, dilated: bool, ceil: bool) -> Option<Pool> {
        let rank = 1 + d.below(3);
        let most = [12, 7, 4][rank - 1];
        let x = [vec![d.size(2), d.size(3)], d.dims(rank, most)].concat();
        let mut window = Window::random(d, rank);
        if !dilated || d.coin() {
            window.dilations = vec![1; rank];
        }
        let ceil = ceil && d.coin();
        let mut pool = Pool { window, ceil, y: x[..2].to_vec(), x, begins: vec![], ends: vec![] };
        for i in 0..rank {
            let n = pool.x[i + 2];
            // Padding as large as the kernel would make windows of nothing but padding.
            let kernel = pool.window.kernel[i] as i64;
            if pool.window.pads[i] >= kernel || pool.window.pads[i + rank] >= kernel {
                return None;
            }
            let (mut size, begin, end) = pool.window.place(i, n, ceil)?;
            // A window that would start in the padding behind is left out.
            let last = (size as i64 - 1) * pool.window.strides[i] as i64;
            if ceil && size > 0 && last >= n as i64 + begin {
                size -= 1;
            }
            pool.y.push(size);
            pool.begins.push(begin);
            pool.ends.push(end);
        }
        Some(pool)
    }

    /// The input indices under the window of an output index, and how many positions of the padded
    /// input it covers.
    fn under(&self, o: &[usize]) -> (Vec<Vec<usize>>, usize) {
        let (mut inside, mut padded) = (vec![], 0);
        for k in indices(&self.window.kernel) {
            let place = self.window.source(&o[2..], &k, &self.begins);
            let size = |i: usize| self.x[i + 2] as i64;
            let all = |low: &dyn Fn(usize) -> i64, high: &dyn Fn(usize) -> i64| {
                (0..k.len()).all(|i| (low(i)..high(i)).contains(&place[i]))
            };
            if all(&|_| 0, &size) {
                let own: Vec<usize> = place.iter().map(|p| *p as usize).collect();
                inside.push([&o[..2], &own].concat());
            }
            padded += usize::from(all(&|i| -self.begins[i], &|i| size(i) + self.ends[i]));
        }
        (inside, padded)
    }

    /// [`Pool::under`] for all output indices, unless a window has nothing but padding.
    fn windows(&self) -> Option<Vec<(Vec<Vec<usize>>, usize)>> {
        let all = indices(&self.y).iter().map(|o| self.under(o)).collect::<Vec<_>>();
        all.iter().all(|w| !w.0.is_empty()).then_some(all)
    }

    fn case(&self, d: &mut Dice, op: &str, opset: i64) -> Case {
        let case = case(op, opset).attr("kernel_shape", &self.window.kernel);
        self.window
            .attrs(d, case, opset >= if op == "MaxPool" { 10 } else { 18 })
            .attr_if(self.ceil, "ceil_mode", true)
    }
}

/// The flat index of an element in a tensor stored row- or column-major within its channel.
fn address(x: &[usize], index: &[usize], column_major: bool) -> i64 {
    if !column_major {
        return flat(x, index) as i64;
    }
    let flip = |list: &[usize]| list[2..].iter().rev().copied().collect::<Vec<usize>>();
    let area: usize = x[2..].iter().product();
    ((index[0] * x[1] + index[1]) * area + flat(&flip(x), &flip(index))) as i64
}

fn max_pool(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = d.pick(&[22, 1, 8, 10, 11, 12]);
    let pool = Pool::random(d, opset >= 10, opset >= 10)?;
    let windows = pool.windows()?;
    let dtype = d.pick(if opset < 22 { &FLOATS[..3] } else { FLOATS });
    // Few distinct values, so that there are ties.
    let x = if d.coin() { wild(d, dtype, &pool.x) } else { d.within(dtype, &pool.x, 0.0, 0.5) };
    let xs = reals(&x);
    let column_major = opset >= 8 && d.once_in(4);
    let (mut y, mut places) = (vec![], vec![]);
    for (inside, _) in &windows {
        let values: Vec<f64> = inside.iter().map(|i| xs.at(i)).collect();
        let nan = values.iter().position(|v| v.is_nan());
        let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = values.iter().position(|v| *v == top).unwrap_or(0);
        y.push(if nan.is_some() { f64::NAN } else { top });
        places.push(address(&pool.x, &inside[nan.unwrap_or(first)], column_major));
    }
    let case = pool.case(d, op, opset).input(&x).attr_if(column_major, "storage_order", true);
    let case = case.rounded(dtype, Nd { dims: pool.y.clone(), v: y });
    Some(if opset >= 8 && d.coin() { case.same(int64(&pool.y, &places)) } else { case })
}

fn whole_max_pool(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = d.pick(&[12, 22]);
    let pool = Pool::random(d, true, true)?;
    let windows = pool.windows()?;
    let dtype = d.pick(&[DataType::Int8, DataType::Uint8]);
    let x = d.bits(dtype, &pool.x);
    let xs = whole(&x);
    let top = |w: &(Vec<Vec<usize>>, usize)| w.0.iter().map(|i| xs.at(i)).max().unwrap();
    let y = Nd { dims: pool.y.clone(), v: windows.iter().map(top).collect() };
    Some(pool.case(d, op, opset).input(&x).same(from_whole(dtype, &y)))
}

fn real_pool(op: &str, d: &mut Dice) -> Option<Case> {
    let average = op == "AveragePool";
    let opset = d.pick(if average { &[22, 7, 10, 11, 19] } else { &[22, 2, 11, 18] });
    let ceil = opset >= if average { 10 } else { 18 };
    let pool = Pool::random(d, opset >= if average { 19 } else { 18 }, ceil)?;
    let windows = pool.windows()?;
    let dtype = d.pick(if opset < 22 { &FLOATS[..3] } else { FLOATS });
    let x = d.tensor(dtype, &pool.x);
    let xs = reals(&x);
    let (padding, p) = (average && d.coin(), 1 + d.below(3) as i64);
    let (mut y, mut sums) = (vec![], vec![]);
    for (inside, padded) in &windows {
        let values = inside.iter().map(|i| xs.at(i));
        if average {
            let count = if padding { *padded } else { inside.len() } as f64;
            y.push(values.clone().sum::<f64>() / count);
            sums.push(values.map(f64::abs).sum::<f64>() / count);
        } else {
            let norm = values.map(|v| v.abs().powi(p as i32)).sum::<f64>();
            y.push(norm.powf(1.0 / p as f64));
            sums.push(norm.powf(1.0 / p as f64));
        }
    }
    let case = pool.case(d, op, opset).input(&x).attr_if(padding, "count_include_pad", true);
    let case = case.attr_if(!average && (p != 2 || d.coin()), "p", p);
    Some(case.near(dtype, Nd { dims: pool.y.clone(), v: y }, &sums))
}

fn global(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = d.below(4);
    let dims = [vec![d.size(3), d.size(3)], (0..rank).map(|_| 1 + d.below(5)).collect()].concat();
    let opset = d.pick(&[22, 2]);
    let dtype = d.pick(if opset < 22 { &FLOATS[..3] } else { FLOATS });
    let x = d.tensor(dtype, &dims);
    let xs = reals(&x);
    let p = 1 + d.below(3) as i64;
    let under = |o: &[usize]| {
        let inner = indices(&dims[2..]);
        inner.iter().map(|i| xs.at(&[&o[..2], &i[..]].concat())).collect::<Vec<f64>>()
    };
    let out = [&dims[..2], &vec![1; rank]].concat();
    let y = Nd::fill(&out, |o| {
        let values = under(o);
        match op {
            "GlobalAveragePool" => values.iter().sum::<f64>() / values.len() as f64,
            "GlobalMaxPool" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            _ => values.iter().map(|v| v.abs().powi(p as i32)).sum::<f64>().powf(1.0 / p as f64),
        }
    });
    let sums = Nd::fill(&out, |o| under(o).iter().map(|v| v.abs()).sum());
    let given = op == "GlobalLpPool" && (p != 2 || d.coin());
    Some(case(op, opset).attr_if(given, "p", p).input(&x).near(dtype, y, &sums.v))
}

fn max_unpool(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(2);
    let dims = [vec![d.size(2), d.size(2)], (0..rank).map(|_| 1 + d.below(4)).collect()].concat();
    let mut w = Window::random(d, rank);
    (w.auto_pad, w.dilations) = ("", vec![1; rank]);
    w.pads.iter_mut().for_each(|p| *p = (*p).min(1));
    let mut inferred = dims[..2].to_vec();
    for i in 0..rank {
        let full = (dims[i + 2] - 1) * w.strides[i] + w.kernel[i];
        let size = full as i64 - w.pads[i] - w.pads[i + rank];
        inferred.push(usize::try_from(size).ok()?);
    }
    let total: usize = inferred.iter().product();
    let count: usize = dims.iter().product();
    if total < count {
        return None;
    }
    // Distinct places: the order in which equal ones are written is nowhere defined.
    let mut free: Vec<usize> = (0..total).collect();
    let places: Vec<i64> =
        (0..count).map(|_| free.remove(d.noise() as usize % free.len()) as i64).collect();
    let out = d.coin().then(|| {
        let larger = inferred[2..].iter().map(|n| n + d.below(3)).collect::<Vec<_>>();
        [&inferred[..2], &larger].concat()
    });
    let dtype = d.pick(&FLOATS[..3]);
    let x = d.tensor(dtype, &dims);
    let xs = reals(&x);
    let mut y = Nd::fill(out.as_ref().unwrap_or(&inferred), |_| 0.0);
    let all = indices(&inferred);
    for (v, place) in xs.v.iter().zip(&places) {
        let at = flat(&y.dims, &all[*place as usize]);
        y.v[at] = *v;
    }
    let opset = d.pick(&[9, 11, 22]);
    let case = w.attrs(d, case(op, opset), false).attr("kernel_shape", &w.kernel);
    let shape = out.map(|o| Tensor::vector(o.iter().map(|n| *n as i64).collect()));
    let case = case.input(&x).input(&int64(&dims, &places)).maybe(shape.as_ref());
    Some(case.rounded(dtype, y))
}

fn max_roi_pool(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, channels, h, w) = (1 + d.below(2), d.size(3), 1 + d.below(8), 1 + d.below(8));
    let (count, ph, pw) = (d.size(3), 1 + d.below(4), 1 + d.below(4));
    let scale = d.pick(&[1.0, 0.5, 0.25]);
    let dtype = d.pick(&FLOATS[..3]);
    let x = d.tensor(dtype, &[batch, channels, h, w]);
    let xs = reals(&x);
    let mut rois = vec![];
    for _ in 0..count {
        let (x1, y1) = (d.below(w) as f64 / scale, d.below(h) as f64 / scale);
        let (x2, y2) = (x1 + d.below(8) as f64 / scale, y1 + d.below(8) as f64 / scale);
        rois.push([d.below(batch) as f64, x1, y1, x2, y2]);
    }
    let rois = crate::nd::from_reals(dtype, &[count, 5], rois.concat());
    let rs = reals(&rois);
    let y = Nd::fill(&[count, channels, ph, pw], |o| {
        let corner = |i: usize| (rs.at(&[o[0], i]) * scale).round();
        // Cell p of n along an axis from `low` to `high`, both included.
        let within = |at: usize, low: f64, high: f64, p: usize, n: usize| {
            let step = (high - low + 1.0).max(1.0) / n as f64;
            let begin = low + (p as f64 * step).floor();
            let end = low + ((p + 1) as f64 * step).ceil();
            (begin..end).contains(&(at as f64))
        };
        let image = rs.at(&[o[0], 0]) as usize;
        let inside = indices(&[h, w]).into_iter().filter(|i| {
            within(i[0], corner(2), corner(4), o[2], ph)
                && within(i[1], corner(1), corner(3), o[3], pw)
        });
        let values = inside.map(|i| xs.at(&[image, o[1], i[0], i[1]]));
        values.reduce(f64::max).unwrap_or(0.0)
    });
    let shape = vec![ph as i64, pw as i64];
    let case = case(op, 1).attr("pooled_shape", &shape).attr("spatial_scale", scale as f32);
    Some(case.input(&x).input(&rois).rounded(dtype, y))
}

/// The four weighted neighbours of a real position; those of positions up to one element outside
/// are at the border, and further outside there is nothing.
fn neighbours(x: &Nd, lead: [usize; 2], at: [f64; 2]) -> [f64; 4] {
    let size = [x.dims[2], x.dims[3]];
    if (0..2).any(|i| at[i] < -1.0 || at[i] > size[i] as f64) {
        return [0.0; 4];
    }
    let at = [0, 1].map(|i| at[i].clamp(0.0, size[i] as f64 - 1.0));
    let mut parts = [0.0; 4];
    for (part, corner) in parts.iter_mut().zip(indices(&[2, 2])) {
        let place = [0, 1].map(|i| at[i].floor() + corner[i] as f64);
        let weight: f64 = [0, 1].map(|i| 1.0 - (at[i] - place[i]).abs()).iter().product();
        let own = [0, 1].map(|i| (place[i] as usize).min(size[i] - 1));
        *part = weight * x.at(&[lead[0], lead[1], own[0], own[1]]);
    }
    parts
}

fn roi_align(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, channels, h, w) = (1 + d.below(2), d.size(3), 1 + d.below(8), 1 + d.below(8));
    let (count, oh, ow) = (d.size(3), 1 + d.below(4), 1 + d.below(4));
    let scale = d.pick(&[1.0, 0.5, 0.25]);
    let ratio = d.below(4);
    let opset = d.pick(&[16, 10, 22]);
    let half = opset >= 16 && d.coin();
    let max = d.coin();
    let dtype = d.pick(&FLOATS[..2]);
    let x = d.tensor(dtype, &[batch, channels, h, w]);
    let xs = reals(&x);
    let (mut rois, mut images) = (vec![], vec![]);
    for _ in 0..count {
        let (x1, y1) = (d.below(12) as f64 / 2.0, d.below(12) as f64 / 2.0);
        rois.push([x1, y1, x1 + d.below(40) as f64 / 3.0, y1 + d.below(40) as f64 / 3.0]);
        images.push(d.below(batch) as i64);
    }
    let rois = crate::nd::from_reals(dtype, &[count, 4], rois.concat());
    let rs = reals(&rois);
    let shift = if half { 0.5 } else { 0.0 };
    // Samples on the edges of the image and counts of samples flip with the last bit.
    let mut unclear = false;
    let y = Nd::fill(&[count, channels, oh, ow], |o| {
        let start = |i: usize| rs.at(&[o[0], i]) * scale - shift;
        let size = |i: usize| {
            let size = start(i + 2) - start(i);
            if half { size } else { size.max(1.0) }
        };
        let (cell_h, cell_w) = (size(1) / oh as f64, size(0) / ow as f64);
        let samples = |cell: f64| if ratio > 0 { ratio } else { cell.ceil() as usize };
        let near = |v: f64| (v - v.round()).abs() < 1e-4;
        let (ny, nx) = (samples(cell_h), samples(cell_w));
        unclear |= ratio == 0 && (near(cell_h) || near(cell_w));
        let lead = [images[o[0]] as usize, o[1]];
        let parts = indices(&[ny, nx]).into_iter().map(|s| {
            let at = |low: f64, p: usize, cell: f64, k: usize, n: usize| {
                low + (p as f64 + (k as f64 + 0.5) / n as f64) * cell
            };
            let at = [at(start(1), o[2], cell_h, s[0], ny), at(start(0), o[3], cell_w, s[1], nx)];
            unclear |= at
                .iter()
                .zip([h, w])
                .any(|(a, n)| (a + 1.0).abs() < 1e-4 || (a - n as f64).abs() < 1e-4);
            neighbours(&xs, lead, at)
        });
        let parts = parts.collect::<Vec<_>>();
        if max {
            parts.concat().into_iter().reduce(f64::max).unwrap_or(0.0)
        } else {
            parts.concat().iter().sum::<f64>() / (parts.len() as f64).max(1.0)
        }
    });
    if unclear {
        return None;
    }
    let sums = vec![8.0; y.v.len()];
    let mode = if half { "half_pixel" } else { "output_half_pixel" };
    let case = case(op, opset)
        .attr("output_height", oh as i64)
        .attr("output_width", ow as i64)
        .attr_if(ratio > 0 || d.coin(), "sampling_ratio", ratio as i64)
        .attr("spatial_scale", scale as f32)
        .attr_if(max || d.coin(), "mode", if max { "max" } else { "avg" })
        .attr_if(opset >= 16 && (!half || d.coin()), "coordinate_transformation_mode", mode);
    Some(case.input(&x).input(&rois).input(&int64(&[count], &images)).near(dtype, y, &sums))
}
