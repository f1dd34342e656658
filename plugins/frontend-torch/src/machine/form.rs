//! What values have in common that come from different paths of a program: which parts are the same on all paths, and
//! which have to be values of the graph.

use super::sequences::common_kind;
use super::{Item, Machine, NumberKind, Result};
use crate::diag::{Code, Diagnostic};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::ValueType;
use onnxd_plugin_sdk::lower::flow::either_type;
use std::rc::Rc;

/// The type of a tensor of which nothing is known.
const UNKNOWN: ValueType = ValueType::Tensor { dtype: None, shape: None };

/// The form of a value that several paths give.
#[derive(Clone, Debug)]
pub(crate) enum JoinForm {
    /// The same on all paths.
    Fixed(Item),
    Tensor(ValueType),
    Number(NumberKind),
    /// A list whose length depends on the path; the type of its tensors, if one is known.
    Sequence(Option<ValueType>),
    /// A list of numbers whose length depends on the path.
    Numbers(NumberKind),
    /// None on some paths.
    Maybe(Box<JoinForm>),
    /// A container like this one, with the forms of its parts.
    Parts(Item, Vec<JoinForm>),
}

impl JoinForm {
    /// Whether it is the same on all paths.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self, JoinForm::Fixed(_))
    }

    fn maybe(form: JoinForm) -> JoinForm {
        match form {
            JoinForm::Maybe(_) => form,
            form => JoinForm::Maybe(Box::new(form)),
        }
    }
}

