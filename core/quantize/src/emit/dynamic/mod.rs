//! Activations are quantized at run time, with the range that they have there
//! (`DynamicQuantizeLinear`), so that no calibration data is needed:
//!
//! ```text
//! xq, sx, zx = DynamicQuantizeLinear(x)
//! y = Cast(MatMulInteger(xq, wq, zx, zw)) * (sx * sw) + bias
//! ```
//!
//! All weighted operators that read `x` share its integers. The bias stays in floating point, so nothing but
//! `x` and the weights is rounded. Tables that are only gathered from are quantized as well, and so do
//! the weights of ONNX Runtime's layers of transformers.

mod attention;
mod computed;
pub(crate) mod embed;
mod lstm;
mod real;
mod table;
mod weighted;

use crate::graph::edit;
use crate::graph::quantized::MICROSOFT;
use crate::graph::subgraphs;
use crate::graph::weighted::{WEIGHTED_OPS, is_attention};
use crate::plan::checks::DYNAMIC;
use crate::plan::{QuantizeRequest, Settings};
use crate::range::weights::{Quantized, Rule, per_channel, per_tensor};
use crate::report::{Form, Report, name_of};
use onnxd_build::{GraphBuilder, Var};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, refuse};
use onnxd_ir::{DataType, Graph, Model, Node, NodeId, Opsets, Tensor, ValueId};
use onnxd_proto::onnxd::{QuantizedLayer, QuantizedTensor};
use std::collections::{BTreeMap, BTreeSet};

/// Quantizes weighted operators, in sub-graphs too. The model must have operator set 13
/// at least.
///
/// # Errors
/// For what no operator on integers takes.
pub fn quantize_dynamic(
    model: &mut Model,
    request: &QuantizeRequest,
    form: Form,
) -> Result<Report, Diagnostics> {
    quantize_dynamic_but(model, request, form, &BTreeSet::new())
}

/// As [`quantize_dynamic`]. The nodes in `floats` and what is in their sub-graphs stay as they are.
///
/// # Errors
/// As [`quantize_dynamic`].
pub fn quantize_dynamic_but(
    model: &mut Model,
    request: &QuantizeRequest,
    form: Form,
    floats: &BTreeSet<NodeId>,
) -> Result<Report, Diagnostics> {
    let done = Report::default();
    let opsets = edit::with_microsoft(&model.opsets);
    let floats = floats.clone();
    let mut pass = Pass { request, form, opsets, floats, done, microsoft: false };
    let mut found = Diagnostics::default();
    graph(&mut model.graph, &mut pass, &BTreeMap::new(), &mut found);
    found.or_ok(())?;
    if pass.microsoft {
        model.opsets.insert(MICROSOFT.to_owned(), 1);
    }
    Ok(pass.done)
}

/// The largest sum of weights that can be multiplied with 8-bit integers in 32 bits.
const SUM_MAX: i64 = i32::MAX as i64 / 255;

/// Why a node stays in floating point that could have been quantized.
const ASKED: &str = "the demanded accuracy is not reached with it";

/// What is the same for all graphs of a model.
struct Pass<'r> {
    request: &'r QuantizeRequest,
    form: Form,
    opsets: Opsets,
    /// Nodes of the graph at hand that stay as they are.
    floats: BTreeSet<NodeId>,
    done: Report,
    /// Whether operators of ONNX Runtime were written.
    microsoft: bool,
}

/// A graph at work.
struct DynamicGraph<'p, 'r> {
    pass: &'p mut Pass<'r>,
    /// Nodes that stay as they are.
    floats: &'p BTreeSet<NodeId>,
    /// Integers, scale and zero point of an activation.
    activations: BTreeMap<ValueId, [ValueId; 3]>,
    /// Weights that are the same for several nodes are quantized once.
    weights: BTreeMap<(ValueId, Want), IntegerWeights>,
    /// Values of other types in float32.
    wide: BTreeMap<ValueId, ValueId>,
    /// Constants that may have lost their readers.
    stale: BTreeSet<ValueId>,
}

