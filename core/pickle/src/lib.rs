//! What `torch.save` writes: objects of a pickle, as data alone, and tensors as views of storages in the mapped file.
//! Nothing is executed: what looks like a call of an unknown function gives an opaque object.
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod context;
pub mod problem;
mod reader;
mod reduce;
pub mod storage;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub use context::Context;
pub use reader::{read, read_one};
pub use tree::PickledTree;

use bytes::Bytes;
use onnxd_diagnostics::Diagnostic;
use std::cell::RefCell;
use std::rc::Rc;
use storage::{Storage, StoredTensor};

/// Files of an archive, by their names in it.
pub trait Members: std::fmt::Debug {
    /// Whether there is a member of this name.
    fn has(&self, name: &str) -> bool;

    /// The bytes of a member; as they lie in the file, if they are stored.
    ///
    /// # Errors
    /// If there is none, or if it is damaged.
    fn read(&self, name: &str) -> Result<Bytes, Diagnostic>;
}

/// A value of a pickle. Containers are shared as in Python.
#[derive(Clone, Debug)]
pub enum Pickled {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// `builtins complex`
    Complex(f64, f64),
    Text(Rc<str>),
    /// `torch device`
    Device(Rc<str>),
    Tuple(Rc<[Pickled]>),
    List(Rc<RefCell<Vec<Pickled>>>),
    Dict(Rc<RefCell<Vec<(Pickled, Pickled)>>>),
    Tensor(Rc<StoredTensor>),
    /// A storage by itself, or before a tensor is made of it.
    Storage(Rc<Storage>),
    /// `bytes`, `bytearray`; no model depends on what they are.
    Bytes,
    /// An instance of a class, or what an unknown function would have made.
    Object(Rc<Object>),
    /// A class or function by module and name; never called.
    Global(Rc<str>, Rc<str>),
}

#[derive(Debug)]
pub struct Object {
    /// `__torch__.models.Net`, `torchvision.models.resnet.ResNet`.
    pub class: Rc<str>,
    /// What it was made of (`REDUCE`, `NEWOBJ`): the value of an enum member, mostly empty.
    pub arguments: Vec<Pickled>,
    /// What `BUILD` gave it: a dict of attributes, or what its `__getstate__` gave.
    pub state: RefCell<Option<Pickled>>,
}

impl Pickled {
    pub fn list(items: Vec<Pickled>) -> Pickled {
        Pickled::List(Rc::new(RefCell::new(items)))
    }

    pub fn dict(items: Vec<(Pickled, Pickled)>) -> Pickled {
        Pickled::Dict(Rc::new(RefCell::new(items)))
    }

    pub fn object(class: impl Into<Rc<str>>, arguments: Vec<Pickled>) -> Pickled {
        Pickled::Object(Rc::new(Object {
            class: class.into(),
            arguments,
            state: RefCell::default(),
        }))
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Pickled::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a tuple or list.
    pub fn items(&self) -> Option<Vec<Pickled>> {
        match self {
            Pickled::Tuple(items) => Some(items.to_vec()),
            Pickled::List(items) => Some(items.borrow().clone()),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Pickled::None => "None",
            Pickled::Bool(_) => "a bool",
            Pickled::Int(_) => "an integer",
            Pickled::Float(_) => "a float",
            Pickled::Complex(..) => "a complex number",
            Pickled::Text(_) => "a string",
            Pickled::Device(_) => "a device",
            Pickled::Tuple(_) => "a tuple",
            Pickled::List(_) => "a list",
            Pickled::Dict(_) => "a dict",
            Pickled::Tensor(_) => "a tensor",
            Pickled::Storage(_) => "a storage",
            Pickled::Bytes => "bytes",
            Pickled::Object(_) => "an object",
            Pickled::Global(..) => "a class or function",
        }
    }

    /// The value of a key that is text.
    pub fn get(&self, key: &str) -> Option<Pickled> {
        let Pickled::Dict(items) = self else { return None };
        let items = items.borrow();
        items.iter().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value.clone())
    }
}

impl Object {
    /// The attribute of a name, where the state is a dict.
    pub fn attribute(&self, name: &str) -> Option<Pickled> {
        self.state.borrow().as_ref()?.get(name)
    }
}
