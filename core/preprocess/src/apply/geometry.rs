//! Where samples lie.

use super::picture::room;
use crate::{Border, ChannelOrder, Depth, Picture, PictureFault, fault};

pub(crate) fn crop(
    picture: &Picture,
    [x, y]: [usize; 2],
    [width, height]: [usize; 2],
) -> Result<Picture, PictureFault> {
    let fits = |at: usize, size: usize, all: usize| at.checked_add(size).is_some_and(|n| n <= all);
    if !fits(x, width, picture.width) || !fits(y, height, picture.height) {
        let (w, h) = (picture.width, picture.height);
        return Err(fault(format!(
            "a window of {width} x {height} pixels at {x}, {y} is not within {w} x {h}"
        )));
    }
    picture.moved([width, height], |i, j| [x + i, y + j])
}

pub(crate) fn flip(
    picture: &Picture,
    horizontal: bool,
    vertical: bool,
) -> Result<Picture, PictureFault> {
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
) -> Result<Picture, PictureFault> {
    let picture_size = [picture.width as i64, picture.height as i64];
    let mut sizes = [0; 2];
    let mut before = [0; 2];
    for axis in 0..2 {
        let base = if additive { picture_size[axis] } else { 0 };
        let size = base.checked_add(wanted[axis]).and_then(|n| usize::try_from(n).ok());
        sizes[axis] = size.ok_or_else(|| fault("a picture with sides of less than nothing"))?;
        let more = sizes[axis] as i64 - picture_size[axis];
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
fn constant(picture: &Picture, border: &Border) -> Result<Vec<f32>, PictureFault> {
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

/// The sample of an axis of `len` at `at`: the axis is mirrored, its ends not repeated.
pub(super) fn mirrored_inside(at: i64, len: usize) -> usize {
    place(at, len, &Border::ReflectInner).unwrap_or_default()
}

/// Samples of a picture as large as this one.
pub(super) fn room_of(picture: &Picture) -> Result<usize, PictureFault> {
    room(picture.width, picture.height, picture.channels)
}

/// The same samples in other rows; 0 channels are as many as before.
pub(crate) fn reshape(
    picture: Picture,
    rows: usize,
    columns: usize,
    channels: usize,
) -> Result<Picture, PictureFault> {
    let channels = if channels == 0 { picture.channels } else { channels };
    let (all, height) = (picture.samples.len(), if rows == 0 { picture.height } else { rows });
    let width = height.checked_mul(channels).filter(|n| *n > 0 && all % n == 0).map(|n| all / n);
    match width {
        Some(width) if columns == 0 || columns == width => {
            Ok(Picture { width, height, channels, ..picture })
        }
        _ => Err(fault(format!(
            "{all} samples are no picture of {height} rows with {columns} pixels of {channels} channels"
        ))),
    }
}

/// Cuts off the rows and columns at the edges that have the edges' most frequent level throughout. `levels` is
/// how many levels of grey are told apart; 0 is all.
pub(crate) fn trim(
    picture: &Picture,
    levels: usize,
    order: ChannelOrder,
) -> Result<Picture, PictureFault> {
    if picture.depth != Depth::Byte || levels == 1 {
        return Err(fault("trimming takes samples of 8 bits, and at least two levels"));
    }
    let grey = super::colour::grey(picture.clone(), order);
    if grey.channels != 1 {
        return Err(fault(format!("a picture of {} channels has no levels", grey.channels)));
    }
    let level = |v: &f32| match levels.checked_sub(1) {
        None => *v as u8,
        Some(steps) => {
            let step = (steps as f64 * f64::from(*v) / 255.0).round();
            (255.0 * step / steps as f64) as u8
        }
    };
    let (width, height) = (grey.width, grey.height);
    let samples: Vec<u8> = grey.samples.iter().map(level).collect();
    let at = |x: usize, y: usize| samples[y * width + x];
    let mut counts = [0_usize; 256];
    for y in 0..height {
        counts[usize::from(at(0, y))] += 1;
        counts[usize::from(at(width - 1, y))] += 1;
    }
    for x in 1..width.saturating_sub(1) {
        counts[usize::from(at(x, 0))] += 1;
        counts[usize::from(at(x, height - 1))] += 1;
    }
    let most = counts.iter().max().copied().unwrap_or_default();
    let edge = counts.iter().position(|c| *c == most).unwrap_or_default() as u8;
    let column = |x: &usize| (0..height).any(|y| at(*x, y) != edge);
    let row = |y: &usize| (0..width).any(|x| at(x, *y) != edge);
    let ends = [
        (0..width).find(column),
        (0..width).rfind(column),
        (0..height).find(row),
        (0..height).rfind(row),
    ];
    match ends {
        [Some(left), Some(right), Some(top), Some(bottom)] => {
            crop(picture, [left, top], [right + 1 - left, bottom + 1 - top])
        }
        _ => Err(fault("all of the picture is like its edge, and would be trimmed")),
    }
}
