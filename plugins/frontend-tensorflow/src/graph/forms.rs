//! What the values of a graph are to conditions and loops: tensors, lists, and what is the same on all paths.

use super::extent::Extent;
use super::item::{ElementSizes, GraphItem, ListForm as Elements, TensorList};
use super::scans::{self, Scan};
use super::truth::{no_condition, truth};
use super::turns::{self, Counter, Limit};
use crate::ops::RowContext;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{Dim, ValueId, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::lower::flow::{Carried, NO_COMMON_FORM, Paths, either_type};
use std::cell::RefCell;
use std::rc::Rc;

/// What a value is that several paths give.
#[derive(Clone)]
pub(crate) enum Form {
    /// The same on all paths.
    Fixed(GraphItem),
    /// A tensor of this type.
    Tensor(ValueType),
    /// A list like this one, as one tensor or sequence; its type, if it is known.
    List(Rc<TensorList>, Option<ValueType>),
}

/// Conditions and loops of a graph.
pub(crate) struct Forms<'d, 's> {
    driver: &'d Driver<'s, RowContext>,
    /// The shapes that the source declares for the values of a loop.
    declared: &'d [Option<Vec<Dim>>],
    found: RefCell<LoopFacts>,
}

/// What the body of a loop says beside what it carries.
#[derive(Default)]
pub(crate) struct LoopFacts {
    /// The limits of its counters alone, if nothing else ends the loop.
    pub(super) limits: Option<Vec<Limit>>,
    pub(super) scans: Vec<(usize, Scan)>,
    /// The sizes of the elements of lists, by the numbers of the values.
    pub(super) extents: Vec<(usize, Extent)>,
}

impl<'d, 's> Forms<'d, 's> {
    pub(super) fn new(driver: &'d Driver<'s, RowContext>) -> Forms<'d, 's> {
        Forms { driver, declared: &[], found: RefCell::default() }
    }

    /// Those of a loop for whose values the source declares shapes.
    pub(super) fn with_declared(self, declared: &'d [Option<Vec<Dim>>]) -> Forms<'d, 's> {
        Forms { declared, ..self }
    }

    /// What the body of the loop says.
    pub(super) fn found(&self) -> LoopFacts {
        self.found.take()
    }

    fn b(&self) -> &'d GraphBuilder {
        self.driver.builder()
    }

    /// What the body of a loop gets at first: the type that goes in, or the value itself if it is the same in each
    /// turn.
    pub(super) fn begin(&self, item: &GraphItem, is_constant: bool) -> Form {
        match item {
            GraphItem::Tensor(v) if !is_constant => Form::Tensor(type_of(self.b(), *v)),
            GraphItem::List(list) if !is_constant => match list.whole_type(self.b()) {
                Some(ty) => Form::List(list.clone(), Some(ty)),
                // The first turn tells what its elements are.
                None => Form::Fixed(item.clone()),
            },
            _ => Form::Fixed(item.clone()),
        }
    }

    /// The form of a list that the body of a loop gets, of which a turn gives `next`.
    fn carried_list(&self, begin: &Rc<TensorList>, ty: &ValueType, next: &TensorList) -> Form {
        let of = |extent: Extent, ty| Form::List(Rc::new(begin.sized(extent)), Some(ty));
        if next.is_sequence {
            let found = next.whole_type(self.b());
            let common = found.and_then(|found| ty.either(&found));
            return match common.filter(|common| common != ty) {
                Some(common) => of(Extent::Varying, common),
                None => Form::List(begin.clone(), Some(ty.clone())),
            };
        }
        // A turn may add elements.
        let element = next.element.as_ref();
        let declared = element.map(|e| [&[Dim::Unknown], e.as_slice()].concat());
        let found = match &next.form {
            Elements::Stacked(v) => type_of(self.b(), *v),
            _ => next.stacked_type(self.b()).unwrap_or_else(unknown),
        };
        Form::List(begin.clone(), Some(wider(ty, &found, declared.as_deref())))
    }

    /// The size of the elements of a list that goes through a turn; none of what is no list.
    fn extent(&self, carried: &Carried<Self>, next: &GraphItem) -> Option<Extent> {
        match (&carried.form, &carried.item, next) {
            (Form::List(..), GraphItem::List(list), GraphItem::List(next)) => {
                Some(list.extent.clone().and(next.extent.clone().repeated(self.b())))
            }
            _ => None,
        }
    }
}

