//! Arguments and results of nodes.

use super::{Graph, SymbolicSize, dtypes};
use crate::diag::refuse;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// A value that a graph uses: a name of the graph, or a constant.
#[derive(Debug)]
pub(crate) enum Argument {
    None,
    Tensor(Rc<str>),
    /// A number or boolean that the graph computes.
    Symbol(Rc<str>),
    /// Also dtypes, memory formats and layouts, with TorchScript's numbers.
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Text(Rc<str>),
    /// Type and index: `cuda`, 1.
    Device(Rc<str>, Option<i64>),
    List(Vec<Argument>),
    Dict(Vec<(Rc<str>, Argument)>),
    Graph(Rc<str>, Box<Graph>),
    /// An object of a C++ class, by its name in the graph.
    Object(Rc<str>),
    /// An operator by its name.
    Operator(Rc<str>),
}

impl<'de> Deserialize<'de> for Argument {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Argument, D::Error> {
        from.deserialize_map(ArgumentsVisitor)
    }
}

/// `{"as_int": 1}`; schema 2 writes all keys, with null for those that are not meant.
struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Argument;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an argument")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Argument, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            let value = value(&key, &mut map)?;
            refuse!(value.is_some() && found.is_some() => A::Error::custom("an argument with two values"));
            found = found.or(value);
        }
        found.ok_or_else(|| A::Error::custom("an argument without a value"))
    }
}

/// The value of a key; none if it is null.
fn value<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Argument>, A::Error> {
    use Argument as R;
    match key {
        "as_none" => some(map, |_: IgnoredAny| R::None),
        "as_tensor" => some(map, |tensor: NamedValue| R::Tensor(tensor.name)),
        "as_tensors" => some(map, tensors),
        "as_nested_tensors" => some(map, |lists: Vec<Vec<NamedValue>>| list(lists, tensors)),
        "as_optional_tensor" => some(map, |tensor: Argument| tensor),
        "as_optional_tensors" => some(map, R::List),
        "as_int" => some(map, R::Int),
        "as_ints" => some(map, |ints: Vec<i64>| list(ints, R::Int)),
        "as_int_lists" => some(map, |lists: Vec<Vec<i64>>| list(lists, |ints| list(ints, R::Int))),
        "as_float" => some(map, |float: Float| R::Float(float.0)),
        "as_floats" => some(map, floats),
        "as_float_lists" => some(map, |lists: Vec<Vec<Float>>| list(lists, floats)),
        "as_bool" => some(map, R::Bool),
        "as_bools" => some(map, |bools: Vec<bool>| list(bools, R::Bool)),
        "as_string" => some(map, R::Text),
        "as_strings" => some(map, |texts: Vec<Rc<str>>| list(texts, R::Text)),
        "as_sym_int" | "as_sym_bool" | "as_sym_float" => some(map, |symbol: Symbolic| symbol.0),
        "as_sym_ints" | "as_sym_bools" | "as_sym_floats" => {
            some(map, |symbols: Vec<Symbolic>| list(symbols, |symbol| symbol.0))
        }
        "as_scalar_type" => number(map, dtypes::dtype),
        "as_memory_format" => number(map, dtypes::memory_format),
        "as_layout" => number(map, dtypes::layout),
        "as_device" => some(map, |device: Device| R::Device(device.r#type, device.index)),
        "as_complex" => some(map, |complex: Complex| R::Complex(complex.real.0, complex.imag.0)),
        "as_graph" => some(map, |inner: Inner| R::Graph(inner.name, Box::new(inner.graph))),
        "as_custom_obj" => some(map, |object: NamedValue| R::Object(object.name)),
        "as_operator" => some(map, R::Operator),
        "as_string_to_argument" => {
            let dict = |dict: HashMap<Rc<str>, Argument>| {
                let mut items: Vec<_> = dict.into_iter().collect();
                items.sort_by(|(one, _), (other, _)| one.cmp(other));
                R::Dict(items)
            };
            some(map, dict)
        }
        other => match map.next_value::<Option<IgnoredAny>>()? {
            None => Ok(None),
            Some(_) => Err(A::Error::custom(format!("unknown kind of argument `{other}`"))),
        },
    }
}

fn some<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    make: impl FnOnce(T) -> Argument,
) -> Result<Option<Argument>, A::Error> {
    Ok(map.next_value::<Option<T>>()?.map(make))
}

fn number<'de, A: MapAccess<'de>>(
    map: &mut A,
    known: fn(i64) -> Result<i64, A::Error>,
) -> Result<Option<Argument>, A::Error> {
    let number = map.next_value::<Option<i64>>()?.map(known).transpose()?;
    Ok(number.map(Argument::Int))
}

fn list<T>(items: Vec<T>, make: impl Fn(T) -> Argument) -> Argument {
    Argument::List(items.into_iter().map(make).collect())
}

fn tensors(names: Vec<NamedValue>) -> Argument {
    list(names, |tensor| Argument::Tensor(tensor.name))
}

fn floats(floats: Vec<Float>) -> Argument {
    list(floats, |float| Argument::Float(float.0))
}

/// A value by its name; only objects have a class.
#[derive(serde::Deserialize)]
pub(super) struct NamedValue {
    pub(super) name: Rc<str>,
    class_fqn: Option<IgnoredAny>,
}

impl NamedValue {
    pub(super) fn argument(&self) -> Argument {
        match self.class_fqn {
            Some(_) => Argument::Object(self.name.clone()),
            None => Argument::Tensor(self.name.clone()),
        }
    }
}

#[derive(serde::Deserialize)]
struct Device {
    r#type: Rc<str>,
    index: Option<i64>,
}

#[derive(serde::Deserialize)]
struct Complex {
    real: Float,
    imag: Float,
}

#[derive(serde::Deserialize)]
struct Inner {
    name: Rc<str>,
    graph: Graph,
}

/// A float. JSON has no word for infinities, so torch writes text.
struct Float(f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Float, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(Float(number)),
            Written::Text(text) => match text.as_str() {
                "Infinity" | "inf" => Ok(Float(f64::INFINITY)),
                "-Infinity" | "-inf" => Ok(Float(f64::NEG_INFINITY)),
                "NaN" | "nan" => Ok(Float(f64::NAN)),
                other => Err(D::Error::custom(format!("`{other}` is no float"))),
            },
        }
    }
}

