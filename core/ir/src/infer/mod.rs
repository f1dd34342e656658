//! Shape and type inference: fills in what is not declared, reports what cannot be.
//!
//! Element types follow from the standard's type constraints (`element.rs`), shapes from one rule
//! per operator in the files of the families, and small integer tensors (shapes that the graph
//! computes) are followed through it (`data.rs`). An operator without a rule leaves the shapes of
//! its outputs as declared.

mod activation;
mod control;
mod conv;
mod data;
mod element;
mod index;
mod linear;
mod logic;
mod math;
mod merge;
mod norm;
mod pool;
mod quant;
mod reduce;
mod resize;
mod shape;
mod site;
#[cfg(test)]
mod tests;

use crate::text::NESTING_MAX;
use crate::verify::{Findings, layer};
use crate::{Dim, Graph, Model, NodeId, Opsets, Origin, Value, ValueId, ValueType, schema};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use site::{Known, Shapes, Site};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Elements of computed shapes that are kept for one model.
const ITEMS_MAX: usize = 1 << 20;

/// Computes the shapes of a node's outputs.
type Rule = fn(&Site<'_>) -> Shapes;

/// The rules of one family.
type Rules = &'static [(&'static str, Rule)];

/// Fills in types and shapes that follow from others. Declared ones stay; a declared symbol or
/// unknown size of an inner value gives way to a number.
///
/// Findings: `N0215` where shapes cannot meet, `N0502` where types cannot. A model with cycles is
/// left as it is, see [`crate::verify`].
pub fn infer(model: &mut Model) -> Diagnostics {
    let mut findings = Findings::new(Code::ShapeMismatch);
    let functions = model.functions.iter().map(|f| (f.domain.clone(), f.name.clone())).collect();
    let mut pass = Pass {
        opsets: &model.opsets,
        functions: &functions,
        findings: &mut findings,
        items_left: ITEMS_MAX,
    };
    pass.graph(&mut model.graph, Known::new(), 0);
    findings.into_list()
}

const FAMILIES: &[Rules] = &[
    activation::RULES,
    control::RULES,
    conv::RULES,
    index::RULES,
    linear::RULES,
    logic::RULES,
    math::RULES,
    norm::RULES,
    pool::RULES,
    quant::RULES,
    reduce::RULES,
    resize::RULES,
    shape::RULES,
];

fn rules() -> &'static HashMap<&'static str, Rule> {
    static RULES: OnceLock<HashMap<&'static str, Rule>> = OnceLock::new();
    RULES.get_or_init(|| FAMILIES.iter().copied().flatten().copied().collect())
}

struct Pass<'m> {
    opsets: &'m Opsets,
    /// Local functions: they may have the names of operators.
    functions: &'m HashSet<(String, String)>,
    findings: &'m mut Findings,
    /// Elements of computed shapes that may still be kept.
    items_left: usize,
}

