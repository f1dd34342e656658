//! What values have in common that come from different paths of a program: which parts are the same on all paths, and
//! which have to be values of the graph.

use super::sequences::common_kind;
use super::{Elements, Item, Machine, Number, NumberKind, Result};
use crate::diag::{Code, Diagnostic};
use crate::syntax::ast::Class;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{Dim, ValueType};
use std::rc::Rc;

/// The form of a value that several paths give.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// The same on all paths.
    Fixed(Item),
    Tensor(ValueType),
    Number(NumberKind),
    /// A list whose length depends on the path; the type of its tensors, if one is known.
    Sequence(Option<ValueType>),
    /// A list of numbers whose length depends on the path.
    Numbers(NumberKind),
    /// None on some paths.
    Maybe(Box<Form>),
    Tuple(Vec<Form>),
    Record(Rc<Class>, Vec<Form>),
    List(Vec<Form>),
    Dict(Vec<(Item, Form)>),
}

impl Form {
    /// Whether it is the same on all paths.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self, Form::Fixed(_))
    }
}

impl Machine<'_> {
    /// The form of a value that one path gives, in the graph where it was computed.
    pub(crate) fn form_of(&self, item: &Item) -> Result<Form> {
        let all =
            |items: &[Item]| items.iter().map(|x| self.form_of(x)).collect::<Result<Vec<_>>>();
        Ok(match item {
            Item::Tensor(view) => {
                let var = self.read(view)?;
                match self.builder().is_own(var) {
                    true => Form::Tensor(self.type_of(var)),
                    false => Form::Fixed(item.clone()),
                }
            }
            Item::Number(number) => match self.builder().is_own(number.var) {
                true => Form::Number(number.kind),
                false => Form::Fixed(item.clone()),
            },
            Item::Tuple(items) => simplified(Form::Tuple(all(items)?), item),
            Item::Record(class, items) => {
                simplified(Form::Record(class.clone(), all(items)?), item)
            }
            Item::List(cell) => match &*cell.borrow() {
                Elements::Known(items) => simplified(Form::List(all(items)?), item),
                Elements::Sequence(var) => match self.builder().is_own(*var) {
                    true => Form::Sequence(self.element_type(*var)),
                    false => Form::Fixed(item.clone()),
                },
                Elements::Numbers(var, kind) => match self.builder().is_own(*var) {
                    true => Form::Numbers(*kind),
                    false => Form::Fixed(item.clone()),
                },
            },
            Item::Dict(cell) => {
                let of = |(key, value): &(Item, Item)| Ok((key.clone(), self.form_of(value)?));
                let items = cell.borrow().iter().map(of).collect::<Result<Vec<_>>>()?;
                simplified(Form::Dict(items), item)
            }
            Item::Maybe(number, inner) => match self.form_of(inner)? {
                Form::Fixed(_) if !self.builder().is_own(number.var) => Form::Fixed(item.clone()),
                inner => Form::Maybe(Box::new(self.computed(inner, item)?)),
            },
            other => Form::Fixed(other.clone()),
        })
    }

    /// A form that is a value of the graph, even if all paths so far give the same.
    fn computed(&self, form: Form, of: &Item) -> Result<Form> {
        let Form::Fixed(item) = form else { return Ok(form) };
        Ok(match item {
            Item::Tensor(view) => Form::Tensor(self.type_of(self.read(&view)?)),
            Item::Number(number) => Form::Number(number.kind),
            Item::Bool(_) => Form::Number(NumberKind::Bool),
            Item::Int(_) => Form::Number(NumberKind::Int),
            Item::Float(_) => Form::Number(NumberKind::Float),
            Item::List(cell) => match &*cell.borrow() {
                Elements::Known(items) => match common_kind(items.iter()) {
                    Some(kind) => Form::Numbers(kind),
                    None => Form::Sequence(self.common_type(items)?),
                },
                Elements::Sequence(var) => Form::Sequence(self.element_type(*var)),
                Elements::Numbers(_, kind) => Form::Numbers(*kind),
            },
            Item::Tuple(items) => Form::Tuple(
                items
                    .iter()
                    .map(|i| self.computed(Form::Fixed(i.clone()), i))
                    .collect::<Result<_>>()?,
            ),
            other => return Err(self.cannot_meet(&other, of)),
        })
    }

    /// The form of what is either of `form` or `item`, which is a value in the present graph.
    pub(crate) fn widened(&self, form: Form, item: &Item) -> Result<Form> {
        if let Form::Fixed(fixed) = &form
            && fixed.same(item)
        {
            return Ok(form);
        }
        Ok(match (form, item) {
            (form, Item::Uninitialized(_) | Item::Hole) => form,
            (Form::Fixed(Item::Uninitialized(_) | Item::Hole), item) => self.form_of(item)?,
            (Form::Fixed(Item::Maybe(_, inner)), item) => {
                let form = self.computed(Form::Fixed((*inner).clone()), item)?;
                self.widened(Form::Maybe(Box::new(form)), item)?
            }
            (Form::Maybe(inner), Item::None) => Form::Maybe(inner),
            (Form::Maybe(inner), Item::Maybe(_, item)) => {
                Form::Maybe(Box::new(self.widened(*inner, item)?))
            }
            (Form::Maybe(inner), item) => Form::Maybe(Box::new(self.widened(*inner, item)?)),
            (Form::Fixed(Item::None), item) => {
                let form = self.form_of(item)?;
                match form {
                    Form::Maybe(inner) => Form::Maybe(inner),
                    form => Form::Maybe(Box::new(self.computed(form, item)?)),
                }
            }
            (form, Item::None) => {
                let form = self.computed(form, item)?;
                Form::Maybe(Box::new(form))
            }
            (form, Item::Maybe(_, inner)) => {
                let form = self.widened(form, inner)?;
                Form::Maybe(Box::new(self.computed(form, inner)?))
            }
            (Form::Tensor(ty), item) => self.widened_tensor(&ty, item)?,
            (Form::Fixed(Item::Tensor(view)), item) => {
                let ty = self.type_of(self.read(&view)?);
                self.widened_tensor(&ty, item)?
            }
            (Form::Number(kind), item) => self.widened_number(kind, item)?,
            (Form::Fixed(Item::Number(number)), item) => self.widened_number(number.kind, item)?,
            (Form::Fixed(Item::Bool(_)), item) => self.widened_number(NumberKind::Bool, item)?,
            (Form::Fixed(Item::Int(_)), item) => self.widened_number(NumberKind::Int, item)?,
            (Form::Fixed(Item::Float(_)), item) => self.widened_number(NumberKind::Float, item)?,
            (form, item) => self.widened_container(form, item)?,
        })
    }

    fn widened_tensor(&self, ty: &ValueType, item: &Item) -> Result<Form> {
        match item {
            Item::Tensor(view) => {
                let other = self.type_of(self.read(view)?);
                Ok(Form::Tensor(common_type(ty, &other)))
            }
            Item::Number(_) | Item::Int(_) | Item::Float(_) | Item::Bool(_) => {
                let scalar = ValueType::Tensor { dtype: ty.dtype(), shape: Some(vec![]) };
                Ok(Form::Tensor(common_type(ty, &scalar)))
            }
            other => Err(self.cannot_meet(other, &Item::text("a tensor"))),
        }
    }

    fn widened_number(&self, kind: NumberKind, item: &Item) -> Result<Form> {
        let other = match item {
            Item::Bool(_) => NumberKind::Bool,
            Item::Int(_) => NumberKind::Int,
            Item::Float(_) => NumberKind::Float,
            Item::Number(number) => number.kind,
            Item::Tensor(view) => {
                let other = self.type_of(self.read(view)?);
                return Ok(Form::Tensor(other));
            }
            other => return Err(self.cannot_meet(other, &Item::text("a number"))),
        };
        Ok(Form::Number(kind.max(other)))
    }

    fn widened_container(&self, form: Form, item: &Item) -> Result<Form> {
        let form = match form {
            Form::Fixed(fixed) => self.opened(&fixed),
            form => form,
        };
        let both = |forms: Vec<Form>, items: &[Item]| {
            forms
                .into_iter()
                .zip(items)
                .map(|(f, i)| self.widened(f, i))
                .collect::<Result<Vec<_>>>()
        };
        match (form, item) {
            (Form::Tuple(forms), Item::Tuple(items)) if forms.len() == items.len() => {
                Ok(Form::Tuple(both(forms, items)?))
            }
            (Form::Record(class, forms), Item::Record(other, items))
                if Rc::ptr_eq(&class, other) && forms.len() == items.len() =>
            {
                Ok(Form::Record(class, both(forms, items)?))
            }
            (Form::Dict(forms), Item::Dict(cell)) => {
                let items = cell.borrow();
                if forms.len() != items.len()
                    || !forms.iter().zip(&*items).all(|(f, i)| f.0.same(&i.0))
                {
                    return Err(self.cannot_meet(item, &Item::text("a dict of other keys")));
                }
                let both = forms.into_iter().zip(&*items);
                let both =
                    both.map(|((key, form), (_, item))| Ok((key, self.widened(form, item)?)));
                Ok(Form::Dict(both.collect::<Result<_>>()?))
            }
            (Form::List(forms), Item::List(cell)) => match &*cell.borrow() {
                Elements::Known(items) if items.len() == forms.len() => {
                    Ok(Form::List(both(forms, items)?))
                }
                elements => self.widened_list(&forms, elements),
            },
            (Form::Sequence(ty), Item::List(cell)) => {
                let other = match &*cell.borrow() {
                    Elements::Known(items) => self.common_type(items)?,
                    Elements::Sequence(var) => self.element_type(*var),
                    Elements::Numbers(..) => {
                        return Err(self.cannot_meet(item, &Item::text("a list of tensors")));
                    }
                };
                Ok(Form::Sequence(either(ty, other)))
            }
            (Form::Numbers(kind), Item::List(cell)) => match &*cell.borrow() {
                Elements::Known(items) if items.is_empty() => Ok(Form::Numbers(kind)),
                Elements::Known(items) => match common_kind(items.iter()) {
                    Some(other) => Ok(Form::Numbers(kind.max(other))),
                    None => Err(self.cannot_meet(item, &Item::text("a list of numbers"))),
                },
                Elements::Numbers(_, other) => Ok(Form::Numbers(kind.max(*other))),
                Elements::Sequence(_) => {
                    Err(self.cannot_meet(item, &Item::text("a list of numbers")))
                }
            },
            (_, item) => Err(self.cannot_meet(item, &Item::text("a value of another kind"))),
        }
    }

    /// The form of a list that has another length than `forms`, or one that is not known.
    fn widened_list(&self, forms: &[Form], elements: &Elements) -> Result<Form> {
        if let Elements::Known(items) = elements {
            self.keeps_lengths(items)?;
        }
        let before = forms.iter().map(kind_of_form).reduce(meet);
        let numbers = match elements {
            Elements::Known(items) if items.is_empty() => before,
            Elements::Known(items) => {
                Some(before.into_iter().fold(common_kind(items.iter()), meet))
            }
            Elements::Numbers(_, kind) => Some(before.into_iter().fold(Some(*kind), meet)),
            Elements::Sequence(_) => None,
        };
        if let Some(kind) = numbers.flatten() {
            if self.trial.unrollable.get() {
                let message = "A list of numbers grows in a loop.";
                return Err(self.problem(Code::LayerUnsupported, message));
            }
            return Ok(Form::Numbers(kind));
        }
        let before = forms.iter().map(type_of_form).reduce(either).flatten();
        let other = match elements {
            Elements::Known(items) => self.common_type(items)?,
            Elements::Sequence(var) => self.element_type(*var),
            Elements::Numbers(..) => None,
        };
        Ok(Form::Sequence(either(before, other)))
    }

    /// A container as the forms of what it holds.
    fn opened(&self, item: &Item) -> Form {
        let fixed = |items: &[Item]| items.iter().cloned().map(Form::Fixed).collect();
        match item {
            Item::Tuple(items) => Form::Tuple(fixed(items)),
            Item::Record(class, items) => Form::Record(class.clone(), fixed(items)),
            Item::List(cell) => match &*cell.borrow() {
                Elements::Known(items) => Form::List(fixed(items)),
                Elements::Sequence(var) => Form::Sequence(self.element_type(*var)),
                Elements::Numbers(_, kind) => Form::Numbers(*kind),
            },
            Item::Dict(cell) => {
                let items = cell.borrow();
                Form::Dict(items.iter().map(|(k, v)| (k.clone(), Form::Fixed(v.clone()))).collect())
            }
            other => Form::Fixed(other.clone()),
        }
    }

    fn common_type(&self, items: &[Item]) -> Result<Option<ValueType>> {
        let mut common = None;
        for item in items {
            let ty = self.type_of(self.var_of(item)?);
            common = either(common, Some(ty));
        }
        Ok(common)
    }

    fn element_type(&self, sequence: Var) -> Option<ValueType> {
        match self.builder().type_of(sequence)? {
            ValueType::Sequence(of) => Some(*of),
            _ => None,
        }
    }

    fn type_of(&self, var: Var) -> ValueType {
        let unknown = ValueType::Tensor { dtype: None, shape: None };
        self.builder().type_of(var).unwrap_or(unknown)
    }

    fn cannot_meet(&self, item: &Item, other: &Item) -> Diagnostic {
        let other = match other {
            Item::Text(text) => text.to_string(),
            other => other.what(),
        };
        let message = format!(
            "Paths of the program give {} and {other}, which cannot be one value.",
            item.what()
        );
        self.problem(Code::LayerUnsupported, message)
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
}

