//! The printed code of a TorchScript archive, as it is written.

use super::types::Type;
use std::rc::Rc;

/// A file of code: what it defines, by name within the file.
#[derive(Debug, Default)]
pub(crate) struct CodeFile {
    pub(crate) classes: Vec<Rc<Class>>,
    pub(crate) functions: Vec<Rc<CodeFunction>>,
    /// `op_version_set = 1`, before torch 1.3.
    pub(crate) version: Option<i64>,
    /// How many statements and expressions it has.
    pub(crate) nodes: usize,
}

/// What a class stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClassKind {
    Module,
    /// A script class: no base.
    #[default]
    Plain,
    NamedTuple,
    Interface,
    Enum,
}

#[derive(Debug, Default)]
pub(crate) struct Class {
    pub(crate) name: Rc<str>,
    pub(crate) kind: ClassKind,
    /// `__parameters__` and `__buffers__`, as far as written.
    pub(crate) parameters: Vec<Rc<str>>,
    pub(crate) buffers: Vec<Rc<str>>,
    /// Methods that run before and behind `forward` when the module is called.
    pub(crate) pre_hooks: Vec<Rc<str>>,
    pub(crate) hooks: Vec<Rc<str>>,
    /// Declared attributes and fields, in order; `Final` ones and enum members have values.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) methods: Vec<Rc<CodeFunction>>,
}

impl Class {
    pub(crate) fn method(&self, name: &str) -> Option<&Rc<CodeFunction>> {
        self.methods.iter().find(|method| &*method.name == name)
    }
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: Rc<str>,
    pub(crate) value: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct CodeFunction {
    pub(crate) name: Rc<str>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Rc<str>,
    pub(crate) ty: Option<Type>,
    pub(crate) default: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct Statement {
    /// Number of its first line, from 1.
    pub(crate) line: u32,
    pub(crate) kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    /// `x = e`, `x : T = e`, `a, b = e1, e2` (at once), and with a call `a, b = f(x)`.
    Assign {
        targets: Vec<AssignTarget>,
        unpack: bool,
        values: Vec<Expr>,
    },
    /// A call for its effect.
    Expression(Expr),
    If {
        condition: Expr,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// `for i in range(n)`; other iterables as old versions print them.
    For {
        target: Rc<str>,
        iterable: Expr,
        body: Vec<Statement>,
    },
    While {
        condition: Expr,
        body: Vec<Statement>,
    },
    With {
        context: Expr,
        target: Option<Rc<str>>,
        body: Vec<Statement>,
    },
    /// A function within a function, for `fork`.
    Define(Rc<CodeFunction>),
    Return(Option<Expr>),
    Pass,
}

/// Where a value goes. `unpack` of the assignment says whether one value is taken apart (`a, = e` too).
#[derive(Debug)]
pub(crate) enum AssignTarget {
    Name(Rc<str>),
    /// `object.name = e`
    Attribute(Expr, Rc<str>),
    /// `container[key] = e`
    Item(Expr, Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// `0.+2.j`, `2j`
    Complex(f64, f64),
    Text(Rc<str>),
    /// A variable, or the first part of a qualified name (`__torch__`, `torch`, `ops`, `CONSTANTS`, `self`).
    Name(Rc<str>),
    /// `e.name`, also `getattr(e, "0")`.
    Attribute(Box<Expr>, Rc<str>),
    /// `e[i]`
    Item(Box<Expr>, Box<Expr>),
    /// `e[a:b]`, of tuples.
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// `f(a, b, name=c)`
    Call {
        function: Box<Expr>,
        arguments: Vec<Expr>,
        named: Vec<(Rc<str>, Expr)>,
    },
    /// `annotate(T, e)`
    Annotate(Type, Box<Expr>),
    /// `uninitialized(T)`: any value of that type.
    Uninitialized(Type),
    /// `unchecked_cast(T, e)`
    Cast(Type, Box<Expr>),
    /// `isinstance(e, T)`, `isinstance(e, (T1, T2))`
    IsInstance(Box<Expr>, Vec<Type>),
}
