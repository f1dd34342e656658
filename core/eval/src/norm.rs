//! Normalization, and Dropout as inference sees it.

use crate::call::{KernelCall, KernelRow, one, raw, rounded, row, widened};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, float, slice};
use crate::parallel::{copied_parts, fill_parts, vectorized};
use crate::reals::{reals, sized, stored};
use crate::steps::AffineStep;
use crate::vector;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("BatchNormalization", batch_normalization),
    raw("Dropout", dropout),
    row("GroupNormalization", group_normalization),
    row("InstanceNormalization", instance_normalization),
    row("LRN", lrn),
    raw("LayerNormalization", layer_normalization),
    row("LpNormalization", lp_normalization),
    row("MeanVarianceNormalization", mean_variance_normalization),
    raw("RMSNormalization", rms_normalization),
];

/// Batch size, channels, elements per channel. A single axis is that of the batch.
fn channels(x: &Tensor) -> Outcome<(usize, usize, usize)> {
    match x.dims() {
        [] => Err(Fault::invalid("a scalar has no channels")),
        [n] => Ok((*n, 1, 1)),
        [n, c, inner @ ..] => Ok((*n, *c, inner.iter().product())),
    }
}

/// A parameter with one element per channel.
fn per_channel<'a, T: Num>(
    call: &KernelCall<'a>,
    i: usize,
    n: usize,
) -> Outcome<std::borrow::Cow<'a, [T]>> {
    let found = call.slice::<T>(i)?;
    refuse!(found.len() != n => "input {i} has {} elements, not {n}", found.len());
    Ok(found)
}

/// Mean and variance of some values, in `f64`.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let (count, sum) = values.clone().fold((0f64, 0f64), |(n, s), v| (n + 1.0, s + v));
    let mean = sum / count;
    (mean, values.map(|v| (v - mean) * (v - mean)).sum::<f64>() / count)
}

impl KernelCall<'_> {
    /// Whether BatchNormalization takes mean and variance from the batch.
    pub(crate) fn trains(&self) -> Outcome<bool> {
        Ok(self.flag("training_mode", false)?
            || (self.opset < 14 && (1..5).any(|i| self.wants(i)))
            || (self.opset < 7 && !self.flag("is_test", false)?))
    }
}

/// What inference does to each of `c` channels.
pub(crate) fn affine<T: Num>(call: &KernelCall, c: usize) -> Outcome<Vec<AffineStep<T>>> {
    let [mean, var] = [3, 4].map(|i| channel_parameter(call, i, c));
    affine_with(call, &mean?, &var?)
}

fn channel_parameter(call: &KernelCall, i: usize, c: usize) -> Outcome<Vec<f64>> {
    sized(call.x(i)?, &[c], "a parameter of the channels")
}

fn affine_with<T: Num>(
    call: &KernelCall,
    mean: &[f64],
    var: &[f64],
) -> Outcome<Vec<AffineStep<T>>> {
    refuse!(!call.flag("spatial", true)? => Fault::unsupported("normalization per activation (spatial = 0)"));
    let epsilon = f64::from(call.float("epsilon", 1e-5)?);
    let [scale, shift] = [1, 2].map(|i| channel_parameter(call, i, mean.len()));
    let (scale, shift) = (scale?, shift?);
    let of = |k: usize| {
        let gain = T::from_f64(scale[k] / (var[k] + epsilon).sqrt());
        AffineStep { mean: T::from_f64(mean[k]), gain, shift: T::from_f64(shift[k]) }
    };
    Ok((0..mean.len()).map(of).collect())
}