impl Paths for Forms<'_, '_> {
    type Source = RowContext;
    type Key = usize;
    type Item = GraphItem;
    type Form = Form;
    type Block = ();

    fn driver(&self) -> &Driver<'_, RowContext> {
        self.driver
    }

    fn fixed(&self, item: GraphItem) -> Form {
        Form::Fixed(item)
    }

    fn form_of(&self, item: &GraphItem) -> Result<Form> {
        Ok(match item {
            GraphItem::List(list) => Form::List(list.clone(), known_type(self.b(), list)),
            other => Form::Fixed(other.clone()),
        })
    }

    fn widened(&self, form: Form, item: &GraphItem) -> Result<Form> {
        Ok(match (form, item) {
            (Form::Fixed(GraphItem::Hole), _) | (_, GraphItem::Hole) => {
                Form::Fixed(GraphItem::Hole)
            }
            (Form::Fixed(fixed), item) if is_same(&fixed, item) => Form::Fixed(fixed),
            // A value of one arm is of another graph than one of the other.
            (Form::Fixed(GraphItem::Tensor(_)), GraphItem::Tensor(_)) => Form::Tensor(unknown()),
            (Form::List(list, _), GraphItem::List(other)) if Rc::ptr_eq(&list, other) => {
                Form::Fixed(GraphItem::List(list))
            }
            (Form::List(list, ty), GraphItem::List(other)) => {
                let ty = either_type(ty, known_type(self.b(), other));
                Form::List(Rc::new(list.or(other, ty.as_ref().and_then(element))), ty)
            }
            _ => {
                let message =
                    "The branches of a condition give different kinds of values or variables.";
                self.driver.report(self.b().diagnostic(Code::LayerUnsupported, message));
                Form::Fixed(GraphItem::Hole)
            }
        })
    }

    fn types(&self, form: &Form) -> Vec<ValueType> {
        match form {
            Form::Fixed(_) => vec![],
            Form::Tensor(ty) => vec![ty.clone()],
            Form::List(_, ty) => vec![ty.clone().unwrap_or_else(unknown)],
        }
    }

    fn packed(&self, form: &Form, item: &GraphItem) -> Result<Vec<Var>> {
        let value = match (form, item) {
            (Form::Fixed(_), _) => return Ok(vec![]),
            (Form::Tensor(_), GraphItem::Tensor(v)) => *v,
            (Form::List(like, ty), GraphItem::List(list)) => {
                let element = ty.as_ref().and_then(element);
                match like.is_sequence && !list.is_sequence {
                    true => list.as_sequence().whole(self.b(), element)?,
                    false => list.whole(self.b(), element)?,
                }
            }
            // What is neither was reported.
            _ => self.b().placeholder(self.types(form).pop()),
        };
        Ok(vec![value])
    }

    fn unpacked(&self, form: &Form, from: &mut dyn Iterator<Item = Var>) -> GraphItem {
        match form {
            Form::Fixed(item) => item.clone(),
            Form::Tensor(_) => from.next().map_or(GraphItem::Hole, GraphItem::Tensor),
            Form::List(like, _) => {
                from.next().map_or(GraphItem::Hole, |v| GraphItem::List(Rc::new(like.with(v))))
            }
        }
    }

    fn truth(&self, condition: &GraphItem) -> Result<Var> {
        match condition {
            GraphItem::Tensor(v) => truth(self.b(), *v),
            _ => Err(no_condition(self.b())),
        }
    }

    fn alike(&self, a: &Form, b: &Form) -> bool {
        match (a, b) {
            (Form::Fixed(_), Form::Fixed(_)) => true,
            (Form::Tensor(a), Form::Tensor(b)) => a == b,
            (Form::List(x, a), Form::List(y, b)) => a == b && x.extent == y.extent,
            _ => false,
        }
    }

    fn role(&self, form: &Form) -> &'static str {
        if matches!(form, Form::List(..)) { "list" } else { "state" }
    }

    fn carried(&self, carried: &Carried<Self>, next: &GraphItem) -> Result<Form> {
        let (b, Carried { form, begin, item, .. }) = (self.b(), carried);
        let declared = self.declared.get(carried.key).and_then(Option::as_deref);
        let form = match (form, begin, next) {
            (_, _, GraphItem::Hole) => form.clone(),
            (Form::Fixed(_), begin, next) if is_same(begin, next) => form.clone(),
            (Form::Fixed(_), GraphItem::Tensor(v), GraphItem::Tensor(_)) => {
                Form::Tensor(type_of(b, *v))
            }
            (Form::Fixed(_), GraphItem::List(list), GraphItem::List(next)) => {
                let extent = next.extent.clone().repeated(b);
                let ty = next.whole_type(b);
                ty.map_or(form.clone(), |ty| Form::List(Rc::new(list.sized(extent)), Some(ty)))
            }
            // A turn gives what it gets.
            (Form::Tensor(_), _, GraphItem::Tensor(_))
                if is_same(item, next) || is_same(begin, next) =>
            {
                Form::Fixed(begin.clone())
            }
            (Form::List(..), _, GraphItem::List(_)) if is_same(item, next) => {
                Form::Fixed(begin.clone())
            }
            (Form::Tensor(ty), _, GraphItem::Tensor(v)) => {
                Form::Tensor(wider(ty, &type_of(b, *v), declared))
            }
            (Form::List(like, Some(ty)), _, GraphItem::List(next)) => {
                self.carried_list(like, ty, next)
            }
            _ => form.clone(),
        };
        // What reads the list in the body must know the size, too.
        Ok(match (form, self.extent(carried, next), item) {
            (Form::List(like, ty), Some(extent), GraphItem::List(list))
                if input(b, list).is_some_and(|input| b.graph().uses(input) > 0) =>
            {
                Form::List(Rc::new(like.sized(extent)), ty)
            }
            (form, _, _) => form,
        })
    }

    fn ended(
        &self,
        carried: &mut [Carried<Self>],
        condition: Option<&GraphItem>,
        go_on: Var,
    ) -> Result<Var> {
        let b = self.b();
        let counters: Vec<Counter> = carried.iter().filter_map(|c| counter(b, c)).collect();
        let condition = match condition {
            Some(GraphItem::Tensor(v)) => truth(b, *v)?,
            Some(GraphItem::Hole) | None => go_on,
            Some(GraphItem::Resource(_) | GraphItem::List(_)) => {
                if self.driver.findings() == 0 {
                    self.driver.report(no_condition(b));
                }
                go_on
            }
        };
        let limits = turns::limits(b, condition, &counters);
        let condition = if limits.is_some() { go_on } else { condition };
        let mut found = LoopFacts { limits, ..LoopFacts::default() };
        for (at, carried) in carried.iter_mut().enumerate() {
            if !has_form(carried) {
                self.driver.report(formless(b));
            }
            let Some(extent) = self.extent(carried, &carried.next) else { continue };
            found.extents.push((at, extent));
            if let (GraphItem::List(list), GraphItem::List(next)) = (&carried.item, &carried.next)
                && let Some(input) = input(b, list)
                && let Some((item, scan)) = scans::scan(b, (input, list), next, &counters)
            {
                carried.stacked = Some(item);
                found.scans.push((at, scan));
            }
        }
        self.found.replace(found);
        Ok(condition)
    }

    // What an arm or a turn writes to variables is among its values.
    fn begin_block(&self) {}

    fn suspend_block(&self) {}

    fn resume_block(&self, (): ()) {}
}

