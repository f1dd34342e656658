//! Shape and type inference: fills in what is not declared, reports what cannot be.
//!
//! Element types follow from the standard's type constraints (`element.rs`), shapes from one rule
//! per operator in the files of the families, and small integer tensors (shapes that the graph
//! computes) are followed through it (`data.rs`). An operator without a rule leaves the shapes of
//! its outputs as declared.

mod activation;
mod attention;
mod body;
mod control;
mod conv;
mod data;
mod einsum;
mod element;
mod facts;
#[cfg(test)]
mod family_tests;
mod index;
mod linear;
mod logic;
mod loss;
mod math;
mod merge;
mod microsoft;
mod ml;
mod norm;
mod pool;
mod quant;
mod range;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod shape;
mod signal;
mod site;
mod symbolic;
#[cfg(test)]
mod tests;
mod text;
mod vision;

use crate::verify::{Findings, Functions, source_layer};
use crate::{
    Dim, Function, Graph, Model, Node, NodeId, Opsets, Origin, Value, ValueId, ValueType, schema,
};
pub use body::GraphKnowledge;
pub use facts::Facts;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use site::{InferContext, KnownElements, Shapes};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
pub(crate) use symbolic::{floor, is_fresh, is_positive};

/// Elements of computed shapes that are kept for one model.
const ITEMS_MAX: usize = 1 << 20;

/// Computes the shapes of a node's outputs.
type Rule = fn(&InferContext<'_>) -> Shapes;

/// The rules of one family.
type Rules = &'static [(&'static str, Rule)];

/// Types of outputs, as far as known.
type Types = Vec<Option<ValueType>>;

/// Computes the types of a node's outputs: for operators whose outputs need not be tensors.
type TypeRule = fn(&InferContext<'_>) -> Types;

/// Such rules of one family.
type TypeRules = &'static [(&'static str, TypeRule)];

/// Fills in types and shapes that follow from others. Declared ones stay where they can be true; a
/// declared symbol or unknown size of an inner value gives way to a number. Values inside a local
/// function get what all its applications have in common.
///
/// Findings: `N0215` where shapes cannot meet, `N0502` where types cannot, `N0511` where a declared
/// shape is not the computed one, which takes its place, as in runtimes. A model with cycles is left
/// as it is, see [`crate::verify()`].
pub fn infer(model: &mut Model) -> Diagnostics {
    infer_with(model, false, |_, _| ())
}

/// As [`infer`]; gives what is known of the values besides their types.
pub fn infer_facts(model: &mut Model) -> (Facts, Diagnostics) {
    let mut facts = Facts::default();
    let findings = infer_with(model, true, |graph, scope| facts = scope.facts(graph));
    (facts, findings)
}

/// `look` sees the graph before computed sizes get names for readers.
fn infer_with(
    model: &mut Model,
    facts: bool,
    look: impl FnOnce(&Graph, &mut GraphKnowledge),
) -> Diagnostics {
    let mut inference = Inference::new(Cow::Borrowed(&model.opsets), &model.functions);
    inference.facts = facts;
    inference.nodes_left = body::nodes_max(&model.graph, &model.functions);
    let mut scope = inference.graph(&mut model.graph, KnownElements::default(), 0);
    let Inference { bodies, findings, .. } = inference;
    look(&model.graph, &mut scope);
    scope.restore(&mut model.graph);
    for (function, types) in model.functions.iter_mut().zip(bodies) {
        body::write_back(&mut function.graph, types.unwrap_or_default());
    }
    findings.into_list()
}

/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

