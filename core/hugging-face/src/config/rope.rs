//! How positions turn queries and keys: both generations of `config.json` as one description.

use super::Config;
use crate::diag::Diagnostic;
use serde_json::Value;
use std::f64::consts::PI;

/// Rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Elements of a head that turn; the others pass.
    pub dims: usize,
    /// Whether neighbours are the pairs that turn, and not halves.
    pub interleaved: bool,
    /// Angles for each position.
    pub frequencies: Frequencies,
    /// What cosines and sines are multiplied by.
    pub gain: f64,
}

/// Angles for each position, for each pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Frequencies {
    /// The same for all lengths.
    Fixed(Vec<f64>),
    /// Multiplied by a power of how much longer the sequence is than `usual`: exponents for each pair.
    Dynamic {
        /// For the usual length.
        base: Vec<f64>,
        /// Of how much longer it is.
        exponents: Vec<f64>,
        /// What the length is multiplied by.
        factor: f64,
        /// The usual length.
        usual: f64,
    },
    /// Those of long sequences, and of others up to the length `usual`.
    ByLength {
        /// Up to the usual length.
        short: Vec<f64>,
        /// Beyond.
        long: Vec<f64>,
        /// The usual length.
        usual: usize,
    },
}

/// What a family says of its rotation, beside the file.
#[derive(Clone, Copy)]
pub struct Defaults {
    /// The base of the angles.
    pub theta: f64,
    /// Which share of a head turns.
    pub share: f64,
    /// Whether neighbours are the pairs that turn.
    pub interleaved: bool,
}

/// The rotation of heads with so many elements.
pub(crate) fn rope(c: &Config, head: usize, defaults: Defaults) -> Result<Rope, Diagnostic> {
    let parameters = c.section("rope_parameters")?;
    let scaling = c.section("rope_scaling")?;
    let found = match (&parameters, &scaling) {
        (Some(new), _) => of_object(c, new, new, head, defaults),
        (None, Some(old)) => of_object(c, old, c, head, defaults),
        (None, None) => {
            of_object(c, &Config::of(String::new(), Default::default()), c, head, defaults)
        }
    };
    parameters.iter().chain(&scaling).for_each(|section| c.close(section));
    found
}

/// The rotations of layers that see all, and of those with a window, where they differ: `theta` has the field of the
/// latter and what it is where that is absent.
pub fn two_ropes(
    c: &Config,
    head: usize,
    defaults: Defaults,
    (local, theta): (&str, f64),
) -> Result<[Rope; 2], Diagnostic> {
    let Some(parameters) = c.section("rope_parameters")? else {
        let full = rope(c, head, defaults)?;
        let local = c.above_zero(local, theta)?;
        let near = plain(head, local, defaults);
        return Ok([full, near]);
    };
    let of = |kind: &str, defaults: Defaults| {
        let Some(section) = parameters.section(kind)? else {
            return Err(parameters.wrong(kind, "an object"));
        };
        let found = of_object(c, &section, &section, head, defaults);
        c.close(&section);
        found
    };
    let both =
        [of("full_attention", defaults)?, of("sliding_attention", Defaults { theta, ..defaults })?];
    c.pass_over(&[local]);
    c.close(&parameters);
    Ok(both)
}

/// Rotation without scaling.
pub(crate) fn plain(dims: usize, theta: f64, defaults: Defaults) -> Rope {
    let frequencies = Frequencies::Fixed(inverse(dims, theta));
    Rope { dims, interleaved: defaults.interleaved, frequencies, gain: 1.0 }
}

fn inverse(dims: usize, theta: f64) -> Vec<f64> {
    (0..dims / 2).map(|m| theta.powf(-2.0 * m as f64 / dims as f64)).collect()
}

