//! Types of values: tensors with (partly) known shapes, sequences, optionals, maps.

use crate::DataType;
use crate::text::Id;
use std::fmt;
use std::sync::Arc;

/// One dimension of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known size.
    Known(i64),
    /// A named size that is equal wherever the name appears (`batch`).
    Symbol(Arc<str>),
    /// Nothing is known.
    Unknown,
}

impl Dim {
    /// The size, if known.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(*n),
            _ => None,
        }
    }

    /// Whether both are known to be equal.
    pub fn same(&self, other: &Dim) -> bool {
        *self != Dim::Unknown && self == other
    }

    /// It divided by `by`, which is more than 0, and rounded down, as inference computes sizes.
    #[must_use]
    pub fn over(&self, by: i64) -> Dim {
        crate::infer::floor(self, &Dim::Known(by))
    }

    /// Whether it is more than 0 in every run. A symbol may be 0, but not one plus 1, as inference computes sizes.
    pub fn is_positive(&self) -> bool {
        crate::infer::is_positive(self)
    }

    /// Whether it depends on a size without name that inference numbered `since` or later.
    pub fn is_numbered(&self, since: usize) -> bool {
        crate::infer::is_fresh(self, since)
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::Known(n)
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::Symbol(name.into())
    }
}

/// Sizes of all axes, outermost first.
pub type Shape = Vec<Dim>;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A tensor; without a shape not even its rank is known.
    Tensor {
        /// Element type; `None` if only the kind is declared.
        dtype: Option<DataType>,
        /// Sizes, outermost axis first.
        shape: Option<Shape>,
    },
    /// A sparse tensor.
    Sparse {
        /// Element type of the values.
        dtype: Option<DataType>,
        /// Sizes of the dense tensor it stands for.
        shape: Option<Shape>,
    },
    /// A list of values of one type.
    Sequence(Box<ValueType>),
    /// A value that may be absent.
    Optional(Box<ValueType>),
    /// A map from an integer or string type.
    Map(DataType, Box<ValueType>),
    /// A type outside the standard.
    Opaque {
        /// Domain of the type.
        domain: String,
        /// Its name.
        name: String,
    },
}

impl ValueType {
    /// A tensor with a shape.
    pub fn tensor(dtype: DataType, shape: impl IntoIterator<Item = impl Into<Dim>>) -> ValueType {
        let shape = Some(shape.into_iter().map(Into::into).collect());
        ValueType::Tensor { dtype: Some(dtype), shape }
    }

    /// A tensor of unknown rank.
    pub fn unranked(dtype: DataType) -> ValueType {
        ValueType::Tensor { dtype: Some(dtype), shape: None }
    }

    /// Element type, if this is a tensor with a known one.
    pub fn dtype(&self) -> Option<DataType> {
        match self {
            ValueType::Tensor { dtype, .. } => *dtype,
            _ => None,
        }
    }

    /// Shape, if this is a tensor of known rank.
    pub fn shape(&self) -> Option<&[Dim]> {
        match self {
            ValueType::Tensor { shape, .. } => shape.as_deref(),
            _ => None,
        }
    }

    /// All sizes, if this is a tensor whose shape is completely known.
    pub fn dims(&self) -> Option<Vec<i64>> {
        self.shape()?.iter().map(Dim::known).collect()
    }

    /// What is known of a value that is of this type or the other; `None` if it may be of two kinds.
    pub fn either(&self, other: &ValueType) -> Option<ValueType> {
        match (self, other) {
            (
                ValueType::Tensor { dtype: a, shape: s },
                ValueType::Tensor { dtype: b, shape: t },
            ) => {
                let dtype = a.filter(|a| *b == Some(*a));
                let size = |(x, y): (&Dim, &Dim)| if x.same(y) { x.clone() } else { Dim::Unknown };
                let shape = match (s, t) {
                    (Some(s), Some(t)) if s.len() == t.len() => {
                        Some(s.iter().zip(t).map(size).collect())
                    }
                    _ => None,
                };
                Some(ValueType::Tensor { dtype, shape })
            }
            (ValueType::Sequence(a), ValueType::Sequence(b)) => {
                Some(ValueType::Sequence(Box::new(a.either(b)?)))
            }
            (ValueType::Optional(a), ValueType::Optional(b)) => {
                Some(ValueType::Optional(Box::new(a.either(b)?)))
            }
            (a, b) => (a == b).then(|| a.clone()),
        }
    }
}

fn write_shape(f: &mut fmt::Formatter<'_>, shape: Option<&Shape>) -> fmt::Result {
    match shape {
        None => f.write_str("[]"),
        Some(dims) if dims.is_empty() => Ok(()),
        Some(dims) => {
            f.write_str("[")?;
            for (i, dim) in dims.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                match dim {
                    Dim::Known(n) => write!(f, "{comma}{n}")?,
                    Dim::Symbol(s) => write!(f, "{comma}{}", Id(s))?,
                    Dim::Unknown => write!(f, "{comma}?")?,
                }
            }
            f.write_str("]")
        }
    }
}

/// ONNX text: `float[batch,3,224,224]`, `float[]` for unknown rank, `float` for a scalar.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |d: &Option<DataType>| d.map_or("undefined", DataType::word);
        match self {
            ValueType::Tensor { dtype, shape } => {
                f.write_str(word(dtype))?;
                write_shape(f, shape.as_ref())
            }
            ValueType::Sparse { dtype, shape } => {
                write!(f, "sparse_tensor({}", word(dtype))?;
                write_shape(f, shape.as_ref())?;
                f.write_str(")")
            }
            ValueType::Sequence(of) => write!(f, "seq({of})"),
            ValueType::Optional(of) => write!(f, "optional({of})"),
            ValueType::Map(key, of) => write!(f, "map({key}, {of})"),
            ValueType::Opaque { domain, name } => write!(f, "opaque({domain}, {name})"),
        }
    }
}
