//! Lists whose length is known only when the model runs: of tensors, as sequences of the graph; of numbers, as tensors
//! of one axis.

use super::item::SharedObject;
use super::{Elements, Item, Machine, NumberKind, Result};
use crate::diag::Code;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Tensor, ValueType};
use std::rc::Rc;

type SharedElements = Rc<SharedObject<Elements>>;

impl Machine<'_> {
    /// The result of an operator on such a list; `None` if it is none.
    pub(super) fn sequence_op(
        &self,
        name: &str,
        list: &SharedElements,
        rest: &[Item],
    ) -> Result<Option<Item>> {
        let elements = list.borrow().clone();
        match elements {
            Elements::Known(_) => Ok(None),
            Elements::Sequence(var) => self.of_tensors(name, list, var, rest),
            Elements::Numbers(var, kind) => self.of_numbers(name, list, (var, kind), rest),
        }
    }

    fn of_tensors(
        &self,
        name: &str,
        list: &SharedElements,
        var: Var,
        rest: &[Item],
    ) -> Result<Option<Item>> {
        let b = self.builder();
        let set = |new| self.edit_list(list, |elements| *elements = Elements::Sequence(new));
        let index = |at: &Item| self.number_var(at, NumberKind::Int);
        let added = |to: Var, item: &Item| b.sequence_insert(to, self.var_of(item)?).one();
        Ok(Some(match (name, rest) {
            ("len", []) => {
                let length = b.sequence_length(var)?;
                self.sizes.borrow_mut().insert(length);
                self.number(length, NumberKind::Int)
            }
            ("__getitem__", [at]) => self.tensor(b.sequence_at(var, index(at)?)?),
            ("append", [item]) => {
                set(added(var, item)?);
                Item::List(list.clone())
            }
            ("extend" | "add_" | "add", [other]) => {
                let Some(more) = other.items() else { return Err(self.two_of_unknown_length()) };
                let all = more.iter().try_fold(var, added)?;
                if name == "add" {
                    return Ok(Some(Item::elements(Elements::Sequence(all))));
                }
                set(all);
                Item::List(list.clone())
            }
            ("insert", [at, item]) => {
                set(b.sequence_insert(var, self.var_of(item)?).position(index(at)?).one()?);
                Item::None
            }
            ("pop", []) | ("pop", [_]) => {
                let at = index(rest.first().unwrap_or(&Item::Int(-1)))?;
                let item = self.tensor(b.sequence_at(var, at)?);
                set(b.sequence_erase(var).position(at).one()?);
                item
            }
            ("Delete", [at]) => {
                set(b.sequence_erase(var).position(index(at)?).one()?);
                Item::None
            }
            ("_set_item", [at, item]) => {
                let at = index(at)?;
                // The place from the start: behind the end of the shorter list, -1 would be the place before its last.
                let length = b.sequence_length(var)?;
                let at = b.mod_(at, length).one()?;
                let erased = b.sequence_erase(var).position(at).one()?;
                set(b.sequence_insert(erased, self.var_of(item)?).position(at).one()?);
                Item::List(list.clone())
            }
            ("clear", []) => {
                self.edit_list(list, |elements| *elements = Elements::Known(vec![]));
                Item::None
            }
            ("copy" | "list", []) => Item::elements(Elements::Sequence(var)),
            _ => return Ok(None),
        }))
    }

    fn of_numbers(
        &self,
        name: &str,
        list: &SharedElements,
        (var, kind): (Var, NumberKind),
        rest: &[Item],
    ) -> Result<Option<Item>> {
        let b = self.builder();
        let made = |new| Item::elements(Elements::Numbers(new, kind));
        let set = |new| self.edit_list(list, |elements| *elements = Elements::Numbers(new, kind));
        let index = |at: &Item| b.unsqueeze(self.number_var(at, NumberKind::Int)?, [0]);
        let one = |item: &Item| b.unsqueeze(self.number_var(item, kind)?, [0]);
        Ok(Some(match (name, rest) {
            ("len", []) => {
                let length = b.size(var)?;
                self.sizes.borrow_mut().insert(length);
                self.number(length, NumberKind::Int)
            }
            ("__getitem__", [at]) => {
                let at = self.number_var(at, NumberKind::Int)?;
                self.number(b.gather(var, at).one()?, kind)
            }
            ("append", [item]) => {
                set(b.concat([var, one(item)?]).axis(0).one()?);
                Item::List(list.clone())
            }
            ("extend" | "add_" | "add", [other]) => {
                let all = b.concat([var, self.numbers_var(other, kind)?]).axis(0).one()?;
                if name == "add" {
                    return Ok(Some(made(all)));
                }
                set(all);
                Item::List(list.clone())
            }
            ("pop", []) => {
                let item = self.number(b.gather(var, -1).one()?, kind);
                set(b.slice(var, [0], [-1]).axes([0]).one()?);
                item
            }
            ("_set_item", [at, item]) => {
                set(b.scatter_elements(var, index(at)?, one(item)?).axis(0).one()?);
                Item::List(list.clone())
            }
            ("sum", []) if kind != NumberKind::Bool => {
                self.number(b.reduce_sum(var).keepdims(0).one()?, kind)
            }
            ("min", []) if kind != NumberKind::Bool => {
                self.number(b.reduce_min(var).keepdims(0).one()?, kind)
            }
            ("max", []) if kind != NumberKind::Bool => {
                self.number(b.reduce_max(var).keepdims(0).one()?, kind)
            }
            ("__contains__", [item]) => {
                let equal = b.cast(b.equal(var, self.number_var(item, kind)?)?, DataType::Int64)?;
                let count = b.reduce_sum(equal).keepdims(0).one()?;
                self.number(b.cast(count, DataType::Bool)?, NumberKind::Bool)
            }
            ("clear", []) => {
                self.edit_list(list, |elements| *elements = Elements::Known(vec![]));
                Item::None
            }
            ("copy" | "list", []) => made(var),
            _ => return Ok(None),
        }))
    }

    fn two_of_unknown_length(&self) -> crate::diag::Diagnostic {
        let message = "Two lists of tensors are joined, and the length of one is known only when the model runs.";
        self.problem(Code::LayerUnsupported, message)
    }

    /// A list of tensors as a sequence of the present graph.
    pub(super) fn sequence_var(&self, item: &Item, ty: Option<&ValueType>) -> Result<Var> {
        let b = self.builder();
        let items = match item {
            Item::List(cell) => match &*cell.borrow() {
                Elements::Sequence(var) => return Ok(*var),
                Elements::Known(items) => items.clone(),
                Elements::Numbers(..) => return Err(self.no_list_of("tensors", item)),
            },
            Item::Uninitialized(_) | Item::None | Item::Hole => vec![],
            other => return Err(self.no_list_of("tensors", other)),
        };
        let vars = items.iter().map(|item| self.var_of(item)).collect::<Result<Vec<_>>>()?;
        if vars.is_empty() {
            let dtype = ty.and_then(ValueType::dtype);
            return b.sequence_empty().dtype(dtype.unwrap_or(DataType::Float)).one();
        }
        b.sequence_construct(vars)
    }

    /// A list of numbers as a tensor of one axis.
    pub(super) fn numbers_var(&self, item: &Item, kind: NumberKind) -> Result<Var> {
        let b = self.builder();
        let items = match item {
            Item::List(cell) => match &*cell.borrow() {
                Elements::Numbers(var, _) => return b.cast(*var, kind.dtype()),
                Elements::Known(items) => items.clone(),
                Elements::Sequence(_) => return Err(self.no_list_of("numbers", item)),
            },
            Item::Uninitialized(_) | Item::None | Item::Hole => vec![],
            other => return Err(self.no_list_of("numbers", other)),
        };
        let each = items.iter().map(|item| b.unsqueeze(self.number_var(item, kind)?, [0]));
        match each.collect::<Result<Vec<_>>>()?.as_slice() {
            [] => b.cast(b.constant(Tensor::vector(Vec::<i64>::new())), kind.dtype()),
            [one] => Ok(*one),
            all => b.concat(all.iter().copied()).axis(0).one(),
        }
    }

    fn no_list_of(&self, of: &str, item: &Item) -> crate::diag::Diagnostic {
        let message = format!("A list of {of} is needed, found {}.", item.what());
        self.problem(Code::LayerUnsupported, message)
    }

    /// What an operator gives for a list of known length at an index of the graph; `None` if it has none.
    pub(super) fn at_computed_index(
        &self,
        name: &str,
        list: &SharedElements,
        rest: &[Item],
    ) -> Result<Option<Item>> {
        let ("__getitem__" | "_set_item" | "pop" | "Delete" | "insert", [Item::Number(_), ..]) =
            (name, rest)
        else {
            return Ok(None);
        };
        if self.trial.unrollable.get() {
            let message = "A list has an index that depends on the turn of a loop.";
            return Err(self.problem(Code::LayerUnsupported, message));
        }
        let item = Item::List(list.clone());
        let items = item.items().unwrap_or_default();
        let elements = match common_kind(items.iter().chain(rest.get(1))) {
            Some(kind) => Elements::Numbers(self.numbers_var(&item, kind)?, kind),
            None => Elements::Sequence(self.sequence_var(&item, None)?),
        };
        if name == "__getitem__" {
            return self.sequence_op(name, &Rc::new(SharedObject::new(elements)), rest);
        }
        self.edit_list(list, |old| *old = elements);
        self.sequence_op(name, list, rest)
    }
}

/// The kind of numbers that all items are; `None` if one is no number, or there are none.
pub(super) fn common_kind<'i>(items: impl Iterator<Item = &'i Item>) -> Option<NumberKind> {
    let kinds = items.map(|item| match item {
        Item::Bool(_) => Some(NumberKind::Bool),
        Item::Int(_) => Some(NumberKind::Int),
        Item::Float(_) => Some(NumberKind::Float),
        Item::Number(number) => Some(number.kind),
        _ => None,
    });
    kinds.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten()
}
