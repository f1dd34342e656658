//! What a block of the program changes, so that it can be undone: a branch must not see what the other one did.

use super::alias::{Base, From, TensorVersion, View};
use super::item::{SharedObject, now};
use super::{Elements, Instance, Item, Machine, Result};
use crate::diag::Layer;
use onnxd_plugin_sdk::build::Var;
use std::collections::{HashMap, HashSet};
use std::mem::{swap, take};
use std::rc::Rc;

/// Something that outlives a block and can be changed in it.
#[derive(Clone)]
pub(crate) enum MutableObject {
    Base(Rc<Base>),
    List(Rc<SharedObject<Elements>>),
    Dict(Rc<SharedObject<Vec<(Item, Item)>>>),
    Attribute(Rc<Instance>, Rc<str>),
}

/// A change, which can be undone and done again.
struct Undo {
    key: ObjectKey,
    /// What was changed, unless it only follows from other changes.
    place: Option<MutableObject>,
    /// Exchanges what it holds and what it held before the block.
    exchange: Exchange,
}

type Exchange = Box<dyn FnMut()>;

/// The blocks that run at present, the innermost last.
#[derive(Default)]
pub(crate) struct Journal {
    blocks: Vec<JournalBlock>,
    /// What was made until then outlives the run.
    outliving: Option<u64>,
    /// Where the program changed what outlives the run.
    writes: HashMap<ObjectKey, Layer>,
}

/// The address of a place, with what of it.
type ObjectKey = (usize, Option<Rc<str>>);

#[derive(Default)]
pub(crate) struct JournalBlock {
    /// When it began; what was made later is its own.
    begun: u64,
    undo: Vec<Undo>,
    /// Addresses of what has an entry: one for each place is enough.
    noted: HashSet<ObjectKey>,
}

impl JournalBlock {
    /// Exchanges what places hold and what they held before the block.
    fn swap(&mut self) {
        self.undo.iter_mut().rev().for_each(|undo| (undo.exchange)());
    }
}

impl MutableObject {
    /// When it was made.
    fn born(&self) -> u64 {
        match self {
            MutableObject::Base(base) => base.born,
            MutableObject::List(list) => list.born,
            MutableObject::Dict(dict) => dict.born,
            MutableObject::Attribute(object, _) => object.attributes.born,
        }
    }

    fn key(&self) -> ObjectKey {
        match self {
            MutableObject::Base(base) => (Rc::as_ptr(base) as usize, None),
            MutableObject::List(list) => (Rc::as_ptr(list) as *const u8 as usize, None),
            MutableObject::Dict(dict) => (Rc::as_ptr(dict) as *const u8 as usize, None),
            MutableObject::Attribute(object, name) => {
                (Rc::as_ptr(object) as usize, Some(name.clone()))
            }
        }
    }

    /// What exchanges its content with that of the call before, at first with the present one.
    fn exchange(&self) -> Exchange {
        match self.clone() {
            MutableObject::Base(base) => {
                let mut held = base.state.get();
                Box::new(move || held = base.state.replace(held))
            }
            MutableObject::List(list) => {
                let mut held = list.borrow().clone();
                Box::new(move || swap(&mut *list.borrow_mut(), &mut held))
            }
            MutableObject::Dict(dict) => {
                let mut held = dict.borrow().clone();
                Box::new(move || swap(&mut *dict.borrow_mut(), &mut held))
            }
            MutableObject::Attribute(object, name) => {
                let mut held = object.attributes.borrow().get(&name).cloned();
                Box::new(move || {
                    let mut attributes = object.attributes.borrow_mut();
                    held = match held.take() {
                        Some(item) => attributes.insert(name.clone(), item),
                        None => attributes.remove(&name),
                    };
                })
            }
        }
    }

    /// The place that a value is, if it can be changed.
    pub(crate) fn from_item(item: &Item) -> Option<MutableObject> {
        match item {
            Item::Tensor(view) => Some(MutableObject::Base(view.base.clone())),
            Item::List(list) => Some(MutableObject::List(list.clone())),
            Item::Dict(dict) => Some(MutableObject::Dict(dict.clone())),
            _ => None,
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.key().0
    }

    pub(crate) fn is(&self, other: &MutableObject) -> bool {
        self.key() == other.key()
    }
}

impl Machine<'_> {
    /// Begins a block: what is changed from now on can be undone.
    pub(crate) fn begin_block(&self) {
        let block = JournalBlock { begun: now(), ..JournalBlock::default() };
        self.journal.borrow_mut().blocks.push(block);
    }

