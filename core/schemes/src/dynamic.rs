//! Ranges at run time. They need no samples, and what evens out activations none either, where it is
//! plain that it helps. Samples decide where they take next to no time to run, and with
//! `accuracy = "auto"`.

use crate::bound::{self, Bound, fewest, told};
use crate::search::{
    Data, EQUALIZED, OUTLIER, Outcome, SMOOTHED, deadline, few, uneven, unfinished,
};
use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::ir::{Model, NodeId};
use onnxd_qdq::accuracy::{
    Base, equalized, expected, float_outputs, magnitudes, outputs_db, sites, smoothed,
};
use onnxd_qdq::{Attempt, Done, Form, Request, name_of, quantize_dynamic_but};
use onnxd_quant::{Kept, Limits};
use std::collections::BTreeSet;
use std::time::Instant;

/// Samples that a model runs on in next to no time, see [`few`].
const QUICK: u64 = 8;

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
    let bound = Bound::of(cx).filter(|_| !cx.calibration().is_empty());
    let few = few(model);
    let count = cx.calibration().samples().min(few);
    let measured = count > 0 && (auto || count == few && few >= QUICK);
    let (found, done, kept) = {
        let mut search = Search {
            data: Data(cx),
            float: model,
            request,
            form,
            count,
            outputs: Vec::new(),
            deadline: deadline(cx),
            untried: 0,
        };
        let mut tried = Vec::new();
        let base = match measured {
            true => search.best(&mut tried)?,
            false => evident(model, request),
        };
        let base = base.unwrap_or_else(|| (model.clone(), ""));
        let (floats, kept) = match bound {
            Some(bound) => fewest(bound, &mut Fallback { base: &base.0, search: &mut search })?,
            None => (BTreeSet::new(), String::new()),
        };
        let (found, mut done) = search.made(&base.0, &floats)?;
        done.tried = tried;
        done.notes.extend(unfinished(search.untried));
        (found, done, (base.1, kept))
    };
    let (change, kept) = kept;
    if !change.is_empty() && !measured {
        cx.metadata("quantization.changed", change);
    }
    told(kept, cx);
    *model = found;
    Ok(done)
}

struct Search<'c> {
    data: Data<'c>,
    float: &'c Model,
    request: &'c Request,
    form: Form,
    /// Samples that ways are measured on.
    count: u64,
    /// What the float model gives on them.
    outputs: Vec<Kept>,
    deadline: Instant,
    /// What there was no time for.
    untried: usize,
}

impl Search<'_> {
    fn made(&self, base: &Model, floats: &BTreeSet<NodeId>) -> Outcome<(Model, Done)> {
        let mut model = base.clone();
        let done = quantize_dynamic_but(&mut model, self.request, self.form, floats)?;
        Ok((model, done))
    }

    fn measure(&mut self, base: &Model, floats: &BTreeSet<NodeId>) -> Outcome<f64> {
        let samples = || self.data.batches(0, self.count);
        if self.outputs.is_empty() {
            self.outputs = float_outputs(self.float, &mut samples(), Limits::default())?;
        }
        let (made, _) = self.made(base, floats)?;
        outputs_db((self.float, &made), &mut samples(), &self.outputs, Limits::default())
    }

    fn late(&mut self) -> bool {
        let late = Instant::now() > self.deadline;
        self.untried += usize::from(late);
        late
    }

    /// What loses least on the samples, as long as there is time.
    fn best(&mut self, tried: &mut Vec<Attempt>) -> Outcome<Option<Way>> {
        let mut best: Option<(usize, Way)> = None;
        for way in ways(self.float, self.request, &self.data, self.count)? {
            if best.is_some() && self.late() {
                continue;
            }
            let sqnr_db = self.measure(&way.0, &BTreeSet::new())?;
            let what = if way.1.is_empty() { "nothing changed before" } else { way.1 };
            if best.as_ref().is_none_or(|(at, _)| sqnr_db > tried[*at].sqnr_db) {
                best = Some((tried.len(), way));
            }
            tried.push(Attempt { what: what.to_owned(), sqnr_db, chosen: false });
        }
        Ok(best.map(|(at, way)| {
            tried[at].chosen = true;
            way
        }))
    }
}

/// A base of which nodes can be left out.
struct Fallback<'s, 'c> {
    base: &'s Model,
    search: &'s mut Search<'c>,
}

impl bound::Way for Fallback<'_, '_> {
    fn choices(&self) -> Vec<NodeId> {
        let Ok((_, done)) = self.search.made(self.base, &BTreeSet::new()) else {
            return Vec::new();
        };
        let names: BTreeSet<&str> = done.layers.iter().map(|l| l.name.as_str()).collect();
        let graph = &self.base.graph;
        let is = |id: &NodeId| {
            let inner = graph[*id].subgraphs().next().is_some();
            inner || names.contains(name_of(graph, &graph[*id]).as_str())
        };
        graph.node_ids().into_iter().filter(is).collect()
    }

    fn ratio(&mut self, floats: &BTreeSet<NodeId>) -> Outcome<f64> {
        self.search.measure(self.base, floats)
    }

    fn model(&self, floats: &BTreeSet<NodeId>) -> Outcome<Model> {
        Ok(self.search.made(self.base, floats)?.0)
    }

    fn float(&self) -> &Model {
        self.search.float
    }

    fn data(&self) -> &Data<'_> {
        &self.search.data
    }

    fn late(&mut self) -> bool {
        self.search.late()
    }
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
