//! Convolutions as nested loops over output and kernel positions.

use crate::case::{Case, FLOATS, case};
use crate::dice::Dice;
use crate::nd::{Nd, from_whole, indices, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    conv: "Conv";
    conv_integer: "ConvInteger";
    conv_transpose: "ConvTranspose";
    deform_conv: "DeformConv";
    col2im: "Col2Im";
}

/// A window that slides over spatial axes.
#[derive(Clone, Debug)]
pub struct Window {
    pub kernel: Vec<usize>,
    pub strides: Vec<usize>,
    pub dilations: Vec<usize>,
    /// Begins, then ends.
    pub pads: Vec<i64>,
    pub auto_pad: &'static str,
}

impl Window {
    pub fn random(d: &mut Dice, spatial: usize) -> Window {
        let kernel = (0..spatial).map(|_| 1 + d.below(3)).collect();
        let strides = (0..spatial).map(|_| 1 + d.below(3)).collect();
        let dilations = (0..spatial).map(|_| 1 + d.below(3)).collect();
        let auto_pad = d.pick(&["NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"]);
        let explicit = matches!(auto_pad, "NOTSET" | "");
        let pads = (0..2 * spatial).map(|_| if explicit { d.int(0, 2) } else { 0 }).collect();
        Window { kernel, strides, dilations, pads, auto_pad }
    }

    /// The attributes, those with default values left out at times; `dilated` says whether the
    /// operator has dilations.
    pub fn attrs(&self, d: &mut Dice, case: Case, dilated: bool) -> Case {
        let ones = |list: &[usize]| list.iter().all(|x| *x == 1);
        let no_pads = self.pads.iter().all(|p| *p == 0);
        let (strides, dilations) = (&self.strides, &self.dilations);
        case.attr_if(!ones(strides) || d.coin(), "strides", strides)
            .attr_if(dilated && (!ones(dilations) || d.coin()), "dilations", dilations)
            .attr_if(!no_pads, "pads", &self.pads)
            .attr_if(!self.auto_pad.is_empty(), "auto_pad", self.auto_pad)
    }

    /// Extent of the dilated kernel.
    pub fn extent(&self, i: usize) -> i64 {
        ((self.kernel[i] - 1) * self.dilations[i] + 1) as i64
    }

    /// Output size and padding at the begin and end of axis `i` for inputs of size `n`; `None` if
    /// the kernel does not fit.
    pub fn place(&self, i: usize, n: usize, ceil: bool) -> Option<(usize, i64, i64)> {
        let (n, stride, extent) = (n as i64, self.strides[i] as i64, self.extent(i));
        let up = |a: i64| {
            if ceil { a.div_euclid(stride) + i64::from(a % stride != 0) } else { a / stride }
        };
        match self.auto_pad {
            "SAME_UPPER" | "SAME_LOWER" => {
                let out = n.div_euclid(stride) + i64::from(n % stride != 0);
                let total = ((out - 1) * stride + extent - n).max(0);
                let begin =
                    if self.auto_pad == "SAME_UPPER" { total / 2 } else { total - total / 2 };
                (n > 0).then_some((out as usize, begin, total - begin))
            }
            _ => {
                let (begin, end) = (self.pads[i], self.pads[i + self.kernel.len()]);
                let room = n + begin + end - extent;
                (room >= 0).then(|| (up(room) as usize + 1, begin, end))
            }
        }
    }

    /// [`Window::place`] of all axes: output sizes and begins.
    pub fn sizes(&self, x: &[usize]) -> Option<(Vec<usize>, Vec<i64>)> {
        let places = (0..x.len()).map(|i| self.place(i, x[i], false));
        let places = places.collect::<Option<Vec<_>>>()?;
        Some((places.iter().map(|p| p.0).collect(), places.iter().map(|p| p.1).collect()))
    }

    /// Where kernel element `k` of output position `o` lies in the input.
    pub fn source(&self, o: &[usize], k: &[usize], begins: &[i64]) -> Vec<i64> {
        let at = |i: usize| o[i] * self.strides[i] + k[i] * self.dilations[i];
        (0..o.len()).map(|i| at(i) as i64 - begins[i]).collect()
    }
}

/// Sizes of a convolution: batch, group, channels of a group in and out, spatial.
pub struct ConvSizes {
    pub batch: usize,
    pub group: usize,
    pub ins: usize,
    pub outs: usize,
    pub spatial: Vec<usize>,
}

