//! Values of several paths as values of the graph, and back, by the form that they have in common.

use super::form::Form;
use super::{Elements, Item, Machine, Number, NumberKind, Result};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use std::rc::Rc;

impl Machine<'_> {
    /// The values of the graph that `item` is in `form`, in the present graph.
    pub(super) fn pack(&self, form: &Form, item: &Item, into: &mut Vec<Var>) -> Result<()> {
        match (form, item) {
            (Form::Fixed(_), _) => {}
            (Form::Tensor(ty), Item::Uninitialized(_) | Item::None | Item::Hole) => {
                into.push(self.zeros(ty));
            }
            (Form::Tensor(ty), item) => {
                let var = self.var_of(item)?;
                into.push(match (ty.dtype(), item) {
                    (Some(dtype), Item::Int(_) | Item::Float(_) | Item::Bool(_)) => {
                        self.builder().cast(var, dtype)?
                    }
                    _ => var,
                });
            }
            (Form::Number(kind), Item::Uninitialized(_) | Item::None | Item::Hole) => {
                into.push(self.zeros(&scalar(*kind)));
            }
            (Form::Number(kind), item) => into.push(self.number_var(item, *kind)?),
            (Form::Maybe(inner), item) => {
                let (present, value) = match item {
                    Item::None | Item::Uninitialized(_) | Item::Hole => {
                        (Item::Bool(false), &Item::None)
                    }
                    Item::Maybe(number, inner) => (Item::Number(*number), &**inner),
                    other => (Item::Bool(true), other),
                };
                into.push(self.number_var(&present, NumberKind::Bool)?);
                self.pack(inner, value, into)?;
            }
            (Form::Sequence(ty), item) => into.push(self.sequence_var(item, ty.as_ref())?),
            (Form::Numbers(kind), item) => into.push(self.numbers_var(item, *kind)?),
            (Form::Parts(_, forms), item) => {
                let parts = match item {
                    Item::None | Item::Uninitialized(_) | Item::Hole => {
                        vec![item.clone(); forms.len()]
                    }
                    item => item.parts().unwrap_or_default(),
                };
                for (i, form) in forms.iter().enumerate() {
                    let part = parts.get(i).cloned().unwrap_or_else(|| self.hole());
                    self.pack(form, &part, into)?;
                }
            }
        }
        Ok(())
    }

    /// The value of `form` whose parts are the next values of the graph.
    pub(super) fn unpack(&self, form: &Form, from: &mut dyn Iterator<Item = Var>) -> Item {
        match form {
            Form::Fixed(item) => return item.clone(),
            Form::Parts(container, forms) => {
                let parts = forms.iter().map(|form| self.unpack(form, from)).collect();
                return container.with_parts(parts);
            }
            Form::Maybe(inner) => {
                let present = self.unpack(&Form::Number(NumberKind::Bool), from);
                let value = self.unpack(inner, from);
                return match present {
                    Item::Number(number) => Item::Maybe(number, Rc::new(value)),
                    Item::Bool(true) => value,
                    Item::Bool(false) => Item::None,
                    _ => self.hole(),
                };
            }
            _ => {}
        }
        match (form, from.next()) {
            (Form::Tensor(_), Some(var)) => self.tensor(var),
            (Form::Number(kind), Some(var)) => self.number(var, *kind),
            (Form::Sequence(_), Some(var)) => Item::elements(Elements::Sequence(var)),
            (Form::Numbers(kind), Some(var)) => Item::elements(Elements::Numbers(var, *kind)),
            _ => self.hole(),
        }
    }

    /// A number of the graph as an item: its value, if it is known.
    pub(crate) fn number(&self, var: Var, kind: NumberKind) -> Item {
        let known = self.builder().constant_of(var).filter(|t| t.len() == 1);
        let known = known.and_then(|t| Some(t.to_reals()?.values[0]));
        let whole = || self.builder().ints_of(var).and_then(|items| items.first().copied());
        let known = match kind {
            NumberKind::Float => known.map(Item::Float),
            NumberKind::Bool => known.map(|x| Item::Bool(x != 0.0)),
            NumberKind::Int => whole().map(Item::Int),
        };
        known.unwrap_or(Item::Number(Number { var, kind }))
    }

    /// The types of the values that [`Machine::pack`] gives.
    pub(super) fn packed_types(&self, form: &Form, into: &mut Vec<ValueType>) {
        match form {
            Form::Fixed(_) => {}
            Form::Tensor(ty) => into.push(ty.clone()),
            Form::Number(kind) => into.push(scalar(*kind)),
            Form::Sequence(ty) => {
                let unknown = ValueType::Tensor { dtype: Some(DataType::Float), shape: None };
                into.push(ValueType::Sequence(Box::new(ty.clone().unwrap_or(unknown))));
            }
            Form::Numbers(kind) => {
                into.push(ValueType::tensor(kind.dtype(), vec![Dim::Unknown]));
            }
            Form::Maybe(inner) => {
                into.push(scalar(NumberKind::Bool));
                self.packed_types(inner, into);
            }
            Form::Parts(_, forms) => forms.iter().for_each(|form| self.packed_types(form, into)),
        }
    }

    /// Any tensor of a type: where a value is never used. Unknown sizes are 1.
    fn zeros(&self, ty: &ValueType) -> Var {
        let dims = ty.shape().unwrap_or_default().iter().map(|d| d.known().unwrap_or(1));
        let dims: Vec<usize> = dims.map(|d| usize::try_from(d).unwrap_or(1)).collect();
        let dtype = ty.dtype().unwrap_or(DataType::Float);
        let one = Tensor::new(dtype, vec![], vec![0u8; dtype.bits().div_ceil(8)].into());
        let b = self.builder();
        let one = b.constant(one.expect("a scalar of zero bytes"));
        match dims.is_empty() {
            true => one,
            false => {
                let shape = dims.iter().map(|d| *d as i64).collect::<Vec<_>>();
                b.expand(one, shape).unwrap_or(one)
            }
        }
    }
}

fn scalar(kind: NumberKind) -> ValueType {
    ValueType::tensor(kind.dtype(), Vec::<Dim>::new())
}
