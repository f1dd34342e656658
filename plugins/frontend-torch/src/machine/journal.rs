//! What a block of the program changes, so that it can be undone: a branch must not see what the other one did.

use super::alias::{Base, From, State, View};
use super::item::{Shared, now};
use super::{Elements, Instance, Item, Machine, Result};
use crate::diag::Layer;
use onnxd_plugin_sdk::build::Var;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Something that outlives a block and can be changed in it.
#[derive(Clone)]
pub(crate) enum Place {
    Base(Rc<Base>),
    List(Rc<Shared<Elements>>),
    Dict(Rc<Shared<Vec<(Item, Item)>>>),
    Attribute(Rc<Instance>, Rc<str>),
}

enum Undo {
    Base(Rc<Base>, State),
    View(Rc<View>, State),
    From(Rc<View>, From, usize),
    Stale(Rc<Base>),
    List(Rc<Shared<Elements>>, Elements),
    Dict(Rc<Shared<Vec<(Item, Item)>>>, Vec<(Item, Item)>),
    Attribute(Rc<Instance>, Rc<str>, Option<Item>),
}

/// The blocks that run at present, the innermost last.
#[derive(Default)]
pub(crate) struct Journal {
    blocks: Vec<Block>,
    /// What was made until then outlives the run.
    outliving: Option<u64>,
    /// Where the program changed what outlives the run.
    writes: HashMap<Key, Layer>,
}

/// The address of a place, with what of it.
type Key = (usize, Option<Rc<str>>);

#[derive(Default)]
pub(crate) struct Block {
    /// When it began; what was made later is its own.
    begun: u64,
    undo: Vec<Undo>,
    /// Addresses of what has an entry: one for each place is enough.
    noted: HashSet<Key>,
}

impl Block {
    /// Exchanges what places hold and what they held before the block.
    fn swap(&mut self) {
        for undo in self.undo.iter_mut().rev() {
            match undo {
                Undo::Base(base, state) => *state = base.state.replace(*state),
                Undo::View(view, state) => *state = view.read.replace(*state),
                Undo::From(view, from, depth) => {
                    (*from, *depth) = view.replace_from(from.take(), *depth);
                }
                Undo::Stale(base) => base.stale.set(!base.stale.get()),
                Undo::List(list, elements) => std::mem::swap(&mut *list.borrow_mut(), elements),
                Undo::Dict(dict, items) => std::mem::swap(&mut *dict.borrow_mut(), items),
                Undo::Attribute(object, name, item) => {
                    let mut attributes = object.attributes.borrow_mut();
                    *item = match item.take() {
                        Some(item) => attributes.insert(name.clone(), item),
                        None => attributes.remove(name),
                    };
                }
            }
        }
    }
}

impl Place {
    /// When it was made.
    fn born(&self) -> u64 {
        match self {
            Place::Base(base) => base.born,
            Place::List(list) => list.born,
            Place::Dict(dict) => dict.born,
            Place::Attribute(object, _) => object.attributes.born,
        }
    }

    fn key(&self) -> Key {
        match self {
            Place::Base(base) => (Rc::as_ptr(base) as usize, None),
            Place::List(list) => (Rc::as_ptr(list) as *const u8 as usize, None),
            Place::Dict(dict) => (Rc::as_ptr(dict) as *const u8 as usize, None),
            Place::Attribute(object, name) => (Rc::as_ptr(object) as usize, Some(name.clone())),
        }
    }

    /// The place that a value is, if it can be changed.
    pub(crate) fn of(item: &Item) -> Option<Place> {
        match item {
            Item::Tensor(view) => Some(Place::Base(view.base.clone())),
            Item::List(list) => Some(Place::List(list.clone())),
            Item::Dict(dict) => Some(Place::Dict(dict.clone())),
            _ => None,
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.key().0
    }

    pub(crate) fn is(&self, other: &Place) -> bool {
        self.key() == other.key()
    }
}

fn from_key(view: &Rc<View>) -> Key {
    (Rc::as_ptr(view) as usize, Some("from".into()))
}

impl Machine<'_> {
    /// Runs `f` as a block; gives what it gives, and the places that it changed. Their values stay as
    /// `f` left them until [`Machine::undo_block`].
    pub(crate) fn begin_block(&self) {
        let block = Block { begun: now(), ..Block::default() };
        self.journal.borrow_mut().blocks.push(block);
    }

    /// The places that the innermost block has changed so far, in the order of their first change.
    pub(crate) fn changed(&self) -> Vec<Place> {
        let journal = self.journal.borrow();
        let Some(block) = journal.blocks.last() else { return vec![] };
        let place = |undo: &Undo| match undo {
            Undo::Base(base, _) => Some(Place::Base(base.clone())),
            Undo::View(..) | Undo::From(..) | Undo::Stale(_) => None,
            Undo::List(list, _) => Some(Place::List(list.clone())),
            Undo::Dict(dict, _) => Some(Place::Dict(dict.clone())),
            Undo::Attribute(object, name, _) => {
                Some(Place::Attribute(object.clone(), name.clone()))
            }
        };
        block.undo.iter().filter_map(place).filter(|place| place.born() <= block.begun).collect()
    }

