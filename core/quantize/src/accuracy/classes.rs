//! What a network that tells classes apart says of samples.

use crate::observe::{Feeds, Limits};
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Builtin, Engine, RunOptions};
use onnxd_ir::{Model, Tensor};

/// The classes that a model names for each sample, in order: the largest of the first output that
/// has several numbers along its axis of classes. None if no output has.
///
/// # Errors
/// Why samples cannot be had, or the model does not run on them.
pub fn classes(
    model: &Model,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    limits: Limits,
) -> Result<Vec<usize>, Diagnostics> {
    let mut prepared = Builtin.prepare(model)?;
    let Limits { bytes_max, stop, winograd, .. } = limits;
    let mut found = Vec::new();
    for feeds in samples {
        let options = RunOptions { bytes_max, stop, winograd, ..RunOptions::default() };
        let outputs = prepared.run(&feeds?, options)?;
        found.extend(outputs.iter().find_map(|(_, output)| largest(output)).unwrap_or_default());
    }
    Ok(found)
}

/// As [`top1`], along the axis of classes of an output of floats: the last of up to three axes, else
/// the second, as of maps.
fn largest(output: &Tensor) -> Option<Vec<usize>> {
    let axis = if output.rank() > 3 { 1 } else { output.rank().checked_sub(1)? };
    top1(output, axis).filter(|_| output.dtype().is_float())
}

/// Where the largest number of each place is along an axis, the first of equals; `None` along the
/// first axis, or where there is no choice.
#[must_use]
pub fn top1(output: &Tensor, axis: usize) -> Option<Vec<usize>> {
    let classes = output.dims().get(axis).copied().filter(|n| axis > 0 && *n >= 2)?;
    let values = output.to_reals()?.values;
    let inner: usize = output.dims()[axis + 1..].iter().product();
    let places = values.chunks(classes * inner.max(1)).flat_map(|part| {
        (0..inner).map(move |at| {
            let of = |class: usize| part[class * inner + at];
            (1..classes).fold(0, |best, class| if of(class) > of(best) { class } else { best })
        })
    });
    Some(places.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_along_the_axis_of_classes() {
        let of = |dims: &[usize], values: &[f32]| {
            largest(&Tensor::from_vec(dims.to_vec(), values.to_vec()))
        };
        assert_eq!(of(&[2, 3], &[1.0, 5.0, 5.0, 2.0, -1.0, 0.0]).unwrap(), [1, 0]);
        assert_eq!(of(&[1, 2, 2], &[1.0, 0.0, 0.0, 1.0]).unwrap(), [0, 1]);
        assert_eq!(of(&[1, 2, 1, 2], &[1.0, 0.0, 0.0, 1.0]).unwrap(), [0, 1]);
        assert!(of(&[2, 1], &[1.0, 2.0]).is_none() && of(&[2], &[1.0, 2.0]).is_none());
        assert!(largest(&Tensor::from_vec(vec![1, 2], vec![1i64, 2])).is_none());
        let map = Tensor::from_vec(vec![1, 2, 3], vec![1i64, 0, 0, 0, 1, 2]);
        assert_eq!(top1(&map, 1).unwrap(), [0, 1, 1]);
    }
}
