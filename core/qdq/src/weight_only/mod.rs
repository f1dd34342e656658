//! Weights alone become integers, in blocks along the axis that a product sums over, and the
//! activations stay as they are: what is gained is size.
//!
//! `QLinear` writes `MatMulNBits` and `GatherBlockQuantized` of ONNX Runtime, `QDQ` the standard's
//! `DequantizeLinear` with `block_size` in front of the float operator. Both hold the same numbers.
//!
//! Every block has the range with the least squared error among its own and narrower ones. With
//! calibration data, errors of weights are made up for by later weights (GPTQ), where that lowers
//! the error of the output.

mod blocks;
mod write;

use crate::coded::MICROSOFT;
use crate::gram::{DAMPING, Inverse, Pairs};
use crate::report::{Done, Form, QuantizedLayer, QuantizedTensor, name_of};
use crate::weight::{Rule, finite};
use crate::{Request, Settings, bodies, emit};
use blocks::Blocks;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{Engine, quoted};
use onnxd_ir::ops::{Gemm, MatMul, Op};
use onnxd_ir::{Attr, DataType, Graph, Model, NodeId, Tensor, ValueId};
use onnxd_quant::{Feeds, Limits, Wanted, observe};
use std::collections::{BTreeMap, BTreeSet};
use write::Written;

/// Bytes of what is remembered of inputs in one reading of the samples.
const SUMS_MAX: usize = 1 << 30;

/// Inputs of a product above which they are not looked at: the work grows with the third power.
const INPUTS_MAX: usize = 8192;

/// Elements of a table below which integers save nothing that counts.
const TABLE_MIN: usize = 4096;

/// Samples, and what runs the model on them.
pub struct Data<'a> {
    /// Runs the float model.
    pub engine: &'a dyn Engine,
    /// All samples from the first; may be asked for several times.
    #[allow(clippy::type_complexity)]
    pub samples: &'a dyn Fn() -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 'a>,
    /// What the runs may take.
    pub limits: Limits<'a>,
}

/// Quantizes constant weights of products and tables, in sub-graphs too. For [`Form::Qdq`] the model
/// must have operator set 21 at least.
///
/// # Errors
/// For what no operator takes; why the model does not run on the samples.
pub fn quantize_weights(
    model: &mut Model,
    request: &Request,
    form: Form,
    data: Option<&Data>,
) -> Result<Done, Diagnostics> {
    let mut pass = Pass { request, form, done: Done::default(), microsoft: false };
    let mut found = Diagnostics::default();
    check(&model.graph, request, form, &mut found);
    found.or_ok(())?;
    let mut groups = match data {
        Some(_) => groups(&model.graph, request),
        None => Vec::new(),
    };
    // What nothing is known of comes last, with the sub-graphs.
    let known: BTreeSet<NodeId> = groups.iter().flat_map(|g| g.nodes.iter().copied()).collect();
    let float = data.map(|data| (data, model.clone()));
    while let Some((data, float)) = float.as_ref().filter(|_| !groups.is_empty()) {
        let mut room = SUMS_MAX;
        let take = groups.iter().take_while(|g| {
            let bytes = g.inputs * g.inputs * size_of::<f64>();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let rest = groups.split_off(take.count().max(1));
        let now = std::mem::replace(&mut groups, rest);
        let sizes: BTreeMap<String, usize> =
            now.iter().map(|g| (quoted(&float.graph[g.x].name), g.inputs)).collect();
        let wanted = Wanted::Names(sizes.keys().cloned().collect());
        let make = |name: &str| Pairs::new(sizes.get(name).copied().unwrap_or(0));
        let mut samples = (data.samples)();
        let seen = observe(data.engine, float, &mut *samples, &wanted, &make, data.limits)?;
        for group in now {
            let pairs = seen.get(&quoted(&float.graph[group.x].name)).filter(|p| !p.is_empty());
            let inverse = pairs.and_then(|pairs| Inverse::of(pairs, DAMPING));
            let inputs = pairs.zip(inverse.as_ref());
            for id in group.nodes {
                pass.node(&mut model.graph, id, inputs);
            }
        }
    }
    graph(&mut model.graph, &mut pass, &BTreeMap::new(), &known);
    if pass.microsoft {
        model.opsets.insert(MICROSOFT.to_owned(), 1);
    }
    Ok(pass.done)
}

/// Products of the main graph that read the same value.
struct Group {
    x: ValueId,
    inputs: usize,
    nodes: Vec<NodeId>,
}

fn groups(g: &Graph, request: &Request) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known = BTreeMap::new();
    for id in g.topological().unwrap_or_default() {
        let node = &g[id];
        let wanted = request.of(g, node).is_some();
        let Some(place) = Place::of(g, id).ok().flatten().filter(|_| wanted) else { continue };
        let Some(x) = place.x.filter(|x| g.constant(*x).is_none()) else { continue };
        let inputs = place.k;
        if place.turned || inputs > INPUTS_MAX {
            continue;
        }
        let at = *known.entry((x, inputs)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Group { x, inputs, nodes: Vec::new() });
        }
        groups[at].nodes.push(id);
    }
    groups
}

