//! Conversion between versions of the standard's operators, one version at a time.
//!
//! A step from version v to v+1, or back, looks at the nodes whose operator the standard changed in
//! v+1. What the change means is said by a `row::AdapterRow` of the operator's family; without one, only
//! what the operator table tells is done: defaults are written out where they differ, attributes at
//! their defaults are left out, and the node must then be valid in the other version.
//!
//! A node that cannot be converted is reported, and so are all others: the model is then unchanged.

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]

mod carry;
mod context;
mod early;
mod row;
mod step;
mod table;
#[cfg(test)]
mod tests;

mod activation;
mod control;
mod data;
mod index;
mod linear;
mod logic;
mod math;
mod norm;
mod pool;
mod quant;
mod recurrent;
mod reduce;
mod resize;
mod shape;

pub use early::settle_early;

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{Graph, Model, infer, schema, verify};
use std::collections::HashSet;

/// Converts `model`, its sub-graphs and its local functions to version `to` of the standard's
/// operators. Names of values stay, new nodes get the layers of those that they stand in for.
///
/// # Errors
/// N0505 for every node that cannot be said in version `to`; the model is then unchanged.
pub fn convert(model: &mut Model, to: i64) -> Result<(), Diagnostics> {
    if to < 1 || to > schema::max_opset() {
        let newest = schema::max_opset();
        let text = format!("opset {to} is not known; the known ones are 1 to {newest}");
        return Err(Diagnostics(vec![Diagnostic::new(Code::OpsetConversion, text)]));
    }
    let imports = std::iter::once(&model.opsets).chain(model.functions.iter().map(|f| &f.opsets));
    let versions: Vec<i64> = imports.filter_map(step::standard).collect();
    if versions.iter().all(|v| *v == to) {
        return Ok(());
    }
    let typed = typed(model);
    let mut converted = model.clone();
    // Contradictions are the verification's to report.
    let _ = infer::infer(&mut converted);
    let mut found = step::convert(&mut converted, to);
    if found.0.is_empty() {
        let _ = infer::infer(&mut converted);
        found = not_new(verify(&converted, verify::VerifyLevel::Full), model);
    }
    found.or_ok(())?;
    forget_types(&mut converted, &typed);
    *model = converted;
    Ok(())
}

/// Names of values that have a type.
fn typed(model: &Model) -> HashSet<String> {
    let mut names = HashSet::new();
    model.for_each_graph(|g| {
        names.extend(
            g.value_ids().map(|v| &g[v]).filter(|v| v.ty.is_some()).map(|v| v.name.clone()),
        );
    });
    names
}

/// Forgets what was inferred: other readers of the model need not infer the same of dead branches.
fn forget_types(model: &mut Model, typed: &HashSet<String>) {
    forget_in(&mut model.graph, typed);
    for function in &mut model.functions {
        forget_in(&mut function.graph, typed);
    }
}

fn forget_in(graph: &mut Graph, typed: &HashSet<String>) {
    for id in graph.node_ids() {
        if graph[id].subgraphs().next().is_some() {
            graph.edit_subgraphs(id, |inner| forget_in(inner, typed));
        }
    }
    for v in graph.value_ids() {
        if graph[v].initializer().is_none() && !typed.contains(&graph[v].name) {
            graph[v].ty = None;
        }
    }
}

/// Findings about the result that the model did not have, as those of the conversion.
fn not_new(found: Diagnostics, before: &Model) -> Diagnostics {
    if found.0.is_empty() {
        return found;
    }
    let known = verify(before, verify::VerifyLevel::Full);
    let fresh = found.0.into_iter().filter(|d| !known.0.contains(d));
    let fresh = fresh.map(|d| Diagnostic::new(Code::OpsetConversion, &*d.message).at_same(&d));
    Diagnostics(fresh.collect())
}
