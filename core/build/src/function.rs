//! Local functions: what a graph computes in several places is there once, under a name.

use crate::{GraphBuilder, Result, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::{Function, Graph, Origin, ValueType, same_graph};

impl GraphBuilder {
    /// A builder that knows local functions from the start.
    #[must_use]
    pub fn with_functions(self, functions: Vec<Function>) -> GraphBuilder {
        self.state.borrow_mut().functions = functions;
        self
    }

    /// As [`GraphBuilder::finish`], with the local functions of the model.
    pub fn finish_model(self) -> (Graph, Vec<Function>) {
        let functions = std::mem::take(&mut self.state.borrow_mut().functions);
        (self.finish(), functions)
    }

    /// Applies the local function `name` of `domain` to `inputs`: `body` gets values of their types, and gives the
    /// results. A body like one before is held once. Another body of the same name becomes `name_2`.
    ///
    /// # Errors
    /// Those of the closure; `N0406` if it reads values beside its inputs, or if the domain is the standard's.
    pub fn function(
        &self,
        domain: &str,
        name: &str,
        inputs: &[Var],
        body: impl FnOnce(&GraphBuilder, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        let wrong = |what: &str| {
            let message = format!("The function `{}` {what}.", shown(name));
            self.diagnostic(Code::PluginContract, message)
        };
        if matches!(domain, "" | "ai.onnx") {
            return Err(wrong("needs a domain of its own"));
        }
        let graph = self.function_body(name, inputs, body)?;
        if graph.value_ids().any(|v| matches!(graph[v].origin(), Origin::Captured(_))) {
            return Err(wrong("reads a value that is no input of it"));
        }
        let types: Vec<_> = graph.outputs().iter().map(|v| graph[*v].ty.clone()).collect();
        let name = self.hold(domain, name, graph);
        self.import_domain(domain);
        let results = self.op(domain, &name, inputs.iter().copied()).list(types.len())?;
        for (result, ty) in results.iter().zip(types) {
            ty.into_iter().for_each(|ty| self.declare(*result, ty));
        }
        Ok(results)
    }

    /// A body whose names do not depend on where it is applied.
    fn function_body(
        &self,
        name: &str,
        inputs: &[Var],
        body: impl FnOnce(&GraphBuilder, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Graph> {
        let unknown = ValueType::Tensor { dtype: None, shape: None };
        let ty = |v: &Var| self.type_of(*v).unwrap_or_else(|| unknown.clone());
        let types: Vec<ValueType> = inputs.iter().map(ty).collect();
        self.push(Graph::new(name));
        let built = self.under("", |b| {
            let inner: Vec<Var> = types.into_iter().map(|ty| b.input("input", ty)).collect();
            body(b, &inner)
        });
        match built {
            Ok(outputs) => self.close(&outputs),
            Err(why) => {
                self.discard();
                Err(why)
            }
        }
    }

    /// The name under which a function with this body is held.
    fn hold(&self, domain: &str, name: &str, mut graph: Graph) -> String {
        // Other places apply it to values of other types.
        forget_types(&mut graph);
        let mut state = self.state.borrow_mut();
        let mut free = name.to_owned();
        for n in 2.. {
            let found = state.functions.iter().find(|f| f.domain == domain && f.name == free);
            match found {
                None => break,
                Some(found) if same_graph(&found.graph, &graph) => return free,
                Some(_) => free = format!("{name}_{n}"),
            }
        }
        let opsets = state.opsets.clone();
        let (domain, name) = (domain.to_owned(), free.clone());
        state.functions.push(Function { domain, name, opsets, graph, ..Function::default() });
        free
    }
}

fn forget_types(graph: &mut Graph) {
    for v in graph.value_ids() {
        if graph[v].initializer().is_none() {
            graph[v].ty = None;
        }
    }
    for id in graph.node_ids() {
        graph.edit_subgraphs(id, forget_types);
    }
}