/// `{"as_name": "add"}` or `{"as_int": 1}`, also with all keys.
struct Symbolic(Argument);

impl<'de> Deserialize<'de> for Symbolic {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Symbolic, D::Error> {
        #[derive(serde::Deserialize)]
        struct Written {
            as_name: Option<Rc<str>>,
            as_int: Option<i64>,
            as_float: Option<Float>,
            as_bool: Option<bool>,
        }
        let written = Written::deserialize(from)?;
        let number = written.as_int.map(Argument::Int);
        let number = number.or(written.as_float.map(|float| Argument::Float(float.0)));
        let constant = number.or(written.as_bool.map(Argument::Bool));
        let argument = written.as_name.map(Argument::Symbol).or(constant);
        argument.map(Symbolic).ok_or_else(|| D::Error::custom("a symbol without name and value"))
    }
}

/// `{"as_int": 3}` or `{"as_expr": {"expr_str": "2*s0"}}`; offsets of schema 2 are plain numbers.
impl<'de> Deserialize<'de> for SymbolicSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SymbolicSize, D::Error> {
        from.deserialize_any(SizesVisitor)
    }
}

struct SizesVisitor;

impl<'de> Visitor<'de> for SizesVisitor {
    type Value = SymbolicSize;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number or an expression")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<SymbolicSize, E> {
        number
            .try_into()
            .map(SymbolicSize::Known)
            .map_err(|_| E::custom(format!("the size {number} is too large")))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<SymbolicSize, E> {
        Ok(SymbolicSize::Known(number))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SymbolicSize, A::Error> {
        #[derive(serde::Deserialize)]
        struct Expression {
            expr_str: Rc<str>,
        }
        #[derive(serde::Deserialize)]
        struct Written {
            as_int: Option<i64>,
            as_expr: Option<Expression>,
        }
        match Written::deserialize(MapAccessDeserializer::new(map))? {
            Written { as_int: Some(size), as_expr: None } => Ok(SymbolicSize::Known(size)),
            Written { as_int: None, as_expr: Some(expr) } => {
                Ok(SymbolicSize::Symbolic(expr.expr_str))
            }
            _ => Err(A::Error::custom("a size is either a number or an expression")),
        }
    }
}