/// `scaling` says how angles are changed; `base` has the base of the angles, which is the same object in new files.
fn of_object(
    c: &Config,
    scaling: &Config,
    base: &Config,
    head: usize,
    defaults: Defaults,
) -> Result<Rope, Diagnostic> {
    let theta = inner_or_outer(base, c, "rope_theta")?;
    let theta = theta.unwrap_or_else(|| c.assume("rope_theta", defaults.theta));
    if theta <= 0.0 {
        return Err(base.wrong("rope_theta", "a number above zero"));
    }
    let share = inner_or_outer(base, c, "partial_rotary_factor")?;
    let share = share.unwrap_or_else(|| c.assume("partial_rotary_factor", defaults.share));
    let dims = (head as f64 * share) as usize;
    if dims < 2 || dims > head || !dims.is_multiple_of(2) {
        let must = format!("a share that turns an even part of the {head} elements of a head");
        return Err(c.wrong("partial_rotary_factor", &must));
    }
    let inv = inverse(dims, theta);
    let old = scaling.word("type")?;
    let (frequencies, gain) = match scaling.word("rope_type")?.or(old).unwrap_or("default") {
        "default" => (Frequencies::Fixed(inv), 1.0),
        "linear" => {
            let factor = factor(scaling)?;
            (Frequencies::Fixed(inv.iter().map(|x| x / factor).collect()), 1.0)
        }
        "dynamic" => (dynamic(c, scaling, inv)?, 1.0),
        "llama3" => (llama3(c, scaling, &inv)?, 1.0),
        "yarn" => yarn(c, scaling, &inv, theta)?,
        "longrope" | "su" => longrope(c, scaling, &inv)?,
        _ => {
            let key = if scaling.has("rope_type") { "rope_type" } else { "type" };
            return Err(scaling.unknown(key, "which is no rotation that is known"));
        }
    };
    Ok(Rope { dims, interleaved: defaults.interleaved, frequencies, gain })
}

/// What the object says, else the file around it. Where both say it, the object counts, and another value around it is
/// one that nothing reads.
fn inner_or_outer(inner: &Config, outer: &Config, key: &str) -> Result<Option<f64>, Diagnostic> {
    let Some(found) = inner.optional_number(key)? else { return outer.optional_number(key) };
    if outer.fields.get(key).and_then(Value::as_f64) == Some(found) {
        outer.pass_over(&[key]);
    }
    Ok(Some(found))
}

fn factor(scaling: &Config) -> Result<f64, Diagnostic> {
    match scaling.optional_number("factor")? {
        Some(factor) if factor > 0.0 => Ok(factor),
        _ => Err(scaling.wrong("factor", "a number above zero")),
    }
}

/// The length for which the angles were trained.
fn original(c: &Config, scaling: &Config) -> Result<Option<f64>, Diagnostic> {
    const KEY: &str = "original_max_position_embeddings";
    let inside = scaling.optional_size(KEY)?;
    Ok(inside.or(c.optional_size(KEY)?).map(|size| size as f64))
}

fn longest(c: &Config) -> Result<f64, Diagnostic> {
    Ok(c.size("max_position_embeddings")? as f64)
}

fn dynamic(c: &Config, scaling: &Config, base: Vec<f64>) -> Result<Frequencies, Diagnostic> {
    let (factor, usual) = (factor(scaling)?, longest(c)?);
    let pairs = base.len();
    if pairs < 2 {
        return Err(
            scaling.unknown("factor", "and heads that turn two elements have no such rotation")
        );
    }
    let exponents = (0..pairs).map(|m| -(m as f64) / (pairs as f64 - 1.0)).collect();
    c.note(format!(
        "Sequences of more than {usual} tokens turn by angles that depend on their length: prefill them from an \
         empty cache."
    ));
    Ok(Frequencies::Dynamic { base, exponents, factor, usual })
}

