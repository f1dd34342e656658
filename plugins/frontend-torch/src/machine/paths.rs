//! What the program's values are to conditions and loops: variables, and places that outlive a block. By the form that
//! values have in common, they become values of the graph, and values of the graph become they.

use super::form::JoinForm;
use super::journal::{JournalBlock, MutableObject};
use super::{Elements, GraphNumber, Item, Machine, NumberKind, Result, is_raised};
use crate::aten::RowContext;
use crate::diag::Diagnostic;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::lower::flow::{Paths, Values};
use std::rc::Rc;

/// Variables and their values.
pub(crate) type Variables = Vec<(Rc<str>, Item)>;

/// Where a value goes after a condition or loop.
#[derive(Clone)]
pub(crate) enum Slot {
    Variable(Rc<str>),
    Place(MutableObject),
}

impl PartialEq for Slot {
    fn eq(&self, other: &Slot) -> bool {
        match (self, other) {
            (Slot::Variable(name), Slot::Variable(other)) => name == other,
            (Slot::Place(place), Slot::Place(other)) => place.is(other),
            _ => false,
        }
    }
}

impl Machine<'_> {
    /// What the innermost block gives: variables, and the places that it changed, as they are now.
    pub(super) fn given(
        &self,
        variables: Variables,
        refined: &dyn Fn(&Item) -> Item,
    ) -> Result<Values<Self>> {
        let settled = |item: &Item| self.settled(&refined(item));
        let variable = |(name, item): (Rc<str>, Item)| Ok((Slot::Variable(name), settled(&item)?));
        let mut values = variables.into_iter().map(variable).collect::<Result<Values<Self>>>()?;
        for place in self.changed() {
            let item = settled(&self.get(&place))?;
            values.push((Slot::Place(place), item));
        }
        Ok(values)
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
        known.unwrap_or(Item::Number(GraphNumber { var, kind }))
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

impl Paths for Machine<'_> {
    type Source = RowContext;
    type Key = Slot;
    type Item = Item;
    type Form = JoinForm;
    type Block = JournalBlock;

    fn driver(&self) -> &Driver<'_, RowContext> {
        &self.driver
    }

    fn fixed(&self, item: Item) -> JoinForm {
        JoinForm::Fixed(item)
    }

    fn form_of(&self, item: &Item) -> Result<JoinForm> {
        self.form_of(item)
    }

    fn widened(&self, form: JoinForm, item: &Item) -> Result<JoinForm> {
        self.widened(form, item)
    }

    fn types(&self, form: &JoinForm) -> Vec<ValueType> {
        match form {
            JoinForm::Fixed(_) => vec![],
            JoinForm::Tensor(ty) => vec![ty.clone()],
            JoinForm::Number(kind) => vec![scalar(*kind)],
            JoinForm::Numbers(kind) => vec![ValueType::tensor(kind.dtype(), vec![Dim::Unknown])],
            JoinForm::Sequence(ty) => {
                let unknown = ValueType::Tensor { dtype: Some(DataType::Float), shape: None };
                vec![ValueType::Sequence(Box::new(ty.clone().unwrap_or(unknown)))]
            }
            JoinForm::Maybe(inner) => [vec![scalar(NumberKind::Bool)], self.types(inner)].concat(),
            JoinForm::Parts(_, forms) => forms.iter().flat_map(|form| self.types(form)).collect(),
        }
    }

    fn packed(&self, form: &JoinForm, item: &Item) -> Result<Vec<Var>> {
        let is_none = matches!(item, Item::None | Item::Uninitialized(_) | Item::Hole);
        Ok(vec![match form {
            JoinForm::Fixed(_) => return Ok(vec![]),
            JoinForm::Tensor(ty) if is_none => self.zeros(ty),
            JoinForm::Tensor(ty) => match (ty.dtype(), item) {
                (Some(dtype), Item::Int(_) | Item::Float(_) | Item::Bool(_)) => {
                    self.builder().cast(self.var_of(item)?, dtype)?
                }
                _ => self.var_of(item)?,
            },
            JoinForm::Number(kind) if is_none => self.zeros(&scalar(*kind)),
            JoinForm::Number(kind) => self.number_var(item, *kind)?,
            JoinForm::Sequence(ty) => self.sequence_var(item, ty.as_ref())?,
            JoinForm::Numbers(kind) => self.numbers_var(item, *kind)?,
            JoinForm::Maybe(inner) => {
                let (present, value) = match item {
                    _ if is_none => (Item::Bool(false), &Item::None),
                    Item::Maybe(number, inner) => (Item::Number(*number), &**inner),
                    other => (Item::Bool(true), other),
                };
                let present = self.number_var(&present, NumberKind::Bool)?;
                return Ok([vec![present], self.packed(inner, value)?].concat());
            }
            JoinForm::Parts(_, forms) => {
                let mut parts = match is_none {
                    true => vec![item.clone(); forms.len()],
                    false => item.parts().unwrap_or_default(),
                };
                parts.resize_with(forms.len(), || self.hole());
                let packed = forms.iter().zip(&parts).map(|(form, part)| self.packed(form, part));
                return Ok(packed.collect::<Result<Vec<_>>>()?.concat());
            }
        }])
    }

    fn unpacked(&self, form: &JoinForm, from: &mut dyn Iterator<Item = Var>) -> Item {
        match form {
            JoinForm::Fixed(item) => return item.clone(),
            JoinForm::Parts(container, forms) => {
                let parts = forms.iter().map(|form| self.unpacked(form, from)).collect();
                return container.with_parts(parts);
            }
            JoinForm::Maybe(inner) => {
                let present = self.unpacked(&JoinForm::Number(NumberKind::Bool), from);
                let value = self.unpacked(inner, from);
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
            (JoinForm::Tensor(_), Some(var)) => self.tensor(var),
            (JoinForm::Number(kind), Some(var)) => self.number(var, *kind),
            (JoinForm::Sequence(_), Some(var)) => Item::elements(Elements::Sequence(var)),
            (JoinForm::Numbers(kind), Some(var)) => Item::elements(Elements::Numbers(var, *kind)),
            _ => self.hole(),
        }
    }

    fn truth(&self, condition: &Item) -> Result<Var> {
        self.number_var(condition, NumberKind::Bool)
    }

    // A path that ends with an exception is not taken in a model that gives something.
    fn leaves_out(&self, why: &Diagnostic) -> bool {
        if is_raised(why) {
            self.left_out(why);
        }
        is_raised(why)
    }

    fn begin_block(&self) {
        Machine::begin_block(self);
    }

    fn suspend_block(&self) -> JournalBlock {
        Machine::suspend_block(self)
    }

    fn resume_block(&self, block: JournalBlock) {
        Machine::resume_block(self, block);
    }
}

fn scalar(kind: NumberKind) -> ValueType {
    ValueType::tensor(kind.dtype(), Vec::<Dim>::new())
}
