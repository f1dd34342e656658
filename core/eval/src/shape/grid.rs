//! Sampling at places that a grid names.

use super::layout::size_list;
use crate::call::{KernelCall, one};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, float, slice};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// What lies outside of the input.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// Coordinates in `[-1, 1]` of every output element under an affine map per image.
pub(super) fn affine_grid(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (theta, size) = (call.x(0)?, size_list(call, 1)?);
    let corners = call.flag("align_corners", false)?;
    let axes = size.len().saturating_sub(2);
    refuse!(!(2..=3).contains(&axes) || theta.dims() != [size[0], axes, axes + 1] =>
        "{theta:?} does not fit the size {size:?}");
    let spatial = &size[2..];
    let sizes = [&size[..1], spatial, &[axes]].concat();
    let total = call.room_like(theta, &sizes)?;
    let place = |i: usize, n: usize| match (corners, n) {
        (true, 1) => 0.0,
        (true, _) => 2.0 * i as f64 / (n as f64 - 1.0) - 1.0,
        (false, _) => (2.0 * i as f64 + 1.0) / n as f64 - 1.0,
    };
    float!(theta.dtype(), T => {
        let maps = call.slice::<T>(0)?;
        let mut out = Vec::with_capacity(total);
        for map in maps.chunks(axes * (axes + 1)) {
            dims::for_each_index(spatial, |index| {
                // The map's first coordinate is the innermost axis.
                let at: Vec<f64> =
                    index.iter().zip(spatial).rev().map(|(i, n)| place(*i, *n)).collect();
                for row in map.chunks(axes + 1) {
                    let shift = row[axes].to_f64();
                    let sum = row.iter().zip(&at).map(|(m, p)| m.to_f64() * p).sum::<f64>();
                    out.push((sum + shift) as T);
                }
            });
        }
        one(Tensor::from_vec(sizes, out))
    })
}

pub(super) fn grid_sample(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, grid) = (call.x(0)?, call.x(1)?);
    let axes = x.rank().saturating_sub(2);
    let fits = axes > 0 && grid.rank() == x.rank() && grid.dims()[0] == x.dims()[0];
    refuse!(!fits || grid.dims()[axes + 1] != axes || axes > 3 => "grid {grid:?} does not fit {x:?}");
    let cubic = match call.string("mode", "linear")? {
        "linear" | "bilinear" => Some(false),
        "cubic" | "bicubic" => Some(true),
        "nearest" => None,
        other => return Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    };
    let padding = match call.string("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(Fault::invalid(format!("padding_mode `{other}` is not defined"))),
    };
    let corners = call.flag("align_corners", false)?;
    let (spatial, places) = (&x.dims()[2..], &grid.dims()[1..=axes]);
    let sizes = [&x.dims()[..2], places].concat();
    let total = call.room_like(x, &sizes)?;
    refuse!(spatial.contains(&0) => "{x:?} has nothing to sample");
    let grid = super::cast(grid, onnxd_ir::DataType::Double)?;
    let coordinates = slice::<f64>(&grid)?;
    let (inner, points): (usize, usize) = (spatial.iter().product(), places.iter().product());
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let channels = x.dims()[1];
        let mut out = Vec::with_capacity(total);
        for plane in 0..x.dims()[0] * channels {
            let data = &values[plane * inner..(plane + 1) * inner];
            for point in 0..points {
                let at = (plane / channels * points + point) * axes;
                let taps: Vec<Vec<(Option<usize>, f64)>> = (0..axes)
                    .map(|a| {
                        let g = coordinates[at + axes - 1 - a];
                        axis_taps(g, spatial[a], corners, padding, cubic)
                    })
                    .collect();
                out.push(sampled(data, spatial, &taps) as T);
            }
        }
        one(Tensor::from_vec(sizes, out))
    })
}

/// Sum over all combinations of neighbours.
fn sampled<T: Num>(data: &[T], spatial: &[usize], taps: &[Vec<(Option<usize>, f64)>]) -> f64 {
    let ([size, rest @ ..], [own, taps @ ..]) = (spatial, taps) else {
        return data[0].to_f64();
    };
    let run = data.len() / size;
    let part = |(at, weight): &(Option<usize>, f64)| match at {
        Some(at) if *weight != 0.0 => weight * sampled(&data[at * run..(at + 1) * run], rest, taps),
        _ => 0.0,
    };
    own.iter().map(part).sum()
}

/// Neighbours of grid coordinate `g` on an axis of `n` elements; `None` reads zero.
fn axis_taps(
    g: f64,
    n: usize,
    corners: bool,
    padding: Padding,
    cubic: Option<bool>,
) -> Vec<(Option<usize>, f64)> {
    let size = n as f64;
    let x = if corners { (g + 1.0) / 2.0 * (size - 1.0) } else { ((g + 1.0) * size - 1.0) / 2.0 };
    let (low, high) = if corners { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
    let settle = |x: f64| match padding {
        Padding::Zeros => x,
        Padding::Border => x.clamp(0.0, size - 1.0),
        Padding::Reflection => reflected(x, low, high).clamp(0.0, size - 1.0),
    };
    let pick = |at: f64| (at >= 0.0 && at < size).then_some(at as usize);
    let Some(cubic) = cubic else { return vec![(pick(settle(x.round_ties_even())), 1.0)] };
    if !cubic {
        let x = settle(x);
        let part = x - x.floor();
        return vec![(pick(x.floor()), 1.0 - part), (pick(x.floor() + 1.0), part)];
    }
    // For cubic samples every neighbour is settled on its own.
    let (first, part, a) = (x.floor() - 1.0, x - x.floor(), -0.75);
    let near = |d: f64| ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
    let far = |d: f64| ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
    let weights = [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)];
    let neighbour = |(k, w): (usize, f64)| (pick(settle(first + k as f64)), w);
    weights.into_iter().enumerate().map(neighbour).collect()
}

/// `x` mirrored at both ends until it lies between them.
fn reflected(x: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 || !x.is_finite() {
        return 0.0;
    }
    let round = (x - low).rem_euclid(2.0 * span);
    low + if round <= span { round } else { 2.0 * span - round }
}
