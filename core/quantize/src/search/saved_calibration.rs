//! Statistics of a calibration as a file beside the model, and back: what is read makes the same
//! integers as the samples did. What was decided with the samples is kept, too.

use crate::accuracy::{Base, Held, SampleSet};
use crate::observe::{self, Saved, SavedChoice, SavedTensor, Stats};
use crate::plan::QuantizeRequest;
use crate::plan::params;
use crate::range::Method;
use crate::report::{Report, name_of};
use crate::search::progress::Clock;
use crate::search::static_trials::{EQUALIZED, SMOOTHED, StaticSearch};
use crate::search::trial::Trial;
use crate::search::{equalized, sites, smoothed};
use crate::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{Graph, Model, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// The file, as it is written beside the model and looked for in the submission.
pub(crate) const STATISTICS: &str = "calibration.json";
/// Whose statistics these are: those of all forms with ranges from data.
const QUANTIZER: &str = "static";

type Facts = BTreeMap<String, String>;

/// What the statistics and the choice depend on, where a base was changed so.
fn facts(
    model: &Model,
    change: &str,
    request: &QuantizeRequest,
    cx: &dyn Session,
) -> Result<Facts, Diagnostic> {
    let mut facts = Facts::from([("network".into(), cx.fingerprint(model)?)]);
    if change == EQUALIZED {
        facts.insert("per_channel".into(), request.settings.per_channel.to_string());
    }
    if params::tries_all(cx) {
        facts.insert("accuracy".into(), "auto".into());
    }
    let params = cx.quantization();
    for (name, opted_in) in
        [("sqnr_db_min", params.sqnr_db_min()), ("top1_loss_max", params.top1_loss_max())]
    {
        facts.extend(opted_in.map(|n| (name.to_owned(), n.to_string())));
    }
    Ok(facts)
}

/// What a search saw and chose, in the form of a file.
pub(crate) fn saved(
    model: &Model,
    search: &StaticSearch,
    trial: &Trial,
    floats: &BTreeSet<NodeId>,
) -> Result<Saved, Diagnostic> {
    let (base, change) = (&search.bases[trial.base], search.changes[trial.base]);
    let cx = search.data.session;
    let row = |(name, stats): (&String, &Stats)| (name.clone(), stats.saved(name));
    let mut rows: BTreeMap<String, SavedTensor> = base.seen.iter().map(row).collect();
    if SMOOTHED.iter().any(|(_, name)| *name == change) {
        for (name, channels) in &search.magnitudes {
            let row = rows
                .entry(name.clone())
                .or_insert_with(|| SavedTensor { name: name.clone(), ..SavedTensor::default() });
            row.channels = channels.clone();
        }
    }
    let graph = &base.model.graph;
    Ok(Saved {
        quantizer: QUANTIZER.into(),
        facts: facts(model, change, search.request, cx)?,
        samples: search.judged.calibrating(&search.data),
        tensors: rows.into_values().collect(),
        choice: Some(SavedChoice {
            change: change.into(),
            method: trial.method.name().into(),
            clip_weights: trial.clip_weights,
            correct_biases: trial.correct,
            learned_rounding: trial.rounding.is_some(),
            left_in_float: floats.iter().map(|id| name_of(graph, &graph[*id])).collect(),
        }),
    })
}

/// Quantizes with the statistics that lie in the submission. What takes samples is left out, unless
/// there are some.
pub(crate) fn quantize(
    model: &mut Model,
    request: &QuantizeRequest,
    cx: &dyn Session,
) -> Result<(Report, Held), Diagnostics> {
    let saved = Saved::from_json(STATISTICS, &cx.read(STATISTICS)?)?;
    let choice = saved.choice.clone().unwrap_or_default();
    let wanted = facts(model, &choice.change, request, cx)?;
    saved.check((STATISTICS, STALE), QUANTIZER, &wanted)?;
    let auto = params::tries_all(cx);
    let method = match auto {
        true => named(&choice.method, cx)?,
        false => params::method(cx),
    };
    let without = cx.calibration().samples() == 0;
    let learns = params::learns(cx) || auto && choice.learned_rounding;
    let mut trial = Trial {
        clip_weights: auto && choice.clip_weights,
        correct: auto && choice.correct_biases && !without,
        ..Trial::new(0, method)
    };
    let base = restored(&saved, &choice, model, request, method)?;
    let floats = weighted_of(&base, &choice.left_in_float);
    let change = SMOOTHED.iter().map(|(_, name)| *name).chain([EQUALIZED]);
    let change = change.into_iter().find(|name| *name == choice.change).unwrap_or("");
    let samples = cx.calibration().samples();
    let data = SampleSet::of(cx);
    // The statistics may be of the same samples.
    let held = Held::first(&data, model, false);
    let mut search = StaticSearch {
        data,
        judged: held.clone(),
        request,
        bases: vec![base],
        changes: vec![change],
        magnitudes: BTreeMap::new(),
        roundings: Vec::new(),
        calibrating: samples,
        held: held.clone(),
        folds: None,
        clock: Clock::start(cx),
        tried: Vec::new(),
    };
    if learns && !without {
        trial.rounding = Some(search.learn(&trial)?);
    }
    let (found, mut done) = search.finish(&trial, &floats)?;
    *model = found;
    done.statistics = format!("of {} samples, reloaded from {STATISTICS}", saved.samples);
    if without {
        done.statistics += "; without samples, ratios of layers are not known";
    }
    for (opted_in, what) in [
        (auto && choice.correct_biases, "biases were not corrected"),
        (learns, "weights were rounded to the nearest"),
    ] {
        if opted_in && without {
            let text = format!("{what}: more takes samples, and there are only statistics");
            let help = "Drop the samples beside the statistics.";
            done.notes.push(Diagnostic::new(Code::QuantizationLoss, text).help(help));
        }
    }
    Ok((done, held))
}

/// What to do about statistics that cannot be used.
const STALE: &str = "Calibrate once more: leave `calibration.reload` out, and drop the samples.";

fn unusable(why: &str) -> Diagnostic {
    observe::unusable((STATISTICS, STALE), why)
}

fn named(method: &str, cx: &dyn Session) -> Result<Method, Diagnostic> {
    let found = Method::named(method, cx.calibration_params().percentile());
    found.ok_or_else(|| unusable(&format!("name an unknown method, `{}`", shown(method))))
}

/// The float model in the form that the statistics are of, with what was seen of its values.
fn restored(
    saved: &Saved,
    choice: &SavedChoice,
    model: &Model,
    request: &QuantizeRequest,
    method: Method,
) -> Result<Base, Diagnostics> {
    let none = BTreeSet::new();
    let own = Base::new(model.clone(), request, &none);
    let share = SMOOTHED.iter().find(|(_, name)| *name == choice.change);
    let changed = match (choice.change.as_str(), share) {
        ("", _) => Some(model.clone()),
        (EQUALIZED, _) => equalized(model, request.settings.per_channel)?,
        (_, Some((share, _))) => smooth(saved, &own, *share),
        _ => None,
    };
    let changed = changed.ok_or_else(|| {
        unusable(&format!(
            "are those of a model with {}, which this one is not",
            shown(&choice.change)
        ))
    })?;
    let mut base = Base::new(changed, request, &none);
    let rows: BTreeMap<&str, &SavedTensor> =
        saved.tensors.iter().map(|row| (row.name.as_str(), row)).collect();
    for name in base.observed() {
        let row = rows.get(name.as_str());
        let row = row.ok_or_else(|| unusable(&format!("have no value `{}`", shown(&name))))?;
        let stats = Stats::restored(row).filter(|stats| suffices(stats, method));
        let stats = stats.ok_or_else(|| {
            unusable(&format!(
                "have no usable counts of `{}`, which the method {} takes",
                shown(&name),
                method.name()
            ))
        })?;
        base.seen.insert(name, stats);
    }
    Ok(base)
}

/// With the factors that the samples led to.
fn smooth(saved: &Saved, base: &Base, share: f64) -> Option<Model> {
    let magnitudes: BTreeMap<String, Vec<f64>> = saved
        .tensors
        .iter()
        .filter(|row| !row.channels.is_empty())
        .map(|row| (row.name.clone(), row.channels.clone()))
        .collect();
    let sites = sites(base);
    let names: BTreeSet<String> = sites.iter().map(|site| site.name(&base.model.graph)).collect();
    // Others are not smoothed any more: the values are not those that were seen.
    let known = magnitudes.keys().all(|name| names.contains(name));
    known.then(|| smoothed(&base.model, &sites, &magnitudes, share)).flatten()
}

/// Whether a range follows from them; values that were never there need none.
fn suffices(stats: &Stats, method: Method) -> bool {
    let unseen = stats.extremes.range().is_none();
    let counted = stats.histogram.as_ref().is_some_and(|h| h.count() > 0);
    let averaged = stats.mean.range().is_some();
    unseen
        || match method {
            Method::MinMax => true,
            Method::MovingAverage => averaged,
            _ => counted,
        }
}

/// The weighted operators of these names.
fn weighted_of(base: &Base, names: &[String]) -> BTreeSet<NodeId> {
    let graph: &Graph = &base.model.graph;
    let all = base.choices().into_iter();
    all.filter(|id| names.contains(&name_of(graph, &graph[*id]))).collect()
}
