//! Types that inference adds for passes, and takes back after them: a model keeps what it declared.

use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_ir::{Facts, Function, Graph, Model, Origin, Value, ValueType, by_gravity, infer_facts};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A value: the local function that it is in, its name, and whether it stands for one of the enclosing graph, which
/// has the same name.
type ValueKey = (String, String, bool);

fn key(function: &str, value: &Value) -> ValueKey {
    let is_captured = matches!(value.origin(), Origin::Captured(_));
    (function.to_owned(), value.name.clone(), is_captured)
}

/// Functions share no names, with each other or with the graph. The graph itself has the empty name here.
fn name(function: &Function) -> String {
    format!("{}\0{}\0{}", function.domain, function.name, function.overload)
}

/// Calls `f` for every graph, with the function that it is in.
fn for_each_graph(model: &Model, mut f: impl FnMut(&str, &Graph)) {
    let bodies = model.functions.iter().map(|function| (name(function), &function.graph));
    for (function, graph) in std::iter::once((String::new(), &model.graph)).chain(bodies) {
        let mut pending = vec![graph];
        while let Some(graph) = pending.pop() {
            f(&function, graph);
            pending.extend(graph.nodes().flat_map(|(_, node)| node.subgraphs()));
        }
    }
}

/// What inference changed.
#[derive(Default)]
pub(crate) struct Inferred {
    /// As declared, and as inferred.
    types: HashMap<ValueKey, (Option<ValueType>, ValueType)>,
    /// Values of other graphs have these names, too, and were declared otherwise.
    mixed: HashSet<ValueKey>,
    /// What contradicts itself anyway.
    known: HashSet<String>,
}

impl Inferred {
    /// Infers the types of all values. Gives what else is known of them, and what no runtime can run and was not found
    /// before.
    pub(crate) fn infer(&mut self, model: &mut Model) -> (Arc<Facts>, Diagnostics) {
        let mut declared = Vec::new();
        for_each_graph(model, |_, g| declared.extend(g.value_ids().map(|v| g[v].ty.clone())));
        let (facts, findings) = infer_facts(model);
        let (grave, _) = by_gravity(findings);
        let is_first = self.types.is_empty();
        let mut old = declared.iter();
        for_each_graph(model, |function, g| {
            for (v, old) in g.value_ids().zip(&mut old) {
                let value = &g[v];
                if let Some(new) = value.ty.as_ref().filter(|new| old.as_ref() != Some(*new)) {
                    let kept = self.types.entry(key(function, value));
                    kept.or_insert_with(|| (old.clone(), new.clone())).1 = new.clone();
                }
            }
        });
        if is_first {
            let mut old = declared.iter();
            for_each_graph(model, |function, g| {
                for (v, old) in g.value_ids().zip(&mut old) {
                    let key = key(function, &g[v]);
                    if self.types.get(&key).is_some_and(|(kept, _)| kept != old) {
                        self.mixed.insert(key);
                    }
                }
            });
        }
        let is_new = |d: &Diagnostic| self.known.insert(d.message.clone());
        (Arc::new(facts), Diagnostics(grave.0.into_iter().filter(is_new).collect()))
    }

    /// Gives values that still have the inferred type the declared one again.
    pub(crate) fn take_back(self, model: &mut Model) {
        let take_back = |function: &str, g: &mut Graph| {
            for v in g.value_ids() {
                let key = key(function, &g[v]);
                if let Some((declared, inferred)) = self.types.get(&key)
                    && g[v].ty.as_ref() == Some(inferred)
                    && !self.mixed.contains(&key)
                {
                    g[v].ty.clone_from(declared);
                }
            }
        };
        let opset = model.opset();
        model.graph.with_subgraphs_mut(opset, &mut |g, _| take_back("", g));
        for function in &mut model.functions {
            let name = name(function);
            function.graph.with_subgraphs_mut(opset, &mut |g, _| take_back(&name, g));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Fuel, Pass, PassContext, run_passes};
    use onnxd_diagnostics::Diagnostics;
    use onnxd_ir::{Attr, Model, text};

    /// Changes the operator of the first node to one of the same kind.
    struct Swap(&'static str);

    impl Pass for Swap {
        fn name(&self) -> &'static str {
            "swap"
        }

        fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
            let graph = &mut model.graph;
            let a = graph.value_named("a").expect("the first node makes it");
            assert_eq!(graph[a].ty.as_ref().expect("a type").to_string(), "float[2,3]");
            let id = graph.producer(a).expect("a node");
            let node = graph.node_mut(id);
            self.0.clone_into(&mut node.op);
            if self.0 == "Transpose" {
                node.attrs = vec![("perm".into(), Attr::Ints(vec![1, 0]))];
            }
            cx.rewrote();
            Ok(())
        }
    }