/// What the operators take, by the settings of all nodes that would get them.
fn check(g: &Graph, request: &Request, form: Form, found: &mut Diagnostics) {
    for (id, node) in g.nodes() {
        node.subgraphs().for_each(|inner| check(inner, request, form, found));
        let name = name_of(g, node);
        let Some(settings) = request.of(g, node) else { continue };
        let Ok(Some(_)) = Place::of(g, id) else { continue };
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
            && !(settings.block_size >= 16 && settings.block_size.is_power_of_two())
        {
            let text = "ONNX Runtime's operators take blocks of a power of two, 16 at least, not";
            refuse(format!("{text} {}", settings.block_size));
        }
    }
}

/// Weights of a node as the rows that blocks run along.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The input of a product; `None` for a table.
    x: Option<ValueId>,
    /// The weights.
    w: ValueId,
    /// Their input of the node.
    slot: usize,
    n: usize,
    k: usize,
    /// Whether the weights are stored by rows already.
    by_rows: bool,
    /// Whether the product reads its input with axes exchanged.
    turned: bool,
}

impl Place {
    /// `None` for what has no weights; else why they stay in floating point.
    fn of(g: &Graph, id: NodeId) -> Result<Option<Place>, String> {
        let node = &g[id];
        let (x, w, slot, by_rows, turned) = if let Some(op) = MatMul::view(node) {
            (Some(op.a), op.b, 1, false, false)
        } else if let Some(op) = Gemm::view(node) {
            (Some(op.a), op.b, 1, op.transB != 0, op.transA != 0)
        } else if let (true, Some(table)) = (node.is("Gather"), node.input(0)) {
            (None, table, 0, true, false)
        } else {
            return Ok(None);
        };
        let Some(data) = g.constant(w) else {
            return if x.is_some() {
                Err("both factors are computed".to_owned())
            } else {
                Ok(None)
            };
        };
        let dims = data.dims();
        let by_axis = matches!(node.attr("axis"), None | Some(Attr::Int(0)));
        if x.is_none() && !(dims.len() == 2 && by_axis && data.len() >= TABLE_MIN) {
            return Ok(None);
        }
        if data.dtype() != DataType::Float {
            return if x.is_some() {
                Err("its weights are not of float32".to_owned())
            } else {
                Ok(None)
            };
        }
        let rank = dims.len();
        if rank < 2 || dims[..rank - 2].iter().any(|d| *d != 1) || data.is_empty() {
            return Err("its weights are no matrix".to_owned());
        }
        let (n, k) = match by_rows {
            true => (dims[rank - 2], dims[rank - 1]),
            false => (dims[rank - 1], dims[rank - 2]),
        };
        Ok(Some(Place { x, w, slot, n, k, by_rows, turned }))
    }

    /// The weights by rows.
    fn rows(&self, data: &Tensor) -> Result<Vec<f32>, String> {
        let values = finite(data)?;
        if self.by_rows {
            return Ok(values.into_owned());
        }
        let mut rows = vec![0.0; values.len()];
        for (k, line) in values.chunks(self.n).enumerate() {
            line.iter().enumerate().for_each(|(n, x)| rows[n * self.k + k] = *x);
        }
        Ok(rows)
    }
}