/// Rules by domain and family.
const FAMILIES: &[Family<Rule>] = &[
    ("", "activation", activation::RULES),
    ("", "attention", attention::RULES),
    ("", "control", control::RULES),
    ("", "conv", conv::RULES),
    ("", "einsum", einsum::RULES),
    ("", "index", index::RULES),
    ("", "linear", linear::RULES),
    ("", "logic", logic::RULES),
    ("", "loss", loss::RULES),
    ("", "math", math::RULES),
    ("", "norm", norm::RULES),
    ("", "pool", pool::RULES),
    ("", "quant", quant::RULES),
    ("", "recurrent", recurrent::RULES),
    ("", "reduce", reduce::RULES),
    ("", "resize", resize::RULES),
    ("", "sequence", sequence::RULES),
    ("", "shape", shape::RULES),
    ("", "signal", signal::RULES),
    ("", "text", text::RULES),
    ("", "vision", vision::RULES),
    (ML, "ml", ml::RULES),
    (microsoft::DOMAIN, "microsoft", microsoft::RULES),
    ("ai.onnx.preview", "attention", attention::PREVIEW),
];

const TYPE_FAMILIES: &[Family<TypeRule>] = &[
    ("", "control", control::TYPES),
    ("", "sequence", sequence::TYPES),
    (ML, "ml", ml::TYPES),
    ("ai.onnx.preview.training", "ml", ml::TRAINING),
];

type RuleTable<F> = HashMap<(&'static str, &'static str), F>;

/// A domain, the name of a family, and the rules of its operators.
type Family<F> = (&'static str, &'static str, &'static [(&'static str, F)]);

fn table<F: Copy>(families: &[Family<F>]) -> RuleTable<F> {
    let rows = families.iter().flat_map(|(d, _, rows)| rows.iter().map(|(op, f)| ((*d, *op), *f)));
    rows.collect()
}

fn family_in<F>(families: &[Family<F>], domain: &str, op: &str) -> Option<&'static str> {
    let has =
        |(of, _, rows): &&Family<F>| *of == domain && rows.iter().any(|(name, _)| *name == op);
    families.iter().find(has).map(|(_, family, _)| *family)
}

fn rules() -> &'static RuleTable<Rule> {
    static RULES: OnceLock<RuleTable<Rule>> = OnceLock::new();
    RULES.get_or_init(|| table(FAMILIES))
}

fn type_rules() -> &'static RuleTable<TypeRule> {
    static RULES: OnceLock<RuleTable<TypeRule>> = OnceLock::new();
    RULES.get_or_init(|| table(TYPE_FAMILIES))
}

/// Whether a rule computes the shapes or types of an operator's outputs.
#[must_use]
pub fn has_rule(domain: &str, op: &str) -> bool {
    rules().contains_key(&(domain, op)) || type_rules().contains_key(&(domain, op))
}

/// The family of an operator: the file of its rule.
#[must_use]
pub fn family(domain: &str, op: &str) -> Option<&'static str> {
    let of_shapes = family_in(FAMILIES, domain, op);
    of_shapes.or_else(|| family_in(TYPE_FAMILIES, domain, op))
}

/// Inference over the nodes of one model, one at a time. [`infer`] is a loop over all its nodes; who
/// builds a graph takes a step after each node that is added.
pub struct Inference<'m> {
    /// Of the model, or of the function that is looked at.
    opsets: Cow<'m, Opsets>,
    functions: &'m [Function],
    /// Which of them a node applies; they may have the names of operators.
    applied: Functions<'m>,
    /// What is known of the values of each function, by their index.
    bodies: Vec<Option<Types>>,
    findings: Findings,
    /// Elements of computed shapes that may still be kept.
    items_left: usize,
    /// Nodes in functions and loops that may still be looked at.
    nodes_left: usize,
    /// Sizes without name so far.
    fresh: usize,
    /// Whether what is known of sub-graphs is kept.
    facts: bool,
}

