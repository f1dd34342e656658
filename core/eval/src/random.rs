//! Random numbers. The standard leaves the generator open; this one gives equal numbers for equal
//! seeds on every machine, so that runs repeat and two forms of a network can be compared.
//!
//! Bits come from SplitMix64, seeded with the bits of the attribute `seed` (0 if absent). Every
//! application of a node starts anew: it draws the same numbers each time, also in a loop. What is
//! made of the bits uses only exact or correctly rounded operations, no logarithm or exponential of
//! the platform.

use crate::call::{KernelCall, KernelRow, one, raw};
use crate::dims::{size, sizes};
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, stored};
use crate::shape::{cast, dtype_attr};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("Bernoulli", bernoulli),
    raw("Multinomial", multinomial),
    raw("RandomNormal", |call| normals(call, described(call)?)),
    raw("RandomNormalLike", |call| normals(call, alike(call)?)),
    raw("RandomUniform", |call| uniforms(call, described(call)?)),
    raw("RandomUniformLike", |call| uniforms(call, alike(call)?)),
];

/// The stream of a seed.
#[derive(Clone, Debug)]
pub struct RandomStream {
    state: u64,
}

impl RandomStream {
    /// Equal numbers for equal seeds.
    #[must_use]
    pub fn new(seed: u64) -> RandomStream {
        RandomStream { state: seed }
    }

    fn from_call(call: &KernelCall) -> Outcome<RandomStream> {
        Ok(RandomStream { state: u64::from(call.float("seed", 0.0)?.to_bits()) })
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1, a multiple of 2^-digits.
    fn unit(&mut self, digits: u32) -> f64 {
        (self.bits() >> (64 - digits)) as f64 / (1u64 << digits) as f64
    }

    /// From 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        self.unit(53)
    }

    /// True with probability `exp(-a)`, for `a` from 0 to 1, after von Neumann: a run that goes on
    /// at step n with probability a/n has at least n steps with probability a^n/n!, so an even
    /// number of them with the sum of (-a)^n/n!.
    fn survives(&mut self, a: f64) -> bool {
        let mut n = 0u32;
        while self.fraction() * f64::from(n + 1) < a {
            n += 1;
        }
        n.is_multiple_of(2)
    }

    fn survives_all(&mut self, a: f64, times: u32) -> bool {
        (0..times).all(|_| self.survives(a))
    }

    /// A standard normal number, by rejection after Karney: the whole part k and the fraction x of
    /// its magnitude are kept with probabilities whose product is exp(-(k + x)^2 / 2).
    pub fn normal(&mut self) -> f64 {
        loop {
            let mut k = 0u32;
            while self.survives(0.5) {
                k += 1;
            }
            if !self.survives_all(0.5, k.saturating_mul(k.saturating_sub(1))) {
                continue;
            }
            let (whole, x) = (f64::from(k), self.fraction());
            if self.survives_all(x * (2.0 * whole + x) / (2.0 * whole + 2.0), k + 1) {
                let magnitude = whole + x;
                return if self.bits() >> 63 == 0 { magnitude } else { -magnitude };
            }
        }
    }
}

/// `exp(-a)` for `a >= 0`, by the series for a small part of `a` and squaring.
fn decay(a: f64) -> f64 {
    const HALVINGS: i32 = 12;
    let part = -a.min(750.0) / f64::from(1 << HALVINGS);
    let small = (1..=12).rev().fold(1.0, |sum, n| 1.0 + sum * part / f64::from(n));
    (0..HALVINGS).fold(small, |y, _| y * y)
}

/// Significant bits of a float type.
fn digits(dtype: DataType) -> Outcome<u32> {
    match dtype {
        DataType::Float => Ok(24),
        DataType::Double => Ok(53),
        DataType::Float16 => Ok(11),
        DataType::Bfloat16 => Ok(8),
        other => Err(Fault::invalid(format!("random numbers of type {other}"))),
    }
}