impl Pass<'_> {
    fn opset(&self, domain: &str) -> Option<i64> {
        let other = if domain.is_empty() { "ai.onnx" } else { domain };
        self.opsets.get(domain).or_else(|| self.opsets.get(other)).copied()
    }

    fn graph(&mut self, g: &mut Graph, mut known: Known, depth: usize) {
        let Ok(order) = g.topological() else { return };
        for v in g.value_ids() {
            prepare(&mut g[v]);
        }
        let interface: HashSet<ValueId> = g.outputs().iter().copied().collect();
        for id in order {
            if depth < NESTING_MAX {
                self.subgraphs(g, id, &known, depth);
            }
            self.node(g, id, &mut known, &interface);
        }
    }

    /// Types what the sub-graphs of a node see, then what they compute.
    fn subgraphs(&mut self, g: &mut Graph, id: NodeId, known: &Known, depth: usize) {
        if g[id].subgraphs().next().is_none() {
            return;
        }
        let opset = self.opset("").unwrap_or(0);
        let inputs = control::body_inputs(g, &g[id], opset);
        // Only types inside change, so the edges that the graph records stay right.
        let mut attrs = std::mem::take(&mut g.node_mut(id).attrs);
        for inner in attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut()) {
            let mut inner_known = Known::new();
            for (own, outer) in inner.captures().collect::<Vec<_>>() {
                inner[own].ty = g[outer].ty.clone();
                let data = known.get(&outer).cloned();
                let data = data.or_else(|| site::data_of(g.constant(outer)?));
                inner_known.extend(data.map(|d| (own, d)));
            }
            for (v, ty) in inner.inputs().to_vec().into_iter().zip(&inputs) {
                if let Some(ty) = ty {
                    let declared = inner[v].ty.take();
                    // A contradiction shows where the value is used.
                    let merged = merge::types(declared.as_ref(), ty, false);
                    inner[v].ty = merged.or(declared);
                }
            }
            self.graph(inner, inner_known, depth + 1);
        }
        g.node_mut(id).attrs = attrs;
    }

    fn node(&mut self, g: &mut Graph, id: NodeId, known: &mut Known, interface: &HashSet<ValueId>) {
        let node = &g[id];
        let function = (node.domain.clone(), node.op.clone());
        let standard = if node.is_standard() { "" } else { node.domain.as_str() };
        let opset = self.opset(standard);
        let found = opset.and_then(|o| Some((o, schema::find(standard, &node.op, o)?)));
        let Some((opset, schema)) = found.filter(|_| !self.functions.contains(&function)) else {
            return;
        };
        let site = Site { graph: g, node, schema, known, opset };
        let shapes = match rules().get(node.op.as_str()).filter(|_| node.is_standard()) {
            Some(rule) => rule(&site).unwrap_or_else(|what| {
                let message = format!("{}: {what}.", node.op);
                self.findings.add_at(g, node, message);
                vec![]
            }),
            None => vec![],
        };
        let mut types = control::output_types(&site);
        for slot in types.len()..node.outputs.len() {
            let shape = shapes.get(slot).cloned().flatten();
            types.push(element::output_type(&site, slot, shape));
        }
        let data = data::of(&site).filter(|d| d.items.len() <= site::ELEMENTS_MAX);
        let outputs = node.outputs.clone();
        let data = data.filter(|d| d.items.len() <= self.items_left);
        self.items_left -= data.as_ref().map_or(0, |d| d.items.len());
        known.extend(outputs.first().copied().flatten().zip(data));
        for (v, ty) in outputs.into_iter().zip(types) {
            if let (Some(v), Some(ty)) = (v, ty) {
                self.declare(g, id, v, &ty, interface.contains(&v));
            }
        }
    }

    /// Adds what was inferred to what is declared.
    fn declare(&mut self, g: &mut Graph, id: NodeId, v: ValueId, ty: &ValueType, keep: bool) {
        match merge::types(g[v].ty.as_ref(), ty, keep) {
            Some(merged) => g[v].ty = Some(merged),
            None => {
                let declared = g[v].ty.as_ref().map(ToString::to_string).unwrap_or_default();
                let op = &g[id].op;
                let name = shown(&g[v].name);
                let message = format!("`{name}` is declared as {declared}, {op} gives {ty}.");
                let code = match g[v].ty.as_ref().and_then(ValueType::dtype) == ty.dtype() {
                    true => Code::ShapeMismatch,
                    false => Code::OnnxInvalid,
                };
                let finding = Diagnostic::new(code, message);
                self.findings.push(finding.at(layer(g, &g[id])));
            }
        }
    }
}

/// An initializer or default tells the type of its value. Some exporters declare the size -1 where
/// they do not know it.
fn prepare(value: &mut Value) {
    if let Some(ValueType::Tensor { shape: Some(shape), .. }) = &mut value.ty {
        for dim in shape.iter_mut().filter(|d| matches!(d, Dim::Known(..0))) {
            *dim = Dim::Unknown;
        }
    }
    if value.ty.is_none()
        && matches!(value.origin(), Origin::None | Origin::Input)
        && let Some(data) = value.initializer()
    {
        let dims = data.dims().iter().map(|d| *d as i64);
        value.ty = Some(ValueType::tensor(data.dtype(), dims));
    }
}
