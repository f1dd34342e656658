//! What is given to an operator: values of the graph, numbers, words.

use crate::Var;
use bytes::Bytes;
use onnxd_ir::{Attr, DataType, Tensor, ValueId};

/// What an input or an attribute of a node is given as. The operator table decides which of both it
/// becomes: a list of integers for `axes` of `Squeeze` is an attribute before opset 13 and an
/// initializer since.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A value of the graph.
    Var(Var),
    /// A value that was in the graph before.
    Value(ValueId),
    /// A number without element type: as an input it takes that of the other operands, else int64.
    Int(i64),
    /// Numbers of rank 1, otherwise as [`Operand::Int`].
    Ints(Vec<i64>),
    /// A number without element type: as an input it takes that of the other operands, else float32.
    Float(f64),
    /// Numbers of rank 1, otherwise as [`Operand::Float`].
    Floats(Vec<f64>),
    /// A word.
    Text(Bytes),
    /// Words.
    Texts(Vec<Bytes>),
    /// A constant.
    Tensor(Tensor),
    /// An attribute of another kind.
    Attr(Attr),
    /// Left out.
    Absent,
}

macro_rules! operands {
    ($($from:ty: $x:ident => $to:expr;)*) => {
        $(impl From<$from> for Operand {
            fn from($x: $from) -> Operand { $to }
        })*
    };
}

operands! {
    Var: x => Operand::Var(x);
    &Var: x => Operand::Var(*x);
    ValueId: x => Operand::Value(x);
    i64: x => Operand::Int(x);
    i32: x => Operand::Int(x.into());
    bool: x => Operand::Int(x.into());
    DataType: x => Operand::Int(x.number().into());
    f64: x => Operand::Float(x);
    f32: x => Operand::Float(x.into());
    Vec<i64>: x => Operand::Ints(x);
    &Vec<i64>: x => Operand::Ints(x.clone());
    &[i64]: x => Operand::Ints(x.to_vec());
    Vec<f32>: x => Operand::Floats(x.into_iter().map(f64::from).collect());
    &[f32]: x => Operand::Floats(x.iter().map(|x| f64::from(*x)).collect());
    &str: x => Operand::Text(Bytes::copy_from_slice(x.as_bytes()));
    String: x => Operand::Text(Bytes::from(x));
    Vec<String>: x => Operand::Texts(x.into_iter().map(Bytes::from).collect());
    Tensor: x => Operand::Tensor(x);
    Attr: x => Operand::Attr(x);
}

impl<const N: usize> From<[i64; N]> for Operand {
    fn from(x: [i64; N]) -> Operand {
        Operand::Ints(x.to_vec())
    }
}

impl<const N: usize> From<[f32; N]> for Operand {
    fn from(x: [f32; N]) -> Operand {
        Operand::from(x.as_slice())
    }
}

impl<T: Into<Operand>> From<Option<T>> for Operand {
    fn from(x: Option<T>) -> Operand {
        x.map_or(Operand::Absent, T::into)
    }
}

impl Operand {
    /// Whether it is a number without element type.
    pub(crate) fn is_number(&self) -> bool {
        match self {
            Operand::Int(_) | Operand::Ints(_) | Operand::Float(_) | Operand::Floats(_) => true,
            Operand::Attr(attr) => !matches!(attr, Attr::Tensor(_)),
            _ => false,
        }
    }

    /// The kind of attribute (a number of `AttributeProto.AttributeType`) that says it as it is.
    pub(crate) fn kind(&self) -> Option<i32> {
        Some(match self {
            Operand::Float(_) => 1,
            Operand::Int(_) => 2,
            Operand::Text(_) => 3,
            Operand::Tensor(_) => 4,
            Operand::Floats(_) => 6,
            Operand::Ints(_) => 7,
            Operand::Texts(_) => 8,
            Operand::Attr(attr) => attr.kind(),
            Operand::Var(_) | Operand::Value(_) | Operand::Absent => return None,
        })
    }

