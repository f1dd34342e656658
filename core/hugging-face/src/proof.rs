//! Some layers of the graph of a decoder, run by the built-in executor, against plain formulas of the family that read
//! the bytes of the checkpoint themselves.
//!
//! Nothing here is used where graphs are written, and nothing of what writes them is used here: a mistake in one of
//! both shows. `formulas` has what layers can be, and
//! `families` which of it a family is; `source` reads weights, `cut` takes a layer out of the graph.

mod attention;
mod base;
mod cut;
mod experts;
mod families;
mod fields;
mod forms;
mod formulas;
mod gguf;
mod latent;
mod layer;
mod mlp;
mod norm;
mod older;
mod packed;
mod rotary;
mod source;

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::{Code, Diagnostic, Layer as Place};
use crate::raw::Find;
use formulas::{Each, Formulas};
use layer::{Layer, Past};
use onnxd_plugin_sdk::eval::RandomSource;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{LogLevel, Submission};
use serde_json::{Map, Value};
use source::{Plain, Row};

/// New tokens, and those of the cache before them, where there is no window.
const NEW: usize = 4;
const PAST: usize = 200;
/// Windows that are looked beyond.
const WINDOW_MAX: usize = 1024;

/// Products with weights that a layer, and all layers together, may take.
const LAYER_MAX: usize = 1_000_000_000;
const ALL_MAX: usize = 2_000_000_000;

/// Elements of the keys of the cache.
const CACHE_MAX: usize = 1 << 20;

/// Agreement in decibels at which there is nothing to ask.
const SURE: f64 = 80.0;
/// What is told of an agreement that is better.
const TOLD_MAX: f64 = 100.0;
/// By which share of themselves inputs are changed to see what rounding may come to.
const CHANGE: f64 = 1e-5;

/// Hidden states are smaller than one by this, so that epsilons of norms count.
const SIZE: f64 = 0.1;

const SEED: u64 = 33;

/// Hidden states beyond this come of weights that are none: in between, numbers of 32 bits may overflow.
const NUMBER_MAX: f64 = 1e9;

/// What is compared.
pub(crate) struct Case<'a> {
    pub(crate) model: &'a Model,
    /// The formulas for a sequence of so many tokens.
    formulas: &'a dyn Fn(usize) -> Plain<Formulas>,
    pub(crate) find: &'a Find<'a>,
    /// Tokens that a sequence may have.
    pub(crate) context: Option<usize>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Proof {
    /// For the report.
    pub(crate) fact: Option<String>,
    pub(crate) findings: Vec<Diagnostic>,
    /// Why nothing was compared.
    pub(crate) unknown: Option<String>,
    /// Agreement of each layer that was compared, in decibels.
    pub(crate) agreement: Vec<(usize, f64)>,
}

/// A fact with its key, and findings.
type Told = (Option<(String, String)>, Vec<Diagnostic>);

impl Proof {
    fn none(why: &str) -> Proof {
        Proof { fact: None, findings: vec![], unknown: Some(why.to_owned()), agreement: vec![] }
    }

    /// A fact and findings for the report, and a line in the log.
    pub(crate) fn told(self, submission: &Submission) -> Told {
        let each = self.agreement.iter().map(|(i, db)| format!("layer {i}: {db:.1} dB"));
        let each = each.collect::<Vec<_>>().join(", ");
        if !each.is_empty() {
            submission.log(LogLevel::Info, "proof", &format!("SQNR of layers: {each}"));
        }
        let not_compared =
            |why| format!("layers were not compared with a second implementation: {why}");
        let fact = self.fact.or(self.unknown.map(not_compared));
        (fact.map(|fact| ("hf.proof".to_owned(), fact)), self.findings)
    }
}

/// Compares the decoder of a folder.
pub(crate) fn of_folder(model: &Model, config: &Config, weights: &Checkpoint) -> Proof {
    let (fields, context) = (config.raw(), config.context());
    of_fields(model, fields, (&|name: &str| weights.raw(name), context))
}

