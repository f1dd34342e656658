//! Layers that only move values: borders, axes, and how the axes are divided.

use crate::cell::{Cell, Lowered};
use crate::geometry::{MapSize, Pads};
use crate::ini::settings;

settings! {
    struct Padding {
        TopPadding: i64 = 0, BottomPadding: i64 = 0, LeftPadding: i64 = 0, RightPadding: i64 = 0,
    }
    struct Reshape { Dims: Vec<i64> }
    struct Transpose { Perm: Vec<usize> }
}

/// Zeros around the image; negative amounts cut off.
pub(super) fn padding(b: &Cell, a: &Padding) -> Lowered {
    let (top, left) = (a.TopPadding, a.LeftPadding);
    let pads = Pads { top, left, bottom: a.BottomPadding, right: a.RightPadding };
    let x = b.kept()?;
    if pads == Pads::default() {
        return Ok(x.value);
    }
    Ok(b.padded(b.unsqueezed(x)?, pads, 0.0)?.value)
}

/// `Dims` are width, height, channels; 0 keeps a size, -1 takes what remains.
pub(super) fn reshape(b: &Cell, a: &Reshape) -> Lowered {
    let x = b.joined()?;
    let old = [x.size.width, x.size.height, x.size.channels];
    let [width, height, channels] = reshaped(b, &a.Dims, old)?;
    if (MapSize { channels, height, width }) == x.size {
        return Ok(x.value);
    }
    b.reshape(x, [0, channels as i64, height as i64, width as i64]).one()
}

fn reshaped(b: &Cell, dims: &[i64], old: [usize; 3]) -> Lowered<[usize; 3]> {
    let wrong = |message: String| Err(b.section.problem("Dims", message));
    let dims: [i64; 3] = match *dims {
        [w, h, c] | [w, h, c, 0 | -1] => [w, h, c],
        _ => return wrong("must be width, height and channels".into()),
    };
    if let Some(n) = dims.iter().find(|n| **n < -1) {
        return wrong(format!("must not hold {n}"));
    }
    let size = |(dim, old), rest| if dim == 0 { old } else { usize::try_from(dim).unwrap_or(rest) };
    let new = |rest| [0, 1, 2].map(|axis| size((dims[axis], old[axis]), rest));
    let count = |sizes: [usize; 3]| sizes.iter().fold(1, |n: usize, size| n.saturating_mul(*size));
    let rest = count(old) / count(new(1));
    match dims.iter().filter(|dim| **dim == -1).count() {
        0 | 1 if count(new(rest)) == count(old) => Ok(new(rest)),
        0 | 1 => {
            let [w, h, c] = old;
            wrong(format!("do not fit the input of {w} x {h} x {c}"))
        }
        _ => wrong("may hold -1 only once".into()),
    }
}

/// `Perm` counts axes as X, Y, channel, batch: the reverse of ONNX.
pub(super) fn transpose(b: &Cell, a: &Transpose) -> Lowered {
    let perm: [usize; 3] = match *a.Perm {
        [x, y, c] | [x, y, c, 3] => [x, y, c],
        _ => return Err(b.section.problem("Perm", "must be three axes: X, Y and channel")),
    };
    if (0..3).any(|axis| !perm.contains(&axis)) {
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
