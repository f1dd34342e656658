//! Arguments taken out for the parameters of the function that reads them.

use super::Value;
use onnxd_build::{GraphBuilder, Operand, Var};
use onnxd_diagnostics::shown;
use onnxd_ir::{DataType, Tensor};

/// Longest list that is taken out of a constant of the graph.
const ITEMS_MAX: usize = 1 << 16;

/// The arguments of one operator: by position, then by name.
pub struct ArgumentReader<'b> {
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
    facts: Vec<(String, Value)>,
    next: usize,
    holed: bool,
    fault: Option<ArgumentFault>,
    builder: Option<&'b GraphBuilder>,
}

/// That an argument could not be taken; its [`ArgumentReader`] knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongArgument;

/// Why an argument could not be taken.
#[derive(Debug)]
pub(super) enum ArgumentFault {
    /// What it is the result of could not be lowered, which was reported there.
    Hole,
    /// The graph computes what must be known beforehand.
    Computed(String),
    /// It is missing, or of another kind.
    Wrong(String),
}

impl<'b> ArgumentReader<'b> {
    /// Arguments whose tensors are of the graph that `builder` builds.
    pub fn new(
        builder: &'b GraphBuilder,
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> ArgumentReader<'b> {
        let (builder, facts) = (Some(builder), vec![]);
        ArgumentReader { positional, named, facts, next: 0, holed: false, fault: None, builder }
    }

    /// With facts, which are no finding if they are not read.
    #[must_use]
    pub fn with_facts(mut self, facts: Vec<(String, Value)>) -> ArgumentReader<'b> {
        self.facts = facts;
        self
    }

    /// Whether an argument that was taken is a hole, or has one inside.
    pub(super) fn holed(&self) -> bool {
        self.holed
    }

    /// What kept [`ArgumentReader::take`] from taking an argument.
    pub(super) fn fault(&mut self) -> Option<ArgumentFault> {
        self.fault.take()
    }

    /// Takes the next argument, which is called `name`.
    ///
    /// # Errors
    /// That it is missing and has no default, or is of another kind. The reader remembers which, for the driver.
    // One for each kind of argument: whatever is the same for all of them stands in functions of its own.
    pub fn take<T: Argument>(
        &mut self,
        name: &str,
        default: Option<T>,
    ) -> Result<T, WrongArgument> {
        let Some(value) = self.next(name) else {
            return T::absent().or(default).ok_or_else(|| self.is_missing(name));
        };
        if value == Value::None
            && let Some(default) = T::absent().or(default)
        {
            return Ok(default);
        }
        T::of(&value, self.builder).ok_or_else(|| self.is_other(name, T::WHAT, &value))
    }

    /// The argument at the next position, or with this name.
    fn next(&mut self, name: &str) -> Option<Value> {
        let found = match self.positional.get_mut(self.next) {
            Some(value) => Some(std::mem::replace(value, Value::None)),
            None => {
                let taken = |list: &mut Vec<(String, Value)>| {
                    let at = list.iter().position(|(n, _)| n == name);
                    at.map(|at| list.remove(at).1)
                };
                taken(&mut self.named).or_else(|| taken(&mut self.facts))
            }
        };
        self.next += 1;
        self.holed |= found.as_ref().is_some_and(Value::has_hole);
        found
    }

    fn is_missing(&mut self, name: &str) -> WrongArgument {
        self.fault = Some(ArgumentFault::Wrong(format!("the argument `{name}` is missing")));
        WrongArgument
    }

    fn is_other(&mut self, name: &str, what: &str, value: &Value) -> WrongArgument {
        self.fault = Some(if value.has_hole() {
            ArgumentFault::Hole
        } else if is_computed(value, self.builder) {
            let known = "that is known beforehand, and the graph computes it";
            ArgumentFault::Computed(format!("the argument `{name}` must be {what} {known}"))
        } else {
            let found = value.kind();
            ArgumentFault::Wrong(format!("the argument `{name}` must be {what}, found {found}"))
        });
        WrongArgument
    }

    /// Names of the arguments that were not taken; those by position are `argument 3`.
    pub fn unread(&self) -> Vec<String> {
        let rest = self.next.min(self.positional.len())..self.positional.len();
        let positional = rest.map(|i| format!("argument {}", i + 1));
        positional.chain(self.named.iter().map(|(n, _)| format!("`{}`", shown(n)))).collect()
    }

    /// All arguments by position that are left, for operators that take any number of them.
    pub fn rest(&mut self) -> Vec<Value> {
        let rest = self.positional.split_off(self.next.min(self.positional.len()));
        self.holed |= rest.iter().any(Value::has_hole);
        self.next = self.positional.len();
        rest
    }
}

/// Whether the graph computes a value, so that nothing more of it is known.
fn is_computed(value: &Value, builder: Option<&GraphBuilder>) -> bool {
    matches!((value, builder), (Value::Var(v), Some(b)) if b.constant_of(*v).is_none())
}

/// What a function of a table takes: an argument, or a struct of arguments that [`arguments!`](crate::arguments!) made.
pub trait Parameter: Sized {
    /// Takes the argument that is called `name`, or all arguments of a struct.
    ///
    /// # Errors
    /// That one is missing or of another kind.
    fn take(reader: &mut ArgumentReader<'_>, name: &str) -> Result<Self, WrongArgument>;
}

impl<T: Argument> Parameter for T {
    fn take(reader: &mut ArgumentReader<'_>, name: &str) -> Result<T, WrongArgument> {
        reader.take(name, None)
    }
}

/// All arguments by position that are left, for operators that take any number of them.
#[derive(Clone, Debug)]
pub struct Rest(pub Vec<Value>);

impl Parameter for Rest {
    fn take(reader: &mut ArgumentReader<'_>, _: &str) -> Result<Rest, WrongArgument> {
        Ok(Rest(reader.rest()))
    }
}

/// A kind of argument.
pub trait Argument: Sized {
    /// What it is, for messages.
    const WHAT: &'static str;

