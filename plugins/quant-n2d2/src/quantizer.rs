//! Joins the parts: params, the plan, the graph in integers, and the report.

use crate::graph::{Casting, write};
use crate::learned;
use crate::measure::{measure, whole};
use crate::options::{Branches, Clipping, Equalization, Options, Rescaling};
use crate::plan::{Network, Output, Plan};
use crate::report::{self, type_text};
use crate::saved;
use crate::statistics::{Data, Statistics};
use crate::{accuracy, stimuli};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::serde_json::Value;
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_quantize::observe::Saved;
use std::cell::Cell;

const SECTION: &str = "quantization.n2d2";
/// The file of the statistics, as it is written beside the model and looked for in the submission.
const STATISTICS: &str = "calibration.json";
/// Labelled stimuli in the submission.
const TEST: &str = "test.npz";

/// The quantizer `n2d2`.
pub(crate) struct N2d2;

impl Quantizer for N2d2 {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let learned = learned::has_ranges(model);
        let (inputs, range) = stimuli_range(model, cx);
        let options = Options { inputs, range, ..options(cx, learned)? };
        refuse(cx, learned, options.inputs.is_some())?;
        let casting = match (flag(cx, "fake_quantization"), flag(cx, "implicit_casting")) {
            (true, _) => Casting::Fake,
            (false, true) => Casting::Implicit,
            (false, false) => Casting::Explicit,
        };
        let (mut network, mut plan) = planned(model, cx, &options)?;
        network.forget_weights();
        let written = write(&network, &plan, casting)?;
        // A graph without casts does not run.
        let runs = match casting {
            Casting::Implicit => &write(&network, &plan, Casting::Explicit)?,
            _ => &written,
        };
        plan.forget_weights();
        let measured = measure(&network, &plan, &runs.model, cx, most(cx, &options))?;
        report::fill(cx, &options, learned, (&network, &plan, &written), &measured);
        let most = if learned { 0 } else { most(cx, &options) };
        tell_quality(model, (&network, &plan), &runs.model, cx, most)?;
        on_stimuli(model, &runs.model, &plan, cx)?;
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

/// Says how near the outputs are to those of the float network, or why that is not known.
fn tell_quality(
    float: &Model,
    planned: (&Network, &Plan),
    integer: &Model,
    cx: &mut QuantizeContext,
    most: u64,
) -> Result<(), Diagnostics> {
    if cx.calibration().is_empty() {
        cx.unmeasured("there are no samples; drop some as `calib.npz`, too");
        return Ok(());
    }
    match whole(float, planned, integer, cx, most) {
        Ok(quality) => cx.quality(quality),
        Err(found) if cx.is_stopped() => return Err(found),
        Err(found) => {
            let first = found.0.into_iter().next();
            cx.unmeasured(first.map(|d| d.message).unwrap_or_default());
        }
    }
    Ok(())
}

fn key(name: &str) -> String {
    format!("{SECTION}.{name}")
}

fn flag(cx: &QuantizeContext, name: &str) -> bool {
    cx.flag(&key(name))
}

/// Whether statistics take the place of samples.
fn is_reloaded(cx: &QuantizeContext) -> bool {
    flag(cx, "calib_reload") | cx.flag("calibration.reload")
}

/// What params can ask for and this quantizer does not do.
fn refuse(cx: &QuantizeContext, learned: bool, range_known: bool) -> Result<(), Diagnostic> {
    let unsupported = |text: String| Err(Diagnostic::new(Code::FeatureUnsupported, text));
    for name in ["op_types", "include", "exclude", "overrides", "sqnr_db_min", "top1_loss_max"] {
        let name = format!("quantization.{name}");
        let set = match cx.param(&name) {
            Value::Null => false,
            Value::Array(list) => !list.is_empty(),
            Value::Object(table) => !table.is_empty(),
            _ => true,
        };
        if set {
            return unsupported(format!(
                "`{name}` is not supported: N2D2 quantizes all of a network"
            ));
        }
    }
    if cx.text("quantization.accuracy") == Some("auto") {
        return unsupported("`quantization.accuracy` = \"auto\" is not supported".to_owned());
    }
    if let Some(rounding) = cx.text("quantization.rounding").filter(|how| *how != "nearest") {
        return unsupported(format!("`quantization.rounding` = \"{rounding}\" is not supported"));
    }
    if flag(cx, "qat_sat") && !learned {
        let text = format!("`{}` is set, and the network has learned no ranges", key("qat_sat"));
        let help = "Name the layers' quantizers in the network (`QWeight`, `QAct`), or leave the \
                    option out.";
        return Err(Diagnostic::new(Code::FeatureUnsupported, text).help(help));
    }
    if learned && (range_known || !cx.calibration().is_empty()) {
        return Ok(());
    }
    let without = cx.calibration().is_empty() || cx.int(&key("calib")) == Some(0);
    if without && !is_reloaded(cx) {
        let text = "quantization takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs, and leave \
                    `calib` at -1.";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help));
    }
    Ok(())
}

