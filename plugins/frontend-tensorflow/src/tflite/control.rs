//! Operators that run other graphs: conditions, loops and calls.

use super::item::Item;
use super::model::{Operator, SubGraph};
use super::scope::{Runner, Scope};
use super::types::dim;
use super::variables::BRANCHES;
use onnxd_plugin_sdk::build::{Operand, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, ValueType};
use onnxd_plugin_sdk::lower::Value;

/// Graphs that an operator chooses between.
const CHOICES_MAX: usize = 32;

/// Runs an operator of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the model unusable. What merely cannot be converted is reported, and holes stand for it.
pub(super) fn run<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a Operator,
    inputs: &[Option<Item>],
) -> Result<Option<Vec<Item>>> {
    let at = Place { runner, scope, called };
    let (choices, loops) = (runner.choices.get(), runner.loops.get());
    let is_loop = matches!(called.name(), "WHILE" | "STABLEHLO_WHILE");
    let is_choice = is_loop || matches!(called.name(), "IF" | "STABLEHLO_CASE");
    runner.choices.set(choices + usize::from(is_choice));
    runner.loops.set(loops + usize::from(is_loop));
    let found = at.run(inputs);
    runner.choices.set(choices);
    runner.loops.set(loops);
    found
}

/// An operator in its graph.
struct Place<'r, 'a, 's> {
    runner: &'r Runner<'a, 's>,
    scope: &'r Scope<'a>,
    called: &'a Operator,
}

impl<'a> Place<'_, 'a, '_> {
    fn run(&self, inputs: &[Option<Item>]) -> Result<Option<Vec<Item>>> {
        let found = match self.called.name() {
            "CALL" => self.call(self.graph("subgraph")?, &self.all(inputs)?)?,
            "STABLEHLO_COMPOSITE" => {
                self.call(self.graph("decomposition_subgraph_index")?, &self.all(inputs)?)?
            }
            "IF" => {
                let branches =
                    [self.graph("then_subgraph_index")?, self.graph("else_subgraph_index")?];
                self.condition(branches, inputs)?
            }
            "WHILE" | "STABLEHLO_WHILE" => self.repetition(&self.all(inputs)?)?,
            "STABLEHLO_CASE" => self.choice(inputs)?,
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    fn problem(&self, code: Code, what: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, what).at(self.scope.layer(self.called))
    }

    fn holes(&self) -> Vec<Item> {
        vec![Item::Hole; self.called.outputs.len()]
    }

    /// Inputs, none of which may be left out.
    fn all(&self, inputs: &[Option<Item>]) -> Result<Vec<Item>> {
        let given = inputs.iter().cloned().collect::<Option<Vec<Item>>>();
        given.ok_or_else(|| self.problem(Code::SourceSyntax, "An input is left out."))
    }

    /// What the operator chooses by, and its other inputs; `None` if it could not be converted.
    fn chooser(&self, inputs: &[Option<Item>]) -> Result<Option<(Var, Vec<Item>)>> {
        let all = self.all(inputs)?;
        let Some((first, rest)) = all.split_first() else {
            return Err(self.problem(Code::SourceSyntax, "The operator has no inputs."));
        };
        Ok(self.tensors(std::slice::from_ref(first)).map(|vars| (vars[0], rest.to_vec())))
    }

    /// Tensors as values of the graph. Holes were reported; a variable or table in their place is.
    fn tensors(&self, items: &[Item]) -> Option<Vec<Var>> {
        if items.iter().any(|item| matches!(item, Item::Handle(_))) {
            let message = "A variable or table takes part in a condition or loop as a value.";
            self.runner.driver.report(self.problem(Code::LayerUnsupported, message));
        }
        items.iter().map(tensor).collect()
    }

    fn option(&self, name: &str) -> Option<&Value> {
        self.called.options.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The graph that an option names.
    fn graph(&self, option: &str) -> Result<&'a SubGraph> {
        match self.option(option) {
            Some(Value::Int(index)) => self.numbered(*index),
            _ => Err(self.problem(Code::SourceSyntax, "The operator does not name a graph.")),
        }
    }

    fn numbered(&self, index: i64) -> Result<&'a SubGraph> {
        let found = usize::try_from(index).ok().and_then(|at| self.runner.model.graphs.get(at));
        found.ok_or_else(|| {
            self.problem(Code::SourceSyntax, format!("The file has no graph number {index}."))
        })
    }

    /// Runs a graph on the values of this one; gives its outputs.
    fn call(&self, graph: &'a SubGraph, inputs: &[Item]) -> Result<Vec<Item>> {
        if graph.inputs.len() != inputs.len() {
            let (n, m) = (inputs.len(), graph.inputs.len());
            let message = format!("The operator gives {n} values to a graph that reads {m}.");
            return Err(self.problem(Code::SourceSyntax, message));
        }
        let inner = self.scope.inside(graph, self.called)?;
        for (index, item) in graph.inputs.iter().zip(inputs) {
            inner.set(*index, item.clone());
        }
        self.runner.run(&inner, &graph.outputs)?;
        graph.outputs.iter().map(|index| self.runner.item(&inner, *index)).collect()
    }