impl ConvSizes {
    pub fn random(d: &mut Dice) -> ConvSizes {
        let rank = 1 + d.below(3);
        let batch = d.size(2);
        // Depthwise, plain and grouped.
        let (group, ins, outs) = match d.below(4) {
            0 => (1, 1 + d.below(3), 1 + d.below(4)),
            1 => (1 + d.below(4), 1, 1 + d.below(2)),
            2 => (1, 1 + d.below(9), 1 + d.below(9)),
            _ => (1 + d.below(3), 1 + d.below(3), 1 + d.below(3)),
        };
        let most = [12, 7, 4][rank - 1];
        ConvSizes { batch, group, ins, outs, spatial: d.dims(rank, most) }
    }

    pub fn x(&self) -> Vec<usize> {
        [&[self.batch, self.group * self.ins], &self.spatial[..]].concat()
    }

    pub fn w(&self, kernel: &[usize]) -> Vec<usize> {
        [&[self.group * self.outs, self.ins], kernel].concat()
    }
}

/// Visits every product of a convolution: flat output index, input index (if inside), weight index.
pub fn for_each_product(
    s: &ConvSizes,
    w: &Window,
    out: &[usize],
    begins: &[i64],
    mut f: impl FnMut(&[usize], Option<Vec<i64>>, Vec<usize>),
) {
    for o in indices(&[&[s.batch, s.group * s.outs], out].concat()) {
        let first = o[1] / s.outs * s.ins;
        for k in indices(&[&[s.ins], &w.kernel[..]].concat()) {
            let place = w.source(&o[2..], &k[1..], begins);
            let inside = place.iter().zip(&s.spatial).all(|(p, n)| (0..*n as i64).contains(p));
            let x = [&[o[0] as i64, (first + k[0]) as i64], &place[..]].concat();
            f(&o, inside.then_some(x), [&[o[1]], &k[..]].concat());
        }
    }
}

fn conv(op: &str, d: &mut Dice) -> Option<Case> {
    let s = ConvSizes::random(d);
    let w = Window::random(d, s.spatial.len());
    let (out, begins) = w.sizes(&s.spatial)?;
    let dtype = d.pick(FLOATS);
    let x = d.tensor(dtype, &s.x());
    let weights = d.tensor(dtype, &s.w(&w.kernel));
    let bias = d.coin().then(|| d.tensor(dtype, &[s.group * s.outs]));
    let (xs, ws, bs) = (reals(&x), reals(&weights), bias.as_ref().map(reals));
    let dims = [&[s.batch, s.group * s.outs], &out[..]].concat();
    let mut y = Nd::fill(&dims, |o| bs.as_ref().map_or(0.0, |b| b.v[o[1]]));
    let mut sums: Vec<f64> = y.v.iter().map(|v| v.abs()).collect();
    for_each_product(&s, &w, &out, &begins, |o, x, k| {
        let product = x.map_or(0.0, |x| xs.get(&x).unwrap()) * ws.at(&k);
        let o = crate::nd::flat(&dims, o);
        y.v[o] += product;
        sums[o] += product.abs();
    });
    let opset = d.pick(&[1, 11, 22]);
    let case = w.attrs(d, case(op, opset), true).attr_if(d.coin(), "kernel_shape", &w.kernel);
    let case = case.attr_if(s.group > 1 || d.coin(), "group", s.group as i64);
    Some(case.input(&x).input(&weights).maybe(bias.as_ref()).near(dtype, y, &sums))
}

fn conv_integer(op: &str, d: &mut Dice) -> Option<Case> {
    let s = ConvSizes::random(d);
    let w = Window::random(d, s.spatial.len());
    let (out, begins) = w.sizes(&s.spatial)?;
    let types = [DataType::Uint8, DataType::Int8];
    let (tx, tw) = (d.pick(&types), d.pick(&types));
    let x = d.bits(tx, &s.x());
    let weights = d.bits(tw, &s.w(&w.kernel));
    let zx = d.coin().then(|| d.bits(tx, &[]));
    let per_channel: &[usize] = if d.coin() { &[s.group * s.outs] } else { &[] };
    let zw = (zx.is_some() && d.coin()).then(|| d.bits(tw, per_channel));
    let (xs, ws) = (whole(&x), whole(&weights));
    let zero_x = zx.as_ref().map_or(0, |z| whole(z).v[0]);
    let zero_w = zw.as_ref().map(whole);
    let dims = [&[s.batch, s.group * s.outs], &out[..]].concat();
    let mut y = Nd::fill(&dims, |_| 0i128);
    for_each_product(&s, &w, &out, &begins, |o, x, k| {
        let zero = zero_w.as_ref().map_or(0, |z| z.v[if z.v.len() > 1 { o[1] } else { 0 }]);
        let x = x.map_or(0, |x| xs.get(&x).unwrap() - zero_x);
        y.v[crate::nd::flat(&dims, o)] += x * (ws.at(&k) - zero);
    });
    let case = w.attrs(d, case(op, 10), true).attr_if(d.coin(), "kernel_shape", &w.kernel);
    let case = case.attr_if(s.group > 1 || d.coin(), "group", s.group as i64);
    let case = case.input(&x).input(&weights).maybe(zx.as_ref()).maybe(zw.as_ref());
    Some(case.same(from_whole(DataType::Int32, &y)))
}