/// Params are looked at only where they count, so that the others are told as without effect: learned
/// ranges leave nothing to equalize, to clip or to bring to a common scale.
fn options(cx: &QuantizeContext, learned: bool) -> Result<Options, Diagnostic> {
    let defaults = Options::default();
    let bits = cx.int(&key("nbbits")).unwrap_or(8);
    let Some(bits) = u32::try_from(bits).ok().filter(|bits| (2..=16).contains(bits)) else {
        let text = format!("`{}` is {bits}; integers have 2 to 16 bits", key("nbbits"));
        return Err(Diagnostic::new(Code::FeatureUnsupported, text));
    };
    let asked = |name: &str| if learned { &Value::Null } else { cx.param(&key(name)) };
    let chosen = |name: &str| asked(name).as_bool().unwrap_or(false);
    let clipping = |name: &str, default| match learned {
        true => default,
        false => clipping(cx, name, default),
    };
    if learned {
        // Both are done whatever is asked for.
        for name in ["b_round_mode", "c_round_mode"] {
            cx.param(&key(name));
        }
    }
    let activations = clipping("act_clipping_mode", defaults.activations);
    let quantile = (activations == Clipping::Quantile).then(|| cx.real(&key("act_quantile_value")));
    Ok(Options {
        bits,
        unsigned: !flag(cx, "no_unsigned"),
        equalization: match chosen("no_cle") {
            true => Equalization::Off,
            false => Equalization::Exact,
        },
        weights: clipping("wt_clipping_mode", defaults.weights),
        activations,
        quantile: quantile.flatten().unwrap_or(defaults.quantile),
        rescaling: match cx.text(&key("act_rescaling_mode")) {
            Some("Floating-point") => Rescaling::FloatingPoint,
            Some("Fixed-point16") => Rescaling::FixedPoint16,
            Some("Fixed-point32" | "Fixed-point") => Rescaling::FixedPoint32,
            Some("Double-shift") => Rescaling::DoubleShift,
            _ => Rescaling::SingleShift,
        },
        per_output: chosen("act_rescale_per_output"),
        branches: match asked("tight_branches").as_bool() {
            Some(true) => Branches::Tight,
            Some(false) => Branches::AsN2d2,
            None => Branches::Auto,
        },
        batch: cx.calibration().source_batch(),
        round_weights: learned && cx.text(&key("wt_round_mode")) == Some("RINTF"),
        threads: cx.threads(),
        ..defaults
    })
}

/// The smallest and the largest value of the inputs if the network declares them and that counts,
/// and their range if it is given.
fn stimuli_range(model: &Model, cx: &QuantizeContext) -> (Option<(f64, f64)>, Option<f64>) {
    match cx.param(&key("stimuli_range")) {
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

fn clipping(cx: &QuantizeContext, name: &str, default: Clipping) -> Clipping {
    match cx.text(&key(name)) {
        Some("None") => Clipping::None,
        Some("MSE") => Clipping::Mse,
        Some("KL-Divergence") => Clipping::KlDivergence,
        Some("Quantile") => Clipping::Quantile,
        _ => default,
    }
}

/// How many samples calibrate at most: N2D2 runs whole batches.
fn most(cx: &QuantizeContext, options: &Options) -> u64 {
    let batch = options.batch.max(1) as u64;
    match cx.int(&key("calib")).and_then(|n| u64::try_from(n).ok()) {
        Some(samples) => samples.div_ceil(batch).saturating_mul(batch),
        None => u64::MAX,
    }
}

fn planned(
    model: &Model,
    cx: &mut QuantizeContext,
    options: &Options,
) -> Result<(Network, Plan), Diagnostics> {
    if learned::has_ranges(model) {
        return with_samples(cx, options, |data| learned::plan(model, data, options));
    }
    let network = crate::prepared(model, options)?;
    let facts = saved::facts(model, options)?;
    let statistics = match is_reloaded(cx) {
        true => {
            let saved = Saved::from_json(STATISTICS, &cx.submission().read(STATISTICS)?)?;
            let text = format!("of {} samples, reloaded from {STATISTICS}", saved.samples);
            cx.metadata("quantization.statistics", text);
            saved::restored((STATISTICS, saved), &facts, &network, options)?
        }
        false => {
            let (statistics, samples) = measured(&network, cx, options)?;
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
    network: &Network,
    cx: &QuantizeContext,
    options: &Options,
) -> Result<(Statistics, u64), Diagnostics> {
    let statistics = with_samples(cx, options, |data| crate::measured(network, data, options))?;
    Ok((statistics, cx.calibration().samples().min(most(cx, options))))
}

/// Hands on the samples.
fn with_samples<T>(
    cx: &QuantizeContext,
    options: &Options,
    work: impl FnOnce(Data) -> Result<T, Diagnostics>,
) -> Result<T, Diagnostics> {
    let calibration = cx.calibration();
    // How many samples run at once changes nothing but memory and time.
    let size = calibration.batch_size();
    let readings = Cell::new(0);
    let pass = |most: u64| -> crate::Pass<'_> {
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
    let most = most(cx, options);
    work(Data { all: &|| pass(u64::MAX), calibrating: &|| pass(most) })
}

/// Exports stimuli and measures the accuracy on them, if asked: on those of the test, else on
/// those of the calibration.
fn on_stimuli(
    float: &Model,
    integer: &Model,
    plan: &Plan,
    cx: &mut QuantizeContext,
) -> Result<(), Diagnostics> {
    let count = cx.int(&key("db_export")).unwrap_or(0);
    let tests = flag(cx, "test");
    if count == 0 && !tests {
        return Ok(());
    }
    let named = cx.text(&key("test_data"));
    let path = named.unwrap_or(TEST).to_owned();
    let own = cx.samples(&path, float)?;
    if own.is_empty() && named.is_some() {
        let text = format!("test data `{}` was not dropped", shown(&path));
        return Err(Diagnostic::new(Code::FileMissing, text).into());
    }
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
fn facts(model: &Model, network: &Network, plan: &Plan) -> Vec<(String, String)> {
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