    /// Runs a graph in a sub-graph of ONNX; `None` if something of it could not be converted.
    fn branch(&self, graph: &'a SubGraph, inputs: &[Item]) -> Result<Option<Graph>> {
        let b = self.runner.builder();
        let name = if graph.name.is_empty() { "branch" } else { &graph.name };
        b.sub_graph(name, || self.typed(self.tensors(&self.call(graph, inputs)?)))
    }

    /// Values with the element types that the file declares for the results of the operator.
    fn typed(&self, vars: Option<Vec<Var>>) -> Result<Option<Vec<Var>>> {
        let b = self.runner.builder();
        let Some(vars) = vars else { return Ok(None) };
        let cast = |(var, index): (Var, &usize)| match self.scope.graph.tensors[*index].dtype() {
            Some(dtype) if b.dtype_of(var).is_some_and(|found| found != dtype) => {
                b.cast(var, dtype)
            }
            _ => Ok(var),
        };
        vars.into_iter().zip(&self.called.outputs).map(cast).collect::<Result<_>>().map(Some)
    }

    /// The results as values of the graph, under the names of their tensors.
    fn named(&self, vars: Vec<Var>) -> Vec<Item> {
        for (var, index) in vars.iter().zip(&self.called.outputs) {
            self.runner.builder().rename(*var, &self.scope.name(*index));
        }
        vars.into_iter().map(Item::Tensor).collect()
    }

