//! The flow of a quantization: request, ranges, placement, form, report.

use crate::params;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::eval::Builtin;
use onnxd_plugin_sdk::ir::{Model, ValueId};
use onnxd_plugin_sdk::{QuantizeContext, QuantizedLayer, QuantizedTensor, Quantizer};
use onnxd_qdq::calibrate::{Method, statistics};
use onnxd_qdq::{Done, Plan, Ranges, Request, place, plan};
use onnxd_quant::{Levels, Limits};
use std::collections::{BTreeMap, BTreeSet};

/// The oldest operator set whose `DequantizeLinear` has scales for channels.
const OPSET_MIN: i64 = 13;

/// Quantizes to pairs of `QuantizeLinear` and `DequantizeLinear`.
pub(crate) struct Scheme;

impl Quantizer for Scheme {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let request = params::request(cx)?;
        if model.opset() < OPSET_MIN {
            onnxd_opset::convert(model, OPSET_MIN)?;
        }
        let done = match params::key(cx, "mode").as_str() {
            None | Some("static") => with_ranges(model, &request, cx)?,
            Some(mode) => {
                let text = format!("`quantization.mode` = \"{mode}\" is not supported");
                return Err(Diagnostic::new(Code::FeatureUnsupported, text).into());
            }
        };
        report(done, cx);
        Ok(())
    }
}

/// Ranges of activations from calibration data.
fn with_ranges(
    model: &mut Model,
    request: &Request,
    cx: &mut QuantizeContext,
) -> Result<Done, Diagnostics> {
    if cx.calibration().is_empty() {
        let text = "quantization takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs, or take \
                    `quantization.mode` = \"dynamic\".";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help).into());
    }
    let method = params::method(cx);
    let plan = plan(&model.graph, request);
    let ranges = ranges(model, &plan, method, cx)?;
    Ok(place(&mut model.graph, &plan, &ranges, method.name()))
}

fn ranges(
    model: &Model,
    plan: &Plan,
    method: Method,
    cx: &QuantizeContext,
) -> Result<Ranges, Diagnostics> {
    let graph = &model.graph;
    let mut names: BTreeMap<String, ValueId> = BTreeMap::new();
    let observed = plan.values.values().map(|q| q.observed);
    names.extend(observed.filter(|v| graph.constant(*v).is_none()).map(|v| (shown(model, v), v)));
    let calibration = cx.calibration();
    let size = calibration.batch_size();
    let total = calibration.samples().div_ceil(size.max(1) as u64);
    let mut samples = calibration.batches(size, u64::MAX).zip(0u64..).map(|(batch, done)| {
        cx.progress(done, total)?;
        batch
    });
    let wanted: BTreeSet<String> = names.keys().cloned().collect();
    let parts = method.parts();
    let seen = statistics(&Builtin, model, wanted, &mut samples, &parts, Limits::default())?;
    let settings: BTreeMap<ValueId, _> =
        plan.values.values().map(|q| (q.observed, q.settings)).collect();
    let range = |(name, v): (&String, &ValueId)| {
        let settings = settings[v];
        let levels = Levels::of(settings.activation)?;
        Some((*v, method.range(seen.get(name)?, levels, settings.symmetric)?))
    };
    Ok(names.iter().filter_map(range).collect())
}

/// What the executor calls a value.
fn shown(model: &Model, v: ValueId) -> String {
    onnxd_plugin_sdk::eval::quoted(&model.graph[v].name)
}

fn report(done: Done, cx: &mut QuantizeContext) {
    if done.layers.is_empty() {
        let text = "nothing was quantized: the model has no product with constant weights that \
                    the params choose";
        cx.note(Diagnostic::new(Code::NumericsMismatch, text));
    }
    for note in done.notes {
        cx.note(note);
    }
    for t in done.tensors {
        cx.tensor(QuantizedTensor {
            name: t.name,
            element_type: t.dtype.to_string(),
            scales: t.scales,
            zero_points: t.zero_points,
            range: t.range,
            method: t.method,
            ..QuantizedTensor::default()
        });
    }
    for l in done.layers {
        cx.layer(QuantizedLayer {
            name: l.name,
            op: l.op,
            rescaling: l.written_as,
            sqnr_db: l.sqnr_db,
            ..QuantizedLayer::default()
        });
    }
    for left in done.left_in_float {
        cx.left_in_float(left.name, left.reason);
    }
}