/// Element type and sizes of a tensor made from attributes.
fn described(call: &KernelCall) -> Outcome<(DataType, Vec<usize>)> {
    let shape = call.ints("shape")?.ok_or_else(|| Fault::invalid("`shape` is missing"))?;
    Ok((dtype_attr(call, "dtype")?.unwrap_or(DataType::Float), sizes(shape)?))
}

/// Element type and sizes of a tensor like the input.
fn alike(call: &KernelCall) -> Outcome<(DataType, Vec<usize>)> {
    let x = call.x(0)?;
    Ok((dtype_attr(call, "dtype")?.unwrap_or(x.dtype()), x.dims().to_vec()))
}

fn drawn(
    call: &KernelCall,
    (dtype, dims): (DataType, Vec<usize>),
    mut number: impl FnMut() -> f64,
) -> Outcome<Vec<Tensor>> {
    let count = call.room(DataType::Double, &dims)?;
    one(stored(dtype, &dims, (0..count).map(|_| number()).collect())?)
}

fn normals(call: &KernelCall, form: (DataType, Vec<usize>)) -> Outcome<Vec<Tensor>> {
    digits(form.0)?;
    let mut source = RandomStream::from_call(call)?;
    let (mean, scale) = (call.float("mean", 0.0)?, call.float("scale", 1.0)?);
    let (mean, scale) = (f64::from(mean), f64::from(scale));
    drawn(call, form, || mean + scale * source.normal())
}

fn uniforms(call: &KernelCall, form: (DataType, Vec<usize>)) -> Outcome<Vec<Tensor>> {
    let digits = digits(form.0)?;
    let mut source = RandomStream::from_call(call)?;
    let (low, high) = (f64::from(call.float("low", 0.0)?), f64::from(call.float("high", 1.0)?));
    drawn(call, form, || low + (high - low) * source.unit(digits))
}

/// 1 with the probability that the input holds, else 0.
fn bernoulli(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let dtype = dtype_attr(call, "dtype")?.unwrap_or(x.dtype());
    call.room(dtype, x.dims())?;
    call.room(DataType::Double, x.dims())?;
    let mut source = RandomStream::from_call(call)?;
    let draw = |p: &f64| match (0.0..=1.0).contains(p) {
        true => Ok(u8::from(source.fraction() < *p)),
        false => Err(Fault::invalid(format!("{p} is no probability"))),
    };
    let drawn = reals(x)?.iter().map(draw).collect::<Outcome<Vec<u8>>>()?;
    one(cast(&Tensor::from_vec(x.dims(), drawn), dtype)?)
}

/// For each row of logarithms of weights, some classes, drawn by their weights.
fn multinomial(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let [rows, classes] = *x.dims() else {
        return Err(Fault::invalid(format!("{x:?} is not a matrix")));
    };
    let dtype = dtype_attr(call, "dtype")?.unwrap_or(DataType::Int32);
    refuse!(!matches!(dtype, DataType::Int32 | DataType::Int64) => "classes of type {dtype}");
    let samples = size(call.int("sample_size", 1)?)?;
    let mut drawn = Vec::with_capacity(call.room(DataType::Int64, &[rows, samples])?);
    call.room(DataType::Double, x.dims())?;
    let mut source = RandomStream::from_call(call)?;
    let weights = reals(x)?;
    for row in weights.chunks(classes.max(1)) {
        let sums = running(row)?;
        let total = sums.last().copied().unwrap_or(0.0);
        for _ in 0..samples {
            let at = source.fraction() * total;
            drawn.push(sums.partition_point(|sum| *sum <= at) as i64);
        }
    }
    refuse!(drawn.len() < rows * samples => "{x:?} has no class to draw");
    one(cast(&Tensor::from_vec([rows, samples], drawn), dtype)?)
}

