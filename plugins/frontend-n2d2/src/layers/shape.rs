//! Layers that only move values: borders, axes, and how the axes are divided.

use onnxd_plugin_sdk::ir::ops;

use crate::build::{Feature, Size};
use crate::cell::{Cell, Lowered, Pads};
use crate::diag::Diagnostic;

pub(super) const PADDING_KEYS: &[&str] =
    &["TopPadding", "BottomPadding", "LeftPadding", "RightPadding"];

/// Zeros around the image; negative amounts cut off.
pub(super) fn padding(cell: &mut Cell) -> Lowered {
    let amount = |key: &str| cell.section.or(key, 0_i64);
    let [top, bottom, left, right] = PADDING_KEYS else { unreachable!("there are four sides") };
    let pads = Pads {
        top: amount(top)?,
        left: amount(left)?,
        bottom: amount(bottom)?,
        right: amount(right)?,
    };
    let x = cell.input()?;
    cell.check_outputs(x)?;
    if pads == Pads::default() {
        return Ok(x);
    }
    let x = cell.unsqueezed(x);
    cell.pad(x, pads, 0.0)
}

/// `Dims` are width, height, channels; 0 keeps a size, -1 takes what remains.
pub(super) fn reshape(cell: &mut Cell) -> Lowered {
    let dims = cell.section.required::<Vec<i64>>("Dims")?;
    let x = cell.input()?;
    let old = [x.size.width, x.size.height, x.size.channels];
    let [width, height, channels] = reshaped(cell, &dims, old)?;
    let size = Size { channels, height, width };
    if size == x.size {
        return Ok(x);
    }
    let shape = vec![0, channels as i64, height as i64, width as i64];
    let shape = cell.integers("shape", shape);
    Ok(cell.image(size, ops::Reshape::new(x.value, shape)))
}

fn reshaped(cell: &Cell, dims: &[i64], old: [usize; 3]) -> Result<[usize; 3], Diagnostic> {
    let wrong = |message: String| cell.section.problem("Dims", message);
    let dims: [i64; 3] = match *dims {
        [w, h, c] | [w, h, c, 0 | -1] => [w, h, c],
        _ => return Err(wrong("must be width, height and channels".into())),
    };
    let count: usize = old.iter().product();
    let mut new = [0; 3];
    let mut known = 1_usize;
    for (axis, dim) in dims.into_iter().enumerate() {
        new[axis] = match dim {
            0 => old[axis],
            -1 => continue,
            n if n > 0 => n as usize,
            n => return Err(wrong(format!("must not hold {n}"))),
        };
        known = known.saturating_mul(new[axis]);
    }
    let open = dims.iter().filter(|dim| **dim == -1).count();
    let [w, h, c] = old;
    let misfit = || wrong(format!("do not fit the input of {w} x {h} x {c}"));
    match open {
        0 if known == count => Ok(new),
        1 if count.is_multiple_of(known) => {
            let axis = dims.iter().position(|dim| *dim == -1).unwrap_or(0);
            new[axis] = count / known;
            Ok(new)
        }
        0 | 1 => Err(misfit()),
        _ => Err(wrong("may hold -1 only once".into())),
    }
}

/// `Perm` counts axes as X, Y, channel, batch: the reverse of ONNX.
pub(super) fn transpose(cell: &mut Cell) -> Lowered {
    let perm = cell.section.required::<Vec<usize>>("Perm")?;
    let perm: [usize; 3] = match *perm {
        [x, y, c] | [x, y, c, 3] => [x, y, c],
        _ => return Err(cell.section.problem("Perm", "must be three axes: X, Y and channel")),
    };
    let mut sorted = perm;
    sorted.sort_unstable();
    if sorted != [0, 1, 2] {
        let message = "must name each of the axes 0, 1 and 2 once; the batch stays where it is";
        return Err(cell.section.problem("Perm", message));
    }
    let x = cell.image_input()?;
    if perm == [0, 1, 2] {
        return Ok(x);
    }
    let old = [x.size.width, x.size.height, x.size.channels];
    let [width, height, channels] = perm.map(|axis| old[axis]);
    let [a, b, c] = perm.map(|axis| 3 - axis as i64);
    let transpose = ops::Transpose { perm: vec![0, c, b, a], ..ops::Transpose::new(x.value) };
    let Feature { value, .. } = cell.image(Size { channels, height, width }, transpose);
    Ok(Feature { value, size: Size { channels, height, width }, flat: false })
}
