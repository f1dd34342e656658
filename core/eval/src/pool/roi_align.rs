//! Regions of interest, sampled bilinearly on a grid.

use crate::call::{KernelCall, one};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::float;
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// Samples per grid cell and axis that a region may ask for.
const SAMPLES_MAX: f64 = 4096.0;

pub(super) fn roi_align(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, rois, images) = (call.x(0)?, call.x(1)?, call.x(2)?);
    let ([batch, channels, h, w], [count, 4]) = (x.dims(), rois.dims()) else {
        return Err(Fault::invalid(format!("{x:?} and regions {rois:?} do not fit")));
    };
    let images = crate::call::integers(images)?;
    refuse!(images.len() != *count => "every region needs the index of its image");
    let [ph, pw] = [call.int("output_height", 1)?, call.int("output_width", 1)?];
    let (ph, pw) = (dims::size(ph)?, dims::size(pw)?);
    let ratio = call.int("sampling_ratio", 0)?;
    let scale = f64::from(call.float("spatial_scale", 1.0)?);
    let largest = call.string("mode", "avg")? == "max";
    let default = if call.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let half = call.string("coordinate_transformation_mode", default)? == "half_pixel";
    let dims = vec![*count, *channels, ph, pw];
    let total = call.room_like(x, &dims)?;
    float!(x.dtype(), T => {
        let (values, rois) = (call.slice::<T>(0)?, call.slice::<T>(1)?);
        let mut y = Vec::with_capacity(total);
        for (roi, image) in rois.chunks(4).zip(&images) {
            let image = dims::index(*image, *batch)?;
            let corner = |i: usize| f64::from(roi[i]) * scale - if half { 0.5 } else { 0.0 };
            let least = if half { 0.0 } else { 1.0 };
            let cell = |low: f64, high: f64, parts: usize| (high - low).max(least) / parts as f64;
            let (cell_h, cell_w) = (cell(corner(1), corner(3), ph), cell(corner(0), corner(2), pw));
            let samples = |cell: f64| if ratio > 0 { ratio as f64 } else { cell.ceil() };
            let (ny, nx) = (samples(cell_h), samples(cell_w));
            refuse!(!(ny <= SAMPLES_MAX && nx <= SAMPLES_MAX) => "a region is too large for its grid");
            for i in 0..channels * ph * pw {
                let (c, py, px) = (i / (ph * pw), i / pw % ph, i % pw);
                let plane = &values[(image * channels + c) * h * w..][..h * w];
                let at = |low: f64, p: usize, cell: f64, s: usize, n: f64| {
                    low + p as f64 * cell + (s as f64 + 0.5) * cell / n
                };
                let (mut sum, mut top) = (0f64, f64::NEG_INFINITY);
                for (sy, sx) in
                    (0..ny as usize).flat_map(|sy| (0..nx as usize).map(move |sx| (sy, sx)))
                {
                    let y = at(corner(1), py, cell_h, sy, ny);
                    let x = at(corner(0), px, cell_w, sx, nx);
                    let corners = weighted([y, x], [*h, *w]);
                    let value = |i: usize| plane.get(i).map_or(0.0, |v| f64::from(*v));
                    let parts = corners.map(|(i, gain)| value(i) * gain);
                    sum += parts.iter().sum::<f64>();
                    top = parts.iter().copied().fold(top, f64::max);
                }
                let count = (ny * nx).max(1.0);
                let top = if top.is_finite() { top } else { 0.0 };
                y.push(if largest { top } else { sum / count } as T);
            }
        }
        one(Tensor::from_vec(dims, y))
    })
}

/// The four elements around a place with their bilinear weights; weights are zero more than one
/// element outside.
fn weighted(place: [f64; 2], size: [usize; 2]) -> [(usize, f64); 4] {
    let outside = (0..2).any(|a| place[a] < -1.0 || place[a] > size[a] as f64 || size[a] == 0);
    if outside {
        return [(0, 0.0); 4];
    }
    let [(y0, y1, fy), (x0, x1, fx)] = [0, 1].map(|a| {
        let p = place[a].max(0.0);
        let low = (p as usize).min(size[a] - 1);
        let high = (low + 1).min(size[a] - 1);
        (low, high, if low == high { 0.0 } else { p - low as f64 })
    });
    [
        (y0 * size[1] + x0, (1.0 - fy) * (1.0 - fx)),
        (y0 * size[1] + x1, (1.0 - fy) * fx),
        (y1 * size[1] + x0, fy * (1.0 - fx)),
        (y1 * size[1] + x1, fy * fx),
    ]
}
