//! How far a quantized model is from the model it was made of, value by value, on samples.

use crate::observe::values::{BLOCK, blocks};
use crate::observe::{Feeds, Limits};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_eval::{Engine, Observer, Prepared};
use onnxd_ir::{DataType, Element, Model, Tensor};
use std::collections::{HashMap, HashSet};

/// A value of the reference and the one that stands for it, by their names, see [`Observer`].
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// In the reference.
    pub reference: String,
    /// In the quantized model.
    pub found: String,
    /// Real value of one step of what is found; 1 where it is real itself.
    pub scale: f64,
    /// What stands for zero.
    pub zero_point: f64,
    /// Smallest and largest real value that can be found.
    pub range: Option<(f64, f64)>,
}

/// What was seen of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// Elements that were compared.
    pub elements: u64,
    /// Sum of the squares of the reference.
    pub signal: f64,
    /// Sum of the squares of the differences.
    pub noise: f64,
    /// Largest difference.
    pub max_abs: f64,
    /// Elements of the reference that are more than half a step beyond the range.
    pub beyond: u64,
}

impl Agreement {
    /// Signal-to-noise ratio; infinite for equal values, `None` if there were none.
    #[must_use]
    pub fn sqnr_db(&self) -> Option<f64> {
        let ratio = || match self.noise {
            0.0 => f64::INFINITY,
            noise => 10.0 * (self.signal / noise).log10(),
        };
        (self.elements > 0).then(ratio)
    }

    /// Takes in what was seen elsewhere.
    pub fn merge(&mut self, other: &Agreement) {
        self.elements += other.elements;
        self.signal += other.signal;
        self.noise += other.noise;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.beyond += other.beyond;
    }

    /// Share of elements beyond the range; `None` if there were none.
    #[must_use]
    pub fn clipped(&self) -> Option<f64> {
        (self.elements > 0).then(|| self.beyond as f64 / self.elements as f64)
    }

    fn see(&mut self, pair: &Pair, found: &[f64], reference: &[f64]) {
        let (low, high) = pair.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let (low, high) = (low - pair.scale / 2.0, high + pair.scale / 2.0);
        for (q, x) in found.iter().zip(reference) {
            let y = (q - pair.zero_point) * pair.scale;
            // Where only one side is finite, the difference is infinite or no number.
            let gap = if y == *x || (y.is_nan() && x.is_nan()) { 0.0 } else { (y - x).abs() };
            let gap = if gap.is_nan() { f64::INFINITY } else { gap };
            if x.is_finite() {
                self.signal += x * x;
            }
            self.noise += gap * gap;
            self.max_abs = self.max_abs.max(gap);
            self.beyond += u64::from(*x < low || *x > high);
        }
        self.elements += reference.len() as u64;
    }
}

/// Bytes of what the reference says to samples that are compared at once.
const AT_ONCE_MAX: usize = 128 << 20;

/// What the reference computed in one run, by name.
pub type ReferenceOutputs = HashMap<String, Tensor>;

/// At most so many elements of a tensor of floats or of integers of 8 or 16 bits: one from each of
/// as many parts, at a place that differs from part to part, so that every channel has some. Other
/// tensors stay whole.
#[must_use]
pub fn selected(tensor: &Tensor, most: usize) -> Tensor {
    if tensor.len() <= most {
        return tensor.clone();
    }
    let found = match tensor.dtype() {
        DataType::Float => tensor.as_slice::<f32>().map(|values| picked(&values, most)),
        DataType::Uint8 => tensor.as_slice::<u8>().map(|values| picked(&values, most)),
        DataType::Int8 => tensor.as_slice::<i8>().map(|values| picked(&values, most)),
        DataType::Uint16 => tensor.as_slice::<u16>().map(|values| picked(&values, most)),
        DataType::Int16 => tensor.as_slice::<i16>().map(|values| picked(&values, most)),
        _ => None,
    };
    found.unwrap_or_else(|| tensor.clone())
}