impl Machine<'_> {
    /// The form of a value that one path gives, in the graph where it was computed.
    pub(crate) fn form_of(&self, item: &Item) -> Result<JoinForm> {
        let fixed = || JoinForm::Fixed(item.clone());
        Ok(match self.opened(item)? {
            JoinForm::Parts(container, _) => {
                let parts = item.parts().unwrap_or_default();
                let forms =
                    parts.iter().map(|part| self.form_of(part)).collect::<Result<Vec<_>>>()?;
                match forms.iter().all(JoinForm::is_fixed) {
                    true => fixed(),
                    false => JoinForm::Parts(container, forms),
                }
            }
            JoinForm::Maybe(_) => match item {
                Item::Maybe(_, inner) if self.has_own(item) => {
                    JoinForm::maybe(self.computed(self.form_of(inner)?, item)?)
                }
                _ => fixed(),
            },
            form if self.has_own(item) => form,
            _ => fixed(),
        })
    }

    /// A value as a form whose parts are the same on all paths, if it is a container, or else as a value of the graph.
    fn opened(&self, item: &Item) -> Result<JoinForm> {
        Ok(match item {
            Item::Tensor(view) => JoinForm::Tensor(self.type_of(self.read(view)?)),
            Item::Number(number) => JoinForm::Number(number.kind),
            Item::Bool(_) => JoinForm::Number(NumberKind::Bool),
            Item::Int(_) => JoinForm::Number(NumberKind::Int),
            Item::Float(_) => JoinForm::Number(NumberKind::Float),
            Item::Maybe(_, inner) => JoinForm::maybe(JoinForm::Fixed((**inner).clone())),
            other => match (other.parts(), other.elements_var()) {
                // The container may change until the form is used.
                (Some(parts), _) => JoinForm::Parts(
                    item.with_parts(parts.clone()),
                    parts.into_iter().map(JoinForm::Fixed).collect(),
                ),
                (None, Some((_, Some(kind)))) => JoinForm::Numbers(kind),
                (None, Some((var, None))) => JoinForm::Sequence(self.element_type(var)),
                (None, None) => JoinForm::Fixed(item.clone()),
            },
        })
    }

    /// A form that is a value of the graph, even if all paths so far give the same.
    fn computed(&self, form: JoinForm, of: &Item) -> Result<JoinForm> {
        let JoinForm::Fixed(item) = form else { return Ok(form) };
        Ok(match (self.opened(&item)?, &item) {
            (JoinForm::Parts(..), Item::List(_)) => {
                let items = item.items().unwrap_or_default();
                match common_kind(items.iter()) {
                    Some(kind) => JoinForm::Numbers(kind),
                    None => JoinForm::Sequence(self.common_type(&items)?),
                }
            }
            (JoinForm::Parts(_, forms), Item::Tuple(_)) => {
                let forms = forms.into_iter().map(|form| self.computed(form, of));
                JoinForm::Parts(item, forms.collect::<Result<_>>()?)
            }
            (JoinForm::Parts(..) | JoinForm::Maybe(_) | JoinForm::Fixed(_), other) => {
                return Err(self.cannot_meet(other, &of.what()));
            }
            (form, _) => form,
        })
    }

    /// The form of what is either of `form` or `item`, which is a value in the present graph.
    pub(crate) fn widened(&self, form: JoinForm, item: &Item) -> Result<JoinForm> {
        if let JoinForm::Fixed(fixed) = &form
            && fixed.same(item)
        {
            return Ok(form);
        }
        match (form, item) {
            (form, Item::Uninitialized(_) | Item::Hole) => Ok(form),
            (JoinForm::Fixed(Item::Uninitialized(_) | Item::Hole), item) => self.form_of(item),
            (JoinForm::Fixed(Item::Maybe(_, inner)), item) => {
                let form = self.computed(JoinForm::Fixed((*inner).clone()), item)?;
                self.widened(JoinForm::maybe(form), item)
            }
            (JoinForm::Maybe(inner), Item::None) => Ok(JoinForm::Maybe(inner)),
            (JoinForm::Maybe(inner), Item::Maybe(_, item)) => {
                Ok(JoinForm::Maybe(Box::new(self.widened(*inner, item)?)))
            }
            (JoinForm::Maybe(inner), item) => {
                Ok(JoinForm::Maybe(Box::new(self.widened(*inner, item)?)))
            }
            (JoinForm::Fixed(Item::None), item) => {
                Ok(JoinForm::maybe(self.computed(self.form_of(item)?, item)?))
            }
            (form, Item::None) => Ok(JoinForm::maybe(self.computed(form, item)?)),
            (form, Item::Maybe(_, inner)) => {
                Ok(JoinForm::maybe(self.computed(self.widened(form, inner)?, inner)?))
            }
            (JoinForm::Fixed(fixed), item) => self.widened_present(self.opened(&fixed)?, item),
            (form, item) => self.widened_present(form, item),
        }
    }

    /// As [`Machine::widened`], of what is None on no path.
    fn widened_present(&self, form: JoinForm, item: &Item) -> Result<JoinForm> {
        let other = self.opened(item)?;
        match (form, other) {
            (JoinForm::Tensor(ty), JoinForm::Tensor(other)) => {
                Ok(JoinForm::Tensor(ty.either(&other).unwrap_or(UNKNOWN)))
            }
            (JoinForm::Tensor(ty), JoinForm::Number(_)) => {
                let scalar = ValueType::Tensor { dtype: ty.dtype(), shape: Some(vec![]) };
                Ok(JoinForm::Tensor(ty.either(&scalar).unwrap_or(UNKNOWN)))
            }
            (JoinForm::Tensor(_), _) => Err(self.cannot_meet(item, "a tensor")),
            (JoinForm::Number(kind), JoinForm::Number(other)) => {
                Ok(JoinForm::Number(kind.max(other)))
            }
            (JoinForm::Number(_), JoinForm::Tensor(other)) => Ok(JoinForm::Tensor(other)),
            (JoinForm::Number(_), _) => Err(self.cannot_meet(item, "a number")),
            (JoinForm::Parts(container, forms), JoinForm::Parts(..))
                if is_like(&container, item) =>
            {
                let parts = item.parts().unwrap_or_default();
                let forms = forms.into_iter().zip(&parts).map(|(f, part)| self.widened(f, part));
                Ok(JoinForm::Parts(container, forms.collect::<Result<_>>()?))
            }
            (JoinForm::Parts(Item::Dict(_), _), JoinForm::Parts(Item::Dict(_), _)) => {
                Err(self.cannot_meet(item, "a dict of other keys"))
            }
            (
                form @ (JoinForm::Parts(Item::List(_), _)
                | JoinForm::Sequence(_)
                | JoinForm::Numbers(_)),
                JoinForm::Parts(Item::List(_), _) | JoinForm::Sequence(_) | JoinForm::Numbers(_),
            ) => self.widened_list(form, item),
            _ => Err(self.cannot_meet(item, "a value of another kind")),
        }
    }

    /// The form of a list whose length depends on the path.
    fn widened_list(&self, form: JoinForm, item: &Item) -> Result<JoinForm> {
        let known = item.items();
        let (other_kind, other) = match (&known, self.opened(item)?) {
            (Some(items), _) if items.is_empty() => (None, None),
            (Some(items), _) => (Some(common_kind(items.iter())), None),
            (None, JoinForm::Numbers(kind)) => (Some(Some(kind)), None),
            (None, JoinForm::Sequence(ty)) => (Some(None), ty),
            (None, _) => (Some(None), None),
        };
        let is_numbers = known.is_none() && matches!(other_kind, Some(Some(_)));
        let element = || match &known {
            Some(items) => self.common_type(items),
            None => Ok(other),
        };
        match form {
            JoinForm::Numbers(kind) => {
                match other_kind.map_or(Some(kind), |other| meet(Some(kind), other)) {
                    Some(kind) => Ok(JoinForm::Numbers(kind)),
                    None => Err(self.cannot_meet(item, "a list of numbers")),
                }
            }
            JoinForm::Sequence(_) if is_numbers => Err(self.cannot_meet(item, "a list of tensors")),
            JoinForm::Sequence(ty) => Ok(JoinForm::Sequence(either_type(ty, element()?))),
            JoinForm::Parts(_, forms) => {
                if let Some(items) = &known {
                    self.keeps_lengths(items)?;
                }
                let before = forms.iter().map(kind_of_form).reduce(meet);
                let kind = before.into_iter().chain(other_kind).reduce(meet).flatten();
                if let Some(kind) = kind {
                    if self.trial.unrollable.get() {
                        let message = "A list of numbers grows in a loop.";
                        return Err(self.problem(Code::LayerUnsupported, message));
                    }
                    return Ok(JoinForm::Numbers(kind));
                }
                let before = forms.iter().map(type_of_form).reduce(either_type).flatten();
                Ok(JoinForm::Sequence(either_type(before, element()?)))
            }
            other => Ok(other),
        }
    }

    fn common_type(&self, items: &[Item]) -> Result<Option<ValueType>> {
        let mut common = None;
        for item in items {
            common = either_type(common, Some(self.type_of(self.var_of(item)?)));
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
        self.builder().type_of(var).unwrap_or(UNKNOWN)
    }

    fn cannot_meet(&self, item: &Item, other: &str) -> Diagnostic {
        let message = format!(
            "Paths of the program give {} and {other}, which cannot be one value.",
            item.what()
        );
        self.problem(Code::LayerUnsupported, message)
    }
}