impl<'m> Inference<'m> {
    /// Inference for graphs whose operators are those of `opsets`, and `functions`, the model's own.
    pub fn new(opsets: Cow<'m, Opsets>, functions: &'m [Function]) -> Inference<'m> {
        Inference {
            opsets,
            functions,
            applied: Functions::of(functions),
            bodies: vec![None; functions.len()],
            findings: Findings::new(Code::ShapeMismatch),
            items_left: ITEMS_MAX,
            nodes_left: 0,
            fresh: 0,
            facts: false,
        }
    }

    /// How many sizes without name it numbered so far.
    pub fn numbered(&self) -> usize {
        self.fresh
    }

    /// Prepares the declared type of an input of a graph that is built.
    pub fn input(&mut self, value: &mut Value) {
        prepare(value);
        self.number(value);
    }

    /// Infers what node `id` of `g` computes from what is known of its inputs, sub-graphs included.
    /// `scope` holds what is known of `g` besides types and must be the same in every step.
    ///
    /// Types get names of sizes that only inference understands, equal where the sizes are;
    /// [`GraphKnowledge::restore`] turns them back.
    ///
    /// # Errors
    /// The findings of [`infer`] about this node. Its outputs then have the types that follow anyway.
    pub fn step(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        scope: &mut GraphKnowledge,
    ) -> Result<(), Diagnostics> {
        let applied = self.applied.applied(&g[id]).map(|f| &self.functions[f].graph);
        let inner = body::nodes_max_of(g[id].subgraphs().chain(applied));
        self.nodes_left = self.nodes_left.saturating_add(inner);
        self.visit(g, id, scope);
        match std::mem::replace(&mut self.findings, Findings::new(Code::ShapeMismatch)).into_list()
        {
            none if none.0.is_empty() => Ok(()),
            found => Err(found),
        }
    }

    fn opset(&self, domain: &str) -> Option<i64> {
        let other = if domain.is_empty() { "ai.onnx" } else { domain };
        self.opsets.get(domain).or_else(|| self.opsets.get(other)).copied()
    }

    /// What it leaves has the names of [`symbolic`] until the scope is restored.
    fn graph(&mut self, g: &mut Graph, known: KnownElements, depth: usize) -> GraphKnowledge {
        let mut scope = GraphKnowledge::from_graph(g, known, depth);
        let Ok(order) = g.topological() else { return scope };
        for v in g.value_ids() {
            prepare(&mut g[v]);
            if g[v].origin() == Origin::Input {
                self.number(&mut g[v]);
            }
        }
        for id in order {
            self.visit(g, id, &mut scope);
        }
        scope
    }

    fn visit(&mut self, g: &mut Graph, id: NodeId, scope: &mut GraphKnowledge) {
        let fresh = self.fresh;
        let mut bodies = self.subgraphs(g, id, &scope.known, scope.depth);
        self.node(g, id, scope, fresh);
        if self.facts && !bodies.is_empty() {
            let inner = g[id].subgraphs().zip(&mut bodies).map(|(g, scope)| scope.facts(g));
            let inner = inner.collect();
            scope.inner.insert(id, inner);
        }
        body::restore_all(g, id, &bodies);
    }

    /// Gives the sizes of which nothing is known a number each, so that equal ones are seen.
    fn number(&mut self, value: &mut Value) {
        if let Some(ValueType::Tensor { shape: Some(shape), .. }) = &mut value.ty {
            for dim in shape.iter_mut().filter(|d| **d == Dim::Unknown) {
                *dim = symbolic::fresh(self.fresh);
                self.fresh += 1;
            }
        }
    }

    fn node(&mut self, g: &mut Graph, id: NodeId, scope: &mut GraphKnowledge, fresh: usize) {
        let GraphKnowledge { known, depth, claimed, .. } = scope;
        let (types, data) = match self.applied.applied(&g[id]) {
            Some(f) => self.application(g, &g[id], f, known, *depth),
            None => match self.operator(g, &g[id], known, fresh) {
                Some(found) => found,
                None => return,
            },
        };
        let outputs = g[id].outputs.clone();
        for (slot, v) in outputs.into_iter().enumerate() {
            let Some(v) = v else { continue };
            if let Some(ty) = types.get(slot).and_then(Option::as_ref) {
                if self.facts && g.is_output(v) {
                    claimed.extend(g[v].ty.take_if(|d| merge::fits(d, ty)).map(|d| (v, d)));
                }
                self.declare(g, id, v, ty, g.is_output(v));
            }
            self.number(&mut g[v]);
            let Some(data) = data.get(slot).cloned().flatten() else { continue };
            let few = data.items.len() <= site::ELEMENTS_MAX.min(self.items_left);
            if few {
                self.items_left -= data.items.len();
                known.insert(v, data.fitting(g[v].dtype()));
            }
        }
    }

    fn operator(
        &mut self,
        g: &Graph,
        node: &Node,
        known: &KnownElements,
        fresh: usize,
    ) -> Option<(Types, Vec<Option<site::Data>>)> {
        let domain = if node.is_standard() { "" } else { node.domain.as_str() };
        let opset = self.opset(domain)?;
        // An operator before its time is the verification's to report.
        let first = || schema::history(domain, &node.op).first();
        let schema = schema::find(domain, &node.op, opset).or_else(first)?;
        let site = InferContext { graph: g, node, schema, known, opset, fresh };
        let key = (domain, node.op.as_str());
        let shapes = match rules().get(&key) {
            Some(rule) => rule(&site).unwrap_or_else(|what| {
                let message = format!("{}: {what}.{}", node.op, inputs_of(&site));
                self.findings.add_at(g, node, message);
                vec![]
            }),
            None => vec![],
        };
        let mut types = type_rules().get(&key).map_or(vec![], |rule| rule(&site));
        for slot in types.len()..node.outputs.len() {
            let shape = shapes.get(slot).cloned().flatten();
            types.push(element::output_type(&site, slot, shape));
        }
        Some((types, data::elements_of(&site)))
    }

    /// Adds what was inferred to what is declared.
    fn declare(&mut self, g: &mut Graph, id: NodeId, v: ValueId, ty: &ValueType, keep: bool) {
        let declared = g[v].ty.as_ref();
        if let Some(merged) = merge::types(declared, ty, keep) {
            g[v].ty = Some(merged);
            return;
        }
        let op = &g[id].op;
        let (name, given) = (shown(&g[v].name), readable(ty));
        let text = declared.map(readable).unwrap_or_default();
        let message = format!("`{name}` is declared as {text}, {op} gives {given}.");
        let only_shape = declared.is_some_and(|d| merge::same_but_for_shapes(d, ty));
        let code = if only_shape { Code::ShapeDeclared } else { Code::OnnxInvalid };
        let finding = Diagnostic::new(code, message).at(source_layer(g, &g[id]));
        self.findings.push(finding);
        if only_shape {
            g[v].ty = Some(ty.clone());
        }
    }
}