    /// Ends the innermost block: everything is as before.
    pub(crate) fn undo_block(&self) {
        self.suspend_block();
    }

    /// Leaves the innermost block for a while: everything is as before.
    pub(crate) fn suspend_block(&self) -> Block {
        let mut block = self.journal.borrow_mut().blocks.pop().unwrap_or_default();
        block.swap();
        block
    }

    /// Goes on with a block: everything is as it left it.
    pub(crate) fn resume_block(&self, mut block: Block) {
        block.swap();
        self.journal.borrow_mut().blocks.push(block);
    }

    /// Ends the innermost block and keeps what it did, as a part of the block around it.
    pub(crate) fn keep_block(&self) {
        let mut journal = self.journal.borrow_mut();
        let Some(block) = journal.blocks.pop() else { return };
        let Some(outer) = journal.blocks.last_mut() else { return };
        for undo in block.undo {
            let key = match &undo {
                Undo::Base(base, _) => Place::Base(base.clone()).key(),
                Undo::View(view, _) => (Rc::as_ptr(view) as usize, None),
                Undo::From(view, ..) => from_key(view),
                Undo::Stale(base) => (Rc::as_ptr(base) as usize, Some("stale".into())),
                Undo::List(list, _) => Place::List(list.clone()).key(),
                Undo::Dict(dict, _) => Place::Dict(dict.clone()).key(),
                Undo::Attribute(o, name, _) => Place::Attribute(o.clone(), name.clone()).key(),
            };
            if outer.noted.insert(key) {
                outer.undo.push(undo);
            }
        }
    }

    fn note(&self, key: Key, undo: impl FnOnce() -> Undo) {
        let mut journal = self.journal.borrow_mut();
        if let Some(block) = journal.blocks.last_mut()
            && block.noted.insert(key)
        {
            block.undo.push(undo());
        }
    }

    /// Notes from now on where the program changes what was made before.
    pub(crate) fn watch(&self) {
        self.journal.borrow_mut().outliving = Some(now());
    }

    /// Where the program changed a place first, if it is watched.
    pub(crate) fn layer_of_write(&self, place: &Place) -> Layer {
        self.journal.borrow().writes.get(&place.key()).cloned().unwrap_or_default()
    }

    /// Where the program wrote first into the memory of a tensor.
    pub(crate) fn layer_of_write_into(&self, item: &Item) -> Layer {
        match item {
            Item::Tensor(view) => self.layer_of_write(&Place::Base(view.base.clone())),
            _ => Layer::default(),
        }
    }

    fn touched(&self, place: &Place) -> Key {
        let mut journal = self.journal.borrow_mut();
        let key = place.key();
        if journal.outliving.is_some_and(|end| place.born() <= end)
            && !journal.writes.contains_key(&key)
        {
            journal.writes.insert(key.clone(), self.layer());
        }
        key
    }

    pub(crate) fn set_base(&self, base: &Rc<Base>, state: State) {
        let key = self.touched(&Place::Base(base.clone()));
        self.note(key, || Undo::Base(base.clone(), base.state.get()));
        base.state.set(state);
    }

    /// Changes what a view looks at.
    pub(crate) fn set_from(&self, view: &Rc<View>, from: From, depth: usize) {
        let (before, old) = view.replace_from(from, depth);
        self.note(from_key(view), || Undo::From(view.clone(), before, old));
    }

    /// Says that what the tensors of a base are now depends on the path of the program.
    pub(crate) fn set_stale(&self, base: &Rc<Base>) {
        if !base.stale.replace(true) {
            let key = (Rc::as_ptr(base) as usize, Some("stale".into()));
            self.note(key, || Undo::Stale(base.clone()));
        }
    }

    /// Notes what a view was when it was read.
    pub(crate) fn remember(&self, view: &Rc<View>, state: State) {
        let key = (Rc::as_ptr(view) as usize, None);
        self.note(key, || Undo::View(view.clone(), view.read.get()));
        view.read.set(state);
    }

    /// Changes a list.
    pub(crate) fn edit_list<R>(
        &self,
        list: &Rc<Shared<Elements>>,
        f: impl FnOnce(&mut Elements) -> R,
    ) -> R {
        let key = self.touched(&Place::List(list.clone()));
        self.note(key, || Undo::List(list.clone(), list.borrow().clone()));
        f(&mut list.borrow_mut())
    }

