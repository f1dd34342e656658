//! Quantizers of quantization-aware training: layers that learned with rounded weights and
//! activations compute with them here too.
//!
//! A range of `R` has `R + 1` levels. What was learned becomes `QuantizeLinear` and
//! `DequantizeLinear` with N2D2's step sizes, so that a quantizer of this program and those of
//! runtimes find the integers again.

use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

use crate::cell::{Cell, Lowered};
use crate::diag::{Code, Diagnostic, refuse};
use crate::ini::{SectionRef, Settings, settings, words};
use crate::weights::Fate;

/// What a section says about weights.
pub(crate) const WEIGHTS: &str = "QWeight";
/// What it says about activations.
pub(crate) const ACTIVATIONS: &str = "QAct";
/// Bits of the largest range.
const BITS_MAX: u32 = 8;

/// A way to learn with integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Learned step size (Esser et al., 2020).
    Lsq,
    /// Scale-adjusted training (Jin et al., 2019).
    Sat,
    /// Weights that are cut off, which are files like any others.
    Prune,
}

/// The quantizer that `key` names.
pub(crate) fn method(section: SectionRef, key: &str) -> Result<Option<Method>, Diagnostic> {
    let words = [("LSQ", Method::Lsq), ("SAT", Method::Sat), ("Prune", Method::Prune)];
    let words = if key == ACTIVATIONS { &words[..2] } else { &words };
    section.choice(key, words)
}

/// The suffix of the file that holds what was learned.
pub(crate) fn file(key: &str, method: Method) -> Option<&'static str> {
    match (key, method) {
        (WEIGHTS, Method::Lsq) => Some("_alphaW_LSQ.syntxt"),
        (ACTIVATIONS, Method::Lsq) => Some("_QAct_LSQ_StepSize.syntxt"),
        (ACTIVATIONS, Method::Sat) => Some("_QAct_SAT_Alpha.syntxt"),
        _ => None,
    }
}

/// `KEY.Range`: one less than a power of two.
fn range(section: SectionRef, key: &str) -> Result<u32, Diagnostic> {
    let name = format!("{key}.Range");
    let range = section.or(&name, 255_usize)?;
    match u32::try_from(range).ok().filter(|r| (1..1 << BITS_MAX).contains(r) && r & (r + 1) == 0) {
        Some(range) => Ok(range),
        None => {
            let message = format!("must be 1, 3, 7, ... 255 (1 to {BITS_MAX} bits), found {range}");
            Err(section.problem(&name, message))
        }
    }
}

/// The only number of a file, which must be positive.
fn learned(b: &Cell, key: &str, method: Method) -> Result<Option<f32>, Diagnostic> {
    let Some(suffix) = file(key, method) else { return Ok(None) };
    let Some(found) = b.source.weights.learned(&b.layer, suffix)? else { return Ok(None) };
    // SAT clips at the magnitude.
    let value = if method == Method::Sat { found.abs() } else { found };
    if value > 0.0 && value.is_finite() {
        return Ok(Some(value));
    }
    let message = format!("`{}{suffix}` holds {found}: a range must be positive", b.layer.name);
    Err(b.problem(Code::WeightsSyntax, message))
}

fn ignored(b: &Cell, key: &str, why: &str) {
    let help = "Quantization after training is set in the params.";
    b.section.warn_ignored(key, &format!("is ignored: {why}"), help);
}

/// The quantizer of a layer that is not left out by the params or by made-up weights.
fn wanted(b: &Cell, key: &str) -> Result<Option<Method>, Diagnostic> {
    if !b.section.has(key) {
        return Ok(None);
    }
    if b.source.weights.ignore_quantizers {
        ignored(b, key, "the params ask for the layer in floating point");
        return Ok(None);
    }
    if b.source.weights.are_random() {
        ignored(b, key, "random weights have learned nothing");
        return Ok(None);
    }
    let found = method(b.section, key)?;
    if found == Some(Method::Prune) {
        ignored(b, key, "the weights are taken as the files hold them");
        return Ok(None);
    }
    Ok(found)
}

