//! Rows beside front-ends: a pass that lowers operators of a source, whichever front-end read them.

use super::{ArgumentReader, Lower, Lowered, Table, Value, foreign};
use onnxd_build::{GraphBuilder, Var};
use onnxd_diagnostics::{Code, Diagnostics, shown};
use onnxd_ir::{Attr, Function, Graph, Model, Node, NodeId, Opsets, verify};
use onnxd_rewrite::{Pass, PassContext};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::mem::take;

/// The pass of a table whose operators are called `domain::op`; the SDK's `lowering!` writes this.
pub fn pass(name: &'static str, table: Table) -> Box<dyn Pass> {
    Box::new(PassTable { name, table })
}

/// Arguments by position; attributes with higher numbers are names.
const POSITIONS_MAX: usize = 1024;

/// Version of the file format that has local functions.
const FUNCTIONS_SINCE: i64 = 8;

struct PassTable {
    name: &'static str,
    table: Table,
}

impl Pass for PassTable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let mut functions = take(&mut model.functions);
        let before = functions.len();
        let mut found = self.edit(&mut model.graph, &model.opsets, &mut functions, cx);
        // Those that rows make have no operators of rows.
        for i in 0..before {
            let (mut graph, opsets) = (take(&mut functions[i].graph), functions[i].opsets.clone());
            found.0.extend(self.edit(&mut graph, &opsets, &mut functions, cx).0);
            functions[i].graph = graph;
        }
        if functions.len() > before {
            model.ir_version = model.ir_version.max(FUNCTIONS_SINCE);
        }
        model.functions = functions;
        self.settle_domains(model);
        found.or_ok(())
    }
}

impl PassTable {
    /// A model imports the domains of operators that rows added, and not those whose operators are all lowered.
    fn settle_domains(&self, model: &mut Model) {
        let mut used = HashSet::new();
        model.for_each_graph(|graph| used.extend(graph.nodes().map(|(_, n)| n.domain.clone())));
        let rows = self.table.operators();
        let own: HashSet<&str> =
            rows.iter().filter_map(|op| Some(op.split_once("::")?.0)).collect();
        let functions = model.functions.iter_mut().map(|f| &mut f.opsets);
        for opsets in functions.chain([&mut model.opsets]) {
            opsets.retain(|domain, _| used.contains(domain) || !own.contains(domain.as_str()));
            for domain in used.iter().filter(|domain| !matches!(domain.as_str(), "" | "ai.onnx")) {
                opsets.entry(domain.clone()).or_insert(1);
            }
        }
    }

    fn edit(
        &self,
        graph: &mut Graph,
        opsets: &Opsets,
        functions: &mut Vec<Function>,
        cx: &mut PassContext,
    ) -> Diagnostics {
        let builder = GraphBuilder::new(take(graph), opsets.clone()).without_folding();
        let builder = builder.with_functions(take(functions));
        let lower = Lower { builder, source: &(), notes: RefCell::default() };
        let mut walk =
            LoweringWalk { rows: self, lower: &lower, cx, found: Diagnostics::default() };
        walk.graph();
        let found = walk.found;
        cx.report.warnings.extend(lower.notes.into_inner());
        (*graph, *functions) = lower.builder.finish_model();
        found
    }
}

struct LoweringWalk<'w> {
    rows: &'w PassTable,
    lower: &'w Lower<'w>,
    cx: &'w mut PassContext,
    found: Diagnostics,
}

impl LoweringWalk<'_> {
    /// Lowers the nodes of a graph, and those of sub-graphs before the node that has them.
    fn graph(&mut self) {
        let all = self.lower.graph().node_ids();
        let all = self.lower.graph().topological().unwrap_or(all);
        for id in all {
            let (op, has_subgraphs) = {
                let graph = self.lower.graph();
                let Some(node) = graph.node(id) else { continue };
                (format!("{}::{}", node.domain, node.op), node.subgraphs().next().is_some())
            };
            if has_subgraphs {
                self.infer(id);
                self.lower.in_subgraphs(id, |_| self.graph());
            }
            match self.rows.table.find(&op).is_some() {
                true if self.cx.fuel.is_empty() => {}
                true => self.node(id, &op),
                false => self.infer(id),
            }
        }
    }

    /// What a node reads, and what its sub-graphs capture, may have a type by now.
    fn infer(&self, id: NodeId) {
        if self.cx.report.rewrites > 0 {
            self.lower.infer(id);
        }
    }

    fn node(&mut self, id: NodeId, op: &str) {
        let (lower, table) = (self.lower, &self.rows.table);
        let row = table.find(op).expect("the caller found it");
        let lowered = lower.stand_in(id, |b, node| {
            let (positional, named) = arguments(b, node)?;
            let mut reader = ArgumentReader::new(b, positional, named);
            let given = row(lower, &mut reader)?.unwrap_or_default();
            outputs(given, node.outputs.len()).map_err(|why| {
                b.diagnostic(Code::PluginContract, format!("The row of `{op}` gives {why}."))
            })
        });
        match lowered {
            Ok(_) => self.cx.rewrote(),
            Err(mut why) => {
                let graph = lower.graph();
                why.layer.get_or_insert_with(|| verify::source_layer(&graph, &graph[id]));
                self.found.push(why);
            }
        }
    }
}