/// `(x - mean) / sqrt(var + epsilon) * scale + b`. When training, mean and variance come from the
/// batch; then their running values are outputs too, and those of the batch before opset 14.
fn batch_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (n, c, area) = channels(x)?;
    let training = call.trains()?;
    let [old_mean, old_var] = [3, 4].map(|i| channel_parameter(call, i, c));
    let (old_mean, old_var) = (old_mean?, old_var?);
    let (mut mean, mut var) = (old_mean.clone(), old_var.clone());
    let wide = widened(x)?;
    let y: Tensor = float!(wide.dtype(), T => {
        let mut y = slice::<T>(&wide)?.into_owned();
        if training {
            for k in 0..c {
                let y = &y;
                let values = (0..n).flat_map(move |i| &y[(i * c + k) * area..][..area]);
                (mean[k], var[k]) = moments(values.map(|v| f64::from(*v)));
            }
        }
        let affine = affine_with::<T>(call, &mean, &var)?;
        fill_parts(&mut y, area, 1, &|first, part| {
            for (i, run) in part.chunks_mut(area.max(1)).enumerate() {
                let affine = affine[(first / area.max(1) + i) % c];
                run.iter_mut().for_each(|v| *v = affine.apply(*v));
            }
        });
        Ok(Tensor::from_vec(x.dims(), y))
    })?;
    let mut outputs = vec![rounded(&y, x.dtype())?];
    if training {
        let momentum = f64::from(call.float("momentum", 0.9)?);
        for (i, old, new) in [(3, &old_mean, &mean), (4, &old_var, &var)] {
            let mix = |(old, new)| old * momentum + new * (1.0 - momentum);
            let mixed = old.iter().zip(new).map(mix).collect();
            outputs.push(stored(call.x(i)?.dtype(), &[c], mixed)?);
        }
        if call.opset < 14 {
            outputs.push(stored(call.x(3)?.dtype(), &[c], mean)?);
            outputs.push(stored(call.x(4)?.dtype(), &[c], var)?);
        }
    }
    Ok(outputs)
}

/// What normalizes a run: its number, mean and inverse deviation, and its elements, which it replaces.
type OneRun<'f, T> = dyn Fn(usize, (f64, f64), &mut [T]) + Sync + 'f;

/// Normalizes runs of `run` elements.
fn over_runs<T: Num>(values: &[T], run: usize, epsilon: f64, apply: &OneRun<T>) -> Vec<T> {
    copied_parts(values, run, 4, &|first, part| {
        for (i, run) in part.chunks_mut(run.max(1)).enumerate() {
            let (mean, var) = vector::moments(run);
            apply(first / run.len() + i, (mean, (var + epsilon).sqrt().recip()), run);
        }
    })
}

/// The same, where parts of `area` elements have a scale and shift in common: those of channel `(run, part)`.
fn over_channels<T: Num>(
    values: &[T],
    (run, area): (usize, usize),
    epsilon: f64,
    affine: &(dyn Fn(usize, usize) -> (f64, f64) + Sync),
) -> Vec<T> {
    over_runs(values, run, epsilon, &|i, moments, run| {
        let parts = run.chunks_mut(area.max(1)).enumerate();
        parts.for_each(|(k, part)| normalize(moments, affine(i, k), part));
    })
}

vectorized! {
    /// Normalizes by mean and inverse deviation; one scale and shift for all.
    fn normalize<T: Num>(moments: (f64, f64), affine: (f64, f64), run: &mut [T]) {
        let ((mean, gain), (scale, shift)) = (moments, affine);
        for v in run {
            *v = T::from_f64((v.to_f64() - mean) * gain * scale + shift);
        }
    }
}

vectorized! {
    /// The same with a scale and shift for each element.
    fn normalize_each<T: Num>(moments: (f64, f64), affine: (&[f64], &[f64]), run: &mut [T]) {
        let (mean, gain) = moments;
        for (v, (scale, shift)) in run.iter_mut().zip(affine.0.iter().zip(affine.1)) {
            *v = T::from_f64((v.to_f64() - mean) * gain * scale + shift);
        }
    }
}

