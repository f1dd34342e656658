//! Smallest and largest values: of a tensor, of its channels, and as a moving average.

use onnxd_ir::axis_at;

/// The smallest and the largest of some values; neither if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    /// The smallest; above `max` if there are no values.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes { min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Extremes {
    /// Takes in finite values.
    pub fn see(&mut self, values: &[f64]) {
        for x in values {
            self.min = self.min.min(*x);
            self.max = self.max.max(*x);
        }
    }

    /// Takes in floats, and counts the zeros among them; `None` if one is not finite, and then the
    /// extremes mean nothing.
    #[must_use]
    pub fn see_floats(&mut self, values: &[f32]) -> Option<u64> {
        let mut zeros = 0;
        for part in values.chunks(1 << 20) {
            let seen = floats(part);
            self.merge(&Extremes { min: f64::from(seen.min), max: f64::from(seen.max) });
            zeros += seen.zeros;
            if !seen.finite {
                return None;
            }
        }
        Some(zeros)
    }

    /// Takes in what another one saw.
    pub fn merge(&mut self, other: &Extremes) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Both, if there were values.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.min <= self.max).then_some((self.min, self.max))
    }

    /// The other way round.
    #[must_use]
    pub fn of(range: Option<(f64, f64)>) -> Extremes {
        range.map_or(Extremes::default(), |(min, max)| Extremes { min, max })
    }

    /// The largest magnitude; 0 without values.
    #[must_use]
    pub fn abs_max(&self) -> f64 {
        self.range().map_or(0.0, |(min, max)| min.abs().max(max.abs()))
    }
}

/// What was seen of some floats.
struct Floats {
    min: f32,
    max: f32,
    zeros: u64,
    finite: bool,
}

onnxd_eval::vectorized! {
    /// Integers are compared, as their least and largest are found several at a time, and those of
    /// floats are not.
    fn floats(values: &[f32]) -> Floats {
        let (mut least, mut largest, mut zeros) = (i32::MAX, i32::MIN, 0);
        for x in values {
            let place = in_order(x.to_bits().cast_signed());
            least = least.min(place);
            largest = largest.max(place);
            zeros += u32::from(*x == 0.0);
        }
        // The sum makes zero of minus zero.
        let float = |place| f32::from_bits(in_order(place).cast_unsigned()) + 0.0;
        let (min, max) = (float(least), float(largest));
        Floats { min, max, zeros: zeros.into(), finite: min.is_finite() && max.is_finite() }
    }
}

/// Bits of a float as an integer that is ordered as floats are, with what is no number at the ends;
/// and back.
fn in_order(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

/// Extremes of every index of one axis. A channel that a sample lacks is not changed by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Channels {
    /// The axis; negative ones count from the end.
    pub axis: i64,
    /// By index.
    pub extremes: Vec<Extremes>,
}

impl Channels {
    /// Without values.
    #[must_use]
    pub fn new(axis: i64) -> Channels {
        Channels { axis, extremes: Vec::new() }
    }

    /// Takes in elements `begin..` of a tensor of sizes `dims`, infinities and NaN left out. A
    /// tensor that has no such axis is passed over.
    pub fn see(&mut self, dims: &[usize], begin: usize, values: &[f64]) {
        let Some(axis) = axis_at(self.axis, dims.len()) else { return };
        let (count, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
        if count > self.extremes.len() && !values.is_empty() {
            self.extremes.resize(count, Extremes::default());
        }
        let mut at = begin;
        let mut rest = values;
        while !rest.is_empty() {
            // As many as lie in the same channel.
            let run = (inner - at % inner).min(rest.len());
            let (part, tail) = rest.split_at(run);
            let channel = &mut self.extremes[at / inner % count];
            for x in part.iter().filter(|x| x.is_finite()) {
                channel.see(std::slice::from_ref(x));
            }
            (rest, at) = (tail, at + run);
        }
    }

    /// Takes in what another one of the same axis saw.
    pub fn merge(&mut self, other: &Channels) {
        if other.extremes.len() > self.extremes.len() {
            self.extremes.resize(other.extremes.len(), Extremes::default());
        }
        self.extremes.iter_mut().zip(&other.extremes).for_each(|(a, b)| a.merge(b));
    }
}

/// Moving averages of the extremes of tensors: the first as it is, then `average + c * (new -
/// average)`. Merging takes the other one's tensors as the later ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MovingExtremes {
    /// Weight of a new tensor.
    pub c: f64,
    /// Tensors that had values.
    pub tensors: u64,
    first: (f64, f64),
    /// What the average would be if it had begun at zero; averages of two parts are sums of these.
    from_zero: (f64, f64),
}

