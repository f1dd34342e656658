//! Channels.

use super::picture::room;
use crate::{ChannelOrder, Depth, Picture, PictureFault, Step, fault};

pub(crate) fn reverse(mut picture: Picture) -> Picture {
    if picture.channels == 3 {
        picture.samples.chunks_exact_mut(3).for_each(|p| p.swap(0, 2));
    }
    picture
}

pub(crate) fn spread(picture: Picture) -> Result<Picture, PictureFault> {
    if picture.channels != 1 {
        return Ok(picture);
    }
    room(picture.width, picture.height, 3)?;
    let samples = picture.samples.iter().flat_map(|v| [*v; 3]).collect();
    Ok(Picture { channels: 3, samples, ..picture })
}

/// Integers with weights of 15 bits, as OpenCV has them since version 4.
pub(crate) fn grey(picture: Picture, order: ChannelOrder) -> Picture {
    if picture.channels != 3 {
        return picture;
    }
    let ordered = |p: &[f32]| match order {
        ChannelOrder::Rgb => [p[0], p[1], p[2]],
        ChannelOrder::Bgr => [p[2], p[1], p[0]],
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

pub(crate) fn channel(picture: &Picture, index: usize) -> Result<Picture, PictureFault> {
    if picture.channels != 3 || index > 2 {
        let channels = picture.channels;
        return Err(fault(format!("channel {index} of a picture of {channels} channels")));
    }
    let samples = picture.samples.iter().skip(index).step_by(3).copied().collect();
    Ok(Picture { channels: 1, samples, ..*picture })
}

/// Every list of steps makes a channel of the picture.
pub(crate) fn split(picture: &Picture, channels: &[Vec<Step>]) -> Result<Picture, PictureFault> {
    let count = channels.len();
    let way = |steps: &Vec<Step>| steps.iter().try_fold(picture.clone(), |p, step| step.apply(p));
    let first = way(channels.first().ok_or_else(|| fault("a picture without channels"))?)?;
    let (width, height, depth) = (first.width, first.height, first.depth);
    let mut samples = vec![0.0; room(width, height, count)?];
    let mut put = |at: usize, found: &Picture| {
        if found.channels != 1 {
            return Err(fault(format!("channel {at} is a picture of {} channels", found.channels)));
        }
        if (found.width, found.height, found.depth) != (width, height, depth) {
            return Err(fault(format!("channel {at} differs from the first in size or kind")));
        }
        let places = samples.iter_mut().skip(at).step_by(count);
        places.zip(&found.samples).for_each(|(place, sample)| *place = *sample);
        Ok(())
    };
    put(0, &first)?;
    for (at, steps) in channels.iter().enumerate().skip(1) {
        put(at, &way(steps)?)?;
    }
    Ok(Picture { width, height, channels: count, depth, samples })
}
