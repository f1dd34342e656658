//! What would make outputs better that are usable and not good: each way is tried, and measured on the same samples as
//! the result. A user chooses; nothing of it is done without being asked for.

use crate::accuracy::Base;
use crate::plan::params;
use crate::range::Method;
use crate::report::Form;
use crate::search::float_fallback::{Demand, fewest};
use crate::search::static_scores::Fallback;
use crate::search::static_trials::StaticSearch;
use crate::search::trial::Trial;
use crate::search::weight_only::quantize_weights;
use crate::session::OwnMemory;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{DataType, Model, NodeId};
use onnxd_params::host::SQNR_DB_GOOD;
use onnxd_proto::onnxd::Remedy;
use std::collections::BTreeSet;

/// The oldest operator set whose `DequantizeLinear` has blocks.
const BLOCKS_SINCE: i64 = 21;

/// A graph of this operator set computes the same in that one.
const ALIKE_SINCE: i64 = 18;

/// Gains below that are not told.
const GAIN_MIN_DB: f64 = 1.0;

/// Bytes of all constants.
fn bytes(model: &Model) -> i64 {
    let mut sum = 0;
    model.for_each_graph(|graph| {
        sum += graph
            .value_ids()
            .filter_map(|v| graph[v].initializer())
            .map(|t| t.byte_len() as i64)
            .sum::<i64>();
    });
    sum
}

impl<'c> StaticSearch<'c> {
    /// Ways to better outputs in the order of their price, where the worst output has `db` below [`SQNR_DB_GOOD`], in
    /// at most twice the time that the result took. Gains are measured on the samples of the result, with ranges as the
    /// result has them.
    pub(crate) fn remedies(
        &mut self,
        trial: &Trial,
        (found, floats): (&Model, &BTreeSet<NodeId>),
        db: f64,
    ) -> Result<Vec<Remedy>, Diagnostics> {
        if db >= SQNR_DB_GOOD || self.data.calibration.is_random() {
            return Ok(Vec::new());
        }
        let part = self.data.session.part("what would help".into());
        let own = self.score_of(found)?.db();
        self.clock.hurry();
        let mut ways = Vec::new();
        let mut add = |price: u8, params: String, other: f64, model: &Model| {
            let (gain_db, bytes) = (other - own, bytes(model) - bytes(found));
            if gain_db >= GAIN_MIN_DB {
                ways.push((price, Remedy { params, gain_db, bytes }));
            }
        };
        if self.request.remedies.wide_activations && !self.clock.is_over() {
            part.now("what would help, activations of 16 bits".into());
            let model = self.wide(trial, floats);
            let text = "quantization.activation_type = \"uint16\"".to_owned();
            add(1, text, self.score_of(&model)?.db(), &model);
        }
        if params::method(self.data.session) == Method::MinMax && !self.clock.is_over() {
            part.now("what would help, percentile".into());
            let model = self.by_percentile(trial, floats)?;
            let text = "calibration.method = \"percentile\"".to_owned();
            add(2, text, self.score_of(&model)?.db(), &model);
        }
        let opset = self.bases[0].model.opset();
        if self.request.remedies.weights_alone && opset >= ALIKE_SINCE && !self.clock.is_over() {
            part.now("what would help, weights alone".into());
            let mut model = self.bases[0].model.clone();
            model.opsets.insert(String::new(), opset.max(BLOCKS_SINCE));
            // What weights alone cannot be, as those of 16 bits, is no way out.
            if quantize_weights(&mut model, self.request, Form::Qdq, None, &OwnMemory).is_ok() {
                let db = self.score_of(&model)?.db();
                add(3, "quantization.mode = \"weight_only\"".to_owned(), db, &model);
            }
        }
        // It takes the most measurements, and comes last where time is short.
        if Demand::from_params(self.data.session).is_none() {
            part.now("what would help, operators in float".into());
            let demand = Demand::of_db(SQNR_DB_GOOD);
            let left = fewest(demand, &mut Fallback { search: self, trial })?;
            let (_, model, _) = self.made(trial, &left.floats)?;
            let some = left.floats.len() < self.bases[trial.base].choices().len();
            if some && !self.clock.is_over() {
                let text = format!("quantization.sqnr_db_min = {SQNR_DB_GOOD}");
                add(0, text, self.score_of(&model)?.db(), &model);
            }
        }
        ways.sort_by_key(|(price, _)| *price);
        Ok(ways.into_iter().map(|(_, way)| way).collect())
    }

    /// With activations of 16 bits.
    fn wide(&self, trial: &Trial, floats: &BTreeSet<NodeId>) -> Model {
        let mut request = self.request.clone();
        request.settings.activation = DataType::Uint16;
        let base = &self.bases[trial.base];
        let mut wide = Base::new(base.model.clone(), &request, floats);
        wide.seen = base.seen.clone();
        wide.quantize(trial.method).0
    }

    /// With ranges that leave out the rarest values.
    fn by_percentile(
        &mut self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Result<Model, Diagnostics> {
        let method = Method::Percentile(self.data.session.calibration_params().percentile());
        let ranges = std::mem::take(&mut self.bases[trial.base].seen);
        self.observe(trial.base, &self.parts(method), 0, self.calibrating)?;
        let made = self.made(&Trial { method, ..*trial }, floats);
        self.bases[trial.base].seen = ranges;
        Ok(made?.1)
    }
}