fn of_fields(
    model: &Model,
    fields: &Map<String, Value>,
    (find, context): (&Find<'_>, Option<usize>),
) -> Proof {
    let formulas = |tokens| families::of(&fields::Fields(Some(fields)), tokens);
    prove(&Case { model, formulas: &formulas, find, context })
}

/// Compares the decoder of a file of GGUF, by what it says under a key and by its tensors.
pub(crate) fn of_gguf(model: &Model, get: &gguf::Get<'_>, find: &Find<'_>) -> Proof {
    let formulas = |tokens| gguf::formulas(get, find, tokens);
    prove(&Case { model, formulas: &formulas, find, context: gguf::context(get) })
}

/// Compares some layers of a decoder.
fn prove(case: &Case<'_>) -> Proof {
    match compared(case) {
        Ok(proof) => proof,
        Err(why) => Proof::none(&why),
    }
}

fn compared(case: &Case<'_>) -> Plain<Proof> {
    let of = case.formulas;
    let windows = of(NEW)?.each.into_iter().filter_map(|each| each.window);
    let widest = windows.filter(|window| *window <= WINDOW_MAX).max().unwrap_or(0);
    let has_cache = case.model.graph.inputs().len() > 2;
    let room = case.context.unwrap_or(usize::MAX).saturating_sub(NEW);
    let past = if has_cache { PAST.max(widest + NEW).min(room) } else { 0 };
    let [_, keys] = of(NEW)?.sizes();
    let past = past.min(CACHE_MAX / keys.max(1));
    let f = of(past + NEW)?;
    let mut agreement = vec![];
    let (mut left, mut findings, mut wrong) = (ALL_MAX, vec![], vec![]);
    let mut why = "they are too large for the time that it may take".to_owned();
    let mut others = String::new();
    let count = f.each.len();
    for number in chosen(&f.each) {
        match one(case, (&f, number, past), left) {
            Ok(Some(Compared { work, decibels, is_right })) => {
                left -= work;
                agreement.push((number, decibels));
                if !is_right {
                    wrong.push(number);
                    let name = format!("{}.{number}", f.names.layers);
                    findings.push(differs(name, (number, count), decibels));
                }
            }
            Ok(None) => {}
            Err(found) => {
                others.push_str(&format!("; layer {number} was not compared: {found}"));
                why = found;
            }
        }
    }
    if agreement.is_empty() {
        return Err(why);
    }
    agreement.sort_by_key(|(number, _)| *number);
    let right: Vec<(usize, f64)> =
        agreement.iter().copied().filter(|(number, _)| !wrong.contains(number)).collect();
    let fact = (!right.is_empty()).then(|| fact(&right, count) + &others);
    Ok(Proof { fact, findings, unknown: None, agreement })
}

/// What comparing a layer took and gave.
struct Compared {
    work: usize,
    decibels: f64,
    is_right: bool,
}

/// Compares a layer, unless it takes more than is left.
fn one(
    case: &Case<'_>,
    (f, number, past): (&Formulas, usize, usize),
    left: usize,
) -> Plain<Option<Compared>> {
    let layer = Layer::new(f, case.find, number)?;
    let scores = f.sizes()[0].saturating_mul(2 * (past + NEW));
    let work = layer.weights().saturating_add(scores).saturating_mul(NEW);
    if work > LAYER_MAX.min(left) {
        return Ok(None);
    }
    let (decibels, is_right) = compare(case.model, &layer, past)?;
    Ok(Some(Compared { work, decibels, is_right }))
}

/// The first, the last, and one in the middle; then one of each other kind.
fn chosen(each: &[Each]) -> Vec<usize> {
    let count = each.len();
    let mut all = vec![0, count.saturating_sub(1), count / 2];
    all.dedup();
    all.truncate(count);
    for (number, kind) in each.iter().enumerate() {
        if !all.iter().any(|known| each[*known] == *kind) {
            all.push(number);
        }
    }
    all
}

fn fact(agreement: &[(usize, f64)], count: usize) -> String {
    let numbers: Vec<String> = agreement.iter().map(|(number, _)| number.to_string()).collect();
    let noun = if numbers.len() == 1 { "layer" } else { "layers" };
    let verb = if numbers.len() == 1 { "agrees" } else { "agree" };
    let numbers = numbers.join(", ");
    let least = agreement.iter().fold(TOLD_MAX, |least, (_, db)| least.min(*db));
    // Tens, which are the same on all processors.
    let least = (least / 10.0).floor() * 10.0;
    format!(
        "{noun} {numbers} of {count} {verb} with a second implementation: least SQNR {least} dB or more"
    )
}

fn differs(name: String, (number, count): (usize, usize), decibels: f64) -> Diagnostic {
    let text = format!(
        "Layer {number} of {count} does not compute what a second implementation makes of the checkpoint: their SQNR \
         is {decibels:.1} dB."
    );
    let help = "Do not use the model before it was compared with Transformers, and report it.";
    let place = Place::new(name, "decoder layer");
    Diagnostic::new(Code::LayersDiffer, text).at(place).help(help)
}

/// Numbers with a mean of zero and so great a deviation.
fn drawn(random: &mut RandomSource, count: usize, deviation: f64) -> Row {
    let mut one = || (0..4).map(|_| random.fraction() - 0.5).sum::<f64>() * 3f64.sqrt() * deviation;
    // As they are in the graph.
    (0..count).map(|_| f64::from(one() as f32)).collect()
}

/// How far the layer in the graph agrees with its formulas, and whether no more than rounding is between them.
fn compare(model: &Model, layer: &Layer<'_>, past: usize) -> Plain<(f64, bool)> {
    let f = layer.f;
    let mut random = RandomSource::new(SEED);
    let x: Vec<Row> = (0..NEW).map(|_| drawn(&mut random, f.hidden, SIZE)).collect();
    let kept = f.sizes()[1] * past;
    let keys = drawn(&mut random, kept, 1.0);
    let values = drawn(&mut random, f.kv_heads * f.value * past, 1.0);
    let past = Past { tokens: past, keys, values };
    let own = if f.cache_has_halves { paired(&past, f.head) } else { past.clone() };
    let expected = layer.run(&x, &own)?;
    let cut = cut::layer(model, layer.number, f.hidden)?;
    let found = cut::run(&cut, &x, &past, [f.kv_heads, f.head])?;
    let is_usual = |y: &f64| y.abs() <= NUMBER_MAX;
    if ![&expected, &found].into_iter().flatten().flatten().all(is_usual) {
        return Err(
            "they give numbers that are not finite, or larger than those of models".to_owned()
        );
    }
    let power = |a: &[Row], b: &[Row]| -> f64 {
        a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).powi(2)).sum()
    };
    let (update, error) = (power(&expected, &x), power(&expected, &found));
    if update == 0.0 && error == 0.0 {
        return Err("it changes nothing".to_owned());
    }
    let decibels = 10.0 * (update.max(f64::MIN_POSITIVE) / error.max(f64::MIN_POSITIVE)).log10();
    if decibels >= SURE {
        return Ok((decibels, true));
    }
    // Some layers make much of small changes, such as those by rounding.
    let mut changed = |all: &[f64]| -> Row {
        all.iter().map(|x| x * (1.0 + CHANGE * (2.0 * random.fraction() - 1.0))).collect()
    };
    let other: Vec<Row> = x.iter().map(|x| changed(x)).collect();
    let own = Past { keys: changed(&own.keys), values: changed(&own.values), ..own };
    let by_rounding = power(&layer.run(&other, &own)?, &expected);
    Ok((decibels, error <= by_rounding))
}

/// The cache with the pairs of keys side by side.
fn paired(past: &Past, head: usize) -> Past {
    let pair = |head: &[f64]| -> Row {
        let (first, second) = head.split_at(head.len() / 2);
        first.iter().zip(second).flat_map(|(a, b)| [*a, *b]).collect()
    };
    Past { keys: past.keys.chunks_exact(head).flat_map(pair).collect(), ..past.clone() }
}

#[cfg(test)]
pub(crate) mod tests;
