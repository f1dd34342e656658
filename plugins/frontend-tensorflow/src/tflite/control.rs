//! Operators that run other graphs: conditions, loops and calls.

use super::item::LiteItem;
use super::model::{LiteOperator, SubGraph, Tensor};
use super::scope::{LiteRunner, Scope};
use super::types::dim;
use super::variables::BRANCHES;
use crate::graph::branch::branch_named;
use crate::graph::item::GraphItem as Value;
use crate::graph::repeat::{Repetition, repeat};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{DataType, Dim};
use onnxd_plugin_sdk::lower::Value as Argument;
use std::cell::Cell;

/// Graphs that an operator chooses between.
const CHOICES_MAX: usize = 32;

/// Runs an operator of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the model unusable. What merely cannot be converted is reported, and holes stand for it.
pub(super) fn run<'a>(
    runner: &LiteRunner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a LiteOperator,
    inputs: &[Option<LiteItem>],
) -> Result<Option<Vec<LiteItem>>> {
    let at = ControlOperator { runner, scope, called };
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
struct ControlOperator<'r, 'a, 's> {
    runner: &'r LiteRunner<'a, 's>,
    scope: &'r Scope<'a>,
    called: &'a LiteOperator,
}

impl<'a> ControlOperator<'_, 'a, '_> {
    fn run(&self, inputs: &[Option<LiteItem>]) -> Result<Option<Vec<LiteItem>>> {
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

    fn holes(&self) -> Vec<LiteItem> {
        vec![LiteItem::Hole; self.called.outputs.len()]
    }

    /// Inputs, none of which may be left out.
    fn all(&self, inputs: &[Option<LiteItem>]) -> Result<Vec<LiteItem>> {
        let given = inputs.iter().cloned().collect::<Option<Vec<LiteItem>>>();
        given.ok_or_else(|| self.problem(Code::SourceSyntax, "An input is left out."))
    }

    /// What the operator chooses by, and its other inputs; `None` if it could not be converted.
    fn chooser(&self, inputs: &[Option<LiteItem>]) -> Result<Option<(Var, Vec<LiteItem>)>> {
        let all = self.all(inputs)?;
        let Some((first, rest)) = all.split_first() else {
            return Err(self.problem(Code::SourceSyntax, "The operator has no inputs."));
        };
        self.tell_handles(std::slice::from_ref(first));
        Ok(tensor(first).map(|var| (var, rest.to_vec())))
    }

    /// Holes were reported; a variable or table in the place of a tensor is.
    fn tell_handles(&self, items: &[LiteItem]) {
        if items.iter().any(|item| matches!(item, LiteItem::Handle(_))) {
            let message = "A variable or table takes part in a condition or loop as a value.";
            self.runner.driver.report(self.problem(Code::LayerUnsupported, message));
        }
    }

    fn option(&self, name: &str) -> Option<&Argument> {
        self.called.options.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The graph that an option names.
    fn graph(&self, option: &str) -> Result<&'a SubGraph> {
        match self.option(option) {
            Some(Argument::Int(index)) => self.numbered(*index),
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
    fn call(&self, graph: &'a SubGraph, inputs: &[LiteItem]) -> Result<Vec<LiteItem>> {
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

    /// What a graph gives to a condition or loop, with the element types of the tensors that it becomes.
    fn values(
        &self,
        graph: &'a SubGraph,
        inputs: &[LiteItem],
        dtypes: &[Option<DataType>],
    ) -> Result<Vec<Value>> {
        self.typed(&self.call(graph, inputs)?, dtypes)
    }

    fn typed(&self, items: &[LiteItem], dtypes: &[Option<DataType>]) -> Result<Vec<Value>> {
        self.tell_handles(items);
        let value = |(item, dtype): (&LiteItem, &Option<DataType>)| match (item, dtype) {
            (LiteItem::Tensor(var), Some(dtype)) => {
                self.runner.builder().cast(*var, *dtype).map(Value::Tensor)
            }
            (LiteItem::Tensor(var), None) => Ok(Value::Tensor(*var)),
            (LiteItem::Handle(_) | LiteItem::Hole, _) => Ok(Value::Hole),
        };
        items.iter().zip(dtypes).map(value).collect()
    }

    /// What the operator gives, which `run` adds to the graph. What is new in it has the names of its tensors.
    fn given(&self, run: impl FnOnce() -> Result<Vec<Value>>) -> Result<Vec<LiteItem>> {
        let b = self.runner.builder();
        let before = b.graph().value_ids().len();
        let values = b.in_layer(self.scope.layer(self.called), |_| run())?;
        let items = values.iter().map(item).collect::<Vec<_>>();
        for (item, index) in items.iter().zip(&self.called.outputs) {
            if let LiteItem::Tensor(var) = item
                && b.is_own(*var)
                && let id = b.id(*var)?
                && b.graph().values_from(before).any(|new| new == id)
            {
                b.rename(*var, &self.scope.name(*index));
            }
        }
        Ok(items)
    }

    /// One of two graphs.
    fn condition(
        &self,
        [then, otherwise]: [&'a SubGraph; 2],
        inputs: &[Option<LiteItem>],
    ) -> Result<Vec<LiteItem>> {
        let Some((condition, rest)) = self.chooser(inputs)? else { return Ok(self.holes()) };
        self.counted(then.outputs.len())?;
        self.counted(otherwise.outputs.len())?;
        let dtypes = dtypes(self.scope.graph, &self.called.outputs);
        let arm = |graph| self.values(graph, &rest, &dtypes);
        self.given(|| {
            let condition = self.scalar(condition)?;
            let names = [then, otherwise].map(|graph| named(graph, "branch"));
            branch_named(self.runner.driver, condition, names, [&|| arm(then), &|| arm(otherwise)])
        })
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
    fn choice(&self, inputs: &[Option<LiteItem>]) -> Result<Vec<LiteItem>> {
        let indices = match self.option(BRANCHES) {
            Some(Argument::List(indices)) if !indices.is_empty() => indices,
            _ => return Err(self.problem(Code::SourceSyntax, "The operator names no graphs.")),
        };
        let graph = |value: &Argument| match value {
            Argument::Int(index) => self.numbered(*index),
            _ => Err(self.problem(Code::SourceSyntax, "A branch is not a number.")),
        };
        let graphs = indices.iter().map(graph).collect::<Result<Vec<_>>>()?;
        if graphs.len() > CHOICES_MAX {
            let message = format!("The operator chooses between more than {CHOICES_MAX} graphs.");
            return Err(self.problem(Code::SourceLimit, message));
        }
        let Some((index, rest)) = self.chooser(inputs)? else { return Ok(self.holes()) };
        graphs.iter().try_for_each(|graph| self.counted(graph.outputs.len()))?;
        self.given(|| self.chosen(self.scalar(index)?, 0, &graphs, &rest))
    }

    /// What one of several graphs gives, of which the first has the number `at`.
    fn chosen(
        &self,
        index: Var,
        at: usize,
        graphs: &[&'a SubGraph],
        inputs: &[LiteItem],
    ) -> Result<Vec<Value>> {
        let dtypes = dtypes(self.scope.graph, &self.called.outputs);
        match graphs {
            [] => Ok(vec![]),
            [only] => self.values(only, inputs, &dtypes),
            [first, others @ ..] => {
                let is_first = self.runner.builder().equal(index, at as i64)?;
                let first = || self.values(first, inputs, &dtypes);
                let others = || self.chosen(index, at + 1, others, inputs);
                let names = [named(graphs[0], "branch"), "branch"];
                branch_named(self.runner.driver, is_first, names, [&first, &others])
            }
        }
    }

    /// A loop. What its body hands on unchanged is read from outside.
    fn repetition(&self, inputs: &[LiteItem]) -> Result<Vec<LiteItem>> {
        let [condition, body] =
            [self.graph("cond_subgraph_index")?, self.graph("body_subgraph_index")?];
        self.counted(body.outputs.len())?;
        self.counted(inputs.len())?;
        if condition.outputs.len() != 1 || body.inputs.len() != inputs.len() {
            let message = "The graphs of the loop do not fit its values.";
            return Err(self.problem(Code::SourceSyntax, message));
        }
        let constant: Vec<bool> =
            body.inputs.iter().zip(&body.outputs).map(|(input, output)| input == output).collect();
        let dtypes = dtypes(body, &body.inputs);
        // What is the same in each turn may also be a handle.
        let items = |values: &[Value]| -> Vec<LiteItem> {
            let kept = constant.iter().zip(inputs).zip(values);
            kept.map(|((kept, input), value)| if *kept { input.clone() } else { item(value) })
                .collect()
        };
        let carried = |items: &[LiteItem]| {
            let carried = constant.iter().zip(items);
            let carried =
                carried.map(|(kept, item)| if *kept { LiteItem::Hole } else { item.clone() });
            self.typed(&carried.collect::<Vec<_>>(), &dtypes)
        };
        // A turn that is built again in a wider form takes the place of the one before.
        let before = Cell::new(None);
        let repetition = Repetition {
            name: named(body, "body"),
            turn: &|values| {
                match before.get() {
                    Some(counts) => self.runner.count_again(counts),
                    None => before.set(Some(self.runner.counts())),
                }
                carried(&self.call(body, &items(values))?)
            },
            condition: &|values| {
                let go_on = self.values(condition, &items(values), &[None])?;
                match go_on[..] {
                    [Value::Tensor(var)] => self.scalar(var).map(Value::Tensor),
                    _ => Ok(Value::Hole),
                }
            },
            declared: body.inputs.iter().map(|index| declared(&body.tensors[*index])).collect(),
            constant: constant.clone(),
        };
        let ended = self.given(|| repeat(self.runner.driver, &carried(inputs)?, &repetition))?;
        Ok(ended
            .iter()
            .zip(&constant)
            .zip(inputs)
            .map(|((end, kept), input)| if *kept { input } else { end }.clone())
            .collect())
    }
}

/// The name of a graph, or a word for what it is.
fn named<'g>(graph: &'g SubGraph, other: &'g str) -> &'g str {
    if graph.name.is_empty() { other } else { &graph.name }
}

/// The element types that a graph declares for tensors.
fn dtypes(graph: &SubGraph, indices: &[usize]) -> Vec<Option<DataType>> {
    indices.iter().map(|index| graph.tensors[*index].dtype()).collect()
}

/// The sizes that a tensor is declared with.
fn declared(tensor: &Tensor) -> Option<Vec<Dim>> {
    tensor.ranked.then(|| tensor.sizes().into_iter().map(dim).collect())
}

fn item(value: &Value) -> LiteItem {
    match value {
        Value::Tensor(var) => LiteItem::Tensor(*var),
        _ => LiteItem::Hole,
    }
}

fn tensor(item: &LiteItem) -> Option<Var> {
    match item {
        LiteItem::Tensor(var) => Some(*var),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
