//! The signatures of operators as torch declares them, and which of them a call means.

use std::rc::Rc;

/// One overload: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
#[derive(Debug)]
pub(crate) struct Schema {
    /// `aten::add`
    pub(crate) name: &'static str,
    /// `Tensor`; empty for the overload without name (`default` in exported programs).
    pub(crate) overload: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) returns: Vec<Return>,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) ty: Kind,
    pub(crate) default: Option<Default>,
    pub(crate) named_only: bool,
    pub(crate) alias: Option<Alias>,
}

#[derive(Debug)]
pub(crate) struct Return {
    pub(crate) ty: Kind,
    pub(crate) alias: Option<Alias>,
}

/// `(a)`, `(a!)`, `(a -> *)`: shares memory with what has the same letter; `!` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) set: &'static str,
    pub(crate) writes: bool,
}

/// The type of a parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tensor,
    /// `Scalar`, `number`
    Scalar,
    /// `int`, `SymInt`, also dtypes, layouts and memory formats
    Int,
    Float,
    Bool,
    Complex,
    Text,
    Device,
    Generator,
    /// `int[2]` takes one number for all; `int[]` does not.
    List(Box<Kind>, Option<usize>),
    Optional(Box<Kind>),
    Dict(Box<Kind>, Box<Kind>),
    Tuple(Vec<Kind>),
    /// A type variable (`t`), `Any`, `AnyEnumType`, and classes.
    Other(&'static str),
}

/// The default of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Default {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Floats(Vec<f64>),
}
