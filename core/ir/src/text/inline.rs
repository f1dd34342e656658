//! Expands a graph written as text into another graph: recipes of quantizers, compound lowerings.

use super::{parse_graph, plain_identifier};
use crate::{Attr, Graph, Node, Origin, ValueId};
use onnxd_diagnostics::{Code, Diagnostic, nearest, refuse};

/// As [`inline`], for a body in ONNX text.
///
/// # Errors
/// `N0201` if the text is wrong; otherwise those of [`inline`].
pub fn inline_text(
    graph: &mut Graph,
    prefix: &str,
    body: &str,
    bindings: &[(&str, ValueId)],
) -> Result<Vec<ValueId>, Diagnostic> {
    inline(graph, prefix, &parse_graph(body)?, bindings)
}

/// Adds the nodes and initializers of `body` to `graph`, its inputs being the values that
/// `bindings` name; returns what its outputs are in `graph`.
///
/// New values are called `prefix_name` (made plain and unique). The types that the body declares
/// describe its notation, not this place, so new values have none until the next inference.
///
/// # Errors
/// `N0902` if an input is not bound, a binding names no input, or the body is not closed. `graph`
/// is then unchanged.
pub fn inline(
    graph: &mut Graph,
    prefix: &str,
    body: &Graph,
    bindings: &[(&str, ValueId)],
) -> Result<Vec<ValueId>, Diagnostic> {
    check_bindings(body, bindings)?;
    let order = body.topological();
    let order = order.map_err(|_| defect(body, "its nodes depend on each other in a cycle"))?;

    let mut map: Vec<Option<ValueId>> = vec![None; body.value_ids().count()];
    for (name, id) in bindings {
        map[body.value_named(name).expect("bindings were checked").index()] = Some(*id);
    }
    for v in body.value_ids().filter(|v| body.uses(*v) > 0) {
        if map[v.index()].is_none() {
            let name = new_name(graph, prefix, &body[v].name);
            map[v.index()] = Some(match body[v].initializer() {
                Some(data) => graph.add_initializer(&name, data.clone()),
                None => graph.add_value(&name, None),
            });
        }
    }
    for id in order {
        let node = moved(graph, prefix, &body[id], &mut map, body);
        graph.add_node(node);
    }
    Ok(body.outputs().iter().map(|v| map[v.index()].expect("outputs are used")).collect())
}

fn check_bindings(body: &Graph, bindings: &[(&str, ValueId)]) -> Result<(), Diagnostic> {
    let names = || body.inputs().iter().map(|v| body[*v].name.as_str());
    for (name, _) in bindings {
        if !names().any(|n| n == *name) {
            let hint = nearest(name, names()).map(|n| format!(" (`{n}`?)")).unwrap_or_default();
            return Err(defect(body, &format!("it has no input `{name}`{hint}")));
        }
    }
    for v in body.value_ids() {
        let value = &body[v];
        let bound = bindings.iter().any(|(n, _)| *n == value.name);
        let closed = match value.origin() {
            Origin::Node(..) => true,
            Origin::Captured(_) => false,
            Origin::Input => bound || value.initializer().is_some(),
            Origin::None => value.initializer().is_some() || body.uses(v) == 0,
        };
        refuse!(!closed => defect(body, &format!("nothing defines `{}`", value.name)));
    }
    Ok(())
}

fn defect(body: &Graph, what: &str) -> Diagnostic {
    let message = format!("The graph `{}` cannot be expanded: {what}.", body.name);
    Diagnostic::new(Code::Internal, message)
}

fn new_name(graph: &Graph, prefix: &str, name: &str) -> String {
    let base = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}_{name}") };
    graph.fresh_name(&plain_identifier(&base))
}

/// The node with all values replaced by those of `graph`.
fn moved(
    graph: &mut Graph,
    prefix: &str,
    node: &Node,
    map: &mut [Option<ValueId>],
    body: &Graph,
) -> Node {
    let mut node = node.clone();
    if !node.name.is_empty() && !prefix.is_empty() {
        node.name = format!("{prefix}_{}", node.name);
    }
    for output in node.outputs.iter().flatten() {
        if map[output.index()].is_none() {
            // Nothing in the body reads it, but the node makes it.
            let name = new_name(graph, prefix, &body[*output].name);
            map[output.index()] = Some(graph.add_value(&name, None));
        }
    }
    for v in node.inputs.iter_mut().chain(&mut node.outputs) {
        *v = v.and_then(|v| map[v.index()]);
    }
    for inner in node.attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut()) {
        inner.recapture(|outer| map[outer.index()].expect("captured values are used"));
        rename_locals(graph, prefix, inner, 0);
    }
    node
}

/// Gives the values of a sub-graph names that no value of `graph` has: names are unique across
/// enclosing graphs.
fn rename_locals(graph: &Graph, prefix: &str, inner: &mut Graph, depth: usize) {
    for v in inner.value_ids() {
        let name = inner[v].name.clone();
        let name = match inner[v].origin() {
            // A stand-in; it is written under its outer name.
            Origin::Captured(_) => name,
            _ => new_name(graph, prefix, &name),
        };
        if inner[v].name != name {
            let free = inner.fresh_name(&name);
            inner.rename(v, &free);
        }
        inner[v].ty = inner[v].ty.take().filter(|_| inner[v].initializer().is_some());
    }
    if depth >= super::NESTING_MAX {
        return;
    }
    for id in inner.node_ids() {
        let attrs = &mut inner.node_mut(id).attrs;
        let nested: Vec<&mut Graph> = attrs.iter_mut().flat_map(|(_, a)| graphs(a)).collect();
        for nested in nested {
            rename_locals(graph, prefix, nested, depth + 1);
        }
    }
}

fn graphs(attr: &mut Attr) -> &mut [Graph] {
    attr.graphs_mut()
}