/// The type as text for messages.
fn readable(ty: &ValueType) -> String {
    let mut ty = ty.clone();
    merge::restore(&mut ty, None);
    ty.to_string()
}

/// Inputs that messages speak of.
const SHOWN_MAX: usize = 4;

/// What the node reads, for messages.
fn inputs_of(site: &InferContext<'_>) -> String {
    let typed = site.node.inputs.iter().flatten().filter_map(|v| {
        let value = &site.graph[*v];
        Some(format!("`{}` is {}", shown(&value.name), readable(value.ty.as_ref()?)))
    });
    let typed: Vec<String> = typed.take(SHOWN_MAX).collect();
    if typed.is_empty() { String::new() } else { format!(" {}.", typed.join(", ")) }
}

/// An initializer or default tells the type of its value. Some exporters declare the size -1 where
/// they do not know it.
fn prepare(value: &mut Value) {
    if let Some(ValueType::Tensor { shape: Some(shape), .. }) = &mut value.ty {
        let open = |d: &Dim| match d {
            Dim::Known(n) => *n < 0,
            Dim::Symbol(name) => symbolic::is_meaningless(name),
            Dim::Unknown => false,
        };
        shape.iter_mut().filter(|d| open(d)).for_each(|d| *d = Dim::Unknown);
    }
    if value.ty.is_none()
        && matches!(value.origin(), Origin::None | Origin::Input)
        && let Some(data) = value.initializer()
    {
        let dims = data.dims().iter().map(|d| *d as i64);
        value.ty = Some(ValueType::tensor(data.dtype(), dims));
    }
}