/// Running sums of the weights of a row of logarithms, relative to the largest.
fn running(row: &[f64]) -> Outcome<Vec<f64>> {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    refuse!(row.iter().any(|v| v.is_nan()) || !top.is_finite() => "a row of logarithms gives no probabilities");
    let mut sum = 0.0;
    let add = |v: &f64| {
        sum += decay(top - v);
        sum
    };
    Ok(row.iter().map(add).collect())
}

#[cfg(test)]
mod tests {
    use super::decay;
    use crate::testing::{ints, reals, run, try_run};
    use onnxd_ir::{Attr, DataType, Tensor};

    const FLOATS: [DataType; 4] =
        [DataType::Float, DataType::Double, DataType::Float16, DataType::Bfloat16];

    /// The mean of the k-th powers.
    fn moment(values: &[f64], k: i32) -> f64 {
        values.iter().map(|v| v.powi(k)).sum::<f64>() / values.len() as f64
    }

    fn number(dtype: DataType) -> Attr {
        Attr::Int(dtype.number().into())
    }

    #[test]
    fn normal_numbers_have_the_moments_and_tails_of_their_distribution() {
        for (dtype, seed) in FLOATS.iter().zip([0.0f32, 1.0, 2.5, -3.0]) {
            let attrs = [
                ("shape", ints(&[40, 1000])),
                ("dtype", number(*dtype)),
                ("mean", Attr::Float(2.0)),
                ("scale", Attr::Float(0.5)),
                ("seed", Attr::Float(seed)),
            ];
            let y = run("RandomNormal", 22, &attrs, &[]);
            assert_eq!((y.dtype(), y.dims()), (*dtype, &[40usize, 1000][..]));
            let z: Vec<f64> = reals(&y).iter().map(|v| (v - 2.0) / 0.5).collect();
            // Five deviations of each estimate over 40,000 numbers, and the rounding of bfloat16.
            for (k, moments, bound) in
                [(1, 0.0, 0.03), (2, 1.0, 0.04), (3, 0.0, 0.1), (4, 3.0, 0.25)]
            {
                assert!((moment(&z, k) - moments).abs() < bound, "{dtype} moment {k}");
            }
            let beyond = |t: f64| z.iter().filter(|v| v.abs() > t).count() as f64 / 4e4;
            assert!((beyond(1.0) - 0.3173).abs() < 0.02 && (beyond(2.0) - 0.0455).abs() < 0.006);
            assert!((beyond(3.0) - 0.0027).abs() < 0.0015, "{dtype} beyond 3: {}", beyond(3.0));
        }
    }

    #[test]
    fn uniform_numbers_fill_their_range() {
        for dtype in FLOATS {
            let form = ("dtype", number(dtype));
            let y = run("RandomUniform", 22, &[("shape", ints(&[20000])), form.clone()], &[]);
            let u = reals(&y);
            assert!(y.dtype() == dtype && u.iter().all(|v| (0.0..1.0).contains(v)));
            let mut parts = [0f64; 8];
            u.iter().for_each(|v| parts[(v * 8.0) as usize] += 1.0);
            assert!(parts.iter().all(|n| (n - 2500.0).abs() < 250.0), "{dtype}: {parts:?}");
            let like = Tensor::from_vec([100, 200], vec![0i32; 20000]);
            let attrs = [form, ("low", Attr::Float(-3.0)), ("high", Attr::Float(5.0))];
            let y = run("RandomUniformLike", 22, &attrs, &[&like]);
            assert_eq!((y.dtype(), y.dims()), (dtype, like.dims()));
            let x = reals(&y);
            assert!(
                x.iter().all(|v| (-3.0..=5.0).contains(v)) && (moment(&x, 1) - 1.0).abs() < 0.1
            );
        }
    }

