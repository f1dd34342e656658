//! Ranges at run time. They need no samples, and what evens out activations none either, where it is
//! plain that it helps. Samples decide where they take next to no time to run, and with
//! `accuracy = "auto"`.

use crate::search::{Data, EQUALIZED, OUTLIER, Outcome, SMOOTHED, few, uneven};
use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::ir::Model;
use onnxd_qdq::accuracy::{
    Base, equalized, expected, float_outputs, magnitudes, outputs_db, sites, smoothed,
};
use onnxd_qdq::{Attempt, Done, Form, Request};
use onnxd_quant::Limits;
use std::collections::BTreeSet;

/// Samples that a model runs on in next to no time, see [`few`].
const QUICK: u64 = 16;

/// A model, and what was done to it.
type Way = (Model, &'static str);

/// Quantizes with ranges of activations that are found at run time.
///
/// # Errors
/// For what no operator on integers takes; why samples cannot be had, or a model does not run on
/// them.
pub fn quantize_dynamic(
    model: &mut Model,
    request: &Request,
    form: Form,
    cx: &mut QuantizeContext,
) -> Outcome<Done> {
    let auto = cx.text("quantization.accuracy") == Some("auto");
    let count = cx.calibration().samples().min(few(model));
    if count == 0 || !(auto || count == QUICK) {
        if let Some((even, change)) = evident(model, request) {
            *model = even;
            cx.metadata("quantization.changed", change);
        }
        return onnxd_qdq::quantize_dynamic(model, request, form);
    }
    let float = float_outputs(model, &mut Data(cx).batches(0, count), Limits::default())?;
    let mut tried: Vec<Attempt> = Vec::new();
    let mut best: Option<(usize, Model, Done)> = None;
    for (mut way, change) in ways(model, request, &Data(cx), count)? {
        let done = onnxd_qdq::quantize_dynamic(&mut way, request, form)?;
        let data = Data(cx);
        let mut samples = data.batches(0, count);
        let db = outputs_db((model, &way), &mut samples, &float, Limits::default())?;
        let change = if change.is_empty() { "nothing changed before" } else { change };
        if best.as_ref().is_none_or(|(at, ..)| db > tried[*at].sqnr_db) {
            best = Some((tried.len(), way, done));
        }
        tried.push(Attempt { what: change.to_owned(), sqnr_db: db, chosen: false });
    }
    let Some((at, found, mut done)) = best else {
        return onnxd_qdq::quantize_dynamic(model, request, form);
    };
    tried[at].chosen = true;
    done.tried = tried;
    *model = found;
    Ok(done)
}

/// What evidently helps: activations whose channels are known to be uneven without samples.
fn evident(model: &Model, request: &Request) -> Option<Way> {
    let base = Base::new(model.clone(), request, &BTreeSet::new());
    let sites = sites(&base);
    let mut channels = expected(model, &sites);
    channels.retain(|_, channels| uneven(channels) >= OUTLIER);
    let (share, name) = SMOOTHED[0];
    smoothed(model, &sites, &channels, share).map(|even| (even, name))
}

/// What may help.
fn ways(model: &Model, request: &Request, data: &Data, samples: u64) -> Outcome<Vec<Way>> {
    let mut ways = vec![(model.clone(), "")];
    let even = equalized(model, request.settings.per_channel)?;
    ways.extend(even.map(|even| (even, EQUALIZED)));
    let base = Base::new(model.clone(), request, &BTreeSet::new());
    let sites = sites(&base);
    if !sites.is_empty() {
        let mut samples = data.batches(0, samples);
        let found = magnitudes(model, &sites, &mut samples, Limits::default())?;
        let smooth = |(share, name)| Some((smoothed(model, &sites, &found, share)?, name));
        ways.extend(SMOOTHED.into_iter().filter_map(smooth));
    }
    Ok(ways)
}
