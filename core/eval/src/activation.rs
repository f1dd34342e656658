//! Activations.

use crate::call::{KernelCall, KernelRow, one, row};
use crate::dims;
use crate::elementwise::{map, of_floats, zip};
use crate::fault::{Fault, Outcome};
use crate::math::erf;
use crate::num::{Num, float, numeric, slice};
use crate::parallel::{copied_parts, fill_parts};
use crate::reals::{reals, stored};
use crate::steps::Limits;
use crate::vector;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    row("Celu", celu),
    row("Clip", clip),
    row("Elu", elu),
    row("Gelu", gelu),
    row("HardSigmoid", hard_sigmoid),
    row("HardSwish", hard_swish),
    row("Hardmax", |call| over_runs(call, from_axis(call)?, hardmax_run)).until(12),
    row("Hardmax", |call| over_runs(call, along_axis(call)?, hardmax_run)).since(13),
    row("LeakyRelu", leaky_relu),
    row("LogSoftmax", |call| log_softmax(call, from_axis(call)?)).until(12),
    row("LogSoftmax", |call| log_softmax(call, along_axis(call)?)).since(13),
    row("Mish", mish),
    row("PRelu", prelu),
    row("Relu", relu),
    row("Selu", selu),
    row("Shrink", shrink),
    row("Sigmoid", sigmoid),
    row("Softmax", |call| softmax(call, from_axis(call)?)).until(12),
    row("Softmax", |call| softmax(call, along_axis(call)?)).since(13),
    row("Softplus", softplus),
    row("Softsign", softsign),
    row("SwiGLU", swiglu),
    row("Swish", swish),
    row("Tanh", tanh),
    row("ThresholdedRelu", thresholded_relu),
];

fn relu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    if let Some(found) = of_floats(call, &vector::rectify)? {
        return Ok(found);
    }
    let x = call.x(0)?;
    numeric!(x.dtype(), T => one(map(x, |v: T| v.larger(T::default()))?))
}

/// A function of a float element with parameters from the attributes, and the kernel for those of 32 bits, if one is
/// faster.
macro_rules! activations {
    ($(
        $name:ident($($attr:ident = $default:expr),*) $x:ident => $y:expr $(, by $kernel:ident($($p:ident),*))?;
    )*) => { $(
        fn $name(call: &KernelCall) -> Outcome<Vec<Tensor>> {
            $(let $attr = call.float(stringify!($attr), $default)?;)*
            $(
                let kernel = |run: &mut [f32]| vector::$kernel($($p,)* run);
                if let Some(found) = of_floats(call, &kernel)? {
                    return Ok(found);
                }
            )?
            let x = call.x(0)?;
            float!(x.dtype(), T => {
                $(let $attr = T::from($attr);)*
                one(map(x, |$x: T| $y)?)
            })
        }
    )* };
}

activations! {
    celu_by_definition(alpha = 1.0) x => x.max(0.0) + (alpha * (x / alpha).exp_m1()).min(0.0);
    elu(alpha = 1.0) x => if x < 0.0 { alpha * x.exp_m1() } else { x }, by elus(alpha);
    hard_sigmoid(alpha = 0.2, beta = 0.5) x => (alpha * x + beta).clamp(0.0, 1.0), by hard_sigmoids(alpha, beta);
    hard_swish() x => x * (x / 6.0 + 0.5).clamp(0.0, 1.0), by hard_swishes();
    leaky_relu(alpha = 0.01) x => if x < 0.0 { alpha * x } else { x };
    mish() x => x * softplus_of(f64::from(x)).tanh() as T, by mishes();
    selu(alpha = 1.673_263_2, gamma = 1.050_701) x =>
        gamma * if x > 0.0 { x } else { alpha * x.exp_m1() }, by selus(alpha, gamma);
    shrink(lambd = 0.5, bias = 0.0) x =>
        if x < -lambd { x + bias } else if x > lambd { x - bias } else { 0.0 };
    sigmoid() x => ((-x).exp() + 1.0).recip(), by sigmoids();
    softplus() x => softplus_of(f64::from(x)) as T, by softpluses();
    softsign() x => x / (1.0 + x.abs()), by softsigns();
    swish(alpha = 1.0) x => x / (1.0 + (-alpha * x).exp()), by swishes(alpha);
    tanh() x => x.tanh(), by tanhs();
    thresholded_relu(alpha = 1.0) x => if x > alpha { x } else { 0.0 };
}

/// By the kernel where the exponential is of nothing positive.
fn celu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let alpha = call.float("alpha", 1.0)?;
    let kernel = |run: &mut [f32]| vector::celus(alpha, run);
    match (alpha > 0.0).then(|| of_floats(call, &kernel)).transpose()?.flatten() {
        Some(found) => Ok(found),
        None => celu_by_definition(call),
    }
}