    /// One of two graphs.
    fn condition(
        &self,
        [then, otherwise]: [&'a SubGraph; 2],
        inputs: &[Option<Item>],
    ) -> Result<Vec<Item>> {
        let b = self.runner.builder();
        let Some((condition, rest)) = self.chooser(inputs)? else { return Ok(self.holes()) };
        self.counted(then.outputs.len())?;
        self.counted(otherwise.outputs.len())?;
        if let Some(known) = b.ints_of(condition).as_deref().and_then(<[i64]>::first) {
            return self.call(if *known != 0 { then } else { otherwise }, &rest);
        }
        let (then, otherwise) = (self.branch(then, &rest)?, self.branch(otherwise, &rest)?);
        let (Some(then), Some(otherwise)) = (then, otherwise) else { return Ok(self.holes()) };
        let condition = self.scalar(condition)?;
        b.in_layer(self.scope.layer(self.called), |b| b.if_graphs(condition, then, otherwise))
            .map(|vars| self.named(vars))
    }

    /// A condition without axes, as ONNX wants it.
    fn scalar(&self, condition: Var) -> Result<Var> {
        let b = self.runner.builder();
        match b.rank_of(condition) {
            Some(0) => Ok(condition),
            _ => b.reshape(condition, Vec::<i64>::new()).one(),
        }
    }

    fn counted(&self, outputs: usize) -> Result<()> {
        if outputs == self.called.outputs.len() {
            return Ok(());
        }
        let (n, m) = (outputs, self.called.outputs.len());
        let message = format!("The graph gives {n} values to an operator with {m} results.");
        Err(self.problem(Code::SourceSyntax, message))
    }

    /// The graph with a number, the last one for numbers that are out of range.
    fn choice(&self, inputs: &[Option<Item>]) -> Result<Vec<Item>> {
        let indices = match self.option(BRANCHES) {
            Some(Value::List(indices)) if !indices.is_empty() => indices,
            _ => return Err(self.problem(Code::SourceSyntax, "The operator names no graphs.")),
        };
        let graph = |value: &Value| match value {
            Value::Int(index) => self.numbered(*index),
            _ => Err(self.problem(Code::SourceSyntax, "A branch is not a number.")),
        };
        let graphs = indices.iter().map(graph).collect::<Result<Vec<_>>>()?;
        let Some((index, rest)) = self.chooser(inputs)? else { return Ok(self.holes()) };
        graphs.iter().try_for_each(|graph| self.counted(graph.outputs.len()))?;
        let index = self.scalar(index)?;
        let chosen = self.chosen(index, 0, &graphs, &rest)?;
        Ok(chosen.map_or_else(|| self.holes(), |vars| self.named(vars)))
    }

    /// What one of several graphs gives, of which the first has the number `at`.
    fn chosen(
        &self,
        index: Var,
        at: usize,
        graphs: &[&'a SubGraph],
        inputs: &[Item],
    ) -> Result<Option<Vec<Var>>> {
        let b = self.runner.builder();
        let (first, others) = match graphs {
            [] => return Ok(None),
            [only] => return self.typed(self.tensors(&self.call(only, inputs)?)),
            [first, others @ ..] => (first, others),
        };
        refuse!(at >= CHOICES_MAX =>
            self.problem(Code::SourceLimit, format!("The operator chooses between more than {CHOICES_MAX} graphs.")));
        let Some(then) = self.branch(first, inputs)? else { return Ok(None) };
        let otherwise = b.sub_graph("branch", || self.chosen(index, at + 1, others, inputs))?;
        let Some(otherwise) = otherwise else { return Ok(None) };
        b.if_graphs(b.equal(index, at as i64)?, then, otherwise).map(Some)
    }

    /// A loop. What its body hands on unchanged is read from outside.
    fn repetition(&self, inputs: &[Item]) -> Result<Vec<Item>> {
        let b = self.runner.builder();
        let [condition, body] =
            [self.graph("cond_subgraph_index")?, self.graph("body_subgraph_index")?];
        self.counted(body.outputs.len())?;
        self.counted(inputs.len())?;
        refuse!(condition.outputs.len() != 1 || body.inputs.len() != inputs.len() =>
            self.problem(Code::SourceSyntax, "The graphs of the loop do not fit its values."));
        let carried: Vec<usize> =
            (0..inputs.len()).filter(|at| body.inputs[*at] != body.outputs[*at]).collect();
        let first = self.tensors(&self.call(condition, inputs)?);
        let start: Vec<Item> = carried.iter().map(|at| inputs[*at].clone()).collect();
        let start = self.tensors(&start);
        let (Some(first), Some(start)) = (first, start) else { return Ok(self.holes()) };
        let start = self.cast_starts(&carried, start, body)?;
        let name = if body.name.is_empty() { "body" } else { &body.name };
        let turn = b.sub_graph(name, || self.turn(condition, body, inputs, &carried, &start))?;
        let Some(graph) = turn else { return Ok(self.holes()) };
        let first = self.scalar(first[0])?;
        let ended = b.in_layer(self.scope.layer(self.called), |b| {
            b.loop_graph(Operand::Absent, first, &start, graph)
        })?;
        let mut items = inputs.to_vec();
        for (at, var) in carried.iter().zip(ended) {
            b.rename(var, &self.scope.name(self.called.outputs[*at]));
            items[*at] = Item::Tensor(var);
        }
        Ok(items)
    }

    /// The first values of what a loop carries, in the element types of its body.
    fn cast_starts(&self, carried: &[usize], start: Vec<Var>, body: &SubGraph) -> Result<Vec<Var>> {
        let b = self.runner.builder();
        let cast = |(at, var): (&usize, Var)| match body.tensors[body.inputs[*at]].dtype() {
            Some(dtype) => b.cast(var, dtype),
            None => Ok(var),
        };
        carried.iter().zip(start).map(cast).collect()
    }

    /// The condition of the next turn of a loop, and what the body gives; `None` if it could not be converted.
    fn turn(
        &self,
        condition: &'a SubGraph,
        body: &'a SubGraph,
        inputs: &[Item],
        carried: &[usize],
        start: &[Var],
    ) -> Result<Option<Vec<Var>>> {
        let b = self.runner.builder();
        let scalar = |dtype| ValueType::tensor(dtype, Vec::<Dim>::new());
        b.input("iteration", scalar(DataType::Int64));
        b.input("condition", scalar(DataType::Bool));
        let mut items = inputs.to_vec();
        for (at, start) in carried.iter().zip(start) {
            items[*at] = Item::Tensor(b.input("state", self.state(body, *at, *start)));
        }
        let given = self.call(body, &items)?;
        let next: Vec<Item> = carried.iter().map(|at| given[*at].clone()).collect();
        let Some(vars) = self.tensors(&next) else { return Ok(None) };
        let vars = self.cast_starts(carried, vars, body)?;
        for (at, var) in carried.iter().zip(&vars) {
            items[*at] = Item::Tensor(*var);
        }
        let Some(go_on) = self.tensors(&self.call(condition, &items)?) else { return Ok(None) };
        Ok(Some([self.scalar(go_on[0])?].into_iter().chain(vars).collect()))
    }

    /// The type of what a loop carries: sizes that the body declares and the first value has.
    fn state(&self, body: &SubGraph, at: usize, start: Var) -> ValueType {
        let declared = &body.tensors[body.inputs[at]];
        let sizes = declared.sizes();
        let first = self.runner.builder().shape_of(start);
        let shape = first.filter(|first| declared.ranked && first.len() == sizes.len());
        let shape = shape.map(|first| {
            let common = |(own, first): (i64, Dim)| match dim(own) == first {
                true => first,
                false => Dim::Unknown,
            };
            sizes.into_iter().zip(first).map(common).collect()
        });
        ValueType::Tensor { dtype: declared.dtype(), shape }
    }
}

fn tensor(item: &Item) -> Option<Var> {
    match item {
        Item::Tensor(var) => Some(*var),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
