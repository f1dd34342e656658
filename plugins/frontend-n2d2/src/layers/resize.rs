//! Resizing of images.

use onnxd_plugin_sdk::ir::{Tensor, ops};

use crate::build::Size;
use crate::cell::{Cell, Lowered};

pub(super) const KEYS: &[&str] = &["OutputWidth", "OutputHeight", "Mode", "AlignCorners"];

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
    let (coordinates, kind) = match (mode, align) {
        // A source pixel covers a whole number of target pixels.
        (Mode::Nearest, _) => ("asymmetric", "nearest"),
        (_, true) => ("align_corners", "linear"),
        (Mode::Bilinear, false) => ("half_pixel", "linear"),
        (Mode::BilinearTf, false) => ("asymmetric", "linear"),
    };
    let resize = ops::Resize {
        coordinate_transformation_mode: coordinates.into(),
        mode: kind.into(),
        ..ops::Resize::new(x.value)
    };
    let resize = match mode {
        Mode::Nearest => ops::Resize { nearest_mode: "floor".into(), ..resize },
        Mode::Bilinear | Mode::BilinearTf => resize,
    };
    // The number of images is not known, so that scales have to say what sizes would.
    let scales = vec![1.0, 1.0, scale(height, x.size.height), scale(width, x.size.width)];
    let scales = Some(cell.constant("scales", Tensor::vector(scales)));
    Ok(cell.image(size, ops::Resize { scales, ..resize }))
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
