//! Joins the parts: params, the plan, the graph in integers, and the report.

use crate::graph::{Casting, write};
use crate::learned;
use crate::measure::{measure, whole};
use crate::options::{Branches, Clipping, Equalization, PlanOptions};
use crate::params::{Params, Rounding};
use crate::plan::{CellNetwork, IntegerPlan, Output};
use crate::report::{self, type_text};
use crate::saved;
use crate::statistics::{Data, Statistics};
use crate::{accuracy, stimuli};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::serde_json::Value;
use onnxd_plugin_sdk::words::{self, Accuracy};
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_quantize::observe::Saved;
use onnxd_quantize::report::Nearness;
use onnxd_quantize::session::Batches;
use std::cell::Cell;

/// The file of the statistics, as it is written beside the model and looked for in the submission.
const STATISTICS: &str = "calibration.json";
/// Samples that another graph is made of at most, to grade the way it was made.
const GRADED_MAX: u64 = 512;
/// Labelled stimuli in the submission.
const TEST: &str = "test.npz";

/// The quantizer `n2d2`.
pub(crate) struct N2d2;

impl Quantizer for N2d2 {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let learned = learned::has_ranges(model);
        let params: &Params = &cx.params().section();
        let (inputs, range) = stimuli_range(model, params);
        let options = PlanOptions { inputs, range, ..options(cx, params, learned)? };
        check(cx, params, learned, options.inputs.is_some())?;
        let casting = match (params.fake_quantization(), params.implicit_casting()) {
            (true, _) => Casting::Fake,
            (false, true) => Casting::Implicit,
            (false, false) => Casting::Explicit,
        };
        let (mut network, mut plan) = planned(model, cx, params, &options)?;
        network.forget_weights();
        let written = write(&network, &plan, casting)?;
        // A graph without casts does not run.
        let runs = match casting {
            Casting::Implicit => &write(&network, &plan, Casting::Explicit)?,
            _ => &written,
        };
        plan.forget_weights();
        let measured = measure(&network, &plan, &runs.model, cx, most(params, &options))?;
        report::fill(cx, &options, learned, (&network, &plan, &written), &measured);
        let most = if learned { 0 } else { most(params, &options) };
        let held = held_out(cx, params, &options, learned);
        tell_quality(
            model,
            (&network, &plan),
            &runs.model,
            cx,
            (most, &|cx| match held {
                Some(from) => held_out_quality(model, cx, params, &options, from).map(Some),
                None => Ok(None),
            }),
        )?;
        on_stimuli(model, &runs.model, &plan, params, cx)?;
        if casting == Casting::Implicit {
            let text = "the model was written without casts, and its types do not fit together: \
                        runtimes refuse it";
            let help = "Leave `ImplicitCasting` out for a model that runs.";
            cx.note(Diagnostic::new(Code::OnnxInvalid, text).help(help));
        }
        *model = written.model;
        let range = format!("{}, {}", plan.range, options.range_origin().text());
        cx.metadata("quantization.stimuli_range", range);
        for (key, value) in facts(model, &network, &plan) {
            cx.metadata(key, value);
        }
        Ok(())
    }
}

/// What another graph of the same network gives on samples that it does not know.
type Graded<'g> = &'g dyn Fn(&QuantizeContext) -> Result<Option<Nearness>, Diagnostics>;

/// Says how near the outputs are to those of the float network, or why that is not known. `most` samples calibrated.
fn tell_quality(
    float: &Model,
    planned: (&CellNetwork, &IntegerPlan),
    integer: &Model,
    cx: &mut QuantizeContext,
    (most, graded): (u64, Graded),
) -> Result<(), Diagnostics> {
    if cx.calibration().is_empty() {
        cx.unmeasured("there are no samples; drop some as `calib.npz`, too");
        return Ok(());
    }
    let told = whole(float, planned, integer, cx, most).and_then(|own| match graded(cx) {
        Ok(graded) => Ok(lower(own, graded)),
        Err(found) if cx.is_stopped() => Err(found),
        // Without other samples, what is stated is of its own, which the host tells.
        Err(_) => Ok(own),
    });
    match told {
        Ok(nearness) => cx.quality(&nearness),
        Err(found) if cx.is_stopped() => return Err(found),
        Err(found) => {
            let first = found.0.into_iter().next();
            cx.unmeasured(first.map(|d| d.into_finding().message).unwrap_or_default());
        }
    }
    Ok(())
}

