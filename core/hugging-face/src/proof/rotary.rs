//! How positions turn queries and keys, by the formulas of Hugging Face's rotary embeddings.

use super::fields::Fields;
use super::source::Plain;
use std::f64::consts::PI;

/// Pairs of a head turn by an angle for each position.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Whether a pair are elements `2m` and `2m + 1`, and not `m` and `m + R/2`.
    pub(super) neighbours: bool,
    /// The angle of each pair.
    pub(super) angles: Vec<f64>,
    /// What turned elements are multiplied by.
    pub(super) gain: f64,
}

impl Turn {
    /// Turns a head at a position.
    pub(super) fn turn(&self, head: &mut [f64], position: usize) {
        let pairs = self.angles.len();
        for (m, angle) in self.angles.iter().enumerate() {
            let (i, j) = if self.neighbours { (2 * m, 2 * m + 1) } else { (m, m + pairs) };
            let (sin, cos) = (angle * position as f64).sin_cos();
            let (x, y) = (head[i], head[j]);
            head[i] = (x * cos - y * sin) * self.gain;
            head[j] = (y * cos + x * sin) * self.gain;
        }
    }
}

/// What a family says of its rotation where the file does not.
#[derive(Clone, Copy)]
pub(super) struct Usual {
    pub(super) theta: f64,
    /// Which share of a head turns.
    pub(super) share: f64,
    pub(super) neighbours: bool,
}

pub(super) fn plain(size: usize, usual: Usual) -> Turn {
    let inverse = |m: usize| usual.theta.powf(-2.0 * m as f64 / size as f64);
    Turn { neighbours: usual.neighbours, angles: (0..size / 2).map(inverse).collect(), gain: 1.0 }
}

/// The rotation of heads of so many elements, in a sequence of so many tokens.
pub(super) fn turn(c: &Fields<'_>, head: usize, usual: Usual, tokens: usize) -> Plain<Turn> {
    let new = c.inside("rope_parameters");
    let scaling = new.or(c.inside("rope_scaling")).unwrap_or_default();
    scaled(c, &scaling, head, usual, tokens)
}

/// The same with the object that says how angles change.
pub(super) fn scaled(
    c: &Fields<'_>,
    scaling: &Fields<'_>,
    head: usize,
    usual: Usual,
    tokens: usize,
) -> Plain<Turn> {
    let either = |key: &str, usual| scaling.number(key).or(c.number(key)).unwrap_or(usual);
    let theta = either("rope_theta", usual.theta);
    let size = (head as f64 * either("partial_rotary_factor", usual.share)) as usize;
    let mut turn = plain(size, Usual { theta, ..usual });
    let factor = scaling.number("factor").unwrap_or(1.0);
    let longest = c.number("max_position_embeddings").unwrap_or(f64::INFINITY);
    let original = either("original_max_position_embeddings", f64::NAN);
    match scaling.word("rope_type").or(scaling.word("type")).unwrap_or("default") {
        "default" => {}
        "linear" => turn.angles.iter_mut().for_each(|angle| *angle /= factor),
        // Up to this length nothing changes.
        "dynamic" if tokens as f64 <= longest => {}
        "llama3" => llama3(&mut turn, scaling, if original.is_nan() { longest } else { original }),
        "yarn" => {
            let original = if original.is_nan() { longest } else { original };
            yarn(&mut turn, scaling, theta, original);
        }
        "longrope" | "su" => {
            let (original, ratio) = match original.is_nan() {
                true => (longest, factor),
                false => (original, longest / original),
            };
            longrope(&mut turn, scaling, [original, ratio], tokens)?;
        }
        other => return Err(format!("the rotation `{other}` has no second implementation")),
    }
    Ok(turn)
}

fn llama3(turn: &mut Turn, scaling: &Fields<'_>, original: f64) {
    let of = |key: &str, usual| scaling.number(key).unwrap_or(usual);
    let (factor, low, high) =
        (of("factor", 1.0), of("low_freq_factor", 1.0), of("high_freq_factor", 4.0));
    for angle in &mut turn.angles {
        let wave = 2.0 * PI / *angle;
        if wave > original / low {
            *angle /= factor;
        } else if wave >= original / high {
            let smooth = (original / wave - low) / (high - low);
            *angle = (1.0 - smooth) * *angle / factor + smooth * *angle;
        }
    }
}

fn yarn(turn: &mut Turn, scaling: &Fields<'_>, theta: f64, original: f64) {
    let of = |key: &str, usual| scaling.number(key).unwrap_or(usual);
    let (factor, size) = (of("factor", 1.0), 2.0 * turn.angles.len() as f64);
    let bound = |rounds: f64| size * (original / (rounds * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (bound(of("beta_fast", 32.0)), bound(of("beta_slow", 1.0)));
    if scaling.flag("truncate").unwrap_or(true) {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0).min(size - 1.0), high.min(size - 1.0).max(0.0));
    if low == high {
        high += 0.001;
    }
    for (m, angle) in turn.angles.iter_mut().enumerate() {
        let ramp = ((m as f64 - low) / (high - low)).clamp(0.0, 1.0);
        *angle = *angle / factor * ramp + *angle * (1.0 - ramp);
    }
    let g = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
    let (one, all) = (of("mscale", 0.0), of("mscale_all_dim", 0.0));
    let usual = if one != 0.0 && all != 0.0 { g(one) / g(all) } else { g(1.0) };
    turn.gain = of("attention_factor", usual);
}

fn longrope(
    turn: &mut Turn,
    scaling: &Fields<'_>,
    [original, ratio]: [f64; 2],
    tokens: usize,
) -> Plain<()> {
    let key = if tokens as f64 > original { "long_factor" } else { "short_factor" };
    let divisors = scaling.numbers(key).filter(|list| list.len() == turn.angles.len());
    let divisors = divisors.ok_or_else(|| format!("`{key}` is no list for the pairs of a head"))?;
    turn.angles.iter_mut().zip(divisors).for_each(|(angle, divisor)| *angle /= divisor);
    let usual = if ratio <= 1.0 { 1.0 } else { (1.0 + ratio.ln() / original.ln()).sqrt() };
    turn.gain = scaling.number("attention_factor").unwrap_or(usual);
    Ok(())
}
