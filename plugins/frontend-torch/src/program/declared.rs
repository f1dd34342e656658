//! What a program declares about its values: element types, and sizes that may depend on symbols.
//!
//! The declarations fill in what inference cannot know, and show where the two contradict each other.

use super::sizes::{Expr, Expressions};
use super::{Graph, Meta, SymbolicSize};
use crate::diag::{Code, Diagnostic, shown};
use crate::machine::{GraphNumber, Item, Machine, NumberKind, Result};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The symbols of a program, and what is known of them.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    expressions: RefCell<Expressions>,
    dims: RefCell<HashMap<Rc<str>, Dim>>,
    /// Whether torch may declare what is bound now wrongly.
    pub(super) misdeclared: Cell<bool>,
    /// Whether torch declared something else than an operator gives: what follows from that may be wrong, too.
    doubtful: Cell<bool>,
}

impl Symbols {
    fn expression(&self, size: &SymbolicSize) -> Result<Rc<Expr>> {
        self.expressions.borrow_mut().expression_of(size)
    }

    /// Says that the size `declared` of an input is `given`.
    ///
    /// # Errors
    /// `N0105` if it is something else already.
    pub(super) fn bind(&self, declared: &SymbolicSize, given: &Dim) -> Result<()> {
        let before = self.dim(declared)?;
        let wrong = |before: &Dim| {
            let message = format!(
                "`export.input_shapes` has the size {} where the program was exported for {}.",
                described(given),
                described(before)
            );
            let help = "Export it again, with `dynamic_shapes` for sizes that vary.";
            Err(Diagnostic::new(Code::ParamsBadValue, message).help(help))
        };
        match (&*self.expression(declared)?, &before, given) {
            (_, _, Dim::Unknown) => Ok(()),
            (_, Dim::Known(before), Dim::Known(given)) if before == given => Ok(()),
            (_, Dim::Known(_), _) => wrong(&before),
            (Expr::Symbol(symbol), _, given) => {
                match self.dims.borrow_mut().insert(symbol.clone(), given.clone()) {
                    Some(before) if !before.same(given) => wrong(&before),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// A size: known if its symbols are, a name if it is a single symbol.
    pub(super) fn dim(&self, size: &SymbolicSize) -> Result<Dim> {
        let expression = self.expression(size)?;
        let dims = self.dims.borrow();
        if let Some(known) = expression.evaluate(&|symbol| dims.get(symbol)?.known()) {
            return Ok(Dim::Known(known));
        }
        Ok(match &*expression {
            Expr::Symbol(symbol) => match dims.get(symbol) {
                Some(dim) => dim.clone(),
                None => Dim::Symbol((**symbol).into()),
            },
            _ => Dim::Unknown,
        })
    }

    /// The size of an input: a name also if it depends on symbols.
    pub(super) fn named(&self, size: &SymbolicSize) -> Result<Dim> {
        let dim = self.dim(size)?;
        if dim != Dim::Unknown {
            return Ok(dim);
        }
        let dims = self.dims.borrow();
        let name = |symbol: &str| match dims.get(symbol)? {
            Dim::Known(known) => Some(known.to_string()),
            Dim::Symbol(name) => Some(name.to_string()),
            Dim::Unknown => None,
        };
        Ok(Dim::Symbol(self.expression(size)?.render(&name).into()))
    }

    /// The symbols that a size depends on.
    pub(super) fn symbols_of(&self, size: &SymbolicSize) -> Result<Vec<Rc<str>>> {
        Ok(self.expression(size)?.symbols().into_iter().cloned().collect())
    }

    /// The type of a tensor. `dim` says sizes.
    pub(super) fn type_of(
        &self,
        meta: &Meta,
        dim: impl Fn(&Self, &SymbolicSize) -> Result<Dim>,
    ) -> Result<ValueType> {
        let shape = meta.sizes.iter().map(|size| dim(self, size)).collect::<Result<_>>()?;
        Ok(ValueType::Tensor { dtype: meta.dtype, shape: Some(shape) })
    }

    /// The value of a tensor `name` of a graph, with what is declared of it.
    ///
    /// # Errors
    /// `N0215` if it is something else.
    pub(super) fn tensor(
        &self,
        machine: &Machine<'_>,
        graph: &Graph,
        name: &str,
        item: Item,
    ) -> Result<Item> {
        let Some(meta) = graph.tensors.get(name) else { return Ok(item) };
        let declared = self.type_of(meta, Symbols::dim)?;
        let b = machine.builder();
        Ok(match item {
            Item::Hole => machine.tensor(b.placeholder(Some(declared))),
            Item::Tensor(_) => {
                self.settle(machine, name, machine.var_of(&item)?, &declared)?;
                item
            }
            Item::Int(_) | Item::Float(_) | Item::Bool(_) | Item::Number(_) => {
                let var = machine.var_of(&item)?;
                machine.tensor(match meta.dtype {
                    Some(dtype) => b.cast(var, dtype)?,
                    None => var,
                })
            }
            other => other,
        })
    }

    /// Fills in what is not inferred of a value, and compares the rest.
    fn settle(
        &self,
        machine: &Machine<'_>,
        name: &str,
        var: Var,
        declared: &ValueType,
    ) -> Result<()> {
        let b = machine.builder();
        let var_type = b.type_of(var);
        let known_dims = var_type.as_ref().and_then(ValueType::shape);
        let (Some(declared_dtype), Some(sizes)) = (declared.dtype(), declared.shape()) else {
            return Ok(());
        };
        // The builder may hold a complex tensor as one of its parts.
        if matches!(declared_dtype, DataType::Complex64 | DataType::Complex128) {
            return Ok(());
        }
        let found_dtype = var_type.as_ref().and_then(ValueType::dtype);
        let differs =
            |(a, b): (&Dim, &Dim)| matches!((a.known(), b.known()), (Some(a), Some(b)) if a != b);
        // torch declares one axis too many for the states of recurrent networks.
        let more = |known_dims: &[Dim]| {
            known_dims.len() < sizes.len() && without_ones(known_dims) == without_ones(sizes)
        };
        if known_dims.is_some_and(more) && found_dtype == Some(declared_dtype) {
            return Ok(());
        }
        let shapes = known_dims.is_some_and(|known_dims| {
            known_dims.len() != sizes.len() || known_dims.iter().zip(sizes).any(differs)
        });
        let differs = shapes || found_dtype.is_some_and(|dtype| dtype != declared_dtype);
        if differs && (self.misdeclared.get() || self.doubtful.get()) {
            self.doubtful.set(true);
            return Ok(());
        }
        if differs {
            let var_type = var_type.map(|var_type| var_type.to_string()).unwrap_or_default();
            let name = shown(name);
            let message = format!(
                "`{name}` is {declared} in the program, and its operator gives {var_type}."
            );
            let help = "Export the program again. If torch runs it as it is, please report it.";
            return Err(machine.problem(Code::ShapeMismatch, message).help(help));
        }
        let merged = sizes.iter().enumerate().map(|(axis, declared)| {
            let inferred = known_dims.map_or(&Dim::Unknown, |known_dims| &known_dims[axis]);
            match (inferred, declared) {
                (Dim::Known(_), _) | (_, Dim::Unknown) => inferred.clone(),
                _ => declared.clone(),
            }
        });
        let merged: Vec<Dim> = merged.collect();
        if known_dims != Some(&merged) || found_dtype.is_none() {
            b.declare(var, ValueType::Tensor { dtype: Some(declared_dtype), shape: Some(merged) });
        }
        Ok(())
    }
}

/// A number of a graph that stands for one that could not be converted.
pub(super) fn missing_number(machine: &Machine<'_>, graph: &Graph, name: &str) -> Item {
    let kind = if graph.ints.contains_key(name) { NumberKind::Int } else { NumberKind::Bool };
    let ty = ValueType::tensor(kind.dtype(), Vec::<Dim>::new());
    Item::Number(GraphNumber { var: machine.builder().placeholder(Some(ty)), kind })
}

/// Sizes that are known, but for axes of one element.
fn without_ones(sizes: &[Dim]) -> Vec<Option<i64>> {
    sizes.iter().map(Dim::known).filter(|size| *size != Some(1)).collect()
}

fn described(dim: &Dim) -> String {
    match dim {
        Dim::Known(size) => size.to_string(),
        Dim::Symbol(name) => format!("`{}`", shown(name)),
        Dim::Unknown => "?".to_owned(),
    }
}