/// Output sizes and begins of a transpose convolution, as the standard computes them from
/// `output_padding` and, if given, `output_shape`.
fn transposed(
    w: &Window,
    spatial: &[usize],
    extra: &[usize],
    shape: Option<&[usize]>,
) -> Option<(Vec<usize>, Vec<i64>)> {
    let rank = spatial.len();
    let (mut sizes, mut begins) = (vec![], vec![]);
    for i in 0..rank {
        let (n, stride) = (spatial[i] as i64, w.strides[i] as i64);
        let full = stride * (n - 1) + extra[i] as i64 + w.extent(i);
        let same = w.auto_pad.starts_with("SAME");
        let wanted = match shape {
            Some(shape) => Some(shape[i] as i64),
            None if same => Some(n * stride),
            None => None,
        };
        let (size, begin) = match wanted {
            Some(size) => {
                let total = full - size;
                // The standard does not say where output that nothing reaches lies.
                if total < 0 {
                    return None;
                }
                let upper = w.auto_pad == "SAME_UPPER";
                (size, if upper { total / 2 } else { total - total / 2 })
            }
            None => (full - w.pads[i] - w.pads[i + rank], w.pads[i]),
        };
        if size < 1 || n < 1 {
            return None;
        }
        sizes.push(size as usize);
        begins.push(begin);
    }
    Some((sizes, begins))
}

fn conv_transpose(op: &str, d: &mut Dice) -> Option<Case> {
    let s = ConvSizes::random(d);
    let rank = s.spatial.len();
    let w = Window::random(d, rank);
    let padded = d.coin();
    let extra: Vec<usize> = (0..rank)
        .map(|i| if padded { d.below(w.strides[i].max(w.dilations[i])) } else { 0 })
        .collect();
    let shape = d.once_in(3).then(|| {
        let most = |i: usize| w.strides[i] * s.spatial[i] + 2;
        (0..rank).map(|i| 1 + d.below(most(i))).collect::<Vec<_>>()
    });
    let (out, begins) = transposed(&w, &s.spatial, &extra, shape.as_deref())?;
    let dtype = d.pick(FLOATS);
    let x = d.tensor(dtype, &s.x());
    let weights = d.tensor(dtype, &[&[s.group * s.ins, s.outs], &w.kernel[..]].concat());
    let bias = d.coin().then(|| d.tensor(dtype, &[s.group * s.outs]));
    let (xs, ws, bs) = (reals(&x), reals(&weights), bias.as_ref().map(reals));
    let dims = [&[s.batch, s.group * s.outs], &out[..]].concat();
    let mut y = Nd::fill(&dims, |o| bs.as_ref().map_or(0.0, |b| b.v[o[1]]));
    let mut sums: Vec<f64> = y.v.iter().map(|v| v.abs()).collect();
    // Every input element adds its multiple of the kernel to the output.
    for i in indices(&s.x()) {
        for k in indices(&[&[s.outs], &w.kernel[..]].concat()) {
            let to = w.source(&i[2..], &k[1..], &begins);
            if to.iter().zip(&out).all(|(p, n)| (0..*n as i64).contains(p)) {
                let channel = i[1] / s.ins * s.outs + k[0];
                let to: Vec<usize> = to.iter().map(|p| *p as usize).collect();
                let o = crate::nd::flat(&dims, &[&[i[0], channel], &to[..]].concat());
                let product = xs.at(&i) * ws.at(&[&[i[1]], &k[..]].concat());
                y.v[o] += product;
                sums[o] += product.abs();
            }
        }
    }
    let opset = d.pick(&[1, 11, 22]);
    let mut case = w.attrs(d, case(op, opset), true).attr_if(d.coin(), "kernel_shape", &w.kernel);
    case = case.attr_if(s.group > 1 || d.coin(), "group", s.group as i64);
    case = case.attr_if(padded, "output_padding", &extra);
    if let Some(shape) = &shape {
        case = case.attr("output_shape", shape);
    }
    Some(case.input(&x).input(&weights).maybe(bias.as_ref()).near(dtype, y, &sums))
}

/// The value at a real position: bilinear, zero outside.
fn bilinear(x: &Nd, lead: [usize; 2], at: [f64; 2]) -> f64 {
    let mut sum = 0.0;
    for corner in indices(&[2, 2]) {
        let place = [0, 1].map(|i| at[i].floor() + corner[i] as f64);
        let weight: f64 = [0, 1].map(|i| 1.0 - (at[i] - place[i]).abs()).iter().product();
        let index = [lead[0] as i64, lead[1] as i64, place[0] as i64, place[1] as i64];
        sum += weight * x.get(&index).unwrap_or(0.0);
    }
    sum
}