fn instance_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (_, c, area) = channels(x)?;
    let epsilon = f64::from(call.float("epsilon", 1e-5)?);
    float!(x.dtype(), T => {
        let (scale, b) = (per_channel::<T>(call, 1, c)?, per_channel::<T>(call, 2, c)?);
        let affine = |i: usize, _| (f64::from(scale[i % c]), f64::from(b[i % c]));
        let y = over_channels(&call.slice::<T>(0)?, (area, area), epsilon, &affine);
        one(Tensor::from_vec(x.dims(), y))
    })
}

/// Scale and bias count per group in opset 18, per channel since 21.
fn group_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (_, c, area) = channels(x)?;
    let groups = usize::try_from(call.int("num_groups", 0)?).unwrap_or(0);
    refuse!(groups == 0 || c % groups != 0 => "{c} channels do not divide into {groups} groups");
    let epsilon = f64::from(call.float("epsilon", 1e-5)?);
    let run = c / groups * area;
    let parameters = if call.opset < 21 { groups } else { c };
    float!(x.dtype(), T => {
        let scale = per_channel::<T>(call, 1, parameters)?;
        let b = per_channel::<T>(call, 2, parameters)?;
        let affine = |i: usize, part: usize| {
            let k = (i % groups * (c / groups) + part) / (c / parameters);
            (f64::from(scale[k]), f64::from(b[k]))
        };
        let y = over_channels(&call.slice::<T>(0)?, (run, area), epsilon, &affine);
        one(Tensor::from_vec(x.dims(), y))
    })
}

/// A parameter that broadcasts to the normalized axes, repeated to their sizes.
fn spread(x: &Tensor, to: &[usize]) -> Outcome<Vec<f64>> {
    refuse!(dims::broadcast(x.dims(), to)? != to => "{x:?} does not broadcast to {to:?}");
    reals(&crate::cells::expanded(x, to)?)
}

/// Normalizes everything from `axis` on; also gives mean and inverse standard deviation, which have
/// the type named by `stash_type`.
fn layer_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axis = dims::axis(call.int("axis", -1)?, x.rank())?;
    let epsilon = f64::from(call.float("epsilon", 1e-5)?);
    let stash = i32::try_from(call.int("stash_type", 1)?).ok().and_then(DataType::from_number);
    let stash = stash.filter(|t| t.is_float());
    let stash = stash.ok_or_else(|| Fault::invalid("stash_type names no float type"))?;
    let (outer, inner) = x.dims().split_at(axis);
    let run: usize = inner.iter().product();
    // Scale and shift may also vary along the outer axes, as far as they broadcast.
    let is_full_shape = call.x(1)?.rank() > inner.len();
    let to = if is_full_shape { x.dims() } else { inner };
    let scale = spread(call.x(1)?, to)?;
    let shift = call.opt(2).map(|b| spread(b, to)).transpose()?;
    let shift = shift.unwrap_or_else(|| vec![0.0; scale.len()]);
    let wide = widened(x)?;
    let kept = [outer, &vec![1; inner.len()]].concat();
    float!(wide.dtype(), T => {
        let values = slice::<T>(&wide)?;
        let y = over_runs(&values, run, epsilon, &|i, moments, part| {
            let from = if is_full_shape { i * run } else { 0 };
            normalize_each(moments, (&scale[from..], &shift[from..]), part);
        });
        let y = Tensor::from_vec(x.dims(), y);
        let mut outputs = vec![rounded(&y, x.dtype())?];
        if !call.wants(1) && !call.wants(2) {
            return Ok(outputs);
        }
        let stats: Vec<(f64, f64)> =
            values.chunks(run.max(1)).map(vector::moments).collect();
        if stats.len() == kept.iter().product::<usize>() {
            let deviation = stats.iter().map(|s| (s.1 + epsilon).sqrt().recip()).collect();
            outputs.push(stored(stash, &kept, stats.iter().map(|s| s.0).collect())?);
            outputs.push(stored(stash, &kept, deviation)?);
        }
        Ok(outputs)
    })
}

