//! Where samples lie.

use super::picture::room;
use crate::{Border, Fault, Picture, fault};

pub(crate) fn crop(
    picture: &Picture,
    [x, y]: [usize; 2],
    [width, height]: [usize; 2],
) -> Result<Picture, Fault> {
    let fits = |at: usize, size: usize, all: usize| at.checked_add(size).is_some_and(|n| n <= all);
    if !fits(x, width, picture.width) || !fits(y, height, picture.height) {
        let (w, h) = (picture.width, picture.height);
        return Err(fault(format!(
            "a window of {width} x {height} pixels at {x}, {y} is not within {w} x {h}"
        )));
    }
    picture.moved([width, height], |i, j| [x + i, y + j])
}

pub(crate) fn flip(picture: &Picture, horizontal: bool, vertical: bool) -> Result<Picture, Fault> {
    let mirrored = |on: bool, i: usize, all: usize| if on { all - 1 - i } else { i };
    picture.moved([picture.width, picture.height], |x, y| {
        [mirrored(horizontal, x, picture.width), mirrored(vertical, y, picture.height)]
    })
}

pub(crate) fn pad_crop(
    picture: &Picture,
    wanted: [i64; 2],
    additive: bool,
    border: &Border,
) -> Result<Picture, Fault> {
    let given = [picture.width as i64, picture.height as i64];
    let mut sizes = [0; 2];
    let mut before = [0; 2];
    for axis in 0..2 {
        let base = if additive { given[axis] } else { 0 };
        let size = base.checked_add(wanted[axis]).and_then(|n| usize::try_from(n).ok());
        sizes[axis] = size.ok_or_else(|| fault("a picture with sides of less than nothing"))?;
        let more = sizes[axis] as i64 - given[axis];
        // The half, rounded up, also where it is negative.
        before[axis] = (more + 1).div_euclid(2);
    }
    let mut samples = Vec::with_capacity(room(sizes[0], sizes[1], picture.channels)?);
    let columns: Vec<Option<usize>> =
        (0..sizes[0]).map(|x| place(x as i64 - before[0], picture.width, border)).collect();
    let outside = constant(picture, border)?;
    for y in 0..sizes[1] {
        let y = place(y as i64 - before[1], picture.height, border);
        for x in &columns {
            match (x, y) {
                (Some(x), Some(y)) => samples.extend_from_slice(picture.pixel(*x, y)),
                _ => samples.extend_from_slice(&outside),
            }
        }
    }
    Ok(Picture { width: sizes[0], height: sizes[1], samples, ..*picture })
}

/// What a pixel is where nothing else is said.
fn constant(picture: &Picture, border: &Border) -> Result<Vec<f32>, Fault> {
    let Border::Constant { values } = border else { return Ok(Vec::new()) };
    let value = |c: usize| match values.as_slice() {
        [] => Ok(0.0),
        [one] => Ok(*one),
        values => {
            values.get(c).copied().ok_or_else(|| fault(format!("no border value of channel {c}")))
        }
    };
    let rounded = |c: usize| value(c).map(|v| Picture::rounded(picture.depth, v as f32));
    (0..picture.channels).map(rounded).collect()
}

/// The sample of an axis of `len` that stands at `at`, which may lie beyond it.
fn place(at: i64, len: usize, border: &Border) -> Option<usize> {
    let len = len as i64;
    if (0..len).contains(&at) {
        return Some(at as usize);
    }
    let mirrored = |period: i64, shift: i64| {
        let at = at.rem_euclid(period);
        if at < len { at } else { period - shift - at }
    };
    Some(match border {
        Border::Constant { .. } => return None,
        Border::Replicate => at.clamp(0, len - 1),
        Border::Wrap => at.rem_euclid(len),
        Border::Reflect => mirrored(2 * len, 1),
        Border::ReflectInner if len == 1 => 0,
        Border::ReflectInner => mirrored(2 * (len - 1), 0),
    } as usize)
}
