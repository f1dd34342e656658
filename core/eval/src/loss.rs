//! Losses of classification.

use crate::call::{KernelCall, KernelRow, integers, raw};
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, sized, stored};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("NegativeLogLikelihoodLoss", negative_log_likelihood_loss),
    raw("SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss),
];

/// Sizes of `[batch, classes, places...]`.
fn sizes(x: &Tensor) -> Outcome<(usize, usize, usize)> {
    match x.dims() {
        [n, c, places @ ..] => Ok((*n, *c, places.iter().product())),
        _ => Err(Fault::invalid(format!("{x:?} has no classes"))),
    }
}

/// `-weight[c] * log_prob[n, c, ...]` for the wanted class `c`, 0 where it is to be ignored;
/// reduced as the attribute says, the mean by the sum of the weights.
fn likelihood(call: &KernelCall, log_prob: &[f64]) -> Outcome<Tensor> {
    let (x, target) = (call.x(0)?, call.x(1)?);
    let (n, classes, places) = sizes(x)?;
    let dims = [&x.dims()[..1], &x.dims()[2..]].concat();
    refuse!(target.dims() != dims => "target {target:?} must have shape {dims:?}");
    let ignored = call.int_opt("ignore_index")?;
    let weights = match call.opt(2) {
        Some(weight) => sized(weight, &[classes], "the weight")?,
        None => vec![1.0; classes],
    };
    let mut losses = vec![0f64; n * places];
    let mut total = 0.0;
    for (at, (loss, class)) in losses.iter_mut().zip(integers(target)?).enumerate() {
        if ignored == Some(class) {
            continue;
        }
        let class = usize::try_from(class).ok().filter(|c| *c < classes).ok_or_else(|| {
            Fault::invalid(format!("target {class} is not one of {classes} classes"))
        })?;
        let (image, place) = (at / places, at % places);
        *loss = -weights[class] * log_prob[(image * classes + class) * places + place];
        total += weights[class];
    }
    let sum: f64 = losses.iter().sum();
    match call.string("reduction", "mean")? {
        "none" => stored(x.dtype(), &dims, losses),
        "sum" => stored(x.dtype(), &[], vec![sum]),
        "mean" => stored(x.dtype(), &[], vec![sum / total]),
        other => Err(Fault::invalid(format!("reduction `{other}` is not defined"))),
    }
}

fn negative_log_likelihood_loss(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    call.room(DataType::Double, x.dims())?;
    Ok(vec![likelihood(call, &reals(x)?)?])
}

/// The likelihood loss of the log of the softmax over the classes, which is the second output.
fn softmax_cross_entropy_loss(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (n, classes, places) = sizes(x)?;
    call.room(DataType::Double, x.dims())?;
    let mut values = reals(x)?;
    for start in 0..if values.is_empty() { 0 } else { n * places } {
        let start = start / places * classes * places + start % places;
        let at = |c: usize| start + c * places;
        let top = (0..classes).map(|c| values[at(c)]).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..classes).map(|c| (values[at(c)] - top).exp()).sum();
        (0..classes).for_each(|c| values[at(c)] -= top + sum.ln());
    }
    let loss = likelihood(call, &values)?;
    Ok(vec![loss, stored(x.dtype(), x.dims(), values)?])
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, run, try_all, word};
    use onnxd_ir::{Attr, Tensor};

    #[test]
    fn weighted_likelihood_of_the_definition() {
        let x = [1f32, 2.0, 2.0, 2.0, 3.0, 2.0, 0.0, 1.0, 2.0, 2.0, 1.0, 2.0];
        let x = Tensor::from_vec(vec![2, 3, 2], x.to_vec());
        let target = Tensor::from_vec(vec![2, 2], vec![2i64, 1, 0, 2]);
        let weight = Tensor::vector(vec![0.2f32, 0.3, 0.1]);
        let loss = |reduction| {
            let attrs = [("reduction", word(reduction))];
            run("NegativeLogLikelihoodLoss", 13, &attrs, &[&x, &target, &weight])
        };
        assert_near(&loss("sum"), &[-1.1], 1e-6);
        assert_near(&loss("mean"), &[-1.1 / 0.7], 1e-6);
        assert_near(&loss("none"), &[-0.3, -0.6, 0.0, -0.2], 1e-6);
    }

    #[test]
    fn ignored_targets_do_not_count() {
        let x = Some(Tensor::from_vec(vec![2, 2], vec![0f32, 0.0, 3.0, 4.0]));
        let target = Some(Tensor::vector(vec![1i64, -7]));
        let attrs = [("ignore_index", Attr::Int(-7))];
        let inputs = [x, target];
        let found = try_all("SoftmaxCrossEntropyLoss", 13, &attrs, &inputs, 2).unwrap();
        let half = std::f64::consts::LN_2;
        assert_near(&found[0], &[half], 1e-6);
        assert_near(&found[1], &[-half, -half, -1.313_261_7, -0.313_261_7], 1e-6);
        assert!(try_all("SoftmaxCrossEntropyLoss", 13, &[], &inputs, 1).is_err());
    }

    #[test]
    fn absurd_sizes_of_empty_tensors_are_refused() {
        let x = Tensor::from_vec(vec![1 << 40, 0], Vec::<f32>::new());
        let target = Tensor::from_vec(vec![0], Vec::<i64>::new());
        let inputs = [Some(x), Some(target)];
        let found = try_all("NegativeLogLikelihoodLoss", 13, &[], &inputs, 1);
        assert_eq!(found.unwrap_err().code, "N0305");
    }
}