/// Whether two containers differ at most in their parts.
fn is_like(a: &Item, b: &Item) -> bool {
    match (a, b) {
        (Item::Record(a, _), Item::Record(b, _)) if !Rc::ptr_eq(a, b) => return false,
        (Item::Dict(a), Item::Dict(b)) => {
            let (a, b) = (a.borrow(), b.borrow());
            return a.len() == b.len() && a.iter().zip(&*b).all(|(a, b)| a.0.same(&b.0));
        }
        _ => {}
    }
    let count = |item: &Item| item.parts().map(|parts| parts.len());
    std::mem::discriminant(a) == std::mem::discriminant(b) && count(a) == count(b)
}

/// The kind of a form that is a number.
fn kind_of_form(form: &JoinForm) -> Option<NumberKind> {
    match form {
        JoinForm::Fixed(item) => common_kind(std::iter::once(item)),
        JoinForm::Number(kind) => Some(*kind),
        _ => None,
    }
}

fn meet(a: Option<NumberKind>, b: Option<NumberKind>) -> Option<NumberKind> {
    a.zip(b).map(|(a, b)| a.max(b))
}

fn type_of_form(form: &JoinForm) -> Option<ValueType> {
    match form {
        JoinForm::Tensor(ty) => Some(ty.clone()),
        _ => None,
    }
}