/// What a quantizer makes of weights.
enum QuantizedWeights {
    /// Integers times a step.
    Steps(Vec<i32>, f32),
    /// Numbers of no grid.
    Reals(Vec<f32>),
}

/// The quantizer of a layer's weights, and what becomes of the numbers in its files.
pub(crate) fn of_weights(b: &Cell) -> Result<(Option<Method>, Fate), Diagnostic> {
    let method = wanted(b, WEIGHTS)?;
    let kept = method.is_none() && b.source.dtype == DataType::Float;
    Ok((method, if kept { Fate::Kept } else { Fate::Changed }))
}

/// The parameter `w` of a layer: its numbers, or what its quantizer `method` makes of them.
/// `spread` is the number of outputs times the size of the kernel.
pub(crate) fn weights(b: &Cell, method: Option<Method>, read: Tensor, spread: usize) -> Lowered {
    let dims = read.dims().to_vec();
    let values = || read.as_slice::<f32>().expect("weights are read as float");
    let found = match method {
        Some(Method::Lsq) => {
            let range = range(b.section, WEIGHTS)?;
            match learned(b, WEIGHTS, Method::Lsq)? {
                Some(step) => lsq(&values(), step, range),
                None => return plain(b, read),
            }
        }
        Some(_) => Sat::from_section(b.section)?.weights(&values(), spread),
        None => return plain(b, read),
    };
    match found {
        QuantizedWeights::Steps(integers, step) if b.source.dtype == DataType::Float => {
            dequantized(b, dims, integers, step)
        }
        QuantizedWeights::Steps(integers, step) => {
            let values = integers.iter().map(|q| *q as f32 * step).collect();
            plain(b, Tensor::from_vec(dims, values))
        }
        QuantizedWeights::Reals(values) => plain(b, Tensor::from_vec(dims, values)),
    }
}

/// A quantizer of weights that belong to another layer would need a step of its own.
pub(crate) fn of_shared_weights(b: &Cell) -> Result<(Option<Method>, Fate), Diagnostic> {
    refuse!(wanted(b, WEIGHTS)?.is_some() =>
        b.problem(Code::FeatureUnsupported, format!("`{WEIGHTS}` together with `WeightsSharing`")));
    Ok((None, Fate::Changed))
}

fn plain(b: &Cell, floats: Tensor) -> Lowered {
    Ok(b.weights("w", b.source.in_type(floats)?))
}

fn dequantized(b: &Cell, dims: Vec<usize>, integers: Vec<i32>, step: f32) -> Lowered {
    let narrow = integers.iter().all(|q| i8::try_from(*q).is_ok());
    let data = match narrow {
        true => Tensor::from_vec(dims, integers.iter().map(|q| *q as i8).collect()),
        false => Tensor::from_vec(dims, integers),
    };
    let (w, step) = (b.parameter("w", data), b.scalar("w_step", step));
    // The standard wants none for 32 bits.
    let zero = narrow.then(|| b.parameter("w_zero", Tensor::scalar(0_i8)));
    b.dequantize_linear(w, step).x_zero_point(zero).role("w_real").one()
}

/// `s · clamp(round(w / s), -(R + 1) / 2, (R - 1) / 2)`
fn lsq(values: &[f32], step: f32, range: u32) -> QuantizedWeights {
    let (lo, hi) = (-f64::from(range.div_ceil(2)), f64::from((range - 1) / 2));
    let round = |w: &f32| (f64::from(*w) / f64::from(step)).round().clamp(lo, hi) as i32;
    QuantizedWeights::Steps(values.iter().map(round).collect(), step)
}

words! {
    /// The levels of SAT weights.
    Mode { Default, Symmetric, Asymmetric, FullRange }
}

settings! {
    /// What a section says about SAT weights, below `QWeight`.
    struct Sat {
        QuantMode: Mode = Mode::Default,
        // Else the weights are only squeezed into -1 to 1.
        ApplyQuantization: bool = true,
        // Whether the weights are divided by their spread.
        ApplyScaling: bool = false,
    } parts { range: u32 = |s| range(s, WEIGHTS) }
}