/// The result has the type of the scale.
fn rms_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, scale) = (call.x(0)?, call.x(1)?);
    let axis = dims::axis(call.int("axis", -1)?, x.rank())?;
    let epsilon = f64::from(call.float("epsilon", 1e-5)?);
    let run: usize = x.dims()[axis..].iter().product();
    let gains = spread(scale, &x.dims()[axis..])?;
    let mut y = reals(x)?;
    for part in y.chunks_mut(run.max(1)) {
        let square: f64 = part.iter().map(|v| v * v).sum();
        let gain = (square / run as f64 + epsilon).sqrt().recip();
        part.iter_mut().zip(&gains).for_each(|(v, s)| *v *= gain * s);
    }
    one(stored(scale.dtype(), x.dims(), y)?)
}

/// `(x - mean) / sqrt(var)` over `axes`, by default all but the channels.
fn mean_variance_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axes = dims::axes(call.ints("axes")?.unwrap_or(&[0, 2, 3]), x.rank())?;
    let kept: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let perm = [kept.clone(), axes.clone()].concat();
    let turned = crate::cells::transposed(x, &perm)?;
    let run: usize = axes.iter().map(|a| x.dims()[*a]).product();
    float!(x.dtype(), T => {
        let mut y = slice::<T>(&turned)?.into_owned();
        for part in y.chunks_mut(run.max(1)) {
            let (mean, var) = vector::moments(part);
            let deviation = var.sqrt() + 1e-9;
            part.iter_mut().for_each(|v| *v = ((f64::from(*v) - mean) / deviation) as T);
        }
        let mut back = vec![0; perm.len()];
        perm.iter().enumerate().for_each(|(i, a)| back[*a] = i);
        one(crate::cells::transposed(&Tensor::from_vec(turned.dims(), y), &back)?)
    })
}

/// `x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta`.
fn lrn(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (n, c, area) = channels(x)?;
    let size = usize::try_from(call.int("size", 0)?).unwrap_or(0);
    refuse!(size == 0 || x.rank() < 2 => "size {size} does not fit {x:?}");
    let [alpha, beta, bias] = [("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)]
        .map(|(name, default)| call.float(name, default).map(f64::from));
    let (alpha, beta, bias) = (alpha?, beta?, bias?);
    let (back, ahead) = ((size - 1) / 2, size / 2);
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut y = values.to_vec();
        for image in 0..n {
            let first = image * c * area;
            for k in 0..c {
                let around = k.saturating_sub(back)..k.saturating_add(ahead + 1).min(c);
                for i in 0..area {
                    let at = |k: usize| f64::from(values[first + k * area + i]);
                    let square: f64 = around.clone().map(|j| at(j) * at(j)).sum();
                    let scale = (bias + alpha / size as f64 * square).powf(beta);
                    y[first + k * area + i] = (at(k) / scale) as T;
                }
            }
        }
        one(Tensor::from_vec(x.dims(), y))
    })
}

/// Divides by the 1- or 2-norm along an axis; a run of zeros stays as it is.
fn lp_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (outer, size, inner) = dims::around(x.dims(), dims::axis(call.int("axis", -1)?, x.rank())?);
    let p = call.int("p", 2)?;
    refuse!(!matches!(p, 1 | 2) => "the norm of order {p} is not defined here");
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut y = values.to_vec();
        for start in (0..outer).flat_map(|o| (0..inner).map(move |i| o * size * inner + i)) {
            let run = || (0..size).map(|k| f64::from(values[start + k * inner]));
            let norm = if p == 1 {
                run().map(f64::abs).sum::<f64>()
            } else {
                run().map(|v| v * v).sum::<f64>().sqrt()
            };
            if norm != 0.0 {
                run().enumerate().for_each(|(k, v)| y[start + k * inner] = (v / norm) as T);
            }
        }
        one(Tensor::from_vec(x.dims(), y))
    })
}

