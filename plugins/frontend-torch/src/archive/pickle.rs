//! Objects of a pickle: data only, nothing is executed.

use super::storage::Stored;
use std::cell::RefCell;
use std::rc::Rc;

/// A value of a pickle. Containers are shared as in Python.
#[derive(Clone, Debug)]
pub(crate) enum Pickled {
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
    Tensor(Rc<Stored>),
    /// An instance of a class, or what an unknown function would have made.
    Object(Rc<Object>),
    /// A class or function by module and name; never called.
    Global(Rc<str>, Rc<str>),
}

#[derive(Debug)]
pub(crate) struct Object {
    /// `__torch__.models.Net`, `torchvision.models.resnet.ResNet`.
    pub(crate) class: Rc<str>,
    /// What it was made of (`REDUCE`, `NEWOBJ`): the value of an enum member, mostly empty.
    pub(crate) arguments: Vec<Pickled>,
    /// What `BUILD` gave it: a dict of attributes, or what its `__getstate__` gave.
    pub(crate) state: RefCell<Option<Pickled>>,
}
