//! Types as TorchScript prints them.

use crate::diag::shown;
use std::fmt;
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
    /// `Future[T]`, also `Await[T]`.
    Future(Box<Type>),
    /// A class by its qualified name (`__torch__.models.Net`), and all other words.
    Class(Rc<str>),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all =
            |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Type::Tensor => write!(f, "Tensor"),
            Type::Int => write!(f, "int"),
            Type::Float => write!(f, "float"),
            Type::Bool => write!(f, "bool"),
            Type::Complex => write!(f, "complex"),
            Type::Text => write!(f, "str"),
            Type::Number => write!(f, "number"),
            Type::None => write!(f, "None"),
            Type::Any => write!(f, "Any"),
            Type::Device => write!(f, "Device"),
            Type::Generator => write!(f, "Generator"),
            Type::List(of) => write!(f, "List[{of}]"),
            Type::Dict(key, value) => write!(f, "Dict[{key}, {value}]"),
            Type::Optional(of) => write!(f, "Optional[{of}]"),
            Type::Union(types) => write!(f, "Union[{}]", all(types)),
            Type::Tuple(types) => write!(f, "Tuple[{}]", all(types)),
            Type::Future(of) => write!(f, "Future[{of}]"),
            Type::Class(name) => write!(f, "{}", shown(name)),
        }
    }
}

/// The type that a word alone names.
pub(crate) fn named(name: &str) -> Type {
    match name {
        "Tensor" => Type::Tensor,
        "int" => Type::Int,
        "float" => Type::Float,
        "bool" => Type::Bool,
        "complex" => Type::Complex,
        "str" => Type::Text,
        "number" | "Scalar" => Type::Number,
        "None" | "NoneType" => Type::None,
        "Any" => Type::Any,
        "Device" => Type::Device,
        "Generator" => Type::Generator,
        _ => Type::Class(name.into()),
    }
}

/// A type with arguments; `None` if the word takes no such ones.
pub(crate) fn generic(name: &str, mut arguments: Vec<Type>) -> Option<Type> {
    match name {
        "Tuple" => return Some(Type::Tuple(arguments)),
        "Union" if !arguments.is_empty() => return Some(Type::Union(arguments)),
        _ => {}
    }
    let last = Box::new(arguments.pop()?);
    let first = arguments.pop();
    if !arguments.is_empty() {
        return None;
    }
    Some(match (name, first) {
        ("Dict", Some(key)) => Type::Dict(Box::new(key), last),
        ("List", None) => Type::List(last),
        ("Optional", None) => Type::Optional(last),
        ("Future" | "Await", None) => Type::Future(last),
        // Which attributes are constant makes no difference: the values of the object are taken.
        ("Final", None) => *last,
        ("RRef", None) => Type::Class("RRef".into()),
        _ => return None,
    })
}
