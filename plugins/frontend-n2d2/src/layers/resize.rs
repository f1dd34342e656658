//! Resizing of images.

use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Feature, Lowered};
use crate::diag::{Code, refuse};
use crate::geometry::MapSize;
use crate::ini::{settings, words};

/// Most pixels of an axis that are listed.
const PIXELS_MAX: usize = 1 << 20;

words! { Mode { Bilinear, BilinearTF, NearestNeighbor } }

settings! {
    struct Resize { OutputWidth: usize, OutputHeight: usize, Mode: Mode } config { AlignCorners: bool = true }
}

pub(super) fn resize(b: &Cell, a: &Resize) -> Lowered {
    let x = b.image()?;
    b.check_outputs(x)?;
    let size =
        MapSize { height: a.OutputHeight, width: a.OutputWidth, ..x.size }.check(&b.layer)?;
    if size == x.size {
        return Ok(x.value);
    }
    let coordinates = match a.Mode {
        Mode::NearestNeighbor => return nearest(b, x, size),
        Mode::Bilinear if !a.AlignCorners => "half_pixel",
        Mode::BilinearTF if !a.AlignCorners => "asymmetric",
        Mode::Bilinear | Mode::BilinearTF => "align_corners",
    };
    let scales = scales(x.size, size);
    b.resize(x).scales(scales).coordinate_transformation_mode(coordinates).mode("linear").one()
}

/// Pixel `i` is pixel `i * old / new` of the source, rounded down. A fractional scale would make
/// runtimes that round differently take different pixels, so they are listed instead.
fn nearest(b: &Cell, x: Feature, size: MapSize) -> Lowered {
    let whole = |new: usize, old: usize| new.is_multiple_of(old);
    if whole(size.height, x.size.height) && whole(size.width, x.size.width) {
        let resize = b.resize(x).scales(scales(x.size, size)).nearest_mode("floor");
        return resize.coordinate_transformation_mode("asymmetric").one();
    }
    refuse!(size.height.max(size.width) > PIXELS_MAX =>
        b.problem(Code::SourceLimit, format!("an axis is resized to more than {PIXELS_MAX} pixels")));
    let rows = gathered(b, x.value, 2, [size.height, x.size.height])?;
    gathered(b, rows, 3, [size.width, x.size.width])
}

fn gathered(b: &Cell, x: Var, axis: i64, [new, old]: [usize; 2]) -> Lowered {
    if new == old {
        return Ok(x);
    }
    let pixels: Vec<i64> = (0..new).map(|i| (i * old / new) as i64).collect();
    b.gather(x, pixels).axis(axis).one()
}

/// The number of images is not known, so that scales have to say what sizes would.
fn scales(old: MapSize, new: MapSize) -> [f32; 4] {
    [1.0, 1.0, scale(new.height, old.height), scale(new.width, old.width)]
}

/// The least scale from which a runtime, which cuts off the fraction, gets the new size.
fn scale(new: usize, old: usize) -> f32 {
    let mut scale = new as f32 / old as f32;
    while ((old as f32 * scale) as usize) < new || ((old as f64 * f64::from(scale)) as usize) < new
    {
        scale = scale.next_up();
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_reach_the_size() {
        for old in 1..200 {
            for new in 1..200 {
                let scale = scale(new, old);
                assert_eq!((old as f32 * scale).floor() as usize, new, "{old} -> {new}");
                assert!((scale - new as f32 / old as f32).abs() <= scale * 3e-7);
            }
        }
    }
}