    /// The argument, if the value is of this kind. Numbers and lists may be constants of the graph.
    fn of(value: &Value, builder: Option<&GraphBuilder>) -> Option<Self>;

    /// What it is where it is left out, if it may be.
    fn absent() -> Option<Self> {
        None
    }
}

/// The integers of a constant of rank 0 or 1.
fn ints(value: &Value, builder: Option<&GraphBuilder>) -> Option<Vec<i64>> {
    match value {
        Value::Var(v) => builder?.ints_of(*v).filter(|items| items.len() <= ITEMS_MAX),
        _ => None,
    }
}

fn reals(value: &Value, builder: Option<&GraphBuilder>) -> Option<Vec<f64>> {
    let Value::Var(v) = value else { return None };
    let tensor = builder?.constant_of(*v).filter(|t| t.rank() <= 1 && t.len() <= ITEMS_MAX)?;
    Some(tensor.to_reals()?.values)
}

fn single<T>(items: Vec<T>) -> Option<T> {
    let mut items = items.into_iter();
    items.next().filter(|_| items.next().is_none())
}

macro_rules! arguments_of {
    ($($ty:ty, $what:literal: |$value:ident, $builder:ident| $body:expr;)*) => {
        $(impl Argument for $ty {
            const WHAT: &'static str = $what;
            fn of($value: &Value, $builder: Option<&GraphBuilder>) -> Option<Self> { $body }
        })*
    };
}

arguments_of! {
    Value, "anything": |value, _builder| Some(value.clone());
    Var, "a tensor": |value, builder| match value {
        Value::Var(v) => Some(*v),
        Value::Int(x) => Some(builder?.constant(Tensor::scalar(*x))),
        Value::Float(x) => Some(builder?.constant(Tensor::scalar(*x as f32))),
        Value::Bool(x) => {
            let tensor = Tensor::new(DataType::Bool, vec![], vec![u8::from(*x)].into());
            Some(builder?.constant(tensor.ok()?))
        }
        // Only the other arguments are looked at then.
        Value::Hole => Some(builder?.placeholder(None)),
        _ => None,
    };
    i64, "an integer": |value, builder| match value {
        Value::Int(x) => Some(*x),
        Value::Bool(x) => Some(i64::from(*x)),
        other => single(ints(other, builder)?),
    };
    bool, "a truth value": |value, builder| match value {
        Value::Bool(x) => Some(*x),
        Value::Int(x) => Some(*x != 0),
        other => single(ints(other, builder)?).map(|x| x != 0),
    };
    f64, "a number": |value, builder| match value {
        Value::Float(x) => Some(*x),
        Value::Int(x) => Some(*x as f64),
        other => single(reals(other, builder)?),
    };
    String, "a word": |value, _builder| match value {
        Value::Text(x) => Some(x.clone()),
        _ => None,
    };
    Operand, "a tensor or a number": |value, builder| Some(match value {
        Value::Var(v) => Operand::Var(*v),
        Value::Int(x) => Operand::Int(*x),
        Value::Bool(x) => Operand::Int(i64::from(*x)),
        Value::Float(x) => Operand::Float(*x),
        Value::List(_) => Operand::Ints(Vec::of(value, builder)?),
        Value::None => Operand::Absent,
        _ => return None,
    });
}

/// A list; a constant of the graph where its items are integers.
impl<T: Argument + FromInt> Argument for Vec<T> {
    const WHAT: &'static str = "a list";

    fn of(value: &Value, builder: Option<&GraphBuilder>) -> Option<Vec<T>> {
        match value {
            Value::List(items) => items.iter().map(|item| T::of(item, builder)).collect(),
            other => ints(other, builder)?.into_iter().map(T::from_int).collect(),
        }
    }
}

/// Items that a constant list of integers may hold.
pub trait FromInt: Sized {
    /// The item, if it can be one.
    fn from_int(x: i64) -> Option<Self>;
}

macro_rules! from_int {
    ($($ty:ty: |$x:ident| $body:expr;)*) => {
        $(impl FromInt for $ty {
            fn from_int($x: i64) -> Option<Self> { $body }
        })*
    };
}

from_int! {
    i64: |x| Some(x);
    bool: |x| Some(x != 0);
    f64: |x| Some(x as f64);
    Var: |_x| None;
    Value: |x| Some(Value::Int(x));
    String: |_x| None;
}

impl<T: Argument> Argument for Option<T> {
    const WHAT: &'static str = T::WHAT;

    fn of(value: &Value, builder: Option<&GraphBuilder>) -> Option<Option<T>> {
        match value {
            Value::None => Some(None),
            other => T::of(other, builder).map(Some),
        }
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

/// Declares the arguments of a source's operator as a struct: name, kind and default of each, in the
/// order of the source. The comment names the operator; its signature stands in `schema/`, if the source has one.
#[macro_export]
macro_rules! arguments {
    ($(
        $(#[$doc:meta])*
        $vis:vis struct $name:ident { $($field:ident : $ty:ty $(= $default:expr)?),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        $vis struct $name { $($vis $field: $ty),* }

        impl $crate::Parameter for $name {
            fn take(reader: &mut $crate::ArgumentReader<'_>, _: &str) -> Result<Self, $crate::WrongArgument> {
                $(
                    #[allow(unused_mut, unused_assignments)]
                    let mut default: Option<$ty> = None;
                    $(default = Some($default.into());)?
                    let $field = reader.take(stringify!($field), default)?;
                )*
                Ok($name { $($field),* })
            }
        }
    )* };
}
