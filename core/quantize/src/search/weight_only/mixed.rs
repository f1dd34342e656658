//! Weights of 8 bits where those of 4 cost most: each weighted operator is quantized alone, and what the outputs lose
//! by it is compared with its share of the weights. That is measured on samples that the result may be made of, so that
//! those that are held out grade it.

use crate::accuracy::{Held, SampleSet, random_samples};
use crate::plan::{Overrides, QuantizeRequest, params};
use crate::report::{Form, Report, name_of};
use crate::search::progress::{Candidates, Clock};
use crate::search::weight_only::place::BlockedWeight;
use crate::search::weight_only::{choice, quantize_weights};
use crate::session::{OwnMemory, Session};
use onnxd_diagnostics::{Diagnostics, shown};
use onnxd_ir::{DataType, Model};
use onnxd_proto::onnxd::Attempt;

/// An operator gets 8 bits if its share of the noise is more than so many times its share of the weights.
const SHARE: f64 = 2.0;

/// What the outputs lose by one operator.
struct Cost {
    /// What it computes.
    value: String,
    weights: f64,
    noise: f64,
}

/// With `accuracy = "auto"` and weights of few bits, the request with exceptions for the operators that cost most, and
/// what was found of each for the report. Where the network does not run, the request stays as it is. Samples that
/// `held` keeps for the result have no say.
///
/// # Errors
/// When the conversion was cancelled.
pub fn mixed_precision(
    model: &Model,
    request: &QuantizeRequest,
    form: Form,
    held: Option<&Held>,
    cx: &dyn Session,
) -> Result<(QuantizeRequest, Report), Diagnostics> {
    let mut report = Report::default();
    if !params::tries_all(cx) || request.settings.weight.bits() > 4 {
        return Ok((request.clone(), report));
    }
    let found = costs(model, request, (form, held), cx, &mut report);
    let (costs, total) = match found {
        Ok(found) => found,
        Err(found) if cx.is_stopped() => return Err(found),
        Err(found) => {
            let why = found.0.first().map(|d| d.message.clone()).unwrap_or_default();
            report.fact("quantization.mixed", format!("not tried: {why}"));
            return Ok((request.clone(), report));
        }
    };
    let (noise, weights) = costs
        .iter()
        .fold((0.0, 0.0), |(noise, weights), cost| (noise + cost.noise, weights + cost.weights));
    let is_costly = |cost: &&Cost| cost.noise * weights > SHARE * noise * cost.weights;
    let chosen: Vec<&Cost> = costs.iter().filter(is_costly).collect();
    let mut mixed = request.clone();
    for cost in &chosen {
        let weight = Some(wide(request.settings.weight));
        mixed.found.insert(cost.value.clone(), Overrides { weight, ..Overrides::default() });
    }
    let of_chosen = |part: fn(&Cost) -> f64, all: f64| {
        100.0 * chosen.iter().map(|cost| part(cost)).sum::<f64>() / all.max(f64::MIN_POSITIVE)
    };
    let measured = match costs.len() {
        all if all == total => String::new(),
        some => format!(", of which {some} were measured,"),
    };
    report.fact(
        "quantization.mixed",
        format!(
            "{} of {total} operators{measured} have weights of 8 bits: {:.1} % of the weights that were measured, \
             which made {:.1} % of their noise",
            chosen.len(),
            of_chosen(|cost| cost.weights, weights),
            of_chosen(|cost| cost.noise, noise),
        ),
    );
    Ok((mixed, report))
}

/// The type of 8 bits with the same sign.
fn wide(few: DataType) -> DataType {
    if few == DataType::Uint4 { DataType::Uint8 } else { DataType::Int8 }
}

/// What the outputs lose by each operator of the main graph alone, as far as the time goes; and how many there are.
fn costs(
    model: &Model,
    request: &QuantizeRequest,
    (form, held): (Form, Option<&Held>),
    cx: &dyn Session,
    report: &mut Report,
) -> Result<(Vec<Cost>, usize), Diagnostics> {
    let mut clock = Clock::start(cx);
    let drawn = match cx.calibration().samples() {
        0 => Some(random_samples(model, cx)?),
        _ => None,
    };
    let data = match &drawn {
        Some(drawn) => SampleSet { calibration: drawn.as_ref(), ..SampleSet::of(cx) },
        None => SampleSet::of(cx),
    };
    let most = held.map_or(u64::MAX, |held| held.calibrating(&data));
    let mut judged = Held::first(&data, model, false);
    judged.to = judged.to.min(most);
    let graph = &model.graph;
    let operators: Vec<(String, String, f64)> = graph
        .nodes()
        .filter_map(|(id, node)| {
            let place = BlockedWeight::find(graph, id).ok().flatten()?;
            let settings = request.settings_for(graph, node)?;
            let is_product = place.x.is_some() && choice::made_of(graph, id, place.n).is_none();
            let asked = is_product && settings == request.settings;
            let value = graph[node.output(0)?].name.clone();
            asked.then(|| (name_of(graph, node), value, (place.rows() * place.k) as f64))
        })
        .collect();
    let total = operators.len();
    let mut candidates = Candidates::announce(cx, total);
    let mut costs = Vec::new();
    for (name, value, weights) in operators {
        if clock.late() {
            candidates.skip(1);
            continue;
        }
        candidates.next();
        let alone = QuantizeRequest { alone: Some(value.clone()), ..request.clone() };
        let mut made = model.clone();
        quantize_weights(&mut made, &alone, form, None, &OwnMemory)?;
        let db = judged.db((model, &made), &data)?;
        let what = format!("weights of few bits in `{}` alone", shown(&name));
        report.tried.push(Attempt { what, sqnr_db: db, chosen: false });
        costs.push(Cost { value, weights, noise: 10f64.powf(-db / 10.0) });
    }
    report.notes.extend(clock.unfinished());
    Ok((costs, total))
}
