//! Which overload a call of TorchScript means: its code names the operator only.
//!
//! As in torch, the first overload in the order of registration is meant that takes the arguments as they are. If none
//! does, implicit conversions are allowed.

use super::{ArgType, Parameter, Schema, overloads};
use crate::diag::{Code, Diagnostic};
use std::fmt;
use std::rc::Rc;

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArgumentKind {
    /// With its rank, where it is known.
    Tensor(Option<usize>),
    Int,
    Float,
    Bool,
    Complex,
    Text,
    None,
    Device,
    /// The different kinds of its elements; none of an empty list.
    List(Vec<ArgumentKind>),
    Tuple(Vec<ArgumentKind>),
    /// The different kinds of its keys and values.
    Dict(Vec<(ArgumentKind, ArgumentKind)>),
    /// A member of an enum.
    Enum,
    /// An instance of a class: `__torch__.torch.classes.quantized.Conv2dPackedParamsBase`.
    Object(Rc<str>),
    /// Not known: it fits everywhere.
    Any,
}

/// Which conversions are allowed.
#[derive(Clone, Copy, PartialEq)]
enum Conversions {
    None,
    /// Tensors and booleans to numbers, text to devices.
    Implicit,
    /// Also numbers to each other: torch does so where it only knows that a value is a number (`Scalar`).
    Numbers,
}

/// The overload of `name` that takes the arguments.
pub(crate) fn resolve(
    name: &str,
    positional: &[ArgumentKind],
    named: &[(&str, ArgumentKind)],
) -> Result<&'static Schema, Diagnostic> {
    let candidates = overloads(name);
    for conversions in [Conversions::None, Conversions::Implicit, Conversions::Numbers] {
        for schema in candidates {
            if fits(schema, positional, named, conversions) {
                return Ok(schema);
            }
        }
    }
    Err(unresolved(name, positional, named))
}

/// Whether an overload takes the arguments, and has a value for every parameter.
fn fits(
    schema: &Schema,
    positional: &[ArgumentKind],
    named: &[(&str, ArgumentKind)],
    conversions: Conversions,
) -> bool {
    let by_position =
        schema.parameters.iter().take_while(|parameter| !parameter.named_only).count();
    if positional.len() > by_position && !schema.variadic {
        return false;
    }
    let mut by_name = 0;
    let has_value = |(at, parameter): (usize, &Parameter)| {
        let given = if at < by_position { positional.get(at) } else { None };
        let named_argument = named.iter().find(|(name, _)| *name == parameter.name);
        by_name += usize::from(named_argument.is_some());
        match (given, named_argument.map(|(_, argument)| argument)) {
            (None, None) => parameter.default.is_some(),
            (Some(_), Some(_)) => false,
            (Some(argument), None) | (None, Some(argument)) => {
                takes(&parameter.ty, argument, conversions)
            }
        }
    };
    schema.parameters.iter().enumerate().all(has_value) && by_name == named.len()
}

/// Whether a parameter of type `kind` takes an argument.
fn takes(kind: &ArgType, argument: &ArgumentKind, conversions: Conversions) -> bool {
    use ArgumentKind as A;
    let implicit = conversions != Conversions::None;
    // Torch converts no elements of lists.
    let inside = if conversions == Conversions::Numbers { conversions } else { Conversions::None };
    match (kind, argument) {
        (_, A::Any) | (ArgType::Optional(_), A::None) => true,
        (ArgType::Optional(kind), _) => takes(kind, argument, conversions),
        (ArgType::Tensor, A::Tensor(_))
        | (ArgType::Int, A::Int)
        | (ArgType::Float, A::Float)
        | (ArgType::Complex, A::Complex)
        | (ArgType::Scalar, A::Int | A::Float | A::Complex)
        | (ArgType::Bool, A::Bool)
        | (ArgType::Text, A::Text)
        | (ArgType::Device, A::Device) => true,
        (
            ArgType::Int | ArgType::Float | ArgType::Complex | ArgType::Scalar,
            A::Tensor(None | Some(0)),
        )
        | (ArgType::Int | ArgType::Float | ArgType::Scalar, A::Bool)
        | (ArgType::Device, A::Text) => implicit,
        (ArgType::Int | ArgType::Float | ArgType::Complex, A::Int | A::Float | A::Complex) => {
            conversions == Conversions::Numbers
        }
        (ArgType::List(element, _), A::List(items) | A::Tuple(items)) => {
            items.iter().all(|item| takes(element, item, inside))
        }
        // One number for all elements of a list of fixed size.
        (ArgType::List(element, Some(_)), A::Int | A::Float) => {
            takes(element, argument, Conversions::None)
        }
        (ArgType::Tuple(kinds), A::Tuple(items)) => {
            kinds.len() == items.len()
                && kinds.iter().zip(items).all(|(kind, item)| takes(kind, item, conversions))
        }
        (ArgType::Dict(key, value), A::Dict(items)) => {
            items.iter().all(|(k, v)| takes(key, k, inside) && takes(value, v, inside))
        }
        (ArgType::Other(name), _) => takes_class(name, argument),
        _ => false,
    }
}

/// Whether a type variable (`t`, `t1`, `tVal`) or a class takes an argument.
fn takes_class(name: &str, argument: &ArgumentKind) -> bool {
    match (name, argument) {
        ("Any", _) | ("AnyEnumType", ArgumentKind::Enum) | ("NoneType", ArgumentKind::None) => true,
        ("AnyClassType", ArgumentKind::Object(_)) => true,
        (_, ArgumentKind::Object(class)) if **class == *name => true,
        _ => name.starts_with('t') && !name.contains('.'),
    }
}

fn unresolved(
    name: &str,
    positional: &[ArgumentKind],
    named: &[(&str, ArgumentKind)],
) -> Diagnostic {
    let candidates = overloads(name);
    if candidates.is_empty() {
        return Diagnostic::new(Code::LayerUnsupported, format!("torch has no operator `{name}`"));
    }
    let positional = positional.iter().map(ToString::to_string);
    let found: Vec<_> =
        positional.chain(named.iter().map(|(name, kind)| format!("{name}={kind}"))).collect();
    let known: Vec<_> = candidates.iter().map(|schema| format!("`{}`", schema.text)).collect();
    let message = format!(
        "no overload of `{name}` takes ({}); it has {}",
        found.join(", "),
        known.join(", ")
    );
    Diagnostic::new(Code::LayerParameter, message)
}

/// As in TorchScript: `List[int]`.
impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let word = match self {
            ArgumentKind::Tensor(_) => "Tensor",
            ArgumentKind::Int => "int",
            ArgumentKind::Float => "float",
            ArgumentKind::Bool => "bool",
            ArgumentKind::Complex => "complex",
            ArgumentKind::Text => "str",
            ArgumentKind::None => "None",
            ArgumentKind::Device => "Device",
            ArgumentKind::Enum => "Enum",
            ArgumentKind::Any => "Any",
            ArgumentKind::Object(class) => class,
            ArgumentKind::List(items) => return write!(f, "List[{}]", joined(items, " | ")),
            ArgumentKind::Tuple(items) => return write!(f, "Tuple[{}]", joined(items, ", ")),
            ArgumentKind::Dict(items) => {
                let items: Vec<_> =
                    items.iter().map(|(key, value)| format!("{key}, {value}")).collect();
                return write!(f, "Dict[{}]", items.join(" | "));
            }
        };
        f.write_str(word)
    }
}

fn joined(kinds: &[ArgumentKind], separator: &str) -> String {
    kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}
