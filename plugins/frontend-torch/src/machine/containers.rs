//! Lists, tuples and dicts. A list whose length is known holds any values; one that a loop made holds tensors, and is a
//! sequence of the graph.

use super::call::NamedArguments;
use super::item::SharedObject;
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
        named: &NamedArguments,
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
                let n = n.as_int().unwrap_or(0);
                if n > ITEMS_MAX as i64 {
                    return Err(self.too_many_items());
                }
                Ok(Some(Item::ints(0..n)))
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
            ("slice", [Item::Text(text), bounds @ ..]) => {
                let chars: Vec<char> = text.chars().collect();
                let part: String = self.sliced(&chars, bounds)?.iter().collect();
                Ok(Some(Item::text(&part)))
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

    fn too_many_items(&self) -> crate::diag::Diagnostic {
        self.problem(Code::SourceLimit, format!("A list of more than {ITEMS_MAX} items."))
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
        let from_start = if i < 0 { i.saturating_add(len as i64) } else { i };
        let found = usize::try_from(from_start).ok().filter(|i| *i < len);
        found.ok_or_else(|| self.wrong(format!("Index {i} of {len} items.")))
    }

    pub(crate) fn at_index(&self, items: &[Item], at: &Item) -> Result<Item> {
        Ok(items[self.position(at, items.len())?].clone())
    }

    /// `items[start:end:step]`
    pub(crate) fn sliced<T: Clone>(&self, items: &[T], bounds: &[Item]) -> Result<Vec<T>> {
        let bound = |i: usize| match bounds.get(i) {
            None | Some(Item::None) => Ok(None),
            Some(item) => item.as_int().map(Some).ok_or_else(|| {
                let message = "The bounds of a slice of a list depend on tensors.";
                self.problem(Code::LayerUnsupported, message)
            }),
        };
        let step = bound(2)?.unwrap_or(1);
        if step == 0 {
            return Err(self.wrong("A slice has the step 0."));
        }
        let at = super::python::positions(items.len(), bound(0)?, bound(1)?, step);
        Ok(at.map(|i| items[i].clone()).collect())
    }

    fn list(
        &self,
        name: &str,
        list: &Rc<SharedObject<Elements>>,
        rest: &[Item],
        named: &NamedArguments,
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
            return Err(self.too_many_items());
        }
        if let Some(item) = self.at_computed_index(name, list, rest)? {
            return Ok(Some(item));
        }
        if let Some(item) = self.edited(name, list, rest, len)? {
            return Ok(Some(item));
        }
        let is_known = |item: &Item| !Item::List(list.clone()).is_computed() && !item.is_computed();
        Ok(Some(match (name, rest) {
            ("len", []) => Item::Int(len as i64),
            ("__getitem__", [at]) => self.at_index(&items(), at)?,
            ("copy" | "list", []) => Item::list(items()),
            ("dict", []) => self.dict_of(&items())?,
            ("slice", bounds) => Item::list(self.sliced(&items(), bounds)?),
            ("sort" | "sorted", _) => {
                let descending = match rest.first().or(named.first().map(|(_, item)| item)) {
                    None => false,
                    Some(Item::Bool(descending)) => *descending,
                    Some(_) => return Ok(None),
                };
                let sorted = self.sorted(items(), descending)?;
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
                    return Err(self.too_many_items());
                }
                Item::list(std::iter::repeat_n(items(), n).flatten().collect())
            }
            ("__contains__", [item]) if is_known(item) => {
                Item::Bool(items().iter().any(|i| equal(i, item)))
            }
            ("__contains__", [item]) => return self.contains_number(&items(), item),
            ("index" | "count", [item]) if !is_known(item) => {
                let message = format!("`{name}` of a list whose items depend on tensors.");
                return Err(self.problem(Code::LayerUnsupported, message));
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
        list: &Rc<SharedObject<Elements>>,
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
                let Some(i) = at.as_int() else { return Ok(None) };
                let from_start = if i < 0 { i.saturating_add(len as i64) } else { i };
                let i = from_start.clamp(0, len as i64) as usize;
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
                let ints = a.as_int().zip(b.as_int()).map(|(a, b)| a.cmp(&b));
                let floats = || a.as_float().zip(b.as_float()).map(|(a, b)| a.total_cmp(&b));
                ints.or_else(floats).unwrap_or_else(|| text(a).cmp(&text(b)))
            }),
            false => return Err(self.wrong("The items of a list that is sorted are not known.")),
        }
        if descending {
            items.reverse();
        }
        Ok(items)
    }

    /// Whether an operator may look for its key in a dict; not if the key could not be converted.
    fn has_known_keys(
        &self,
        name: &str,
        dict: &Rc<SharedObject<Vec<(Item, Item)>>>,
        rest: &[Item],
    ) -> Result<bool> {
        const BY_KEY: [&str; 7] =
            ["__contains__", "__getitem__", "get", "_set_item", "setdefault", "Delete", "pop"];
        let Some(key) = rest.first().filter(|_| BY_KEY.contains(&name)) else { return Ok(true) };
        if key.is_computed() || dict.borrow().iter().any(|(key, _)| key.is_computed()) {
            let message = "A key of a dict depends on tensors.";
            let computed = self.problem(Code::LayerUnsupported, message);
            return if matches!(key, Item::Hole) { Ok(false) } else { Err(computed) };
        }
        Ok(true)
    }

    fn dict(
        &self,
        name: &str,
        dict: &Rc<SharedObject<Vec<(Item, Item)>>>,
        rest: &[Item],
    ) -> Result<Option<Item>> {
        // Keys are looked for one after the other.
        self.work(dict.borrow().len() / 4)?;
        if !self.has_known_keys(name, dict, rest)? {
            return Ok(None);
        }
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
