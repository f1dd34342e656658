//! Resizing of images.

use onnxd_plugin_sdk::ir::{Tensor, ValueId, ops};

use crate::build::{Feature, Size};
use crate::cell::{Cell, Lowered};
use crate::diag::Code;

pub(super) const KEYS: &[&str] = &["OutputWidth", "OutputHeight", "Mode", "AlignCorners"];

/// Most pixels of an axis that are listed.
const PIXELS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bilinear,
    BilinearTf,
    Nearest,
}

pub(super) fn resize(cell: &mut Cell) -> Lowered {
    const MODES: &[(&str, Mode)] = &[
        ("Bilinear", Mode::Bilinear),
        ("BilinearTF", Mode::BilinearTf),
        ("NearestNeighbor", Mode::Nearest),
    ];
    let section = cell.section;
    let width = section.required::<usize>("OutputWidth")?;
    let height = section.required::<usize>("OutputHeight")?;
    let Some(mode) = section.choice("Mode", MODES)? else {
        return Err(section.problem("Mode", "is missing").help("Set it to Bilinear."));
    };
    let align = section.parameter("AlignCorners")?.unwrap_or(true);
    let x = cell.image_input()?;
    cell.check_outputs(x)?;
    let size = Size { height, width, ..x.size }.check(&cell.layer)?;
    if size == x.size {
        return Ok(x);
    }
    match mode {
        Mode::Nearest => nearest(cell, x, size),
        Mode::Bilinear if !align => Ok(interpolated(cell, x, size, "half_pixel")),
        Mode::BilinearTf if !align => Ok(interpolated(cell, x, size, "asymmetric")),
        Mode::Bilinear | Mode::BilinearTf => Ok(interpolated(cell, x, size, "align_corners")),
    }
}

fn interpolated(cell: &mut Cell, x: Feature, size: Size, coordinates: &str) -> Feature {
    let scales = scales(cell, x.size, size);
    let resize = ops::Resize {
        scales: Some(scales),
        coordinate_transformation_mode: coordinates.into(),
        mode: "linear".into(),
        ..ops::Resize::new(x.value)
    };
    cell.image(size, resize)
}

/// Pixel `i` is pixel `i * old / new` of the source, rounded down. A fractional scale would make
/// runtimes that round differently take different pixels, so they are listed instead.
fn nearest(cell: &mut Cell, x: Feature, size: Size) -> Lowered {
    let whole = |new: usize, old: usize| new.is_multiple_of(old);
    if whole(size.height, x.size.height) && whole(size.width, x.size.width) {
        let resize = ops::Resize {
            scales: Some(scales(cell, x.size, size)),
            coordinate_transformation_mode: "asymmetric".into(),
            nearest_mode: "floor".into(),
            ..ops::Resize::new(x.value)
        };
        return Ok(cell.image(size, resize));
    }
    if size.height.max(size.width) > PIXELS_MAX {
        let message = format!("an axis is resized to more than {PIXELS_MAX} pixels");
        return Err(cell.problem(Code::SourceLimit, message));
    }
    let rows = Size { height: size.height, ..x.size };
    let x = gathered(cell, x, rows, 2, [size.height, x.size.height]);
    Ok(gathered(cell, x, size, 3, [size.width, x.size.width]))
}

fn gathered(cell: &mut Cell, x: Feature, size: Size, axis: i64, [new, old]: [usize; 2]) -> Feature {
    if new == old {
        return x;
    }
    let pixels = (0..new).map(|i| (i * old / new) as i64).collect();
    let indices = cell.integers("pixels", pixels);
    cell.image(size, ops::Gather { axis, ..ops::Gather::new(x.value, indices) })
}

/// The number of images is not known, so that scales have to say what sizes would.
fn scales(cell: &mut Cell, old: Size, new: Size) -> ValueId {
    let scales = vec![1.0, 1.0, scale(new.height, old.height), scale(new.width, old.width)];
    cell.constant("scales", Tensor::vector(scales))
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
