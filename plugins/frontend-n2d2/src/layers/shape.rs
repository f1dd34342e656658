//! Layers that only move values: borders, axes, and how the axes are divided.

use crate::cell::{Cell, Lowered};
use crate::geometry::{Pads, Size};

/// Zeros around the image; negative amounts cut off.
pub(super) fn padding(b: &Cell) -> Lowered {
    let amount = |side: &str| b.section.or(&format!("{side}Padding"), 0_i64);
    let [top, bottom, left, right] = ["Top", "Bottom", "Left", "Right"].map(amount);
    let pads = Pads { top: top?, bottom: bottom?, left: left?, right: right? };
    let x = b.kept()?;
    if pads == Pads::default() {
        return Ok(x.value);
    }
    Ok(b.padded(b.unsqueezed(x)?, pads, 0.0)?.value)
}

/// `Dims` are width, height, channels; 0 keeps a size, -1 takes what remains.
pub(super) fn reshape(b: &Cell) -> Lowered {
    let dims = b.section.required::<Vec<i64>>("Dims")?;
    let x = b.joined()?;
    let old = [x.size.width, x.size.height, x.size.channels];
    let [width, height, channels] = reshaped(b, &dims, old)?;
    if (Size { channels, height, width }) == x.size {
        return Ok(x.value);
    }
    b.reshape(x, [0, channels as i64, height as i64, width as i64]).one()
}

fn reshaped(b: &Cell, dims: &[i64], old: [usize; 3]) -> Lowered<[usize; 3]> {
    let wrong = |message: String| b.section.problem("Dims", message);
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
pub(super) fn transpose(b: &Cell) -> Lowered {
    let perm = b.section.required::<Vec<usize>>("Perm")?;
    let perm: [usize; 3] = match *perm {
        [x, y, c] | [x, y, c, 3] => [x, y, c],
        _ => return Err(b.section.problem("Perm", "must be three axes: X, Y and channel")),
    };
    let mut sorted = perm;
    sorted.sort_unstable();
    if sorted != [0, 1, 2] {
        let message = "must name each of the axes 0, 1 and 2 once; the batch stays where it is";
        return Err(b.section.problem("Perm", message));
    }
    let x = b.image()?;
    if perm == [0, 1, 2] {
        return Ok(x.value);
    }
    let [w, h, c] = perm.map(|axis| 3 - axis as i64);
    b.transpose(x).perm([0, c, h, w]).one()
}