/// The input, and a mask that keeps everything.
fn dropout(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let trains = match call.opt(2) {
        Some(mode) => crate::call::scalar(mode)? != 0.0,
        None => false,
    };
    let ratio = call.scalar_opt(1)?.unwrap_or(0.5);
    refuse!(trains && ratio != 0.0 => Fault::unsupported("training draws random numbers"));
    let mut outputs = vec![x.clone()];
    if call.wants(1) {
        let dtype = if call.opset < 10 { x.dtype() } else { DataType::Bool };
        let ones = Tensor::from_vec_as(DataType::Bool, x.dims(), vec![1u8; x.len()]);
        outputs.push(if dtype == DataType::Bool {
            ones
        } else {
            crate::shape::cast(&ones, dtype)?
        });
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, reals, run, try_all};
    use onnxd_ir::{Attr, Tensor};

    #[test]
    fn batch_normalization_is_affine_per_channel() {
        let x = Tensor::from_vec(vec![1, 2, 2], vec![1f32, 2.0, 3.0, 4.0]);
        let [scale, b, mean, var] =
            [[4f32, 5.0], [4.0, 5.0], [1.0, 1.0], [4.0, 1.0]].map(|v| Tensor::vector(v.to_vec()));
        let attrs = [("epsilon", Attr::Float(0.0))];
        let y = run("BatchNormalization", 15, &attrs, &[&x, &scale, &b, &mean, &var]);
        assert_eq!(reals(&y), [4.0, 6.0, 15.0, 20.0]);
    }

    #[test]
    fn layer_normalization_gives_its_statistics() {
        let x = Tensor::from_vec(vec![2, 2], vec![1f32, 3.0, 5.0, 5.0]);
        let scale = Tensor::vector(vec![1f32, 2.0]);
        let attrs = [("epsilon", Attr::Float(1.0))];
        let found = try_all("LayerNormalization", 17, &attrs, &[Some(x), Some(scale)], 3).unwrap();
        let inverse = 0.5f64.sqrt();
        assert_near(&found[0], &[-inverse, 2.0 * inverse, 0.0, 0.0], 1e-6);
        assert_eq!(reals(&found[1]), [2.0, 5.0]);
        assert_near(&found[2], &[inverse, 1.0], 1e-6);
    }

    #[test]
    fn group_parameters_changed_in_opset_21() {
        let x = Tensor::from_vec(vec![1, 4, 1], vec![-1f32, 1.0, -1.0, 1.0]);
        let attrs = [("num_groups", Attr::Int(2)), ("epsilon", Attr::Float(0.0))];
        let [scale, b] = [[1f32, 2.0], [0.0, 0.0]].map(|v| Tensor::vector(v.to_vec()));
        let y = run("GroupNormalization", 18, &attrs, &[&x, &scale, &b]);
        assert_eq!(reals(&y), [-1.0, 1.0, -2.0, 2.0]);
        let [scale, b] = [[1f32, 2.0, 3.0, 4.0], [0.0; 4]].map(|v| Tensor::vector(v.to_vec()));
        let y = run("GroupNormalization", 21, &attrs, &[&x, &scale, &b]);
        assert_eq!(reals(&y), [-1.0, 2.0, -3.0, 4.0]);
    }

    #[test]
    fn local_response() {
        let x = Tensor::from_vec(vec![1, 3, 1, 1], vec![1f32, 2.0, 3.0]);
        let attrs =
            [("size", Attr::Int(2)), ("alpha", Attr::Float(2.0)), ("beta", Attr::Float(1.0))];
        let y = run("LRN", 13, &attrs, &[&x]);
        assert_near(&y, &[1.0 / 6.0, 2.0 / 14.0, 3.0 / 10.0], 1e-6);
    }

    #[test]
    fn zeros_have_no_direction() {
        let x = Tensor::from_vec(vec![2, 2], vec![3f32, 4.0, 0.0, 0.0]);
        assert_near(&run("LpNormalization", 1, &[], &[&x]), &[0.6, 0.8, 0.0, 0.0], 1e-7);
    }
}
