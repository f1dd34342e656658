//! Channels.

use crate::picture::room;
use crate::{Depth, Fault, Order, Picture, fault};

pub(crate) fn reverse(mut picture: Picture) -> Picture {
    if picture.channels == 3 {
        picture.samples.chunks_exact_mut(3).for_each(|p| p.swap(0, 2));
    }
    picture
}

pub(crate) fn spread(picture: Picture) -> Result<Picture, Fault> {
    if picture.channels != 1 {
        return Ok(picture);
    }
    room(picture.width, picture.height, 3)?;
    let samples = picture.samples.iter().flat_map(|v| [*v; 3]).collect();
    Ok(Picture { channels: 3, samples, ..picture })
}

/// Integers with weights of 15 bits, as OpenCV has them since version 4.
pub(crate) fn grey(picture: Picture, order: Order) -> Picture {
    if picture.channels != 3 {
        return picture;
    }
    let ordered = |p: &[f32]| match order {
        Order::Rgb => [p[0], p[1], p[2]],
        Order::Bgr => [p[2], p[1], p[0]],
    };
    let whole = |p: &[f32]| {
        let [r, g, b] = ordered(p).map(|v| v as u64);
        ((r * 9798 + g * 19235 + b * 3735 + (1 << 14)) >> 15) as f32
    };
    let real = |p: &[f32]| {
        let [r, g, b] = ordered(p);
        r * 0.299 + g * 0.587 + b * 0.114
    };
    let float = picture.depth == Depth::Float;
    let pixels = picture.samples.chunks_exact(3);
    let samples = pixels.map(|p| if float { real(p) } else { whole(p) }).collect();
    Picture { channels: 1, samples, ..picture }
}

pub(crate) fn channel(picture: &Picture, index: usize) -> Result<Picture, Fault> {
    if picture.channels != 3 || index > 2 {
        let channels = picture.channels;
        return Err(fault(format!("channel {index} of a picture of {channels} channels")));
    }
    let samples = picture.samples.iter().skip(index).step_by(3).copied().collect();
    Ok(Picture { channels: 1, samples, ..*picture })
}