/// One of each of `most` parts.
fn picked<T: Element>(values: &[T], most: usize) -> Tensor {
    let begin = |part: usize| (part as u128 * values.len() as u128 / most as u128) as usize;
    // The fractions of multiples of the golden ratio are spread evenly.
    let spread = |part: usize| (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let place = |part: usize| {
        let size = (begin(part + 1) - begin(part)) as u64;
        begin(part) + ((spread(part) * size) >> 32) as usize
    };
    Tensor::vector((0..most).map(|part| values[place(part)]).collect::<Vec<T>>())
}

/// Keeps the reference's values of one run.
struct Keeper<'p> {
    wanted: &'p HashSet<&'p str>,
    most: usize,
    kept: ReferenceOutputs,
}

impl Observer for Keeper<'_> {
    fn wants(&mut self, value: &str) -> bool {
        self.wanted.contains(value)
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        self.kept.insert(value.to_owned(), selected(tensor, self.most));
    }
}

/// Compares what it sees with what was kept.
struct Comparer<'p> {
    pairs: &'p [Pair],
    /// Places of pairs by what is found; several may look at one value.
    wanted: &'p HashMap<&'p str, Vec<usize>>,
    kept: &'p ReferenceOutputs,
    most: usize,
    agreements: Vec<Agreement>,
    problem: Option<Diagnostic>,
}

impl Observer for Comparer<'_> {
    fn wants(&mut self, value: &str) -> bool {
        self.wanted.contains_key(value)
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        let tensor = &selected(tensor, self.most);
        for at in self.wanted.get(value).into_iter().flatten() {
            let pair = &self.pairs[*at];
            let Some(reference) = self.kept.get(&pair.reference) else { continue };
            if let Err(problem) = compare(pair, tensor, reference, &mut self.agreements[*at]) {
                self.problem.get_or_insert(problem);
            }
        }
    }
}

fn compare(
    pair: &Pair,
    computed: &Tensor,
    reference: &Tensor,
    agreement: &mut Agreement,
) -> Result<(), Diagnostic> {
    let fault = |text: String| {
        let text = format!("`{}` cannot be compared: {text}", shown(&pair.reference));
        Diagnostic::new(Code::EvalInputs, text)
    };
    refuse!(computed.len() != reference.len() =>
        fault(format!("its shape is {:?}, quantized {:?}", reference.dims(), computed.dims())));
    if let (Some(computed), Some(reference)) =
        (computed.as_slice::<f32>(), reference.as_slice::<f32>())
    {
        let (mut q, mut x) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (computed, reference) in computed.chunks(BLOCK).zip(reference.chunks(BLOCK)) {
            q.iter_mut().zip(computed).for_each(|(q, v)| *q = f64::from(*v));
            x.iter_mut().zip(reference).for_each(|(x, v)| *x = f64::from(*v));
            agreement.see(pair, &q[..computed.len()], &x[..computed.len()]);
        }
        return Ok(());
    }
    // Both are read in blocks, which do not come at the same time.
    let mut values = Vec::with_capacity(computed.len());
    let read = blocks(computed, |_, part| values.extend_from_slice(part));
    let seen = read.and_then(|()| {
        blocks(reference, |from, part| agreement.see(pair, &values[from..][..part.len()], part))
    });
    seen.ok_or_else(|| fault("it is not made of numbers".to_owned()))
}

/// What runs of the reference say to the pairs.
fn keep(
    reference: &mut dyn Prepared,
    pairs: &[Pair],
    samples: &[&Feeds],
    limits: Limits,
) -> Result<Vec<ReferenceOutputs>, Diagnostics> {
    let wanted = pairs.iter().map(|p| p.reference.as_str()).collect();
    let most = limits.compared_max;
    let keeper = |_| Keeper { wanted: &wanted, most, kept: ReferenceOutputs::new() };
    let mut keepers: Vec<Keeper> = samples.iter().map(keeper).collect();
    let runs = samples.iter().zip(&mut keepers).map(|(feeds, k)| (*feeds, limits.options(k)));
    reference.run_all(runs.collect())?;
    Ok(keepers.into_iter().map(|keeper| keeper.kept).collect())
}

