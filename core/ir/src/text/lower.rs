//! From syntax tree to graph: resolves names, in sub-graphs also those of the enclosing graphs.

use super::ast::{AttrAst, FunctionAst, GraphAst, Name, NodeAst};
use super::lexer::error_at;
use crate::{Attr, Function, Graph, Node, ValueId};
use onnxd_diagnostics::{Diagnostic, refuse, shown};
use std::collections::HashSet;

/// Builds graphs from the syntax tree of `text`.
pub(super) struct Lowering<'t> {
    text: &'t str,
}

impl<'t> Lowering<'t> {
    pub(super) fn new(text: &'t str) -> Lowering<'t> {
        Lowering { text }
    }

    /// A graph that no other encloses.
    pub(super) fn graph(&self, ast: GraphAst<'_>) -> Result<Graph, Diagnostic> {
        self.nested(ast, &mut Vec::new())
    }

    /// A local function.
    pub(super) fn function(&self, ast: FunctionAst<'_>) -> Result<Function, Diagnostic> {
        let mut defaults = Vec::new();
        for (name, value) in ast.defaults {
            defaults.push((name.text.into_owned(), self.attr(value, &mut Vec::new())?));
        }
        Ok(Function {
            domain: ast.domain,
            name: ast.graph.name.clone().into_owned(),
            overload: ast.overload,
            attributes: ast.attributes,
            defaults,
            opsets: ast.opsets,
            graph: self.graph(ast.graph)?,
            doc: ast.doc,
            metadata: vec![],
        })
    }

    /// A graph inside `scopes`, outermost first.
    fn nested(&self, ast: GraphAst<'_>, scopes: &mut Vec<Graph>) -> Result<Graph, Diagnostic> {
        let mut graph = Graph::new(ast.name);
        for input in ast.inputs {
            let id = self.declare(&mut graph, &input.name)?;
            graph[id].ty = input.ty;
            graph.mark_input(id);
            graph.set_initializer(id, input.data);
        }
        let mut types = Vec::new();
        for info in ast.infos {
            let Some(data) = info.data else {
                types.push((info.name, info.ty));
                continue;
            };
            match graph.value_named(&info.name.text) {
                Some(id) if graph[id].initializer().is_none() => {
                    graph.set_initializer(id, Some(data));
                }
                _ => {
                    self.check_free(&graph, &info.name)?;
                    graph.add_initializer(&info.name.text, data);
                }
            }
        }
        for output in ast.nodes.iter().flat_map(|n| &n.outputs).filter(|o| !o.text.is_empty()) {
            self.declare(&mut graph, output)?;
        }
        scopes.push(graph);
        for node in ast.nodes {
            let node = self.node(node, scopes)?;
            innermost(scopes).add_node(node);
        }
        for output in ast.outputs {
            let id = resolve(scopes, &output.name);
            innermost(scopes).mark_output(id);
            types.push((output.name, output.ty));
        }
        let mut graph = scopes.pop().expect("the graph was pushed above");
        for (name, ty) in types {
            if let Some(id) = graph.value_named(&name.text).filter(|id| graph[*id].ty.is_none()) {
                graph[id].ty = ty;
            }
        }
        Ok(graph)
    }

    fn check_free(&self, graph: &Graph, name: &Name<'_>) -> Result<(), Diagnostic> {
        refuse!(name.text.is_empty() => error_at(self.text, name.at, "a value needs a name"));
        match graph.value_named(&name.text) {
            None => Ok(()),
            Some(_) => {
                let what = format!("`{}` is defined twice", shown(&name.text));
                Err(error_at(self.text, name.at, &what))
            }
        }
    }

    fn declare(&self, graph: &mut Graph, name: &Name<'_>) -> Result<ValueId, Diagnostic> {
        self.check_free(graph, name)?;
        Ok(graph.add_value(&name.text, None))
    }

    fn node(&self, ast: NodeAst<'_>, scopes: &mut Vec<Graph>) -> Result<Node, Diagnostic> {
        let mut node = Node {
            op: ast.op.into_owned(),
            domain: ast.domain,
            overload: ast.overload.into_owned(),
            name: ast.name.into_owned(),
            ..Node::default()
        };
        let mut seen = HashSet::new();
        for (name, value) in ast.attrs {
            let attr = self.attr(value, scopes)?;
            refuse!(!seen.insert(name.text.clone()) =>
                error_at(self.text, name.at, &format!("the attribute `{}` is given twice", shown(&name.text))));
            node.attrs.push((name.text.into_owned(), attr));
        }
        let present = |name: &Name<'_>| !name.text.is_empty();
        let read = |n: &Name<'_>| present(n).then(|| resolve(scopes, n));
        node.inputs = ast.inputs.iter().map(read).collect();
        let graph = innermost(scopes);
        let made = |n: &Name<'_>| graph.value_named(&n.text).filter(|_| present(n));
        node.outputs = ast.outputs.iter().map(made).collect();
        Ok(node)
    }

    fn attr(&self, ast: AttrAst<'_>, scopes: &mut Vec<Graph>) -> Result<Attr, Diagnostic> {
        Ok(match ast {
            AttrAst::Ready(attr) => attr,
            AttrAst::Graph(graph) => Attr::Graph(Box::new(self.nested(*graph, scopes)?)),
            AttrAst::Graphs(graphs) => {
                let graphs = graphs.into_iter().map(|g| self.nested(g, scopes));
                Attr::Graphs(graphs.collect::<Result<_, _>>()?)
            }
        })
    }
}

fn innermost(scopes: &mut [Graph]) -> &mut Graph {
    scopes.last_mut().expect("a node belongs to a graph")
}

/// The value of that name, captured from enclosing graphs if need be. What is undefined becomes a
/// value that nothing produces; `verify` reports it.
fn resolve(scopes: &mut [Graph], name: &Name<'_>) -> ValueId {
    let found = scopes.iter().rposition(|g| g.value_named(&name.text).is_some());
    let Some(home) = found else {
        return innermost(scopes).add_value(&name.text, None);
    };
    let mut id = scopes[home].value_named(&name.text).expect("it was found there");
    for graph in &mut scopes[home + 1..] {
        id = graph.add_capture(id, &name.text);
    }
    id
}