/// What is the same for all graphs of a model.
struct Pass<'r> {
    request: &'r Request,
    form: Form,
    done: Done,
    /// Whether operators of ONNX Runtime were written.
    microsoft: bool,
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
            let constants = bodies::captured_constants(g, id, outer);
            g.edit_subgraphs(id, |inner| graph(inner, pass, &constants, &BTreeSet::new()));
            stale.extend(constants.into_keys());
        }
        bodies::import_weights(g, id, outer);
        if !known.contains(&id) {
            pass.node(g, id, None);
        }
    }
    emit::drop_unread(g, stale);
}

impl Pass<'_> {
    fn node(&mut self, g: &mut Graph, id: NodeId, inputs: Option<(&Pairs, &Inverse)>) {
        let node = &g[id];
        let (name, op) = (name_of(g, node), node.op.clone());
        let Some(settings) = self.request.of(g, node) else { return };
        match self.quantize(g, id, settings, inputs) {
            Ok(None) => {}
            Ok(Some((written_as, sqnr_db))) => {
                let written_as = written_as.to_owned();
                self.done.layers.push(QuantizedLayer { name, op, written_as, sqnr_db });
            }
            Err(why) => self.done.leave(&name, why),
        }
    }

    fn quantize(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
        inputs: Option<(&Pairs, &Inverse)>,
    ) -> Result<Option<(&'static str, Option<f64>)>, String> {
        let Some(place) = Place::of(g, id)? else { return Ok(None) };
        let data = g.constant(place.w).ok_or("its weights are computed")?.clone();
        write::possible(g, id, &place, self.form)?;
        let rule = Rule::new(settings.weight, settings.symmetric, settings.reduce_range);
        let rule =
            rule.ok_or_else(|| format!("weights of {} are not supported", settings.weight))?;
        let rows = place.rows(&data)?;
        let sizes = (place.n, place.k);
        let block = match self.form {
            // A block that reaches beyond the axis is all of it.
            Form::Qdq => settings.block_size.min(place.k),
            Form::QLinear => settings.block_size,
        };
        let mut made = Blocks::of(&rows, sizes, (block, rule), None);
        let (mut method, mut sqnr_db) = ("MSE", None);
        if let Some((pairs, inverse)) = inputs {
            let error = |made: &Blocks| {
                let row = |n: usize| -> Vec<f32> {
                    let row = &rows[n * place.k..][..place.k];
                    row.iter().zip(made.row(n)).map(|(w, q)| w - q).collect()
                };
                pairs.energy(&row, place.n)
            };
            let corrected = Blocks::of(&rows, sizes, (block, rule), Some(inverse));
            let (plain, better) = (error(&made), error(&corrected));
            if better < plain {
                (made, method) = (corrected, "GPTQ");
            }
            let signal = pairs.energy(&|n| rows[n * place.k..][..place.k].to_vec(), place.n);
            let noise = plain.min(better);
            sqnr_db = (signal > 0.0 && noise > 0.0).then(|| 10.0 * (signal / noise).log10());
        }
        self.done.tensors.push(row(&g[place.w].name, &made, method));
        let Written { operator, microsoft } = write::write(g, id, &place, &made, self.form)?;
        self.microsoft |= microsoft;
        emit::drop_unread(g, [place.w]);
        Ok(Some((operator, sqnr_db)))
    }
}

/// The row of the report.
fn row(name: &str, made: &Blocks, method: &str) -> QuantizedTensor {
    let ends = (0..made.n).flat_map(|n| made.row(n)).map(f64::from);
    let range = ends.fold((0.0, 0.0), |(lo, hi): (f64, f64), x| (lo.min(x), hi.max(x)));
    QuantizedTensor {
        name: name.to_owned(),
        dtype: made.rule.levels.dtype,
        scales: Vec::new(),
        zero_points: Vec::new(),
        range: Some(range),
        method: format!("{method} in blocks of {}", made.block),
    }
}
