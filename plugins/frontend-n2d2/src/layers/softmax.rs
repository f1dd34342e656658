//! Softmax over the channels of each pixel, or over groups of them.

use onnxd_plugin_sdk::ir::{ValueId, ops};

use crate::build::{Feature, Size};
use crate::cell::{Cell, Lowered};

pub(super) fn softmax(cell: &mut Cell) -> Lowered {
    let x = cell.input()?;
    cell.check_outputs(x)?;
    // The loss is for training only.
    cell.section.get::<bool>("WithLoss")?;
    let group = cell.section.or("GroupSize", 0_usize)?;
    let channels = x.size.channels;
    if group == 0 || group == channels {
        return Ok(cell.same(x, ops::Softmax { axis: Some(1), ..ops::Softmax::new(x.value) }));
    }
    if !channels.is_multiple_of(group) {
        let message = format!("is {group}, which does not divide the {channels} channels");
        return Err(cell.section.problem("GroupSize", message));
    }
    let Size { height, width, .. } = x.size;
    let plane: &[usize] = if x.flat { &[] } else { &[height, width] };
    let grouped = [&[channels / group, group], plane].concat();
    let split = reshape(cell, x.value, &grouped);
    let softmax = ops::Softmax { axis: Some(2), ..ops::Softmax::new(split) };
    let softmax = cell.op(&grouped, softmax);
    let value = reshape(cell, softmax, &[&[channels], plane].concat());
    Ok(Feature { value, ..x })
}

fn reshape(cell: &mut Cell, x: ValueId, dims: &[usize]) -> ValueId {
    let shape = [0].into_iter().chain(dims.iter().map(|n| *n as i64)).collect();
    let shape = cell.integers("shape", shape);
    cell.op(dims, ops::Reshape::new(x, shape))
}