/// The form, or the item itself if all its parts are the same on all paths.
fn simplified(form: Form, item: &Item) -> Form {
    let fixed = match &form {
        Form::Tuple(forms) | Form::Record(_, forms) | Form::List(forms) => {
            forms.iter().all(Form::is_fixed)
        }
        Form::Dict(forms) => forms.iter().all(|(_, form)| form.is_fixed()),
        _ => false,
    };
    if fixed { Form::Fixed(item.clone()) } else { form }
}

/// The kind of a form that is a number.
fn kind_of_form(form: &Form) -> Option<NumberKind> {
    match form {
        Form::Fixed(item) => common_kind(std::iter::once(item)),
        Form::Number(kind) => Some(*kind),
        _ => None,
    }
}

fn meet(a: Option<NumberKind>, b: Option<NumberKind>) -> Option<NumberKind> {
    a.zip(b).map(|(a, b)| a.max(b))
}

fn type_of_form(form: &Form) -> Option<ValueType> {
    match form {
        Form::Tensor(ty) => Some(ty.clone()),
        _ => None,
    }
}

fn either(a: Option<ValueType>, b: Option<ValueType>) -> Option<ValueType> {
    match (a, b) {
        (Some(a), Some(b)) => Some(common_type(&a, &b)),
        (a, b) => a.or(b),
    }
}

/// What is known of a tensor that has either type.
fn common_type(a: &ValueType, b: &ValueType) -> ValueType {
    let dtype = a.dtype().filter(|dtype| Some(*dtype) == b.dtype());
    let shape = match (a.shape(), b.shape()) {
        (Some(a), Some(b)) if a.len() == b.len() => Some(
            a.iter()
                .zip(b)
                .map(|(a, b)| if a.same(b) { a.clone() } else { Dim::Unknown })
                .collect(),
        ),
        _ => None,
    };
    ValueType::Tensor { dtype, shape }
}