/// The finding for values that have no common form.
pub(super) fn formless(b: &GraphBuilder) -> Diagnostic {
    b.diagnostic(Code::LayerUnsupported, NO_COMMON_FORM)
}

/// A value of a loop that is a counter.
fn counter(b: &GraphBuilder, carried: &Carried<Forms<'_, '_>>) -> Option<Counter> {
    let Carried { form: Form::Tensor(_), begin, item, next, .. } = carried else { return None };
    let (GraphItem::Tensor(begin), GraphItem::Tensor(state), GraphItem::Tensor(next)) =
        (begin, item, next)
    else {
        return None;
    };
    let step = turns::step(b, *state, *next)?;
    Some(Counter { state: *state, next: *next, begin: *begin, step })
}

/// The input of the body that is a list.
fn input(b: &GraphBuilder, list: &TensorList) -> Option<ValueId> {
    match list.form {
        Elements::Stacked(v) | Elements::Sequence(v) => b.id(v).ok(),
        _ => None,
    }
}

/// Whether what a turn gives may go into the next one.
fn has_form(carried: &Carried<Forms<'_, '_>>) -> bool {
    let Carried { form, begin, next, .. } = carried;
    matches!(next, GraphItem::Hole)
        || matches!(begin, GraphItem::Hole)
        || is_given(form, begin, next)
}

