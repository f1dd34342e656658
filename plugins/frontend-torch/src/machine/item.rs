//! What a program computes with: Python's values, and values of the graph.

use super::Variables;
use super::alias::View;
use crate::diag::shown;
use crate::syntax::ast::{Class, CodeFunction};
use crate::syntax::types::Type;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

/// A value while the program runs. What is known now is no value of the graph.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    Text(Rc<str>),
    Device(Rc<str>),
    /// A number that is known only when the model runs.
    Number(GraphNumber),
    Tensor(Rc<View>),
    List(Rc<SharedObject<Elements>>),
    Tuple(Rc<[Item]>),
    /// An instance of a class of named tuples.
    Record(Rc<Class>, Rc<[Item]>),
    Dict(Rc<SharedObject<Vec<(Item, Item)>>>),
    /// An instance of a module or class.
    Object(Rc<Instance>),
    /// A member of an enum: class, name, value.
    Member(Rc<str>, Rc<str>, Rc<Item>),
    /// A function: the module it is in, and the variables around it.
    Function(Rc<str>, Rc<CodeFunction>, Rc<Variables>),
    Method(Rc<Instance>, Rc<CodeFunction>),
    /// A part of a qualified name: `torch`, `ops.prim`, `__torch__.models`.
    Path(Rc<str>),
    /// None or a value; which of both is known only when the model runs.
    Maybe(GraphNumber, Rc<Item>),
    /// Any value of the type: of a path that is never taken.
    Uninitialized(Type),
    /// What an operator would have given that cannot be converted; it was reported.
    Hole,
}

/// A number in the graph: a tensor of rank 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GraphNumber {
    pub(crate) var: Var,
    pub(crate) kind: NumberKind,
}

/// Python's type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberKind {
    Bool,
    Int,
    Float,
}

impl NumberKind {
    /// The element type that it has in the graph.
    pub(crate) fn dtype(self) -> DataType {
        match self {
            NumberKind::Bool => DataType::Bool,
            NumberKind::Int => DataType::Int64,
            NumberKind::Float => DataType::Float,
        }
    }
}

/// The elements of a list.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    Known(Vec<Item>),
    /// A sequence of tensors in the graph, whose length is known only when the model runs.
    Sequence(Var),
    /// Numbers in a tensor of one axis, whose size is known only when the model runs.
    Numbers(Var, NumberKind),
}

/// Something that several values refer to and that can change.
#[derive(Debug)]
pub(crate) struct SharedObject<T> {
    /// When it was made. A block of the program gives only what was there before it.
    pub(crate) born: u64,
    cell: RefCell<T>,
}

impl<T> SharedObject<T> {
    pub(crate) fn new(content: T) -> SharedObject<T> {
        SharedObject { born: now(), cell: RefCell::new(content) }
    }
}

impl<T> Deref for SharedObject<T> {
    type Target = RefCell<T>;
    fn deref(&self) -> &RefCell<T> {
        &self.cell
    }
}

/// A number that grows with each call.
pub(crate) fn now() -> u64 {
    thread_local!(static CLOCK: Cell<u64> = const { Cell::new(0) });
    CLOCK.with(|clock| {
        clock.set(clock.get() + 1);
        clock.get()
    })
}

/// An object: of a module, a script class, or a class of torch's own.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Qualified name of its class.
    pub(crate) class: Rc<str>,
    /// Path of a module from the root (`layer1.0.conv1`); empty for the root and other objects.
    pub(crate) path: Rc<str>,
    pub(crate) attributes: SharedObject<HashMap<Rc<str>, Item>>,
    /// What `__getstate__` gave, where a class has it.
    pub(crate) state: RefCell<Option<Item>>,
}

impl Instance {
    /// An object without attributes.
    pub(crate) fn new(class: &str, path: &str) -> Instance {
        let attributes = SharedObject::new(HashMap::new());
        Instance { class: class.into(), path: path.into(), attributes, state: RefCell::default() }
    }
}

impl Item {
    pub(crate) fn text(text: &str) -> Item {
        Item::Text(text.into())
    }

    pub(crate) fn list(items: Vec<Item>) -> Item {
        Item::elements(Elements::Known(items))
    }

    pub(crate) fn elements(elements: Elements) -> Item {
        Item::List(Rc::new(SharedObject::new(elements)))
    }

    pub(crate) fn tuple(items: Vec<Item>) -> Item {
        Item::Tuple(items.into())
    }

    pub(crate) fn dict(items: Vec<(Item, Item)>) -> Item {
        Item::Dict(Rc::new(SharedObject::new(items)))
    }

