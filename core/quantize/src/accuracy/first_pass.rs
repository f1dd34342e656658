//! What the first samples tell at once: ranges, what the float model gives, and how large the
//! channels of activations are that can be smoothed.

use super::{Base, COMPARED_MAX, KEPT_MAX, layers, outputs};
use crate::accuracy::ReferenceOutputs;
use crate::accuracy::selected;
use crate::observe::{Feeds, Limits, StatisticParts};
use crate::observe::{Statistic, Stats, WantedValues, observe};
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::Builtin;
use onnxd_ir::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// What the float model told on the first samples, beside ranges.
#[derive(Clone, Debug, Default)]
pub struct FirstPass {
    /// Its outputs, see [`super::float_outputs`].
    pub outputs: Vec<ReferenceOutputs>,
    /// The largest magnitude of each channel of the `sites`, by name.
    pub magnitudes: BTreeMap<String, Vec<f64>>,
}

/// Statistics of a value, its tensors themselves, some of their elements.
struct SeenValue {
    stats: Option<Stats>,
    kept: Option<Vec<Tensor>>,
    elements: Option<Vec<Tensor>>,
    /// Bytes that may still be kept.
    room: usize,
}

impl SeenValue {
    fn keep(&mut self, tensor: &Tensor) {
        let Some(kept) = &mut self.kept else { return };
        // Once there is no room, later ones would stand for other samples.
        self.room = self.room.saturating_sub(tensor.byte_len());
        if self.room > 0 {
            kept.push(tensor.clone());
        }
    }
}

impl Statistic for SeenValue {
    const PARTS: bool = true;

    fn part(self) -> SeenValue {
        SeenValue { stats: self.stats.map(Stats::part), ..self }
    }

    fn see(&mut self, tensor: &Tensor) {
        if let Some(stats) = &mut self.stats {
            stats.see(tensor);
        }
        self.keep(tensor);
        if let Some(elements) = &mut self.elements {
            elements.push(selected(tensor, COMPARED_MAX));
        }
    }

    fn merge(&mut self, later: &Self) {
        if let (Some(stats), Some(more)) = (&mut self.stats, &later.stats) {
            stats.merge(more);
        }
        later.kept.iter().flatten().for_each(|tensor| self.keep(tensor));
        if let (Some(elements), Some(more)) = (&mut self.elements, &later.elements) {
            elements.extend(more.iter().cloned());
        }
    }
}

impl Base {
    /// Runs the graph on the first samples: as [`Base::observe`] of nothing seen before, and tells
    /// what else they show, of the values named in `sites` the magnitudes of their channels.
    ///
    /// # Errors
    /// Why samples cannot be had, or the graph does not run on them.
    pub fn first_pass(
        &mut self,
        samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
        parts: &StatisticParts,
        sites: &BTreeSet<String>,
        limits: Limits,
    ) -> Result<FirstPass, Diagnostics> {
        let names = self.observed();
        let results: BTreeSet<String> =
            outputs(&self.model).into_iter().map(|pair| pair.reference).collect();
        let layers: BTreeSet<String> =
            layers(self).1.into_iter().map(|pair| pair.reference).collect();
        let axes = self.mean_axes();
        let make = |name: &str| {
            let channel_axis = sites.contains(name).then_some(-1);
            let means_axis = axes.get(name).copied();
            let stats = || Stats::new(&StatisticParts { channel_axis, means_axis, ..*parts });
            SeenValue {
                stats: (names.contains(name) || sites.contains(name)).then(stats),
                kept: results.contains(name).then(Vec::new),
                elements: layers.contains(name).then(Vec::new),
                room: KEPT_MAX / results.len().max(1),
            }
        };
        let wanted = [&names, sites, &results, &layers].into_iter().flatten().cloned().collect();
        let wanted = WantedValues::Reached(wanted);
        let observed = observe(&Builtin, &self.model, samples, &wanted, &make, limits)?;
        self.layers = samples_of(&observed, |seen| seen.elements.as_ref());
        let outputs = samples_of(&observed, |seen| seen.kept.as_ref());
        let first = FirstPass { outputs, magnitudes: channels(&observed) };
        let stats = observed.into_iter().filter_map(|(name, seen)| Some((name, seen.stats?)));
        self.seen.extend(stats.filter(|(name, _)| names.contains(name)));
        self.add_unseen(parts);
        Ok(first)
    }
}

fn channels(found: &BTreeMap<String, SeenValue>) -> BTreeMap<String, Vec<f64>> {
    let of = |seen: &SeenValue| seen.stats.as_ref()?.channel_abs_max();
    found.iter().filter_map(|(name, seen)| Some((name.clone(), of(seen)?))).collect()
}

/// What was kept of each sample, of as many as there is something of all values.
fn samples_of(
    found: &BTreeMap<String, SeenValue>,
    tensors: impl Fn(&SeenValue) -> Option<&Vec<Tensor>>,
) -> Vec<ReferenceOutputs> {
    let kept = found.iter().filter_map(|(name, seen)| Some((name, tensors(seen)?)));
    let kept: Vec<(&String, &Vec<Tensor>)> = kept.collect();
    let whole = kept.iter().map(|(_, tensors)| tensors.len()).min().unwrap_or(0);
    let sample = |at: usize| kept.iter().map(|(n, t)| ((*n).clone(), t[at].clone())).collect();
    (0..whole).map(sample).collect()
}