/// `ln(1 + exp(x))` without overflow.
fn softplus_of(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// A function of one number, and the kernel for many.
type Forms = (fn(f64) -> f64, vector::InPlace);

/// The form that the node names.
pub(crate) fn gelu_kernel(call: &KernelCall) -> Outcome<Forms> {
    let exact = |x: f64| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2));
    let tanh = |x: f64| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    };
    match call.string("approximate", "none")? {
        "none" => Ok((exact, vector::gelus)),
        "tanh" => Ok((tanh, vector::gelus_by_tanh)),
        other => Err(Fault::invalid(format!("approximation `{other}` is not defined"))),
    }
}

fn gelu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (f, kernel) = gelu_kernel(call)?;
    if let Some(found) = of_floats(call, &kernel)? {
        return Ok(found);
    }
    let x = call.x(0)?;
    float!(x.dtype(), T => one(map(x, |v: T| f(f64::from(v)) as T)?))
}

fn prelu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, slope) = (call.x(0)?, call.x(1)?);
    // Before opset 7 a slope per channel was aligned with axis 1.
    let slope = match slope.rank() {
        1 if call.opset < 7 && x.rank() > 2 && slope.len() > 1 => {
            slope.reshaped([&[slope.len()][..], &vec![1; x.rank() - 2]].concat())?
        }
        _ => slope.clone(),
    };
    numeric!(x.dtype(), T => {
        let f = |v: T, s: T| if v < T::default() { v.times(s) } else { v };
        one(zip(call, x.dtype(), (x, &slope), f)?)
    })
}

/// Swish of the gate times the value; the two do not broadcast.
fn swiglu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (gate, x) = (call.x(0)?, call.x(1)?);
    refuse!(gate.dims() != x.dims() || gate.dtype() != x.dtype() => "{gate:?} and {x:?} differ in type or shape");
    let alpha = f64::from(call.float("alpha", 1.0)?);
    let mut y = reals(gate)?;
    for (y, x) in y.iter_mut().zip(reals(x)?) {
        *y = *y / (1.0 + (-alpha * *y).exp()) * x;
    }
    one(stored(x.dtype(), x.dims(), y)?)
}

/// The limits of Clip, which moved from attributes to inputs in opset 11.
pub(crate) fn limits<T: Num>(call: &KernelCall) -> Outcome<Limits<T>> {
    let limit = |name: &str, i: usize| -> Outcome<Option<T>> {
        if let Some(value) = call.float_opt(name)? {
            return Ok(Some(T::from_f64(f64::from(value))));
        }
        let Some(limit) = call.opt(i) else { return Ok(None) };
        match slice::<T>(limit)?.as_ref() {
            [value] => Ok(Some(*value)),
            _ => Err(Fault::invalid(format!("limit {limit:?} is not a scalar"))),
        }
    };
    Ok(Limits { low: limit("min", 1)?, high: limit("max", 2)? })
}

fn clip(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    numeric!(x.dtype(), T => {
        let limits = limits::<T>(call)?;
        one(map(x, |v: T| limits.clip(v))?)
    })
}

/// Sizes of the runs that are normalized together: before, along, behind.
type Runs = (usize, usize, usize);

/// Since opset 13: one axis, the last by default.
fn along_axis(call: &KernelCall) -> Outcome<Runs> {
    let x = call.x(0)?;
    if x.rank() == 0 {
        return Ok((1, 1, 1));
    }
    Ok(dims::around(x.dims(), dims::axis(call.int("axis", -1)?, x.rank())?))
}

/// Before opset 13: everything from `axis` (1 by default) on together.
fn from_axis(call: &KernelCall) -> Outcome<Runs> {
    let x = call.x(0)?;
    let axis = call.int("axis", 1)?;
    let axis = if axis == x.rank() as i64 { x.rank() } else { dims::axis(axis, x.rank().max(1))? };
    let axis = axis.min(x.rank());
    Ok((x.dims()[..axis].iter().product(), x.dims()[axis..].iter().product(), 1))
}

/// Replaces every run by `f` of it; `f` works in `f64`.
fn over_runs(call: &KernelCall, runs: Runs, f: fn(&mut [f64])) -> Outcome<Vec<Tensor>> {
    let (_, along, behind) = runs;
    let x = call.x(0)?;
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut out = vec![T::default(); values.len()];
        let slab = along * behind;
        fill_parts(&mut out, slab, 8, &|first, part| {
            let mut run = vec![0f64; along];
            let sources = values[first..].chunks(slab.max(1));
            for (out, x) in part.chunks_mut(slab.max(1)).zip(sources) {
                for inner in 0..behind {
                    let elements = x.iter().skip(inner).step_by(behind);
                    run.iter_mut().zip(elements).for_each(|(r, x)| *r = f64::from(*x));
                    f(&mut run);
                    let elements = out.iter_mut().skip(inner).step_by(behind);
                    elements.zip(&run).for_each(|(y, r)| *y = *r as T);
                }
            }
        });
        one(Tensor::from_vec(x.dims(), out))
    })
}

/// Replaces contiguous `float` runs, which is what attention has.
fn over_contiguous(x: &Tensor, along: usize, f: vector::InPlace) -> Outcome<Vec<Tensor>> {
    let y = copied_parts(&slice::<f32>(x)?, along, vector::COST, &|_, part| {
        part.chunks_mut(along.max(1)).for_each(f);
    });
    one(Tensor::from_vec(x.dims(), y))
}

