//! The printer: equal graphs give equal text.

use super::names::{Id, Quoted, Word, subgraph_name};
use super::print_literal::{write_float, write_tensor};
use super::{KINDS, NESTING_MAX};
use crate::{Attr, Function, Graph, Model, Node, Opsets, Origin, Tensor, ValueId, ValueType};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{self, Write};

/// What is printed.
#[derive(Clone, Debug, Default)]
pub struct PrintOptions {
    /// Constants with more elements show the first few and `...`; such text cannot be parsed.
    pub elements_max: Option<usize>,
    /// What stands after the `...` of such a constant, for example a digest.
    pub digest: Option<fn(&Tensor) -> String>,
}

/// The model as text that [`super::parse_model`] reads.
pub fn print_model(model: &Model) -> String {
    print_model_with(model, &PrintOptions::default())
}

/// The graph as text that [`super::parse_graph`] reads.
pub fn print_graph(graph: &Graph) -> String {
    print_graph_with(graph, &PrintOptions::default())
}

/// As [`print_model`], with options.
pub fn print_model_with(model: &Model, options: &PrintOptions) -> String {
    to_string(options, |p| p.model(model))
}

/// As [`print_graph`], with options.
pub fn print_graph_with(graph: &Graph, options: &PrintOptions) -> String {
    to_string(options, |p| p.graph(&graph.name, graph, &ValueNames::outermost(graph), 0))
}

fn to_string(options: &PrintOptions, f: impl FnOnce(&mut Printer<'_>) -> fmt::Result) -> String {
    let mut out = String::new();
    f(&mut Printer { out: &mut out, options }).expect("writing to a string cannot fail");
    out
}

/// The names that the values of one graph have in the text.
struct ValueNames<'g>(Vec<Cow<'g, str>>);

impl<'g> ValueNames<'g> {
    fn outermost(graph: &'g Graph) -> ValueNames<'g> {
        ValueNames(graph.value_ids().map(|v| Cow::Borrowed(graph[v].name.as_str())).collect())
    }

    /// In a sub-graph captured values have their outer name; a value of its own that has the same
    /// name gets another.
    fn nested(graph: &'g Graph, outer: &ValueNames<'g>) -> ValueNames<'g> {
        let mut names = ValueNames::outermost(graph);
        let mut taken = HashSet::new();
        for (inner, captured) in graph.captures() {
            names.0[inner.index()] = outer.0[captured.index()].clone();
            taken.insert(outer.0[captured.index()].clone());
        }
        for v in graph.value_ids() {
            let own = !matches!(graph[v].origin(), Origin::Captured(_));
            if own && taken.contains(&names.0[v.index()]) {
                let free = |n: &usize| format!("{}_{n}", graph[v].name);
                let unused =
                    |s: &String| graph.value_named(s).is_none() && !taken.contains(s.as_str());
                let fresh = (1usize..).map(|n| free(&n)).find(unused).expect("names are endless");
                taken.insert(Cow::Owned(fresh.clone()));
                names.0[v.index()] = Cow::Owned(fresh);
            }
        }
        names
    }

    fn name_of(&self, id: ValueId) -> Id<'_> {
        Id(&self.0[id.index()])
    }
}

struct Printer<'o> {
    out: &'o mut String,
    options: &'o PrintOptions,
}

