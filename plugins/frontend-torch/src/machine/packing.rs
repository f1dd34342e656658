//! Values of several paths as values of the graph, and back, by the form that they have in common.

use super::form::Form;
use super::{Elements, Item, Machine, NumberKind, Result};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use std::rc::Rc;

impl Machine<'_> {
    /// The values of the graph that `item` is in `form`, in the present graph.
    pub(crate) fn packed(&self, form: &Form, item: &Item, into: &mut Vec<Var>) -> Result<()> {
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
                into.push(self.zeros(&ValueType::tensor(kind.dtype(), Vec::<Dim>::new())));
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
                self.packed(inner, value, into)?;
            }
            (Form::Sequence(ty), item) => into.push(self.sequence_var(item, ty.as_ref())?),
            (Form::Numbers(kind), item) => into.push(self.numbers_var(item, *kind)?),
            (Form::Tuple(forms) | Form::Record(_, forms) | Form::List(forms), item) => {
                let items = match item {
                    Item::None | Item::Uninitialized(_) | Item::Hole => {
                        vec![item.clone(); forms.len()]
                    }
                    item => item.items().unwrap_or_default(),
                };
                for (i, form) in forms.iter().enumerate() {
                    let item = items.get(i).cloned().unwrap_or_else(|| self.hole());
                    self.packed(form, &item, into)?;
                }
            }
            (Form::Dict(forms), item) => {
                let value = |key: &Item| match item {
                    Item::Dict(cell) => {
                        let pairs = cell.borrow();
                        let found = pairs.iter().find(|(k, _)| k.same(key));
                        found.map_or_else(|| self.hole(), |(_, value)| value.clone())
                    }
                    other => other.clone(),
                };
                for (key, form) in forms {
                    self.packed(form, &value(key), into)?;
                }
            }
        }
        Ok(())
    }

    /// The value of `form` whose parts are the next values of the graph.
    pub(crate) fn unpacked(&self, form: &Form, from: &mut impl Iterator<Item = Var>) -> Item {
        let mut all = |forms: &[Form]| forms.iter().map(|f| self.unpacked(f, from)).collect();
        match form {
            Form::Fixed(item) => item.clone(),
            Form::Tuple(forms) => Item::tuple(all(forms)),
            Form::Record(class, forms) => {
                let items: Vec<Item> = all(forms);
                Item::Record(class.clone(), items.into())
            }
            Form::List(forms) => Item::list(all(forms)),
            Form::Dict(forms) => {
                Item::dict(forms.iter().map(|(k, f)| (k.clone(), self.unpacked(f, from))).collect())
            }
            Form::Maybe(inner) => {
                let present = self.unpacked(&Form::Number(NumberKind::Bool), from);
                let value = self.unpacked(inner, from);
                match present {
                    Item::Number(number) => Item::Maybe(number, Rc::new(value)),
                    Item::Bool(true) => value,
                    Item::Bool(false) => Item::None,
                    _ => self.hole(),
                }
            }
            Form::Tensor(_) => from.next().map_or_else(|| self.hole(), |var| self.tensor(var)),
            Form::Number(kind) => {
                from.next().map_or_else(|| self.hole(), |var| self.number(var, *kind))
            }
            Form::Sequence(_) => {
                let list = |var| Item::elements(Elements::Sequence(var));
                from.next().map_or_else(|| self.hole(), list)
            }
            Form::Numbers(kind) => {
                let list = |var| Item::elements(Elements::Numbers(var, *kind));
                from.next().map_or_else(|| self.hole(), list)
            }
        }
    }

    /// The types of the values that [`Machine::packed`] gives.
    pub(crate) fn slots(&self, form: &Form, into: &mut Vec<ValueType>) {
        let scalar = |kind: NumberKind| ValueType::tensor(kind.dtype(), Vec::<Dim>::new());
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
                self.slots(inner, into);
            }
            Form::Tuple(forms) | Form::Record(_, forms) | Form::List(forms) => {
                forms.iter().for_each(|form| self.slots(form, into));
            }
            Form::Dict(forms) => forms.iter().for_each(|(_, form)| self.slots(form, into)),
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
