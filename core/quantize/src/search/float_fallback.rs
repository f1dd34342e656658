//! What a quantized model must keep of the float model, and the fewest operations that stay in
//! floating point for it.

use crate::accuracy::{SampleSet, classes};
use crate::observe::Limits;
use crate::report::{Report, name_of};
use crate::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{Model, NodeId};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Samples whose classes are compared at most.
const CLASSIFIED_MAX: u64 = 4096;

/// What params demand; at least one of both.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    /// Signal-to-noise ratio of the worst output.
    sqnr_db_min: Option<f64>,
    /// Percent of the samples whose class may be lost.
    top1_loss_max: Option<f64>,
}

impl Demand {
    /// `None` if nothing is demanded.
    pub(crate) fn from_params(cx: &dyn Session) -> Option<Demand> {
        let params = cx.quantization();
        let (sqnr_db_min, top1_loss_max) = (params.sqnr_db_min(), params.top1_loss_max());
        let some = sqnr_db_min.is_some() || top1_loss_max.is_some();
        some.then_some(Demand { sqnr_db_min, top1_loss_max })
    }

    /// That the worst output has this ratio in dB.
    pub(crate) fn of_db(least: f64) -> Demand {
        Demand { sqnr_db_min: Some(least), top1_loss_max: None }
    }
}

/// Classes of the samples by the float model, and what they are if the samples have labels.
pub(crate) struct Truth {
    float: Vec<usize>,
    labels: Option<Vec<i64>>,
}

impl Truth {
    /// What the float model says.
    fn run_float(float: &Model, data: &SampleSet) -> Result<Truth, Diagnostics> {
        let _part = data.session.part("classes in float".into());
        let said = classes(float, &mut data.batches(0, CLASSIFIED_MAX), Limits::of_floats())?;
        if said.is_empty() {
            let text = "`quantization.top1_loss_max` takes an output that tells classes apart";
            let help = "Leave the param out, or take `quantization.sqnr_db_min`.";
            return Err(Diagnostic::new(Code::FeatureUnsupported, text).help(help).into());
        }
        let labels = data.calibration.labels(CLASSIFIED_MAX)?;
        match &labels {
            Some(labels) if labels.len() != said.len() => {
                let text = format!(
                    "the output names {} classes where there are {} labels",
                    said.len(),
                    labels.len()
                );
                Err(Diagnostic::new(Code::EvalInputs, text).into())
            }
            _ => Ok(Truth { float: said, labels }),
        }
    }

    /// How many are right, of the float model and of another one; without labels, the float model's
    /// are taken for right.
    fn right(&self, found: &[usize]) -> (usize, usize) {
        let count = |said: &[usize]| match &self.labels {
            Some(labels) => said.iter().zip(labels).filter(|(c, l)| **c as i64 == **l).count(),
            None => said.iter().zip(&self.float).filter(|(a, b)| a == b).count(),
        };
        (count(&self.float), count(found))
    }

    /// Percent of the samples whose class is lost.
    fn loss(&self, found: &[usize]) -> f64 {
        let (float, found) = self.right(found);
        100.0 * (float as f64 - found as f64) / self.float.len() as f64
    }
}

/// A candidate of which operations can be left out.
pub(crate) trait FloatFallback {
    /// What can stay in floating point by itself.
    fn choices(&self) -> Result<Vec<NodeId>, Diagnostics>;

    /// Signal-to-noise ratio of the worst output with these in floating point.
    fn sqnr_db(&mut self, floats: &BTreeSet<NodeId>) -> Result<f64, Diagnostics>;

    /// The model with these in floating point.
    fn model(&self, floats: &BTreeSet<NodeId>) -> Result<Model, Diagnostics>;

    /// The float model.
    fn float(&self) -> &Model;

    /// Samples.
    fn data(&self) -> &SampleSet<'_>;

    /// Leaves little time from now on.
    fn hurry(&mut self);

    /// Whether the time is over; what is not measured for that reason is counted.
    fn late(&mut self) -> bool;
}

/// The fewest operations, those that cost most first, without which what is demanded is kept; and
/// what they keep, for the report.
pub(crate) fn fewest(
    demand: Demand,
    fallback: &mut dyn FloatFallback,
) -> Result<InFloat, Diagnostics> {
    let truth = demand
        .top1_loss_max
        .map(|_| Truth::run_float(fallback.float(), fallback.data()))
        .transpose()?;
    let search = Fewest { demand, truth, tries: Cell::new(0) };
    let floats = search.found(fallback)?;
    search.kept(fallback, floats)
}

/// What stays in floating point so that outputs keep what is wanted of them.
#[derive(Default)]
pub(crate) struct InFloat {
    pub(crate) floats: BTreeSet<NodeId>,
    /// That it was not asked for.
    pub(crate) note: Option<Diagnostic>,
    /// What the classes became, and percent of the samples whose class is lost.
    top1: Option<(String, f64)>,
}

impl InFloat {
    /// Says in the report what was kept.
    pub(crate) fn tell(self, report: &mut Report) {
        if let Some((text, loss)) = self.top1 {
            report.fact("quantization.top1", text);
            report.quality.top1_loss = Some(loss);
        }
    }
}

struct Fewest {
    demand: Demand,
    truth: Option<Truth>,
    tries: Cell<u64>,
}