    pub(crate) fn ints(items: impl IntoIterator<Item = i64>) -> Item {
        Item::list(items.into_iter().map(Item::Int).collect())
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Item::Int(x) => Some(*x),
            Item::Bool(x) => Some(i64::from(*x)),
            _ => None,
        }
    }

    /// A number that is known, as a float.
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Item::Float(x) => Some(*x),
            other => other.as_int().map(|x| x as f64),
        }
    }

    /// The items of a list or tuple whose length is known.
    pub(crate) fn items(&self) -> Option<Vec<Item>> {
        match self {
            Item::Tuple(items) | Item::Record(_, items) => Some(items.to_vec()),
            Item::List(cell) => match &*cell.borrow() {
                Elements::Known(items) => Some(items.clone()),
                Elements::Sequence(_) | Elements::Numbers(..) => None,
            },
            _ => None,
        }
    }

    /// What a container holds: the items of a list or tuple whose length is known, or the values of a dict.
    pub(crate) fn parts(&self) -> Option<Vec<Item>> {
        match self {
            Item::Dict(cell) => {
                Some(cell.borrow().iter().map(|(_, value)| value.clone()).collect())
            }
            other => other.items(),
        }
    }

    /// The value of the graph that is a list whose length is known only when the model runs, and the kind of its
    /// numbers if it holds such.
    pub(crate) fn elements_var(&self) -> Option<(Var, Option<NumberKind>)> {
        match self {
            Item::List(cell) => match &*cell.borrow() {
                Elements::Known(_) => None,
                Elements::Sequence(var) => Some((*var, None)),
                Elements::Numbers(var, kind) => Some((*var, Some(*kind))),
            },
            _ => None,
        }
    }

    /// Whether anything that it holds is as `f` says, also keys and an optional value.
    pub(crate) fn any_part(&self, f: &mut dyn FnMut(&Item) -> bool) -> bool {
        match self {
            Item::Tuple(items) | Item::Record(_, items) => items.iter().any(f),
            Item::List(cell) => match &*cell.borrow() {
                Elements::Known(items) => items.iter().any(f),
                Elements::Sequence(_) | Elements::Numbers(..) => false,
            },
            Item::Dict(cell) => cell.borrow().iter().any(|(key, value)| f(key) || f(value)),
            Item::Maybe(_, item) => f(item),
            _ => false,
        }
    }

    /// A container like this one that holds other parts.
    pub(crate) fn with_parts(&self, parts: Vec<Item>) -> Item {
        match self {
            Item::List(_) => Item::list(parts),
            Item::Record(class, _) => Item::Record(class.clone(), parts.into()),
            Item::Dict(cell) => {
                let keys = cell.borrow().iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
                Item::dict(keys.into_iter().zip(parts).collect())
            }
            _ => Item::tuple(parts),
        }
    }

    /// Whether it is a tensor.
    pub(crate) fn is_tensor(&self) -> bool {
        matches!(self, Item::Tensor(_))
    }

    /// Whether it, or an item inside, is a value of the graph or a hole.
    pub(crate) fn is_computed(&self) -> bool {
        match self {
            Item::Number(_) | Item::Tensor(_) | Item::Hole => true,
            Item::Maybe(..) | Item::Uninitialized(_) => true,
            other => other.elements_var().is_some() || other.any_part(&mut Item::is_computed),
        }
    }

    /// Whether it is a hole, or has one inside.
    pub(crate) fn has_hole(&self) -> bool {
        match self {
            Item::Hole => true,
            Item::Maybe(_, item) => item.has_hole(),
            other => other.items().is_some_and(|items| items.iter().any(Item::has_hole)),
        }
    }

    /// What it is, for messages.
    pub(crate) fn what(&self) -> String {
        match self {
            Item::None => "None".into(),
            Item::Bool(_) => "a bool".into(),
            Item::Int(_) => "an int".into(),
            Item::Float(_) => "a float".into(),
            Item::Complex(..) => "a complex number".into(),
            Item::Text(_) => "a str".into(),
            Item::Device(_) => "a device".into(),
            Item::Number(_) => "a number that is computed".into(),
            Item::Tensor(_) => "a tensor".into(),
            Item::List(_) => "a list".into(),
            Item::Tuple(_) | Item::Record(..) => "a tuple".into(),
            Item::Dict(_) => "a dict".into(),
            Item::Object(object) => format!("an object of class `{}`", shown(&object.class)),
            Item::Member(class, ..) => format!("a member of `{}`", shown(class)),
            Item::Function(name, ..) => format!("the function `{}`", shown(name)),
            Item::Method(..) => "a method".into(),
            Item::Path(path) => format!("`{}`", shown(path)),
            Item::Maybe(..) => "an optional value".into(),
            Item::Uninitialized(_) => "a value that was never set".into(),
            Item::Hole => "a value that could not be converted".into(),
        }
    }

    /// Whether both are the same value for certain, without a look at the graph.
    pub(crate) fn same(&self, other: &Item) -> bool {
        match (self, other) {
            (Item::None, Item::None) => true,
            (Item::Bool(a), Item::Bool(b)) => a == b,
            (Item::Int(a), Item::Int(b)) => a == b,
            (Item::Float(a), Item::Float(b)) => a.to_bits() == b.to_bits(),
            (Item::Complex(a, b), Item::Complex(c, d)) => (a, b) == (c, d),
            (Item::Text(a), Item::Text(b)) | (Item::Device(a), Item::Device(b)) => a == b,
            (Item::Path(a), Item::Path(b)) => a == b,
            (Item::Number(a), Item::Number(b)) => a == b,
            (Item::Tensor(a), Item::Tensor(b)) => Rc::ptr_eq(a, b),
            (Item::List(a), Item::List(b)) => Rc::ptr_eq(a, b),
            (Item::Dict(a), Item::Dict(b)) => Rc::ptr_eq(a, b),
            (Item::Object(a), Item::Object(b)) => Rc::ptr_eq(a, b),
            (Item::Member(a, b, _), Item::Member(c, d, _)) => (a, b) == (c, d),
            (Item::Function(.., a), Item::Function(.., b)) => Rc::ptr_eq(a, b),
            (Item::Tuple(a), Item::Tuple(b)) => all_same(a, b),
            (Item::Record(c, a), Item::Record(d, b)) => Rc::ptr_eq(c, d) && all_same(a, b),
            (Item::Maybe(p, a), Item::Maybe(q, b)) => p == q && a.same(b),
            (Item::Uninitialized(a), Item::Uninitialized(b)) => a == b,
            (Item::Hole, Item::Hole) => true,
            _ => false,
        }
    }
}

fn all_same(a: &[Item], b: &[Item]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}