/// How weights are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Want {
    pub(crate) axis: Option<usize>,
    /// The axis of output channels, of weights that are multiplied and summed.
    pub(crate) outputs: Option<usize>,
    pub(crate) dtype: DataType,
    pub(crate) symmetric: bool,
    pub(crate) reduced: bool,
    pub(crate) transposed: bool,
    /// One zero point for all channels.
    pub(crate) one_zero: bool,
    /// Held such that weighted operators are exact on every processor.
    pub(crate) exact: bool,
}

impl Want {
    /// One scale for all, without a sum in which they count.
    pub(crate) fn table(dtype: DataType, symmetric: bool) -> Want {
        let (reduced, transposed, one_zero) = (false, false, false);
        let (axis, outputs, exact) = (None, None, true);
        Want { axis, outputs, dtype, symmetric, reduced, transposed, one_zero, exact }
    }

    /// Weights as the nearest integers.
    pub(crate) fn integers(&self, weights: &Tensor) -> Result<Quantized, String> {
        let rule = Rule::new(self.dtype, self.symmetric, self.reduced)
            .ok_or_else(|| format!("weights of {} are not supported", self.dtype))?;
        // With 8 bits, clipping gains less than what it does to a few outputs.
        let rule = Rule { search: false, ..rule };
        match self.axis {
            Some(axis) => per_channel(weights, axis, rule),
            None => per_tensor(weights, rule),
        }
    }
}

/// Weights as integers.
#[derive(Clone)]
struct IntegerWeights {
    integers: ValueId,
    /// `None` where zero is 0.
    zero: Option<ValueId>,
    scales: Vec<f64>,
}

fn graph(
    g: &mut Graph,
    pass: &mut Pass,
    outer: &BTreeMap<ValueId, Tensor>,
    problems: &mut Diagnostics,
) {
    let floats = std::mem::take(&mut pass.floats);
    let mut site = DynamicGraph {
        pass,
        floats: &floats,
        activations: BTreeMap::new(),
        weights: BTreeMap::new(),
        wide: BTreeMap::new(),
        stale: BTreeSet::new(),
    };
    for id in g.topological().unwrap_or_default() {
        if floats.contains(&id) {
            site.pass.done.leave(&name_of(g, &g[id]), ASKED);
            continue;
        }
        if g[id].subgraphs().next().is_some() {
            let constants = subgraphs::captured_constants(g, id, outer);
            g.edit_subgraphs(id, |inner| graph(inner, site.pass, &constants, problems));
            site.stale.extend(constants.into_keys());
        }
        let node = &g[id];
        let name = name_of(g, node);
        let Some(settings) = site.pass.request.settings_for(g, node).filter(|_| known(node)) else {
            continue;
        };
        let op = node.op.clone();
        subgraphs::import_weights(g, id, outer);
        if WEIGHTED_OPS.contains(&op.as_str())
            && let Err(unsupported) = types(&name, settings)
        {
            problems.push(unsupported);
            continue;
        }
        match site.node(g, id, settings) {
            Ok(written_as) => site.pass.done.layers.push(QuantizedLayer {
                name,
                op,
                rescaling: written_as.to_owned(),
                ..QuantizedLayer::default()
            }),
            Err(why) if why.is_empty() => {}
            Err(why) => site.pass.done.leave(&name, why),
        }
    }
    g.drop_unread(site.stale);
}

/// Whether something is quantized of nodes with this operator.
fn known(node: &Node) -> bool {
    match node.op.as_str() {
        "Attention" => is_attention(node),
        "EmbedLayerNormalization" => true,
        op => node.is_standard() && (DYNAMIC.contains(&op) || WEIGHTED_OPS.contains(&op)),
    }
}

/// What operators on integers take.
fn types(name: &str, settings: Settings) -> Result<(), Diagnostic> {
    let bytes = [DataType::Int8, DataType::Uint8];
    if !bytes.contains(&settings.weight) {
        let text = format!(
            "{name}: ranges at run time go with weights of int8 and uint8, not {}",
            settings.weight
        );
        return Err(Diagnostic::new(Code::FeatureUnsupported, text));
    }
    Ok(())
}