impl Sat {
    fn from_section(section: SectionRef) -> Result<Sat, Diagnostic> {
        let sat = Sat::take(section, "QWeight.")?;
        refuse!(sat.range == 1 && matches!(sat.QuantMode, Mode::Symmetric | Mode::Asymmetric) =>
            section.problem("QWeight.QuantMode", "needs three levels at least, and the range is 1"));
        Ok(sat)
    }

    fn weights(&self, values: &[f32], spread: usize) -> QuantizedWeights {
        let squeezed: Vec<f64> = values.iter().map(|w| f64::from(*w).tanh()).collect();
        let largest = squeezed.iter().fold(0.0, |m: f64, t| m.max(t.abs()));
        let unit = if largest > 0.0 { largest } else { 1.0 };
        let squeezed = squeezed.into_iter().map(|t| t / unit);
        if !self.ApplyQuantization {
            let values: Vec<f64> = squeezed.collect();
            let gain = self.gain(&values, spread);
            return QuantizedWeights::Reals(values.iter().map(|t| (t * gain) as f32).collect());
        }
        let (integers, step): (Vec<i32>, f64) = self.levels(squeezed);
        let values: Vec<f64> = integers.iter().map(|q| f64::from(*q) * step).collect();
        let gain = self.gain(&values, spread);
        QuantizedWeights::Steps(integers, (step * gain) as f32)
    }

    /// Numbers within -1 to 1 as integers times a step.
    fn levels(&self, squeezed: impl Iterator<Item = f64>) -> (Vec<i32>, f64) {
        let (r, h) = (f64::from(self.range), f64::from(self.range / 2));
        let odd = |u: f64| (2.0 * (r * u).round_ties_even() - r) as i32;
        let level = |t: f64| match self.QuantMode {
            Mode::Default => odd((t + 1.0) / 2.0),
            Mode::FullRange => odd((1.0 + 0.9998 / r) * (t + 1.0) / 2.0 - 0.4999 / r),
            Mode::Symmetric => (t * h).round_ties_even() as i32,
            Mode::Asymmetric => (((1.0 + 0.5 / h) * t - 0.5 / h) * h).round_ties_even() as i32,
        };
        let whole = matches!(self.QuantMode, Mode::Default | Mode::FullRange);
        (squeezed.map(level).collect(), if whole { 1.0 / r } else { 1.0 / h })
    }

    /// What the weights are multiplied by: `1 / sqrt(variance · outputs · kernel)`.
    fn gain(&self, values: &[f64], spread: usize) -> f64 {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|t| (t - mean) * (t - mean)).sum();
        let variance = squares / (count - 1.0);
        match self.ApplyScaling && variance > 0.0 {
            true => 1.0 / (variance * spread as f64).sqrt(),
            false => 1.0,
        }
    }
}

/// What the quantizer of a layer's activations makes of its result.
pub(crate) fn activation(b: &Cell, x: Var) -> Lowered {
    let Some(method) = wanted(b, ACTIVATIONS)? else { return Ok(x) };
    let range = range(b.section, ACTIVATIONS)? as f32;
    let Some(value) = learned(b, ACTIVATIONS, method)? else { return Ok(x) };
    let step = if method == Method::Sat { value / range } else { value };
    refuse!(step < f32::MIN_POSITIVE =>
        b.problem(Code::WeightsSyntax, format!("a learned range of {value} is too small")));
    let scale = b.scalar("q_step", step);
    if b.source.dtype != DataType::Float {
        // The operators of quantization take `float32` alone.
        let rounded = b.clip(b.round(b.div(x, scale)?)?).min(0.0).max(range).one()?;
        return b.mul(rounded, scale);
    }
    let x = if range == 255.0 { x } else { b.clip(x).min(0.0).max(step * range).one()? };
    let zero = b.parameter("q_zero", Tensor::scalar(0_u8));
    let integers = b.quantize_linear(x, scale).y_zero_point(zero).role("quantized").one()?;
    b.dequantize_linear(integers, scale).x_zero_point(zero).one()
}