impl MovingExtremes {
    /// Without values.
    #[must_use]
    pub fn new(c: f64) -> MovingExtremes {
        MovingExtremes { c, tensors: 0, first: (0.0, 0.0), from_zero: (0.0, 0.0) }
    }

    /// Takes in the extremes of one tensor.
    pub fn see(&mut self, tensor: &Extremes) {
        let Some((min, max)) = tensor.range() else { return };
        if self.tensors == 0 {
            self.first = (min, max);
        }
        let step = |old: f64, new: f64| (1.0 - self.c) * old + self.c * new;
        self.from_zero = (step(self.from_zero.0, min), step(self.from_zero.1, max));
        self.tensors += 1;
    }

    /// Takes in what another one saw later.
    pub fn merge(&mut self, later: &MovingExtremes) {
        if self.tensors == 0 {
            self.first = later.first;
        }
        let kept = self.left(later.tensors);
        self.from_zero.0 = kept * self.from_zero.0 + later.from_zero.0;
        self.from_zero.1 = kept * self.from_zero.1 + later.from_zero.1;
        self.tensors += later.tensors;
    }

    /// The averages, if there were values.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let left = self.left(self.tensors);
        let of = |first: f64, from_zero: f64| left * first + from_zero;
        let averages = (of(self.first.0, self.from_zero.0), of(self.first.1, self.from_zero.1));
        (self.tensors > 0).then_some(averages)
    }

    /// What is left of a start value after so many tensors.
    fn left(&self, tensors: u64) -> f64 {
        (1.0 - self.c).powf(tensors as f64)
    }
}

/// The mean of the extremes of groups of tensors, one after the other. A group that has fewer
/// tensors at the end counts less.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanExtremes {
    /// Tensors of a group.
    pub group: u64,
    /// Tensors that had values.
    tensors: u64,
    /// Of whole groups, each as often as it has tensors.
    sums: (f64, f64),
    /// Of the group that is not whole yet.
    open: Extremes,
    open_tensors: u64,
    /// Of the tensors of a part, whose groups begin before it.
    part: Option<Vec<Extremes>>,
}

impl MeanExtremes {
    /// Without values.
    #[must_use]
    pub fn new(group: u64) -> MeanExtremes {
        MeanExtremes {
            group: group.max(1),
            tensors: 0,
            sums: (0.0, 0.0),
            open: Extremes::default(),
            open_tensors: 0,
            part: None,
        }
    }

    /// Without values, to be merged with what saw the tensors before it. Keeps the extremes of
    /// every tensor.
    pub(crate) fn part() -> MeanExtremes {
        MeanExtremes { part: Some(Vec::new()), ..MeanExtremes::new(1) }
    }

    /// Takes in the extremes of one tensor.
    pub fn see(&mut self, tensor: &Extremes) {
        if tensor.range().is_none() {
            return;
        }
        if let Some(part) = &mut self.part {
            return part.push(*tensor);
        }
        self.open.merge(tensor);
        self.tensors += 1;
        self.open_tensors += 1;
        if self.open_tensors >= self.group {
            self.close();
        }
    }

    /// Takes in what another one saw. The groups of both stay what they are.
    pub fn merge(&mut self, later: &MeanExtremes) {
        if let Some(part) = &later.part {
            return part.iter().for_each(|tensor| self.see(tensor));
        }
        self.close();
        self.tensors += later.tensors;
        self.sums = (self.sums.0 + later.sums.0, self.sums.1 + later.sums.1);
        (self.open, self.open_tensors) = (later.open, later.open_tensors);
    }

    /// The means, if there were values.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let mut all = self.clone();
        all.close();
        let n = all.tensors as f64;
        (all.tensors > 0).then(|| (all.sums.0 / n, all.sums.1 / n))
    }

    fn close(&mut self) {
        let n = std::mem::take(&mut self.open_tensors) as f64;
        if let Some((min, max)) = std::mem::take(&mut self.open).range() {
            self.sums = (self.sums.0 + n * min, self.sums.1 + n * max);
        }
    }

    /// One that has these means.
    pub(crate) fn of(range: Option<(f64, f64)>) -> MeanExtremes {
        let (tensors, sums) = range.map_or((0, (0.0, 0.0)), |range| (1, range));
        MeanExtremes { tensors, sums, ..MeanExtremes::new(1) }
    }
}