impl DynamicGraph<'_, '_> {
    /// Writes a node on integers; says as what, or why not.
    fn node(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let op = g[id].op.clone();
        if op == "Gather" {
            return self.table(g, id, settings);
        }
        let before = self.widen(g, id)?;
        let outcome = match op.as_str() {
            "Attention" => self.attention(g, id, settings),
            "EmbedLayerNormalization" => self.embeddings(g, id, settings),
            "LSTM" => self.lstm(g, id, settings),
            _ => self.product(g, id, settings),
        };
        if let Some(before) = before.filter(|_| outcome.is_err()) {
            self.narrow(g, before);
        }
        outcome
    }

    /// Lets `f` build what computes the outputs of node `id` instead of it.
    fn stand_in<V>(
        &self,
        g: &mut Graph,
        id: NodeId,
        f: impl FnOnce(&GraphBuilder, &Node) -> onnxd_build::Result<V>,
    ) -> Result<(), String>
    where
        V: IntoIterator<Item: Into<Option<Var>>>,
    {
        edit::stand_in(g, &self.pass.opsets, id, f)
    }

    /// `x` as integers from its range at run time: integers, scale, zero point.
    fn activation(&mut self, g: &mut Graph, x: ValueId) -> Result<[ValueId; 3], String> {
        if let Some(known) = self.activations.get(&x) {
            return Ok(*known);
        }
        let name = self.name(g, x);
        let by = g.producer(x).or_else(|| g.readers(x).first().copied());
        let layers = by.map(|id| g[id].layers.clone()).unwrap_or_default();
        let outs = edit::edit(g, &self.pass.opsets, |b| {
            b.in_layers(layers, &name, |b| {
                let quantized =
                    b.dynamic_quantize_linear(x).roles(["quantized", "scale", "zero_point"]);
                let outs = quantized.called(format!("{name}_DynamicQuantizeLinear")).outputs()?;
                let [q, scale, zero] = outs.map(|v| b.id(v));
                Ok([q?, scale?, zero?])
            })
        });
        let outs = outs.map_err(|found| edit::why(&found))?;
        self.pass.done.tensors.push(QuantizedTensor {
            name,
            element_type: DataType::Uint8.to_string(),
            method: "range at run time".to_owned(),
            ..QuantizedTensor::default()
        });
        self.activations.insert(x, outs);
        Ok(outs)
    }

    /// The constant `w` as integers.
    fn weights(&mut self, g: &mut Graph, w: ValueId, want: Want) -> Result<IntegerWeights, String> {
        if let Some(known) = self.weights.get(&(w, want)) {
            return Ok(known.clone());
        }
        let data = g.constant(w).ok_or("its weights are computed")?.clone();
        let weight_integers = want.integers(&data)?;
        let weight_integers = if want.exact { weight_integers.exact() } else { weight_integers };
        refuse!(want.outputs.is_some_and(|axis| weight_integers.sums_pass(axis, SUM_MAX)) =>
            "32 bits may not hold accumulators of so many terms");
        let name = self.name(g, w);
        self.pass.done.tensors.push(weight_integers.row(&name));
        let zero = match weight_integers.is_centered() {
            true => None,
            false => {
                Some(weight_integers.zero_point_tensor().ok_or("its zero points have no tensor")?)
            }
        };
        let zero = zero.map(|zero| match zero.to_i64s() {
            Some(all) if want.one_zero => {
                crate::range::integers(zero.dtype(), &[], &all[..1]).unwrap_or(zero)
            }
            _ => zero,
        });
        let Quantized { integers, scales, .. } = weight_integers;
        let integers = match want.transposed {
            true => integers.permuted(&[1, 0]).map_err(|e| e.to_string())?.held(),
            false => integers,
        };
        let made = IntegerWeights {
            integers: g.add_initializer(&format!("{name}_quantized"), integers),
            zero: zero.map(|zero| g.add_initializer(&format!("{name}_zero_point"), zero)),
            scales: scales.iter().map(|s| s.scale).collect(),
        };
        self.weights.insert((w, want), made.clone());
        self.stale.insert(w);
        Ok(made)
    }
}
