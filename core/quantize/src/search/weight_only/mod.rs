//! Weights alone are quantized, in blocks along the axis that a weighted operator sums over, and the
//! activations stay as they are: what is gained is size.
//!
//! `QLinear` writes `MatMulNBits` and `GatherBlockQuantized` of ONNX Runtime, `QDQ` the standard's
//! `DequantizeLinear` with `block_size` in front of the float operator. Both hold the same numbers.
//!
//! Every block has the range with the least squared error among its own, narrower ones, and the best
//! ones for the integers that these lead to. With calibration data, errors of weights are made up
//! for by later weights (GPTQ), and inputs are divided by factors that their weights take (AWQ), each
//! where that lowers the error of the output.

mod blocks;
mod choice;
mod known;
mod mixed;
mod packed;
mod place;
mod power;
mod range;
mod shared;
mod table;
mod write;

pub use known::WeightMethods;
pub use mixed::mixed_precision;

use crate::graph::edit;
use crate::graph::quantized::MICROSOFT;
use crate::graph::subgraphs;
use crate::observe::hessian::Pairs;
use crate::observe::{Feeds, Limits, Statistic, WantedValues, observe};
use crate::plan::QuantizeRequest;
use crate::range::weights::Rule;
use crate::report::{Form, Report, name_of};
use crate::search::channel_scales::ScalableActivation;
use crate::session::ConstantMemory;
use blocks::BlockSettings;
use known::{InputStatistics, WeightsByRow};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{Engine, quoted};
use onnxd_ir::{DataType, Graph, Model, NodeId, Opsets, Tensor, ValueId};
use onnxd_proto::onnxd::{QuantizedLayer, QuantizedTensor};
use packed::Packed;
use place::BlockedWeight;
use shared::{IntegersKey, SharedWeights, is_table, table_settings};
use std::collections::{BTreeMap, BTreeSet};
use write::{Readers, WrittenOperator};

/// Bytes of what is remembered of inputs in one reading of the samples.
const SUMS_MAX: usize = 1 << 30;

/// Inputs of a weighted operator above which they are not looked at: the work grows with the third power.
const INPUTS_MAX: usize = 8192;

/// The oldest operator set whose `DequantizeLinear` has blocks.
const BLOCKS_SINCE: i64 = 21;

/// Elements of a block that ONNX Runtime's operators take at least.
const BLOCK_MIN: usize = 16;

/// Samples, and what runs the model on them.
pub struct Data<'a> {
    /// Runs the float model.
    pub engine: &'a dyn Engine,
    /// All samples from the first; may be asked for several times.
    #[allow(clippy::type_complexity)]
    pub samples: &'a dyn Fn() -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 'a>,
    /// What the runs may take.
    pub limits: Limits<'a>,
    /// What the samples are for.
    pub methods: WeightMethods,
    /// Hears how many weighted operators of how many are done; an error ends the work.
    pub progress: &'a dyn Fn(u64, u64) -> Result<(), Diagnostic>,
}