fn llama3(c: &Config, scaling: &Config, inv: &[f64]) -> Result<Frequencies, Diagnostic> {
    let factor = factor(scaling)?;
    let (low, high) =
        (scaling.number("low_freq_factor", 1.0)?, scaling.number("high_freq_factor", 4.0)?);
    if high <= low {
        return Err(scaling.wrong("high_freq_factor", "above `low_freq_factor`"));
    }
    let original = original(c, scaling)?.map_or_else(|| longest(c), Ok)?;
    let scaled = |inv: &f64| {
        let length = 2.0 * PI / inv;
        if length > original / low {
            inv / factor
        } else if length < original / high {
            *inv
        } else {
            let s = (original / length - low) / (high - low);
            (1.0 - s) * inv / factor + s * inv
        }
    };
    Ok(Frequencies::Fixed(inv.iter().map(scaled).collect()))
}

fn yarn(
    c: &Config,
    scaling: &Config,
    inv: &[f64],
    theta: f64,
) -> Result<(Frequencies, f64), Diagnostic> {
    let factor = factor(scaling)?;
    let original = original(c, scaling)?.map_or_else(|| longest(c), Ok)?;
    let dims = 2.0 * inv.len() as f64;
    let turns = |count: f64| dims * (original / (2.0 * PI * count)).ln() / (2.0 * theta.ln());
    let fast = scaling.above_zero("beta_fast", 32.0)?;
    let slow = scaling.above_zero("beta_slow", 1.0)?;
    let (mut low, mut high) = (turns(fast), turns(slow));
    if scaling.flag("truncate", true)? {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.clamp(0.0, dims - 1.0), high.clamp(0.0, dims - 1.0));
    if low == high {
        high += 0.001;
    }
    let mix = |(m, inv): (usize, &f64)| {
        let ramp = ((m as f64 - low) / (high - low)).clamp(0.0, 1.0);
        inv / factor * ramp + inv * (1.0 - ramp)
    };
    let frequencies = Frequencies::Fixed(inv.iter().enumerate().map(mix).collect());
    let g = |m: f64| if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 };
    let [m, all] = ["mscale", "mscale_all_dim"].map(|key| scaling.number(key, 0.0));
    let gain = match (scaling.optional_number("attention_factor")?, m?, all?) {
        (Some(gain), ..) => gain,
        (None, m, all) if m != 0.0 && all != 0.0 => g(m) / g(all),
        _ => g(1.0),
    };
    Ok((frequencies, gain))
}

fn longrope(c: &Config, scaling: &Config, inv: &[f64]) -> Result<(Frequencies, f64), Diagnostic> {
    let divided = |key: &str| {
        let factors = scaling.numbers(key)?.unwrap_or_default();
        if factors.len() != inv.len() || factors.iter().any(|x| *x <= 0.0) {
            return Err(scaling.wrong(key, &format!("{} numbers above zero", inv.len())));
        }
        Ok(inv.iter().zip(factors).map(|(inv, factor)| inv / factor).collect::<Vec<_>>())
    };
    let (short, long) = (divided("short_factor")?, divided("long_factor")?);
    let longest = longest(c)?;
    let (usual, ratio) = match original(c, scaling)? {
        Some(original) => (original, longest / original),
        None => (longest, factor(scaling)?),
    };
    if let Some(factor) = scaling.optional_number("factor")?
        && (factor - ratio).abs() > 1e-3 * ratio
    {
        c.note(format!("`factor` is {factor}, and the lengths say {ratio}, which counts."));
    }
    let gain = match scaling.optional_number("attention_factor")? {
        Some(gain) => gain,
        None if ratio <= 1.0 => 1.0,
        None => (1.0 + ratio.ln() / usual.ln()).sqrt(),
    };
    c.note(format!(
        "Sequences of more than {usual} tokens turn by other angles than shorter ones: prefill again when a sequence \
         grows beyond that length."
    ));
    let usual = usual as usize;
    Ok((Frequencies::ByLength { short, long, usual }, gain))
}

#[cfg(test)]
mod tests;