/// The lower ratio of each output: of the result on the samples that calibrated, and of what is made of others.
fn lower(own: Nearness, graded: Option<Nearness>) -> Nearness {
    let Some(mut graded) = graded else { return own };
    for (name, db) in &mut graded.outputs {
        let same = own.outputs.iter().find(|(other, _)| other == name);
        *db = same.map_or(*db, |(_, own)| db.min(*own));
    }
    graded
}

/// Where the samples begin that [`held_out_quality`] measures: the last quarter, where all of them calibrate.
fn held_out(
    cx: &QuantizeContext,
    params: &Params,
    options: &PlanOptions,
    learned: bool,
) -> Option<u64> {
    let (samples, batch) = (cx.calibration().samples(), cx.calibration().batch_size() as u64);
    let others = learned || is_reloaded(cx, params) || most(params, options) < samples;
    let count = (samples / 4).next_multiple_of(batch.max(1)).max(batch);
    let from = samples.checked_sub(count)?.min(GRADED_MAX) / batch * batch;
    (!others && from > 0 && !cx.calibration().is_random()).then_some(from)
}

/// N2D2 calibrates on all samples, which therefore grade themselves. So what the first ones make, in the same way, is
/// measured on the others.
fn held_out_quality(
    model: &Model,
    cx: &QuantizeContext,
    params: &Params,
    options: &PlanOptions,
    from: u64,
) -> Result<Nearness, Diagnostics> {
    let _part = cx.part("of the first samples alone");
    let network = crate::prepared(model, options)?;
    let statistics =
        with_samples(cx, (from, from), |data| crate::measured(&network, data, options))?;
    let plan = crate::decided(&network, &statistics, options)?;
    let casting = if params.fake_quantization() { Casting::Fake } else { Casting::Explicit };
    let written = write(&network, &plan, casting)?;
    whole(model, (&network, &plan), &written.model, cx, from)
}

/// Whether statistics take the place of samples.
fn is_reloaded(cx: &QuantizeContext, params: &Params) -> bool {
    params.calib_reload() | cx.calibration_params().reload()
}

/// What params can ask for and this quantizer does not do.
fn check(
    cx: &QuantizeContext,
    params: &Params,
    learned: bool,
    range_known: bool,
) -> Result<(), Diagnostic> {
    let unsupported = |text: String| Err(Diagnostic::new(Code::FeatureUnsupported, text));
    let asked = cx.quantization();
    for (name, set) in [
        ("op_types", !asked.op_types().is_empty()),
        ("include", !asked.include().is_empty()),
        ("exclude", !asked.exclude().is_empty()),
        ("overrides", !asked.overrides().is_empty()),
        ("sqnr_db_min", asked.sqnr_db_min().is_some()),
        ("top1_loss_max", asked.top1_loss_max().is_some()),
    ] {
        if set {
            return unsupported(format!(
                "`quantization.{name}` is not supported: N2D2 quantizes all of a network"
            ));
        }
    }
    if asked.accuracy() == Accuracy::Auto {
        return unsupported("`quantization.accuracy` = \"auto\" is not supported".to_owned());
    }
    if let Some(rounding) = asked.rounding().filter(|how| *how != words::Rounding::Nearest) {
        return unsupported(format!("`quantization.rounding` = \"{rounding}\" is not supported"));
    }
    if params.qat_sat() && !learned {
        let text = "`quantization.n2d2.qat_sat` is set, and the network has learned no ranges";
        let help = "Name the layers' quantizers in the network (`QWeight`, `QAct`), or leave the \
                    option out.";
        return Err(Diagnostic::new(Code::FeatureUnsupported, text).help(help));
    }
    if learned && (range_known || !cx.calibration().is_empty()) {
        return Ok(());
    }
    let without = cx.calibration().is_empty() || params.calib() == 0;
    if without && !is_reloaded(cx, params) {
        let text = "quantization takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs, and leave \
                    `calib` at -1.";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help));
    }
    Ok(())
}