    /// Changes a dict.
    pub(crate) fn edit_dict<R>(
        &self,
        dict: &Rc<Shared<Vec<(Item, Item)>>>,
        f: impl FnOnce(&mut Vec<(Item, Item)>) -> R,
    ) -> R {
        let key = self.touched(&Place::Dict(dict.clone()));
        self.note(key, || Undo::Dict(dict.clone(), dict.borrow().clone()));
        f(&mut dict.borrow_mut())
    }

    pub(crate) fn set_attribute(&self, object: &Rc<Instance>, name: &Rc<str>, item: Item) {
        let key = self.touched(&Place::Attribute(object.clone(), name.clone()));
        let before = || object.attributes.borrow().get(name).cloned();
        self.note(key, || Undo::Attribute(object.clone(), name.clone(), before()));
        object.attributes.borrow_mut().insert(name.clone(), item);
    }

    /// What a place holds now.
    pub(crate) fn get(&self, place: &Place) -> Item {
        match place {
            Place::Base(base) => self.tensor(base.state.get().var),
            Place::List(list) => Item::elements(list.borrow().clone()),
            Place::Dict(dict) => Item::dict(dict.borrow().clone()),
            Place::Attribute(object, name) => {
                object.attributes.borrow().get(name).cloned().unwrap_or(Item::None)
            }
        }
    }

    /// What a place held before the innermost block.
    pub(crate) fn old(&self, place: &Place) -> Item {
        let journal = self.journal.borrow();
        let undo = journal.blocks.last().into_iter().flat_map(|block| &block.undo);
        for undo in undo {
            match (undo, place) {
                (Undo::Base(base, state), Place::Base(of)) if Rc::ptr_eq(base, of) => {
                    return self.tensor(state.var);
                }
                (Undo::List(list, elements), Place::List(of)) if Rc::ptr_eq(list, of) => {
                    return Item::elements(elements.clone());
                }
                (Undo::Dict(dict, items), Place::Dict(of)) if Rc::ptr_eq(dict, of) => {
                    return Item::dict(items.clone());
                }
                (Undo::Attribute(object, name, item), Place::Attribute(of, other))
                    if Rc::ptr_eq(object, of) && name == other =>
                {
                    return item.clone().unwrap_or(Item::None);
                }
                _ => {}
            }
        }
        drop(journal);
        self.get(place)
    }

    /// The value as it is now, without the memory that it shares with others: what a block gives outlives
    /// what it did to them.
    pub(crate) fn settled(&self, item: &Item) -> Result<Item> {
        let all =
            |items: &[Item]| items.iter().map(|i| self.settled(i)).collect::<Result<Vec<_>>>();
        let same = |a: &[Item], b: &[Item]| a.iter().zip(b).all(|(a, b)| a.same(b));
        Ok(match item {
            Item::Tensor(view) => {
                let var = self.read(view)?;
                if !self.builder().is_own(var) {
                    return Ok(item.clone());
                }
                let settled = self.tensor(var);
                let blocks = self.journal.borrow();
                if blocks.blocks.last().is_some_and(|block| view.base.born <= block.begun) {
                    self.may_share(&settled, item);
                }
                settled
            }
            Item::Tuple(items) => {
                let settled = all(items)?;
                if same(&settled, items) { item.clone() } else { Item::tuple(settled) }
            }
            Item::Record(class, items) => {
                let settled = all(items)?;
                if same(&settled, items) {
                    item.clone()
                } else {
                    Item::Record(class.clone(), settled.into())
                }
            }
            Item::List(cell) => {
                let elements = cell.borrow().clone();
                let Elements::Known(items) = elements else { return Ok(item.clone()) };
                let settled = all(&items)?;
                if same(&settled, &items) { item.clone() } else { Item::list(settled) }
            }
            Item::Dict(cell) => {
                let items = cell.borrow().clone();
                let values: Vec<Item> = items.iter().map(|(_, v)| v.clone()).collect();
                let settled = all(&values)?;
                match same(&settled, &values) {
                    true => item.clone(),
                    false => Item::dict(items.into_iter().map(|(k, _)| k).zip(settled).collect()),
                }
            }
            other => other.clone(),
        })
    }

    /// Makes `item` what a place holds.
    pub(crate) fn set(&self, place: &Place, item: Item) {
        match (place, item) {
            (Place::Base(base), Item::Tensor(view)) => {
                let var: Var = view.read.get().var;
                self.set_base(base, State { version: self.next_version(), var });
            }
            (Place::List(list), Item::List(from)) => {
                let elements = from.borrow().clone();
                self.edit_list(list, |to| *to = elements);
            }
            (Place::Dict(dict), Item::Dict(from)) => {
                let items = from.borrow().clone();
                self.edit_dict(dict, |to| *to = items);
            }
            (Place::Attribute(object, name), item) => self.set_attribute(object, name, item),
            _ => {}
        }
    }
}