impl Fewest {
    fn classes(
        &self,
        fallback: &dyn FloatFallback,
        floats: &BTreeSet<NodeId>,
    ) -> Result<Vec<usize>, Diagnostics> {
        let _part = fallback.data().session.part("classes".into());
        let mut samples = fallback.data().batches(0, CLASSIFIED_MAX);
        classes(&fallback.model(floats)?, &mut samples, Limits::of_floats())
    }

    fn holds(
        &self,
        fallback: &mut dyn FloatFallback,
        floats: &BTreeSet<NodeId>,
    ) -> Result<bool, Diagnostics> {
        self.tries.set(self.tries.get() + 1);
        let _part = fallback.data().session.part(format!("try {}", self.tries.get()));
        if let Some(least) = self.demand.sqnr_db_min
            && fallback.sqnr_db(floats)? < least
        {
            return Ok(false);
        }
        Ok(match (self.demand.top1_loss_max, &self.truth) {
            (Some(most), Some(truth)) => truth.loss(&self.classes(fallback, floats)?) <= most,
            _ => true,
        })
    }

    fn found(&self, fallback: &mut dyn FloatFallback) -> Result<BTreeSet<NodeId>, Diagnostics> {
        if self.holds(fallback, &BTreeSet::new())? {
            return Ok(BTreeSet::new());
        }
        let ranked = ranked(fallback)?;
        let first =
            |count: usize| -> BTreeSet<NodeId> { ranked[..count].iter().copied().collect() };
        let (mut low, mut high) = (0, ranked.len());
        while high - low > 1 && !fallback.late() {
            let middle = (low + high) / 2;
            match self.holds(fallback, &first(middle))? {
                true => high = middle,
                false => low = middle,
            }
        }
        let mut floats = first(high);
        // What costs much by itself may cost little beside others.
        for node in ranked[..high.saturating_sub(1)].iter().rev() {
            if fallback.late() {
                break;
            }
            floats.remove(node);
            if !self.holds(fallback, &floats)? {
                floats.insert(*node);
            }
        }
        Ok(floats)
    }

    /// What the classes became.
    fn kept(
        &self,
        fallback: &dyn FloatFallback,
        floats: BTreeSet<NodeId>,
    ) -> Result<InFloat, Diagnostics> {
        let Some(truth) = &self.truth else { return Ok(InFloat { floats, ..InFloat::default() }) };
        let classes = self.classes(fallback, &floats)?;
        let (float, found) = truth.right(&classes);
        let of = truth.float.len();
        let text = match truth.labels {
            Some(_) => format!("{found} of {of} labels right, {float} in float"),
            None => format!("{found} of {of} classes as in float"),
        };
        Ok(InFloat { floats, note: None, top1: Some((text, truth.loss(&classes))) })
    }
}

/// What alone ruins outputs, of which the SQNR is `db`: the few operations, half of all at most,
/// without which the SQNR is clearly above the floor, else just above it.
pub(crate) fn rescued(db: f64, fallback: &mut dyn FloatFallback) -> Result<InFloat, Diagnostics> {
    const CLEARLY_DB: f64 = 5.0;
    let floor = fallback.data().session.quantization().sqnr_db_floor();
    let most = fallback.choices()?.len() / 2;
    if db >= floor || most == 0 {
        return Ok(InFloat::default());
    }
    fallback.hurry();
    let ranked = ranked(fallback)?;
    let first = |count: usize| -> BTreeSet<NodeId> { ranked[..count].iter().copied().collect() };
    let (attempt, mut tries) = (fallback.data().session.part("try 1".into()), 1);
    let reached = fallback.sqnr_db(&first(most))?;
    if reached.is_nan() || reached < floor {
        return Ok(InFloat::default());
    }
    let wanted = if reached >= floor + CLEARLY_DB { floor + CLEARLY_DB } else { floor };
    let (mut low, mut high, mut reached) = (0, most, reached);
    while high - low > 1 && !fallback.late() {
        let middle = (low + high) / 2;
        tries += 1;
        attempt.now(format!("try {tries}"));
        let middle_sqnr = fallback.sqnr_db(&first(middle))?;
        match middle_sqnr >= wanted {
            true => (high, reached) = (middle, middle_sqnr),
            false => low = middle,
        }
    }
    let floats = first(high);
    let graph = &fallback.float().graph;
    let names: Vec<String> = ranked[..high.min(3)]
        .iter()
        .map(|id| format!("`{}`", shown(&name_of(graph, &graph[*id]))))
        .collect();
    let text = format!(
        "{high} operations stay in floating point, {} among them: with integers there the outputs \
         have {db:.1} dB, without {reached:.1} dB",
        names.join(", ")
    );
    let help =
        "`quantization.sqnr_db_floor` says what outputs must keep; a lower one takes integers.";
    let note = Diagnostic::new(Code::QuantizationLoss, text).help(help);
    Ok(InFloat { floats, note: Some(note), top1: None })
}

/// What can stay in floating point, what costs most first.
fn ranked(fallback: &mut dyn FloatFallback) -> Result<Vec<NodeId>, Diagnostics> {
    let all = fallback.choices()?;
    let mut costs: Vec<(f64, NodeId)> = Vec::new();
    let part = fallback.data().session.part("".into());
    for (at, node) in all.iter().enumerate() {
        part.now(format!("operation {} of {}", at + 1, all.len()));
        // One whose cost is not known stays with the integers longest.
        let db = match fallback.late() {
            true => f64::INFINITY,
            false => {
                fallback.sqnr_db(&all.iter().copied().filter(|other| other != node).collect())?
            }
        };
        costs.push((db, *node));
    }
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(costs.into_iter().map(|(_, node)| node).collect())
}