    /// The attribute of the kind `kind` (a number of `AttributeProto.AttributeType`) that says this;
    /// `None` if it is of another kind.
    pub(crate) fn to_attr(&self, kind: i32) -> Option<Attr> {
        let attr = match (self, kind) {
            (Operand::Int(x), 2) => Attr::Int(*x),
            (Operand::Int(x), 1) => Attr::Float(*x as f32),
            (Operand::Int(x), 7) => Attr::Ints(vec![*x]),
            (Operand::Ints(x), 7) => Attr::Ints(x.clone()),
            (Operand::Ints(x), 2) if x.len() == 1 => Attr::Int(x[0]),
            (Operand::Ints(x), 6) => Attr::Floats(x.iter().map(|x| *x as f32).collect()),
            (Operand::Float(x), 1) => Attr::Float(*x as f32),
            (Operand::Floats(x), 6) => Attr::Floats(x.iter().map(|x| *x as f32).collect()),
            (Operand::Floats(x), 1) if x.len() == 1 => Attr::Float(x[0] as f32),
            (Operand::Text(x), 3) => Attr::Str(x.clone()),
            (Operand::Texts(x), 8) => Attr::Strs(x.clone()),
            (Operand::Tensor(x), 4) => Attr::Tensor(x.clone()),
            (Operand::Tensor(x), _) => Operand::of_tensor(x)?.to_attr(kind)?,
            (Operand::Attr(x), _) if x.kind() == kind => x.clone(),
            (Operand::Attr(x), _) => Operand::of_attr(x)?.to_attr(kind)?,
            _ => return None,
        };
        Some(attr)
    }

    /// An attribute that numbers, words or a tensor can say.
    fn of_attr(attr: &Attr) -> Option<Operand> {
        Some(match attr {
            Attr::Int(x) => Operand::Int(*x),
            Attr::Ints(x) => Operand::Ints(x.clone()),
            Attr::Float(x) => Operand::Float(f64::from(*x)),
            Attr::Floats(x) => x.as_slice().into(),
            Attr::Str(x) => Operand::Text(x.clone()),
            Attr::Strs(x) => Operand::Texts(x.clone()),
            Attr::Tensor(x) => Operand::Tensor(x.clone()),
            _ => return None,
        })
    }

    /// The elements of a constant of rank 0 or 1.
    fn of_tensor(tensor: &Tensor) -> Option<Operand> {
        let scalar = tensor.rank() == 0;
        if tensor.rank() > 1 {
            return None;
        }
        if let Some(items) = tensor.to_i64s() {
            return Some(if scalar { Operand::Int(items[0]) } else { Operand::Ints(items) });
        }
        let items = tensor.to_reals()?.values;
        Some(if scalar { Operand::Float(items[0]) } else { Operand::Floats(items) })
    }

    /// The constant that says this, of the element type `dtype` if that is known; `None` if it is
    /// not a number, or none of that type.
    pub fn to_tensor(&self, dtype: Option<DataType>) -> Option<Tensor> {
        let (dims, ints, reals): (Vec<usize>, Option<Vec<i64>>, Vec<f64>) = match self {
            Operand::Tensor(tensor) => return Some(tensor.clone()),
            Operand::Attr(attr) => return Operand::of_attr(attr)?.to_tensor(dtype),
            Operand::Text(x) => return Tensor::strings(vec![], vec![x.clone()]).ok(),
            Operand::Texts(x) => return Tensor::strings(vec![x.len()], x.clone()).ok(),
            Operand::Int(x) => (vec![], Some(vec![*x]), vec![*x as f64]),
            Operand::Ints(x) => {
                (vec![x.len()], Some(x.clone()), x.iter().map(|x| *x as f64).collect())
            }
            Operand::Float(x) => (vec![], None, vec![*x]),
            Operand::Floats(x) => (vec![x.len()], None, x.clone()),
            _ => return None,
        };
        let default = if ints.is_some() { DataType::Int64 } else { DataType::Float };
        numbers(dims, ints, reals, dtype.unwrap_or(default))
    }
}

/// A constant of the element type `dtype`, which must have all these values.
pub(crate) fn numbers(
    dims: Vec<usize>,
    ints: Option<Vec<i64>>,
    reals: Vec<f64>,
    dtype: DataType,
) -> Option<Tensor> {
    if dtype.is_float() {
        return onnxd_ir::Reals { dims, values: reals }.to_tensor(dtype);
    }
    let bytes = dtype.bits() / 8;
    let whole = |x: &f64| x.fract() == 0.0 && x.abs() < 9e15;
    let ints = match ints {
        Some(ints) => ints,
        None if reals.iter().all(whole) => reals.iter().map(|x| *x as i64).collect(),
        None => return None,
    };
    let fits = (dtype.is_integer() || dtype == DataType::Bool) && bytes > 0;
    let data = ints.iter().flat_map(|x| x.to_le_bytes().into_iter().take(bytes));
    let tensor =
        Tensor::new(dtype, dims, data.collect::<Vec<u8>>().into()).ok().filter(|_| fits)?;
    let back = if dtype == DataType::Bool { None } else { tensor.to_i64s() };
    back.is_none_or(|back| back == ints).then_some(tensor)
}