/// Params are looked at only where they count, so that the others are reported as without effect: learned
/// ranges leave nothing to equalize, to clip or to bring to a common scale.
fn options(
    cx: &QuantizeContext,
    params: &Params,
    learned: bool,
) -> Result<PlanOptions, Diagnostic> {
    let bits = params.nbbits();
    if !(2..=16).contains(&bits) {
        let text = format!("`quantization.n2d2.nbbits` is {bits}; integers have 2 to 16 bits");
        return Err(Diagnostic::new(Code::FeatureUnsupported, text));
    }
    let common = PlanOptions {
        bits,
        unsigned: !params.no_unsigned(),
        rescaling: params.act_rescaling_mode(),
        batch: cx.calibration().source_batch(),
        ..PlanOptions::default()
    };
    if learned {
        // Both are done whatever is asked for.
        let _ = (params.b_round_mode(), params.c_round_mode());
        return Ok(PlanOptions {
            round_weights: params.wt_round_mode() == Rounding::Rintf,
            ..common
        });
    }
    let activations = params.act_clipping_mode();
    let quantile = (activations == Clipping::Quantile).then(|| params.act_quantile_value());
    Ok(PlanOptions {
        equalization: match params.no_cle() {
            true => Equalization::Off,
            false => Equalization::Exact,
        },
        weights: params.wt_clipping_mode(),
        activations,
        quantile: quantile.unwrap_or(common.quantile),
        per_output: params.act_rescale_per_output(),
        branches: match params.tight_branches() {
            Some(true) => Branches::Tight,
            Some(false) => Branches::AsN2d2,
            None => Branches::Auto,
        },
        ..common
    })
}

/// The smallest and the largest value of the inputs if the network declares them and that counts,
/// and their range if it is given.
fn stimuli_range(model: &Model, params: &Params) -> (Option<(f64, f64)>, Option<f64>) {
    match params.stimuli_range() {
        Value::Number(range) => (declared_range(model), range.as_f64()),
        Value::String(word) if word == "data" => (None, None),
        _ => (declared_range(model), None),
    }
}

/// The range `[a, b]` that the front-end knows of the inputs: calibration samples reach a part of
/// it only, while N2D2 takes it from all of its data.
fn declared_range(model: &Model) -> Option<(f64, f64)> {
    let (_, text) = model.metadata.iter().find(|(key, _)| key == "onnxd.input.range")?;
    let (range, _) = text.strip_prefix('[')?.split_once(']')?;
    let (lo, hi) = range.split_once(',')?;
    let (lo, hi): (f64, f64) = (lo.trim().parse().ok()?, hi.trim().parse().ok()?);
    (lo <= hi && lo.is_finite() && hi.is_finite()).then_some((lo, hi))
}

/// How many samples calibrate at most: N2D2 runs whole batches.
fn most(params: &Params, options: &PlanOptions) -> u64 {
    let batch = options.batch.max(1) as u64;
    match u64::try_from(params.calib()) {
        Ok(samples) => samples.div_ceil(batch).saturating_mul(batch),
        Err(_) => u64::MAX,
    }
}

fn planned(
    model: &Model,
    cx: &mut QuantizeContext,
    params: &Params,
    options: &PlanOptions,
) -> Result<(CellNetwork, IntegerPlan), Diagnostics> {
    if learned::has_ranges(model) {
        let most = most(params, options);
        return with_samples(cx, (u64::MAX, most), |data| learned::plan(model, data, options));
    }
    let network = crate::prepared(model, options)?;
    let facts = saved::facts(model, options)?;
    let statistics = match is_reloaded(cx, params) {
        true => {
            let saved = Saved::from_json(STATISTICS, &cx.submission().read(STATISTICS)?)?;
            let text = format!("of {} samples, reloaded from {STATISTICS}", saved.samples);
            cx.metadata("quantization.statistics", text);
            saved::restored((STATISTICS, saved), &facts, &network, options)?
        }
        false => {
            let (statistics, samples) = measured(&network, cx, params, options)?;
            let saved = saved::saved(&network, &statistics, facts, samples);
            cx.file(STATISTICS, &saved.to_json())?;
            statistics
        }
    };
    let plan = crate::decided(&network, &statistics, options)?;
    Ok((network, plan))
}

