//! What a source's operators read and give.

use onnxd_build::Var;
use onnxd_diagnostics::shown;
use std::fmt;

/// An argument or result of a source's operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value of the graph.
    Var(Var),
    /// Nothing: an optional argument that is left out.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A word.
    Text(String),
    /// A list or tuple.
    List(Vec<Value>),
    /// What an operator would have given that could not be lowered; it was reported.
    Hole,
}

impl Value {
    /// Whether it is a hole, or has one inside.
    pub fn has_hole(&self) -> bool {
        match self {
            Value::Hole => true,
            Value::List(items) => items.iter().any(Value::has_hole),
            _ => false,
        }
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Var(_) => "a tensor",
            Value::None => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a word",
            Value::List(_) => "a list",
            Value::Hole => "a value that could not be lowered",
        }
    }
}

/// Items of a list in a message.
const SHOWN_MAX: usize = 8;

/// For messages: numbers and words as they are, and of others what they are.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(x) => write!(f, "{x}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Text(text) => write!(f, "`{}`", shown(text)),
            Value::List(items) => {
                let mut words: Vec<String> =
                    items.iter().take(SHOWN_MAX).map(Value::to_string).collect();
                if items.len() > SHOWN_MAX {
                    words.push(String::from("..."));
                }
                write!(f, "[{}]", words.join(", "))
            }
            other => f.write_str(other.kind()),
        }
    }
}

macro_rules! values {
    ($($from:ty: $x:ident => $to:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($x: $from) -> Value { $to }
        })*
    };
}

values! {
    Var: x => Value::Var(x);
    bool: x => Value::Bool(x);
    i64: x => Value::Int(x);
    f64: x => Value::Float(x);
    &str: x => Value::Text(x.to_owned());
    String: x => Value::Text(x);
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Value {
        Value::List(items.into_iter().map(T::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(x: Option<T>) -> Value {
        x.map_or(Value::None, T::into)
    }
}