    fn run(op: &'static str) -> Result<Model, Diagnostics> {
        let graph = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Add(a, x) }";
        let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
        run_passes(&mut model, &[&Swap(op), &Swap(op)], Fuel::UNLIMITED, &mut |_, _| Ok(()))?;
        Ok(model)
    }

    #[test]
    fn passes_see_inferred_types_and_leave_declared_ones() {
        let model = run("Exp").unwrap();
        let a = model.graph.value_named("a").unwrap();
        assert_eq!(model.graph[a].ty, None);
        assert_eq!(model.graph.node_count(), 2);
    }

    /// Formal inputs have no type in the file.
    #[test]
    fn functions_may_have_the_names_of_the_graph() {
        let model = "<ir_version: 8, opset_import: [\"\" : 17, \"f\" : 1]>
            g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = f.F(x) }
            <domain: \"f\", opset_import: [\"\" : 17]> F (x) => (y) { a = Neg(x) y = Neg(a) }";
        let mut model = text::parse_model(model).unwrap();
        run_passes(&mut model, &[&Swap("Exp")], Fuel::UNLIMITED, &mut |_, _| Ok(())).unwrap();
        let graph = &model.graph;
        for v in graph.inputs().iter().chain(graph.outputs()) {
            assert_eq!(graph[*v].ty.as_ref().expect("a type").to_string(), "float[2,3]");
        }
        assert_eq!(graph[graph.value_named("a").unwrap()].ty, None);
    }

    /// Adds functions, as a pass does that shares a block.
    struct Share;

    impl Pass for Share {
        fn name(&self) -> &'static str {
            "share"
        }

        fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
            let shared = text::parse_model(FUNCTION).expect("a model");
            model.functions = shared.functions;
            model.opsets.insert("f".into(), 1);
            let graph = &mut model.graph;
            let id = graph.producer(graph.value_named("a").expect("a value")).expect("a node");
            let node = graph.node_mut(id);
            "F".clone_into(&mut node.op);
            "f".clone_into(&mut node.domain);
            cx.rewrote();
            Ok(())
        }
    }

    const FUNCTION: &str = "<ir_version: 8, opset_import: [\"\" : 17, \"f\" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = f.F(x) }
        <domain: \"f\", opset_import: [\"\" : 17]> F (x) => (y) { a = Neg(x) y = Neg(a) }";

    #[test]
    fn functions_of_passes_may_have_the_names_of_the_graph() {
        let graph = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Add(a, x) }";
        let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
        run_passes(&mut model, &[&Share], Fuel::UNLIMITED, &mut |_, _| Ok(())).unwrap();
        let graph = &model.graph;
        for v in graph.inputs().iter().chain(graph.outputs()) {
            assert_eq!(graph[*v].ty.as_ref().expect("a type").to_string(), "float[2,3]");
        }
        assert_eq!(graph[graph.value_named("a").unwrap()].ty, None);
    }

    #[test]
    fn a_pass_that_leaves_a_contradiction_is_at_fault() {
        let error = run("Transpose").unwrap_err().0.remove(0);
        assert_eq!(error.code, "N0406", "{error:?}");
        assert!(error.message.starts_with("pass swap: "), "{error:?}");
    }
}
