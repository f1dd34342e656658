//! Lists, tuples and dicts. A list whose length is known holds any values; one that a loop made holds tensors, and is a
//! sequence of the graph.

use super::call::Named;
use super::item::Shared;
use super::python::equal;
use super::{Elements, Item, Machine, Result};
use crate::diag::Code;
use std::rc::Rc;

/// Items that one list may have.
const ITEMS_MAX: usize = 1 << 20;

impl Machine<'_> {
    /// The result of an operator on containers; `None` if it is none.
    pub(crate) fn containers(
        &self,
        name: &str,
        arguments: &[Item],
        named: &Named,
    ) -> Result<Option<Item>> {
        match (name, arguments) {
            ("format", arguments) => {
                match super::python::evaluated(name, arguments).map_err(|why| self.wrong(why))? {
                    Some(text) => Ok(Some(text)),
                    None => Ok(Some(super::python::joined(arguments))),
                }
            }
            ("RaiseException", [message, ..]) => {
                Err(self.raise(&super::python::shown_item(message)))
            }
            ("rangelist", [n]) if n.as_int().is_some() => {
                Ok(Some(Item::ints(0..n.as_int().unwrap_or(0).min(ITEMS_MAX as i64))))
            }
            (_, [Item::List(list), rest @ ..]) => {
                let known = matches!(&*list.borrow(), Elements::Known(_));
                let done = match known {
                    true => self.list(name, list, rest, named)?,
                    false => self.sequence_op(name, list, rest)?,
                };
                self.check_held(name, &arguments[0], rest)?;
                Ok(done)
            }
            (_, [Item::Dict(dict), rest @ ..]) => {
                let done = self.dict(name, dict, rest)?;
                self.check_held(name, &arguments[0], rest)?;
                Ok(done)
            }
            (_, [Item::Tuple(items) | Item::Record(_, items), rest @ ..]) => match (name, rest) {
                ("len", []) => Ok(Some(Item::Int(items.len() as i64))),
                ("__getitem__", [at]) => Ok(Some(self.at_index(items, at)?)),
                ("list", []) => Ok(Some(Item::list(items.to_vec()))),
                _ => Ok(None),
            },
            ("len", [Item::Text(text)]) => Ok(Some(Item::Int(text.chars().count() as i64))),
            ("__getitem__", [Item::Text(text), at]) => {
                let chars: Vec<Item> =
                    text.chars().map(|c| Item::text(c.encode_utf8(&mut [0; 4]))).collect();
                Ok(Some(self.at_index(&chars, at)?))
            }
            ("list", [Item::Text(text)]) => {
                Ok(Some(Item::list(text.chars().map(|c| Item::text(&c.to_string())).collect())))
            }
            ("dict", []) => Ok(Some(Item::dict(vec![]))),
            _ => Ok(None),
        }
    }

    /// A dict of pairs, of which later ones win.
    fn dict_of(&self, pairs: &[Item]) -> Result<Item> {
        let mut dict: Vec<(Item, Item)> = vec![];
        for pair in pairs {
            self.work(dict.len())?;
            let [key, value] = <[Item; 2]>::try_from(pair.items().unwrap_or_default())
                .map_err(|_| self.wrong("A dict is made of pairs."))?;
            match dict.iter_mut().find(|(known, _)| equal(known, &key)) {
                Some((_, old)) => *old = value,
                None => dict.push((key, value)),
            }
        }
        Ok(Item::dict(dict))
    }

    fn wrong(&self, message: impl Into<String>) -> crate::diag::Diagnostic {
        self.problem(Code::LayerParameter, message)
    }

    /// Position of an item, from the end if it is negative.
    fn position(&self, at: &Item, len: usize) -> Result<usize> {
        let Some(i) = at.as_int() else {
            let message = "The index into a list or tuple depends on tensors.";
            return Err(self.problem(Code::LayerUnsupported, message));
        };
        let from_start = if i < 0 { i + len as i64 } else { i };
        let found = usize::try_from(from_start).ok().filter(|i| *i < len);
        found.ok_or_else(|| self.wrong(format!("Index {i} of {len} items.")))
    }

    pub(crate) fn at_index(&self, items: &[Item], at: &Item) -> Result<Item> {
        Ok(items[self.position(at, items.len())?].clone())
    }

    fn list(
        &self,
        name: &str,
        list: &Rc<Shared<Elements>>,
        rest: &[Item],
        named: &Named,
    ) -> Result<Option<Item>> {
        let items = || match &*list.borrow() {
            Elements::Known(items) => items.clone(),
            Elements::Sequence(_) | Elements::Numbers(..) => vec![],
        };
        let len = match &*list.borrow() {
            Elements::Known(items) => items.len(),
            Elements::Sequence(_) | Elements::Numbers(..) => 0,
        };
        // Appending and asking for one item do not look at the others.
        if !matches!(name, "len" | "append") {
            self.work(len)?;
        }
        if len >= ITEMS_MAX && matches!(name, "append" | "extend" | "insert" | "add" | "mul") {
            let message = format!("A list of more than {ITEMS_MAX} items.");
            return Err(self.problem(Code::SourceLimit, message));
        }
        if let Some(item) = self.at_computed_index(name, list, rest)? {
            return Ok(Some(item));
        }
        if let Some(item) = self.edited(name, list, rest, len)? {
            return Ok(Some(item));
        }
        Ok(Some(match (name, rest) {
            ("len", []) => Item::Int(len as i64),
            ("__getitem__", [at]) => self.at_index(&items(), at)?,
            ("copy" | "list", []) => Item::list(items()),
            ("dict", []) => self.dict_of(&items())?,
            ("slice", [..]) => Item::list(sliced(&items(), rest)),
            ("sort" | "sorted", _) => {
                let descending = rest.first().or(named.first().map(|(_, item)| item));
                let sorted = self.sorted(items(), matches!(descending, Some(Item::Bool(true))))?;
                if name == "sorted" {
                    return Ok(Some(Item::list(sorted)));
                }
                self.edit_list(list, |elements| *elements = Elements::Known(sorted));
                Item::None
            }
            ("add", [other]) if other.items().is_some() => {
                Item::list([items(), other.items().unwrap_or_default()].concat())
            }
            ("mul", [n]) if n.as_int().is_some() => {
                let n = usize::try_from(n.as_int().unwrap_or(0)).unwrap_or(0);
                if n.saturating_mul(len) > ITEMS_MAX {
                    return Err(self.problem(Code::SourceLimit, "A list has too many items."));
                }
                Item::list(std::iter::repeat_n(items(), n).flatten().collect())
            }
            ("__contains__", [item])
                if !Item::List(list.clone()).is_computed() && !item.is_computed() =>
            {
                Item::Bool(items().iter().any(|i| equal(i, item)))
            }
            ("__contains__", [item]) if matches!(item, Item::Number(_)) => {
                return self.contains_number(&items(), item);
            }
            ("index", [item]) => match items().iter().position(|i| equal(i, item)) {
                Some(at) => Item::Int(at as i64),
                None => return Err(self.wrong("The item is not in the list.")),
            },
            ("count", [item]) => {
                Item::Int(items().iter().filter(|i| equal(i, item)).count() as i64)
            }
            ("join", _) => return Ok(None),
            _ => return Ok(None),
        }))
    }

    /// What an operator gives that changes a list of known length; `None` if it changes none.
    fn edited(
        &self,
        name: &str,
        list: &Rc<Shared<Elements>>,
        rest: &[Item],
        len: usize,
    ) -> Result<Option<Item>> {
        let edit = |f: &mut dyn FnMut(&mut Vec<Item>)| {
            self.edit_list(list, |elements| {
                if let Elements::Known(items) = elements {
                    f(items);
                }
            });
        };
        let items = || Item::List(list.clone()).items().unwrap_or_default();
        let this = || Item::List(list.clone());
        Ok(Some(match (name, rest) {
            ("append", [item]) => {
                edit(&mut |items| items.push(item.clone()));
                this()
            }
            ("extend" | "add_", [other]) => {
                let Some(more) = other.items() else {
                    return Err(self.wrong("A list whose length is not known extends another."));
                };
                edit(&mut |items| items.extend(more.iter().cloned()));
                this()
            }
            ("insert", [at, item]) => {
                let i = at.as_int().unwrap_or(0);
                let i = if i < 0 { (i + len as i64).max(0) } else { i.min(len as i64) } as usize;
                edit(&mut |items| items.insert(i, item.clone()));
                Item::None
            }
            ("pop", []) | ("pop", [_]) => {
                let at = self.position(rest.first().unwrap_or(&Item::Int(-1)), len)?;
                let item = items()[at].clone();
                edit(&mut |items| drop(items.remove(at)));
                item
            }
            ("Delete", [at]) => {
                let at = self.position(at, len)?;
                edit(&mut |items| drop(items.remove(at)));
                Item::None
            }
            ("clear", []) => {
                edit(&mut Vec::clear);
                Item::None
            }
            ("reverse", []) => {
                edit(&mut |items| items.reverse());
                Item::None
            }
            ("_set_item", [at, item]) => {
                let at = self.position(at, len)?;
                edit(&mut |items| items[at] = item.clone());
                this()
            }
            _ => return Ok(None),
        }))
    }

    fn contains_number(&self, items: &[Item], item: &Item) -> Result<Option<Item>> {
        let mut any = Item::Bool(false);
        for one in items {
            let Some(equal) = self.numbers("eq", &[one.clone(), item.clone()])? else {
                return Ok(None);
            };
            let both = [any, equal];
            let Some(found) = self.arithmetic("__or__", &both)? else { return Ok(None) };
            any = found;
        }
        Ok(Some(any))
    }

    fn sorted(&self, items: Vec<Item>, descending: bool) -> Result<Vec<Item>> {
        let mut items = items;
        let text = |item: &Item| match item {
            Item::Text(text) => Some(text.clone()),
            _ => None,
        };
        match items.iter().all(|i| i.as_float().is_some() || text(i).is_some()) {
            true => items.sort_by(|a, b| {
                let numbers = a.as_float().zip(b.as_float()).map(|(a, b)| a.total_cmp(&b));
                numbers.unwrap_or_else(|| text(a).cmp(&text(b)))
            }),
            false => return Err(self.wrong("The items of a list that is sorted are not known.")),
        }
        if descending {
            items.reverse();
        }
        Ok(items)
    }

    fn dict(
        &self,
        name: &str,
        dict: &Rc<Shared<Vec<(Item, Item)>>>,
        rest: &[Item],
    ) -> Result<Option<Item>> {
        // Keys are looked for one after the other.
        self.work(dict.borrow().len() / 4)?;
        let find = |key: &Item| dict.borrow().iter().position(|(k, _)| equal(k, key));
        let value = |at: usize| dict.borrow()[at].1.clone();
        Ok(Some(match (name, rest) {
            ("len", []) => Item::Int(dict.borrow().len() as i64),
            ("keys", []) => Item::list(dict.borrow().iter().map(|(k, _)| k.clone()).collect()),
            ("values", []) => Item::list(dict.borrow().iter().map(|(_, v)| v.clone()).collect()),
            ("items", []) => {
                let pair = |(k, v): &(Item, Item)| Item::tuple(vec![k.clone(), v.clone()]);
                Item::list(dict.borrow().iter().map(pair).collect())
            }
            ("__contains__", [key]) => Item::Bool(find(key).is_some()),
            ("__getitem__", [key]) => match find(key) {
                Some(at) => value(at),
                None => {
                    let key = super::python::shown_item(key);
                    return Err(
                        self.wrong(format!("The dict has no key `{}`.", crate::diag::shown(&key)))
                    );
                }
            },
            ("get", [key]) => find(key).map_or(Item::None, value),
            ("get", [key, default]) => find(key).map_or(default.clone(), value),
            ("_set_item", [key, item]) => {
                let at = find(key);
                self.edit_dict(dict, |items| match at {
                    Some(at) => items[at].1 = item.clone(),
                    None => items.push((key.clone(), item.clone())),
                });
                Item::None
            }
            ("setdefault", [key, item]) => match find(key) {
                Some(at) => value(at),
                None => {
                    self.edit_dict(dict, |items| items.push((key.clone(), item.clone())));
                    item.clone()
                }
            },
            ("Delete", [key]) | ("pop", [key]) | ("pop", [key, _]) => {
                match (find(key), rest.get(1)) {
                    (Some(at), _) => self.edit_dict(dict, |items| items.remove(at).1),
                    (None, Some(default)) => default.clone(),
                    (None, None) => return Err(self.wrong("The dict has no such key.")),
                }
            }
            ("update", [Item::Dict(other)]) => {
                for (key, item) in other.borrow().clone() {
                    self.dict("_set_item", dict, &[key, item])?;
                }
                Item::None
            }
            ("copy" | "dict", []) => Item::dict(dict.borrow().clone()),
            ("clear", []) => {
                self.edit_dict(dict, Vec::clear);
                Item::None
            }
            _ => return Ok(None),
        }))
    }
}

/// `items[start:end:step]`
fn sliced(items: &[Item], bounds: &[Item]) -> Vec<Item> {
    let len = items.len() as i64;
    let bound = |i: usize, default: i64| {
        let x = bounds.get(i).and_then(Item::as_int).unwrap_or(default);
        (if x < 0 { x.saturating_add(len) } else { x }).clamp(0, len) as usize
    };
    let step = bounds.get(2).and_then(Item::as_int).unwrap_or(1).max(1) as usize;
    let (start, end) = (bound(0, 0), bound(1, len));
    if start >= end {
        return vec![];
    }
    items[start..end].iter().step_by(step).cloned().collect()
}
