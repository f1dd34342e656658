//! Softmax over the channels of each pixel, or over groups of them.

use crate::cell::{Cell, Lowered};

pub(super) fn softmax(b: &Cell) -> Lowered {
    let x = b.kept()?;
    // The loss is for training only.
    b.section.get::<bool>("WithLoss")?;
    let group = b.section.or("GroupSize", 0_usize)?;
    let channels = x.size.channels;
    if group == 0 || group == channels {
        return b.softmax(x).axis(1).one();
    }
    if !channels.is_multiple_of(group) {
        let message = format!("is {group}, which does not divide the {channels} channels");
        return Err(b.section.problem("GroupSize", message));
    }
    let plane = x.size.plane().map(|n| n as i64);
    let plane = if x.flat { &[] } else { &plane[..] };
    let sizes = |channels: &[usize]| {
        let channels = channels.iter().map(|n| *n as i64);
        [0].into_iter().chain(channels).chain(plane.iter().copied()).collect::<Vec<i64>>()
    };
    let groups = b.reshape(x, sizes(&[channels / group, group])).one()?;
    b.reshape(b.softmax(groups).axis(2).one()?, sizes(&[channels])).one()
}