fn largest(run: &[f64]) -> f64 {
    run.iter().copied().fold(f64::NEG_INFINITY, Num::larger)
}

fn softmax_run(run: &mut [f64]) {
    let top = largest(run);
    run.iter_mut().for_each(|x| *x = (*x - top).exp());
    let sum: f64 = run.iter().sum();
    run.iter_mut().for_each(|x| *x /= sum);
}

fn log_softmax_run(run: &mut [f64]) {
    let top = largest(run);
    let sum: f64 = run.iter().map(|x| (x - top).exp()).sum();
    run.iter_mut().for_each(|x| *x -= top + sum.ln());
}

/// One at the first largest element.
fn hardmax_run(run: &mut [f64]) {
    let top = largest(run);
    let first = run.iter().position(|x| *x == top);
    run.iter_mut().enumerate().for_each(|(i, x)| *x = f64::from(u8::from(Some(i) == first)));
}

/// `contiguous` where the elements of a run of `float`s lie beside each other, `run` elsewhere.
fn exponentials(
    call: &KernelCall,
    runs: Runs,
    contiguous: vector::InPlace,
    run: fn(&mut [f64]),
) -> Outcome<Vec<Tensor>> {
    match (call.x(0)?, runs) {
        (x, (_, along, 1)) if x.dtype() == DataType::Float => over_contiguous(x, along, contiguous),
        _ => over_runs(call, runs, run),
    }
}

fn softmax(call: &KernelCall, runs: Runs) -> Outcome<Vec<Tensor>> {
    exponentials(call, runs, vector::softmax, softmax_run)
}

fn log_softmax(call: &KernelCall, runs: Runs) -> Outcome<Vec<Tensor>> {
    exponentials(call, runs, vector::log_softmax, log_softmax_run)
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, reals, run};
    use onnxd_ir::{Attr, Tensor};

    #[test]
    fn softmax_changed_its_axes_in_opset_13() {
        let x = Tensor::from_vec(vec![1, 2, 2], vec![0f32; 4]);
        assert_near(&run("Softmax", 11, &[], &[&x]), &[0.25; 4], 1e-7);
        assert_near(&run("Softmax", 13, &[], &[&x]), &[0.5; 4], 1e-7);
        let first = [("axis", Attr::Int(0))];
        assert_near(&run("Softmax", 13, &first, &[&x]), &[1.0; 4], 1e-7);
        assert_near(&run("Softmax", 11, &first, &[&x]), &[0.25; 4], 1e-7);
        let large = Tensor::vector(vec![1000f32, 1000.0]);
        assert_near(&run("LogSoftmax", 13, &[], &[&large]), &[-std::f64::consts::LN_2; 2], 1e-6);
    }

    #[test]
    fn clip_of_both_eras() {
        let x = Tensor::vector(vec![-2f32, 0.5, 7.0, f32::NAN]);
        let attrs = [("min", Attr::Float(0.0)), ("max", Attr::Float(6.0))];
        assert_near(&run("Clip", 6, &attrs, &[&x]), &[0.0, 0.5, 6.0, f64::NAN], 0.0);
        let x = Tensor::vector(vec![-2i8, 5, 100]);
        let (low, high) = (Tensor::scalar(0i8), Tensor::scalar(6i8));
        assert_eq!(run("Clip", 13, &[], &[&x, &low, &high]).to_i64s().unwrap(), [0, 5, 6]);
    }

    #[test]
    fn rectifiers() {
        let x = Tensor::vector(vec![-2f32, 0.0, 3.0]);
        assert_eq!(reals(&run("Relu", 14, &[], &[&x])), [0.0, 0.0, 3.0]);
        let alpha = [("alpha", Attr::Float(0.5))];
        assert_eq!(reals(&run("LeakyRelu", 6, &alpha, &[&x])), [-1.0, 0.0, 3.0]);
        let slope = Tensor::scalar(0.25f32);
        assert_eq!(reals(&run("PRelu", 9, &[], &[&x, &slope])), [-0.5, 0.0, 3.0]);
        let swish = run("HardSwish", 14, &[], &[&x]);
        assert_near(&swish, &[-1.0 / 3.0, 0.0, 3.0], 1e-6);
    }

    #[test]
    fn smooth_functions() {
        let x = Tensor::vector(vec![-1f32, 0.0, 1.0, 100.0]);
        let near = |op, opset, expected: [f64; 4]| {
            assert_near(&run(op, opset, &[], &[&x]), &expected, 1e-6);
        };
        near("Sigmoid", 13, [0.268_941_42, 0.5, 0.731_058_6, 1.0]);
        near("Softplus", 1, [0.313_261_69, std::f64::consts::LN_2, 1.313_261_7, 100.0]);
        near("Gelu", 20, [-0.158_655_25, 0.0, 0.841_344_75, 100.0]);
        near("Elu", 6, [-0.632_120_56, 0.0, 1.0, 100.0]);
        near("Softsign", 1, [-0.5, 0.0, 0.5, 100.0 / 101.0]);
    }
}
