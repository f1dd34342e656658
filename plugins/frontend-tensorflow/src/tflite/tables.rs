//! `tanh` of integers of 16 bits, as TFLite's kernel computes it: between the elements of a table of sigmoids, so that
//! results differ by two steps from those of real numbers. All that can go in are 65536 numbers, so that a table of
//! results says what comes out, within one step of the kernel's.
//!
//! For scales close to some powers of two the kernel has other code, which takes them for these powers, and whose
//! results lie up to 12 steps beside those of real numbers (6 of `LOGISTIC`).

use super::item::LiteItem;
use super::kept::SeenAs;
use super::model::LiteOperator;
use super::quantized::quantization_of;
use super::scope::{LiteRunner, Scope, declared};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;

/// Elements of the table: `sigmoid(i / 24)` in steps of 2^-16, rounded. Some of the kernel's own differ in the last
/// place, which makes one step of a result at most.
const ELEMENTS: usize = 256;

/// The scale of results, as a power of two.
const STEP: i32 = -15;

/// The power of two that a scale is to TFLite, which allows for a thousandth of the exponent.
fn power(scale: f32) -> Option<i32> {
    let places = f64::from(scale).log2();
    ((places - places.round()).abs() < 1e-3).then(|| places.round() as i32)
}

fn is_exact(scale: f32) -> bool {
    f64::from(scale).log2().fract() == 0.0
}

/// How the kernel finds its results.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ActivationKernel {
    /// Between the elements of a table.
    Table(Multiplier),
    /// About that of real numbers, which are stored numbers times this power of two.
    Real(i32),
}

impl ActivationKernel {
    /// The kernel of an operator for the scales of what goes in and comes out. `None` if that is the operator
    /// on real numbers, and for scales that it refuses.
    fn find(is_tanh: bool, [given, found]: [f32; 2]) -> Option<ActivationKernel> {
        if power(found) != Some(STEP) || !given.is_normal() {
            return None;
        }
        let real = power(given).filter(|places| *places == -12 || (is_tanh && *places == -11));
        match real {
            Some(_) if is_exact(given) && is_exact(found) => None,
            Some(places) => Some(ActivationKernel::Real(places)),
            None if is_tanh => Multiplier::from_scale(given).map(ActivationKernel::Table),
            None => None,
        }
    }

    /// The results for -32768 to 32767.
    fn results(self, is_tanh: bool) -> Vec<i16> {
        match self {
            ActivationKernel::Table(multiplier) => results(multiplier),
            ActivationKernel::Real(places) => real(is_tanh, places),
        }
    }
}

/// The results of real numbers.
fn real(is_tanh: bool, places: i32) -> Vec<i16> {
    let result = |stored: i32| {
        let x = f64::from(stored) * f64::from(places).exp2();
        let y = if is_tanh { x.tanh() } else { 1.0 / (1.0 + (-x).exp()) };
        (y * f64::from(-STEP).exp2()).round().clamp(i16::MIN.into(), i16::MAX.into()) as i16
    };
    (i16::MIN.into()..=i16::MAX.into()).map(result).collect()
}

/// How the kernel multiplies what goes in: by a number of 15 bits, and a shift to the right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Multiplier {
    by: i64,
    shift: u32,
}

impl Multiplier {
    /// That of a scale; `None` if it is too large.
    fn from_scale(scale: f32) -> Option<Multiplier> {
        let (mut by, mut shift) = (f64::from(scale) * 4096.0 * 3.0, 0);
        while by <= 32767.0 / 2.0 && shift <= 30 {
            shift += 1;
            by *= 2.0;
        }
        // Beyond this the kernel's own numbers do not fit.
        (by < 65536.0).then_some(Multiplier { by: by as i64, shift })
    }

    fn apply(self, stored: i64) -> i64 {
        let half = if self.shift > 0 { 1 << (self.shift - 1) } else { 0 };
        (stored * self.by + half) >> self.shift
    }
}

/// The results for -32768 to 32767.
fn results(multiplier: Multiplier) -> Vec<i16> {
    let sigmoid = |i: usize| {
        let exact = 65536.0 / (1.0 + (-(i as f64) / 24.0).exp());
        exact.round().min(65535.0) as i64
    };
    let table: Vec<i64> = (0..ELEMENTS).map(sigmoid).collect();
    let result = |stored: i64| {
        let x = multiplier.apply(stored);
        let (at, part) = ((x.abs() >> 8) as usize, x.abs() & 0xff);
        let found = match table.get(at..at + 2) {
            Some(both) => (both[0] << 8) + part * (both[1] - both[0]),
            None => 0xffff << 8,
        };
        // `tanh(x) = 2 sigmoid(2 x) - 1`, rounded to steps of 2^-15.
        let middle = 1 << 23;
        let found = if x >= 0 { found - middle + 128 } else { middle - found + 127 };
        (found >> 8).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    };
    (i64::from(i16::MIN)..=i64::from(i16::MAX)).map(result).collect()
}

/// Runs an operator of this family; `None` if it is of another one.
///
/// # Errors
/// `N0213` if tables take too many bytes; those of the builder.
pub(super) fn run<'a>(
    runner: &LiteRunner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a LiteOperator,
    inputs: &[Option<LiteItem>],
) -> Result<Option<Vec<LiteItem>>> {
    let ([Some(index)], [out]) = (called.inputs.as_slice(), called.outputs.as_slice()) else {
        return Ok(None);
    };
    let is_tanh = match called.name() {
        "TANH" => true,
        "LOGISTIC" => false,
        _ => return Ok(None),
    };
    let Some(Some(LiteItem::Tensor(x))) = inputs.first() else { return Ok(None) };
    let scale = |index: usize| {
        let tensor = declared(scope, index);
        let quantization =
            quantization_of(tensor).filter(|_| tensor.dtype() == Some(DataType::Int16))?;
        (quantization.is_uniform() && quantization.zeros[0] == 0).then(|| quantization.scales[0])
    };
    let (Some(given), Some(quantization)) = (scale(*index), scale(*out)) else { return Ok(None) };
    let Some(kernel) = ActivationKernel::find(is_tanh, [given, quantization]) else {
        return Ok(None);
    };
    let results = kernel.results(is_tanh);
    let left = runner.room.get().checked_sub(size_of_val(results.as_slice()));
    let limit = || Diagnostic::new(Code::SourceLimit, "Tables of results take too many bytes.");
    runner.room.set(left.ok_or_else(limit)?);
    let b = runner.builder();
    let y = b.in_layer(scope.layer(called), |b| {
        let at = b.add(b.cast(*x, DataType::Int32)?, 1i64 << 15)?;
        let name = if is_tanh { "tanh_table" } else { "sigmoid_table" };
        b.gather(b.parameter(name, Tensor::vector(results)), at).axis(0).one()
    })?;
    runner.results(scope, called, vec![Value::Var(y)], SeenAs::Integers).map(Some)
}

#[cfg(test)]
mod tests;