impl Printer<'_> {
    fn model(&mut self, model: &Model) -> fmt::Result {
        write!(self.out, "<\n  ir_version: {},\n  opset_import: ", model.ir_version)?;
        self.opsets(&model.opsets)?;
        let strings = [
            ("producer_name", &model.producer_name),
            ("producer_version", &model.producer_version),
            ("domain", &model.domain),
        ];
        for (key, value) in strings.into_iter().filter(|(_, v)| !v.is_empty()) {
            write!(self.out, ",\n  {key}: {}", Quoted(value))?;
        }
        if model.model_version != 0 {
            write!(self.out, ",\n  model_version: {}", model.model_version)?;
        }
        if !model.doc.is_empty() {
            write!(self.out, ",\n  doc_string: {}", Quoted(&model.doc))?;
        }
        if !model.metadata.is_empty() {
            self.out.write_str(",\n  metadata_props: [")?;
            self.list(&model.metadata, |p, (key, value)| {
                write!(p.out, "{}: {}", Quoted(key), Quoted(value))
            })?;
            self.out.write_str("]")?;
        }
        self.out.write_str("\n>\n")?;
        self.graph(&model.graph.name, &model.graph, &ValueNames::outermost(&model.graph), 0)?;
        for function in &model.functions {
            self.function(function)?;
        }
        Ok(())
    }

    fn opsets(&mut self, opsets: &Opsets) -> fmt::Result {
        self.out.write_str("[")?;
        self.list(opsets, |p, (domain, version)| write!(p.out, "{} : {version}", Quoted(domain)))?;
        self.out.write_str("]")
    }

    fn function(&mut self, function: &Function) -> fmt::Result {
        write!(self.out, "<\n  domain: {},\n", Quoted(&function.domain))?;
        if !function.overload.is_empty() {
            writeln!(self.out, "  overload: {},", Quoted(&function.overload))?;
        }
        if !function.doc.is_empty() {
            writeln!(self.out, "  doc_string: {},", Quoted(&function.doc))?;
        }
        self.out.write_str("  opset_import: ")?;
        self.opsets(&function.opsets)?;
        write!(self.out, "\n>\n{}", Id(&function.name))?;
        let names = ValueNames::outermost(&function.graph);
        if !function.attributes.is_empty() || !function.defaults.is_empty() {
            self.out.write_str(" <")?;
            self.list(&function.attributes, |p, name| write!(p.out, "{}", Word(name)))?;
            if !function.attributes.is_empty() && !function.defaults.is_empty() {
                self.out.write_str(", ")?;
            }
            self.list(&function.defaults, |p, attr| p.attr(attr, &names, 0))?;
            self.out.write_str(">")?;
        }
        self.out.write_str(" ")?;
        self.signature_and_body(&function.graph, &names, 0)
    }

    fn graph(
        &mut self,
        name: &str,
        graph: &Graph,
        names: &ValueNames<'_>,
        depth: usize,
    ) -> fmt::Result {
        write!(self.out, "{} ", Id(name))?;
        self.signature_and_body(graph, names, depth)
    }

    fn signature_and_body(
        &mut self,
        graph: &Graph,
        names: &ValueNames<'_>,
        depth: usize,
    ) -> fmt::Result {
        self.out.write_str("(")?;
        self.list(graph.inputs(), |p, v| p.value(graph, names, *v))?;
        self.out.write_str(") => (")?;
        self.list(graph.outputs(), |p, v| p.value(graph, names, *v))?;
        self.out.write_str(")")?;
        self.infos(graph, names, depth)?;
        self.out.write_str("{\n")?;
        let order = graph.topological().unwrap_or_else(|_| graph.node_ids());
        for id in order {
            self.indent(depth + 1)?;
            self.node(&graph[id], names, depth)?;
            self.out.write_str("\n")?;
        }
        self.indent(depth)?;
        self.out.write_str(if depth == 0 { "}\n" } else { "}" })
    }

    /// Initializers, then types of values that are neither input nor output.
    fn infos(&mut self, graph: &Graph, names: &ValueNames<'_>, depth: usize) -> fmt::Result {
        let outputs: HashSet<ValueId> = graph.outputs().iter().copied().collect();
        let mut open = false;
        let mut lead = |p: &mut Self| {
            p.out.write_str(if open { ",\n" } else { "\n" })?;
            if !std::mem::replace(&mut open, true) {
                p.indent(depth)?;
                p.out.write_str("<\n")?;
            }
            p.indent(depth + 1)
        };
        for v in graph.value_ids() {
            if let Some(tensor) = graph[v].initializer() {
                lead(self)?;
                write_tensor(self.out, tensor, Some(names.name_of(v)), self.options)?;
            }
        }
        for v in graph.value_ids().filter(|v| !outputs.contains(v)) {
            let value = &graph[v];
            let computed = matches!(value.origin(), Origin::Node(..));
            let dangling = value.origin() == Origin::None && value.initializer().is_none();
            if !(computed || dangling && graph.uses(v) > 0) {
                continue;
            }
            if let Some(ty) = value.ty.as_ref().filter(|ty| is_said(ty)) {
                lead(self)?;
                write!(self.out, "{ty} {}", names.name_of(v))?;
            }
        }
        for v in graph.sparse.keys() {
            lead(self)?;
            write!(self.out, "{} = ...", names.name_of(*v))?;
        }
        if !open {
            return self.out.write_str(" ");
        }
        self.out.write_str("\n")?;
        self.indent(depth)?;
        self.out.write_str(">\n")?;
        self.indent(depth)
    }

    fn value(&mut self, graph: &Graph, names: &ValueNames<'_>, v: ValueId) -> fmt::Result {
        match graph[v].ty.as_ref().filter(|ty| is_said(ty)) {
            Some(ty) => write!(self.out, "{ty} {}", names.name_of(v)),
            None => write!(self.out, "{}", names.name_of(v)),
        }
    }

    fn node(&mut self, node: &Node, names: &ValueNames<'_>, depth: usize) -> fmt::Result {
        if !node.name.is_empty() {
            write!(self.out, "[{}] ", Id(&node.name))?;
        }
        self.optional_names(&node.outputs, names)?;
        self.out.write_str(if node.outputs.is_empty() { "= " } else { " = " })?;
        if node.domain.split('.').all(super::is_plain_identifier) {
            write!(self.out, "{}.", node.domain)?;
        } else if !node.domain.is_empty() {
            write!(self.out, "{}.", Quoted(&node.domain))?;
        }
        write!(self.out, "{}", Word(&node.op))?;
        if !node.overload.is_empty() {
            write!(self.out, ":{}", Word(&node.overload))?;
        }
        if !node.attrs.is_empty() {
            self.out.write_str("<")?;
            self.list(&node.attrs, |p, attr| p.attr(attr, names, depth))?;
            self.out.write_str(">")?;
        }
        self.out.write_str("(")?;
        self.optional_names(&node.inputs, names)?;
        self.out.write_str(")")
    }

    fn optional_names(&mut self, ids: &[Option<ValueId>], names: &ValueNames<'_>) -> fmt::Result {
        self.list(ids, |p, id| match id {
            Some(id) => write!(p.out, "{}", names.name_of(*id)),
            None => p.out.write_str("\"\""),
        })
    }

    fn attr(
        &mut self,
        (name, attr): &(String, Attr),
        names: &ValueNames<'_>,
        depth: usize,
    ) -> fmt::Result {
        write!(self.out, "{}", Word(name))?;
        let kind = KINDS.get(attr.kind() as usize).copied().unwrap_or(KINDS[0]);
        let references = matches!(attr, Attr::Ref { kind: 1.., .. });
        if references || is_empty_list(attr) || matches!(attr, Attr::Sparse(_) | Attr::Sparses(_)) {
            write!(self.out, ": {kind}")?;
        }
        self.out.write_str(" = ")?;
        let options = self.options;
        match attr {
            Attr::Ref { name, .. } => write!(self.out, "@{}", Word(name)),
            Attr::Int(x) => write!(self.out, "{x}"),
            Attr::Float(x) => write_float(self.out, f64::from(*x), format_args!("{x:?}")),
            Attr::Str(text) => write!(self.out, "{}", Quoted(&String::from_utf8_lossy(text))),
            Attr::Tensor(tensor) => write_tensor(self.out, tensor, None, options),
            Attr::Type(ty) => write!(self.out, "{ty}"),
            Attr::Graph(graph) => self.subgraph(graph, names, depth),
            Attr::Ints(xs) => self.bracketed(xs, |p, x| write!(p.out, "{x}")),
            Attr::Floats(xs) => {
                self.bracketed(xs, |p, x| write_float(p.out, f64::from(*x), format_args!("{x:?}")))
            }
            Attr::Strs(xs) => {
                self.bracketed(xs, |p, x| write!(p.out, "{}", Quoted(&String::from_utf8_lossy(x))))
            }
            Attr::Tensors(xs) => self.bracketed(xs, |p, x| write_tensor(p.out, x, None, options)),
            Attr::Types(xs) => self.bracketed(xs, |p, x| write!(p.out, "{x}")),
            Attr::Graphs(xs) => self.bracketed(xs, |p, x| p.subgraph(x, names, depth)),
            Attr::Sparses(xs) if xs.is_empty() => self.out.write_str("[]"),
            Attr::Sparse(_) | Attr::Sparses(_) => self.out.write_str("..."),
        }
    }

    fn subgraph(&mut self, graph: &Graph, outer: &ValueNames<'_>, depth: usize) -> fmt::Result {
        // The printer must not run out of stack on a graph that only code can build.
        if depth >= NESTING_MAX {
            return self.out.write_str("...");
        }
        let names = ValueNames::nested(graph, outer);
        self.graph(&subgraph_name(&graph.name), graph, &names, depth + 1)
    }

    fn indent(&mut self, depth: usize) -> fmt::Result {
        (0..depth).try_for_each(|_| self.out.write_str("  "))
    }

    fn bracketed<T>(
        &mut self,
        items: &[T],
        item: impl FnMut(&mut Self, &T) -> fmt::Result,
    ) -> fmt::Result {
        self.out.write_str("[")?;
        self.list(items, item)?;
        self.out.write_str("]")
    }

    /// Items separated by commas.
    fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T) -> fmt::Result,
    ) -> fmt::Result {
        for (i, x) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.write_str(", ")?;
            }
            item(self, x)?;
        }
        Ok(())
    }
}

fn is_empty_list(attr: &Attr) -> bool {
    match attr {
        Attr::Ints(xs) => xs.is_empty(),
        Attr::Floats(xs) => xs.is_empty(),
        Attr::Strs(xs) => xs.is_empty(),
        Attr::Tensors(xs) => xs.is_empty(),
        Attr::Types(xs) => xs.is_empty(),
        Attr::Graphs(xs) => xs.is_empty(),
        _ => false,
    }
}

/// Whether the grammar can say the type: a tensor needs an element type.
fn is_said(ty: &ValueType) -> bool {
    match ty {
        ValueType::Tensor { dtype, .. } | ValueType::Sparse { dtype, .. } => dtype.is_some(),
        ValueType::Sequence(of) | ValueType::Optional(of) | ValueType::Map(_, of) => is_said(of),
        ValueType::Opaque { .. } => true,
    }
}