/// Runs the samples; the second result is how many there were.
fn measured(
    network: &CellNetwork,
    cx: &QuantizeContext,
    params: &Params,
    options: &PlanOptions,
) -> Result<(Statistics, u64), Diagnostics> {
    let most = most(params, options);
    let statistics =
        with_samples(cx, (u64::MAX, most), |data| crate::measured(network, data, options))?;
    Ok((statistics, cx.calibration().samples().min(most)))
}

/// Hands on the samples: the first `all`, of which the first `most` calibrate.
fn with_samples<T>(
    cx: &QuantizeContext,
    (all, most): (u64, u64),
    work: impl FnOnce(Data) -> Result<T, Diagnostics>,
) -> Result<T, Diagnostics> {
    let calibration = cx.calibration();
    // How many samples run at once changes nothing but memory and time.
    let size = calibration.batch_size();
    let readings = Cell::new(0);
    let pass = |most: u64| -> Batches<'_> {
        let total = calibration.samples().min(most);
        readings.set(readings.get() + 1);
        let noun = match readings.get() {
            1 => "calibration, sample".to_owned(),
            reading => format!("calibration (reading {reading}), sample"),
        };
        let batches = calibration.batches(size, most).zip(0u64..);
        Box::new(batches.map(move |(batch, done)| {
            cx.count(&noun, done * size as u64, total)?;
            batch
        }))
    };
    work(Data { all: &|| pass(all), calibrating: &|| pass(most) })
}

/// Exports stimuli and measures the accuracy on them, if asked: on those of the test, else on
/// those of the calibration.
fn on_stimuli(
    float: &Model,
    integer: &Model,
    plan: &IntegerPlan,
    params: &Params,
    cx: &mut QuantizeContext,
) -> Result<(), Diagnostics> {
    let count = params.db_export();
    let tests = params.test();
    if count == 0 && !tests {
        return Ok(());
    }
    let named = params.test_data();
    let path = named.clone().unwrap_or_else(|| TEST.to_owned());
    let own = cx.samples(&path, float)?;
    refuse!(own.is_empty() && named.is_some() =>
        Diagnostic::new(Code::FileMissing, format!("test data `{}` was not dropped", shown(&path))).into());
    let (data, name) = match own.is_empty() {
        true => (cx.calibration(), "the calibration data"),
        false => (&own, path.as_str()),
    };
    if count != 0 {
        stimuli::export(cx, (data, name), integer, plan, u64::try_from(count).ok())?;
    }
    if !tests {
        return Ok(());
    }
    let scores = accuracy::measure(cx, (data, name), (float, integer), plan)?;
    if own.is_empty() {
        let text = "the accuracy was measured on the calibration data";
        let help = "Drop a `test.npz` with other samples and their `labels`.";
        cx.note(Diagnostic::new(Code::EvalInputs, text).help(help));
    }
    for (key, value) in scores.iter().flat_map(|score| score.facts(scores.len() > 1)) {
        cx.metadata(key, value);
    }
    Ok(())
}

/// What a program that runs the model has to know: the real values of its inputs and outputs.
fn facts(model: &Model, network: &CellNetwork, plan: &IntegerPlan) -> Vec<(String, String)> {
    let graph = &model.graph;
    let fact = |side: &str, name: &str, output: &Output| {
        let text = format!("{}, one step is {}", type_text(*output), output.scale);
        (format!("quantization.{side}.{name}"), text)
    };
    let inputs = graph.inputs().iter().zip(&plan.inputs);
    let mut facts: Vec<_> =
        inputs.map(|(input, output)| fact("input", &graph[*input].name, output)).collect();
    for (cell, decided) in network.cells.iter().zip(&plan.cells) {
        if let Some(output) = decided.output.filter(|_| graph.is_output(cell.output)) {
            facts.push(fact("output", &graph[cell.output].name, &output));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::Graph;

    #[test]
    fn the_range_of_the_inputs_is_read_from_the_metadata() {
        let of = |text: &str| {
            let mut model = Model::new(Graph::new("g"), 8, 17);
            model.set_metadata("onnxd.input.range", text);
            declared_range(&model)
        };
        assert_eq!(of("[0, 1]: 8-bit images are divided by 255"), Some((0.0, 1.0)));
        assert_eq!(of("[-1, 1]"), Some((-1.0, 1.0)));
        for wrong in ["", "[1, 0]", "[0]", "[0, inf]", "0, 1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
