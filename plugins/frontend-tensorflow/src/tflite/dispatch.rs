//! Runs operators on the values of an ONNX graph that is built on the way. They are computed in their order, as far as
//! an output needs them.

use super::arguments::{RowArguments, arguments};
use super::item::LiteItem;
use super::kept::{self, SeenAs};
use super::model::{LiteOperator, Quantization, SubGraph};
use super::operators::{self, CUSTOM};
use super::scope::{LiteRunner, Scope, declared};
use super::types::dim;
use super::{
    constant, control,
    quantized::{self, quantization_of},
    resources, tables,
};
use crate::ops::activation::clipped;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor, ValueType};
use onnxd_plugin_sdk::lower::{Lowering, Value};
use std::collections::HashSet;

/// Operators that a conversion may run, those of graphs that are called counted each time.
const OPERATORS_MAX: usize = 200_000;

impl<'a> LiteRunner<'a, '_> {
    /// Computes tensors of a graph.
    ///
    /// # Errors
    /// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
    pub(crate) fn run(&self, scope: &Scope<'a>, wanted: &[usize]) -> Result<()> {
        self.ran.set(self.ran.get().saturating_add(scope.graph.operators.len() + 1));
        refuse!(self.ran.get() > OPERATORS_MAX =>
            Diagnostic::new(Code::SourceLimit, format!("The model runs more than {OPERATORS_MAX} operators.")));
        for operator in self.needed(scope.graph, wanted) {
            let ran = self.operator(scope, operator);
            let items = ran.map_err(|found| match found.layer {
                Some(_) => found,
                None => found.at(scope.layer(operator)),
            })?;
            for (index, item) in operator.outputs.iter().zip(items) {
                scope.set(*index, item);
            }
        }
        Ok(())
    }

    /// The operators that wanted tensors and variables depend on, in their order.
    fn needed(&self, graph: &'a SubGraph, wanted: &[usize]) -> Vec<&'a LiteOperator> {
        let mut open: HashSet<usize> = wanted.iter().copied().collect();
        let mut found = vec![];
        for operator in graph.operators.iter().rev() {
            let is_read = operator.outputs.iter().any(|index| open.contains(index));
            if is_read || self.variables.is_effect(operator) {
                open.extend(operator.inputs.iter().flatten());
                found.push(operator);
            }
        }
        found.reverse();
        found
    }

    /// What stands for a tensor.
    ///
    /// # Errors
    /// `N0201` if nothing has computed it.
    pub(crate) fn item(&self, scope: &Scope<'a>, index: usize) -> Result<LiteItem> {
        if let Some(item) = scope.items.borrow().get(&index) {
            return Ok(item.clone());
        }
        let declared = &scope.graph.tensors[index];
        let none = bytes::Bytes::new();
        let empty = || declared.dims.contains(&0).then_some(&none);
        if declared.variable && declared.data.is_none() {
            let dtype = declared.dtype().unwrap_or(DataType::Float);
            let zeros = quantized::zeros(declared, dtype, &self.room)?;
            let name = self.state_name(scope, index, false);
            let state = self.states.value(self.builder(), &name, zeros)?;
            return Ok(LiteItem::Tensor(state));
        }
        let Some(data) = declared.data.as_ref().or_else(empty) else {
            let name = shown(&declared.name);
            let message = format!("The tensor `{name}` is read before anything computes it.");
            return Err(Diagnostic::new(Code::SourceSyntax, message));
        };
        let tensor = constant::tensor(declared, data, &self.room)?;
        let item = LiteItem::Tensor(self.constant(&scope.name(index), tensor));
        scope.set(index, item.clone());
        Ok(item)
    }

    fn constant(&self, name: &str, tensor: Tensor) -> Var {
        match tensor.len() <= 1 && tensor.as_strings().is_none() {
            true => self.builder().constant(tensor),
            false => self.builder().parameter(name, tensor),
        }
    }

    /// The real numbers of a quantized tensor. `alone` says that it is a weight of an operator on floats.
    fn real(
        &self,
        scope: &Scope<'a>,
        index: usize,
        (var, found): (Var, &Quantization),
        alone: bool,
    ) -> Result<Var> {
        let declared = &scope.graph.tensors[index];
        if let Some(known) = scope.real.borrow().get(&(index, alone)) {
            return Ok(*known);
        }
        let b = self.builder();
        if declared.variable && declared.data.is_none() {
            // States are zero at first, and go on as the real numbers that they stand for.
            let zeros = quantized::zeros(declared, DataType::Float, &self.room)?;
            return self.states.value(b, &self.state_name(scope, index, true), zeros);
        }
        let is_constant = alone && b.constant_of(var).is_some();
        self.alone.set(self.alone.get() + usize::from(is_constant));
        let is_float = self.floats || b.opset() < quantized::AXIS_SINCE;
        let constant = b.constant_of(var).filter(|_| alone && is_float);
        let constant = constant.and_then(|tensor| quantized::real_constant(&tensor, found));
        let real = match constant {
            Some(tensor) => self.constant(&scope.name(index), tensor),
            None => quantized::real(b, var, found, &declared.name)?,
        };
        scope.real.borrow_mut().insert((index, alone), real);
        Ok(real)
    }

    /// Runs one operator.
    fn operator(&self, scope: &Scope<'a>, called: &'a LiteOperator) -> Result<Vec<LiteItem>> {
        let given = called.inputs.iter().chain(&called.intermediates).flatten();
        let mut tensors = given.chain(&called.outputs);
        tensors.try_for_each(|index| quantized::check(declared(scope, *index)))?;
        let inputs = called.inputs.iter().map(|index| index.map(|index| self.item(scope, index)));
        let inputs: Vec<Option<LiteItem>> =
            inputs.map(Option::transpose).collect::<Result<Vec<_>>>()?;
        let Some(operator) = operators::find(called.code, &called.custom) else {
            return self.custom(scope, called, inputs);
        };
        if let Some(reason) = operator.refused {
            let message = format!("`{}` cannot be converted: {reason}.", operator.name);
            return Ok(self.refused(scope, called, message));
        }
        for special in [control::run, resources::run, tables::run] {
            if let Some(items) = special(self, scope, called, &inputs)? {
                return Ok(items);
            }
        }
        let seen = SeenAs::of(scope.graph, called);
        let written = |out: &usize| seen.written(called, declared(scope, *out));
        let on_floats = called.outputs.iter().all(|out| written(out).is_none());
        let mut values = vec![];
        for (at, (item, index)) in inputs.iter().zip(&called.inputs).enumerate() {
            values.push(match (item, index) {
                (Some(LiteItem::Tensor(var)), Some(index)) if !seen.is_stored() => {
                    let tensor = declared(scope, *index);
                    let alone = on_floats && tensor.data.is_some() && operator.name != "DEQUANTIZE";
                    let real = |problem| self.real(scope, *index, (*var, problem), alone);
                    let problem = kept::read(called, at, tensor);
                    Value::Var(match problem {
                        Some(problem) => self.in_layer(scope, called, || real(problem))?,
                        None => *var,
                    })
                }
                // Runtimes have no such operators on small integers.
                (Some(LiteItem::Tensor(var)), Some(index))
                    if seen == SeenAs::Copied
                        && quantization_of(declared(scope, *index)).is_some() =>
                {
                    Value::Var(self.builder().cast(*var, DataType::Int32)?)
                }
                (Some(LiteItem::Tensor(var)), _) => Value::Var(*var),
                (Some(LiteItem::Hole), _) => Value::Hole,
                (Some(LiteItem::Handle(_)), _) => {
                    let message = "The operator reads a variable or table as a whole.";
                    return Ok(self.refused(scope, called, message));
                }
                (None, _) => Value::None,
            });
        }
        if matches!(operator.name, "QUANTIZE" | "DEQUANTIZE") {
            let results = values.into_iter().take(1).collect();
            return self.results(scope, called, results, seen);
        }
        let problem = arguments(self, scope.graph, called, operator, values)?;
        let op = operator.same_as.unwrap_or(operator.name);
        if operator.keeps_states() && !self.begin_states(scope, called) {
            return Ok(vec![LiteItem::Hole; called.outputs.len()]);
        }
        let mut results = self.lower(scope, called, op, problem, seen)?;
        if results.len() > called.outputs.len() {
            self.keep(scope, called, results.split_off(called.outputs.len()));
        }
        self.results(scope, called, results, seen)
    }

    /// Hands an operator to the table; gives its results with the activation applied.
    pub(super) fn lower(
        &self,
        scope: &Scope<'a>,
        called: &LiteOperator,
        op: &str,
        row_arguments: RowArguments,
        seen: SeenAs,
    ) -> Result<Vec<Value>> {
        let is_quantized = |index: &usize| seen.written(called, declared(scope, *index)).is_some();
        // The name is that of the last value, which is made of this one.
        let is_changed = row_arguments.activation.is_some() || seen == SeenAs::Copied;
        let name = |index: &usize| match is_quantized(index) || is_changed {
            true => String::new(),
            false => scope.name(*index),
        };
        let results = called.outputs.iter().map(name).collect();
        let ty = |index: &usize| {
            let declared = declared(scope, *index);
            let dtype = if is_quantized(index) { Some(DataType::Float) } else { declared.dtype() };
            let shape = declared.ranked.then(|| declared.sizes().into_iter().map(dim).collect());
            dtype.map(|dtype| ValueType::Tensor { dtype: Some(dtype), shape })
        };
        let types = called.outputs.iter().map(ty).collect();
        let (op, layer) = (op.to_owned(), scope.layer(called));
        let (arguments, named) = (vec![], row_arguments.named);
        let mut complex_results = crate::ops::complex::lower(
            self.driver,
            Lowering { op, layer, arguments, named, results, types, ..Lowering::default() },
        );
        if let (Some(word), Some(Value::Var(var))) =
            (&row_arguments.activation, complex_results.first().cloned())
        {
            let to = declared(scope, called.outputs[0]);
            let stored = seen.written(called, to).zip(to.dtype());
            let applied = self.in_layer(scope, called, || self.activated(var, word, stored))?;
            complex_results[0] = Value::Var(applied);
        }
        Ok(complex_results)
    }

    /// An activation that is part of another operator; `stored` says how the result is quantized.
    fn activated(
        &self,
        x: Var,
        word: &str,
        stored: Option<(&Quantization, DataType)>,
    ) -> Result<Var> {
        let b = self.builder();
        let range = match word {
            "RELU" => [Some(0.0), None],
            "RELU6" => [Some(0.0), Some(6.0)],
            "RELU_N1_TO_1" => [Some(-1.0), Some(1.0)],
            "TANH" => return b.tanh(x),
            other => {
                let message = format!("The activation `{}` is not known.", shown(other));
                return Err(b.unsupported(message));
            }
        };
        match quantized::clamp(stored, range) {
            [None, None] => Ok(x),
            [Some(0.0), None] => b.relu(x),
            [Some(low), Some(high)] => clipped(b, x, low, high),
            [Some(low), None] => b.clip(x).min(low).one(),
            [None, Some(high)] => b.clip(x).max(high).one(),
        }
    }

    /// The results of an operator as they are stored.
    pub(super) fn results(
        &self,
        scope: &Scope<'a>,
        called: &LiteOperator,
        given: Vec<Value>,
        seen: SeenAs,
    ) -> Result<Vec<LiteItem>> {
        let b = self.builder();
        let mut items = vec![LiteItem::Hole; called.outputs.len()];
        let read: HashSet<Var> = called
            .inputs
            .iter()
            .flatten()
            .filter_map(|input| match scope.items.borrow().get(input) {
                Some(LiteItem::Tensor(var)) => Some(*var),
                _ => None,
            })
            .collect();
        for ((value, index), item) in given.into_iter().zip(&called.outputs).zip(&mut items) {
            let Value::Var(var) = value else { continue };
            let to = declared(scope, *index);
            let stored = self.in_layer(scope, called, || match seen.written(called, to) {
                Some(_) if seen == SeenAs::RoundedUp => {
                    quantized::stored(b, quantized::halves_up(b, var, to)?, to)
                }
                Some(_) => quantized::stored(b, var, to),
                None => match to.dtype().filter(|dtype| b.dtype_of(var) != Some(*dtype)) {
                    Some(dtype) if b.dtype_of(var).is_some() => b.cast(var, dtype),
                    _ => Ok(var),
                },
            })?;
            if !read.contains(&stored) {
                b.rename(stored, &scope.name(*index));
            }
            *item = LiteItem::Tensor(stored);
        }
        Ok(items)
    }

    /// An operator that is not known.
    pub(super) fn unknown(&self, scope: &Scope<'a>, called: &LiteOperator) -> Vec<LiteItem> {
        let message = match called.code {
            CUSTOM => format!("The custom operator `{}` is not known.", shown(&called.custom)),
            code => format!("The operator number {code} is not known."),
        };
        self.refused(scope, called, message)
    }

    /// Reports that an operator cannot be converted; gives holes for its results.
    fn refused(
        &self,
        scope: &Scope<'a>,
        called: &LiteOperator,
        message: impl Into<String>,
    ) -> Vec<LiteItem> {
        let found = Diagnostic::new(Code::LayerUnsupported, message);
        self.driver.report(found.at(scope.layer(called)));
        vec![LiteItem::Hole; called.outputs.len()]
    }
}