    /// The places that the innermost block has changed so far, in the order of their first change.
    pub(crate) fn changed(&self) -> Vec<MutableObject> {
        let journal = self.journal.borrow();
        let Some(block) = journal.blocks.last() else { return vec![] };
        let places = block.undo.iter().filter_map(|undo| undo.place.clone());
        places.filter(|place| place.born() <= block.begun).collect()
    }

    /// Ends the innermost block: everything is as before.
    pub(crate) fn undo_block(&self) {
        self.suspend_block();
    }

    /// Leaves the innermost block for a while: everything is as before.
    pub(crate) fn suspend_block(&self) -> JournalBlock {
        let mut block = self.journal.borrow_mut().blocks.pop().unwrap_or_default();
        block.swap();
        block
    }

    /// Goes on with a block: everything is as it left it.
    pub(crate) fn resume_block(&self, mut block: JournalBlock) {
        block.swap();
        self.journal.borrow_mut().blocks.push(block);
    }

    /// Ends the innermost block and keeps what it did, as a part of the block around it.
    pub(crate) fn keep_block(&self) {
        let mut journal = self.journal.borrow_mut();
        let Some(block) = journal.blocks.pop() else { return };
        let Some(outer) = journal.blocks.last_mut() else { return };
        for undo in block.undo {
            if outer.noted.insert(undo.key.clone()) {
                outer.undo.push(undo);
            }
        }
    }

    fn note(
        &self,
        key: ObjectKey,
        place: Option<&MutableObject>,
        exchange: impl FnOnce() -> Exchange,
    ) {
        let mut journal = self.journal.borrow_mut();
        if let Some(block) = journal.blocks.last_mut()
            && block.noted.insert(key.clone())
        {
            block.undo.push(Undo { key, place: place.cloned(), exchange: exchange() });
        }
    }

    /// Notes from now on where the program changes what was made before.
    pub(crate) fn watch(&self) {
        self.journal.borrow_mut().outliving = Some(now());
    }

    /// Where the program changed a place first, if it is watched.
    pub(crate) fn layer_of_write(&self, place: &MutableObject) -> Layer {
        self.journal.borrow().writes.get(&place.key()).cloned().unwrap_or_default()
    }

    /// Where the program wrote first into the memory of a tensor.
    pub(crate) fn layer_of_write_into(&self, item: &Item) -> Layer {
        match item {
            Item::Tensor(view) => self.layer_of_write(&MutableObject::Base(view.base.clone())),
            _ => Layer::default(),
        }
    }

    /// Notes what a place holds, which is changed next.
    fn touch(&self, place: &MutableObject) {
        let mut journal = self.journal.borrow_mut();
        let key = place.key();
        if journal.outliving.is_some_and(|end| place.born() <= end)
            && !journal.writes.contains_key(&key)
        {
            journal.writes.insert(key.clone(), self.layer());
        }
        drop(journal);
        self.note(key, Some(place), || place.exchange());
    }

    pub(crate) fn set_base(&self, base: &Rc<Base>, state: TensorVersion) {
        self.touch(&MutableObject::Base(base.clone()));
        base.state.set(state);
    }

    /// Changes what a view looks at.
    pub(crate) fn set_from(&self, view: &Rc<View>, from: From, depth: usize) {
        let mut held = view.replace_from(from, depth);
        let key = (Rc::as_ptr(view) as usize, Some("from".into()));
        let view = view.clone();
        self.note(key, None, || {
            Box::new(move || {
                let (from, depth) = take(&mut held);
                held = view.replace_from(from, depth);
            })
        });
    }

    /// Says that what the tensors of a base are now depends on the path of the program.
    pub(crate) fn set_stale(&self, base: &Rc<Base>) {
        if !base.stale.replace(true) {
            let key = (Rc::as_ptr(base) as usize, Some("stale".into()));
            let base = base.clone();
            self.note(key, None, || Box::new(move || base.stale.set(!base.stale.get())));
        }
    }

