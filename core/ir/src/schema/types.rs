//! Sets of allowed types.

use crate::{DataType, ValueType};
use std::fmt;

/// A set of types, as the standard's constraints list them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeSet {
    /// Element types of tensors, one bit per number.
    tensors: u64,
    /// Element types of sequences of tensors.
    sequences: u64,
    /// Element types of optional tensors.
    optionals: u64,
    /// Element types of optional sequences of tensors.
    optional_sequences: u64,
    /// The others as text, without blanks; also element types that [`DataType`] does not have.
    others: Vec<&'static str>,
}

fn bit(dtype: DataType) -> u64 {
    1 << dtype.number()
}

impl TypeSet {
    /// Adds one type in the standard's notation: `float`, `seq(tensor(float))`, `map(int64,float)`.
    pub(super) fn add(&mut self, text: &'static str) {
        let inside = |prefix: &str, suffix: &str| {
            DataType::parse(text.strip_prefix(prefix)?.strip_suffix(suffix)?)
        };
        if let Some(dtype) = inside("", "") {
            self.tensors |= bit(dtype);
        } else if let Some(dtype) = inside("seq(tensor(", "))") {
            self.sequences |= bit(dtype);
        } else if let Some(dtype) = inside("optional(tensor(", "))") {
            self.optionals |= bit(dtype);
        } else if let Some(dtype) = inside("optional(seq(tensor(", ")))") {
            self.optional_sequences |= bit(dtype);
        } else {
            self.others.push(text);
        }
    }

    /// Whether a value of type `ty` is allowed, as far as is known: what is not known is allowed.
    pub fn allows(&self, ty: &ValueType) -> bool {
        let element = |bits: u64, ty: &ValueType| match ty {
            ValueType::Tensor { dtype, .. } => match dtype {
                Some(dtype) => Some(bits & bit(*dtype) != 0),
                None => Some(bits != 0),
            },
            _ => None,
        };
        match ty {
            ValueType::Tensor { .. } => element(self.tensors, ty),
            ValueType::Sequence(of) => element(self.sequences, of),
            ValueType::Optional(of) => match &**of {
                ValueType::Sequence(of) => element(self.optional_sequences, of),
                of => element(self.optionals, of),
            },
            // Sparse tensors and opaque types appear in no constraint.
            ValueType::Sparse { .. } | ValueType::Opaque { .. } => Some(true),
            ValueType::Map(..) => None,
        }
        .unwrap_or_else(|| self.others.contains(&written(ty).as_str()))
    }

    /// The one element type of tensors that it allows, if it allows nothing else.
    pub fn only_tensor(&self) -> Option<DataType> {
        let other = self.sequences | self.optionals | self.optional_sequences;
        if other != 0 || !self.others.is_empty() {
            return None;
        }
        let mut allowed = DataType::ALL.iter().filter(|t| self.tensors & bit(**t) != 0);
        allowed.next().copied().filter(|_| allowed.next().is_none())
    }
}

/// A type as the constraints write it.
fn written(ty: &ValueType) -> String {
    match ty {
        ValueType::Tensor { dtype, .. } => {
            format!("tensor({})", dtype.map_or("undefined", DataType::word))
        }
        ValueType::Sequence(of) => format!("seq({})", written(of)),
        ValueType::Optional(of) => format!("optional({})", written(of)),
        ValueType::Map(key, of) => {
            let of = written(of);
            let of = of.strip_prefix("tensor(").and_then(|t| t.strip_suffix(')')).unwrap_or(&of);
            format!("map({key},{of})")
        }
        other => other.to_string(),
    }
}

/// For messages: `float, double or int64`.
impl fmt::Display for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Vec::new();
        let kinds = [
            (self.tensors, "", ""),
            (self.sequences, "seq(", ")"),
            (self.optionals, "optional(", ")"),
            (self.optional_sequences, "optional(seq(", "))"),
        ];
        for (bits, open, close) in kinds {
            let set = DataType::ALL.iter().filter(|t| bits & bit(**t) != 0);
            names.extend(set.map(|t| format!("{open}{t}{close}")));
        }
        names.extend(self.others.iter().map(ToString::to_string));
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => write!(f, "{} or {last}", rest.join(", ")),
            Some((last, _)) => f.write_str(last),
            None => f.write_str("nothing"),
        }
    }
}