/// Quantizes constant weights of weighted operators and tables, in sub-graphs too. For [`Form::Qdq`] the model
/// must have operator set 21 at least. What is made lies in `memory`, one weight after the other.
///
/// # Errors
/// For what no operator takes; why the model does not run on the samples.
pub fn quantize_weights(
    model: &mut Model,
    request: &QuantizeRequest,
    form: Form,
    data: Option<&Data>,
    memory: &dyn ConstantMemory,
) -> Result<Report, Diagnostics> {
    let opsets = edit::with_microsoft(&model.opsets);
    let mut pass = Pass {
        request,
        form,
        opsets,
        done: Report::default(),
        microsoft: false,
        shared: SharedWeights::default(),
        memory,
    };
    let mut problems = Diagnostics::default();
    check(&model.graph, request, form, &mut problems);
    problems.or_ok(())?;
    let mut groups = match data {
        Some(_) => groups(&model.graph, request),
        None => Vec::new(),
    };
    // What nothing is known of comes last, with the sub-graphs.
    let weighted_nodes: BTreeSet<NodeId> =
        groups.iter().flat_map(|g| g.nodes.iter().copied()).collect();
    let float = data.map(|data| (data, model.clone()));
    let mut at = 0;
    while let Some((data, float)) = float.as_ref().filter(|_| !groups.is_empty()) {
        let mut room = SUMS_MAX;
        let take = groups.iter().take_while(|g| {
            let bytes = Pairs::bytes(g.inputs).saturating_mul(g.read.len());
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let rest = groups.split_off(take.count().max(1));
        let now = std::mem::replace(&mut groups, rest);
        let shown = |v: &ValueId| quoted(&float.graph[*v].name);
        let sizes: BTreeMap<String, usize> =
            now.iter().flat_map(|g| g.read.iter().map(|v| (shown(v), g.inputs))).collect();
        let wanted = WantedValues::Names(sizes.keys().cloned().collect());
        let make = |name: &str| Pairs::new(sizes.get(name).copied().unwrap_or(0));
        let mut samples = (data.samples)();
        let mut seen = observe(data.engine, float, &mut *samples, &wanted, &make, data.limits)?;
        for group in now {
            (data.progress)(at, weighted_nodes.len() as u64)?;
            at += group.nodes.len() as u64;
            let pairs = group.read.iter().filter_map(|v| seen.remove(&shown(v)));
            let pairs = pairs.reduce(|mut all, one| {
                all.merge(&one);
                all
            });
            let pairs = pairs.filter(|pairs| !pairs.is_empty());
            let weighted_nodes =
                pairs.as_ref().map(|pairs| InputStatistics::from_pairs(pairs, data.methods));
            pass.group(&mut model.graph, &group, (weighted_nodes.as_ref(), data.methods.awq));
        }
    }
    pass.done.layers.reverse();
    pass.done.tensors.reverse();
    pass.done.left_in_float.reverse();
    graph(&mut model.graph, &mut pass, &BTreeMap::new(), &weighted_nodes);
    if pass.microsoft {
        model.opsets.insert(MICROSOFT.to_owned(), 1);
    }
    Ok(pass.done)
}

/// Products of the main graph that read the same value or share weights, the last first: factors of
/// inputs change weights before them, which are not integers yet then.
struct ProductGroup {
    read: Vec<ValueId>,
    inputs: usize,
    nodes: Vec<NodeId>,
}

fn groups(g: &Graph, request: &QuantizeRequest) -> Vec<ProductGroup> {
    let mut groups: Vec<ProductGroup> = Vec::new();
    // By what is read and by weights: a group, which may have gone into an earlier one.
    let mut group_of_key = BTreeMap::new();
    let mut into: Vec<usize> = Vec::new();
    for id in g.topological().unwrap_or_default() {
        let node = &g[id];
        let wanted = request.settings_for(g, node).is_some();
        let Some(place) = BlockedWeight::find(g, id).ok().flatten().filter(|_| wanted) else {
            continue;
        };
        let Some(x) = place.x.filter(|x| g.constant(*x).is_none()) else { continue };
        let inputs = place.k;
        if place.turned || place.matrices > 1 || inputs > INPUTS_MAX {
            continue;
        }
        let keys = [(x, inputs), (place.w, inputs)];
        let joined_groups: Vec<usize> =
            keys.iter().filter_map(|key| Some(root(&mut into, *group_of_key.get(key)?))).collect();
        let at = joined_groups.iter().copied().min().unwrap_or(groups.len());
        if at == groups.len() {
            groups.push(ProductGroup { read: Vec::new(), inputs, nodes: Vec::new() });
            into.push(at);
        }
        for other in joined_groups.into_iter().filter(|other| *other != at) {
            into[other] = at;
            let ProductGroup { read, nodes, .. } = &mut groups[other];
            let (read, nodes) = (std::mem::take(read), std::mem::take(nodes));
            groups[at].read.extend(read);
            groups[at].nodes.extend(nodes);
        }
        let group = &mut groups[at];
        if !group_of_key.contains_key(&keys[0]) {
            group.read.push(x);
        }
        group.nodes.push(id);
        group_of_key.extend(keys.map(|key| (key, at)));
    }
    groups.retain(|group| !group.nodes.is_empty());
    groups.iter_mut().for_each(|group| group.nodes.reverse());
    groups.reverse();
    groups
}

/// Where a group has gone.
fn root(into: &mut [usize], mut at: usize) -> usize {
    while into[at] != at {
        into[at] = into[into[at]];
        at = into[at];
    }
    at
}

/// What the operators take, by the settings of all nodes that would get them.
fn check(g: &Graph, request: &QuantizeRequest, form: Form, found: &mut Diagnostics) {
    for (id, node) in g.nodes() {
        node.subgraphs().for_each(|inner| check(inner, request, form, found));
        let name = name_of(g, node);
        let Some(settings) = request.settings_for(g, node) else { continue };
        let Ok(Some(_)) = BlockedWeight::find(g, id) else { continue };
        let mut refuse = |text: String| {
            found.push(Diagnostic::new(Code::FeatureUnsupported, format!("{name}: {text}")));
        };
        if settings.weight.bits() > 8 {
            refuse(format!(
                "weights alone become integers of 4 or 8 bits, not {}",
                settings.weight
            ));
        } else if settings.block_size == 0 {
            refuse("a block has one element at least".to_owned());
        } else if form == Form::QLinear
            && !((16..=256).contains(&settings.block_size) && settings.block_size.is_power_of_two())
        {
            let text = "ONNX Runtime's operators take blocks of a power of two from 16 to 256, not";
            refuse(format!("{text} {}", settings.block_size));
        }
    }
}

/// What is the same for all graphs of a model.
struct Pass<'r> {
    request: &'r QuantizeRequest,
    form: Form,
    opsets: Opsets,
    done: Report,
    /// Whether operators of ONNX Runtime were written.
    microsoft: bool,
    /// Weights of this graph that others may read, too.
    shared: SharedWeights,
    memory: &'r dyn ConstantMemory,
}

fn graph(
    g: &mut Graph,
    pass: &mut Pass,
    outer: &BTreeMap<ValueId, Tensor>,
    known: &BTreeSet<NodeId>,
) {
    let mut stale = BTreeSet::new();
    for id in g.topological().unwrap_or_default() {
        if g[id].subgraphs().next().is_some() {
            let constants = subgraphs::captured_constants(g, id, outer);
            let own = std::mem::take(&mut pass.shared);
            g.edit_subgraphs(id, |inner| {
                graph(inner, pass, &constants, &BTreeSet::new());
                pass.shared = SharedWeights::default();
            });
            pass.shared = own;
            stale.extend(constants.into_keys());
        }
        subgraphs::import_weights(g, id, outer);
        if !known.contains(&id) {
            pass.node(g, id, None);
        }
    }
    g.drop_unread(stale);
}

impl Pass<'_> {
    /// Products that read the same, of which something is known; with whether it may be scaled.
    fn group(
        &mut self,
        g: &mut Graph,
        group: &ProductGroup,
        (known, scale): (Option<&InputStatistics>, bool),
    ) {
        let factors = known.filter(|_| scale && group.read.len() == 1).and_then(|known| {
            let site = ScalableActivation::find(g, group.read[0], group.inputs)?;
            let part = |id: &NodeId| self.part(g, *id, &BlockedWeight::find(g, *id).ok()??).ok();
            let parts: Vec<WeightsByRow> = group.nodes.iter().filter_map(part).collect();
            let factors = known.factors(&parts)?;
            site.apply(g, &factors)?;
            Some(factors)
        });
        let known = known.map(|known| known.with(factors.as_deref()));
        for id in &group.nodes {
            self.node(g, *id, known.as_ref());
        }
    }

    /// Weights of a node that are to be quantized, by rows.
    fn part(
        &self,
        g: &Graph,
        id: NodeId,
        place: &BlockedWeight,
    ) -> Result<WeightsByRow<'static>, String> {
        let settings = self.block_settings(g, id, place)?;
        let rows = place.values(g.constant(place.w).ok_or("its weights are computed")?)?;
        Ok(WeightsByRow { rows: rows.into(), n: place.rows(), k: place.k, settings })
    }

    /// How the weights of a node become integers.
    fn block_settings(
        &self,
        g: &Graph,
        id: NodeId,
        place: &BlockedWeight,
    ) -> Result<BlockSettings<'static>, String> {
        let settings = self.request.settings_for(g, &g[id]).unwrap_or(self.request.settings);
        let of_table = self.shared.tables.contains(&place.w)
            || g.readers(place.w).iter().any(|id| is_table(g, *id, place.w));
        let settings = match of_table && settings == self.request.settings {
            true => table_settings(settings),
            false => settings,
        };
        let form = self.form_for(place)?;
        write::possible(g, id, place, form)?;
        let rule = Rule::of_blocks(settings.weight, settings.symmetric, settings.reduce_range);
        let rule =
            rule.ok_or_else(|| format!("weights of {} are not supported", settings.weight))?;
        let block = match form {
            // A block that reaches beyond the axis is all of it.
            Form::Qdq => settings.block_size.min(place.k),
            Form::QLinear => settings.block_size,
        };
        Ok(BlockSettings { block, rule, dtype: place.dtype, matters: None, later: None })
    }

    /// Whether a table that no product reads is kept with 16 bits: where all weights have 8, it would cost the most of
    /// all. What names its node otherwise is taken at its word.
    fn in_half(&self, g: &Graph, id: NodeId, place: &BlockedWeight) -> bool {
        let all = self.request.settings;
        let is_read_by_tables = g.readers(place.w).iter().all(|id| is_table(g, *id, place.w));
        self.request.settings_for(g, &g[id]) == Some(all)
            && all.weight.bits() == 8
            && place.dtype == DataType::Float
            && is_read_by_tables
            && !self.shared.made.iter().any(|(key, ..)| key.w == place.w)
    }

    /// The form that can say weights: several matrices are for the standard's operators.
    fn form_for(&self, place: &BlockedWeight) -> Result<Form, String> {
        let opset = self.opsets.get("").copied().unwrap_or_default();
        match place.matrices {
            1 => Ok(self.form),
            _ if opset >= BLOCKS_SINCE => Ok(Form::Qdq),
            many => {
                Err(format!("its weights are {many} matrices, which take opset {BLOCKS_SINCE}"))
            }
        }
    }

    fn node(&mut self, g: &mut Graph, id: NodeId, known: Option<&InputStatistics>) {
        let node = &g[id];
        let (name, op) = (name_of(g, node), node.op.clone());
        if self.request.settings_for(g, node).is_none() {
            return;
        }
        match self.quantize(g, id, known) {
            Ok(None) => {}
            Ok(Some((written_as, sqnr_db))) => {
                let rescaling = written_as.to_owned();
                let layer = QuantizedLayer { name, op, rescaling, sqnr_db, ..Default::default() };
                self.done.layers.push(layer);
            }
            Err(why) => self.done.leave(&name, why),
        }
    }

    fn quantize(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        statistics: Option<&InputStatistics>,
    ) -> Result<Option<(&'static str, Option<f64>)>, String> {
        let Some(place) = BlockedWeight::find(g, id)? else { return Ok(None) };
        let form = self.form_for(&place)?;
        let settings = self.block_settings(g, id, &place)?;
        if let Some(choice) = choice::made_of(g, id, place.n) {
            return Err(format!("{choice} chooses by what it computes, which is right or wrong"));
        }
        let readers = self.shared.readers(g, &place, settings.block);
        if self.in_half(g, id, &place) {
            let shared = &mut self.shared.halves;
            let (db, row) = table::write(g, &self.opsets, id, &place, shared)?;
            self.done.tensors.extend(row);
            return Ok(Some(("Cast", db)));
        }
        let key = IntegersKey {
            w: place.w,
            by_rows: place.by_rows,
            table: form == Form::QLinear && readers == Readers::Tables,
            block: settings.block,
            rule: settings.rule,
            alpha: write::alpha(&g[id]),
        };
        let at = match self.shared.made.iter().position(|(other, ..)| *other == key) {
            Some(at) => at,
            None => {
                let order = write::order(&place, form, readers, settings.block);
                let as_asked = (order, form == Form::Qdq);
                let data = g.constant(place.w).ok_or("its weights are computed")?;
                let (made, method, sqnr_db) = match statistics {
                    None => {
                        let weights = (&place, data);
                        let (made, db) =
                            Packed::quantize(weights, &settings, as_asked, self.memory)?;
                        (made, "MSE", db)
                    }
                    Some(statistics) => {
                        let (made, method, db) = statistics.quantize(&self.part(g, id, &place)?);
                        (Packed::of_blocks(made, as_asked), method, db)
                    }
                };
                let row = row(&g[place.w].name, &made, method);
                let integers =
                    write::integers_of(g, id, &place, made, (form, readers), self.memory)?;
                self.done.tensors.push(row);
                self.shared.made.push((key, integers, sqnr_db));
                self.shared.made.len() - 1
            }
        };
        let (_, mut integers, sqnr_db) = self.shared.made[at];
        let WrittenOperator { operator, microsoft } =
            write::write(g, &self.opsets, id, &place, (&mut integers, form, readers))?;
        self.shared.made[at].1 = integers;
        self.microsoft |= microsoft;
        g.drop_unread([place.w]);
        Ok(Some((operator, sqnr_db)))
    }
}

/// The row of the report.
fn row(name: &str, made: &Packed, method: &str) -> QuantizedTensor {
    let (min, max) = made.ends();
    QuantizedTensor {
        name: name.to_owned(),
        element_type: made.rule.levels.dtype.to_string(),
        min: Some(min),
        max: Some(max),
        method: format!("{method} in blocks of {}", made.block),
        ..QuantizedTensor::default()
    }
}