    /// Notes what a view was when it was read.
    pub(crate) fn remember(&self, view: &Rc<View>, state: TensorVersion) {
        let (key, mut held) = ((Rc::as_ptr(view) as usize, None), view.read.replace(state));
        let view = view.clone();
        self.note(key, None, || Box::new(move || held = view.read.replace(held)));
    }

    /// Changes a list.
    pub(crate) fn edit_list<R>(
        &self,
        list: &Rc<SharedObject<Elements>>,
        f: impl FnOnce(&mut Elements) -> R,
    ) -> R {
        self.touch(&MutableObject::List(list.clone()));
        f(&mut list.borrow_mut())
    }

    /// Changes a dict.
    pub(crate) fn edit_dict<R>(
        &self,
        dict: &Rc<SharedObject<Vec<(Item, Item)>>>,
        f: impl FnOnce(&mut Vec<(Item, Item)>) -> R,
    ) -> R {
        self.touch(&MutableObject::Dict(dict.clone()));
        f(&mut dict.borrow_mut())
    }

    pub(crate) fn set_attribute(&self, object: &Rc<Instance>, name: &Rc<str>, item: Item) {
        self.touch(&MutableObject::Attribute(object.clone(), name.clone()));
        object.attributes.borrow_mut().insert(name.clone(), item);
    }

    /// What a place holds now.
    pub(crate) fn get(&self, place: &MutableObject) -> Item {
        match place {
            MutableObject::Base(base) => self.tensor(base.state.get().var),
            MutableObject::List(list) => Item::elements(list.borrow().clone()),
            MutableObject::Dict(dict) => Item::dict(dict.borrow().clone()),
            MutableObject::Attribute(object, name) => {
                object.attributes.borrow().get(name).cloned().unwrap_or(Item::None)
            }
        }
    }

    /// What a place held before the innermost block.
    pub(crate) fn old(&self, place: &MutableObject) -> Item {
        let mut journal = self.journal.borrow_mut();
        let mut undo = journal.blocks.last_mut().into_iter().flat_map(|block| &mut block.undo);
        let undo = undo.find(|undo| undo.place.as_ref().is_some_and(|changed| changed.is(place)));
        let Some(undo) = undo else { return self.get(place) };
        (undo.exchange)();
        let old = self.get(place);
        (undo.exchange)();
        old
    }

    /// The value as it is now, without the memory that it shares with others: what a block gives outlives
    /// what it did to them.
    pub(crate) fn settled(&self, item: &Item) -> Result<Item> {
        if let Item::Tensor(view) = item {
            let var = self.read(view)?;
            if !self.builder().is_own(var) {
                return Ok(item.clone());
            }
            let settled = self.tensor(var);
            let blocks = self.journal.borrow();
            if blocks.blocks.last().is_some_and(|block| view.base.born <= block.begun) {
                self.may_share(&settled, item);
            }
            return Ok(settled);
        }
        let Some(parts) = item.parts() else { return Ok(item.clone()) };
        let settled = parts.iter().map(|part| self.settled(part)).collect::<Result<Vec<_>>>()?;
        match parts.iter().zip(&settled).all(|(part, settled)| part.same(settled)) {
            true => Ok(item.clone()),
            false => Ok(item.with_parts(settled)),
        }
    }

    /// Makes `item` what a place holds.
    pub(crate) fn set(&self, place: &MutableObject, item: Item) {
        match (place, item) {
            (MutableObject::Base(base), Item::Tensor(view)) => {
                let var: Var = view.read.get().var;
                self.set_base(base, TensorVersion { version: self.next_version(), var });
            }
            (MutableObject::List(list), Item::List(from)) => {
                let elements = from.borrow().clone();
                self.edit_list(list, |to| *to = elements);
            }
            (MutableObject::Dict(dict), Item::Dict(from)) => {
                let items = from.borrow().clone();
                self.edit_dict(dict, |to| *to = items);
            }
            (MutableObject::Attribute(object, name), item) => {
                self.set_attribute(object, name, item);
            }
            _ => {}
        }
    }
}