/// Whether a turn gives a value of a form.
pub(super) fn is_given(form: &Form, begin: &GraphItem, next: &GraphItem) -> bool {
    match (form, next) {
        (Form::Tensor(_), GraphItem::Tensor(_)) | (Form::List(..), GraphItem::List(_)) => true,
        (Form::Fixed(_), next) => is_same(begin, next),
        _ => false,
    }
}

fn unknown() -> ValueType {
    ValueType::Tensor { dtype: None, shape: None }
}

fn type_of(b: &GraphBuilder, v: Var) -> ValueType {
    b.type_of(v).unwrap_or_else(unknown)
}

/// The sizes of an element, of the type of a list.
fn element(ty: &ValueType) -> ElementSizes {
    match ty {
        ValueType::Sequence(element) => element.shape().map(<[Dim]>::to_vec),
        ty => ty.shape().map(|shape| shape[1.min(shape.len())..].to_vec()),
    }
}

/// What is known of a list that an arm gives, as the type of a sequence. A size that the arm computes has no meaning
/// outside of it.
fn known_type(b: &GraphBuilder, list: &TensorList) -> Option<ValueType> {
    let size = |n: &Dim| n.known().map_or(Dim::Unknown, Dim::Known);
    let shape = Some(element(&list.whole_type(b)?)?.iter().map(size).collect());
    Some(ValueType::Sequence(Box::new(ValueType::Tensor { dtype: list.dtype, shape })))
}

/// Whether two items are the same thing outside of arms and bodies.
fn is_same(x: &GraphItem, y: &GraphItem) -> bool {
    match (x, y) {
        (GraphItem::Tensor(x), GraphItem::Tensor(y)) => x == y,
        (GraphItem::List(x), GraphItem::List(y)) => Rc::ptr_eq(x, y),
        (GraphItem::Resource(x), GraphItem::Resource(y)) => x.name == y.name,
        (_, GraphItem::Hole) => true,
        _ => false,
    }
}

/// The type that a state of type `ty` needs if a turn gives `next`. Where the turn does not tell a size, the source
/// may.
fn wider(ty: &ValueType, next: &ValueType, declared: Option<&[Dim]>) -> ValueType {
    let Some(shape) = ty.shape() else { return ty.clone() };
    let says = |at: usize| declared.and_then(|d| d.get(at)).filter(|size| size.known().is_some());
    let size = |(at, size): (usize, &Dim)| match next.shape().map(|next| &next[at]) {
        None => says(at).cloned().unwrap_or(Dim::Unknown),
        Some(next) if size.same(next) => size.clone(),
        Some(next) if next.known().is_none() && says(at) == Some(size) => size.clone(),
        Some(_) => Dim::Unknown,
    };
    let rank = next.shape().or(declared).map(<[Dim]>::len);
    let shape = (rank == Some(shape.len())).then(|| shape.iter().enumerate().map(size).collect());
    ValueType::Tensor { dtype: ty.dtype().or(next.dtype()), shape }
}
