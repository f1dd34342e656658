//! The kinds of arguments, by which a call finds its overload.

use super::{Elements, Item, Machine, NumberKind};
use crate::schema::resolve::ArgumentKind;

impl Machine<'_> {
    pub(super) fn kind(&self, item: &Item) -> ArgumentKind {
        let kinds = |items: &[Item]| items.iter().map(|item| self.kind(item)).collect::<Vec<_>>();
        match item {
            Item::None => ArgumentKind::None,
            Item::Bool(_) => ArgumentKind::Bool,
            Item::Int(_) => ArgumentKind::Int,
            Item::Float(_) => ArgumentKind::Float,
            Item::Complex(..) => ArgumentKind::Complex,
            Item::Text(_) => ArgumentKind::Text,
            Item::Device(_) => ArgumentKind::Device,
            Item::Number(number) => kind_of_number(number.kind),
            Item::Tensor(view) => {
                let rank = self.read(view).ok().and_then(|var| self.builder().rank_of(var));
                ArgumentKind::Tensor(rank)
            }
            Item::List(cell) => match &*cell.borrow() {
                Elements::Sequence(_) => ArgumentKind::List(vec![ArgumentKind::Tensor(None)]),
                Elements::Numbers(_, kind) => ArgumentKind::List(vec![kind_of_number(*kind)]),
                Elements::Known(items) => {
                    let mut kinds = kinds(items);
                    kinds.dedup();
                    ArgumentKind::List(kinds)
                }
            },
            Item::Tuple(items) | Item::Record(_, items) => ArgumentKind::Tuple(kinds(items)),
            Item::Dict(cell) => {
                let items = cell.borrow();
                let mut kinds: Vec<_> =
                    items.iter().map(|(k, v)| (self.kind(k), self.kind(v))).collect();
                kinds.dedup();
                ArgumentKind::Dict(kinds)
            }
            Item::Object(object) => ArgumentKind::Object(object.class.clone()),
            Item::Member(..) => ArgumentKind::Enum,
            Item::Maybe(_, item) => self.kind(item),
            Item::Function(..) | Item::Method(..) | Item::Path(_) => ArgumentKind::Any,
            Item::Uninitialized(_) | Item::Hole => ArgumentKind::Any,
        }
    }
}

fn kind_of_number(kind: NumberKind) -> ArgumentKind {
    match kind {
        NumberKind::Bool => ArgumentKind::Bool,
        NumberKind::Int => ArgumentKind::Int,
        NumberKind::Float => ArgumentKind::Float,
    }
}

/// The kinds that a tracer sees: it records numbers as tensors of rank 0.
pub(super) fn as_traced(kind: &ArgumentKind) -> ArgumentKind {
    match kind {
        ArgumentKind::Int | ArgumentKind::Float | ArgumentKind::Bool => {
            ArgumentKind::Tensor(Some(0))
        }
        ArgumentKind::List(kinds) => ArgumentKind::List(kinds.iter().map(as_traced).collect()),
        other => other.clone(),
    }
}