    #[test]
    fn coins_fall_by_their_probabilities() {
        let p = [0.0f32, 0.25, 0.5, 1.0];
        let x = Tensor::from_vec([5000, 4], p.repeat(5000));
        let y = run("Bernoulli", 22, &[("dtype", number(DataType::Bool))], &[&x]);
        assert_eq!((y.dtype(), y.dims()), (DataType::Bool, x.dims()));
        for (k, p) in p.iter().enumerate() {
            let share = reals(&y).iter().skip(k).step_by(4).sum::<f64>() / 5000.0;
            let bound = if p.fract() == 0.0 { 0.0 } else { 0.03 };
            assert!((share - f64::from(*p)).abs() <= bound, "{share} for {p}");
        }
        let no = try_run("Bernoulli", 22, &[], &[&Tensor::scalar(1.5f32)]).unwrap_err();
        assert!(no.message.contains("1.5 is no probability"));
    }

    #[test]
    fn classes_are_drawn_by_their_weights() {
        let shares = [0.5f64, 0.0, 0.125, 0.375];
        let logs = shares.iter().map(|p| (p.ln() + 7.0) as f32);
        let x = Tensor::from_vec([2, 4], logs.clone().chain([9.0, -9e9, -9e9, -9e9]).collect());
        let attrs = [("sample_size", Attr::Int(10000)), ("dtype", number(DataType::Int64))];
        let y = run("Multinomial", 22, &attrs, &[&x]);
        assert_eq!((y.dtype(), y.dims()), (DataType::Int64, &[2usize, 10000][..]));
        let y = reals(&y);
        let (first, second) = y.split_at(10000);
        for (k, share) in shares.iter().enumerate() {
            let found = first.iter().filter(|v| **v == k as f64).count() as f64 / 1e4;
            assert!(
                (found - share).abs() < 0.03 && (found > 0.0) == (*share > 0.0),
                "{k}: {found}"
            );
        }
        assert!(second.iter().all(|v| *v == 0.0));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let x = Tensor::from_vec([1, 2], vec![f32::NEG_INFINITY, bad]);
            assert_eq!(try_run("Multinomial", 22, &[], &[&x]).unwrap_err().code, "N0502");
        }
        let none = Tensor::from_vec([3, 0], Vec::<f32>::new());
        assert_eq!(try_run("Multinomial", 22, &[], &[&none]).unwrap_err().code, "N0502");
    }

    #[test]
    fn numbers_repeat_by_seed_and_never_change() {
        let draw = |seed: &[f32]| {
            let seed = seed.iter().map(|s| ("seed", Attr::Float(*s)));
            let attrs: Vec<_> = seed.chain([("shape", ints(&[3]))]).collect();
            reals(&run("RandomNormal", 22, &attrs, &[]))
        };
        assert_eq!(draw(&[]), draw(&[0.0]));
        assert_eq!(draw(&[7.0]), draw(&[7.0]));
        assert_ne!(draw(&[7.0]), draw(&[8.0]));
        let seven = [-0.12325628f32, -0.9697343, -1.57509];
        assert_eq!(draw(&[7.0]), seven.map(f64::from));
    }

    #[test]
    fn sizes_and_types_are_refused_where_they_make_no_sense() {
        let huge = [("shape", ints(&[1 << 40]))];
        assert_eq!(try_run("RandomUniform", 1, &huge, &[]).unwrap_err().code, "N0305");
        let whole = [("shape", ints(&[1])), ("dtype", number(DataType::Int32))];
        assert_eq!(try_run("RandomNormal", 1, &whole, &[]).unwrap_err().code, "N0502");
        let words = Tensor::strings(vec![1], vec!["a".into()]).unwrap();
        assert_eq!(try_run("RandomNormalLike", 1, &[], &[&words]).unwrap_err().code, "N0502");
    }

    #[test]
    fn decay_is_the_exponential() {
        for a in [0.0, 1e-9, 0.5, 1.0, 10.0, 100.0, 700.0] {
            assert!((decay(a) / (-a).exp() - 1.0).abs() < 1e-11, "{a}");
        }
        assert_eq!([decay(f64::INFINITY), decay(800.0)], [0.0; 2]);
    }
}