/// What a row gives, as the outputs of a node.
fn outputs(given: Vec<Value>, count: usize) -> Result<Vec<Option<Var>>, String> {
    if given.len() < count {
        return Err(format!("{} of {count} results", given.len()));
    }
    let output = |value: Value| match value {
        Value::Var(v) => Ok(Some(v)),
        Value::None => Ok(None),
        other => Err(format!("{}, not a tensor", other.kind())),
    };
    given.into_iter().map(output).collect()
}

/// The arguments of a node that a front-end added in this way, or that has this operator in an ONNX model.
///
/// # Errors
/// Attributes that are no arguments: graphs, types.
pub(super) fn arguments(b: &GraphBuilder, node: &Node) -> Lowered<foreign::ForeignArguments> {
    let owners = match node.attr(foreign::INPUTS) {
        Some(Attr::Strs(texts)) => texts.as_slice(),
        _ => &[],
    };
    let (mut positional, mut named) = (BTreeMap::new(), Vec::new());
    let mut put = |owner: &str, value| match owner.parse::<usize>() {
        Ok(n) if (1..=POSITIONS_MAX).contains(&n) => drop(positional.insert(n - 1, value)),
        _ => named.push((owner.to_owned(), value)),
    };
    let mut lists: Vec<(String, Vec<Value>)> = Vec::new();
    for i in 0..node.inputs.len().max(owners.len()) {
        let value = node.input(i).map_or(Value::None, |v| Value::Var(b.var(v)));
        let owner = owners.get(i).map(|text| String::from_utf8_lossy(text).into_owned());
        let owner = owner.unwrap_or_else(|| (i + 1).to_string());
        match owner.strip_suffix("[]") {
            None => put(&owner, value),
            Some(owner) => match lists.last_mut().filter(|(last, _)| last == owner) {
                Some((_, items)) => items.push(value),
                None => lists.push((owner.to_owned(), vec![value])),
            },
        }
    }
    lists.into_iter().for_each(|(owner, items)| put(&owner, Value::List(items)));
    for (name, attr) in node.attrs.iter().filter(|(name, _)| name != foreign::INPUTS) {
        let value = argument(b, attr).ok_or_else(|| {
            let text = format!("The attribute `{}` cannot be an argument.", shown(name));
            b.diagnostic(Code::LayerParameter, text)
        })?;
        put(name.strip_prefix(foreign::POSITIONAL).unwrap_or(name), value);
    }
    let count = positional.last_key_value().map_or(0, |(last, _)| last + 1);
    let positional = (0..count).map(|i| positional.remove(&i).unwrap_or(Value::None)).collect();
    Ok((positional, named))
}

fn argument(b: &GraphBuilder, attr: &Attr) -> Option<Value> {
    let text = |bytes: &[u8]| Value::Text(String::from_utf8_lossy(bytes).into_owned());
    Some(match attr {
        Attr::Int(x) => Value::Int(*x),
        Attr::Float(x) => Value::Float(real(*x)),
        Attr::Str(x) => text(x),
        Attr::Ints(x) => x.clone().into(),
        Attr::Floats(x) => x.iter().map(|x| real(*x)).collect::<Vec<f64>>().into(),
        Attr::Strs(x) => Value::List(x.iter().map(|x| text(x)).collect()),
        Attr::Tensor(x) => Value::Var(b.constant(x.clone())),
        _ => return None,
    })
}

/// The number that was meant: 0.1 and not 0.10000000149, if the source wrote 0.1.
fn real(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}
