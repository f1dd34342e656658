//! Types as TorchScript prints them.

use std::rc::Rc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Tensor,
    Int,
    Float,
    Bool,
    Complex,
    /// `str`
    Text,
    /// `number`, `Scalar`
    Number,
    None,
    Any,
    Device,
    Generator,
    List(Box<Type>),
    Dict(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    Union(Vec<Type>),
    Tuple(Vec<Type>),
    Future(Box<Type>),
    /// A class by its qualified name (`__torch__.models.Net`), and all other words.
    Class(Rc<str>),
}