/// What the reference says to `pairs` on samples, of as many of the first ones as fit `bytes_max`:
/// for comparing several models with it.
///
/// # Errors
/// Why a sample cannot be had or a run failed.
pub fn references(
    engine: &dyn Engine,
    reference: &Model,
    pairs: &[Pair],
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    (bytes_max, limits): (usize, Limits),
) -> Result<Vec<ReferenceOutputs>, Diagnostics> {
    let mut prepared = engine.prepare(reference)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    loop {
        let now = samples.take(prepared.at_once());
        let now = now.collect::<Result<Vec<Feeds>, Diagnostics>>()?;
        if now.is_empty() {
            return Ok(found);
        }
        for kept in keep(&mut *prepared, pairs, &now.iter().collect::<Vec<_>>(), limits)? {
            bytes += kept.values().map(Tensor::byte_len).sum::<usize>();
            if bytes > bytes_max {
                return Ok(found);
            }
            found.push(kept);
        }
    }
}

/// Runs both models side by side and compares the values of `pairs`, in their order. A sample is
/// given as the reference takes it and as the other one takes it. The values of the runs of the
/// reference that are made at once are in memory together; what it says to the first samples may be
/// `known`.
///
/// # Errors
/// Why a sample cannot be had or a run failed; `N0507` if values have different shapes.
pub fn agreements(
    engine: &dyn Engine,
    models: (&Model, &Model),
    pairs: &[Pair],
    samples: &mut dyn Iterator<Item = Result<(Feeds, Feeds), Diagnostics>>,
    known: (&[ReferenceOutputs], Limits),
) -> Result<Vec<Agreement>, Diagnostics> {
    let mut all = vec![Agreement::default(); pairs.len()];
    let mut add = |run: &[Agreement]| all.iter_mut().zip(run).for_each(|(all, one)| all.merge(one));
    each_agreement(engine, models, pairs, samples, known, &mut add)?;
    Ok(all)
}

/// As [`agreements`], of each run by itself.
///
/// # Errors
/// As [`agreements`].
pub fn each_agreement(
    engine: &dyn Engine,
    (reference, found): (&Model, &Model),
    pairs: &[Pair],
    samples: &mut dyn Iterator<Item = Result<(Feeds, Feeds), Diagnostics>>,
    (references, limits): (&[ReferenceOutputs], Limits),
    see: &mut dyn FnMut(&[Agreement]),
) -> Result<(), Diagnostics> {
    let mut of_reference = engine.prepare(reference)?;
    let mut of_found = engine.prepare(found)?;
    let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, pair) in pairs.iter().enumerate() {
        wanted.entry(&pair.found).or_default().push(at);
    }
    let mut references = references.iter();
    let mut largest = 1;
    loop {
        let at_once = of_found.at_once().min(limits.at_once_max);
        let now = samples.take(at_once.min(AT_ONCE_MAX / largest).max(1));
        let now = now.collect::<Result<Vec<(Feeds, Feeds)>, Diagnostics>>()?;
        if now.is_empty() {
            return Ok(());
        }
        let mut kept: Vec<&ReferenceOutputs> = references.by_ref().take(now.len()).collect();
        let unknown: Vec<&Feeds> = now[kept.len()..].iter().map(|(feeds, _)| feeds).collect();
        let fresh = match unknown.is_empty() {
            true => Vec::new(),
            false => keep(&mut *of_reference, pairs, &unknown, limits)?,
        };
        kept.extend(&fresh);
        let bytes = |kept: &&ReferenceOutputs| kept.values().map(Tensor::byte_len).sum();
        largest = kept.iter().map(bytes).fold(largest, usize::max);
        let (wanted, most) = (&wanted, limits.compared_max);
        let comparer = |kept| {
            let agreements = vec![Agreement::default(); pairs.len()];
            Comparer { pairs, wanted, kept, most, agreements, problem: None }
        };
        let mut comparers: Vec<Comparer> = kept.into_iter().map(comparer).collect();
        let runs = now.iter().zip(&mut comparers);
        let runs = runs.map(|((_, feeds), comparer)| (feeds, limits.options(comparer)));
        of_found.run_all(runs.collect())?;
        for comparer in comparers {
            refuse!(let Some(problem) = comparer.problem => problem.into());
            see(&comparer.agreements);
        }
    }
}