fn deform_conv(op: &str, d: &mut Dice) -> Option<Case> {
    let mut s = ConvSizes::random(d);
    s.spatial = d.dims(2, 6);
    let mut w = Window::random(d, 2);
    w.auto_pad = "";
    let (out, begins) = w.sizes(&s.spatial)?;
    let dtype = d.pick(&[DataType::Float, DataType::Double]);
    let channels = s.group * s.ins;
    let divisors: Vec<usize> = (1..=channels).filter(|n| channels.is_multiple_of(*n)).collect();
    let parts = d.pick(&divisors);
    let taps: usize = w.kernel.iter().product();
    let x = d.tensor(dtype, &s.x());
    let weights = d.tensor(dtype, &s.w(&w.kernel));
    let offset = d.tensor(dtype, &[&[s.batch, parts * taps * 2], &out[..]].concat());
    let bias = d.coin().then(|| d.tensor(dtype, &[s.group * s.outs]));
    let mask = d.coin().then(|| d.tensor(dtype, &[&[s.batch, parts * taps], &out[..]].concat()));
    let (xs, ws, os) = (reals(&x), reals(&weights), reals(&offset));
    let (bs, ms) = (bias.as_ref().map(reals), mask.as_ref().map(reals));
    let dims = [&[s.batch, s.group * s.outs], &out[..]].concat();
    let mut y = Nd::fill(&dims, |o| bs.as_ref().map_or(0.0, |b| b.v[o[1]]));
    let mut sums: Vec<f64> = y.v.iter().map(|v| v.abs()).collect();
    for o in indices(&dims) {
        for k in indices(&[s.ins, w.kernel[0], w.kernel[1]]) {
            let channel = o[1] / s.outs * s.ins + k[0];
            let part = channel / (channels / parts);
            let tap = part * taps + k[1] * w.kernel[1] + k[2];
            let place = w.source(&o[2..], &k[1..], &begins);
            let at = [0, 1].map(|i| place[i] as f64 + os.at(&[o[0], 2 * tap + i, o[2], o[3]]));
            let mask = ms.as_ref().map_or(1.0, |m| m.at(&[o[0], tap, o[2], o[3]]));
            let weight = ws.at(&[o[1], k[0], k[1], k[2]]);
            let product = weight * mask * bilinear(&xs, [o[0], channel], at);
            let flat = crate::nd::flat(&dims, &o);
            y.v[flat] += product;
            sums[flat] += product.abs() + 1.0;
        }
    }
    let opset = d.pick(&[19, 22]);
    let case = w.attrs(d, case(op, opset), true).attr_if(d.coin(), "kernel_shape", &w.kernel);
    let case = case.attr("group", s.group as i64).attr("offset_group", parts as i64);
    let case = case.input(&x).input(&weights).input(&offset).maybe(bias.as_ref());
    Some(case.maybe(mask.as_ref()).near(dtype, y, &sums))
}

fn col2im(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let mut w = Window::random(d, rank);
    w.auto_pad = "";
    let image = d.dims(rank, 6);
    let (blocks, begins) = w.sizes(&image)?;
    let (batch, channels) = (d.size(2), d.size(3));
    let dtype = d.pick(FLOATS);
    let taps: usize = w.kernel.iter().product();
    let x = d.tensor(dtype, &[batch, channels * taps, blocks.iter().product()]);
    let xs = reals(&x);
    let dims = [&[batch, channels], &image[..]].concat();
    let mut y = Nd::fill(&dims, |_| 0.0);
    let mut sums = y.v.clone();
    for i in indices(&[batch, channels]) {
        for (tap, k) in indices(&w.kernel).iter().enumerate() {
            for (block, o) in indices(&blocks).iter().enumerate() {
                let to = w.source(o, k, &begins);
                if to.iter().zip(&image).all(|(p, n)| (0..*n as i64).contains(p)) {
                    let to: Vec<usize> = to.iter().map(|p| *p as usize).collect();
                    let flat = crate::nd::flat(&dims, &[&i[..], &to[..]].concat());
                    let value = xs.at(&[i[0], i[1] * taps + tap, block]);
                    y.v[flat] += value;
                    sums[flat] += value.abs();
                }
            }
        }
    }
    let list = |v: &[usize]| Tensor::vector(v.iter().map(|n| *n as i64).collect());
    let case =
        w.attrs(d, case(op, 18), true).input(&x).input(&list(&image)).input(&list(&w.kernel));
    Some(case.near(dtype, y, &sums))
}
