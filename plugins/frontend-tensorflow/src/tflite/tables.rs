//! `tanh` of integers of 16 bits, as TFLite's kernel computes it: between the elements of a table of sigmoids, so that
//! results differ by two steps from those of real numbers. All that can go in are 65536 numbers, so that a table of
//! results says what comes out.

use super::model::Operator;
use super::quantized;
use super::run::{Item, Runner, Scope, declared};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;

/// Elements of the kernel's table: `sigmoid(i / 24)` in steps of 2^-16.
const ELEMENTS: usize = 256;

/// The scale of results.
const STEP: f32 = 1.0 / 32768.0;

/// How the kernel multiplies what goes in: by a number of 15 bits, and a shift to the right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Multiplier {
    by: i64,
    shift: u32,
}

impl Multiplier {
    /// That of a scale; `None` if the kernel has other code for it, which is as exact as real numbers.
    fn of(scale: f32) -> Option<Multiplier> {
        let places = f64::from(scale).log2();
        let is_power = places.fract() == 0.0 && (places == -12.0 || places == -11.0);
        if is_power || !scale.is_normal() {
            return None;
        }
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
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a Operator,
    inputs: &[Option<Item>],
) -> Result<Option<Vec<Item>>> {
    let ([Some(index)], [out]) = (called.inputs.as_slice(), called.outputs.as_slice()) else {
        return Ok(None);
    };
    let (Some(Some(Item::Tensor(x))), "TANH") = (inputs.first(), called.name()) else {
        return Ok(None);
    };
    let scale = |index: usize| {
        let tensor = declared(scope, index);
        let found = quantized::of(tensor).filter(|_| tensor.dtype() == Some(DataType::Int16))?;
        (found.is_uniform() && found.zeros[0] == 0).then(|| found.scales[0])
    };
    let multiplier = scale(*index).and_then(Multiplier::of);
    let (Some(multiplier), Some(STEP)) = (multiplier, scale(*out)) else { return Ok(None) };
    let results = results(multiplier);
    let left = runner.room.get().checked_sub(size_of_val(results.as_slice()));
    let limit = || Diagnostic::new(Code::SourceLimit, "Tables of `tanh` take too many bytes.");
    runner.room.set(left.ok_or_else(limit)?);
    let b = runner.builder();
    let y = b.in_layer(scope.layer(called), |b| {
        let at = b.add(b.cast(*x, DataType::Int32)?, 1i64 << 15)?;
        b.gather(b.parameter("tanh_table", Tensor::vector(results)), at).axis(0).one()
    })?;
    runner.results(scope, called, vec![Value::Var(y)], true).map(Some)
}

#[cfg(test)]
mod tests;
