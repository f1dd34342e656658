//! What the body of a loop gets for each value that the loop carries.

use super::branch::same as same_resource;
use super::extent::Extent;
use super::item::{Form, Item, List};
use super::sequence;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{Dim, ValueType};
use std::rc::Rc;

/// What the body gets for one value.
#[derive(Clone)]
pub(super) enum Slot {
    /// The same in each turn.
    Fixed,
    /// A tensor of this type.
    Tensor(ValueType),
    /// A list, as one tensor or sequence of this type, and the size of its elements.
    List(ValueType, Extent),
}

/// What a slot is in the body.
pub(super) enum Given {
    Fixed,
    Tensor(Var),
    List(onnxd_plugin_sdk::ir::ValueId, Rc<List>),
}

/// What the body gets at first: the type that goes in, or the value itself if it is the same in each turn.
pub(super) fn first_slot(b: &GraphBuilder, item: &Item, is_constant: bool) -> Slot {
    if is_constant {
        return Slot::Fixed;
    }
    match item {
        Item::Tensor(v) => Slot::Tensor(type_of(b, *v)),
        Item::List(list) => match list.whole_type(b) {
            Some(ty) => Slot::List(ty, list.extent.clone()),
            // The first turn tells what its elements are.
            None => Slot::Fixed,
        },
        Item::Resource(_) | Item::Hole => Slot::Fixed,
    }
}

fn type_of(b: &GraphBuilder, v: Var) -> ValueType {
    b.type_of(v).unwrap_or(ValueType::Tensor { dtype: None, shape: None })
}

/// Whether what a turn gives may go into the next one.
pub(super) fn has_form(given: &Given, begin: &Item, next: &Item) -> bool {
    matches!(
        (given, next),
        (_, Item::Hole) | (Given::Tensor(_), Item::Tensor(_)) | (Given::List(..), Item::List(_))
    ) || matches!(begin, Item::Hole)
        || matches!(given, Given::Fixed) && is_same(begin, next)
}

/// The slot that a value needs, if it is another one.
pub(super) fn widened(
    b: &GraphBuilder,
    (slot, given): (&Slot, &Given),
    begin: &Item,
    next: &Item,
    declared: Option<&[Dim]>,
) -> Result<Option<Slot>> {
    Ok(match (slot, next) {
        (_, Item::Hole) | (Slot::Fixed, _) if is_same(begin, next) => None,
        (Slot::Fixed, Item::Tensor(_)) => match begin {
            Item::Tensor(v) => Some(Slot::Tensor(type_of(b, *v))),
            _ => None,
        },
        (Slot::Fixed, Item::List(list)) => {
            list.whole_type(b).map(|ty| Slot::List(ty, list.extent.clone().repeated(b)))
        }
        (Slot::Tensor(ty), Item::Tensor(v)) => {
            let unchanged = matches!(given, Given::Tensor(state) if state == v);
            match unchanged || is_same(begin, next) {
                true => Some(Slot::Fixed),
                false => wider(ty, &type_of(b, *v), declared).map(Slot::Tensor),
            }
        }
        (Slot::List(ty, extent), Item::List(list)) => {
            let unchanged = matches!(given, Given::List(_, state) if Rc::ptr_eq(state, list));
            if unchanged {
                return Ok(Some(Slot::Fixed));
            }
            if list.is_sequence {
                let found = list.whole_type(b);
                let common = found.map(|found| sequence::common_type(ty, &found));
                let common = common.filter(|common| common != ty);
                return Ok(common.map(|ty| Slot::List(ty, Extent::Varying)));
            }
            // A turn may add elements.
            let element = list.element.as_ref();
            let declared = element.map(|e| [&[Dim::Unknown], e.as_slice()].concat());
            let found = match &list.form {
                Form::Stacked(v) => type_of(b, *v),
                _ => list.stacked_type(b).unwrap_or(ValueType::Tensor { dtype: None, shape: None }),
            };
            let ty = wider(ty, &found, declared.as_deref());
            ty.map(|ty| Slot::List(ty, extent.clone()))
        }
        _ => None,
    })
}

/// Whether two items are the same thing outside of the body.
pub(super) fn is_same(x: &Item, y: &Item) -> bool {
    match (x, y) {
        (Item::Tensor(x), Item::Tensor(y)) => x == y,
        (Item::List(x), Item::List(y)) => Rc::ptr_eq(x, y),
        (Item::Resource(x), Item::Resource(y)) => same_resource(x, y),
        (_, Item::Hole) => true,
        _ => false,
    }
}

/// The type that a state needs, if it is another one. Where a turn does not tell a size, the source may.
fn wider(ty: &ValueType, next: &ValueType, declared: Option<&[Dim]>) -> Option<ValueType> {
    let dtype = ty.dtype().or(next.dtype());
    let of = |shape| {
        let wider = ValueType::Tensor { dtype, shape };
        (wider != *ty).then_some(wider)
    };
    let shape = ty.shape()?;
    let says = |at: usize| declared.and_then(|d| d.get(at)).filter(|size| size.known().is_some());
    let Some(next) = next.shape() else {
        return match declared.filter(|d| d.len() == shape.len()) {
            None => of(None),
            Some(_) => {
                let sizes = shape.iter().enumerate();
                of(Some(sizes.map(|(at, _)| says(at).cloned().unwrap_or(Dim::Unknown)).collect()))
            }
        };
    };
    if next.len() != shape.len() {
        return of(None);
    }
    let both = shape.iter().zip(next).enumerate();
    let size = |(at, (a, b)): (usize, (&Dim, &Dim))| match a.same(b) {
        true => a.clone(),
        false if b.known().is_none() && says(at) == Some(a) => a.clone(),
        false => Dim::Unknown,
    };
    of(Some(both.map(size).collect()))
}
